//! Kernel categories: each adds its events to the trace, and no others.

use std::collections::BTreeSet;
use std::process::Command;

use fxtrec_tests::event::Event;
use fxtrec_tests::programs::build;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{root, tools};

use super::*;

/// How often the program calls its function `nap`, which sleeps.
const NAPS: usize = 2 * 10;

/// The records of a session while the program runs, and the program's process.
fn record(daemon: &Daemon, program: &str, list: &[&str], more: &[&str]) -> (Trace, u64) {
    let texts = |list: &[&str]| Some(list.iter().map(|&name| name.to_owned()).collect());
    let output = daemon.path("kernel.fxt");
    let mut client = daemon.client();
    let config = TraceConfig { categories: texts(list), ..everything(BufferingMode::Streaming) };
    client.initialize(config, create(&output)).expect("none is there");
    let more = if more.is_empty() { None } else { texts(more) };
    client.start(StartOptions { additional_categories: more, ..now() }).expect("it starts");
    let mut run = Process::start(Command::new(program).args(["nap", "2", "10"]));
    let process = run.id();
    assert!(run.finish().success());
    client.stop(WRITE).expect("it stops");
    client.terminate().expect("it ends");
    (Trace::read(&output), process.into())
}

/// The categories requested first and at the start, and the expected content of the trace.
#[derive(Debug)]
struct Case<'c> {
    list: &'c [&'c str],
    more: &'c [&'c str],
    /// Whether there are switches and wakeups.
    scheduling: bool,
    expected: &'c [&'c str],
}

/// The categories of all kernel events.
const ALL: [&str; 4] = ["irq", "sched", "syscall", "uprobe"];

#[test]
fn each_category_records_its_events_and_no_others() {
    if !root::may_record() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let built = build("spans.c", &["-g0"]);
    let program = built.text();
    let policy = built.folder().join("policy.toml");
    std::fs::write(&policy, format!("[probes]\nnaps = \"{program}:nap\"\n")).expect("written");
    let daemon = Daemon::with(&["--policy", policy.to_str().expect("a plain path")]);
    let by_spec = format!("uprobe:{program}:nap");
    let by_spec = [by_spec.as_str()];
    let case = |list, more, scheduling, expected| Case { list, more, scheduling, expected };
    let cases = [
        case(&["other"], &[], false, &[]),
        case(&["sched"], &[], true, &[]),
        case(&["sched:waking"], &[], true, &["sched"]),
        case(&["irq"], &[], false, &["irq"]),
        case(&["syscall"], &[], false, &["syscall"]),
        case(&["uprobe:naps"], &[], false, &["uprobe"]),
        case(&by_spec, &[], false, &["uprobe"]),
        case(&["sched"], &["uprobe:n*"], true, &["uprobe"]),
        case(&["irq", "syscall"], &["sched:waking", "uprobe:naps"], true, &ALL),
    ];
    for case in cases {
        let (trace, process) = record(&daemon, program, case.list, case.more);
        assert_eq!(!trace.switches.is_empty(), case.scheduling, "{case:?}");
        assert_eq!(!trace.wakeups.is_empty(), case.scheduling, "{case:?}");
        // Moves between run queues are recorded with the switches and wakeups.
        assert!(case.scheduling || trace.moves.is_empty(), "{case:?}");
        let categories: BTreeSet<&str> = trace.events.iter().map(category).collect();
        assert_eq!(categories, case.expected.iter().copied().collect(), "{case:?}");
        let own: Vec<&Event> =
            trace.events.iter().filter(|event| event.process == process).collect();
        for expected in case.expected {
            let of = |event: &&&Event| category(event) == *expected;
            let all: Vec<&&Event> = own.iter().filter(of).collect();
            match *expected {
                "uprobe" => {
                    let name = if case.list == by_spec { "nap" } else { "naps" };
                    assert!(all.iter().all(|event| event.name == name), "{case:?}");
                    assert_eq!(all.len(), NAPS, "{case:?}");
                }
                "syscall" => {
                    let sleeps = all.iter().filter(|event| event.name == "clock_nanosleep");
                    let (begins, ends): (Vec<&Event>, Vec<&Event>) =
                        sleeps.map(|it| **it).partition(|it| it.begins());
                    assert_eq!((begins.len(), ends.len()), (NAPS, NAPS), "{case:?}");
                }
                "sched" => assert!(all.iter().all(|event| event.name == "waking"), "{case:?}"),
                // They are on tracks of the CPUs.
                "irq" => assert!(all.is_empty(), "{case:?}"),
                other => panic!("{other}"),
            }
        }
        if case.scheduling {
            let threads = trace.threads.iter().filter(|(_, (_, of))| *of == process);
            let outs: usize = threads.map(|(thread, _)| trace.outs(*thread).count()).sum();
            assert!(outs >= NAPS, "each nap goes off the CPU: {outs}, {case:?}");
        }
    }
}

/// The category that an event counts for: soft interrupts occur only on some machines.
fn category(event: &Event) -> &str {
    match event.category.as_str() {
        "softirq" => "irq",
        other => other,
    }
}
