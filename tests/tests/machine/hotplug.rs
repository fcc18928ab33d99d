//! CPUs that go offline and online again while the machine is recorded.

use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::hotplug::Pluggable;
use fxtrec_tests::machine;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::record_by_each;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::workload::{Thread, threads};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// Runs new threads that pass a byte back and forth, on one CPU or on any.
fn run(cpu: Option<u16>) -> Vec<Thread> {
    let mut command = match cpu {
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), WORKLOAD]);
            command
        }
        None => Command::new(WORKLOAD),
    };
    threads(&succeed(command.args(["threads", "1", "1000"]).stdin(Stdio::null())))
}

/// The CPU goes offline once; after its return the workloads run, first pinned to it and then not.
struct Episode {
    away: Range<u64>,
    runs: Vec<Vec<Thread>>,
}

fn episode(pluggable: &Pluggable, time: Duration) -> Episode {
    let away = pluggable.away_for(time);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(run(Some(pluggable.cpu)));
        runs.push(run(None));
    }
    Episode { away, runs }
}

/// When the last gap of the CPU ended that began with its return.
fn gap_after(trace: &Trace, cpu: u16, away: &Range<u64>, until: u64) -> Option<u64> {
    let of_it = trace.own.iter().filter(|event| event.name == "lost");
    let here = of_it.filter(|event| event.number("cpu") == u64::from(cpu));
    here.map(|event| event.time).filter(|time| (away.end..until).contains(time)).max()
}

fn check(source: &str, trace: &Trace, cpu: u16, episode: &Episode, next: u64) {
    let Episode { away, runs } = episode;
    // No thread has a CPU that does not exist.
    let middle = away.start + (away.end - away.start) / 2;
    let before = trace.switches.iter().rfind(|switch| switch.cpu == cpu && switch.time <= middle);
    let before = before.expect("it was recorded before");
    assert_eq!(before.incoming, 0, "{source}: {before:?} has CPU {cpu}, away {away:?}");

    let gap = gap_after(trace, cpu, away, next);
    let seen_from = match (source, gap) {
        ("perf", gap) => gap.expect("what ran before it was opened again, nobody saw"),
        (_, gap) => {
            assert_eq!(gap, None, "{source} sees a CPU from its first event on");
            away.end
        }
    };
    let mut compared = 0;
    for run in runs.iter().filter(|run| run.iter().all(|thread| thread.begin >= seen_from)) {
        compared += 1;
        let process = trace.threads[&run[0].koid].1;
        assert!(trace.processes[&process].starts_with("workload"), "{source}: {process}");
        for thread in run {
            assert_eq!(trace.threads[&thread.koid].1, process, "{source}: {thread:?}");
            let outs = trace.outs(thread.koid).filter(|switch| thread.has(switch.time)).count();
            assert_eq!(outs as u64, thread.switches, "{source}: {thread:?}, gap until {gap:?}");
        }
    }
    eprintln!("{source}: {compared} of {} runs, gap until {gap:?}, away {away:?}", runs.len());
    assert!(compared >= 2, "{source}: still not seen after {seen_from}, away {away:?}");
    let on_it = trace.switches.iter().filter(|switch| switch.cpu == cpu && switch.time > seen_from);
    assert!(on_it.count() > 1000, "{source}: the pinned runs are on CPU {cpu}");
}

#[test]
fn a_cpu_that_comes_back_is_recorded_at_once_and_what_was_not_seen_is_a_gap_there() {
    if !may_record() {
        return;
    }
    let Some(pluggable) = Pluggable::find() else { return };
    let folder = Folder::new();
    let (sources, mut episodes) = (["bpf", "perf", "ftrace"], None);
    let stopped =
        record_by_each(machine::alone(), &folder, &sources, &["--ring-size", "8M"], |_| {
            run(Some(pluggable.cpu));
            // Shorter and longer than the interval at which lists of CPUs are compared.
            let short = episode(&pluggable, Duration::from_millis(100));
            episodes = Some((short, episode(&pluggable, Duration::from_millis(1500))));
        });
    let (short, long) = episodes.expect("just done");
    for (source, path, said) in stopped {
        let trace = Trace::read(&path);
        trace.assert_sound();
        check(source, &trace, pluggable.cpu, &short, long.away.start);
        check(source, &trace, pluggable.cpu, &long, u64::MAX);
        let events = |name: &str| trace.own.iter().filter(|event| event.name == name).count();
        assert!(events("cpu_offline") >= 1 && events("cpu_online") >= 1, "{source}: {said}");
        if source == "perf" {
            assert!(said.contains("AN UNKNOWN NUMBER OF EVENTS, in 2 gaps"), "{said}");
            let stats = trace.own.iter().find(|event| event.name == "loss_stats");
            assert_eq!(stats.expect("something is missing").number("unknown_losses"), 2, "{said}");
        }
    }
}
