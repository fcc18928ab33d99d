//! Quotas that are used up: which threads are switched out because of them, and for how long; and moves between queues.

use super::{LOST, Scene, switch, wakeup};
use crate::event::{Kept, Kind, SliceFacts, Throttle};
use fxtrec_units::{Cpu, Nanos, Tid};

/// The quota of cgroup 7 is used up; the thread's own cgroup 8 is below it.
fn throttled(kept: u64) -> Kind {
    let throttle = Throttle { kept: Nanos(kept), cgroup: 7, own: 8, now: true, of_queues: false };
    Kind::Slice(SliceFacts { throttled: Some(throttle), ..SliceFacts::default() })
}

fn kept(tid: u32, cpu: u32, kept: u64) -> Kind {
    Kind::Kept(Kept { of_queues: false, ..queue(tid, cpu, kept) })
}

/// The report of a queue before Linux 6.18.
fn queue(tid: u32, cpu: u32, kept: u64) -> Kept {
    let (tid, kept, cpu) = (Tid(tid), Nanos(kept), Cpu(cpu));
    Kept { tid, kept, cpu, own: 8, of_queues: true, begins: false, goes_on: false }
}

/// The queue of a thread that begins to wait was throttled for `kept`, and may be throttled now.
fn queued(kept: u64, now: bool) -> Throttle {
    let cgroup = if now { 7 } else { 0 };
    Throttle { kept: Nanos(kept), cgroup, own: 8, now, of_queues: true }
}

fn goes_out(throttle: Throttle) -> Kind {
    Kind::Slice(SliceFacts { throttled: Some(throttle), ..SliceFacts::default() })
}

/// Thread 5 is switched out on CPU 0 at 100.
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
    scene.reported();
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
fn after_a_loss_no_thread_is_reported_as_throttled() {
    let mut scene = five_is_throttled();
    scene.reported();
    scene.at(120, 1, LOST);
    let reported = scene.scheduled();
    let doubtful = "120 999/999: sched:throttled cpu=0 inferred=true".to_owned();
    assert!(reported.contains(&doubtful), "{reported:?}");
    scene.at(170, 0, kept(5, 0, 1_050));
    scene.at(170, 0, switch(6, "S", 5));
    assert_eq!(scene.scheduled(), ["170 cpu 0: 6 (1024) blocked -> 5 (1024)"]);
}

#[test]
fn one_that_came_in_unseen_is_not_told_to_have_been_throttled_then_or_later() {
    let mut scene = five_is_throttled();
    scene.reported();
    scene.at(120, 0, wakeup(9, 5));
    scene.at(130, 0, switch(5, "S", 6));
    scene.at(140, 0, kept(5, 0, 1_050));
    scene.at(140, 0, switch(6, "S", 5));
    let reported = scene.scheduled().join("\n");
    assert!(reported.contains("-> 5 (1024) inferred=true"), "{reported}");
    assert!(!reported.contains("throttled_ns"), "{reported}");
}

#[test]
fn a_period_whose_last_thread_was_taken_away_ends_at_an_unknown_time() {
    let mut scene = five_is_throttled();
    scene.reported();
    // It leaves a queue that is still throttled for the queue of another cgroup.
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

#[test]
fn where_queues_are_throttled_each_thread_that_waits_in_one_is_told_for_how_long() {
    let mut scene = Scene::new();
    scene.at(50, 0, switch(0, "R", 5));
    // Preempted 20 before the quota is used up.
    scene.at(100, 0, goes_out(queued(1_000, false)));
    scene.at(100, 0, switch(5, "R", 6));
    scene.at(120, 0, goes_out(queued(1_000, true)));
    scene.at(120, 0, switch(6, "R", 0));
    scene.at(130, 0, Kind::Queued(queued(1_010, true)));
    scene.at(130, 0, wakeup(7, 0));
    scene.at(190, 0, Kind::Kept(queue(5, 0, 1_060)));
    scene.at(190, 0, switch(0, "R", 5));
    scene.at(200, 0, Kind::Kept(queue(7, 0, 1_060)));
    scene.at(200, 0, switch(5, "S", 7));
    scene.at(210, 0, Kind::Kept(queue(6, 0, 1_060)));
    scene.at(210, 0, switch(7, "S", 6));
    let reported = scene.scheduled();
    let tells = |text: &str| {
        assert!(reported.iter().any(|reported| reported == text), "{text}: {reported:#?}");
    };
    tells("100 cpu 0: 5 (1024) running -> 6 (1024)");
    tells("120 cpu 0: 6 (1024) running -> 0 (idle) throttled=true");
    tells(r#"120 999/999: sched:throttled cgroup="/seven" cpu=0"#);
    tells("190 999/999: sched:throttled cpu=0 late_ns=10");
    let by = r#"throttled_by="/seven""#;
    tells(&format!("190 cpu 0: 0 (idle) running -> 5 (1024) throttled_ns=60 {by}"));
    tells(&format!("200 cpu 0: 5 (1024) blocked -> 7 (1024) throttled_ns=50 {by}"));
    tells(&format!("210 cpu 0: 7 (1024) blocked -> 6 (1024) throttled_ns=60 {by}"));
    let woken = reported.iter().find(|reported| reported.starts_with("130 ")).expect("7 is woken");
    assert!(woken.contains("throttled=true"), "{woken}");
}

#[test]
fn a_wait_that_begins_in_a_queue_that_never_was_throttled_has_all_of_what_that_says_later() {
    let mut scene = Scene::new();
    // Thread 5 already waits when recording starts, so its queue is unknown.
    scene.at(40, 0, Kind::Kept(queue(5, 0, 900)));
    scene.at(40, 0, switch(0, "R", 5));
    scene.at(100, 0, switch(5, "R", 6));
    scene.at(170, 0, Kind::Kept(queue(5, 0, 30)));
    scene.at(170, 0, switch(6, "S", 5));
    // A sleeping thread does not wait for a CPU.
    scene.at(180, 0, switch(5, "S", 0));
    scene.at(190, 0, Kind::Kept(queue(5, 0, 30)));
    scene.at(190, 0, switch(0, "R", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "40 cpu 0: 0 (idle) running -> 5 (1024)",
            "100 cpu 0: 5 (1024) running -> 6 (1024)",
            "170 cpu 0: 6 (1024) blocked -> 5 (1024) throttled_ns=30",
            "180 cpu 0: 5 (1024) blocked -> 0 (idle)",
            "190 cpu 0: 0 (idle) running -> 5 (1024)",
        ]
    );
}

#[test]
fn one_that_is_moved_between_queues_was_throttled_for_what_each_of_them_says() {
    let mut scene = Scene::new();
    scene.at(50, 0, switch(0, "R", 5));
    scene.at(100, 0, goes_out(queued(1_000, true)));
    scene.at(100, 0, switch(5, "R", 6));
    scene.reported();
    let moved = |from, to| Kind::Moved { tid: Tid(5), from: Cpu(from), to: Cpu(to) };
    // Its queue is still throttled, and so is that of CPU 1.
    scene.at(130, 0, Kind::Kept(Kept { goes_on: true, ..queue(5, 0, 1_030) }));
    scene.at(130, 0, moved(0, 1));
    scene.at(130, 0, Kind::Kept(Kept { begins: true, ..queue(5, 1, 500) }));
    scene.at(150, 1, Kind::Kept(queue(5, 1, 510)));
    scene.at(150, 1, moved(1, 2));
    scene.at(170, 2, Kind::Kept(queue(5, 2, 5)));
    scene.at(170, 2, switch(0, "R", 5));
    let reported = scene.scheduled();
    let last = reported.last().expect("it comes in");
    assert!(last.contains("throttled_ns=45 "), "30 + 10 + 5: {reported:#?}");
    assert!(
        !reported.iter().any(|reported| reported.contains("late_ns")),
        "not over on CPU 0: {reported:#?}"
    );
}
