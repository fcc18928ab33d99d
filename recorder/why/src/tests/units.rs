//! Units of work: which interval counts as unusual.

use fxt_writer::Value;
use fxtrec_report::scene::{Leaves, Scene};

use proptest::prelude::*;

use super::{ALL, FSYNC, FUTEX, POLL, READ, SLEEP, ask, of};
use crate::{Pick, Query};

fn call(number: u32) -> [(&'static str, Value<'static>); 1] {
    [("syscall", Value::Uint32(number))]
}

const WRITE: u32 = 1;

/// The process of the recorder.
const RECORDER: u64 = 900;

/// The usual time of the client's requests in microseconds; one request takes a different time.
const USUAL: u64 = 200;

/// A client sleeps for 3 ms, sends a request, and waits for the server's answer. COMMAND creates both and waits for the client's end.
/// Request 20 takes `longest` microseconds.
fn client_and_server(longest: u64) -> Scene {
    client_and_server_in(Scene::of_command(ALL, 100), longest)
}

fn client_and_server_in(mut scene: Scene, longest: u64) -> Scene {
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
         blocked 50.0 ms in read until woken by server[102], which ran for 49.9 ms."
    );
    assert_eq!((why.subject, why.units, why.median_ns), ("unit", Some(39), Some(200_000)));
    assert_eq!(why.idle_in.as_deref(), Some("clock_nanosleep"));
    assert_eq!(why.cause(), "on_cpu", "the server ran");
    assert_eq!(why.meanwhile[0].thread.as_ref().map(|who| who.tid), Some(102));
    let answer = super::try_ask(&client_and_server(50_000), &Query::default()).expect("an answer");
    let mut text = Vec::new();
    crate::write_text(&answer, "a.fxt", &mut text).expect("memory has room");
    let text = String::from_utf8(text).expect("text");
    let usual = "\n    200 us  usually: 150 us blocked in read, 35.0 us on the CPU, 15.0 us waiting for a CPU\n";
    assert!(text.contains(usual), "{text}");
    assert!(text.ends_with("\nAll of sh: fxtrec why a.fxt --critical-path\n"), "{text}");
}

/// A script (100) runs a pipeline of `seq` and `sort`, which reads slowly once, and then `gzip` for `rest` milliseconds. For each write
/// that waits for `sort`, `stack` contains the kernel function.
fn pipeline(rest: u64, stack: Option<&str>) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "script.sh").name(201, "script.sh").name(202, "script.sh");
    scene.name(201, "seq").name(202, "sort").name(303, "script.sh").name(303, "gzip");
    scene.switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(10, 1, 202, 100).wake_by(20, 0, 201, 100);
    scene.switch(30, 1, 0, Leaves::R, 202);
    scene.switch_with((50, 0), 100, Leaves::S, 201, &call(61));
    let mut now = 60;
    for write in 0..60 {
        now += 100;
        scene.switch_with((now, 0), 201, Leaves::S, 0, &call(WRITE));
        if let Some(function) = stack {
            scene.stack(now, 201, function);
        }
        now += if write == 30 { 12_000 } else { 50 };
        scene.wake_by(now, 0, 201, 202);
        scene.switch(now + 5, 0, 0, Leaves::R, 201);
    }
    scene.switch(now + 10, 0, 201, Leaves::X, 0);
    scene.switch(now + 20, 1, 202, Leaves::X, 0);
    scene.wake_by(now + 30, 0, 100, 202).switch(now + 35, 0, 0, Leaves::R, 100);
    scene.wake_by(now + 40, 1, 303, 100).switch(now + 45, 1, 0, Leaves::R, 303);
    scene.switch_with((now + 50, 0), 100, Leaves::S, 0, &call(61));
    now += rest * 1000;
    scene.switch(now + 60, 1, 303, Leaves::X, 0);
    scene.wake_by(now + 70, 0, 100, 303).switch(now + 75, 0, 0, Leaves::R, 100);
    scene.switch(now + 100, 0, 100, Leaves::X, 0);
    scene.end(now + 200);
    scene
}

#[test]
fn a_script_is_explained_by_its_critical_path_and_not_by_a_wait_in_a_pipeline() {
    for rest in [1, 200] {
        let scene = pipeline(rest, None);
        let why = ask(&scene, &Query::default());
        assert_eq!(why.subject, "critical_path", "{}", why.sentence);
        assert!(why.sentence.contains("sort[202] running"), "{}", why.sentence);
        let answer = super::try_ask(&scene, &Query::default()).expect("an answer");
        assert_eq!(answer.part_of, None, "it is about all of the script");
        // Its incidents are still listed.
        let query = Query { pick: crate::Pick::Incidents(5), ..Query::default() };
        assert_eq!(ask(&scene, &query).subject, "wait");
    }
}

#[test]
fn a_wrapper_around_a_service_is_no_script() {
    // The wait is a small part of the wrapper's life, and a client waits for others over the network during most of it.
    let why = ask(&client_and_server(5_000), &Query::default());
    assert_eq!((why.subject, why.thread.tid), ("unit", 101), "{}", why.sentence);
    let why = ask(&pipeline(1, Some("tcp_recvmsg")), &Query::default());
    assert_eq!((why.subject, why.thread.tid), ("wait", 201), "{}", why.sentence);
    // The same, as one of several steps.
    let why = ask(&pipeline(200, Some("tcp_recvmsg")), &Query::default());
    assert_eq!(why.subject, "critical_path", "{}", why.sentence);
}

#[test]
fn of_a_whole_machine_different_incidents_are_listed_and_no_cause_of_one_is_another() {
    let mut scene = client_and_server_in(Scene::recorded_by(RECORDER, ALL, None), 50_000);
    // After that, `other` has CPU 1 for 8 ms and for 2 ms while `batch` waits for it, and for less than a millisecond while `brief` does.
    let after = 1_000_000;
    scene.name(103, "batch").name(104, "other").name(105, "brief");
    scene.switch(after, 1, 0, Leaves::R, 103).switch(after + 10, 1, 103, Leaves::R, 104);
    scene.switch(after + 8_010, 1, 104, Leaves::R, 103);
    scene.switch(after + 8_020, 1, 103, Leaves::R, 104);
    scene.switch(after + 10_020, 1, 104, Leaves::S, 103);
    scene.switch_with((after + 10_030, 1), 103, Leaves::S, 105, &call(SLEEP));
    scene.switch(after + 10_040, 1, 105, Leaves::R, 106);
    scene.switch(after + 11_000, 1, 106, Leaves::S, 105);
    scene.switch_with((after + 11_010, 1), 105, Leaves::S, 0, &call(SLEEP));
    // A thread that always wants a CPU, and one of the kernel, which blocks in no system call.
    for (thread, name, blocks) in [(107, "busy", call(SLEEP).to_vec()), (108, "kworker", vec![])] {
        scene.name(thread, name);
        let from = after + 12_000 + 100_000 * (thread - 107);
        scene.switch(from, 0, 0, Leaves::R, thread).switch(from + 10, 0, thread, Leaves::R, 104);
        scene.switch(from + 20_000, 0, 104, Leaves::S, thread);
        scene.switch_with((from + 20_010, 0), thread, Leaves::S, 0, &blocks);
        let again = if thread == 107 { from + 21_000 } else { from + 90_000 };
        scene.wake_by(again, 0, thread, 0).switch(again + 1, 0, 0, Leaves::R, thread);
        scene.switch_with((again + 10, 0), thread, Leaves::S, 0, &blocks);
    }
    for thread in [103, 105] {
        scene.wake_by(after + 400_000, 0, thread, 0);
        scene.switch(after + 400_001, 0, 0, Leaves::R, thread);
        scene.switch_with((after + 400_010, 0), thread, Leaves::S, 0, &call(SLEEP));
    }
    scene.end(after + 412_000);
    let top = |most| {
        let query = Query { pick: crate::Pick::Incidents(most), ..Query::default() };
        super::try_ask(&scene, &query).expect("an answer")
    };
    let who = |answer: &crate::Answer| -> Vec<(String, u64)> {
        let of = |it: &crate::Explanation| (it.thread.comm.clone(), it.length_ns / 1_000_000);
        answer.explanations.iter().map(of).collect()
    };
    let [client, batch] = [("client".to_owned(), 50), ("batch".to_owned(), 8)];
    assert_eq!(who(&top(5)), [client.clone(), batch], "the server is why the client was late");
    assert_eq!(who(&top(1)), [client]);
    let why = ask(&scene, &Query::default());
    assert_eq!((why.thread.tid, why.subject), (101, "unit"), "{}", why.sentence);
    let mut text = Vec::new();
    crate::write_list(&top(2), "a.fxt", &mut text).expect("memory has room");
    let text = String::from_utf8(text).expect("text");
    let begins: Vec<&str> = text.lines().filter(|line| !line.starts_with("    ")).collect();
    assert!(
        matches!(begins[..], [first, second]
        if first.starts_with("  1. 0.06") && first.contains("  client[101] took 50.0 ms")
        && second == "  2. 1.000010000  batch[103] was 8.00 ms late: preempted for 8.00 ms by other[104]."),
        "{text}"
    );
}

#[test]
fn of_the_longest_wait_it_is_said_why_it_is_no_incident() {
    let reported = |scene: &Scene| {
        let answer = super::try_ask(scene, &Query::default()).expect("an answer");
        let mut text = Vec::new();
        crate::write_text(&answer, "a.fxt", &mut text).expect("memory has room");
        let text = String::from_utf8(text).expect("text").replace('\n', " ");
        let at = text.find("The longest wait, ")?;
        text[at..].split_inclusive(". ").next().map(|line| line.trim_end().to_owned())
    };
    let line = |text: &str| Some(format!("The longest wait, {text}."));
    let idle =
        "3.06 ms of server[102], is not an incident because the thread is idle in system call 232";
    assert_eq!(reported(&client_and_server(900)), line(idle));
    assert_eq!(reported(&client_and_server(50_000)), None, "what is explained is longer");
    let own =
        "20.0 ms of loop[100], is not an incident because fxtrec ran on the CPU for most of it";
    assert_eq!(reported(&delayed(0)), line(own));
    let mut scene = client_and_server_in(Scene::recorded_by(RECORDER, ALL, None), 5_000);
    let from = 1_000_000;
    scene.name(104, "other").name(107, "busy");
    scene.switch(from, 0, 0, Leaves::R, 107).switch(from + 10, 0, 107, Leaves::R, 104);
    scene.switch(from + 20_000, 0, 104, Leaves::S, 107);
    scene.switch_with((from + 20_010, 0), 107, Leaves::S, 0, &call(SLEEP));
    scene.end(from + 30_000);
    let busy = "20.0 ms of busy[107], is not an incident because the thread had a CPU or waited for one most of the time (100.0 %)";
    assert_eq!(reported(&scene), line(busy));
    let mut few = client_and_server_in(Scene::of_command(ALL, 100), 900);
    // A thread of COMMAND as well, but it waits only once.
    few.name(109, "sh").wake_by(400_000, 1, 109, 101).switch(400_010, 1, 0, Leaves::R, 109);
    few.switch_with((400_020, 1), 109, Leaves::S, 0, &call(FUTEX));
    few.wake_by(600_000, 1, 109, 101).switch(600_001, 1, 0, Leaves::R, 109).end(800_000);
    let once = "200 ms of sh[109], is not an incident because the trace has only 1 such wait of the thread: too few to know the usual length";
    assert_eq!(reported(&few), line(once));
}

#[test]
fn where_nothing_is_unusual_no_incidents_are_listed() {
    let query = Query { pick: crate::Pick::Incidents(5), ..Query::default() };
    let answer = super::try_ask(&client_and_server(900), &query).expect("an answer");
    let found: Vec<_> = answer.explanations.iter().map(|it| it.is_unusual).collect();
    assert_eq!(found, [Some(false)]);
}

#[test]
fn where_no_request_is_unusual_none_is_called_so() {
    for (longest, times) in [(USUAL, "1.0"), (900, "4.5"), (1_150, "5.8")] {
        let why = ask(&client_and_server(longest), &Query::default());
        assert_eq!((why.subject, why.is_unusual), ("unit", Some(false)), "{}", why.sentence);
        let reported = format!(
            "Nothing unusual: the longest of 39 units of work of client[101] (between idle waits in clock_nanosleep) took {}, \
             {times} times the median: ",
            crate::sentence::nanos(why.length_ns)
        );
        assert!(why.sentence.starts_with(&reported), "{}", why.sentence);
    }
}

/// A loop of 40 rounds; the recorder delays one round for 20 ms, and another thread delays a later one for `hog` microseconds.
fn delayed(hog: u64) -> Scene {
    let mut scene = Scene::recorded_by(RECORDER, ALL, Some(100));
    scene.name(100, "loop");
    scene.switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    for round in 0..40 {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(SLEEP));
        scene.wake_with(now + 3_000, 0, 100, &[("interrupt", Value::Bool(true))]);
        let took = match round {
            20 => {
                scene.switch(now + 3_001, 0, 0, Leaves::R, RECORDER);
                scene.switch(now + 23_000, 0, RECORDER, Leaves::S, 100);
                20_000
            }
            30 if hog > 0 => {
                scene.switch(now + 3_001, 0, 0, Leaves::R, 301);
                scene.switch(now + 3_001 + hog, 0, 301, Leaves::S, 100);
                hog
            }
            _ => {
                scene.switch(now + 3_002, 0, 0, Leaves::R, 100);
                0
            }
        };
        now += 3_200 + took;
    }
    scene.end(now);
    scene
}

#[test]
fn after_a_delay_by_the_recorder_the_next_one_of_the_thread_is_chosen() {
    let top = |query| Query { pick: Pick::Incidents(3), ..query };
    for query in [Query::default(), of("loop"), top(Query::default()), top(of("loop"))] {
        let why = ask(&delayed(8_000), &query);
        let expected = "waited 8.00 ms for CPU 0, where t301[301] ran";
        assert_eq!(why.is_unusual, Some(true), "{query:?}: {}", why.sentence);
        assert!(why.sentence.contains(expected), "{query:?}: {}", why.sentence);
        assert!(why.length_ns < 9_000_000, "{query:?}: {}", why.sentence);
    }
}

#[test]
fn what_the_recorder_delayed_is_not_chosen_unless_asked_for() {
    let scene = delayed(0);
    let why = ask(&scene, &Query::default());
    assert_eq!(why.is_unusual, Some(false), "{}", why.sentence);
    let reported =
        "Nothing unusual, apart from 1 unit that fxtrec delayed or of which most is unknown: ";
    assert!(why.sentence.starts_with(reported), "{}", why.sentence);
    let why = ask(&scene, &Query { recorder: true, ..Query::default() });
    assert_eq!(why.is_unusual, Some(true), "{}", why.sentence);
    assert!(why.recorder_ns > 19_000_000 && why.length_ns < 21_000_000, "{why:?}");
    let usual = why.usual.expect("the median unit");
    assert_eq!(usual.iter().map(|part| part.ns).sum::<u64>(), why.median_ns.expect("it is known"));
}

/// A thread that takes a lock of `worker` again and again, for 200 us at a time, and then waits until `worker` ends, for most of its life.
#[test]
fn a_main_thread_that_waits_for_its_worker_is_no_incident() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "main").name(101, "main").name(101, "worker");
    scene.switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    for round in 0..60 {
        scene.wake_by(now, 1, 101, 100);
        scene.switch_with((now + 5, 0), 100, Leaves::S, 0, &call(FUTEX));
        scene.switch(now + 6, 1, 0, Leaves::R, 101);
        now += if round == 55 { 900_000 } else { 200 };
        scene.wake_by(now, 0, 100, 101);
        scene.switch_with((now + 5, 1), 101, Leaves::S, 0, &call(READ));
        scene.switch(now + 6, 0, 0, Leaves::R, 100);
        now += 10;
    }
    scene.end(now);
    let why = ask(&scene, &Query { thread: Some("main".to_owned()), ..Query::default() });
    assert_ne!((why.subject, why.is_unusual), ("wait", Some(true)), "{}", why.sentence);
}

/// A client that sends one request after another is never without work.
#[test]
fn the_wait_that_takes_unusually_long_is_explained_where_a_thread_has_no_idle_waits() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(101, "client").name(101, "server");
    scene.switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    for request in 0..60 {
        scene.wake_by(now, 1, 101, 100);
        scene.switch_with((now + 5, 0), 100, Leaves::S, 0, &call(READ));
        scene.switch(now + 6, 1, 0, Leaves::R, 101);
        now += if request == 30 { 30_000 } else { 200 };
        scene.wake_by(now, 0, 100, 101);
        scene.switch_with((now + 5, 1), 101, Leaves::S, 0, &call(READ));
        scene.switch(now + 6, 0, 0, Leaves::R, 100);
        now += 10;
    }
    scene.end(now);
    let query = Query { thread: Some("client".to_owned()), ..Query::default() };
    let why = ask(&scene, &query);
    assert_eq!((why.subject, why.units), ("wait", Some(55)), "{}", why.sentence);
    assert_eq!(
        why.sentence,
        "client[100] waited 30.0 ms in read, 29.8 ms more than the median of 55 such waits: blocked 30.0 ms in read until \
         woken by server[101], which ran for 30.0 ms."
    );
}

/// A shell starts one compiler after another; the third one works longest.
fn build() -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "make");
    scene.switch(0, 0, 0, Leaves::R, 100);
    let mut now = 1_000;
    for (child, works) in [(201, 10_000), (202, 20_000), (203, 60_000)] {
        scene.name(child, "make").name(child, if child == 203 { "gen-tables" } else { "cc1" });
        scene.wake_by(now, 1, child, 100);
        scene.switch_with((now + 10, 0), 100, Leaves::S, 0, &call(61));
        scene.switch(now + 10, 1, 0, Leaves::R, child);
        now += works;
        scene.wake_by(now, 0, 100, child);
        scene.switch(now + 1, 1, child, Leaves::X, 0);
        scene.switch(now + 10, 0, 0, Leaves::R, 100);
        now += 1_000;
    }
    scene.switch(now, 0, 100, Leaves::X, 0);
    scene.end(now + 10);
    scene
}

#[test]
fn of_a_build_the_critical_path_is_reported() {
    let scene = build();
    for critical_path in [false, true] {
        let why = ask(&scene, &Query { critical_path, ..Query::default() });
        assert_eq!(why.subject, "critical_path");
        assert_eq!(
            why.sentence,
            "make[100] took 93.0 ms from its start to its end: 64.5 % gen-tables[203] running, 32.2 % cc1 (2 threads) running \
             and 3.2 % others."
        );
    }
    let asked = Query { critical_path: true, ..Query::default() };
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 100).switch(10, 0, 100, Leaves::S, 0).end(20);
    let none = super::try_ask(&scene, &asked);
    assert!(matches!(none, Err(crate::WhyError::NoCommand)), "{none:?}");
}

/// The work of a thread, in microseconds: how long it runs, and how often and how long it is blocked until an interrupt.
type Work = (u64, u8, u64);

fn thread_that_works(list: &[Work]) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "loop");
    scene.switch(0, 0, 0, Leaves::R, 100);
    let mut now = 10;
    let mut wait = |now: &mut u64, number: u32, micros: u64| {
        scene.switch_with((*now, 0), 100, Leaves::S, 0, &call(number));
        *now += micros;
        scene.wake_with(*now, 0, 100, &[("interrupt", Value::Bool(true))]);
        scene.switch(*now, 0, 0, Leaves::R, 100);
    };
    for &(runs, waits, micros) in list {
        wait(&mut now, SLEEP, 5_000);
        now += runs;
        for _ in 0..waits {
            wait(&mut now, READ, micros);
            now += 1;
        }
    }
    wait(&mut now, SLEEP, 5_000);
    scene.end(now + 10);
    scene
}

proptest! {
    #[test]
    fn the_unit_with_the_largest_excess_is_chosen_and_called_unusual_by_the_rule(
        list in proptest::collection::vec(
            prop_oneof![
                6 => (50_u64..400, 0_u8..2, 10_u64..300),
                1 => (50_u64..4_000, 0_u8..9, 10_u64..2_000),
            ],
            8..60,
        )
    ) {
        let length = |&(runs, waits, micros): &Work| runs + u64::from(waits) * (micros + 1);
        let median = |list: &[Work]| {
            let mut sorted: Vec<u64> = list.iter().map(length).collect();
            sorted.sort_unstable();
            sorted[sorted.len() / 2]
        };
        let unusual = |length: u64, median: u64| {
            let excess = length.saturating_sub(median);
            excess >= 1_000 && excess >= 5 * median
        };
        // The first units count only for what they wait for.
        let all = median(&list);
        let starts = |work: &Work| {
            let blocked = u64::from(work.1) * work.2 * 1_000;
            unusual(length(work), all) && blocked < (length(work) - all) * 1_000 / 2
        };
        let first = 5.min(list.len() / 8);
        let counted: Vec<Work> =
            list.iter().enumerate().filter(|(at, work)| *at >= first || !starts(work)).map(|it| *it.1).collect();
        let median = median(&counted);
        let most = counted.iter().map(length).max().expect("at least seven");
        let why = ask(&thread_that_works(&list), &Query::default());
        prop_assert_eq!((why.subject, why.units), ("unit", Some(counted.len() as u64)));
        prop_assert_eq!(why.median_ns, Some(median * 1_000));
        prop_assert_eq!(why.length_ns, most * 1_000);
        prop_assert_eq!(why.is_unusual, Some(unusual(most, median)));
    }
}

#[test]
fn a_server_that_waits_for_its_clients_is_idle_and_a_client_that_waits_for_its_server_is_not() {
    let query = Query { thread: Some("server".to_owned()), ..Query::default() };
    let why = ask(&client_and_server(50_000), &query);
    assert_eq!((why.subject, why.idle_in.as_deref()), ("unit", Some("system call 232")));
    assert!(why.length_ns > 49_000_000 && why.sentence.contains("ran for"), "{}", why.sentence);
}

/// A thread that sleeps for 5 ms at a time wants a lock, and retries for 5 ms at a time while another thread runs.
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
    let reported = ": blocked 100 times in futex, 500 ms in all, each time until woken by an interrupt or a timer";
    assert!(why.sentence.contains(reported), "{}", why.sentence);
    assert!(why.sentence.ends_with("; meanwhile export[101] ran for 501 ms."), "{}", why.sentence);
}

/// A thread works for 100 us at a time and sleeps in between. Once, its work takes ten attempts, 10 ms apart; `during` happens in each of
/// them.
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
    let reported = "; the only other thread of its process that ran during the last of these was batch[101], for 800 us.";
    assert!(why.sentence.ends_with(reported), "{}", why.sentence);
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

/// What ends a wait of the thread `loop`.
#[derive(Clone, Copy)]
enum Ends {
    Timer,
    /// The thread `worker`, which works since the wait began.
    Worker,
    /// The same, and it ends then.
    EndOfWorker,
}

/// A thread sleeps for 5 ms at a time and works for 100 us, with a wait for the disk. `last` are the waits after its last sleep: their
/// system calls, lengths in microseconds, and ends. Then it runs for 5 ms, and ends if `ends`.
fn last_work(last: &[(u32, u64, Ends)], ends: bool) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "py").name(101, "py").name(101, "worker").name(100, "loop");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 101, 100);
    scene.switch(20, 1, 0, Leaves::R, 101).switch_with((30, 1), 101, Leaves::S, 0, &call(READ));
    let (mut now, mut works) = (40, false);
    let mut wait = |scene: &mut Scene, (number, micros, ends): (u32, u64, Ends)| {
        // A worker that has the lock works, too.
        if !works && (number == FUTEX || !matches!(ends, Ends::Timer)) {
            scene.wake_by(now - 1, 1, 101, 100).switch(now, 1, 0, Leaves::R, 101);
            works = true;
        }
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(number));
        now += micros;
        match ends {
            Ends::Timer => scene.wake_with(now, 0, 100, &[("interrupt", Value::Bool(true))]),
            _ => scene.wake_by(now, 0, 100, 101),
        };
        works &= matches!(ends, Ends::Timer);
        match ends {
            Ends::Timer => {}
            Ends::Worker => {
                scene.switch_with((now + 1, 1), 101, Leaves::S, 0, &call(READ));
            }
            Ends::EndOfWorker => {
                scene.switch(now + 1, 1, 101, Leaves::X, 0);
            }
        }
        scene.switch(now + 2, 0, 0, Leaves::R, 100);
        now += 50;
        now
    };
    for _ in 0..20 {
        wait(&mut scene, (SLEEP, 5_000, Ends::Timer));
        wait(&mut scene, (FSYNC, 50, Ends::Timer));
    }
    let mut end = wait(&mut scene, (SLEEP, 5_000, Ends::Timer));
    for &it in last {
        end = wait(&mut scene, it);
    }
    if ends {
        scene.switch(end + 5_000, 0, 100, Leaves::X, 0);
    }
    scene.end(end + 5_010);
    scene
}

#[test]
fn the_last_work_of_a_thread_can_be_the_incident() {
    let tries = vec![(FUTEX, 5_000, Ends::Timer); 100];
    let after = |mut list: Vec<_>, more: &[_]| {
        list.extend_from_slice(more);
        list
    };
    let ended = after(tries.clone(), &[(FUTEX, 2_000, Ends::Worker)]);
    let joined = after(ended.clone(), &[(FUTEX, 900_000, Ends::EndOfWorker)]);
    let waited_for_child = after(ended.clone(), &[(61, 900_000, Ends::EndOfWorker)]);
    let paused = after(ended.clone(), &[(SLEEP, 1, Ends::Timer), (SLEEP, 900_000, Ends::Timer)]);
    let disk = vec![(FSYNC, 507_000, Ends::Timer)];
    for last in [&ended, &joined, &waited_for_child, &disk] {
        let why = ask(&last_work(last, true), &Query::default());
        assert_eq!((why.subject, why.thread.tid), ("unit", 100), "{}", why.sentence);
        assert_eq!(why.is_unusual, Some(true), "{}", why.sentence);
        assert!((507_000_000..513_000_000).contains(&why.length_ns), "{}", why.sentence);
        let reported = " after its last idle wait in clock_nanosleep, ";
        assert!(why.sentence.contains(reported), "{}", why.sentence);
    }
    let why = ask(&last_work(&paused, true), &Query::default());
    assert_eq!(why.is_unusual, Some(true), "{}", why.sentence);
    assert!((507_000_000..513_000_000).contains(&why.length_ns), "{}", why.sentence);
    // If the thread continues to work when the recording ends, this is also its last work.
    let why = ask(&last_work(&tries, false), &Query::default());
    assert_eq!((why.is_unusual, why.thread.tid), (Some(true), 100), "{}", why.sentence);
    assert!((509_000_000..514_000_000).contains(&why.length_ns), "{}", why.sentence);
}

#[test]
fn how_a_thread_shuts_down_is_no_incident() {
    for last in [
        // It waits for another thread's end, for a process, for a time of its choice, and once for a condition.
        (FUTEX, 900_000, Ends::EndOfWorker),
        (READ, 900_000, Ends::EndOfWorker),
        (61, 900_000, Ends::Worker),
        (SLEEP, 900_000, Ends::Timer),
        (FUTEX, 900_000, Ends::Timer),
        (FUTEX, 900_000, Ends::Worker),
        // A kind of wait that it did not have before.
        (WRITE, 900_000, Ends::Timer),
    ] {
        let why = ask(&last_work(&[last], true), &Query::default());
        assert_eq!(why.is_unusual, Some(false), "{}", why.sentence);
    }
    // It may run for any time.
    let why = ask(&last_work(&[(FSYNC, 50, Ends::Timer)], true), &Query::default());
    assert_eq!(why.is_unusual, Some(false), "{}", why.sentence);
}

/// A thread sleeps shortly, and then waits for 3 ms in a timed `futex`, again and again; for 15 rounds it does not sleep. Another thread of
/// its process works all the time, or never.
fn timed_waits(works: bool) -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "py").name(101, "py").name(101, "worker").name(100, "monitor");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 101, 100);
    scene.switch(20, 1, 0, Leaves::R, 101);
    if !works {
        scene.switch_with((30, 1), 101, Leaves::S, 0, &call(READ));
    }
    let mut now = 40;
    for round in 0..100 {
        let short = (!(40..55).contains(&round)).then_some((SLEEP, 100));
        for (number, micros) in short.into_iter().chain([(FUTEX, 3_000)]) {
            scene.switch_with((now, 0), 100, Leaves::S, 0, &call(number));
            now += micros;
            scene.wake_with(now, 0, 100, &[("interrupt", Value::Bool(true))]);
            scene.switch(now + 2, 0, 0, Leaves::R, 100);
            now += 10;
        }
    }
    scene.end(now);
    scene
}

#[test]
fn a_timed_wait_for_a_lock_is_idle_if_no_other_thread_of_the_process_works() {
    for works in [false, true] {
        let query = Query { thread: Some("monitor".to_owned()), ..Query::default() };
        let why = ask(&timed_waits(works), &query);
        assert_eq!((why.subject, why.is_unusual), ("unit", Some(works)), "{}", why.sentence);
    }
}

/// A client asks a worker through a thread that passes requests on; if `is_other`, that thread belongs to another process. Each request
/// takes 100 us, number 20 takes 50 ms. `stack` says where in the code each of the worker's waits is, if that is recorded.
fn passed_on(is_other: bool, stack: impl Fn(u64) -> Option<&'static str>) -> Scene {
    let worker = if is_other { 201 } else { 102 };
    let passes_on = worker + 1;
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "sh").name(101, "sh").name(worker, "sh").name(passes_on, "sh");
    scene.name(101, "client").name(worker, "worker").name(passes_on, "feeder");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, worker, 100);
    scene.wake_by(11, 1, passes_on, 100).wake_by(12, 0, 101, 100);
    scene.switch(20, 1, 0, Leaves::R, worker);
    scene.switch_with((30, 1), worker, Leaves::S, passes_on, &call(FUTEX));
    scene.switch_with((40, 1), passes_on, Leaves::S, 0, &call(FUTEX));
    scene.switch_with((50, 0), 100, Leaves::S, 101, &call(61));
    let mut now = 60;
    for request in 0..40 {
        scene.switch_with((now, 0), 101, Leaves::S, 0, &call(SLEEP));
        now += 3_000;
        scene.wake_with(now, 0, 101, &[("interrupt", Value::Bool(true))]);
        scene.switch(now + 5, 0, 0, Leaves::R, 101);
        scene.wake_by(now + 10, 1, worker, 101);
        scene.switch_with((now + 15, 0), 101, Leaves::S, 0, &call(READ));
        scene.switch(now + 15, 1, 0, Leaves::R, worker);
        now += if request == 20 { 50_000 } else { 100 };
        scene.wake_by(now, 1, passes_on, worker);
        scene.switch_with((now + 2, 1), worker, Leaves::S, passes_on, &call(FUTEX));
        if let Some(function) = stack(request) {
            scene.stack(now + 2, worker, function);
        }
        scene.wake_by(now + 10, 0, 101, passes_on).switch(now + 11, 0, 0, Leaves::R, 101);
        scene.switch_with((now + 12, 1), passes_on, Leaves::S, 0, &call(FUTEX));
        now += 30;
    }
    scene.switch(now, 0, 101, Leaves::X, 0);
    scene.wake_by(now + 1, 0, 100, 101).switch(now + 2, 0, 0, Leaves::R, 100);
    scene.end(now + 100);
    scene
}

#[test]
fn the_victim_is_the_thread_that_waits_for_the_one_at_work_also_through_others() {
    for is_other in [false, true] {
        let why = ask(&passed_on(is_other, |_| None), &Query::default());
        assert_eq!((why.subject, &*why.thread.comm), ("unit", "client"), "{}", why.sentence);
        let reported = ", which was blocked 50.0 ms in futex until woken by worker";
        assert!(why.sentence.contains(reported), "{}", why.sentence);
    }
}

#[test]
fn an_idle_wait_whose_stack_differs_or_was_missed_is_still_idle() {
    let same = Query { thread: Some("worker".to_owned()), ..Query::default() };
    let count =
        |stack: &dyn Fn(u64) -> Option<&'static str>| ask(&passed_on(false, stack), &same).units;
    let all = count(&|_| Some("uv_cond_wait"));
    assert_eq!(count(&|request| (request != 9).then_some("uv_cond_wait")), all);
    assert_eq!(count(&|request| Some(if request > 32 { "compiled" } else { "uv_cond_wait" })), all);
}

/// A client without idle waits, as in `the_wait_that_takes_unusually_long`, next to a thread that sleeps for 3 ms at a time and whose work takes
/// 5 ms once.
#[test]
fn a_single_wait_is_explained_next_to_a_unit_if_it_is_much_worse() {
    for (longest, chosen) in [(80_000, 100), (20_000, 201)] {
        let mut scene = Scene::of_command(ALL, 100);
        scene.name(100, "client").name(101, "client").name(101, "server");
        scene.name(201, "client").name(201, "ticker");
        scene.switch(0, 0, 0, Leaves::R, 100).wake_by(1, 1, 201, 100);
        scene.switch(2, 1, 0, Leaves::R, 201);
        let mut now = 10;
        for request in 0..500 {
            scene.switch_with((now, 1), 201, Leaves::S, 0, &call(SLEEP));
            scene.wake_by(now, 1, 101, 100);
            scene.switch_with((now + 5, 0), 100, Leaves::S, 0, &call(READ));
            scene.switch(now + 6, 1, 0, Leaves::R, 101);
            now += if request == 30 { longest } else { 200 };
            scene.wake_by(now, 0, 100, 101);
            scene.switch_with((now + 5, 1), 101, Leaves::S, 0, &call(READ));
            scene.switch(now + 6, 0, 0, Leaves::R, 100);
            scene.wake_with(now + 7, 1, 201, &[("interrupt", Value::Bool(true))]);
            scene.switch(now + 8, 1, 0, Leaves::R, 201);
            now += if request == 40 { 5_000 } else { 20 };
        }
        scene.end(now);
        let why = ask(&scene, &Query::default());
        assert_eq!(why.thread.tid, chosen, "{}", why.sentence);
    }
}

/// A thread waits for 3 ms at a time until a timer ends that, and once for 300 ms until another thread wakes it, which slept meanwhile. No
/// stacks are recorded.
#[test]
fn an_idle_wait_that_a_thread_ends_is_idle_next_to_those_that_timers_end() {
    let timer = [("interrupt", Value::Bool(true))];
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "py").name(101, "py").name(101, "capture").name(100, "monitor");
    scene.switch(0, 0, 0, Leaves::R, 100).wake_by(10, 1, 101, 100);
    scene.switch(20, 1, 0, Leaves::R, 101).switch_with((30, 1), 101, Leaves::S, 0, &call(SLEEP));
    let mut now = 40;
    for round in 0..100 {
        scene.switch_with((now, 0), 100, Leaves::S, 0, &call(FUTEX));
        if round == 50 {
            now += 300_000;
            scene.wake_with(now - 20, 1, 101, &timer).switch(now - 10, 1, 0, Leaves::R, 101);
            scene.wake_by(now, 0, 100, 101);
            scene.switch_with((now + 1, 1), 101, Leaves::S, 0, &call(SLEEP));
        } else {
            now += 3_000;
            scene.wake_with(now, 0, 100, &timer);
        }
        scene.switch(now + 2, 0, 0, Leaves::R, 100);
        now += 20;
    }
    scene.end(now);
    let why = ask(&scene, &Query { thread: Some("monitor".to_owned()), ..Query::default() });
    assert_eq!(why.is_unusual, Some(false), "{}", why.sentence);
}
