//! Each metric, in a trace where nothing is missing.

use super::{assert_figures, figures, micros};
use crate::Metric::{Blocked, BlockedUninterruptible, Preemption, RunQueue, Slice, Wakeup};
use crate::scene::{Leaves, Scene, thread};

/// Thread 101 sleeps at 100, is woken at 150, runs from 170 to 200, and so on.
fn a_sleep() -> Scene {
    let mut scene = Scene::new();
    scene.switch(90, 0, 0, Leaves::R, 101);
    scene.switch(100, 0, 101, Leaves::S, 0);
    scene.wake(150, 0, 101);
    scene.switch(170, 0, 0, Leaves::R, 101);
    scene.switch(200, 0, 101, Leaves::S, 0);
    scene
}

#[test]
fn a_sleep_a_wake_up_and_a_run_are_blocked_time_wakeup_latency_and_slice() {
    let report = a_sleep().report();
    assert_figures(
        &report,
        101,
        &[
            (Blocked, (1, 50, 1)),
            (Wakeup, (1, 20, 0)),
            (Slice, (2, 40, 0)),
            // It was first switched in without a known wait.
            (RunQueue, (1, 20, 1)),
        ],
    );
    let stats = &thread(&report, 101).stats;
    assert_eq!((stats.voluntary, stats.involuntary, stats.migrations), (2, 0, 0));
    assert_eq!(micros(stats.cpu_time), 40);
    let slice = stats.metric(Slice);
    assert_eq!(slice.max_at().map(|at| at.0), Some(200_000), "the time at which it ended");
}

#[test]
fn a_preempted_thread_waits_until_it_comes_in_again() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.wake(25, 0, 102);
    scene.switch(30, 0, 101, Leaves::R, 102);
    scene.switch(75, 0, 102, Leaves::S, 101);
    scene.switch(80, 0, 101, Leaves::S, 0);
    let report = scene.report();
    assert_figures(
        &report,
        101,
        &[
            (Preemption, (1, 45, 0)),
            (Slice, (2, 25, 0)),
            (Blocked, (0, 0, 1)),
            (RunQueue, (1, 45, 1)),
        ],
    );
    assert_figures(&report, 102, &[(Wakeup, (1, 5, 0)), (Slice, (1, 45, 0)), (Blocked, (0, 0, 1))]);
    let stats = &thread(&report, 101).stats;
    assert_eq!((stats.voluntary, stats.involuntary), (1, 1));
}

#[test]
fn a_thread_that_gives_way_to_itself_again_has_waited_no_time() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch(30, 0, 101, Leaves::R, 102);
    scene.switch(30, 0, 102, Leaves::S, 101);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Preemption), (1, 0, 0));
}

#[test]
fn only_the_state_d_is_uninterruptible() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    for (begin, how) in [(20, Leaves::D), (120, Leaves::I), (220, Leaves::S)] {
        scene.switch(begin, 0, 101, how, 0);
        scene.wake(begin + 30, 0, 101);
        scene.switch(begin + 35, 0, 0, Leaves::R, 101);
    }
    let report = scene.report();
    assert_eq!(figures(&report, 101, BlockedUninterruptible), (1, 30, 0));
    assert_eq!(figures(&report, 101, Blocked), (2, 60, 0));
    assert_eq!(figures(&report, 101, Wakeup), (3, 15, 0));
}

#[test]
fn a_stopped_thread_is_not_blocked_and_waits_from_its_wake_up_on() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch(20, 0, 101, Leaves::T, 0);
    scene.wake(60, 0, 101);
    scene.switch(67, 0, 0, Leaves::R, 101);
    scene.switch(70, 0, 101, Leaves::X, 0);
    let report = scene.report();
    assert_figures(
        &report,
        101,
        &[(Wakeup, (1, 7, 0)), (Slice, (2, 13, 0)), (RunQueue, (1, 7, 1))],
    );
    assert_eq!(thread(&report, 101).stats.voluntary, 2);
}

#[test]
fn a_new_thread_waits_from_its_first_wake_up_on() {
    let mut scene = Scene::new();
    scene.wake(10, 0, 101);
    scene.switch(14, 0, 0, Leaves::R, 101);
    let report = scene.report();
    assert_figures(&report, 101, &[(Wakeup, (1, 4, 0)), (Slice, (0, 0, 1))]);
}

#[test]
fn a_wake_up_of_a_running_or_waiting_thread_changes_nothing() {
    let mut scene = a_sleep();
    scene.wake(210, 0, 101);
    scene.wake(220, 0, 101);
    scene.switch(230, 0, 0, Leaves::R, 101);
    scene.wake(240, 0, 101);
    scene.switch(250, 0, 101, Leaves::S, 0);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Wakeup), (2, 40, 0));
    assert_eq!(figures(&report, 101, Slice), (3, 60, 0));
    assert_eq!(report.idle_wakeups, 2);
}

#[test]
fn a_first_wake_up_of_a_thread_that_had_the_cpu_all_along_is_no_wait() {
    let mut scene = Scene::new();
    scene.switch(10, 1, 0, Leaves::R, 102);
    scene.wake(20, 0, 101);
    scene.switch(30, 0, 101, Leaves::S, 0);
    let report = scene.report();
    assert_figures(&report, 101, &[(Slice, (0, 0, 1)), (Blocked, (0, 0, 1))]);
    assert_eq!((report.idle_wakeups, report.cpus[0].load.map_or(0, |load| load.queue_max)), (1, 1));
}

#[test]
fn coming_in_on_another_cpu_is_a_migration_and_the_wait_belongs_there() {
    let mut scene = a_sleep();
    scene.wake(300, 0, 101);
    scene.switch(310, 1, 0, Leaves::R, 101);
    scene.switch(330, 1, 101, Leaves::R, 0);
    scene.switch(335, 1, 0, Leaves::R, 101);
    scene.switch(340, 1, 101, Leaves::R, 0);
    scene.switch(345, 0, 0, Leaves::R, 101);
    let report = scene.report();
    assert_eq!(thread(&report, 101).stats.migrations, 2);
    let of = |cpu: usize, metric| micros(report.cpus[cpu].metric(metric).sum());
    assert_eq!((of(0, Wakeup), of(1, Wakeup)), (20, 10));
    assert_eq!((of(0, Preemption), of(1, Preemption)), (5, 5));
    assert_eq!((of(0, Slice), of(1, Slice)), (40, 25));
    assert_eq!((of(0, Blocked), of(1, Blocked)), (150, 0), "it had left CPU 0");
}

#[test]
fn a_thread_that_ends_leaves_nothing_open() {
    let mut scene = Scene::new();
    scene.wake(10, 0, 101);
    scene.switch(14, 0, 0, Leaves::R, 101);
    scene.switch(20, 0, 101, Leaves::X, 0);
    scene.end(500);
    let report = scene.report();
    assert_figures(&report, 101, &[(Wakeup, (1, 4, 0)), (Slice, (1, 6, 0))]);
    assert_eq!(thread(&report, 101).stats.voluntary, 1);
}

#[test]
fn the_idle_task_is_no_thread() {
    let report = a_sleep().report();
    assert_eq!(report.threads().len(), 1);
    assert_eq!(report.total().switches(), 2);
    assert_eq!(report.switches(), 4, "of the CPU, idle included");
}

#[test]
fn what_began_before_the_trace_or_continues_after_it_is_censored() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 101, Leaves::R, 102);
    scene.wake(15, 0, 103);
    scene.switch(20, 1, 104, Leaves::D, 0);
    scene.end(60);
    let report = scene.report();
    assert_figures(&report, 101, &[(Slice, (0, 0, 1)), (Preemption, (0, 0, 1))]);
    assert_figures(&report, 102, &[(Slice, (0, 0, 1)), (RunQueue, (0, 0, 1))]);
    assert_figures(&report, 103, &[(Wakeup, (0, 0, 1))]);
    assert_figures(&report, 104, &[(Slice, (0, 0, 1)), (BlockedUninterruptible, (0, 0, 1))]);
    // The time on a CPU is known even if the slice is cut.
    assert_eq!(micros(thread(&report, 102).stats.cpu_time), 50);
    assert_eq!(micros(thread(&report, 104).stats.cpu_time), 10, "since the trace began");
    assert_eq!((report.span.begin.0, report.span.end.0), (10_000, 60_000));
}

#[test]
fn a_blocked_thread_that_comes_in_without_a_wake_up_is_censored_twice() {
    let mut scene = a_sleep();
    scene.switch(300, 0, 0, Leaves::R, 101);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Blocked), (1, 50, 1));
    assert_eq!(figures(&report, 101, Wakeup), (1, 20, 1));
}
