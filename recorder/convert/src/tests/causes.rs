//! The effects of the host, quotas and interrupts on threads: converted, cut and merged.

use fxt_reader::record::{EventKind, Value as ReadValue};
use fxt_reader::{Nanos, Reader, Record};
use fxt_writer::{Text, Value};
use fxtrec_report::scene::{Leaves, Scene, thread};
use fxtrec_report::{Metric, Options as ReportOptions, Report as Figures, analyse};

use super::*;
use crate::cut::{Filter, Window, cut};
use crate::merge::{How, Source, merge};

const ALL: &str = "steal,irq,throttled,migrate,need_resched,waker";

fn us(micros: u64) -> Value<'static> {
    Value::Uint64(micros * 1000)
}

const THROTTLED: (&str, Value<'static>) = ("throttled", Value::Bool(true));
const BY: (&str, Value<'static>) = ("throttled_by", Value::Str(Text::Inline("/a")));

/// Thread 101 runs from 10 to 30, of which the host took 4. It uses up the quota of /a, which lasts until 80, and is switched in at 100.
/// Thread 102 of the same cgroup is woken at 20, moves to CPU 1 at 90, and is switched in there at 95.
fn trace() -> Vec<u8> {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(10, 0, 0, Leaves::R, 101).wake(20, 0, 102);
    let slice = [("steal_ns", us(4)), ("irq_ns", us(1)), ("irqs", Value::Uint32(2)), THROTTLED];
    scene.throttle(30, "/a", 0).switch_with((30, 0), 101, Leaves::R, 303, &slice);
    scene.release(80, "/a", 0).migrate(90, 102, 0, 1);
    scene.switch_with((95, 1), 0, Leaves::R, 102, &[("throttled_ns", us(50)), BY]);
    scene.switch_with((100, 0), 303, Leaves::S, 101, &[("throttled_ns", us(50)), BY]);
    scene.switch(120, 0, 101, Leaves::S, 0).switch(120, 1, 102, Leaves::S, 0);
    scene.host_steal(130, 0, 4, 120).host_steal(130, 1, 0, 120);
    scene.quota_stat(130, "/a", 50, (1, 1)).end(130);
    scene.bytes().to_vec()
}

/// Name, begin and end of the states of a thread, in microseconds.
fn states(json: &str, tid: u64) -> Vec<(String, u64, u64)> {
    let events = events(json);
    let of = |phase: &'static str| {
        events.iter().filter(move |event| {
            event["cat"] == "thread_state" && event["tid"] == tid && event["ph"] == phase
        })
    };
    let time = |event: &Json| event["ts"].as_f64().expect("a number") as u64;
    let pairs = of("B").zip(of("E"));
    pairs
        .map(|(begin, end)| {
            (begin["name"].as_str().expect("a name").to_owned(), time(begin), time(end))
        })
        .collect()
}

fn named(list: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    list.iter().map(|(name, begin, end)| ((*name).to_owned(), *begin, *end)).collect()
}

/// Other recorders may write signed numbers.
#[test]
fn facts_are_read_as_the_report_reads_them_whatever_the_type_of_their_numbers() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch_with((30, 0), 101, Leaves::R, 303, &[("steal_ns", Value::Int64(4000)), THROTTLED]);
    let held = [("throttled_ns", Value::Int64(50_000)), BY];
    scene.switch_with((100, 0), 303, Leaves::S, 101, &held).end(120);
    let expected = [
        ("Running, partly stolen", 10, 30),
        ("Throttled", 30, 80),
        ("Runnable", 80, 100),
        ("Running", 100, 120),
    ];
    assert_eq!(states(&to_json(scene.bytes(), Sched::Slices), 101), named(&expected));
    let report = analyse(Reader::from_slice(scene.bytes()), ReportOptions::default());
    let report = report.expect("a trace");
    let stats = &thread(&report, 101).stats;
    let nanos = |metric| stats.metric(metric).sum().as_nanos();
    assert_eq!([Metric::Steal, Metric::Throttled].map(nanos), [4_000, 50_000]);
}

#[test]
fn throttled_and_stolen_stretches_have_names_of_their_own() {
    let json = to_json(&trace(), Sched::Slices);
    let expected = [
        ("Running, partly stolen", 10, 30),
        ("Throttled", 30, 80),
        ("Runnable", 80, 100),
        ("Running", 100, 120),
        ("Sleeping", 120, 130),
    ];
    assert_eq!(states(&json, 101), named(&expected));
    let events = events(&json);
    let stolen = events.iter().filter(|event| event["name"] == "Running, partly stolen");
    let reported: Vec<&Json> = stolen.map(|event| &event["args"]["steal_ns"]).collect();
    assert_eq!(
        reported,
        [4000, 4000],
        "both ends have the same arguments, or viewers take them for two"
    );
    let stolen = events.iter().find(|event| event["name"] == expected[0].0).expect("there is one");
    assert_eq!(stolen["args"]["steal_ns"], 4_000);
}

#[test]
fn a_wait_is_divided_where_its_cgroup_was_throttled() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(10, 0, 0, Leaves::R, 303).wake(20, 0, 102);
    scene.throttle(30, "/a", 0).release(80, "/a", 0);
    scene.switch_with((95, 0), 303, Leaves::S, 102, &[("throttled_ns", us(50)), BY]);
    scene.end(96);
    let expected =
        [("Runnable", 20, 30), ("Throttled", 30, 80), ("Runnable", 80, 95), ("Running", 95, 96)];
    assert_eq!(states(&to_json(scene.bytes(), Sched::Slices), 102), named(&expected));
}

#[test]
fn where_it_is_not_known_when_a_thread_was_throttled_it_is_drawn_as_waiting() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(10, 0, 0, Leaves::R, 303).wake(20, 0, 102);
    scene.switch_with((95, 0), 303, Leaves::S, 102, &[("throttled_ns", us(50))]).end(96);
    let expected = [("Runnable", 20, 95), ("Running", 95, 96)];
    assert_eq!(states(&to_json(scene.bytes(), Sched::Slices), 102), named(&expected));
}

#[test]
fn a_thread_that_is_throttled_for_no_time_waits_from_the_beginning() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch_with((20, 0), 101, Leaves::R, 0, &[THROTTLED]);
    scene.switch(30, 0, 0, Leaves::R, 101).end(31);
    let expected = [("Running", 10, 20), ("Runnable", 20, 30), ("Running", 30, 31)];
    assert_eq!(states(&to_json(scene.bytes(), Sched::Slices), 101), named(&expected));
}

#[test]
fn facts_come_back_from_slices() {
    let original = trace();
    let (back, report) = to_fxt(&to_json(&original, Sched::Slices));
    assert_eq!(records(&back), records(&original));
    assert_eq!(report.remarks().count(), 0, "{report}");
}

fn figures(bytes: &[u8]) -> Figures {
    analyse(Reader::from_slice(bytes), ReportOptions::default()).expect("a trace")
}

/// Microseconds of a metric of a thread.
fn sum(bytes: &[u8], tid: u64, metric: Metric) -> u64 {
    thread(&figures(bytes), tid).metric(metric).sum().as_micros() as u64
}

fn piece(from: u64, to: u64, filter: Filter) -> Vec<u8> {
    piece_of(&trace(), from, to, filter)
}

fn piece_of(trace: &[u8], from: u64, to: u64, filter: Filter) -> Vec<u8> {
    let window = Window { from: Nanos(from * 1000), to: Nanos(to * 1000), filter };
    let mut out = Vec::new();
    cut(&mut Reader::from_slice(trace), &window, &mut out).expect("a piece");
    out
}

#[test]
fn a_cut_keeps_what_was_done_to_threads() {
    let whole = piece(0, 200, Filter::default());
    for (tid, metric, micros) in [
        (101, Metric::Steal, 4),
        (101, Metric::Throttled, 50),
        (101, Metric::Preemption, 20),
        (102, Metric::Throttled, 50),
    ] {
        assert_eq!(sum(&whole, tid, metric), micros, "{metric} of {tid}");
        assert_eq!(sum(&trace(), tid, metric), micros, "{metric} of {tid}");
    }
    let report = figures(&whole);
    assert!(report.causes.knows(Metric::Steal));
    assert!(report.host.is_empty(), "it was counted over the whole recording");
    assert!(report.quotas.is_empty(), "and so was this");
    let before = figures(&trace()).quotas;
    assert_eq!((before.len(), before[0].throttled.as_micros()), (1, 50));
    assert_eq!(report.worst()[0].moves.len(), 1);
}

#[test]
fn a_cut_keeps_in_which_system_call_a_thread_blocked() {
    let in_call = [("syscall", Value::Uint32(202))];
    let mut scene = Scene::with_causes("syscall");
    scene.switch(10, 0, 0, Leaves::R, 101).switch_with((20, 0), 101, Leaves::S, 0, &in_call);
    scene.wake(50, 0, 101).switch(55, 0, 0, Leaves::R, 101);
    scene.switch_with((60, 0), 101, Leaves::S, 0, &in_call).wake(90, 0, 101);
    scene.switch(95, 0, 0, Leaves::R, 101).switch(99, 0, 101, Leaves::S, 0).end(100);
    let calls = |bytes: &[u8]| {
        let facts = thread(&figures(bytes), 101).stats.facts.clone().unwrap_or_default();
        facts
            .calls()
            .iter()
            .map(|call| (call.number, call.count, call.sum.as_micros()))
            .collect::<Vec<_>>()
    };
    let piece = |from, to| piece_of(scene.bytes(), from, to, Filter::default());
    assert_eq!(calls(&piece(0, 200)), [(202, 2, 60)]);
    // The first one begins before the window, so its length is unknown.
    assert_eq!(calls(&piece(30, 200)), [(202, 1, 30)]);
    let filter = Filter { pids: vec![100], ..Filter::default() };
    assert_eq!(calls(&piece_of(scene.bytes(), 0, 200, filter)), [(202, 2, 60)]);
}

#[test]
fn a_cut_within_a_throttled_wait_has_the_part_that_is_in_it() {
    // It left its CPU at 30 and was throttled until 80; 20 of that are in the window.
    let late = piece(60, 200, Filter::default());
    assert_eq!(sum(&late, 101, Metric::Throttled), 20);
    assert_eq!(sum(&late, 101, Metric::Preemption) + sum(&late, 101, Metric::Wakeup), 20);
    // All of it was before the window.
    let later = piece(85, 200, Filter::default());
    assert_eq!(sum(&later, 101, Metric::Throttled), 0);
    assert_eq!(sum(&later, 101, Metric::RunQueue), 15);
    // A thread whose cgroup was throttled while it waited, without a change of queues.
    let mut scene = Scene::with_causes(ALL);
    scene.switch(10, 0, 0, Leaves::R, 303).wake(20, 0, 102);
    scene.throttle(30, "/a", 0).release(80, "/a", 0);
    scene.switch_with((95, 0), 303, Leaves::S, 102, &[("throttled_ns", us(50)), BY]);
    scene.switch(97, 0, 102, Leaves::S, 0);
    let late = piece_of(scene.bytes(), 60, 200, Filter::default());
    assert_eq!((sum(&late, 102, Metric::Throttled), sum(&late, 102, Metric::RunQueue)), (20, 15));
}

#[test]
fn a_cut_of_some_threads_keeps_the_periods_of_cgroups() {
    let filter = Filter { pids: vec![100], ..Filter::default() };
    let some = piece(50, 200, filter);
    let mut reader = Reader::from_slice(&some);
    let mut periods = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let Record::Event(event) = item.record
            && event.name == "throttled"
        {
            let begins = matches!(event.kind, EventKind::AsyncBegin { .. });
            let cgroup = event.args.str("cgroup").map(str::to_owned);
            periods.push((event.time.0 / 1000, begins, cgroup));
        }
    }
    let by = || Some("/a".to_owned());
    assert_eq!(periods, [(50, true, by()), (80, false, by())], "the first is cut");
    assert_eq!(sum(&some, 101, Metric::Throttled), 30);
    assert_eq!(
        sum(&piece(0, 200, Filter { pids: vec![100], ..Filter::default() }), 101, Metric::Steal),
        4
    );
}

#[test]
fn a_merge_gives_the_cpus_in_events_their_new_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let sources: Vec<Source> = (0..2)
        .map(|at| {
            let path = folder.path().join(format!("{at}.fxt"));
            std::fs::write(&path, trace()).expect("room");
            Source { path, offset: Some(0) }
        })
        .collect();
    let mut out = Vec::new();
    merge(&sources, &How::default(), &mut out).expect("an archive");
    let report = figures(&out);
    let shares: Vec<(u16, u128)> =
        report.host.iter().map(|host| (host.cpu.0, host.stolen.as_micros())).collect();
    assert_eq!(shares, [(0, 4), (1, 0), (2, 4), (3, 0)]);
    assert!(report.causes.knows(Metric::Throttled));
    let moved: Vec<(u16, u16)> = report
        .worst()
        .iter()
        .flat_map(|wait| wait.moves.iter().map(|it| (it.from.0, it.to.0)))
        .collect();
    assert_eq!(moved, [(0, 1), (2, 3)]);
    assert_eq!(report.total().metric(Metric::Throttled).sum().as_micros(), 200);
    let mut reader = Reader::from_slice(&out);
    let mut periods = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let Record::Event(event) = item.record
            && let ("throttled", Some(ReadValue::UInt32(cpu))) = (event.name, event.args.get("cpu"))
        {
            periods.push(cpu);
        }
    }
    periods.sort_unstable();
    assert_eq!(periods, [0, 0, 2, 2]);
}
