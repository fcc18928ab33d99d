//! The cause in a sentence, for scenes with one cause each.

use fxt_writer::{Text, Value};
use fxtrec_report::scene::{Leaves, Scene};

use super::partners::done;
use super::{
    ALL, FSYNC, FUTEX, POLL, READ, RECVFROM, SLEEP, ask, chain, expect, links, of, parts, try_ask,
    within,
};
use crate::{Metric, Pick, Query, WhyError};

pub(super) fn call(number: u32) -> [(&'static str, Value<'static>); 1] {
    [("syscall", Value::Uint32(number))]
}

/// `audio` waits for a lock of `ui`, whose CPU two hogs use.
fn inversion() -> Scene {
    inversion_of(&call(FUTEX))
}

/// The same, with recorded facts about the wait.
fn inversion_of(wait: &[(&'static str, Value<'static>)]) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "main").name(101, "audio").name(102, "ui-params");
    scene.name(201, "hog-1").name(202, "hog-2");
    scene.switch(1_000, 0, 0, Leaves::R, 102);
    scene.switch(1_000, 1, 0, Leaves::R, 101);
    // The owner of the lock is preempted.
    scene.switch(2_000, 0, 102, Leaves::R, 201);
    scene.switch_with((3_000, 1), 101, Leaves::S, 0, wait);
    scene.switch(100_000, 0, 201, Leaves::R, 202);
    scene.switch(189_000, 0, 202, Leaves::R, 102);
    scene.wake_by(190_000, 1, 101, 102);
    scene.switch(190_010, 1, 0, Leaves::R, 101);
    scene.switch_with((191_000, 0), 102, Leaves::S, 0, &call(READ));
    scene.end(500_000);
    scene
}

#[test]
fn an_asynchronous_span_is_followed_from_the_thread_that_ended_it() {
    let mut scene = Scene::of_command(ALL, 100);
    // 101 works on it until 40 and wakes 102, which ends it at 60; an operation with another name has the same id.
    scene.switch(0, 0, 0, Leaves::R, 101).switch(1, 1, 0, Leaves::R, 102);
    scene.switch_with((5, 1), 102, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(40, 1, 102, 101).switch(40, 1, 0, Leaves::R, 102);
    scene.switch(45, 0, 101, Leaves::S, 0);
    scene.async_span(7, (10, 101), (60, 102), "request");
    scene.async_span(7, (42, 101), (43, 101), "reply");
    scene.switch(70, 1, 102, Leaves::S, 0).end(100);
    let query = Query { span: Some("request".to_owned()), ..Query::default() };
    let why = ask(&scene, &query);
    assert_eq!(
        why.sentence,
        "t102[102] took 50.0 us for 'request', which t101[101] began: ran for 20.0 us and blocked 30.0 us \
         in futex until woken by t101[101], which ran for 30.0 us."
    );
    assert_eq!(why.begun_on.as_ref().map(|who| who.tid), Some(101));
    assert!(
        why.missing.iter().any(|it| it.contains("between its beginning and its end")),
        "{why:#?}"
    );
    let query = Query { span: Some("app:reply".to_owned()), ..Query::default() };
    let sentence = ask(&scene, &query).sentence;
    assert_eq!(sentence, "t101[101] took 1.00 us for 'app:reply': ran for 1.00 us.");
}

#[test]
fn a_lock_whose_owner_is_preempted() {
    let why = ask(&inversion(), &Query::default());
    assert_eq!(
        why.sentence,
        "audio[101] was 187 ms late: blocked 187 ms in futex until woken by ui-params[102], which was preempted for \
         186 ms by hog-1[201] and hog-2[202]."
    );
    let expected = [
        (1, "ui-params waiting", 186_000),
        (1, "ui-params on_cpu", 1_000),
        (0, "audio waiting", 10),
    ];
    assert_eq!(chain(&why), links(&expected));
    assert!(why.advice[0].contains("PTHREAD_PRIO_INHERIT"), "{:?}", why.advice);
    assert!(why.advice[0].contains("hog-1[201] and hog-2[202]"), "{:?}", why.advice);
    assert!(why.advice[1].contains("--locks to see which futex audio[101]"), "{:?}", why.advice);
    assert_eq!(why.advice.len(), 2);
    assert!(why.advice[1].contains("--locks to see which futex audio[101]"), "{:?}", why.advice);
    assert_eq!(why.advice.len(), 2);
    assert!(why.missing.is_empty(), "{:?}", why.missing);
}

#[test]
fn a_recording_without_these_facts_says_what_it_does_not_report() {
    let mut scene = Scene::of_command("", 100);
    scene.name(100, "main").name(101, "audio");
    scene.switch(1_000, 1, 0, Leaves::R, 101);
    scene.switch(3_000, 1, 101, Leaves::S, 0);
    scene.wake(53_000, 1, 101);
    scene.switch(53_010, 1, 0, Leaves::R, 101);
    scene.switch(54_000, 1, 101, Leaves::S, 0);
    scene.end(500_000);
    let why = ask(&scene, &Query { metric: Some(Metric::Blocked), ..Query::default() });
    assert_eq!(
        why.sentence,
        "audio[101] made no progress for 50.0 ms: blocked 50.0 ms; its waker is unknown."
    );
    let missing = why.missing.join(" ");
    assert!(missing.contains("system call") && missing.contains("who woke"), "{missing}");
    assert_eq!(why.blame[0].class, Some("unknown"));
}

#[test]
fn a_thread_that_a_hog_keeps_from_its_cpu() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "victim").name(201, "hog");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch(2_000, 0, 100, Leaves::R, 201);
    scene.switch(32_000, 0, 201, Leaves::R, 100);
    scene.switch(33_000, 0, 100, Leaves::S, 0);
    scene.end(100_000);
    let why = ask(&scene, &Query::default());
    assert_eq!(why.sentence, "victim[100] was 30.0 ms late: preempted for 30.0 ms by hog[201].");
    assert!(why.advice[0].contains("higher priority than hog[201]"), "{:?}", why.advice);
}

/// A client waits for 50 ms for a server that waits for a database; meanwhile timers of the server end its wait, the first 9 ms after it
/// began. The server asks the database before its first wait or, if `late`, after the first timer.
fn server_with_timers(late: bool) -> Scene {
    let text = |text| Value::Str(Text::Inline(text));
    let timer = [
        ("interrupt", Value::Bool(true)),
        ("interrupt_kind", text("hrtimer")),
        ("interrupt_name", text("hrtimer_wakeup")),
    ];
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(201, "server").name(301, "db");
    scene.switch(0, 0, 0, Leaves::R, 100).switch(0, 1, 0, Leaves::R, 201);
    scene.switch_with((10, 1), 201, Leaves::S, 301, &call(POLL));
    scene.switch_with((20, 1), 301, Leaves::S, 0, &call(RECVFROM));
    scene.wake_by(900, 1, 201, 100);
    scene.switch_with((1_000, 0), 100, Leaves::S, 0, &call(RECVFROM));
    scene.switch(1_000, 1, 0, Leaves::R, 201);
    let ask = |scene: &mut Scene, now: u64| {
        scene.wake_by(now - 10, 0, 301, 201).switch(now, 0, 0, Leaves::R, 301);
    };
    if !late {
        ask(&mut scene, 1_090);
    }
    scene.switch_with((1_100, 1), 201, Leaves::S, 0, &call(POLL));
    for now in [10_100, 20_100, 30_100] {
        scene.wake_with(now, 1, 201, &timer).switch(now + 10, 1, 0, Leaves::R, 201);
        if late && now == 10_100 {
            ask(&mut scene, now + 90);
        }
        scene.switch_with((now + 100, 1), 201, Leaves::S, 0, &call(POLL));
    }
    scene.wake_by(50_000, 1, 201, 301).switch_with((50_010, 0), 301, Leaves::S, 0, &call(RECVFROM));
    scene.switch(50_010, 1, 0, Leaves::R, 201);
    scene.wake_by(51_000, 0, 100, 201).switch(51_000, 0, 0, Leaves::R, 100);
    scene.switch(51_100, 0, 100, Leaves::X, 0).end(51_200);
    scene
}

#[test]
fn who_waits_for_a_server_waits_for_whom_that_waits_for_and_not_for_its_timers() {
    let query = Query { metric: Some(Metric::Blocked), ..Query::default() };
    let why = ask(&server_with_timers(false), &query);
    assert_eq!(
        why.sentence,
        "client[100] made no progress for 50.0 ms: blocked 50.0 ms in recvfrom until woken by server[201], which was blocked \
         48.9 ms in system call 232 until woken by db[301], which ran for 48.9 ms."
    );
    let expected = [
        (1, "server on_cpu", 100),
        (2, "db on_cpu", 48_900),
        (1, "server waiting", 10),
        (1, "server on_cpu", 990),
    ];
    assert_eq!(chain(&why), links(&expected));
    // A wait before the request was for something else.
    let why = ask(&server_with_timers(true), &query);
    let expected = [
        (1, "server on_cpu", 100),
        (1, "server blocked", 9_000),
        (1, "server waiting", 10),
        (1, "server on_cpu", 90),
        (2, "db on_cpu", 39_800),
        (1, "server waiting", 10),
        (1, "server on_cpu", 990),
    ];
    assert_eq!(chain(&why), links(&expected));
}

#[test]
fn who_tries_again_to_get_a_lock_waits_for_the_thread_that_released_it_at_last() {
    let text = |text| Value::Str(Text::Inline(text));
    let timer = [
        ("interrupt", Value::Bool(true)),
        ("interrupt_kind", text("hrtimer")),
        ("interrupt_name", text("hrtimer_wakeup")),
    ];
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "loop").name(101, "export");
    scene.switch(0, 0, 0, Leaves::R, 100).switch(0, 1, 0, Leaves::R, 101);
    scene.switch_with((1_000, 0), 100, Leaves::S, 0, &call(FUTEX));
    for try_again in [6_000, 11_000, 16_000, 21_000] {
        scene.wake_with(try_again, 0, 100, &timer).switch(try_again + 10, 0, 0, Leaves::R, 100);
        scene.switch_with((try_again + 20, 0), 100, Leaves::S, 0, &call(FUTEX));
        if try_again == 11_000 {
            // The thread with the lock waits once for the disk.
            scene.switch_with((12_000, 1), 101, Leaves::D, 0, &call(FSYNC));
        }
    }
    scene.wake_with(23_000, 1, 101, &done(101, 11_000, 10_000));
    scene.switch(23_000, 1, 0, Leaves::R, 101);
    scene.wake_by(24_000, 0, 100, 101).switch(24_000, 0, 0, Leaves::R, 100);
    scene.switch(24_100, 0, 100, Leaves::S, 0).end(25_000);
    let why = ask(&scene, &within("loop", 1_000, 24_000));
    assert_eq!(
        why.sentence,
        "loop[100], in 23.0 ms: blocked 5 times in futex, 22.9 ms in all, until finally woken by export[101], which ran for \
         12.0 ms and was blocked 11.0 ms uninterruptibly in fsync until woken by the end of a write to vda."
    );
    let own = [("blocked lock futex interrupt", 19_940), ("blocked lock futex export", 2_980)];
    assert_eq!(parts(&why)[..2], expect(&own)[..]);
    assert!(chain(&why).iter().all(|link| link.1 != "loop blocked"), "{:?}", chain(&why));
}

#[test]
fn samples_say_where_a_thread_ran() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "worker");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    for (at, function) in [(500, "before"), (9_000, "mark"), (19_000, "sweep"), (29_000, "mark")] {
        scene.sample(at, 100, function);
    }
    scene.switch(31_000, 0, 100, Leaves::S, 0).sample(31_500, 100, "after").end(40_000);
    let reported = |from, to| ask(&scene, &within("worker", from, to)).sentence;
    let all = "worker[100], in 30.0 ms: ran for 30.0 ms (2 of 3 samples in mark).";
    assert_eq!(reported(1_000, 31_000), all);
    // Two samples say little, and 9 ms is not long.
    assert_eq!(reported(10_000, 30_000), "worker[100], in 20.0 ms: ran for 20.0 ms.");
    assert_eq!(reported(1_000, 10_000), "worker[100], in 9.00 ms: ran for 9.00 ms.");
}

#[test]
fn a_thread_that_waits_for_a_time() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "ticker");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch_with((2_000, 0), 100, Leaves::S, 0, &call(SLEEP));
    scene.wake_with(52_000, 0, 100, &[("interrupt", Value::Bool(true))]);
    scene.switch(52_020, 0, 0, Leaves::R, 100);
    scene.switch(53_000, 0, 100, Leaves::S, 0);
    scene.end(200_000);
    let query = Query { metric: Some(Metric::Blocked), ..Query::default() };
    let why = ask(&scene, &query);
    assert_eq!(
        why.sentence,
        "ticker[100] made no progress for 50.0 ms: slept 50.0 ms in clock_nanosleep until woken by an interrupt or a timer."
    );
    assert!(why.advice[0].contains("look at its timers"), "{:?}", why.advice);
    // Sleeping does not make a thread late: only the wait after the sleep counts.
    let late = ask(&scene, &Query::default());
    assert_eq!((late.from_ns, late.to_ns), (52_000_000, 52_020_000));
}

#[test]
fn a_thread_whose_cpu_the_host_takes() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.switch(0, 0, 0, Leaves::R, 100).switch_with((10, 0), 100, Leaves::S, 0, &call(SLEEP));
    for turn in 0..5 {
        let at = 1_000 + turn * 20_000;
        let steal = if turn == 3 { 6_400_000 } else { 2_000 };
        scene.wake_with(at, 0, 100, &[("interrupt", Value::Bool(true))]);
        scene.switch(at + 5, 0, 0, Leaves::R, 100);
        let facts = [call(SLEEP)[0], ("steal_ns", Value::Uint64(steal))];
        let ran = 1_000 + steal / 1_000;
        scene.switch_with((at + 5 + ran, 0), 100, Leaves::S, 0, &facts);
    }
    scene.end(110_000);
    let turns = Query { metric: Some(Metric::Turn), ..Query::default() };
    let why = ask(&scene, &turns);
    assert_eq!(
        why.sentence,
        "t100[100] needed 7.41 ms from its wakeup to its next sleep: ran for 7.40 ms, of which the host took 6.40 ms."
    );
    let expected = [("stolen", 6_400), ("on_cpu", 1_000), ("waiting idle", 5)];
    assert_eq!(parts(&why), expect(&expected));
    assert!(
        why.advice.iter().any(|it| it.contains("give the virtual machine dedicated CPUs")),
        "{why:#?}"
    );
}

#[test]
fn a_thread_that_waits_for_a_disk() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "db");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch_with((2_000, 0), 100, Leaves::D, 0, &call(FSYNC));
    scene.wake_with(22_000, 0, 100, &[("interrupt", Value::Bool(true))]);
    scene.switch(22_020, 0, 0, Leaves::R, 100);
    scene.switch(23_000, 0, 100, Leaves::S, 0);
    scene.end(200_000);
    let why = ask(&scene, &Query { metric: Some(Metric::Blocked), ..Query::default() });
    let expected = "db[100] made no progress for 20.0 ms: blocked 20.0 ms uninterruptibly in fsync until woken by an \
                    interrupt or a timer.";
    assert_eq!(why.sentence, expected);
    let part = &why.blame[0];
    assert_eq!((part.class, part.uninterruptible), (Some("disk"), Some(true)));
    assert!(why.advice[0].contains("waited for a disk"), "{:?}", why.advice);
}

#[test]
fn a_pipeline_is_followed_to_the_thread_that_works() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "sink").name(101, "filter").name(102, "source");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch(1_000, 1, 0, Leaves::R, 101);
    scene.switch_with((2_000, 0), 100, Leaves::S, 102, &call(READ));
    scene.switch_with((3_000, 1), 101, Leaves::S, 0, &call(READ));
    scene.wake_by(80_000, 1, 101, 102);
    scene.switch(80_010, 1, 0, Leaves::R, 101);
    scene.switch_with((80_500, 0), 102, Leaves::S, 0, &call(SLEEP));
    scene.wake_by(82_000, 0, 100, 101);
    scene.switch(82_010, 0, 0, Leaves::R, 100);
    scene.switch(84_000, 0, 100, Leaves::S, 0);
    scene.end(200_000);
    let why = ask(&scene, &Query::default());
    assert_eq!(
        why.sentence,
        "sink[100] was 80.0 ms late: blocked 80.0 ms in read until woken by filter[101], which was blocked 77.0 ms in read \
         until woken by source[102], which ran for 77.0 ms."
    );
    let expected = [
        (1, "filter on_cpu", 1_000),
        (2, "source on_cpu", 77_000),
        (1, "filter waiting", 10),
        (1, "filter on_cpu", 1_990),
        (0, "sink waiting", 10),
    ];
    assert_eq!(chain(&why), links(&expected));
    assert!(why.advice[0].contains("source[102] was running"), "{:?}", why.advice);
}

#[test]
fn a_thread_whose_quota_is_used_up() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "app");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.throttle(20_000, "/grp", 0);
    let facts = [("throttled", Value::Bool(true))];
    scene.switch_with((20_000, 0), 100, Leaves::R, 0, &facts);
    scene.release(100_000, "/grp", 0);
    let facts = [
        ("throttled_ns", Value::Uint64(80_000_000)),
        ("throttled_by", Value::Str(fxt_writer::Text::Inline("/grp"))),
    ];
    scene.switch_with((100_100, 0), 0, Leaves::R, 100, &facts);
    scene.switch(101_000, 0, 100, Leaves::S, 0);
    scene.end(300_000);
    let why = ask(&scene, &Query::default());
    assert_eq!(
        why.sentence,
        "app[100] was 80.1 ms late: throttled for 80.0 ms by the quota of /grp."
    );
    assert!(why.advice[0].contains("raise the quota of /grp"), "{:?}", why.advice);
    let expected = super::expect(&[("throttled /grp", 80_000), ("waiting idle", 100)]);
    assert_eq!(parts(&why), expected);
}

#[test]
fn the_span_that_is_longest_beyond_its_median_is_chosen() {
    let mut scene = inversion();
    for n in 0..5 {
        scene.span((300_000 + n * 10_000, 300_000 + n * 10_000 + 2_000), 101, "mix");
    }
    scene.span((2_500, 191_500), 101, "mix");
    scene.span((1_000, 499_000), 102, "once");
    let why = ask(&scene, &Query::default());
    assert!(
        why.sentence.starts_with(
            "audio[101] took 189 ms for 'mix', 187 ms more than the median of 6: blocked 187 ms in futex"
        ),
        "{}",
        why.sentence
    );
    let only = |pick| Query { span: Some("mix".to_owned()), pick, ..Query::default() };
    let count = |pick| try_ask(&scene, &only(pick)).map(|answer| answer.explanations.len());
    assert!(matches!(count(Pick::Worst(3)), Ok(3)));
    assert!(matches!(count(Pick::Over(2_000_000)), Ok(1)));
    assert!(matches!(count(Pick::At(300_001_000)), Ok(1)));
    assert!(matches!(count(Pick::At(299_000_000)), Err(WhyError::Nothing)));
    let missing = Query { span: Some("mux".to_owned()), ..Query::default() };
    assert_eq!(
        try_ask(&scene, &missing).expect_err("no such span").to_string(),
        "no span is called 'mux'; did you mean 'mix'?"
    );
}

#[test]
fn only_command_and_what_it_started_are_asked_about_without_a_thread() {
    let mut scene = inversion();
    // Another thread, which existed earlier, waits longer.
    scene.switch(510_000, 0, 0, Leaves::R, 50);
    scene.switch(511_000, 0, 50, Leaves::R, 201);
    scene.switch(761_000, 0, 201, Leaves::S, 50);
    scene.end(1_000_000);
    assert_eq!(ask(&scene, &Query::default()).thread.comm, "audio");
    // A child that COMMAND woke for the first time, and a kernel thread that waited for longer.
    scene.switch(1_000_000, 1, 101, Leaves::S, 100);
    scene.name(301, "main").wake_by(1_001_000, 0, 301, 100);
    scene.name(302, "kworker/0:2").wake_by(1_001_000, 0, 302, 100);
    scene.name(301, "child").switch(1_301_000, 0, 50, Leaves::S, 301);
    scene.switch(1_302_000, 0, 301, Leaves::X, 302);
    scene.end(2_000_000);
    let found = ask(&scene, &Query::default()).thread;
    assert_eq!((found.tid, &*found.comm), (301, "child"));
}

#[test]
fn that_command_waited_for_the_recorder_to_begin_is_no_delay() {
    let mut scene = Scene::recorded_by(900, ALL, Some(100));
    scene.name(900, "fxtrec").name(100, "app").name(101, "worker");
    // The recorder creates it, and wakes it to begin.
    scene.wake_by(0, 0, 100, 900);
    scene.switch(10, 0, 0, Leaves::R, 100);
    scene.switch_with((1_000, 0), 100, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(200_000, 0, 100, 900);
    scene.switch(200_100, 0, 0, Leaves::R, 100);
    // The first delay is its own; the recorder ended a later one.
    scene.switch_with((210_000, 0), 100, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(240_000, 0, 100, 101);
    scene.switch(240_100, 0, 0, Leaves::R, 100);
    scene.end(1_000_000);
    assert_eq!(ask(&scene, &Query::default()).length_ns, 30_100_000);
    scene.switch_with((1_010_000, 0), 100, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(1_050_000, 0, 100, 900);
    scene.switch(1_050_100, 0, 0, Leaves::R, 100);
    scene.end(2_000_000);
    assert_eq!(ask(&scene, &Query::default()).length_ns, 40_100_000);
}

#[test]
fn in_merged_recordings_no_command_waits_for_its_recorder() {
    let mut scene = Scene::recorded_by(900, ALL, Some(100));
    scene.name(900, "fxtrec").name(100, "app");
    scene.wake_by(0, 0, 100, 900);
    scene.switch(10, 0, 0, Leaves::R, 100);
    scene.switch_with((1_000, 0), 100, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(200_000, 0, 100, 900);
    scene.switch(200_100, 0, 0, Leaves::R, 100);
    scene.merge(300_000, 910, 200).name(910, "fxtrec").name(200, "other");
    scene.wake_by(300_000, 1, 200, 910);
    scene.switch(300_010, 1, 0, Leaves::R, 200);
    scene.switch_with((301_000, 1), 200, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(600_000, 1, 200, 910);
    scene.switch(600_100, 1, 0, Leaves::R, 200);
    scene.switch_with((610_000, 1), 200, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(640_000, 1, 200, 100);
    scene.switch(640_100, 1, 0, Leaves::R, 200);
    scene.end(1_000_000);
    assert_eq!(ask(&scene, &Query::default()).length_ns, 30_100_000);
}

#[test]
fn what_cannot_be_explained_is_said() {
    let scene = inversion();
    let error = |query: &Query| try_ask(&scene, query).expect_err("nothing").to_string();
    assert_eq!(error(&of("audi")), "no thread is called 'audi'; did you mean 'audio'?");
    assert!(error(&within("audio", 900_000, 950_000)).contains("outside of the recording"));
    assert!(matches!(try_ask(&Scene::new(), &Query::default()), Err(WhyError::Empty)));
    let mut twins = Scene::new();
    twins.name(101, "twin").name(102, "twin");
    twins.switch(10, 0, 101, Leaves::S, 102).switch(20, 0, 102, Leaves::S, 101).end(30);
    let query = Query { life: true, ..of("twin") };
    assert!(
        try_ask(&twins, &query).expect_err("which?").to_string().contains("by its id: 101, 102")
    );
    twins.name_on(101, "twin", "web-1").name_on(201, "twin", "web-2");
    twins.switch(40, 0, 0, Leaves::S, 201).switch(50, 0, 201, Leaves::S, 0).end(60);
    let said = try_ask(&twins, &query).expect_err("which?").to_string();
    assert!(said.contains("by its id: 101@web-1, 102@web-1, 201@web-2"), "{said}");
}

#[test]
fn of_two_that_wait_for_the_same_the_last_one_is_explained() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "main").name(101, "audio").name(102, "owner").name(201, "hog");
    scene.switch(1_000, 0, 0, Leaves::R, 102);
    scene.switch(1_000, 1, 0, Leaves::R, 101);
    // The owner is late for longer than audio, which does not need the lock at once.
    scene.switch(2_000, 0, 102, Leaves::R, 201);
    scene.switch_with((5_000, 1), 101, Leaves::S, 0, &call(FUTEX));
    scene.switch(62_000, 0, 201, Leaves::S, 102);
    scene.wake_by(62_100, 1, 101, 102);
    scene.switch(62_200, 1, 0, Leaves::R, 101);
    scene.end(500_000);
    let why = ask(&scene, &Query::default());
    assert_eq!((&*why.thread.comm, why.length_ns), ("audio", 57_200_000));
    assert_eq!(ask(&scene, &of("owner")).length_ns, 60_000_000);
}

#[test]
fn waits_after_wake_ups_name_the_cpu_and_who_had_it() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "app").name(201, "hog").name(202, "other");
    scene.switch(0, 0, 0, Leaves::R, 201).switch(0, 1, 0, Leaves::R, 202);
    scene.wake_by(1_000, 0, 100, 201);
    scene.switch(31_000, 0, 201, Leaves::S, 100);
    scene.switch(32_000, 0, 100, Leaves::S, 0);
    scene.end(100_000);
    let sentence = |scene: &Scene, query: &Query| ask(scene, query).sentence;
    assert_eq!(
        sentence(&scene, &Query::default()),
        "app[100] was 30.0 ms late: waited 30.0 ms for CPU 0, where hog[201] ran."
    );
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "app").name(201, "hog").name(202, "other");
    scene.switch(0, 0, 0, Leaves::R, 201).switch(0, 1, 0, Leaves::R, 202);
    scene.wake_by(1_000, 0, 100, 201);
    scene.migrate(21_000, 100, 0, 1);
    scene.switch(31_000, 1, 202, Leaves::S, 100);
    scene.switch(32_000, 1, 100, Leaves::S, 0);
    scene.end(100_000);
    assert_eq!(
        sentence(&scene, &Query::default()),
        "app[100] was 30.0 ms late: waited 30.0 ms for a CPU, while hog[201] and other[202] ran."
    );
}

/// A wait for a futex, and the owner of the lock.
fn futex(owner: Option<u64>) -> Vec<(&'static str, Value<'static>)> {
    let owner = owner.map(|owner| ("futex_owner", Value::Koid(fxt_writer::Koid(owner))));
    let wait = [("syscall", Value::Uint32(FUTEX)), ("futex", Value::Pointer(0x7f00_1000))];
    wait.into_iter().chain(owner).collect()
}

#[test]
fn the_holder_of_a_lock_is_named_and_what_it_did() {
    let why = ask(&inversion_of(&futex(Some(102))), &of("audio"));
    assert_eq!(
        why.sentence,
        "audio[101] was 187 ms late: blocked 187 ms on a lock (futex 0x7f001000) held by ui-params[102], which was \
         preempted for 186 ms by hog-1[201] and hog-2[202]."
    );
}

#[test]
fn the_holder_and_who_woke_the_thread_are_both_named_where_they_differ() {
    let why = ask(&inversion_of(&futex(Some(201))), &of("audio"));
    assert!(
        why.sentence.contains(
            "blocked 187 ms on a lock (futex 0x7f001000) held by hog-1[201] until woken by ui-params[102], which was \
             preempted"
        ),
        "{}",
        why.sentence
    );
}

#[test]
fn a_lock_of_the_kernel_has_its_kind_its_call_and_who_woke_the_thread_as_its_likely_owner() {
    let lock = |kind| {
        let id = ("kernel_lock", Value::Pointer(0x1f));
        vec![
            ("syscall", Value::Uint32(READ)),
            id,
            ("kernel_lock_kind", Value::Str(fxt_writer::Text::Inline(kind))),
        ]
    };
    for (kind, reported) in
        [("mutex", "mutex 0x1f"), ("rwsem_read", "rwsem 0x1f for reading"), ("new", "lock 0x1f")]
    {
        let why = ask(&inversion_of(&lock(kind)), &of("audio"));
        let expected = format!(
            "audio[101] was 187 ms late: blocked 187 ms on a kernel lock ({reported}) in read until \
             woken by ui-params[102], probably the lock's owner, which was preempted for 186 ms by hog-1[201] and hog-2[202]."
        );
        assert_eq!(why.sentence, expected);
        let wait = why.waits.iter().find(|wait| wait.thread.tid == 101).expect("the wait");
        assert_eq!((wait.class, wait.futex.as_deref()), ("kernel_lock", None));
        assert_eq!(wait.kernel_lock.as_deref(), Some("0x1f"));
        let blame = why.blame.iter().find(|part| part.class == Some("kernel_lock"));
        assert_eq!(blame.map(|part| part.ns), Some(187_000_000), "{why:#?}");
        assert_eq!(wait.kernel_lock_name, None);
    }
    let name = ("kernel_lock_name", Value::Str(fxt_writer::Text::Inline("rtnl_mutex")));
    let why = ask(&inversion_of(&[lock("mutex"), vec![name]].concat()), &of("audio"));
    let reported = "blocked 187 ms on a kernel lock (mutex rtnl_mutex) in read until woken by ui-params[102], probably";
    assert!(why.sentence.contains(reported), "{}", why.sentence);
    assert_eq!(why.waits[0].kernel_lock_name.as_deref(), Some("rtnl_mutex"));
}

#[test]
fn a_futex_without_owner_has_an_unknown_one_and_the_thread_that_woke_is_named() {
    let why = ask(&inversion_of(&futex(None)), &of("audio"));
    assert!(
        why.sentence.contains(
            "blocked 187 ms in futex (0x7f001000, unknown owner) until woken by ui-params[102], which was preempted"
        ),
        "{}",
        why.sentence
    );
    // A wait that continues beyond the end has a lock too, and so does one that began before the interval.
    let why = ask(&inversion_of(&futex(Some(102))), &within("audio", 50_000, 60_000));
    assert!(why.sentence.contains("held by ui-params[102]"), "{}", why.sentence);
}

#[test]
fn what_the_holder_of_a_lock_did_is_reported_if_another_thread_ended_the_wait() {
    // hog-1 has the lock, and had the CPU until hog-2 took it.
    let why = ask(&inversion_of(&futex(Some(201))), &of("audio"));
    assert!(
        why.sentence.ends_with(
            "; meanwhile hog-1[201] ran for 97.0 ms and was preempted for 90.0 ms by hog-2[202]."
        ),
        "{}",
        why.sentence
    );
    let wait = &why.waits[0];
    assert_eq!(wait.owner.as_ref().map(|who| who.tid), Some(201));
    let meanwhile = wait.owner_blame.as_ref().expect("it is another than the one that woke audio");
    assert_eq!(meanwhile.iter().map(|part| part.ns).sum::<u64>(), wait.to_ns - wait.from_ns);
    // If the owner ended the wait, the chain contains its activity.
    let why = ask(&inversion_of(&futex(Some(102))), &of("audio"));
    assert_eq!(why.waits[0].owner_blame, None);
    assert!(!why.sentence.contains("meanwhile"), "{}", why.sentence);
}

#[test]
fn a_lock_that_is_not_free_at_the_end_shows_what_its_holder_does() {
    let why = ask(&inversion_of(&futex(Some(102))), &within("audio", 50_000, 60_000));
    assert!(
        why.sentence.ends_with(
            "held by ui-params[102], and was still waiting at the end; meanwhile ui-params[102] was preempted for 10.0 ms by \
             hog-1[201]."
        ),
        "{}",
        why.sentence
    );
}

#[test]
fn the_end_of_a_thread_is_no_lock() {
    let wait = [
        ("syscall", Value::Uint32(FUTEX)),
        ("futex", Value::Pointer(0x7f00_1000)),
        ("futex_end_of", Value::Koid(fxt_writer::Koid(102))),
    ];
    let why = ask(&inversion_of(&wait), &of("audio"));
    assert_eq!(
        why.sentence,
        "audio[101] was 187 ms late: blocked 187 ms joining ui-params[102], which was preempted for 186 ms by \
         hog-1[201] and hog-2[202]."
    );
    assert_eq!(why.blame[0].class, Some("join"));
    assert_eq!(why.waits[0].end_of.as_ref().map(|who| who.tid), Some(102));
    assert!(why.advice.iter().all(|it| !it.contains("PTHREAD_PRIO_INHERIT")), "{:?}", why.advice);
}

#[test]
fn that_a_waker_ended_then_is_reported_where_it_may_be_what_was_waited_for() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "main").name(101, "boss").name(102, "worker");
    scene.switch(1_000, 0, 0, Leaves::R, 102).switch(1_000, 1, 0, Leaves::R, 101);
    scene.switch_with((3_000, 1), 101, Leaves::S, 0, &call(FUTEX));
    scene.wake_by(60_000, 1, 101, 102).switch(60_010, 1, 0, Leaves::R, 101);
    scene.switch(60_020, 0, 102, Leaves::X, 0).end(500_000);
    let why = ask(&scene, &of("boss"));
    assert_eq!(
        why.sentence,
        "boss[101] was 57.0 ms late: blocked 57.0 ms in futex until woken by worker[102], which ran for 57.0 ms."
    );
    assert!(why.waits[0].waker_ended);
    // A frame that continues with another activity has no lock.
    let mut scene = inversion();
    scene.switch(200_000, 0, 0, Leaves::R, 102).switch(201_000, 0, 102, Leaves::X, 0).end(600_000);
    assert!(!ask(&scene, &of("audio")).waits[0].waker_ended);
}

#[test]
fn the_functions_in_which_threads_were_blocked_are_reported() {
    use fxtrec_report::stacks::example::{MS, trace};
    let bytes = trace(true);
    let query = Query { metric: Some(Metric::Blocked), pick: Pick::Worst(3), ..of("work;er") };
    let open = || Ok(fxt_reader::Reader::from_slice(&bytes));
    let answer = crate::explain(&query, open, super::syscall).expect("waits");
    let first = |why: &crate::Explanation| why.waits[0].clone();
    let waits: Vec<_> = answer.explanations.iter().map(first).collect();
    let long = &waits[0];
    assert_eq!((long.from_ns, long.to_ns), (10 * MS, 15 * MS));
    let expected = ["pipe_read_[k]", "a;b::<c d>", "0x9000"].map(str::to_owned);
    assert_eq!(long.stack.as_deref(), Some(&expected[..]));
    assert_eq!(long.stack_lacks, ["the innermost function may lack its caller"]);
    assert_eq!(long.waker_stack.as_deref(), Some(&["kick".to_owned()][..]));
    let none = waits.iter().find(|wait| wait.from_ns == 30 * MS).expect("the third");
    assert_eq!((&none.stack, &none.waker_stack), (&None, &None));
    let mut text = Vec::new();
    crate::write_text(&answer, "a.fxt", &mut text).expect("memory");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("5.00 ms  work;er[41] was blocked in a;b::<c d> < 0x9000"), "{text}");
    assert!(text.contains("5.00 ms  work;er[41] was woken in kick"), "{text}");
    assert_eq!(text.matches("Where in the code:").count(), 2, "{text}");
}

#[test]
fn what_a_runtime_needs_for_the_names_of_its_functions_is_reported_once() {
    use fxtrec_report::stacks::example::trace_of;
    let advice = |library: &str, named: &[u64]| {
        let bytes = trace_of(true, library, named);
        let query = Query { metric: Some(Metric::Blocked), pick: Pick::Worst(1), ..of("work;er") };
        let open = || Ok(fxt_reader::Reader::from_slice(&bytes));
        let answer = crate::explain(&query, open, super::syscall).expect("waits");
        let is_it = |advice: &&String| advice.contains("names of Java methods");
        answer.explanations[0].advice.iter().filter(is_it).count()
    };
    assert_eq!(advice("/opt/libjvm.so", &[]), 1);
    assert_eq!(advice("/opt/libjvm.so", &[0x9000]), 0);
    assert_eq!(advice("/lib/x.so", &[]), 0);
}

#[test]
fn in_a_merged_trace_threads_have_hosts_and_are_chosen_by_them() {
    let mut scene = Scene::with_causes(ALL);
    scene.name_on(101, "client", "web-1").name_on(201, "client", "web-2");
    scene.switch(1_000, 0, 0, Leaves::R, 101).switch(1_000, 1, 0, Leaves::R, 201);
    scene.switch(2_000, 0, 101, Leaves::R, 301).switch(3_000, 1, 201, Leaves::R, 301);
    scene.switch(12_000, 0, 301, Leaves::R, 101).switch(22_000, 1, 301, Leaves::R, 201);
    scene.end(50_000);
    for (wanted, who) in [
        ("client@web-1", "client[101]@web-1 "),
        ("client@web-2", "client[201]@web-2 "),
        ("201@web-2", "client[201]@web-2 "),
    ] {
        let query = Query { life: true, ..of(wanted) };
        let why = ask(&scene, &query);
        assert!(why.sentence.starts_with(who), "{}", why.sentence);
    }
    let nowhere = super::try_ask(&scene, &Query { life: true, ..of("client@web-3") });
    assert!(matches!(nowhere, Err(crate::WhyError::NoThread { .. })), "{nowhere:?}");
}

#[test]
fn of_a_wait_in_a_narrow_scope_it_says_which_threads_had_the_cpu_and_what_it_does_not_know() {
    let mut scene = Scene::of_scope("app");
    let not_recorded = 0xd000_0001;
    scene.wake(500, 0, 101);
    scene.switch(1_000, 0, not_recorded, Leaves::S, 101);
    scene.switch(2_000, 0, 101, Leaves::R, 201);
    scene.switch(3_000, 0, 201, Leaves::R, not_recorded);
    scene.switch(12_000, 0, not_recorded, Leaves::S, 101);
    scene.switch(13_000, 0, 101, Leaves::S, 0);
    scene.end(14_000);
    let why = ask(&scene, &within("t101", 1_000, 13_000));
    let clause = "waited 10.0 ms for CPU 0: t201[201] ran on it for 1.00 ms, and threads outside the scope of the \
                   recording for 9.00 ms";
    assert!(why.sentence.contains(clause), "{}", why.sentence);
    let advice =
        "the recording does not have every thread that ran on it: record the whole machine";
    assert!(why.advice[0].contains(advice), "{:?}", why.advice);
}

/// A thread waits 2 ms for a CPU, another one 40 ms, and each fires a trigger; the file is written for one of them.
fn two_that_fire(written_for: Option<((u64, u64), u64, &str)>) -> Scene {
    let mut scene = Scene::with_causes(ALL);
    scene.name(100, "short").name(200, "long").name(300, "hog");
    if let Some((times, koid, expression)) = written_for {
        scene.written_for(0, times, koid, expression);
    }
    scene.switch(1, 0, 0, Leaves::R, 100).switch(2, 1, 0, Leaves::R, 200);
    scene.switch(10, 0, 100, Leaves::R, 300).switch(10, 1, 200, Leaves::R, 301);
    scene.switch(2_010, 0, 300, Leaves::S, 100);
    scene.switch(40_010, 1, 301, Leaves::S, 200);
    scene.end(100_000);
    scene
}

#[test]
fn a_snapshot_is_explained_by_the_delay_that_it_was_written_for_and_not_by_the_longest() {
    let short = ((10, 2_010), 100, "runqueue > 1ms if comm = \"short\"");
    let why = ask(&two_that_fire(Some(short)), &Query::default());
    let begin = "short[100] was 2.00 ms late (trigger 'runqueue > 1ms if comm = \"short\"'): ";
    assert!(why.sentence.starts_with(begin), "{}", why.sentence);
    assert_eq!((why.from_ns, why.to_ns, why.subject), (10_000, 2_010_000, "trigger"));
    let long = ((10, 40_010), 200, "runqueue > 1ms");
    let why = ask(&two_that_fire(Some(long)), &Query::default());
    assert_eq!((why.thread.comm.as_str(), why.length_ns), ("long", 40_000_000));
    // The requested thread is first.
    let query = Query { metric: Some(Metric::RunQueue), ..Query::default() };
    assert_eq!(ask(&two_that_fire(Some(short)), &query).thread.comm, "long");
    let why = ask(&two_that_fire(None), &Query::default());
    assert_eq!((why.thread.comm.as_str(), why.subject), ("long", "runqueue"));
}

#[test]
fn a_fact_that_fired_is_explained_by_its_wait_or_by_its_slice() {
    let throttled = ((10, 2_010), 100, "throttled > 1ms");
    let why = ask(&two_that_fire(Some(throttled)), &Query::default());
    let begin = "short[100] was 2.00 ms late (trigger 'throttled > 1ms'): ";
    assert!(why.sentence.starts_with(begin), "{}", why.sentence);
    let steal = ((10, 2_010), 300, "steal > 1ms");
    let why = ask(&two_that_fire(Some(steal)), &Query::default());
    let begin = "hog[300] had a CPU for 2.00 ms (trigger 'steal > 1ms'): ";
    assert!(why.sentence.starts_with(begin), "{}", why.sentence);
}

#[test]
fn what_lasted_too_long_is_explained_from_its_begin_to_its_end() {
    for (expression, begin) in [
        ("span(\"app:request\") > 1ms", "hog[300] took 2.00 ms (trigger 'span("),
        ("probe('work') > 1ms", "hog[300] took 2.00 ms (trigger 'probe('work') > 1ms'): "),
        ("turn > 1ms", "hog[300] needed 2.00 ms from its wakeup to its next sleep (trigger "),
    ] {
        let why = ask(&two_that_fire(Some(((10, 2_010), 300, expression))), &Query::default());
        assert!(why.sentence.starts_with(begin), "{}", why.sentence);
        assert_eq!((why.from_ns, why.to_ns, why.subject), (10_000, 2_010_000, "trigger"));
    }
}

#[test]
fn a_trigger_with_times_that_cannot_be_is_not_explained() {
    let scene = two_that_fire(Some(((149_000, 150_000), 100, "runqueue > 1ms")));
    assert_eq!(ask(&scene, &Query::default()).subject, "runqueue");
}

#[test]
fn of_a_long_chain_the_longest_links_are_listed_and_the_rest_summed_up_in_few_rows() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "waiter").name(201, "worker").name(202, "other");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch_with((2_000, 0), 100, Leaves::S, 0, &call(READ));
    scene.switch(2_000, 1, 0, Leaves::R, 201);
    // The worker's turns are long, and what interrupts it is short.
    for turn in 0..30 {
        let at = 12_000 + turn * 10_010;
        scene.switch(at, 1, 201, Leaves::R, 202).switch(at + 10, 1, 202, Leaves::S, 201);
    }
    scene.wake_by(320_000, 0, 100, 201).switch(320_010, 0, 0, Leaves::R, 100);
    scene.switch(330_000, 0, 100, Leaves::S, 0).end(400_000);
    let query = Query { metric: Some(Metric::Blocked), ..Query::default() };
    let answer = super::try_ask(&scene, &query).expect("an answer");
    let mut text = Vec::new();
    crate::write_text(&answer, "a.fxt", &mut text).expect("memory has room");
    let text = String::from_utf8(text).expect("text");
    let (_, chain) = text.split_once("What it waited for, in order:\n").expect("a chain");
    let rows: Vec<&str> = chain.lines().take_while(|line| !line.is_empty()).collect();
    let links = rows.iter().filter(|row| row.contains("worker[201] ran on CPU 1")).count();
    assert!(links >= 9 && rows.len() <= 20, "{text}");
    assert!(rows.iter().any(|row| row.contains(" shorter link")), "{text}");
}
