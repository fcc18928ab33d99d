//! The parts of intervals, and how unknown facts affect them.

use fxt_reader::Reader;
use fxt_writer::Value;
use fxtrec_report::scene::{Leaves, Scene};

use super::{
    ALL, FUTEX, ask, by_one_pass_as_by_two, chain, check, expect, links, of, parts, syscall, within,
};
use crate::Query;
use crate::explain::{Keep, explain_keeping};

#[test]
fn what_was_taken_of_a_slice_is_no_ones_own_time() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    let facts = [("steal_ns", Value::Uint64(3_000_000)), ("irq_ns", Value::Uint64(500_000))];
    scene.switch_with((10_000, 0), 101, Leaves::S, 0, &facts);
    scene.end(20_000);
    let why = ask(&scene, &within("t101", 0, 10_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 6_500), ("stolen", 3_000), ("interrupts", 500)]));
    // The position of that time within the slice is unknown.
    let why = ask(&scene, &within("t101", 1_000, 10_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 5_500), ("on_cpu_undivided", 3_500)]));
    // The same holds for an interval that ends within the slice, in one pass as well as in two, even if another thread starts to run on
    // another CPU before it has ended.
    let why = ask(&scene, &within("t101", 0, 9_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 5_500), ("on_cpu_undivided", 3_500)]));
    by_one_pass_as_by_two(&scene, &within("t101", 0, 9_000), 100);
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101).switch(9_500, 1, 0, Leaves::R, 102);
    scene.switch_with((10_000, 0), 101, Leaves::S, 0, &facts).switch(10_500, 0, 0, Leaves::R, 101);
    scene.switch_with((20_000, 0), 101, Leaves::S, 0, &[("steal_ns", Value::Uint64(7_000_000))]);
    scene.end(30_000);
    let why = ask(&scene, &within("t101", 0, 9_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 5_500), ("on_cpu_undivided", 3_500)]));
    by_one_pass_as_by_two(&scene, &within("t101", 0, 9_000), 100);
    // The time that was taken from the next slice is irrelevant.
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101).switch(10_000, 0, 101, Leaves::S, 0);
    scene.switch(10_500, 0, 0, Leaves::R, 101);
    scene.switch_with((20_000, 0), 101, Leaves::S, 0, &facts);
    scene.end(30_000);
    let why = ask(&scene, &within("t101", 0, 9_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 9_000)]));
    by_one_pass_as_by_two(&scene, &within("t101", 0, 9_000), 100);
    // If a loss precedes that, the taken time is unknown: the state before the loss applies.
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101).lose(9_500, 0, 1);
    scene.switch_with((10_000, 0), 101, Leaves::S, 0, &facts);
    scene.end(20_000);
    let why = ask(&scene, &within("t101", 0, 9_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 9_000)]));
    // The time that was taken cannot exceed the slice.
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    let facts = [("steal_ns", Value::Uint64(u64::MAX)), ("irq_ns", Value::Uint64(u64::MAX))];
    scene.switch_with((10_000, 0), 101, Leaves::S, 0, &facts);
    scene.end(20_000);
    assert_eq!(parts(&ask(&scene, &within("t101", 0, 10_000))), expect(&[("stolen", 10_000)]));
}

#[test]
fn a_wait_is_told_by_who_had_the_cpu() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.wake(1_000, 0, 101);
    scene.switch(3_000, 0, 201, Leaves::S, 202);
    scene.switch(4_000, 0, 202, Leaves::S, 0);
    scene.switch(4_500, 0, 0, Leaves::R, 203);
    scene.lose(5_000, 0, 3);
    scene.switch(6_000, 0, 203, Leaves::R, 101);
    scene.switch(9_000, 0, 101, Leaves::S, 0);
    scene.end(10_000);
    let why = ask(&scene, &within("t101", 1_000, 9_000));
    let expected = [
        ("on_cpu", 3_000),
        ("waiting t201", 2_000),
        ("unknown lost", 1_500),
        ("waiting t202", 1_000),
        ("waiting idle", 500),
    ];
    assert_eq!(parts(&why), expect(&expected));
    assert!(why.missing.iter().any(|text| text.contains("lost")), "{:?}", why.missing);
}

#[test]
fn a_wait_that_crosses_queues_is_reported_by_those_of_each() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.switch(0, 1, 0, Leaves::R, 202);
    scene.wake(1_000, 0, 101);
    scene.migrate(3_000, 101, 0, 1);
    scene.switch(3_500, 1, 202, Leaves::S, 203);
    scene.switch(6_000, 1, 203, Leaves::S, 101);
    scene.switch(7_000, 1, 101, Leaves::S, 0);
    scene.end(8_000);
    let why = ask(&scene, &within("t101", 1_000, 6_000));
    let expected = [("waiting t203", 2_500), ("waiting t201", 2_000), ("waiting t202", 500)];
    assert_eq!(parts(&why), expect(&expected));
    // Without the fact, the queue into which it was put counts.
    let mut scene = Scene::with_causes("waker");
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.switch(0, 1, 0, Leaves::R, 202);
    scene.wake(1_000, 0, 101);
    scene.switch(6_000, 1, 202, Leaves::S, 101);
    scene.end(8_000);
    assert_eq!(
        parts(&ask(&scene, &within("t101", 1_000, 6_000))),
        expect(&[("waiting t201", 5_000)])
    );
}

#[test]
fn a_wait_may_be_cut_on_both_sides() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.wake(1_000, 0, 101);
    scene.switch(4_000, 0, 201, Leaves::R, 202);
    scene.switch(6_000, 0, 202, Leaves::S, 101);
    scene.switch(9_000, 0, 101, Leaves::S, 0);
    scene.end(10_000);
    let why = ask(&scene, &within("t101", 2_000, 5_000));
    assert_eq!(parts(&why), expect(&[("waiting t201", 2_000), ("waiting t202", 1_000)]));
}

/// 101 sleeps for 8 ms until `kworker`, which has no earlier record, wakes it; `scene` says which thread woke `kworker`.
fn first_record(wake: impl FnOnce(&mut Scene)) -> Vec<String> {
    let mut scene = Scene::with_causes(ALL);
    scene.name(101, "app").name(301, "kworker").name(201, "other");
    scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 201);
    scene.switch(1_000, 0, 101, Leaves::S, 0);
    wake(&mut scene);
    scene.switch(8_000, 0, 0, Leaves::R, 301).wake_by(9_000, 0, 101, 301);
    scene.switch(9_000, 0, 301, Leaves::S, 101).switch(10_000, 0, 101, Leaves::S, 0).end(11_000);
    let why = ask(&scene, &within("app", 1_000, 9_000));
    why.chain
        .iter()
        .map(|it| format!("{} {} {}", it.thread.comm, it.state, it.to_ns / 1000))
        .collect()
}

#[test]
fn a_thread_whose_first_record_is_a_wakeup_was_blocked_unless_it_may_be_new() {
    let ran = "kworker on_cpu 9000".to_owned();
    let by_interrupt = first_record(|scene| {
        scene.wake_with(8_000, 0, 301, &[("interrupt", Value::Bool(true))]);
    });
    assert_eq!(by_interrupt, ["kworker blocked 8000", &ran]);
    let by_thread = first_record(|scene| {
        scene.wake_by(8_000, 0, 301, 201);
    });
    assert_eq!(by_thread, ["other on_cpu 8000", &ran]);
    // A new thread has the name of the thread that makes it, and wakes it then.
    let by_creator = first_record(|scene| {
        scene.name(201, "kworker").wake_by(8_000, 0, 301, 201);
    });
    assert_eq!(by_creator, ["kworker unknown 8000", &ran]);
    let by_unknown = first_record(|scene| {
        scene.wake(8_000, 0, 301);
    });
    assert_eq!(by_unknown, ["kworker unknown 8000", &ran]);
    let after_a_loss = first_record(|scene| {
        scene.lose(7_000, 1, 1).wake_with(8_000, 0, 301, &[("interrupt", Value::Bool(true))]);
    });
    assert_eq!(after_a_loss, ["app unknown 9000"]);
}

#[test]
fn what_is_not_seen_is_unknown_and_says_why() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.switch(2_000, 0, 201, Leaves::R, 101);
    scene.switch(3_000, 0, 101, Leaves::S, 201);
    // No wakeup.
    scene.switch(5_000, 0, 201, Leaves::R, 101);
    scene.inferred(7_000, 0, 101, 201);
    scene.end(9_000);
    let why = ask(&scene, &within("t101", 0, 9_000));
    let expected = [
        ("unknown inferred", 4_000),
        ("unknown not_seen", 2_000),
        ("unknown no_wakeup", 2_000),
        ("on_cpu", 1_000),
    ];
    assert_eq!(parts(&why), expect(&expected));
}

#[test]
fn after_a_loss_nothing_open_is_certain_but_what_has_a_cpu() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.switch(0, 1, 0, Leaves::R, 101);
    scene.switch(1_000, 1, 101, Leaves::S, 102);
    scene.switch(2_000, 0, 201, Leaves::R, 202);
    scene.lose(4_000, 0, 9);
    scene.wake(5_000, 1, 101);
    scene.switch(6_000, 1, 102, Leaves::S, 101);
    scene.end(9_000);
    // Events of CPU 0 may be missing since its last one.
    let why = ask(&scene, &within("t101", 1_000, 6_000));
    let expected =
        [("unknown lost", 3_000), ("waiting t102", 1_000), ("blocked no_syscall not_yet", 1_000)];
    assert_eq!(parts(&why), expect(&expected));
    let why = ask(&scene, &within("t102", 1_000, 6_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 5_000)]));
    // This is also true if the interval ends before the next event about the thread.
    let why = ask(&scene, &within("t101", 1_000, 4_500));
    assert_eq!(
        parts(&why),
        expect(&[("unknown lost", 2_500), ("blocked no_syscall not_yet", 1_000)])
    );
}

#[test]
fn a_waker_that_has_left_its_cpu_before_the_wake_up_took_effect_is_followed() {
    let mut scene = Scene::with_causes(ALL);
    let futex = [("syscall", Value::Uint32(FUTEX))];
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.switch(0, 1, 0, Leaves::R, 101);
    scene.switch_with((1_000, 1), 101, Leaves::S, 0, &futex);
    scene.switch(5_000, 0, 201, Leaves::S, 0);
    scene.wake_by(5_004, 1, 101, 201);
    scene.switch(5_010, 1, 0, Leaves::R, 101);
    scene.end(9_000);
    let why = ask(&scene, &within("t101", 1_000, 5_010));
    let expected = [(1, "t201 on_cpu", 4_000), (1, "t201 underway", 4), (0, "t101 waiting", 6)];
    assert_eq!(chain(&why), links(&expected));
    // A thread is not followed if it was not seen running for a long time.
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.switch(0, 1, 0, Leaves::R, 101);
    scene.switch_with((1_000, 1), 101, Leaves::S, 0, &futex);
    scene.switch(2_000, 0, 201, Leaves::S, 0);
    scene.wake_by(55_004, 1, 101, 201);
    scene.switch(55_010, 1, 0, Leaves::R, 101);
    scene.end(59_000);
    let why = ask(&scene, &within("t101", 1_000, 55_010));
    assert_eq!(chain(&why), links(&[(0, "t101 blocked", 54_004), (0, "t101 waiting", 6)]));
    assert_eq!(why.chain[0].reason, Some("waker_unseen"));
}

#[test]
fn outside_of_the_scope_nothing_is_known() {
    let mut scene = Scene::of_scope("app");
    let not_recorded = 0xd000_0001;
    scene.wake(500, 0, 101);
    scene.switch(1_000, 0, not_recorded, Leaves::S, 101);
    scene.switch(2_000, 0, 101, Leaves::R, 201);
    scene.switch(3_000, 0, 201, Leaves::R, not_recorded);
    scene.switch(6_000, 0, not_recorded, Leaves::S, 101);
    scene.switch(7_000, 0, 101, Leaves::S, 0);
    scene.end(9_000);
    let why = ask(&scene, &within("t101", 1_000, 7_000));
    let expected = [("waiting out_of_scope", 3_000), ("on_cpu", 2_000), ("waiting t201", 1_000)];
    assert_eq!(parts(&why), expect(&expected));
    let why = ask(&scene, &within("t201", 2_000, 7_000));
    assert_eq!(parts(&why), expect(&[("unknown out_of_scope", 4_000), ("on_cpu", 1_000)]));
}

#[test]
fn a_recording_of_some_processes_is_asked_about_those() {
    let mut scene = Scene::of_scope("processes");
    scene.wake(500, 0, 101);
    scene.switch(1_000, 0, 201, Leaves::R, 101);
    scene.switch(2_000, 0, 101, Leaves::R, 201);
    scene.switch(3_000, 0, 201, Leaves::R, 101);
    scene.switch(50_000, 0, 101, Leaves::S, 201);
    scene.switch(51_000, 0, 201, Leaves::S, 0);
    scene.end(60_000);
    let why = ask(&scene, &Query::default());
    assert_eq!((why.thread.comm.as_str(), why.from_ns), ("t101", 2_000_000));
    // If wakeups of all threads are recorded, the other thread's wakeup took longer.
    let mut all = Scene::new();
    all.wake(500, 0, 101);
    all.switch(1_000, 0, 201, Leaves::R, 101);
    all.switch(50_000, 0, 101, Leaves::S, 201);
    all.end(60_000);
    assert_eq!(ask(&all, &Query::default()).thread.comm, "t201");
}

#[test]
fn more_than_is_kept_is_not_known() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    for n in 1..1_000 {
        let (out, inn) = if n % 2 == 1 { (101, 102) } else { (102, 101) };
        scene.switch(n * 10, 0, out, Leaves::R, inn);
    }
    scene.end(10_000);
    let query = within("t101", 0, 9_990);
    let whole = ask(&scene, &query);
    assert_eq!(parts(&whole), expect(&[("on_cpu", 5_000), ("waiting t102", 4_990)]));
    let open = || Ok(Reader::from_slice(scene.bytes()));
    for at_once in [true, false] {
        let keep = Keep { most: 200, at_once };
        let answer = explain_keeping(&query, open, syscall, keep).expect("an answer");
        let why = &answer.explanations[0];
        check(why);
        assert_eq!(why.chain[0].reason, Some("not_kept"));
        let known: u64 = why.chain[1..].iter().map(|link| link.to_ns - link.from_ns).sum();
        assert!((1_900_000..2_100_000).contains(&known), "of 200 switches: {known}");
    }
}

#[test]
fn the_life_of_a_thread_begins_with_its_first_wake_up_and_ends_with_it() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201);
    scene.wake_by(1_000, 0, 101, 201);
    scene.switch(2_000, 0, 201, Leaves::S, 101);
    scene.switch(5_000, 0, 101, Leaves::X, 0);
    scene.end(9_000);
    let why = ask(&scene, &Query { life: true, ..of("101") });
    assert_eq!((why.from_ns, why.to_ns), (1_000_000, 5_000_000));
    assert_eq!(parts(&why), expect(&[("on_cpu", 3_000), ("waiting t201", 1_000)]));
}

#[test]
fn an_interval_may_be_over_before_there_is_any_record_of_the_thread() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 201).wake(5_000, 0, 101).switch(6_000, 0, 201, Leaves::S, 101);
    scene.end(9_000);
    let why = ask(&scene, &within("t101", 1_000, 4_000));
    assert_eq!(parts(&why), expect(&[("unknown not_seen", 3_000)]));
}

#[test]
fn times_may_be_as_large_as_they_can_be_written() {
    let mut scene = Scene::of_command(ALL, 100);
    let late = u64::MAX / 1000 - 1;
    scene.switch(0, 0, 0, Leaves::R, 101).wake_by(1, 0, 100, 101);
    scene.switch(late, 0, 101, Leaves::S, 100).switch(late + 1, 0, 100, Leaves::S, 0);
    let why = ask(&scene, &of("100"));
    assert_eq!(parts(&why), expect(&[("waiting t101", late - 1)]));
}
