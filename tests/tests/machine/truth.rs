//! Compares the trace with the kernel's own figures.
//!
//! Every test records a workload whose threads read, from the kernel, how often they were switched out and how long
//! they ran, and compares that with the trace.

use std::process::{Command, Stdio};
use std::time::Duration;

use fxt_reader::record::is_not_recorded;
use fxt_reader::{Koid, ThreadState};
use fxtrec_tests::binary::{self, fxtrec};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::{Ongoing, Recording, record_beside, record_by, record_in_turn};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::{machine, trace, wait};
use nix::sys::signal::Signal;

/// Records `workload ARGS` with `options` while no other test records.
fn record(options: &[&str], workload: &[&str]) -> Recording {
    record_in(machine::quiet(), options, workload)
}

/// The same while nothing else is recorded.
fn record_alone(options: &[&str], workload: &[&str]) -> Recording {
    record_in(machine::alone(), options, workload)
}

fn record_in(turn: machine::Turn, options: &[&str], workload: &[&str]) -> Recording {
    record_in_turn(turn, binary::command(), &Folder::new(), options, &of_workload(workload))
}

/// The same next to other tests, whose workloads may be in the trace, too.
fn record_beside_others(fxtrec: Command, options: &[&str], workload: &[&str]) -> Recording {
    record_by(fxtrec, &Folder::new(), options, &of_workload(workload))
}

fn of_workload<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&[env!("CARGO_BIN_EXE_workload")], args].concat()
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

/// The number at the end of the line that begins with `label`.
fn labelled(recording: &Recording, label: &str) -> u64 {
    let lines = recording.lines();
    let line = lines.iter().find(|line| line[0] == label);
    number(line.unwrap_or_else(|| panic!("the workload printed no {label}"))[1])
}

/// Every switch that the kernel counted for a thread is in the trace, recorded with these options.
fn compare_switches(options: &[&str], rounds: &str) {
    let recording = record(options, &["threads", "3", rounds]);
    let mut counted = 0;
    assert_eq!(recording.lines().len(), 7);
    for line in recording.lines() {
        let [koid, begin, end, switches] = [0, 1, 2, 3].map(|at| number(line[at]));
        let inside = |time: u64| begin <= time && time <= end;
        let outs = recording.trace.outs(koid).filter(|switch| inside(switch.time)).count() as u64;
        assert_eq!(outs, switches, "thread {koid}, {options:?}");
        counted += switches;
    }
    assert!(counted >= 5 * number(rounds), "only {counted} switches");
    // And for the machine as a whole: every hit of the tracepoint became a record. Only ftrace does not count hits.
    let stats = recording.trace.stats();
    if !options.contains(&"ftrace") {
        assert_eq!(stats.number("switches"), stats.number("kernel_switches"), "{options:?}");
    }
}

#[test]
fn every_switch_that_the_kernel_counted_for_a_thread_is_in_the_trace() {
    if may_record() {
        compare_switches(&[], "20000");
    }
}

#[test]
fn so_is_every_switch_that_several_threads_capture() {
    if !may_record() {
        return;
    }
    for source in ["bpf", "perf", "ftrace"] {
        for threads in ["1", "2", "7"] {
            compare_switches(&["--source", source, "--capture-threads", threads], "2000");
        }
    }
}

#[test]
fn cpu_time_summed_from_slices_is_that_of_the_threads_own_clocks() {
    if !may_record() {
        return;
    }
    // A virtual machine's host may take CPUs away from it. That time is in a slice, because nothing reports it to the scheduler, but not in
    // a thread's clock; /proc/stat counts it, in hundredths of a second.
    let before = stolen();
    let recording = record_alone(&[], &["slices", "3", "200"]);
    let stolen = stolen() - before;
    let (mut all_traced, mut all_cpu) = (0, 0);
    for line in recording.lines() {
        let [koid, begin, end, switches, cpu] = [0, 1, 2, 3, 4].map(|at| number(line[at]));
        let traced = recording.trace.running(koid, begin, end);
        assert!(cpu > 50_000_000, "the workload computes");
        // The scheduler reads its clock before the tracepoint fires. According to the kernel's own `sched_stat_runtime`, that makes 2 to 3
        // us a slice on a busy machine.
        let least = cpu as f64 * 0.99 - switches as f64 * 5e3;
        assert!(traced as f64 >= least, "thread {koid}: {traced} ns traced of {cpu}");
        (all_traced, all_cpu) = (all_traced + traced, all_cpu + cpu);
    }
    let most = all_cpu as f64 * 1.01 + stolen as f64;
    assert!(all_traced as f64 <= most, "{all_traced} ns traced of {all_cpu}, {stolen} ns stolen");
}

/// Nanoseconds that the host has taken from all CPUs since the machine started, to the end of the last tick.
fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let first = stat.lines().next().expect("a line for all CPUs");
    // cpu user nice system idle iowait irq softirq steal ...
    let ticks = first.split_whitespace().nth(8).map_or(0, number);
    ticks * 10_000_000
}

#[test]
fn threads_go_out_in_the_states_of_the_table() {
    if !may_record() {
        return;
    }
    let recording = record_beside_others(binary::command(), &[], &["states"]);
    let outs = |label: &str| recording.trace.outs(labelled(&recording, label));
    let has = |label: &str, state: ThreadState, letters: Option<&str>| {
        let found = outs(label)
            .any(|switch| switch.state == state && switch.prev_state.as_deref() == letters);
        assert!(found, "{label}: {:?}", outs(label).collect::<Vec<_>>());
    };
    has("stopped", ThreadState::Suspended, None);
    has("uninterruptible", ThreadState::Blocked, Some("D"));
    has("uninterruptible", ThreadState::Blocked, None);
    // The kernel writes R+ when it preempted itself, R when it preempted the program.
    let preempted: Vec<_> = outs("preempted").collect();
    assert!(preempted.iter().any(|out| out.state == ThreadState::Running), "{preempted:?}");
    let letters = preempted.iter().filter_map(|out| out.prev_state.as_deref());
    assert!(letters.into_iter().all(|letters| matches!(letters, "R+" | "D")), "{preempted:?}");
    let last = outs("stopped").last().expect("it went out");
    assert!(matches!(last.state, ThreadState::Dying | ThreadState::Dead), "{last:?}");
}

#[test]
fn names_are_right_whatever_they_are() {
    if !may_record() {
        return;
    }
    let recording = record_beside_others(binary::command(), &[], &["names"]);
    let name = |label: &str| {
        let koid = labelled(&recording, label);
        recording.trace.threads[&koid].0.clone()
    };
    assert_eq!(name("plain"), "plain");
    assert_eq!(name("long"), "0123456789abcde");
    assert_eq!(name("latin"), "bad\u{fffd}\u{fffd}utf8");
    assert_eq!(name("empty"), format!("[{}]", labelled(&recording, "empty")));
    assert_eq!(name("exec"), "sleep");
    let exec = labelled(&recording, "exec");
    assert_eq!(recording.trace.processes[&exec], "sleep");
    let before = &recording.trace.thread_names[&exec];
    assert!(before.len() >= 2, "a name before exec and one after: {before:?}");
    let main = labelled(&recording, "main");
    assert_eq!(recording.trace.threads[&main], ("workload".to_owned(), main));
    for label in ["plain", "empty", "latin", "long"] {
        let koid = labelled(&recording, label);
        assert_eq!(recording.trace.threads[&koid].1, main, "{label} belongs to the workload");
    }
}

#[test]
fn two_processes_that_shared_a_pid_are_two() {
    if !may_record() {
        return;
    }
    // Another process that starts programs may take the id.
    let recording = record_alone(&[], &["reuse"]);
    let pid = number(recording.lines()[0][0]);
    let koids: Vec<u64> = recording
        .trace
        .processes
        .keys()
        .copied()
        .filter(|koid| koid & ((1 << 22) - 1) == pid)
        .collect();
    assert!(koids.len() >= 2, "{koids:?}");
    for koid in koids {
        let ends = recording.trace.outs(koid);
        let ends = ends.filter(|out| matches!(out.state, ThreadState::Dying | ThreadState::Dead));
        assert_eq!(ends.count(), 1, "each ends once");
    }
}

#[test]
fn a_process_that_got_the_id_of_one_just_ended_is_recorded_to_its_end() {
    if !may_record() {
        return;
    }
    // The kernel releases a task a few milliseconds after its id becomes free.
    for source in ["perf", "bpf", "ftrace"] {
        for scope in ["app", "all"] {
            let options = ["--source", source, "--scope", scope];
            let recording = record_alone(&options, &["heir", "300"]);
            let line = &recording.lines()[0];
            let [id, begin, end, switches] = [0, 1, 2, 3].map(|at| number(line[at]));
            let inside = |time: u64| begin <= time && time <= end;
            let of_id = |koid: &u64| koid & ((1 << 22) - 1) == id;
            let koids = recording.trace.threads.keys().copied().filter(of_id);
            let heir = koids.max().expect("it is named");
            let outs = recording.trace.outs(heir).filter(|switch| inside(switch.time));
            assert_eq!(outs.count() as u64, switches, "{source} {scope}");
            assert!(switches >= 300, "{switches}");
        }
    }
}

#[test]
fn threads_that_live_for_microseconds_are_all_there_with_a_beginning_and_an_end() {
    if !may_record() {
        return;
    }
    // The workload of another test may still run at the end.
    let recording = record_alone(&[], &["brief", "3000"]);
    let threads = recording.trace.threads.iter();
    let ours: Vec<u64> = threads
        .filter(|(_, (name, process))| {
            name == "workload"
                && recording.trace.processes.get(process).is_some_and(|n| n == "workload")
        })
        .map(|(koid, _)| *koid)
        .collect();
    let ended = |koid: &u64| {
        let mut outs = recording.trace.outs(*koid);
        outs.any(|out| matches!(out.state, ThreadState::Dying | ThreadState::Dead))
    };
    assert!(ours.len() >= 3000, "{} threads", ours.len());
    assert_eq!(ours.iter().filter(|koid| ended(koid)).count(), ours.len(), "all of them ended");
    assert!(recording.trace.stats().number("forks") >= 3000);
}

#[test]
fn a_thread_that_executes_a_program_becomes_the_main_thread_without_a_break() {
    if !may_record() {
        return;
    }
    for source in ["perf", "bpf", "ftrace"] {
        let command = ["taskset", "-c", "0", env!("CARGO_BIN_EXE_workload"), "takeover"];
        let options = ["--source", source];
        let (turn, folder) = (machine::quiet(), Folder::new());
        let recording = record_in_turn(turn, binary::command(), &folder, &options, &command);
        let trace = &recording.trace;
        let pid = number(recording.lines()[0][0]);
        // The main thread has ended at this time: its id now belongs to another thread of the process.
        let taken_over = pid + (1 << 22);
        assert_eq!(trace.threads[&taken_over], ("sleep".to_owned(), pid), "{source}");
        assert_eq!(trace.processes[&pid], "sleep", "{source}");
        for koid in [pid, taken_over] {
            let last = trace.outs(koid).last().expect("it went out");
            assert!(matches!(last.state, ThreadState::Dying | ThreadState::Dead), "{last:?}");
        }
        let first = trace.switches.iter().find(|switch| switch.incoming == taken_over);
        let first = first.expect("it came in");
        assert!(first.inferred && first.state == ThreadState::Dead, "{source}: {first:?}");
        assert_eq!(trace.threads[&first.outgoing].1, pid, "{source}: {first:?}");
    }
}

#[test]
fn cpus_that_others_keep_busy_are_not_recorded_and_never_idle() {
    if !may_record() {
        return;
    }
    let cpus = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("affinity");
    let cpus = (0..nix::sched::CpuSet::count()).filter(|cpu| cpus.is_set(*cpu).is_ok_and(|is| is));
    for source in ["perf", "bpf", "ftrace"] {
        // One that is always able to run on each CPU, so that none is ever idle.
        let hog = |cpu: usize| {
            let cpu = cpu.to_string();
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu, "sh", "-c", "while :; do :; done"]);
            Process::start(command.stdout(Stdio::null()))
        };
        let hogs = || {
            let hogs: Vec<Process> = cpus.clone().map(hog).collect();
            wait::until("hogs on all CPUs", || hogs.iter().all(|hog| cpu_ticks(hog.id()) > 0));
            hogs
        };
        let options = ["--scope", "app", "--source", source];
        let command = [env!("CARGO_BIN_EXE_workload"), "threads", "1", "300"];
        let folder = Folder::new();
        let turn = machine::alone();
        let trace = record_beside(turn, hogs, binary::command(), &folder, &options, &command).trace;
        let idle: Vec<_> = trace.switches.iter().filter(|switch| switch.incoming == 0).collect();
        assert!(idle.is_empty(), "{source}: {idle:?}");
        let not_recorded = |switch: &&trace::Switch| is_not_recorded(Koid(switch.incoming));
        assert!(trace.switches.iter().filter(not_recorded).count() > 0, "{source}");
        for switch in trace.switches.iter().filter(not_recorded) {
            assert_eq!(trace.threads[&switch.incoming].0, "not recorded", "{source}");
            assert_eq!(switch.weights.1, Some(0), "{source}: {switch:?}");
        }
    }
}

/// How long a process has run, in ticks of the kernel's clock for users.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let behind = stat.rsplit_once(") ").expect("a name").1;
    number(behind.split(' ').nth(11).expect("utime"))
}

#[test]
fn waking_names_wakers_that_a_wake_up_alone_does_not() {
    if !may_record() {
        return;
    }
    let recording = record(&["--waking"], &["threads", "1", "5000"]);
    assert!(recording.trace.stats().number("wakings") > 5_000);
    let pair: Vec<u64> = recording.lines().iter().map(|line| number(line[0])).collect();
    let woken = |wakeup: &&trace::Wakeup| pair.contains(&wakeup.thread);
    let ours: Vec<_> = recording.trace.wakeups.iter().filter(woken).collect();
    let named = ours.iter().filter(|wakeup| wakeup.waker.is_some()).count();
    assert!(named * 10 >= ours.len() * 9, "{named} of {} wakeups have a waker", ours.len());
}

#[test]
fn a_narrow_scope_shows_its_threads_whole_and_closes_the_others() {
    if !may_record() {
        return;
    }
    let (options, workload) = (["--scope", "app"], ["threads", "1", "5000"]);
    let recording = record_beside_others(binary::command(), &options, &workload);
    for line in recording.lines() {
        let [koid, begin, end, switches] = [0, 1, 2, 3].map(|at| number(line[at]));
        let inside = |time: u64| begin <= time && time <= end;
        let outs = recording.trace.outs(koid).filter(|switch| inside(switch.time)).count() as u64;
        assert_eq!(outs, switches, "thread {koid}");
    }
    let ours = |koid: &u64| recording.trace.threads[koid].0 == "workload";
    let foreign = recording.trace.switches.iter().filter(|switch| {
        let shown = |koid: u64| !ours(&koid) && !is_not_recorded(Koid(koid));
        // One that the kernel did not report is inferred.
        !switch.inferred && shown(switch.outgoing) && shown(switch.incoming)
    });
    let foreign: Vec<_> = foreign.take(3).collect();
    assert!(foreign.is_empty(), "switches between two outsiders: {foreign:?}");
    let woken = recording.trace.wakeups.iter().filter(|wakeup| !ours(&wakeup.thread));
    let strangers: Vec<_> = woken.take(3).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

/// A recording from inside a pid namespace, with `/proc` of that namespace or of the host.
fn record_in_namespace(unshare: &[&str], options: &[&str]) -> Recording {
    let mut command = Command::new("unshare");
    command.args(unshare).arg(fxtrec());
    // Names are looked up in the whole trace.
    let command_line = of_workload(&["names"]);
    record_in_turn(machine::alone(), command, &Folder::new(), options, &command_line)
}

/// A recording of a workload, from inside another namespace.
fn record_threads_in_namespace(unshare: &[&str], options: &[&str]) -> Recording {
    let mut command = Command::new("unshare");
    command.args(unshare).arg(fxtrec());
    record_beside_others(command, options, &["threads", "1", "100"])
}

/// Facts that must be right whatever the ids are: the workload prints those of its namespace.
fn assert_names_of_workload(recording: &Recording) {
    let trace = &recording.trace;
    let named = |name: &str| {
        let mut found = trace.threads.iter().filter(|(_, (thread, _))| thread == name);
        let (koid, (_, process)) = found.next().unwrap_or_else(|| panic!("no thread {name}"));
        (*koid, *process)
    };
    assert_eq!(trace.info().args["pid_namespace"], "inner");
    let (main, process) = named("workload");
    assert_eq!(trace.processes[&process], "workload");
    assert_eq!(main, process, "its main thread was seen");
    for name in ["plain", "0123456789abcde", "bad\u{fffd}\u{fffd}utf8"] {
        assert_eq!(named(name).1, process, "{name} belongs to the workload");
    }
    let (sleep, process) = named("sleep");
    assert_eq!(trace.processes[&process], "sleep");
    // The ids of the namespace begin at 1; those of the host are far higher on a machine that was used for builds.
    let local = labelled(recording, "main");
    assert!(local < 100 && main > local && sleep > main, "{local} is {main}, and {sleep}");
}

#[test]
fn names_and_scope_are_right_inside_a_pid_namespace() {
    if !may_record() {
        return;
    }
    let recording = record_in_namespace(&["-pf", "--mount-proc"], &["--scope", "app"]);
    assert_names_of_workload(&recording);
    let foreign = recording.trace.switches.iter().filter(|switch| {
        let ours = |koid| {
            let process = recording.trace.threads[&koid].1;
            // Before its exec, COMMAND is a fork of fxtrec.
            ["workload", "sleep", "fxtrec"].contains(&recording.trace.processes[&process].as_str())
        };
        let shown = |koid| !ours(koid) && !is_not_recorded(Koid(koid));
        !switch.inferred && shown(switch.outgoing) && shown(switch.incoming)
    });
    let foreign: Vec<_> = foreign.take(3).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn names_are_right_inside_a_pid_namespace_that_sees_the_hosts_proc() {
    if !may_record() {
        return;
    }
    assert_names_of_workload(&record_in_namespace(&["-pf"], &[]));
}

/// Events have the times of the kernel's own clock, which differs from the one that is read in a time namespace.
#[test]
fn a_recorder_in_a_time_namespace_records_as_usual() {
    if !may_record() {
        return;
    }
    for source in ["bpf", "perf", "ftrace"] {
        let begin = trace::now();
        let unshare = ["-T", "--monotonic", "86400", "--boottime", "3600", "--fork"];
        let recording = record_threads_in_namespace(&unshare, &["--source", source]);
        let times: Vec<u64> = recording.trace.switches.iter().map(|switch| switch.time).collect();
        let ours = recording.trace.threads.iter().find(|(_, (name, _))| name == "workload");
        let (workload, _) = ours.expect("COMMAND has a name");
        assert!(recording.trace.outs(*workload).count() > 0, "{source}: {}", recording.said);
        let end = trace::now();
        let outside = times.iter().filter(|time| !(begin..end).contains(*time)).count();
        assert_eq!(outside, 0, "{source}: {begin} to {end}, of {} switches", times.len());
    }
}

/// Far more happens while fxtrec is stopped than a small ring holds: the missing events are as many as the kernel counted and the trace
/// does not have, although switch records, forks and names are lost from the same rings.
#[test]
fn what_was_lost_is_as_many_events_as_the_kernel_counted_and_the_trace_lacks() {
    if !may_record() {
        return;
    }
    for source in ["perf", "bpf"] {
        let machine = machine::quiet();
        let folder = Folder::new();
        let options = ["--source", source, "--ring-size", "64K"];
        let started = Ongoing::start(&folder.path("t.fxt"), &options);
        let recorder = match started {
            Ok(recorder) => recorder,
            Err(said) => {
                skip(&format!("--source {source} is refused here: {said}"));
                continue;
            }
        };
        for _ in 0..3 {
            recorder.signal(Signal::SIGSTOP);
            succeed(Command::new(env!("CARGO_BIN_EXE_pingpong")).arg("5000"));
            recorder.signal(Signal::SIGCONT);
            std::thread::sleep(Duration::from_millis(300));
        }
        let (path, said) = recorder.stop();
        machine.give_back();
        let trace = trace::Trace::read(&path);
        trace.assert_sound();
        let losses = trace.own.iter().find(|event| event.name == "loss_stats");
        let losses = losses.unwrap_or_else(|| panic!("{source} lost nothing: {said}"));
        let stats = trace.stats();
        let lost = stats.number("lost");
        let marks = trace.own.iter().filter(|event| event.name == "lost");
        assert_eq!(marks.map(|event| event.number("count")).sum::<u64>(), lost, "{source}");
        assert_eq!(losses.arg("at_most"), "false", "{source}: this kernel counts by event");
        let reported = trace.switches.iter().filter(|switch| !switch.inferred).count() as u64;
        let seen = reported
            + stats.number("wakeups")
            + stats.number("spurious_wakeups")
            + stats.number("wakings")
            + losses.number("moves");
        let (counted, unreported) = (losses.number("kernel_events"), losses.number("unreported"));
        let switches = losses.number("unreported_switches");
        eprintln!(
            "{source}: {counted} counted, {seen} seen, {lost} lost, {unreported} unreported, {switches} of them switches"
        );
        assert_eq!(seen + lost + unreported, counted, "{source}: {said}");
        // `sources` compares the sources with each other; this checks which they are.
        assert_eq!(switches, 0, "{source}: of a switch, an event is always written");
        assert!(
            source == "perf" || unreported == 0,
            "{source} counts what it writes: {unreported}"
        );
        assert!(lost > 5000, "{source}: {said}");
    }
}
