//! `fxtrec daemon --alert`: when a condition is met, the events before it are in a file.

use std::collections::BTreeSet;
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::wait;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

const PINGPONG: &str = env!("CARGO_BIN_EXE_pingpong");
const SPIKE: &str = env!("CARGO_BIN_EXE_spike");

/// A daemon with alerts. Killed when dropped.
struct Alerted {
    process: Process,
    folder: Folder,
}

impl Alerted {
    fn start(options: &[&str]) -> Alerted {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("alerts")).expect("a folder");
        let mut command = binary::command();
        command.arg("daemon").arg("--runtime-dir").arg(folder.path("run"));
        command.arg("--alert-dir").arg(folder.path("alerts")).args(options);
        Alerted { process: Process::start(command.stderr(Stdio::piped())), folder }
    }

    /// Its next line that contains `part`.
    fn line(&mut self, part: &str) -> String {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let got = self.process.stderr().read_line(&mut line).expect("it says text");
            assert!(got > 0, "no {part}: {said}");
            if line.contains(part) {
                return line.trim_end().to_owned();
            }
            said += &line;
        }
    }

    /// The file that it reports to have written.
    fn written(&mut self) -> PathBuf {
        let line = self.line(" written to ");
        line.split_once(" written to ").expect("a path").1.into()
    }

    /// Its child processes.
    fn recorders(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id()));
        for thread in threads.expect("its threads") {
            let list = thread.expect("a thread").path().join("children");
            // The thread may have ended.
            let list = std::fs::read_to_string(list).unwrap_or_default();
            found.extend(
                list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw),
            );
        }
        found
    }

    /// The existing snapshots, without the file that the recorder writes at its end.
    fn files(&self) -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path("alerts")).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_snapshot = |path: &PathBuf| {
            path.file_name().expect("a name").to_string_lossy().split('.').count() == 4
        };
        paths.filter(is_snapshot).collect()
    }
}

impl Drop for Alerted {
    fn drop(&mut self) {
        self.process.signal(Signal::SIGTERM);
        self.process.finish();
    }
}

/// The daemon's metrics for Prometheus.
fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// How many switches of threads with this name a file has.
fn switches_of(path: &Path, name: &str) -> usize {
    let trace = Trace::read(path);
    trace.assert_sound();
    let named = |koid: &u64| trace.threads.get(koid).is_some_and(|(comm, _)| comm == name);
    trace.switches.iter().filter(|switch| named(&switch.outgoing)).count()
}

#[test]
fn a_statistic_over_its_limit_has_what_led_to_it_written_and_not_again_too_soon() {
    if !may_record() {
        return;
    }
    let Some(group) = Quota::new("alerts", 100_000_000) else {
        return skip("no cgroup may be made here");
    };
    let alert = format!("slice.count > 100 if cgroup = '{}'", group.name);
    let options =
        ["--metrics", "0", "--alert", &alert, "--alert-every", "1s", "--alert-buffer", "8M"];
    let mut daemon = Alerted::start(&[&options[..], &["--alert-interval", "1h"]].concat());
    let metrics = daemon.line("metrics at");
    let words = group.words(&[PINGPONG, "forever"]);
    let mut pingpong = Process::start_ready(Command::new(&words[0]).args(&words[1..]));
    let said = daemon.line(&alert);
    assert!(said.contains(&format!("most in {}", group.name)), "{said}");
    let path = daemon.written();
    // Once an hour is enough, whatever else happens.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    pingpong.kill();
    assert_eq!(daemon.files(), BTreeSet::from([path.clone()]));
    let (_, address) = metrics.split_once("http://").expect("an address");
    let scraped = scrape(address.strip_suffix("/metrics").expect("a path"));
    let counter = format!("fxtrec_alert_files_total{{alert=\"{alert}\"}} 1.0\n");
    assert!(scraped.contains(&counter), "{scraped}");
    assert!(switches_of(&path, "pingpong") > 100);
}

#[test]
fn incidents_are_counted_by_their_cause() {
    if !may_record() {
        return;
    }
    let options = ["--metrics", "0", "--incidents", "30ms", "--alert", "runqueue > 1h"];
    let mut daemon = Alerted::start(&options);
    let metrics = daemon.line("metrics at");
    let (_, address) = metrics.split_once("http://").expect("an address");
    let address = address.strip_suffix("/metrics").expect("a path");
    let count = |cause: &str| -> f64 {
        let scraped = scrape(address);
        let series = format!("fxtrec_incidents_total{{cause=\"{cause}\"}} ");
        let value = scraped.lines().find_map(|line| line.strip_prefix(&series));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {cause}: {scraped}"))
    };
    assert_eq!(count("runqueue"), 0.0, "the series exists before the first incident");
    let mut spike = Command::new(SPIKE);
    let mut spike = Process::start(spike.args(["1000", "tardier"]).stdout(Stdio::piped()));
    spike.stdout().read_line(&mut String::new()).expect("it says that it has begun");
    wait::until("an incident is counted", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        count("runqueue") >= 1.0
    });
    spike.kill();
}

#[test]
fn a_value_over_its_limit_has_its_window_written_and_the_oldest_file_makes_room() {
    if !may_record() {
        return;
    }
    let alert = "slice > 1ns if comm = 'sleep'";
    let interval = ["--alert-interval", "2s", "--alert-budget", "1", "--alert-buffer", "8M"];
    let mut daemon = Alerted::start(&[&["--alert", alert][..], &interval].concat());
    daemon.line("clients at");
    let script = "while :; do sleep 0.05; done";
    let mut sleeper = Process::start(Command::new("sh").args(["-c", script]));
    let paths = [daemon.written(), daemon.written()];
    sleeper.kill();
    assert_ne!(paths[0], paths[1]);
    assert!(!paths[0].exists(), "it made room for the next");
    assert!(switches_of(daemon.files().last().expect("the newest stays"), "sleep") > 0);
}

#[test]
fn the_recorder_of_a_daemon_that_is_killed_ends_with_a_readable_file_and_the_next_one_names_it() {
    if !may_record() {
        return;
    }
    let alert = "slice > 1ns if comm = 'sleep'";
    let options = ["--alert", alert, "--alert-interval", "1h", "--alert-buffer", "8M"];
    let mut killed = Alerted::start(&options);
    let script = "while :; do sleep 0.05; done";
    let mut sleeper = Process::start(Command::new("sh").args(["-c", script]));
    // It records.
    let snapshot = killed.written();
    killed.process.signal(Signal::SIGKILL);
    let alerts = killed.folder.path("alerts");
    // The file with the content of memory: the name without a number. A recorder that has too little time ends at a complete record.
    let last = snapshot.with_file_name({
        let name = snapshot.file_name().expect("a name").to_string_lossy().into_owned();
        name.replace(".1.fxt.zst", ".fxt.zst")
    });
    let checked = || {
        let path = last.to_str().expect("a plain path");
        // Its head alone is a trace, too.
        let is_done = |words: &[&str]| killed.folder.fxtrec(words.iter().copied()).code == 0;
        is_done(&["dump", "--check", path]) && is_done(&["report", path, "--comm", "sleep"])
    };
    wait::until("the recorder's file", || last.exists() && checked());
    sleeper.kill();
    for path in [&last, &snapshot] {
        let path = path.to_str().expect("a plain path");
        let report = killed.folder.fxtrec(["report", path, "--comm", "sleep"]).expect(0).stdout;
        assert!(report.contains("sleep:"), "{report}");
    }
    let mut command = binary::command();
    command.arg("daemon").arg("--runtime-dir").arg(killed.folder.path("run"));
    command.arg("--alert-dir").arg(&alerts).args(options);
    let mut next = Process::start(command.stderr(Stdio::piped()));
    let mut said = String::new();
    while !said.contains("from earlier runs") {
        assert!(next.stderr().read_line(&mut said).expect("text") > 0, "{said}");
    }
    let (folder, last) = (alerts.display(), last.display());
    let named = format!("found 2 files from earlier runs in {folder}; the newest is {last}");
    assert!(said.contains(&named), "{said}");
    next.signal(Signal::SIGTERM);
    assert!(next.finish().success());
}

#[test]
fn a_recorder_that_was_killed_is_started_again_and_metrics_say_when_there_is_none() {
    if !may_record() {
        return;
    }
    let alert = "slice > 1ns if comm = 'sleep'";
    let options = ["--metrics", "0", "--alert", alert, "--alert-interval", "1s"];
    let mut daemon = Alerted::start(&[&options[..], &["--alert-buffer", "8M"]].concat());
    let metrics = daemon.line("metrics at");
    let (_, address) = metrics.split_once("http://").expect("an address");
    let address = address.strip_suffix("/metrics").expect("a path").to_owned();
    let script = "while :; do sleep 0.05; done";
    let mut sleeper = Process::start(Command::new("sh").args(["-c", script]));
    let first = daemon.written();
    assert!(scrape(&address).contains("fxtrec_alert_recording 1.0\n"));
    let recorders = daemon.recorders();
    let [recorder] = recorders[..] else { panic!("one recorder, not {recorders:?}") };
    nix::sys::signal::kill(recorder, Signal::SIGKILL).expect("it runs");
    let said = daemon.line("no alerts");
    assert!(said.contains("the recorder has ended (signal: 9"), "{said}");
    assert!(said.contains("it starts again in 2 s"), "{said}");
    wait::until("the metric", || scrape(&address).contains("fxtrec_alert_recording 0.0\n"));
    daemon.line("alerts again");
    let next = daemon.written();
    sleeper.kill();
    assert_ne!(first, next);
    assert!(switches_of(&next, "sleep") > 0);
    assert!(scrape(&address).contains("fxtrec_alert_recording 1.0\n"));
    // The killed recorder leaves no empty file.
    let killed = first.to_str().expect("a plain path").replace(".1.fxt.zst", ".fxt.zst");
    assert!(!Path::new(&killed).exists(), "{killed}");
}

#[test]
fn what_the_daemon_cannot_look_at_is_refused_before_it_starts() {
    let folder = Folder::new();
    let refused = |options: &[&str]| {
        let with = ["daemon", "--runtime-dir", "run", "--alert-dir", "."];
        folder.fxtrec(with.iter().chain(options)).expect(125).stderr
    };
    for (alert, options, why) in [
        ("wakeup.p99 > 1ms", &[][..], "add --metrics"),
        (
            "wakeup.p99 > 1ms if comm = 'a'",
            &["--metrics", "0"],
            "counts by name need --metrics-comm",
        ),
    ] {
        let said = refused(&[&["--alert", alert][..], options].concat());
        assert!(said.contains(why), "{said}");
    }
    let usage = folder.fxtrec(["daemon", "--alert-dir", ".", "--alert", "wakeup.min > 1ms"]);
    assert!(usage.stderr.contains("is not counted in the kernel"), "{}", usage.stderr);
    assert_ne!(usage.code, 0);
}
