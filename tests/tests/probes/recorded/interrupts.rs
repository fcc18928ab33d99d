//! `--irq`: durations on a track of each CPU.

use std::sync::mpsc::sync_channel;
use std::thread;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::{Ongoing, Recording, record};

use crate::recorded::ready;

#[test]
fn interrupts_are_on_tracks_of_their_cpus_under_their_names() {
    let Some(program) = ready() else { return };
    let recording = record(&["--irq"], &[program, "nap", "2", "50"]);
    let begins: Vec<_> = recording.trace.events.iter().filter(|hit| hit.begins()).collect();
    assert_eq!(recording.probe_count("interrupts"), begins.len() as u64);
    // A timer interrupt ends a sleep of a millisecond.
    assert!(!begins.is_empty(), "{}", recording.said);
    for hit in &recording.trace.events {
        assert!(hit.begins() || hit.ends(), "{hit:?}");
        assert!(matches!(hit.category.as_str(), "irq" | "softirq"), "{hit:?}");
        let (name, process) = &recording.trace.threads[&hit.thread];
        assert!(name.starts_with("CPU "), "{name}");
        assert_eq!(recording.trace.processes[process], "interrupts");
        assert!(!matches!(hit.name.as_str(), "unknown" | ""), "{hit:?}");
    }
    assert!(recording.said.contains("interrupts "), "{}", recording.said);
}

/// An event names the thread that has the CPU. If it came after the last switch, a switch would be inferred that no later event corrects:
/// so the scheduler's events must stop last.
#[test]
fn switches_are_recorded_until_the_last_interrupt_is() {
    if ready().is_none() {
        return;
    }
    let folder = Folder::new();
    let (to, from) = (sync_channel(0), sync_channel(0));
    let echo = thread::spawn(move || to.1.into_iter().all(|()| from.0.send(()).is_ok()));
    let options = ["--source", "bpf", "--irq", "--syscalls", "-q"];
    let ongoing = Ongoing::start(&folder.path("t.fxt"), &options).expect("it records");
    let ask = || {
        to.0.send(()).expect("the echo waits");
        from.1.recv().expect("the echo answers");
    };
    (0..1000).for_each(|_| ask());
    let recorded = thread::spawn(|| ongoing.stop());
    while !recorded.is_finished() {
        ask();
    }
    drop(to.0);
    assert!(echo.join().expect("no panic"));
    let (path, said) = recorded.join().expect("no panic");
    let trace = Recording::read(&path, String::new(), said).trace;
    assert!(trace.switches.len() > 100, "{} switches", trace.switches.len());
    for cpu in 0..u16::MAX {
        let mut on = trace.switches.iter().filter(|switch| switch.cpu == cpu).peekable();
        if on.peek().is_none() {
            break;
        }
        let last: Vec<_> = on.rev().take_while(|switch| switch.inferred).collect();
        assert!(last.is_empty(), "{last:#?}");
    }
}
