//! Units of work: which interval is unusual.

use fxt_writer::Value;
use fxtrec_report::scene::{Leaves, Scene};

use super::{ALL, FUTEX, READ, SLEEP, ask};
use crate::Query;

fn call(number: u32) -> [(&'static str, Value<'static>); 1] {
    [("syscall", Value::Uint32(number))]
}

/// Waits for readiness of files.
const POLL: u32 = 232;

/// What the client's requests take in microseconds, of which one is given.
const USUAL: u64 = 200;

/// A client sleeps for 3 ms, sends a request, and waits until the server has answered it; both are made by COMMAND, which waits
/// for the client's end. Request 20 takes `longest` microseconds.
fn client_and_server(longest: u64) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "sh").name(101, "sh").name(102, "sh").name(101, "client").name(102, "server");
    scene.switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(10, 1, 102, 100).wake_by(20, 0, 101, 100);
    scene.switch(30, 1, 0, Leaves::R, 102);
    scene.switch_with((40, 1), 102, Leaves::S, 0, &call(POLL));
    scene.switch_with((50, 0), 100, Leaves::S, 101, &call(61));
    let mut now = 60;
    for request in 0..40 {
        scene.switch_with((now, 0), 101, Leaves::S, 0, &call(SLEEP));
        now += 3_000;
        scene.wake_with(now, 0, 101, &[("interrupt", Value::Bool(true))]);
        scene.switch(now + 5, 0, 0, Leaves::R, 101);
        scene.wake_by(now + 20, 1, 102, 101);
        scene.switch_with((now + 30, 0), 101, Leaves::S, 0, &call(READ));
        scene.switch(now + 35, 1, 0, Leaves::R, 102);
        now += if request == 20 { longest } else { USUAL };
        scene.wake_by(now - 20, 0, 101, 102);
        scene.switch(now - 10, 0, 0, Leaves::R, 101);
        scene.switch_with((now - 5, 1), 102, Leaves::S, 0, &call(POLL));
    }
    scene.switch(now, 0, 101, Leaves::X, 0);
    scene.wake_by(now + 1, 0, 100, 101).switch(now + 2, 0, 0, Leaves::R, 100);
    scene.end(now + 100);
    scene
}

#[test]
fn the_request_that_takes_unusually_long_is_explained_and_not_the_longest_wait() {
    let why = ask(&client_and_server(50_000), &Query::default());
    assert_eq!(
        why.sentence,
        "client[101] took 50.0 ms from one idle wait in clock_nanosleep to the next, 49.8 ms more than the median of 39: \
         blocked 50.0 ms in read until server[102] woke it, which ran for 49.9 ms."
    );
    assert_eq!((why.subject, why.units, why.median_ns), ("unit", Some(39), Some(200_000)));
    assert_eq!(why.idle_in.as_deref(), Some("clock_nanosleep"));
    assert_eq!(why.meanwhile[0].thread.as_ref().map(|who| who.tid), Some(102));
}

#[test]
fn where_no_request_is_unusual_none_is_called_so() {
    for longest in [USUAL, 900, 1_150] {
        let why = ask(&client_and_server(longest), &Query::default());
        assert_ne!(why.subject, "unit", "{longest}: {}", why.sentence);
    }
}

#[test]
fn a_server_that_waits_for_its_clients_is_idle_and_a_client_that_waits_for_its_server_is_not() {
    let query = Query { thread: Some("server".to_owned()), ..Query::default() };
    let why = ask(&client_and_server(50_000), &query);
    assert_eq!((why.subject, why.idle_in.as_deref()), ("unit", Some("system call 232")));
    assert!(why.length_ns > 49_000_000 && why.sentence.contains("ran for"), "{}", why.sentence);
}

/// A thread that sleeps 5 ms at a time wants a lock, which it tries to take for 5 ms again and again while another runs.
#[test]
fn a_lock_that_is_tried_again_and_again_is_one_delay_with_the_thread_that_ran_meanwhile() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "py").name(101, "py").name(101, "export").name(100, "loop");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 101, 100);
    let mut now = 20;
    let mut wait = |scene: &mut Scene, number: u32| {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(number));
        scene.wake_with(now + 5_000, 0, 100, &[("interrupt", Value::Bool(true))]);
        scene.switch(now + 5_002, 0, 0, Leaves::R, 100);
        now += 5_010;
        now
    };
    for _ in 0..20 {
        wait(&mut scene, SLEEP);
    }
    let begun = wait(&mut scene, SLEEP);
    scene.switch(begun, 1, 0, Leaves::R, 101);
    let ended = (0..100).fold(0, |_, _| wait(&mut scene, FUTEX));
    scene.switch(ended - 20, 1, 101, Leaves::S, 0);
    for _ in 0..5 {
        wait(&mut scene, SLEEP);
    }
    let now = wait(&mut scene, SLEEP);
    scene.end(now + 10);
    let why = ask(&scene, &Query::default());
    assert_eq!((why.subject, why.thread.tid, why.units), ("unit", 100, Some(26)));
    assert_eq!(why.from_ns, (begun - 10) * 1000);
    let told =
        ": blocked 100 times in futex, 500 ms in all, each until an interrupt or a timer woke it";
    assert!(why.sentence.contains(told), "{}", why.sentence);
    assert!(why.sentence.ends_with("; meanwhile export[101] ran for 501 ms."), "{}", why.sentence);
}

/// A thread works for 100 us at a time and sleeps in between. Once its work takes ten tries with 10 ms between them, in each of which
/// `during` happens.
fn tried_again(during: impl Fn(&mut Scene, u64, u32)) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "py").name(101, "py").name(101, "batch").name(100, "order");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 101, 100);
    scene.switch(20, 1, 0, Leaves::R, 101).switch_with((30, 1), 101, Leaves::S, 0, &call(SLEEP));
    let mut now = 40;
    for number in 0..71 {
        let tries = (30..40).contains(&number);
        let (in_call, micros) = if tries { (FUTEX, 10_000) } else { (SLEEP, 5_000) };
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(in_call));
        if tries {
            during(&mut scene, now, number - 30);
        }
        now += micros;
        scene.wake_with(now, 0, 100, &[("interrupt", Value::Bool(true))]);
        scene.switch(now + 2, 0, 0, Leaves::R, 100);
        now += 100;
    }
    scene.end(now);
    scene
}

#[test]
fn the_thread_of_the_process_that_ran_before_the_last_try_is_named() {
    let batch = |scene: &mut Scene, now: u64, number: u32| {
        if number == 9 {
            scene.wake_with(now + 3_000, 1, 101, &[("interrupt", Value::Bool(true))]);
            scene.switch(now + 3_010, 1, 0, Leaves::R, 101);
            scene.switch_with((now + 3_810, 1), 101, Leaves::S, 0, &call(SLEEP));
        }
    };
    let why = ask(&tried_again(batch), &Query::default());
    assert_eq!(why.subject, "unit");
    let told = "; of its process only batch[101] ran during the last of these, for 800 us.";
    assert!(why.sentence.ends_with(told), "{}", why.sentence);
    let none = ask(&tried_again(|_, _, _| {}), &Query::default());
    assert!(!none.sentence.contains("batch"), "{}", none.sentence);
}

#[test]
fn a_switch_that_no_event_reported_divides_no_unit_that_is_much_longer() {
    let unseen = |scene: &mut Scene, now: u64, number: u32| {
        if number == 4 {
            scene.inferred(now + 9_000, 0, 0, 100).inferred(now + 9_500, 0, 100, 0);
        }
    };
    let why = ask(&tried_again(unseen), &Query::default());
    assert_eq!((why.subject, why.thread.tid), ("unit", 100), "{}", why.sentence);
    assert!((100_000_000..103_000_000).contains(&why.length_ns), "{}", why.length_ns);
}
