//! Queues, utilisation, and whether work is conserved.

use super::micros;
use crate::Report;
use crate::model::{CpuReport, Load};
use crate::scene::{Leaves, Scene};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

fn load(cpu: &CpuReport) -> Load {
    cpu.load.expect("all switches are recorded")
}

fn unconserved(report: &Report) -> u64 {
    micros(report.unconserved.expect("all switches are recorded"))
}

#[test]
fn utilisation_is_busy_time_by_known_time() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(30, 0, 101, Leaves::S, 0);
    scene.switch(40, 1, 102, Leaves::S, 0);
    scene.end(100);
    let report = scene.report();
    let [zero, one] = &report.cpus[..] else { panic!("two CPUs: {report:?}") };
    assert_eq!((micros(zero.busy), micros(zero.idle)), (30, 70));
    assert_eq!((micros(one.busy), micros(one.idle)), (40, 60), "102 had it since the beginning");
    assert!(near(load(zero).busy, 0.3) && near(load(one).busy, 0.4));
    assert!(near(report.switches_per_second(), 30_000.0));
}

#[test]
fn the_queue_is_weighted_by_time_and_leaves_out_who_runs() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.wake(10, 0, 102);
    scene.wake(20, 0, 103);
    scene.switch(40, 0, 101, Leaves::R, 102);
    scene.switch(60, 0, 102, Leaves::S, 103);
    scene.switch(70, 0, 103, Leaves::S, 101);
    scene.end(100);
    let report = scene.report();
    // One thread waits from 10 to 20, two from 20 to 60 (101 follows 102), and one from 60 to 70.
    let cpu = &report.cpus[0];
    assert_eq!(load(cpu).queue_max, 2);
    assert!(
        near(load(cpu).queue_mean, (10.0 + 2.0 * 40.0 + 10.0) / 100.0),
        "{}",
        load(cpu).queue_mean
    );
}

#[test]
fn a_queue_next_to_an_idle_cpu_is_work_not_conserved() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(0, 1, 0, Leaves::R, 102);
    scene.wake(10, 0, 103);
    scene.switch(30, 1, 102, Leaves::S, 0);
    scene.switch(45, 1, 0, Leaves::R, 103);
    scene.end(100);
    assert_eq!(unconserved(&scene.report()), 15);
}

#[test]
fn a_cpu_that_is_offline_is_neither_idle_nor_busy_and_free_for_nobody() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(0, 1, 0, Leaves::R, 102);
    scene.switch(30, 1, 102, Leaves::S, 0);
    scene.offline(40, 1);
    scene.wake(50, 0, 103);
    scene.wake(70, 1, 104);
    // The CPU is idle when it is online again; it was not idle while it was offline.
    scene.switch(80, 1, 0, Leaves::R, 104);
    scene.switch(85, 1, 104, Leaves::S, 0);
    scene.switch(85, 0, 101, Leaves::S, 103);
    scene.end(100);
    let report = scene.report();
    let [zero, one] = &report.cpus[..] else { panic!("two CPUs: {report:?}") };
    assert_eq!((micros(zero.busy), micros(zero.idle)), (100, 0));
    assert_eq!((micros(one.busy), micros(one.idle)), (35, 25), "10 before, 15 after");
    assert_eq!(unconserved(&report), 0);
}

#[test]
fn an_idle_cpu_that_a_thread_was_woken_for_is_on_its_way() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 101, Leaves::S, 0);
    scene.switch(0, 1, 102, Leaves::S, 0);
    scene.wake(10, 0, 103);
    scene.switch(30, 0, 0, Leaves::R, 103);
    scene.end(100);
    assert_eq!(unconserved(&scene.report()), 0);
}

#[test]
fn work_that_is_not_conserved_to_the_end_counts_to_the_end() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(0, 1, 102, Leaves::S, 0);
    scene.wake(60, 0, 103);
    scene.end(100);
    assert_eq!(unconserved(&scene.report()), 40);
}

#[test]
fn queues_begin_again_after_a_gap() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(0, 1, 102, Leaves::S, 0);
    scene.wake(10, 0, 103);
    scene.lose(20, 0, 1);
    scene.switch(60, 0, 101, Leaves::S, 103);
    scene.wake(70, 0, 104);
    scene.switch(80, 0, 103, Leaves::S, 104);
    scene.end(100);
    let report = scene.report();
    let cpu = &report.cpus[0];
    // The wait of 103 before the gap is unknown for CPU 0; 104 waits for 10 of 100.
    assert_eq!(
        (load(cpu).queue_max, near(load(cpu).queue_mean, 0.1)),
        (1, true),
        "{}",
        load(cpu).queue_mean
    );
    assert_eq!(unconserved(&report), 20);
}

#[test]
fn a_cpu_of_the_highest_number_is_one_more_cpu() {
    let mut scene = Scene::new();
    scene.switch(0, u16::MAX, 0, Leaves::R, 101);
    scene.switch(5, u16::MAX, 101, Leaves::S, 0);
    let report = scene.report();
    assert_eq!(report.cpus.len(), 1);
    assert_eq!(micros(report.cpus[0].busy), 5);
}

/// CPU 0 switches from a thread in scope to an outsider, then to an unknown thread, and back.
#[test]
fn where_a_cpu_is_not_recorded_it_is_neither_busy_nor_idle_and_what_needs_it_is_absent() {
    const NOBODY: u64 = 0xd000_0001;
    let mut scene = Scene::of_scope("app");
    scene.wake(0, 0, 101);
    scene.switch(0, 0, NOBODY, Leaves::S, 101);
    scene.switch(10, 0, 101, Leaves::R, 900);
    scene.switch(30, 0, 900, Leaves::R, NOBODY);
    scene.switch(70, 0, NOBODY, Leaves::S, 101);
    scene.switch(80, 0, 101, Leaves::S, 0);
    scene.switch(85, 0, 0, Leaves::R, NOBODY);
    scene.end(100);
    let report = scene.report();
    let [cpu] = &report.cpus[..] else { panic!("one CPU: {report:?}") };
    assert_eq!((micros(cpu.busy), micros(cpu.idle)), (10 + 20 + 10, 5), "as far as it is recorded");
    assert!(cpu.load.is_none() && report.unconserved.is_none());
    let wait = &report.worst()[0];
    assert_eq!((micros(wait.idle), micros(wait.unknown), micros(wait.others)), (0, 40, 0));
    assert_eq!(wait.antagonists.len(), 1, "{wait:?}");
    let tids: Vec<_> = report.threads().iter().filter_map(|thread| thread.tid).collect();
    assert!(
        tids.contains(&101) && !tids.contains(&1),
        "what stands for nobody is no thread: {tids:?}"
    );
}
