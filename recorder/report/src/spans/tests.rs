use fxt_writer::Value;
use proptest::prelude::*;

use super::*;
use crate::analysis::Options;
use crate::scene::{Leaves, Scene};
use crate::selection::{TimeRange, TimeSpec};

const ALL: &str = "steal,irq,throttled,waker,syscall";

fn measured_of(scene: &Scene, selection: &Selection) -> SpanReport {
    let report = scene.report_with(Options { selection: selection.clone(), ..Options::default() });
    let open = || Ok(Reader::from_slice(scene.bytes()));
    measure(open, selection, &report, Room::OF_COMMANDS).expect("a trace")
}

fn measured(scene: &Scene) -> SpanReport {
    measured_of(scene, &Selection::default())
}

/// The parts of the only span, in microseconds, and its unknown time.
fn parts(report: &SpanReport) -> (Vec<(&'static str, u64)>, u64) {
    let [row] = &report.rows[..] else { panic!("one row: {report:#?}") };
    let [time] = &row.worst[..] else { panic!("one span: {row:#?}") };
    let all = SpanPart::ALL.iter().map(|part| (part.name(), time.part(*part) / 1000));
    (all.filter(|part| part.1 > 0).collect(), time.unknown / 1000)
}

/// COMMAND's process is 100; its thread 101 has a span from 0 to 100 us. In this span, the thread waits while COMMAND's own 102, and 201,
/// which existed before, use the CPU.
fn late() -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(20, 0, 101, Leaves::R, 102).switch(30, 0, 102, Leaves::S, 201);
    scene.switch(70, 0, 201, Leaves::R, 101);
    let sleeps = [("syscall", Value::Uint32(202))];
    scene.switch_with((80, 0), 101, Leaves::S, 0, &sleeps);
    scene.wake_by(90, 0, 101, 102).switch(90, 0, 0, Leaves::R, 101);
    scene.span((0, 100), 101, "request");
    scene.switch(100, 0, 101, Leaves::S, 0).end(200);
    scene
}

#[test]
fn the_parts_of_a_span_say_who_had_the_cpu_and_what_blocked_it() {
    let report = measured(&late());
    let expected =
        [("wall", 100), ("cpu", 40), ("runqueue", 50), ("strangers", 40), ("blocked", 10)];
    assert_eq!(parts(&report), (expected.to_vec(), 0));
    let row = &report.rows[0];
    assert_eq!((&*row.category, &*row.name, row.tid, row.pid), ("app", "request", 101, Some(100)));
    assert_eq!(row.figures.blocked_by, [(Class::Lock, Duration::from_micros(10))]);
    assert_eq!(row.figures.undisturbed.max(), Some(Duration::from_micros(60)));
    let shown = row.worst[0].to_string();
    assert_eq!(shown, "runqueue 50.0 us (strangers 40.0 us), cpu 40.0 us, blocked 10.0 us (lock)");
    assert!(row.is_called("request") && row.is_called("app:request"));
    assert!(!row.is_called("app") && !row.is_called("other:request") && !row.is_called("app:"));
}

#[test]
fn nobody_is_a_stranger_whom_command_may_have_made() {
    let with = |waker: &[(&str, Value<'_>)], comm: &str| {
        let mut scene = Scene::of_command(ALL, 100);
        scene.name(101, "app").name(201, comm);
        scene.switch(0, 0, 0, Leaves::R, 101);
        scene.wake_with(10, 0, 201, waker);
        scene.switch(20, 0, 101, Leaves::R, 201).switch(60, 0, 201, Leaves::S, 101);
        scene.span((0, 100), 101, "request");
        scene.switch(100, 0, 101, Leaves::S, 0).end(200);
        let report = measured(&scene);
        report.rows[0].worst[0].part(SpanPart::Strangers) / 1000
    };
    let by = |koid| [("waker", Value::Koid(fxt_writer::Koid(koid)))];
    assert_eq!(with(&by(101), "app"), 0, "made by 101");
    assert_eq!(with(&by(101), "other"), 0, "woken by 101, and nobody knows who made it");
    assert_eq!(with(&[], "other"), 0, "nobody knows who woke it");
    assert_eq!(with(&[("interrupt", Value::Bool(true))], "other"), 40, "it was there before");
}

#[test]
fn what_the_host_and_quotas_take_is_no_ones_own_and_what_is_not_divided_is() {
    let with = |span: (u64, u64)| {
        let mut scene = Scene::of_command(ALL, 100);
        scene.switch(0, 0, 0, Leaves::R, 101);
        let facts = [("steal_ns", Value::Uint64(30_000)), ("irq_ns", Value::Uint64(5_000))];
        scene.switch_with((100, 0), 101, Leaves::S, 0, &facts);
        scene.span(span, 101, "request").end(200);
        let report = measured(&scene);
        (parts(&report), report.rows[0].figures.undisturbed.max().expect("one").as_micros())
    };
    let ((found, unknown), undisturbed) = with((0, 100));
    assert_eq!(found, [("wall", 100), ("cpu", 65), ("steal", 30), ("irq", 5)]);
    assert_eq!((unknown, undisturbed), (0, 70));
    // It is unknown whether the host took it from the span or from the rest of the slice.
    let ((found, unknown), undisturbed) = with((50, 100));
    assert_eq!(found, [("wall", 50), ("cpu", 50)]);
    assert_eq!((unknown, undisturbed), (0, 50));
}

#[test]
fn a_span_of_which_something_is_unknown_is_censored_in_its_parts_and_not_in_its_length() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.switch(0, 0, 0, Leaves::R, 101).switch(50, 0, 101, Leaves::R, 201).lose(60, 0, 3);
    scene.switch(80, 0, 201, Leaves::R, 101).span((0, 100), 101, "request");
    scene.switch(100, 0, 101, Leaves::S, 0).end(200);
    let report = measured(&scene);
    let known = vec![("wall", 100), ("cpu", 70)];
    assert_eq!(parts(&report), (known, 30), "from the last switch before the loss on");
    let figures = &report.rows[0].figures;
    let count = |part| (figures.part(part).count(), figures.part(part).censored());
    assert_eq!([count(SpanPart::Wall), count(SpanPart::Cpu)], [(1, 0), (0, 1)]);
    assert_eq!(figures.undisturbed.max(), Some(Duration::from_micros(100)), "nothing is taken off");
    // A thread without any other records.
    let mut scene = Scene::of_command(ALL, 100);
    scene.switch(0, 0, 0, Leaves::R, 101).span((0, 100), 103, "request").end(200);
    let report = measured(&scene);
    assert_eq!(parts(&report), (vec![("wall", 100)], 100));
}

#[test]
fn what_the_recording_does_not_report_is_not_known() {
    let report = |scene: &mut Scene| {
        scene.switch(0, 0, 0, Leaves::R, 101).span((0, 10), 101, "request").end(20);
        measured(scene)
    };
    let known = |report: &SpanReport| {
        SpanPart::ALL.iter().filter(|part| report.knows(**part)).map(|part| part.name()).collect()
    };
    let all: Vec<&str> = known(&report(&mut Scene::of_command(ALL, 100)));
    assert_eq!(all, SpanPart::ALL.map(SpanPart::name));
    let always = ["wall", "cpu", "runqueue", "blocked"];
    let plain: Vec<&str> = known(&report(&mut Scene::new()));
    assert_eq!(plain, always);
    let without_command: Vec<&str> = known(&report(&mut Scene::with_causes("waker")));
    assert_eq!(without_command, always);
    let without_wakers: Vec<&str> = known(&report(&mut Scene::of_command("", 100)));
    assert_eq!(without_wakers, always);
}

#[test]
fn spans_of_one_name_are_chosen_by_thread_and_range_and_put_together() {
    let mut scene = Scene::new();
    for (at, koid) in [(0, 101), (100, 102), (200, 101)] {
        scene.switch(at, 0, 0, Leaves::R, koid).switch(at + 90, 0, koid, Leaves::S, 0);
        scene.span((at, at + 50), koid, "request");
    }
    scene.end(400);
    let report = measured(&scene);
    assert_eq!(report.rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [101, 102]);
    let [(SpanName { category, name, .. }, figures)] = &report.by_name()[..] else {
        panic!("{report:#?}")
    };
    assert_eq!((*category, *name, figures.part(SpanPart::Cpu).count()), ("app", "request", 3));
    let mut selection = Selection::default();
    selection.threads.tids = vec![101];
    assert_eq!(measured_of(&scene, &selection).rows.len(), 1);
    let range = TimeRange {
        from: Some(TimeSpec::At(Nanos(60_000))),
        to: Some(TimeSpec::At(Nanos(260_000))),
    };
    let report = measured_of(&scene, &Selection { range, ..Selection::default() });
    assert_eq!(report.by_name()[0].1.part(SpanPart::Wall).count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the file contains, the parts and the unknown time add up to the length of the span.
    #[test]
    fn the_parts_of_a_span_are_as_long_as_it_is(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8)>(), 5..80),
        spans in prop::collection::vec((0_u64..200, 0_u64..100, 0_u64..4), 1..6),
    ) {
        let mut scene = Scene::of_command(ALL, 100);
        let mut now = 0;
        let name = |thread: u8| match thread % 5 { 0 => 0, n => 100 * u64::from(n % 2 + 1) + u64::from(n) };
        for (kind, a, b, how) in steps {
            now += u64::from(how % 5);
            let leaves = [Leaves::R, Leaves::S, Leaves::D, Leaves::T, Leaves::X][usize::from(how) % 5];
            let taken = [("steal_ns", Value::Uint64(u64::from(b) * 50)), ("irq_ns", Value::Uint64(u64::from(a) * 9))];
            let cpu = u16::from(how / 5 % 2);
            match kind % 8 {
                0..=3 => { scene.switch(now, cpu, name(a), leaves, name(b)); }
                4 => { scene.switch_with((now, cpu), name(a), leaves, name(b), &taken); }
                5 => { scene.wake_by(now, cpu, name(a).max(101), name(b)); }
                6 => { scene.wake(now, cpu, name(a).max(101)); }
                _ => { scene.lose(now, cpu, 1); }
            }
        }
        for &(from, length, koid) in &spans {
            scene.span((from, from + length), name(koid as u8 + 1), "request");
        }
        scene.end(now + 400);
        let report = measured(&scene);
        let mut seen = 0;
        for row in &report.rows {
            seen += row.figures.part(SpanPart::Wall).count();
            for time in &row.worst {
                let sum: u64 = SpanPart::PARTS
                    .iter()
                    .filter(|part| **part != SpanPart::Strangers)
                    .map(|part| time.part(*part))
                    .sum();
                prop_assert_eq!(sum + time.unknown, time.part(SpanPart::Wall), "{:#?}", time);
                prop_assert!(time.part(SpanPart::Strangers) <= time.part(SpanPart::RunQueue));
                prop_assert!(time.undisturbed() <= time.part(SpanPart::Wall));
            }
        }
        prop_assert_eq!(seen, spans.len() as u64);
    }
}
