//! Events are lost because something keeps fxtrec from reading, and it reports the cause.
//!
//! Rings are small here, so that small amounts of everything are enough.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::event::Event;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::Process;
use fxtrec_tests::recording::record_by_each;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::wait;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

const SMALL: [&str; 2] = ["--ring-size", "64K"];

/// Many more switches than small rings hold.
fn much_happens() {
    let load = Command::new(env!("CARGO_BIN_EXE_pingpong")).arg("20000").output();
    assert!(load.expect("it runs").status.success());
}

/// The events lost for this reason, asserting that all are reported.
#[track_caller]
fn lost_by(trace: &Trace, cause: &str, said: &str) -> u64 {
    let causes: Vec<_> = trace.own.iter().filter(|event| event.name == "loss_cause").collect();
    let reported: u64 = causes.iter().map(|event| event.number("lost")).sum();
    assert_eq!(reported, trace.stats().number("lost"), "each loss has one cause: {said}");
    let of = causes.iter().filter(|event| event.args["cause"] == cause);
    of.map(|event| event.number("lost")).sum()
}

#[test]
fn a_recorder_that_was_stopped_says_so() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let sources = ["bpf", "perf", "ftrace"];
    let stopped = record_by_each(machine::quiet(), &folder, &sources, &SMALL, |recorders| {
        // The first data is the head of the trace, which does not show that the file is being read.
        much_happens();
        for source in sources {
            let path = folder.path(format!("{source}.fxt"));
            let has_events = || path.metadata().is_ok_and(|file| file.len() > 64 * 1024);
            wait::until("events in the trace", has_events);
        }
        let signal = |signal| recorders.iter().for_each(|(_, recorder)| recorder.signal(signal));
        signal(Signal::SIGSTOP);
        much_happens();
        std::thread::sleep(std::time::Duration::from_secs(1));
        signal(Signal::SIGCONT);
        much_happens();
    });
    assert_eq!(stopped.len(), sources.len(), "all record");
    for (source, path, said) in stopped {
        let lost = lost_by(&Trace::read(&path), "stopped", &said);
        assert!(lost > 20_000, "{source}: {said}");
        assert!(said.contains("the capture thread was stopped (SIGSTOP"), "{said}");
        let report = folder.fxtrec(["report", &format!("{source}.fxt")]).stdout;
        assert!(report.contains("the capture thread was stopped (SIGSTOP"), "{report}");
    }
}

#[test]
fn lost_system_calls_leave_no_wait_unknown() {
    if !may_record() {
        return;
    }
    let machine = machine::alone();
    let folder = Folder::new();
    // Tens of thousands of calls, and few switches.
    let calls = "dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null; sleep 0.02";
    let script = format!("for i in $(seq 25); do {calls}; done");
    let mut fxtrec = binary::command();
    // Room for all switches, and for a small part of the calls.
    fxtrec.current_dir(folder.path(".")).args(["--ring-size", "256K"]);
    fxtrec.args(["-o", "t.fxt", "--source", "bpf"]);
    fxtrec.args(["--syscalls", "--scope", "app", "--", "sh", "-c", &script]);
    let mut recorder = Process::start(fxtrec.stderr(Stdio::piped()));
    let path = folder.path("t.fxt");
    let has_events = || path.metadata().is_ok_and(|file| file.len() > 64 * 1024);
    wait::until("events in the trace", has_events);
    recorder.signal(Signal::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_millis(400));
    recorder.signal(Signal::SIGCONT);
    let said = std::io::read_to_string(recorder.stderr()).expect("text");
    assert!(recorder.finish().success(), "{said}");
    machine.give_back();
    let trace = Trace::read(&path);
    let gaps: Vec<_> = trace.own.iter().filter(|event| event.name == "lost_others").collect();
    let sum: u64 = gaps.iter().map(|gap| gap.number("count")).sum();
    assert!(sum > 5_000 && gaps.iter().all(|gap| gap.args["of"] == "syscalls"), "{said}");
    assert!(said.contains("events of system calls"), "{said}");
    assert_eq!(trace.stats().number("lost"), 0, "{said}");
    let doubtful = |event: &&Event| event.args.contains_key("lost_inside");
    assert!(
        trace.events.iter().filter(doubtful).count() <= 4 * gaps.len(),
        "few calls last so long"
    );
    folder.fxtrec(["dump", "t.fxt", "--check"]).expect(0);
    let printed = folder.fxtrec(["report", "t.fxt", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let losses = &json["losses"];
    assert_eq!((&losses["gaps"], losses["others"].as_u64()), (&0.into(), Some(sum)), "{losses}");
    // Switches during the loss are recorded.
    let last = gaps.iter().map(|gap| gap.time).max().expect("some");
    let of_loss = last - 300_000_000..last;
    let during = trace.switches.iter().filter(|switch| of_loss.contains(&switch.time)).count();
    assert!(during > 10, "{during}");
}

#[test]
fn an_output_that_takes_nothing_is_named() {
    if !may_record() {
        return;
    }
    let machine = machine::quiet();
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a fifo");
    let mut command = binary::command();
    command.args(["-a", "--buffer-size", "64K"]).args(SMALL).arg("-o").arg(&fifo);
    let mut recorder = Process::start(command.stderr(Stdio::piped()));
    let mut output = fs::File::open(&fifo).expect("fxtrec opens it, too");
    let mut bytes = vec![0; 8];
    output.read_exact(&mut bytes).expect("it records");
    // The output is not read in this time.
    much_happens();
    much_happens();
    let reader = std::thread::spawn(move || {
        output.read_to_end(&mut bytes).expect("a pipe");
        bytes
    });
    much_happens();
    recorder.signal(Signal::SIGINT);
    let said = std::io::read_to_string(recorder.stderr()).expect("text");
    let trace = folder.path("t.fxt");
    fs::write(&trace, reader.join().expect("it read")).expect("room");
    assert!(recorder.finish().success(), "{said}");
    machine.give_back();
    let lost = lost_by(&Trace::read(&trace), "output_blocked", &said);
    assert!(lost > 20_000, "{said}");
    assert!(said.contains("the output blocked the drain thread"), "{said}");
}

/// A separate cgroup for the test. Empty at its end, and removed.
struct Cgroup {
    path: PathBuf,
    root: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    fn new() -> Cgroup {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let is_v2 = !v1.join("cpu.cfs_quota_us").exists() && !v1.join("cgroup.procs").exists();
        let root = if is_v2 { Path::new("/sys/fs/cgroup") } else { v1 };
        let path = root.join(format!("fxtrec-test-{}", std::process::id()));
        if is_v2 {
            // An error is ignored: either the controller is already enabled, or a later step fails.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        }
        fs::create_dir(&path).expect("a cgroup");
        Cgroup { path, root: root.to_owned(), is_v2 }
    }

    fn hold(&self, process: u32) {
        fs::write(self.path.join("cgroup.procs"), process.to_string()).expect("it can be moved");
    }

    /// A hundredth of a CPU, in slices of ten milliseconds.
    fn starve(&self) {
        let write = |file, text| fs::write(self.path.join(file), text).expect("a quota");
        if self.is_v2 {
            return write("cpu.max", "10000 1000000");
        }
        write("cpu.cfs_period_us", "1000000");
        write("cpu.cfs_quota_us", "10000");
    }

    fn feed(&self) {
        let (file, text) = if self.is_v2 { ("cpu.max", "max") } else { ("cpu.cfs_quota_us", "-1") };
        fs::write(self.path.join(file), text).expect("no quota");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let held = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for process in held.lines() {
            let _ = fs::write(self.root.join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Starts a program without CAP_SYS_NICE, which root normally has.
fn without_sys_nice(command: &mut Command) {
    const CAP_SYS_NICE: libc::c_ulong = 23;
    // SAFETY: between fork and exec only prctl(2) is called, with numbers.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Scheduling policy and nice value of a thread, from `/proc/PID/task/TID/stat`.
fn scheduling(process: u32, thread: &str) -> Option<(u32, i32)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let stat = stats.into_iter().find(|stat| stat.contains(&format!("({thread})")))?;
    // The fields after the name, of which the state is the third of all.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(41 - 3)?.parse().ok()?, fields.get(19 - 3)?.parse().ok()?))
}

#[test]
fn while_much_happens_the_capture_thread_is_a_real_time_one_and_command_is_not() {
    if !may_record() {
        return;
    }
    let _turn = machine::quiet();
    let folder = Folder::new();
    let mut command = binary::command();
    command.arg("-o").arg(folder.path("t.fxt")).arg("--");
    command.args([env!("CARGO_BIN_EXE_pingpong"), "forever"]);
    let mut recorder = Process::start_ready(command.stderr(Stdio::piped()));
    let capture = || scheduling(recorder.id(), "fxtrec-capture");
    wait::until("a real-time thread", || capture().is_some_and(|(policy, _)| policy == 1));
    assert_eq!(scheduling(recorder.id(), "fxtrec-drain"), Some((0, -20)));
    let children = format!("/proc/{0}/task/{0}/children", recorder.id());
    let children = fs::read_to_string(children).expect("it runs");
    let child = children.trim().parse().expect("one child");
    assert_eq!(scheduling(child, "pingpong"), Some((0, 0)));
    let status = fs::read_to_string(format!("/proc/{}/status", recorder.id())).expect("it runs");
    let locked = status.lines().find(|line| line.starts_with("VmLck:")).expect("a line");
    assert_ne!(locked.split_whitespace().nth(1), Some("0"), "{locked}");
    recorder.signal(Signal::SIGTERM);
    recorder.finish();
}

#[test]
fn who_finds_out_what_stacks_are_of_lets_others_go_first_if_it_may_hurry_later() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    for (may_hurry, niceness) in [(true, 10), (false, 0)] {
        let mut command = binary::command();
        let output = folder.path(format!("{niceness}.fxt"));
        command.args(["-q", "--stacks", "-o"]).arg(output).args(["--", "sleep", "9"]);
        if !may_hurry {
            without_sys_nice(&mut command);
        }
        let mut recorder = Process::start(&mut command);
        let stacks = || scheduling(recorder.id(), "fxtrec-stacks");
        wait::until("a patient thread", || stacks() == Some((0, niceness)));
        // The other thread, which empties the rings in the meantime, is not.
        let hurried = Some((0, if may_hurry { -20 } else { 0 }));
        wait::until("a thread in a hurry", || scheduling(recorder.id(), "fxtrec-rings") == hurried);
        recorder.signal(Signal::SIGINT);
        recorder.finish();
    }
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn a_recorder_that_gets_no_cpu_says_how_long_it_waited() {
    if !may_record() {
        return;
    }
    let _alone = machine::alone();
    let folder = Folder::new();
    let path = folder.path("t.fxt");
    let cgroup = Cgroup::new();
    let mut command = binary::command();
    command.args(["-a", "--source", "bpf"]).args(SMALL).arg("-o").arg(&path);
    // A real-time thread has no quota.
    without_sys_nice(&mut command);
    let mut recorder = Process::start(command.stderr(Stdio::piped()));
    cgroup.hold(recorder.id());
    wait::until("the first records", || path.metadata().is_ok_and(|file| file.len() > 0));
    cgroup.starve();
    for _ in 0..4 {
        much_happens();
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    cgroup.feed();
    much_happens();
    recorder.signal(Signal::SIGINT);
    let said = std::io::read_to_string(recorder.stderr()).expect("text");
    assert!(recorder.finish().success(), "{said}");
    let lost = lost_by(&Trace::read(&path), "capture_waited", &said);
    assert!(lost > 20_000, "{said}");
    assert!(said.contains("the capture thread waited for a CPU"), "{said}");
    assert!(said.contains("at once); real-time priority was refused: EPERM; give"), "{said}");
    let report = folder.fxtrec(["report", "t.fxt"]).stdout;
    assert!(report.contains("real-time priority was refused: EPERM"), "{report}");
}

/// The scheduler's tracepoints have the fields and numbers of a tracepoint that never fires: this simulates a kernel or a container in
/// which tracing is broken without an error.
#[test]
fn a_recording_of_a_busy_machine_without_any_event_fails() {
    if !may_record() {
        return;
    }
    // The place where fxtrec finds it first.
    let tracefs = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .map(|it| Path::new(it).join("events/sched"));
    let events = tracefs.iter().find(|events| events.is_dir()).expect("tracefs is mounted");
    let never = ["sched_process_hang", "sched_skip_cpuset_numa", "sched_pi_setprio"];
    let never = never.iter().find(|name| events.join(name).is_dir()).expect("one of them");
    let number = fs::read_to_string(events.join(never).join("id")).expect("a number");
    let folder = Folder::new();
    folder.write("id", &number);
    let mut script = "set -e;".to_owned();
    for name in ["sched_switch", "sched_wakeup", "sched_wakeup_new"] {
        let event = events.join(name);
        let format = fs::read_to_string(event.join("format")).expect("a description");
        let of_another = |line: &str| match line.starts_with("ID: ") {
            true => format!("ID: {number}"),
            false => format!("{line}\n"),
        };
        folder.write(name, format.lines().map(of_another).collect::<String>());
        let event = event.display();
        script += &format!(" mount --bind {name} {event}/format; mount --bind id {event}/id;");
    }
    script += " exec \"$@\"";
    for source in ["perf", "ftrace"] {
        let mut fxtrec = Command::new("unshare");
        fxtrec.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
        fxtrec
            .arg(binary::fxtrec())
            .args(["--source", source, "-o", "t.fxt", "--", "sleep", "0.1"]);
        let said = folder.run(&mut fxtrec).expect(125).stderr;
        assert!(said.contains("nothing was recorded: the machine switched "), "{source}: {said}");
        assert!(said.contains(" times between threads, but no event arrived"), "{source}: {said}");
    }
}
