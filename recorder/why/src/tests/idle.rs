//! Units of work: which waits are idle, and which delays are no incident.

use fxt_writer::Value;
use fxtrec_report::scene::{Leaves, Scene};

use super::{ALL, FUTEX, READ, RECVFROM, SLEEP, ask};
use crate::Query;

fn call(number: u32) -> [(&'static str, Value<'static>); 1] {
    [("syscall", Value::Uint32(number))]
}

const POLL: u32 = 7;

const TIMER: [(&str, Value<'static>); 1] = [("interrupt", Value::Bool(true))];

/// Functions of a program and its interpreter, and of the interpreted program.
const LIBC: (u64, &str) = (0x1000, "clock_nanosleep");
const TIME_SLEEP: (u64, &str) = (0x2000, "time_sleep");
const VECTORCALL: (u64, &str) = (0x3000, "PyObject_Vectorcall");
const EVAL: (u64, &str) = (0x4000, "_PyEval_EvalFrameDefault");
const USLEEP: (u64, &str) = (0x5000, "usleep");
const LOOP: (u64, &str) = (1 << 62, "main (s.py:11)");
const RETRY: (u64, &str) = (1 << 62 | 16, "retry (s.py:20)");
const UNREAD: (u64, &str) = (1 << 62 | 32, "[a Python function that could not be read]");

type Frames = &'static [(u64, &'static str)];

/// A thread sleeps for 5 ms and works for 100 us, 80 times. After sleep 50 it sleeps 12 times in another place. The stack of each sleep is
/// that of `frames`, by its number, or of `again`.
fn sleeper(frames: impl Fn(u32) -> Frames, again: impl Fn(u32) -> Frames) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "orders").switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    for number in 0..80 {
        let tries = if number == 50 { 12 } else { 0 };
        for (stack, micros) in
            (0..tries).map(|at| (again(at), 6_000)).chain([(frames(number), 5_000)])
        {
            scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
            if !stack.is_empty() {
                scene.frames(now, 100, stack);
            }
            now += micros;
            scene.wake_with(now, 0, 100, &TIMER).switch(now + 2, 0, 0, Leaves::R, 100);
            now += 100;
        }
    }
    scene.end(now);
    scene
}

#[test]
fn sleeps_in_one_function_of_an_interpreted_program_are_alike_however_it_is_called() {
    // Before its functions are known, after that, when it is run faster, and when they could not be read.
    let frames = |number| -> Frames {
        match number {
            0..15 => &[LIBC, TIME_SLEEP, VECTORCALL, EVAL],
            15..30 => &[LIBC, TIME_SLEEP, VECTORCALL, LOOP],
            60..66 => &[LIBC, TIME_SLEEP, UNREAD],
            _ => &[LIBC, TIME_SLEEP, LOOP],
        }
    };
    let tries: [Frames; 2] = [&[LIBC, TIME_SLEEP, RETRY, LOOP], &[LIBC, USLEEP, LOOP]];
    for retry in tries {
        let why = ask(&sleeper(frames, |_| retry), &Query::default());
        assert_eq!((why.is_unusual, why.units), (Some(true), Some(79)), "{}", why.sentence);
        assert!((72_000_000..74_000_000).contains(&why.length_ns), "{}", why.sentence);
    }
}

#[test]
fn a_sleep_whose_stack_was_missed_is_like_those_before_and_after_it() {
    let frames = |number| -> Frames { if number == 30 { &[] } else { &[LIBC, TIME_SLEEP, LOOP] } };
    let retry = |number| -> Frames { if number == 6 { &[] } else { &[LIBC, USLEEP, LOOP] } };
    let why = ask(&sleeper(frames, retry), &Query::default());
    assert_eq!((why.is_unusual, why.units), (Some(true), Some(79)), "{}", why.sentence);
    assert!((72_000_000..74_000_000).contains(&why.length_ns), "{}", why.sentence);
}

/// A thread sleeps for 5 ms and runs for 100 us, 40 times. Once it runs for 60 ms, of which 15 ms are unknown, after `known` microseconds.
fn partly_unknown(known: u64) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "loop").name(900, "other").switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    for number in 0..40 {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        now += 5_000;
        scene.wake_with(now, 0, 100, &TIMER).switch(now, 0, 0, Leaves::R, 100);
        if number == 20 {
            scene.switch(now + known, 0, 100, Leaves::R, 900);
            scene.switch(now + known + 10, 0, 900, Leaves::S, 100);
            scene.inferred(now + known + 15_000, 0, 100, 900);
            scene.switch(now + known + 15_010, 0, 900, Leaves::S, 100);
            now += 60_000;
        }
        now += 100;
    }
    scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP)).end(now + 10);
    scene
}

#[test]
fn a_unit_counts_if_half_of_it_is_known_in_one_piece() {
    let why = ask(&partly_unknown(40_000), &Query::default());
    assert_eq!((why.is_unusual, why.units), (Some(true), Some(39)), "{}", why.sentence);
    let reported = "ran for 45.1 ms and unknown for 15.0 ms (no event reported the switch).";
    assert!(why.sentence.ends_with(reported), "{}", why.sentence);
    // It may have slept in between.
    let why = ask(&partly_unknown(22_000), &Query::default());
    assert_eq!((why.is_unusual, why.units), (Some(false), Some(38)), "{}", why.sentence);
}

const LOOPS: Frames = &[(0x6000, "epoll_wait"), (0x7000, "uv__io_poll")];

/// An event loop waits for requests of a client, which works as long as it waits; once a timer ends its wait, which has the stack
/// `frames`.
fn event_loop(frames: Frames) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(201, "client").name(201, "server");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 201, 100);
    scene.switch(20, 1, 0, Leaves::R, 201);
    let mut now = 30;
    for number in 0..40 {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        let timed = number == 20;
        for part in 0..1 + u64::from(timed) {
            scene.switch_with((now + 1, 1), 201, Leaves::S, 0, &call(POLL));
            scene.frames(now + 1, 201, if timed && part == 0 { frames } else { LOOPS });
            now += 6_000;
            if timed && part == 0 {
                scene.wake_with(now, 1, 201, &TIMER);
            } else {
                scene.wake_with(now - 20, 0, 100, &TIMER).switch(now - 10, 0, 0, Leaves::R, 100);
                scene.wake_by(now, 1, 201, 100);
            }
            scene.switch(now + 2, 1, 0, Leaves::R, 201);
            now += 100;
        }
    }
    scene.end(now);
    scene
}

#[test]
fn a_timed_wait_of_an_event_loop_is_idle_at_the_place_where_it_waits_for_requests() {
    let of = Query { thread: Some("server".to_owned()), ..Query::default() };
    let why = ask(&event_loop(LOOPS), &of);
    assert_eq!((why.is_unusual, why.units), (Some(false), Some(40)), "{}", why.sentence);
    let why = ask(&event_loop(&[(0x6000, "epoll_wait"), (0x8000, "pg_sleep")]), &of);
    assert_eq!((why.is_unusual, why.units), (Some(true), Some(39)), "{}", why.sentence);
}

/// A thread of a server answers a client, which sleeps for 3 ms between requests. Once, another thread of the server answers 20 requests
/// while the first one waits for it: without effect, or until the work of `busy` microseconds for one request is done.
fn pool(busy: u64) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(201, "client").name(202, "client");
    scene.name(201, "server").name(202, "server").switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(10, 1, 201, 100).wake_by(11, 1, 202, 100).switch(12, 1, 0, Leaves::R, 201);
    scene.switch_with((14, 1), 201, Leaves::S, 202, &call(POLL));
    scene.switch_with((16, 1), 202, Leaves::S, 0, &call(FUTEX));
    let mut now = 20;
    let mut request = |scene: &mut Scene, server: u64, takes: u64, then: u32| {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        now += 3_000;
        scene.wake_with(now, 0, 100, &TIMER).switch(now + 1, 0, 0, Leaves::R, 100);
        scene.wake_by(now + 10, 1, server, 100);
        scene.switch_with((now + 12, 0), 100, Leaves::S, 0, &call(RECVFROM));
        scene.switch(now + 12, 1, 0, Leaves::R, server);
        now += 12 + takes;
        scene.wake_by(now, 0, 100, server).switch(now + 1, 0, 0, Leaves::R, 100);
        if then == FUTEX {
            // It passes its place to the other one.
            let other = 403 - server;
            scene.wake_by(now + 2, 1, other, server);
            scene.switch_with((now + 4, 1), server, Leaves::S, other, &call(FUTEX));
            scene.switch_with((now + 6, 1), other, Leaves::S, 0, &call(POLL));
        } else {
            scene.switch_with((now + 4, 1), server, Leaves::S, 0, &call(POLL));
        }
        now += 10;
    };
    for number in 0..60 {
        request(&mut scene, 201, 100, if number == 30 { FUTEX } else { POLL });
        for inside in 0..if number == 30 { 20 } else { 0 } {
            let takes = if inside == 10 { busy } else { 100 };
            request(&mut scene, 202, takes, if inside == 19 { FUTEX } else { POLL });
        }
    }
    scene.end(now + 100);
    scene
}

#[test]
fn a_wait_for_a_thread_that_is_idle_itself_is_no_incident() {
    let of = Query { thread: Some("201".to_owned()), ..Query::default() };
    let why = ask(&pool(100), &Query::default());
    assert_eq!(why.is_unusual, Some(false), "{}", why.sentence);
    // If the query is about that thread alone, nothing is known about the others' idle waits.
    assert_eq!(ask(&pool(100), &of).is_unusual, Some(true));
    let why = ask(&pool(200_000), &Query::default());
    assert_eq!(why.is_unusual, Some(true), "{}", why.sentence);
    assert!(
        why.sentence.contains("until woken by server[202], which ran for 20"),
        "{}",
        why.sentence
    );
}

/// A main thread works all the time and hands work to a `compiler`, which waits for it: once for 30 ms. If `answers`, the main thread waits
/// for the result.
fn compiler(answers: bool) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "main").name(101, "main").name(101, "compiler");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 101, 100);
    scene.switch(20, 1, 0, Leaves::R, 101);
    let mut now = 30;
    for number in 0..200 {
        scene.switch_with((now, 1), 101, Leaves::S, 0, &call(FUTEX));
        now += if number == 40 { 30_000 } else { 150 };
        scene.wake_by(now, 1, 101, 100).switch(now + 2, 1, 0, Leaves::R, 101);
        if answers {
            scene.switch_with((now + 4, 0), 100, Leaves::S, 0, &call(FUTEX));
        }
        now += 80;
        if answers {
            scene.wake_by(now - 10, 0, 100, 101).switch(now - 5, 0, 0, Leaves::R, 100);
        }
    }
    scene.end(now);
    scene
}

#[test]
fn a_thread_that_asks_nobody_waits_for_work() {
    let of = Query { thread: Some("compiler".to_owned()), ..Query::default() };
    assert_ne!(ask(&compiler(false), &of).subject, "wait");
    let why = ask(&compiler(true), &of);
    assert_eq!((why.subject, why.is_unusual), ("wait", Some(true)), "{}", why.sentence);
}

/// A client sends one request after another, and ends after the last answer: on its own, or because `other` kills it.
fn closed_loop(is_killed: bool) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(201, "client").name(301, "client");
    scene.name(201, "server").name(301, "other").switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(5, 1, 301, 100).wake_by(6, 1, 201, 100).switch(7, 1, 0, Leaves::R, 301);
    scene.switch_with((8, 1), 301, Leaves::S, 201, &call(READ));
    let mut now = 10;
    for request in 0..60 {
        if request > 0 {
            scene.wake_by(now, 1, 201, 100);
        }
        scene.switch_with((now + 5, 0), 100, Leaves::S, 0, &call(RECVFROM));
        if request > 0 {
            scene.switch(now + 6, 1, 0, Leaves::R, 201);
        }
        now += if request == 59 { 90_000 } else { 200 };
        scene.wake_by(now, 0, 100, if request == 59 && is_killed { 301 } else { 201 });
        scene.switch_with((now + 5, 1), 201, Leaves::S, 0, &call(POLL));
        scene.switch(now + 6, 0, 0, Leaves::R, 100);
        now += 10;
    }
    scene.switch(now, 0, 100, Leaves::X, 0).end(now + 100);
    scene
}

#[test]
fn the_last_wait_of_a_killed_client_is_no_incident() {
    let why = ask(&closed_loop(false), &Query::default());
    assert_eq!((why.subject, why.is_unusual), ("wait", Some(true)), "{}", why.sentence);
    assert_ne!(ask(&closed_loop(true), &Query::default()).subject, "wait");
}

/// A thread sleeps for 5 ms and runs for 100 us, 48 times; once it takes 8 ms, in which it is blocked if `blocked`.
fn one_long(at: u32, blocked: bool) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "server").switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    for number in 0..48 {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        now += 5_000;
        scene.wake_with(now, 0, 100, &TIMER).switch(now, 0, 0, Leaves::R, 100);
        if number == at && blocked {
            scene.switch_with((now + 10, 0), 100, Leaves::S, 0, &call(READ));
            scene.wake_with(now + 7_900, 0, 100, &TIMER);
            scene.switch(now + 7_900, 0, 0, Leaves::R, 100);
        }
        now += if number == at { 8_000 } else { 100 };
    }
    scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP)).end(now + 10);
    scene
}

#[test]
fn a_thread_that_computes_much_in_its_first_units_starts_up() {
    for (at, blocked, unusual) in
        [(2, false, false), (2, true, true), (4, false, false), (5, false, true), (20, false, true)]
    {
        let why = ask(&one_long(at, blocked), &Query::default());
        let units = 47 - u64::from(!unusual);
        assert_eq!((why.is_unusual, why.units), (Some(unusual), Some(units)), "{}", why.sentence);
    }
}

/// A server works for 60 ms on requests of `bulk`, which asks for much, and `client` asks it for something after `after` milliseconds of
/// that. Usually `client` waits for 100 us.
fn served_between(after: u64) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(201, "client").name(301, "client");
    scene.name(201, "server").name(301, "bulk").switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(10, 1, 201, 100).wake_by(11, 1, 301, 100).switch(12, 1, 0, Leaves::R, 301);
    scene.switch_with((14, 1), 301, Leaves::S, 201, &call(SLEEP));
    scene.switch_with((16, 1), 201, Leaves::S, 0, &call(POLL));
    let mut now = 20;
    for number in 0..60 {
        let by_bulk = if number == 30 { after * 1_000 } else { 0 };
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        now += 80_000 - by_bulk;
        if by_bulk > 0 {
            scene.wake_with(now, 1, 301, &TIMER).switch(now + 1, 1, 0, Leaves::R, 301);
            scene.wake_by(now + 5, 1, 201, 301);
            scene.switch_with((now + 6, 1), 301, Leaves::S, 201, &call(RECVFROM));
            now += by_bulk;
        }
        scene.wake_with(now, 0, 100, &TIMER).switch(now + 1, 0, 0, Leaves::R, 100);
        if by_bulk == 0 {
            scene.wake_by(now + 10, 1, 201, 100).switch(now + 11, 1, 0, Leaves::R, 201);
        }
        scene.switch_with((now + 12, 0), 100, Leaves::S, 0, &call(RECVFROM));
        now += if by_bulk > 0 { 60_000 - by_bulk } else { 100 };
        scene.wake_by(now, 0, 100, 201).switch(now + 1, 0, 0, Leaves::R, 100);
        scene.switch_with((now + 4, 1), 201, Leaves::S, 0, &call(POLL));
        now += 10;
    }
    scene.end(now + 100);
    scene
}

#[test]
fn the_client_that_waited_for_a_part_of_a_servers_work_is_the_victim() {
    for (after, chosen) in [(20, "client"), (50, "server")] {
        let why = ask(&served_between(after), &Query::default());
        assert_eq!((&*why.thread.comm, why.is_unusual), (chosen, Some(true)), "{}", why.sentence);
    }
}

/// A main thread passes work to another thread every 5 ms, and waits for the end of that work if `waits`. The work takes 100 us, and 4 ms
/// once.
fn handed_over(waits: bool) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "main").name(101, "main").name(101, "worker").switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(10, 1, 101, 100).switch(12, 1, 0, Leaves::R, 101);
    scene.switch_with((14, 1), 101, Leaves::S, 0, &call(FUTEX));
    let mut now = 20;
    for number in 0..60 {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        now += 5_000;
        scene.wake_with(now, 0, 100, &TIMER).switch(now + 1, 0, 0, Leaves::R, 100);
        scene.wake_by(now + 5, 1, 101, 100).switch(now + 6, 1, 0, Leaves::R, 101);
        scene.switch_with(
            (now + 8, 0),
            100,
            Leaves::S,
            0,
            &call(if waits { FUTEX } else { SLEEP }),
        );
        let takes = if number == 30 { 4_000 } else { 100 };
        now += 8 + takes;
        match waits {
            true => scene.wake_by(now, 0, 100, 101),
            false => scene.wake_with(now, 0, 100, &TIMER),
        };
        scene.switch(now + 1, 0, 0, Leaves::R, 100);
        scene.switch_with((now + 2, 1), 101, Leaves::S, 0, &call(FUTEX));
        now += 10;
    }
    scene.end(now);
    scene
}

#[test]
fn work_in_the_background_for_which_no_thread_waits_is_not_late() {
    let why = ask(&handed_over(false), &Query::default());
    assert_eq!(why.is_unusual, Some(false), "{}", why.sentence);
    let why = ask(&handed_over(true), &Query::default());
    assert_eq!((&*why.thread.comm, why.is_unusual), ("main", Some(true)), "{}", why.sentence);
}
