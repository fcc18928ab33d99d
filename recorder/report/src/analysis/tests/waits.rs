//! The longest waits, and the threads that caused them.

use fxt_reader::Cpu;

use super::micros;
use crate::scene::{Leaves, Scene};
use crate::{Metric, Options};

#[test]
fn a_wait_names_who_had_the_cpu_meanwhile_and_who_woke_the_thread() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.wake_by(10, 0, 103, 101);
    scene.switch(40, 0, 101, Leaves::S, 102);
    scene.switch(50, 0, 102, Leaves::S, 0);
    scene.switch(55, 0, 0, Leaves::R, 101);
    scene.switch(60, 0, 101, Leaves::S, 103);
    let report = scene.report();
    let wait = &report.worst()[0];
    assert_eq!((wait.thread.tid, wait.metric, micros(wait.length())), (103, Metric::Wakeup, 50));
    assert_eq!((wait.queued_on, wait.ran_on), (Cpu(0), Cpu(0)));
    let who: Vec<(&str, u64)> = wait
        .antagonists
        .iter()
        .map(|antagonist| (&*antagonist.thread.comm, micros(antagonist.ran)))
        .collect();
    assert_eq!(who, [("t101", 35), ("t102", 10)]);
    assert_eq!((micros(wait.idle), micros(wait.unknown)), (5, 0));
    assert_eq!(wait.waker.as_ref().map(|waker| waker.tid), Some(101));
}

#[test]
fn the_antagonists_of_a_preempted_thread_begin_with_who_took_the_cpu() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(10, 0, 101, Leaves::R, 102);
    scene.switch(50, 0, 102, Leaves::S, 101);
    let report = scene.report();
    let wait = &report.worst()[0];
    assert_eq!((wait.metric, wait.waker.as_ref()), (Metric::Preemption, None));
    assert_eq!(wait.antagonists[0].thread.tid, 102);
    assert_eq!(micros(wait.antagonists[0].ran), 40);
}

#[test]
fn a_wait_that_ends_on_another_cpu_keeps_the_queue_it_began_on() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(0, 1, 0, Leaves::R, 102);
    scene.wake(10, 0, 103);
    scene.switch(30, 1, 102, Leaves::S, 103);
    let report = scene.report();
    let wait = &report.worst()[0];
    assert_eq!((wait.queued_on, wait.ran_on), (Cpu(0), Cpu(1)));
    assert_eq!(wait.antagonists[0].thread.tid, 101);
}

#[test]
fn beyond_five_antagonists_the_rest_is_a_sum() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.wake(10, 0, 109);
    for (at, tid) in (102..=108).enumerate() {
        scene.switch(20 + at as u64 * (at as u64 + 1), 0, tid - 1, Leaves::S, tid);
    }
    scene.switch(100, 0, 108, Leaves::S, 109);
    let report = scene.report();
    let wait = &report.worst()[0];
    assert_eq!((wait.antagonists.len(), wait.more_antagonists), (5, 3));
    let named: u64 = wait.antagonists.iter().map(|antagonist| micros(antagonist.ran)).sum();
    assert_eq!(named + micros(wait.others) + micros(wait.idle), micros(wait.length()));
}

/// A thread with a lower scheduling class waits while others alternate on the CPU, `switches` times, each for 1 µs more than the previous
/// one, from 10 µs on.
fn starved(switches: u64, others: u64) -> (Scene, u64) {
    let mut scene = Scene::new();
    let other = |number: u64| 200 + number % others;
    scene.switch(0, 0, 0, Leaves::R, other(0));
    scene.wake_by(5, 0, 101, other(0));
    let mut at = 5;
    for number in 0..switches {
        at += 10 + number % others;
        scene.switch(at, 0, other(number), Leaves::S, other(number + 1));
        scene.wake(at + 1, 0, other(number));
    }
    scene.switch(at + 20, 0, other(switches), Leaves::S, 101);
    (scene, at + 15)
}

#[test]
fn a_wait_through_many_thousand_switches_knows_who_had_the_cpu_all_the_time() {
    let (switches, others) = (30_000, 20);
    let (scene, length) = starved(switches, others);
    let report = scene.report();
    let wait = report.worst().iter().find(|wait| wait.thread.tid == 101).expect("it waits");
    assert_eq!((micros(wait.length()), micros(wait.unknown), micros(wait.idle)), (length, 0, 0));
    let rounds = switches / others;
    let who: Vec<(u64, u64)> =
        wait.antagonists.iter().map(|it| (it.thread.tid, micros(it.ran))).collect();
    // The threads with the longest time, out of 20 threads that each take 10 to 29 µs in turn.
    let expected = [219, 218, 217, 216, 215].map(|tid| (tid, rounds * (tid - 200 + 10)));
    assert_eq!(who, expected);
    assert_eq!(wait.more_antagonists, others - 5);
    let named: u64 = who.iter().map(|(_, ran)| ran).sum();
    assert_eq!(named + micros(wait.others), length);
}

/// Threads 101 to 120 wait 1, 2, 3 and so on, each three times.
fn ladder() -> Scene {
    let mut scene = Scene::new();
    for round in 0..3 {
        for step in 1..=20 {
            let at = (round * 20 + step) * 1000;
            scene.wake(at, 0, 100 + step);
            scene.switch(at + step * 3 - round, 0, 0, Leaves::R, 100 + step);
            scene.switch(at + 500, 0, 100 + step, Leaves::S, 0);
        }
    }
    scene
}

#[test]
fn the_longest_waits_are_in_order_and_as_many_as_asked_for() {
    let lengths = |worst| {
        let report = ladder().report_with(Options { worst, ..Options::default() });
        report.worst().iter().map(|wait| micros(wait.length())).collect::<Vec<_>>()
    };
    assert_eq!(lengths(4), [60, 59, 58, 57]);
    assert!(lengths(0).is_empty());
    assert_eq!(lengths(1000).len(), 60);
}

#[test]
fn each_thread_keeps_its_own_longest_wait() {
    let report = ladder().report_with(Options { worst: 1, ..Options::default() });
    for thread in report.threads() {
        let longest = thread.worst.as_ref().map(|wait| wait.length());
        assert_eq!(longest, thread.metric(Metric::RunQueue).max());
    }
}
