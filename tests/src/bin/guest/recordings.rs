//! The records of each source, compared with the kernel's own counts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fxt_reader::ThreadState;
use fxt_reader::record::EventKind;
use fxtrec_tests::archive::Archive;
use fxtrec_tests::binary;
use fxtrec_tests::event::Event;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::hotplug::Pluggable;
use fxtrec_tests::programs::{build, succeed};
use fxtrec_tests::recording::{Ongoing, Recording, record};
use fxtrec_tests::trace::Trace;
use fxtrec_tests::workload::threads;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::Outcome;

/// A program of this package, which is in the parent directory of the running one.
pub(crate) fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    let profile = own.ancestors().nth(2).expect("it is in deps/");
    profile.join(name)
}

pub(crate) fn workload() -> String {
    program("workload").into_os_string().into_string().expect("a plain path")
}

/// Records COMMAND, unless the kernel refuses that first.
///
/// # Panics
/// When the recording is incomplete.
pub(crate) fn record_or_refused(
    mut fxtrec: Command,
    folder: &Folder,
    options: &[&str],
    command: &[&str],
) -> Result<Recording, Outcome> {
    let started = folder.path("started");
    // Shows whether COMMAND was started.
    let script = format!("echo >{}; exec \"$@\"", started.display());
    fxtrec.args(["-o", "t.fxt"]).args(options).args(["--", "sh", "-c", &script, "sh"]);
    let done = folder.run(fxtrec.args(command));
    if done.code == 125 && !started.exists() {
        let said = done.stderr.trim_start_matches("fxtrec: ");
        return Err(Outcome::Refused(said.to_owned()));
    }
    let done = done.expect(0);
    Ok(Recording::read(&folder.path("t.fxt"), done.stdout, done.stderr))
}

/// The same for this user, with a given source.
fn by_source(source: &str, options: &[&str], command: &[&str]) -> Result<Recording, Outcome> {
    let options = [&["--source", source], options].concat();
    record_or_refused(binary::command(), &Folder::new(), &options, command)
}

/// Asserts that each switch that the kernel counted for a thread of the workload is in the trace. Returns how many.
pub(crate) fn compare(recording: &Recording) -> u64 {
    let threads = threads(&recording.printed);
    assert!(!threads.is_empty(), "the workload printed nothing: {}", recording.said);
    for thread in &threads {
        assert_eq!(
            thread.outs(&recording.trace),
            thread.switches,
            "{thread:?}: {}",
            recording.said
        );
    }
    threads.iter().map(|thread| thread.switches).sum()
}

pub(crate) fn doctor() -> Outcome {
    let done = Folder::new().fxtrec(["doctor"]);
    let row = |name: &str| {
        let found = done.stdout.lines().find_map(|line| {
            let (status, rest) = line.split_once(' ')?;
            rest.trim_start().starts_with(name).then(|| status.to_owned())
        });
        found.unwrap_or_else(|| panic!("doctor has no row {name}: {}", done.stdout))
    };
    println!("{}", done.stdout);
    let rows = ["perf events", "ftrace", "BPF programs", "idle task"];
    let text: Vec<String> = rows.iter().map(|name| format!("{name} {}", row(name))).collect();
    assert_eq!(done.code, 0, "{}", done.stdout);
    // Doctor's verdict about a source agrees with the result of a recording.
    for (name, source) in [("perf events", "perf"), ("ftrace", "ftrace"), ("BPF programs", "bpf")] {
        let recorded = by_source(source, &[], &["true"]).map(drop);
        match (row(name).as_str(), recorded) {
            ("ok", Ok(())) => {}
            ("ok", Err(said)) => panic!("doctor praises {source}, and {said:?}"),
            (_, Ok(())) => panic!("doctor warns of {source}, which records: {}", done.stdout),
            (_, Err(_)) => {}
        }
    }
    Outcome::Fine(text.join(", "))
}

pub(crate) fn switches(source: &str) -> Outcome {
    let command = [&workload(), "threads", "3", "2000"];
    match by_source(source, &[], &command) {
        Ok(recording) => {
            let counted = compare(&recording);
            let spurious = recording.trace.stats().number("spurious_wakeups");
            let inferred = recording.trace.stats().number("inferred_switches");
            Outcome::Fine(format!(
                "{counted} switches of the workload counted by the kernel, all in the trace; of all threads {inferred} inferred, {spurious} wakeups spurious"
            ))
        }
        Err(refused) => refused,
    }
}

/// A soft limit of open files that is too low for the CPUs: fxtrec raises its own, and COMMAND keeps the original.
pub(crate) fn limits() -> Outcome {
    const FILES: u64 = 20;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, FILES, hard).expect("it may be lower");
    let inner = format!("ulimit -n >&2; exec {} threads 1 500", workload());
    let mut text = Vec::new();
    for source in ["bpf", "perf", "ftrace"] {
        let recording = match by_source(source, &[], &["sh", "-c", &inner]) {
            Ok(recording) => recording,
            Err(Outcome::Refused(said)) if source == "bpf" => {
                assert!(!said.contains("open files"), "it is refused for another reason: {said}");
                text.push("bpf is refused here as always".to_owned());
                continue;
            }
            Err(refused) => return refused,
        };
        let kept = recording.said.lines().any(|line| line.trim() == FILES.to_string());
        assert!(kept, "COMMAND has a limit of {FILES}: {}", recording.said);
        // Without enough programs, interrupts would be left out.
        let facts = recording.trace.info().arg("causes");
        assert!(source != "bpf" || facts.contains("irq"), "{facts}");
        text.push(format!("{source}: {} switches", compare(&recording)));
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("it may be as high as the hard one");
    Outcome::Fine(format!("with a soft limit of {FILES} files, {}", text.join(", ")))
}

/// Without a requested source, fxtrec finds one that works, and names it if it is not the default.
pub(crate) fn fallback() -> Outcome {
    fallback_of(binary::command(), None)
}

/// The same with this command, which must use that source.
pub(crate) fn fallback_of(fxtrec: Command, next: Option<&str>) -> Outcome {
    let command = [&workload(), "threads", "1", "500"];
    let recording = match record_or_refused(fxtrec, &Folder::new(), &[], &command) {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    let says = recording.said.lines().find_map(|line| line.split_once("using --source "));
    let says = says.map_or("the usual source", |(_, rest)| rest);
    // Events that only the default source sees.
    let is_usual = recording.trace.info().arg("causes").contains("irq");
    assert_eq!(is_usual, says == "the usual source", "{}", recording.said);
    if let Some(next) = next {
        assert!(says.starts_with(next), "{next}: {}", recording.said);
    }
    Outcome::Fine(format!("{} switches; {says}", compare(&recording)))
}

/// The same for the workload's threads only.
pub(crate) fn scope(source: &str) -> Outcome {
    let command = [&workload(), "threads", "1", "500"];
    match by_source(source, &["--scope", "app"], &command) {
        Ok(recording) => Outcome::Fine(format!("{} switches", compare(&recording))),
        Err(refused) => refused,
    }
}

/// Threads that live for microseconds: each is in the trace, and ends.
pub(crate) fn brief() -> Outcome {
    const THREADS: usize = 300;
    let recording = record(&[], &[&workload(), "brief", &THREADS.to_string()]);
    let trace = &recording.trace;
    let is_ours = |process: &u64| trace.processes.get(process).is_some_and(|n| n == "workload");
    let ours =
        trace.threads.iter().filter(|(_, (name, process))| name == "workload" && is_ours(process));
    let ours: Vec<u64> = ours.map(|(koid, _)| *koid).collect();
    assert!(ours.len() >= THREADS, "{} threads: {}", ours.len(), recording.said);
    let is_end = |state| matches!(state, ThreadState::Dying | ThreadState::Dead);
    let ended = ours.iter().filter(|koid| trace.outs(**koid).any(|out| is_end(out.state)));
    assert_eq!(ended.count(), ours.len(), "all of them ended");
    Outcome::Fine(format!("{} threads, each with its end", ours.len()))
}

/// Names that threads give themselves, and those of programs.
pub(crate) fn renames(source: &str) -> Outcome {
    let recording = match by_source(source, &[], &[&workload(), "names"]) {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    let mut seen = 0;
    for line in recording.lines() {
        let koid: u64 = line[1].parse().expect("a number");
        let expected = match line[0] {
            "plain" => "plain",
            "long" => "0123456789abcde",
            "latin" => "bad\u{fffd}\u{fffd}utf8",
            "exec" => "sleep",
            "main" => "workload",
            _ => continue,
        };
        assert_eq!(recording.trace.threads[&koid].0, expected, "{line:?}");
        seen += 1;
    }
    assert_eq!(seen, 5, "{}", recording.printed);
    Outcome::Fine("names set by prctl and by exec".to_owned())
}

/// USDT probes with arguments, and their guards.
pub(crate) fn usdt() -> Outcome {
    const TIMES: u64 = 15;
    let program = build("usdt.c", &[]);
    let unseen = succeed(Command::new(program.path()).arg(TIMES.to_string()));
    assert_eq!(unseen, "0\n", "the guard is shut");
    let times = TIMES.to_string();
    let recording = record(&["-P", ":usdt:app:*"], &[program.text(), &times]);
    assert_eq!(recording.printed, format!("{TIMES}\n"), "the guard is open");
    let numbers: Vec<String> = (0..TIMES).map(|n| n.to_string()).collect();
    assert_eq!(recording.values("app:tick", "arg1"), numbers);
    let squares: Vec<String> = (0..TIMES).map(|n| (n * n).to_string()).collect();
    assert_eq!(recording.values("app:guarded", "arg1"), squares);
    Outcome::Fine(format!("{TIMES} hits of each probe, with their arguments; the guard opened"))
}

/// Durations of a function with its argument and return value. A thread need not sleep in them: on an emulated machine a millisecond may be
/// over before it sleeps.
pub(crate) fn span() -> Outcome {
    const CALLS: usize = 10;
    let program = build("spans.c", &[]);
    let probe = ["-P", ":nap%span n=arg1:s32 after=ret:s32"];
    let recording = record(&probe, &[program.text(), "nap", "3", &CALLS.to_string()]);
    let threads: BTreeSet<u64> = recording.named("nap").map(|hit| hit.thread).collect();
    assert_eq!(threads.len(), 3);
    for thread in threads {
        let own: Vec<&Event> = recording.named("nap").filter(|hit| hit.thread == thread).collect();
        assert_eq!(own.len(), CALLS * 2);
        for (n, pair) in own.chunks(2).enumerate() {
            let [begin, end] = pair else { panic!("an odd number of hits") };
            assert!(begin.begins() && end.ends() && begin.time < end.time, "{pair:?}");
            assert_eq!(begin.arg("n"), n.to_string());
            assert_eq!(end.arg("after"), (n + 1).to_string());
        }
    }
    assert_eq!(recording.probe_count("unfinished") + recording.probe_count("inferred_ends"), 0);
    Outcome::Fine(format!("{CALLS} calls by each of 3 threads, with argument and result"))
}

/// A circular recording in which a thread that is late three times causes a file.
pub(crate) fn trigger() -> Outcome {
    const LATE: u64 = 40_000_000;
    let folder = Folder::new();
    let options = "--mode circular --buffer-size 8M --before 300ms --after 20ms --max-snapshots 1";
    let mut command = binary::command();
    command.args(options.split(' '));
    command.args(["--trigger", "wakeup > 40ms if comm = \"latecomer\"", "-o", "late.fxt"]);
    let done = folder.run(command.args(["--", &workload(), "late", "3", "60"])).expect(0);
    let trace = Trace::read(&folder.path("late.1.fxt"));
    trace.assert_sound();
    let mark = trace.own.iter().find(|event| event.name == "trigger");
    let mark = mark.unwrap_or_else(|| panic!("no trigger in the window: {}", done.stderr));
    let (thread, late) = (mark.number("thread"), mark.number("value_ns"));
    assert_eq!(trace.threads[&thread].0, "latecomer");
    let came_in = trace.switches.iter().find(|s| s.incoming == thread && s.time == mark.time);
    assert!(came_in.is_some(), "it fires when the thread gets its CPU: {mark:?}");
    let woken = trace.wakeups.iter().rfind(|w| w.thread == thread && w.time <= mark.time);
    let waited = mark.time - woken.expect("the window holds the wakeup").time;
    assert_eq!(waited, late, "{mark:?}");
    assert!(waited > LATE, "{waited}");
    Outcome::Fine(format!("late by {waited} ns, and the file holds the wait"))
}

/// An application's own events, in one trace with the scheduler's.
pub(crate) fn provider() -> Outcome {
    const SPANS: usize = 20;
    let folder = Folder::new();
    let spans = program("spans");
    let mut command = binary::command();
    command.args(["-o", "t.fxt", "--"]).arg(spans).args(["sleeps", "2", "10"]);
    let done = folder.run(&mut command).expect(0);
    assert_eq!(done.stdout.lines().count(), SPANS, "{}", done.stderr);
    let path = folder.path("t.fxt");
    Trace::read(&path).assert_sound();
    let provider = Archive::read(&path).only();
    let naps = provider.events.iter().filter(|event| event.name == "nap");
    // A span is one event, or one for each end.
    let halves = naps.map(|nap| match nap.kind {
        EventKind::DurationComplete { .. } => 2,
        _ => 1,
    });
    assert_eq!(halves.sum::<usize>(), SPANS * 2, "{:?}", provider.events);
    assert_eq!(provider.stats["dropped"], 0);
    Outcome::Fine(format!("{SPANS} spans of 2 threads"))
}

/// A CPU goes offline and online again, at once and later; a second afterwards everything is recorded as before.
pub(crate) fn hotplug(source: &str) -> Outcome {
    let pluggable = Pluggable::find().expect("CI lets no check be skipped");
    let folder = Folder::new();
    let started = Ongoing::start(&folder.path("t.fxt"), &["--source", source]);
    let recorder = match started {
        Ok(recorder) => recorder,
        Err(said) => return Outcome::Refused(said.trim_start_matches("fxtrec: ").to_owned()),
    };
    let mut runs = Vec::new();
    for away in [0, 100, 1500] {
        let away = pluggable.away_for(Duration::from_millis(away));
        std::thread::sleep(Duration::from_secs(1));
        let command = [&pluggable.cpu.to_string(), &workload(), "threads", "1", "300"];
        let printed = succeed(Command::new("taskset").arg("-c").args(command));
        runs.push((away, threads(&printed)));
    }
    let (path, said) = recorder.stop();
    let trace = Trace::read(&path);
    trace.assert_sound();
    let mut counted = 0;
    for (away, threads) in runs {
        let middle = away.start + (away.end - away.start) / 2;
        let mut here = trace.switches.iter().filter(|switch| switch.cpu == pluggable.cpu);
        let before = here.rfind(|switch| switch.time <= middle);
        let before = before.expect("it was recorded before");
        // If a CPU is back before fxtrec is notified, nothing may report that it was offline.
        if away.end - away.start >= 50_000_000 {
            assert_eq!(before.incoming, 0, "{before:?} has a CPU that is away: {away:?}");
        }
        for thread in threads {
            assert_eq!(thread.outs(&trace), thread.switches, "{thread:?}: {said}");
            counted += thread.switches;
        }
    }
    let count = |name: &str| trace.own.iter().filter(|event| event.name == name).count();
    assert_eq!((count("cpu_offline") >= 1, count("cpu_online") >= 1), (true, true), "{said}");
    Outcome::Fine(format!("away for a moment, 0.1 s and 1.5 s; {counted} switches afterwards"))
}
