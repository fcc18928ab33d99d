//! Quotas that are used up: whose thread goes out because of it, and for how long; and moves between queues.

use super::{LOST, Scene, switch, wakeup};
use crate::event::{Kind, SliceFacts, Throttle};
use fxtrec_units::{Cpu, Nanos, Tid};

/// The quota of cgroup 7 is used up, which the thread's own cgroup 8 is below.
fn throttled(kept: u64) -> Kind {
    let throttle = Throttle { kept: Nanos(kept), cgroup: 7, own: 8 };
    Kind::Slice(SliceFacts { steal: Nanos(0), throttled: Some(throttle), futex: None })
}

fn kept(tid: u32, cpu: u32, kept: u64) -> Kind {
    Kind::Kept { tid: Tid(tid), kept: Nanos(kept), cpu: Cpu(cpu), own: 8 }
}

/// Thread 5 goes out on CPU 0 at 100.
fn five_is_throttled() -> Scene {
    let mut scene = Scene::new();
    scene.at(50, 0, switch(0, "R", 5));
    scene.at(100, 0, throttled(1_000));
    scene.at(100, 0, switch(5, "R", 6));
    scene
}

#[test]
fn a_throttled_thread_comes_in_with_how_long_it_was_and_by_whom() {
    let mut scene = five_is_throttled();
    scene.at(170, 0, kept(5, 0, 1_050));
    scene.at(170, 0, switch(6, "S", 5));
    scene.at(180, 0, switch(5, "S", 6));
    scene.at(190, 0, kept(5, 0, 1_050));
    scene.at(190, 0, switch(6, "S", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "50 cpu 0: 0 (idle) running -> 5 (1024)",
            "100 cpu 0: 5 (1024) running -> 6 (1024) throttled=true",
            r#"100 999/999: sched:throttled cgroup="/seven" cpu=0"#,
            "170 999/999: sched:throttled cpu=0 late_ns=20",
            r#"170 cpu 0: 6 (1024) blocked -> 5 (1024) throttled_ns=50 throttled_by="/seven""#,
            "180 cpu 0: 5 (1024) blocked -> 6 (1024)",
            "190 cpu 0: 6 (1024) blocked -> 5 (1024)",
        ]
    );
}

#[test]
fn one_that_is_moved_when_it_may_run_again_was_throttled_until_then() {
    let mut scene = five_is_throttled();
    scene.told();
    scene.at(160, 1, kept(5, 0, 1_040));
    scene.at(160, 1, Kind::Moved { tid: Tid(5), from: Cpu(0), to: Cpu(1) });
    scene.at(170, 1, kept(5, 1, 9_000));
    scene.at(170, 1, switch(0, "R", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "160 999/999: sched:throttled cpu=0 late_ns=20",
            "160 5/5: sched:migrate orig_cpu=0 dest_cpu=1",
            r#"170 cpu 1: 0 (idle) running -> 5 (1024) throttled_ns=40 throttled_by="/seven""#,
        ]
    );
}

#[test]
fn after_a_loss_nobody_is_told_to_have_been_throttled() {
    let mut scene = five_is_throttled();
    scene.told();
    scene.at(120, 1, LOST);
    let told = scene.scheduled();
    let doubtful = "120 999/999: sched:throttled cpu=0 inferred=true".to_owned();
    assert!(told.contains(&doubtful), "{told:?}");
    scene.at(170, 0, kept(5, 0, 1_050));
    scene.at(170, 0, switch(6, "S", 5));
    assert_eq!(scene.scheduled(), ["170 cpu 0: 6 (1024) blocked -> 5 (1024)"]);
}

#[test]
fn one_that_came_in_unseen_is_not_told_to_have_been_throttled_then_or_later() {
    let mut scene = five_is_throttled();
    scene.told();
    scene.at(120, 0, wakeup(9, 5));
    scene.at(130, 0, switch(5, "S", 6));
    scene.at(140, 0, kept(5, 0, 1_050));
    scene.at(140, 0, switch(6, "S", 5));
    let told = scene.scheduled().join("\n");
    assert!(told.contains("-> 5 (1024) inferred=true"), "{told}");
    assert!(!told.contains("throttled_ns"), "{told}");
}

#[test]
fn a_period_whose_last_thread_was_taken_away_ends_at_an_unknown_time() {
    let mut scene = five_is_throttled();
    scene.told();
    // It leaves a queue that is throttled still, for one of another cgroup.
    scene.at(160, 0, kept(5, 0, 990));
    scene.at(160, 0, switch(6, "S", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "160 999/999: sched:throttled cpu=0 inferred=true",
            r#"160 cpu 0: 6 (1024) blocked -> 5 (1024) throttled_ns=60 throttled_by="/seven""#,
        ]
    );
}

#[test]
fn the_queue_of_a_thread_that_was_not_throttled_says_nothing_about_its_wait() {
    let mut scene = Scene::new();
    scene.at(50, 0, kept(5, 0, 1_000));
    scene.at(50, 0, switch(0, "R", 5));
    assert_eq!(scene.scheduled(), ["50 cpu 0: 0 (idle) running -> 5 (1024)"]);
}
