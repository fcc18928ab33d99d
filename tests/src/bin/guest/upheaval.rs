//! Unusual machines: CPUs that are offline, partitions of CPUs, and suspend.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fxtrec_tests::event::Event;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::hotplug::Pluggable;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::Ongoing;
use fxtrec_tests::trace::{Trace, now};
use fxtrec_tests::workload::{Thread, threads};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};

use crate::Outcome;
use crate::recordings::workload;

/// Runs the workload, pinned to these CPUs.
fn run_on(cpus: &str) -> Vec<Thread> {
    let command = ["-c", cpus, &workload(), "threads", "1", "300"];
    threads(&succeed(Command::new("taskset").args(command)))
}

/// Records the machine with a source while something happens. Returns the trace, fxtrec's messages, and the result of that.
fn record_while<T>(
    source: &str,
    during: impl FnOnce() -> T,
) -> Result<(Trace, String, T), Outcome> {
    let folder = Folder::new();
    let recorder = Ongoing::start(&folder.path("t.fxt"), &["--source", source])
        .map_err(|said| Outcome::Refused(said.trim_start_matches("fxtrec: ").to_owned()))?;
    let happened = during();
    let (path, said) = recorder.stop();
    let trace = Trace::read(&path);
    trace.assert_sound();
    Ok((trace, said, happened))
}

/// Asserts that each switch that the kernel counted is in the trace. Returns how many.
fn compare(trace: &Trace, threads: &[Thread], said: &str) -> u64 {
    assert!(!threads.is_empty(), "the workload printed nothing");
    for thread in threads {
        assert_eq!(thread.outs(trace), thread.switches, "{thread:?}: {said}");
    }
    threads.iter().map(|thread| thread.switches).sum()
}

/// Intervals in which a CPU that is online again was not recorded yet, according to the trace: from when it went offline to when the loss
/// was reported.
fn gaps(trace: &Trace) -> Vec<(u64, u64)> {
    let of = |name: &'static str| trace.own.iter().filter(move |event| event.name == name);
    let gap = |lost: &Event| {
        let went =
            of("cpu_offline").filter(|it| it.arg("cpu") == lost.arg("cpu") && it.time < lost.time);
        (went.map(|it| it.time).max().unwrap_or(0), lost.time)
    };
    of("lost").filter(|it| !it.args.contains_key("count")).map(gap).collect()
}

/// The same as [`compare`], but a thread that ran during such a gap may have been switched out more often. Returns how many switches the
/// trace has, and how many threads have missing switches.
///
/// # Panics
/// Also returns if most threads ran in gaps: in that case, nothing is compared.
fn compare_with_gaps(trace: &Trace, threads: &[Thread], said: &str) -> (u64, usize) {
    let gaps = gaps(trace);
    let is_in_gap = |it: &&Thread| gaps.iter().any(|gap| it.begin <= gap.1 && gap.0 <= it.end);
    let (inside, outside): (Vec<Thread>, Vec<Thread>) = threads.iter().partition(is_in_gap);
    assert!(inside.len() <= outside.len(), "{inside:?} ran in {gaps:?}: {said}");
    let lacks = |it: &&Thread| {
        let outs = it.outs(trace);
        assert!(outs <= it.switches, "{outs} of {it:?}: {said}");
        outs < it.switches
    };
    let lacking = inside.iter().filter(lacks).count();
    let seen: u64 = inside.iter().map(|thread| thread.outs(trace)).sum();
    (compare(trace, &outside, said) + seen, lacking)
}

/// A CPU is offline when the recording begins, and comes online later.
pub(crate) fn offline_at_start(source: &str) -> Outcome {
    let pluggable = Pluggable::find().expect("CI lets no check be skipped");
    let cpu = pluggable.cpu;
    pluggable.set_online(false);
    let recorded = record_while(source, || {
        let without = run_on("0");
        let before = now();
        pluggable.set_online(true);
        std::thread::sleep(Duration::from_secs(1));
        (without, before, run_on(&cpu.to_string()))
    });
    let (trace, said, (without, before, with)) = match recorded {
        Ok(recorded) => recorded,
        Err(refused) => return refused,
    };
    let early = trace.switches.iter().find(|it| it.cpu == cpu && it.time < before);
    assert_eq!(early, None, "CPU {cpu} was offline");
    let online = trace.own.iter().filter(|event| event.name == "cpu_online").count();
    assert!(online >= 1, "{said}");
    let counted = compare(&trace, &without, &said) + compare(&trace, &with, &said);
    Outcome::Fine(format!("{counted} switches, those of a CPU that came online later among them"))
}

/// CPUs that belong to a separate partition, with threads on both sides.
pub(crate) fn partition(source: &str) -> Outcome {
    const ROOT: &str = "/sys/fs/cgroup";
    let group = format!("{ROOT}/apart");
    let write = |file: String, text: &str| {
        fs::write(&file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
    };
    write(format!("{ROOT}/cgroup.subtree_control"), "+cpuset");
    fs::create_dir(&group).expect("root may make a group");
    let last = Pluggable::find().expect("CI lets no check be skipped").cpu;
    write(format!("{group}/cpuset.cpus"), &last.to_string());
    write(format!("{group}/cpuset.cpus.partition"), "root");
    let kind = fs::read_to_string(format!("{group}/cpuset.cpus.partition")).expect("it says so");
    let recorded = record_while(source, || {
        let script = format!("echo $$ >{group}/cgroup.procs && exec \"$@\"");
        let command = ["-c", &script, "sh", &workload(), "threads", "1", "300"];
        let inside = threads(&succeed(Command::new("sh").args(command)));
        (inside, run_on("0"))
    });
    // A process that has just ended may still be in it.
    for _ in 0..100 {
        if fs::remove_dir(&group).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    write(format!("{ROOT}/cgroup.subtree_control"), "-cpuset");
    assert_eq!(kind.trim(), "root", "the kernel makes a partition");
    let (trace, said, (inside, outside)) = match recorded {
        Ok(recorded) => recorded,
        Err(refused) => return refused,
    };
    for thread in &inside {
        let mut outs = trace.outs(thread.koid).filter(|out| thread.has(out.time));
        assert!(outs.all(|out| out.cpu == last), "{thread:?} stays in its partition");
    }
    let counted = compare(&trace, &inside, &said) + compare(&trace, &outside, &said);
    Outcome::Fine(format!("{counted} switches, inside a partition and outside"))
}

/// The wall clock is set, back and forth, while the machine is recorded.
pub(crate) fn clock(source: &str) -> Outcome {
    // The clock is set forward first: a reader in between sees a later time than before.
    const STEPS: [i64; 2] = [3600, -3600];
    const NANOS: i64 = 1_000_000_000;
    let recorded = record_while(source, || {
        let mut runs = vec![run_on("0")];
        for step in STEPS {
            let time = clock_gettime(ClockId::CLOCK_REALTIME).expect("a clock");
            let wanted = TimeSpec::new(time.tv_sec() + step, time.tv_nsec());
            clock_settime(ClockId::CLOCK_REALTIME, wanted).expect("root may set the time");
            std::thread::sleep(Duration::from_secs(1));
            runs.push(run_on("0"));
        }
        runs
    });
    let (trace, said, runs) = match recorded {
        Ok(recorded) => recorded,
        Err(refused) => return refused,
    };
    let counted: u64 = runs.iter().map(|threads| compare(&trace, threads, &said)).sum();
    let changes: Vec<_> = trace.own.iter().filter(|it| it.name == "clock_change").collect();
    assert_eq!(changes.len(), STEPS.len(), "{changes:?}");
    let mut offset = i64::try_from(trace.info().number("wall_clock_offset_ns")).expect("a time");
    for (change, step) in changes.iter().zip(STEPS) {
        let number = |name: &str| change.arg(name).parse::<i64>().expect("a number");
        let set_by = number("set_by_ns");
        // Between reading and setting the time, the machine may have been slow.
        assert!((set_by - step * NANOS).abs() < NANOS, "{change:?}");
        assert!(!change.args.contains_key("suspended_ns"), "{change:?}");
        offset += set_by;
        assert!((number("wall_clock_offset_ns") - offset).abs() < NANOS / 10, "{change:?}");
    }
    Outcome::Fine(format!(
        "set by an hour and back, both told; {counted} switches before and after"
    ))
}

/// The whole machine sleeps until its clock wakes it, while every available source records it: QEMU's clock wakes a machine only once.
pub(crate) fn suspend() -> Outcome {
    const SECONDS: &str = "+4";
    let alarm = Path::new("/sys/class/rtc/rtc0/wakealarm");
    let states = fs::read_to_string("/sys/power/state").unwrap_or_default();
    if !alarm.exists() || !states.split_whitespace().any(|state| state == "mem") {
        return Outcome::Refused(format!("this machine cannot suspend: '{}'", states.trim()));
    }
    let uptime = || -> f64 {
        let text = fs::read_to_string("/proc/uptime").expect("/proc");
        text.split(' ').next().and_then(|word| word.parse().ok()).expect("seconds")
    };
    let folder = Folder::new();
    let start = |source: &'static str| {
        let path = folder.path(format!("{source}.fxt"));
        Ongoing::start(&path, &["--source", source]).ok().map(|recorder| (source, recorder))
    };
    let recorders: Vec<_> = ["bpf", "perf", "ftrace"].into_iter().filter_map(start).collect();
    assert!(!recorders.is_empty(), "no source records");

    let before = run_on("0");
    fs::write(alarm, SECONDS).expect("root may set the alarm");
    let (clock, seconds) = (now(), uptime());
    let slept = fs::write("/sys/power/state", "mem");
    // The clock of traces stands still during that time.
    let awake = (now() - clock) as f64 / 1e9;
    let slept = slept.map(|()| uptime() - seconds - awake);
    std::thread::sleep(Duration::from_secs(1));
    let mut runs = [before, run_on("0-3"), run_on("1")].concat();
    // An emulated machine that is busy takes a long time to bring back all of its CPUs.
    std::thread::sleep(Duration::from_secs(1));
    runs.extend(run_on("1-3"));

    let traces: Vec<_> =
        recorders.into_iter().map(|(source, recorder)| (source, recorder.stop())).collect();
    let slept = match slept {
        Ok(slept) => slept,
        Err(error) => return Outcome::Refused(format!("this machine cannot suspend: {error}")),
    };
    // If the only possible suspend is to idle, clocks may continue.
    let ways = fs::read_to_string("/sys/power/mem_sleep").unwrap_or_default();
    let is_deep = ways.contains("[deep]");
    assert!(slept > 1.0 || !is_deep, "it slept for {slept:.1} s of {SECONDS}: {ways}");
    let mut text = Vec::new();
    for (source, (path, said)) in traces {
        let trace = Trace::read(&path);
        trace.assert_sound();
        let (counted, lacking) = compare_with_gaps(&trace, &runs, &said);
        let count = |name: &str| trace.own.iter().filter(|event| event.name == name).count();
        let (away, back) = (count("cpu_offline"), count("cpu_online"));
        let is_reported = |event: &&Event| event.args.contains_key("suspended_ns");
        let changes = trace.own.iter().filter(is_reported);
        let reported =
            changes.map(|change| change.number("suspended_ns")).sum::<u64>() as f64 / 1e9;
        // The uptime has hundredths of a second, and was read outside of the suspension.
        assert!((reported - slept).abs() < 0.5, "{source}: {reported} s of {slept} s");
        let lost = trace.stats().number("lost");
        text.push(format!(
            "{source}: {counted} switches, CPUs went {away} times and came {back} times, {lost} events lost, {lacking} threads lack some in gaps"
        ));
    }
    let how = if is_deep { "in RAM" } else { "idle" };
    Outcome::Fine(format!("asleep {how} for {slept:.1} s of its clock; {}", text.join("; ")))
}
