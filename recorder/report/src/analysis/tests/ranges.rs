//! Parts of a trace: times, CPUs, threads.

use fxt_reader::{Cpu, Nanos};

use super::{assert_figures, figures, micros};
use crate::Metric::{Blocked, RunQueue, Slice, Wakeup};
use crate::scene::{Leaves, Scene, thread};
use crate::{Options, Pattern, Report, Selection, ThreadFilter, TimeRange, TimeSpec};

/// 101 runs on CPU 0 for 10 of every 100 from 1000 to 2000, after a wait of 5; 102 does the same on CPU 1.
fn beat() -> Scene {
    let mut scene = Scene::new();
    for begin in (1000..2000).step_by(100) {
        scene.wake(begin, 0, 101).wake(begin, 1, 202);
        scene.switch(begin + 5, 0, 0, Leaves::R, 101).switch(begin + 5, 1, 0, Leaves::R, 202);
        scene.switch(begin + 15, 0, 101, Leaves::S, 0).switch(begin + 15, 1, 202, Leaves::S, 0);
    }
    scene
}

fn select(selection: Selection) -> Report {
    beat().report_with(Options { selection, ..Options::default() })
}

#[test]
fn a_range_is_a_trace_that_was_cut() {
    let micros_at = |at: u64| TimeSpec::At(Nanos(at * 1000));
    let range = TimeRange { from: Some(micros_at(1310)), to: Some(micros_at(1502)) };
    let report = select(Selection { range, ..Selection::default() });
    assert_eq!((report.span.begin.0, report.span.end.0), (1_310_000, 1_502_000));
    assert_figures(
        &report,
        101,
        // These are cut: the slice from 1305 to 1315, and the wait that begins at 1500.
        &[(Slice, (1, 10, 1)), (Wakeup, (1, 5, 1)), (Blocked, (2, 170, 0))],
    );
    assert_eq!(micros(thread(&report, 101).stats.cpu_time), 15);
    assert_eq!(report.switches(), 2 * 3);
    let relative =
        TimeRange { from: Some(TimeSpec::After(310_000 - 5_000)), to: Some(micros_at(1502)) };
    let again = select(Selection { range: relative, ..Selection::default() });
    assert_eq!(again.span.begin.0, 1_305_000, "after the first scheduling record, at 1000");
}

#[test]
fn a_range_beside_the_trace_has_nothing() {
    let range = TimeRange { from: Some(TimeSpec::After(1_000_000_000)), to: None };
    let report = select(Selection { range, ..Selection::default() });
    assert!(report.threads().is_empty() && report.cpus.is_empty());
    assert_eq!(report.span.length().as_nanos(), 0);
}

#[test]
fn a_cpu_that_is_chosen_keeps_its_samples_and_no_others() {
    let report = select(Selection { cpus: vec![Cpu(1)], ..Selection::default() });
    assert_eq!(report.threads().len(), 1, "101 never ran there");
    assert_eq!(figures(&report, 202, Slice), (10, 100, 0));
    let numbers: Vec<Cpu> = report.cpus.iter().map(|cpu| cpu.cpu).collect();
    assert_eq!(numbers, [Cpu(1)]);
    assert_eq!(report.switches(), 20);
}

#[test]
fn threads_are_chosen_by_their_last_names_and_the_total_is_theirs() {
    let mut scene = beat();
    scene.name(202, "audio-out");
    let filter = |comms: &[&str], pids: &[u64]| ThreadFilter {
        comms: comms.iter().map(|glob| Pattern::new(glob).expect("a glob")).collect(),
        pids: pids.to_vec(),
        ..ThreadFilter::default()
    };
    let report = |threads: ThreadFilter| {
        let selection = Selection { threads, ..Selection::default() };
        scene.report_with(Options { selection, ..Options::default() })
    };
    let audio = report(filter(&["audio*"], &[]));
    assert_eq!(audio.threads().len(), 1);
    assert_eq!(audio.total().metric(RunQueue).count(), 10);
    assert_eq!(audio.cpus.len(), 2, "CPUs remain what all threads make of them");
    assert!(!audio.worst().is_empty() && audio.worst().iter().all(|wait| wait.thread.tid == 202));
    assert!(report(filter(&["audio*"], &[100])).threads().is_empty());
    assert_eq!(report(filter(&[], &[100, 200])).threads().len(), 2);
}

#[test]
fn threads_are_chosen_by_the_cgroup_of_their_process_as_it_was_last() {
    let mut scene = beat();
    scene.name_in(202, "t202", Some("/pods/one"));
    scene.name_in(202, "t202", Some("/pods/two"));
    // As an application that names itself does.
    scene.name(202, "t202");
    let report = |glob: &str| {
        let cgroups = vec![Pattern::new(glob).expect("a glob")];
        let threads = ThreadFilter { cgroups, ..ThreadFilter::default() };
        let selection = Selection { threads, ..Selection::default() };
        scene.report_with(Options { selection, ..Options::default() })
    };
    let two = report("/pods/t*");
    let reported =
        |thread: &crate::ThreadReport| (thread.tid, thread.cgroup.as_deref() == Some("/pods/two"));
    assert_eq!(two.threads().iter().map(reported).collect::<Vec<_>>(), [(Some(202), true)]);
    assert_eq!(two.total().metric(RunQueue).count(), 10);
    assert!(report("/pods/one").threads().is_empty());
    assert!(scene.report().threads().iter().any(|thread| thread.cgroup.is_none()), "not known");
}
