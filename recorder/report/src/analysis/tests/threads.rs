//! Very many threads, and their names.

use std::collections::BTreeMap;

use super::super::thread_figures::MAX_ENDED;
use super::{figures_of, micros};
use crate::Metric::{RunQueue, Slice, Wakeup};
use crate::scene::{Leaves, Scene, thread};
use crate::{Report, ThreadReport};

#[test]
fn a_thread_goes_by_its_last_name_and_its_process_by_its_own() {
    let mut scene = Scene::new();
    scene.name(101, "sh");
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.name(101, "make");
    scene.switch(20, 0, 101, Leaves::X, 0);
    let report = scene.report();
    let make = thread(&report, 101);
    assert_eq!((&*make.comm, &*make.process_name, make.pid), ("make", "p100", Some(100)));
}

#[test]
fn generations_of_one_id_are_two_threads_of_the_same_id() {
    let mut scene = Scene::new();
    for (at, koid) in [(10, 101), (30, 101 + (1 << 22))] {
        scene.switch(at, 0, 0, Leaves::R, koid);
        scene.switch(at + 5, 0, koid, Leaves::X, 0);
    }
    let report = scene.report();
    let tids: Vec<Option<u64>> = report.threads().iter().map(|thread| thread.tid).collect();
    assert_eq!(tids, [Some(101); 2]);
}

#[test]
fn processes_are_the_sums_of_their_threads() {
    let mut scene = Scene::new();
    for (at, koid) in [(10, 101), (20, 102), (30, 201)] {
        scene.wake(at, 0, koid);
        scene.switch(at + 1, 0, 0, Leaves::R, koid);
        scene.switch(at + 3, 0, koid, Leaves::S, 0);
    }
    let processes = scene.report().processes();
    let sums: BTreeMap<&str, _> = processes
        .iter()
        .map(|p| (&*p.name, (p.threads, micros(p.stats.cpu_time), figures_of(&p.stats, Wakeup))))
        .collect();
    let expected = [("p100", (2, 4, (2, 2, 0))), ("p200", (1, 2, (1, 1, 0)))];
    assert_eq!(sums, BTreeMap::from(expected));
    assert_eq!(processes[0].name.as_ref(), "p100", "the most CPU time first");
}

fn folded(report: &Report) -> Vec<&ThreadReport> {
    report.threads().iter().filter(|thread| thread.koid.is_none()).collect()
}

#[test]
fn threads_beyond_the_bound_are_summed_up_by_name_and_no_sample_is_lost() {
    let mut scene = Scene::new();
    let extra = 300;
    let all = MAX_ENDED as u64 + extra;
    for number in 0..all {
        let koid = 1_000 + number;
        scene.name(koid, if number % 3 == 0 { "cc1" } else { "as" });
        let at = 10 * number;
        scene.wake(at, 0, koid);
        scene.switch(at + 1, 0, 0, Leaves::R, koid);
        scene.switch(at + 3, 0, koid, Leaves::X, 0);
    }
    let report = scene.report();
    assert_eq!(report.folded, extra);
    assert_eq!(report.threads().len(), MAX_ENDED + 2);
    let mut names: Vec<(&str, u64)> =
        folded(&report).iter().map(|group| (&*group.comm, group.threads)).collect();
    names.sort_unstable();
    assert_eq!(names, [("as", 200), ("cc1", 100)]);
    assert_eq!(figures_of(report.total(), Slice), (all, 2 * all, 0));
    assert_eq!(figures_of(report.total(), RunQueue), (all, all, 0));
    assert_eq!(report.total().voluntary, all);
    let group = folded(&report)[0];
    assert_eq!(micros(group.stats.cpu_time), 2 * group.threads);
    assert!(group.worst.is_some());
}
