//! Samples of probes, system calls and interrupts, and their records.

use fxt_reader::Reader;
use fxt_reader::record::EventKind;

use super::moment::both_ways;
use super::scene::Scene;
use super::{LOST, executed, fork, switch};
use crate::encode::ids::Ids;
use crate::encode::probes::catalog::{Act, Catalog, Class, Entry};
use crate::encode::probes::fields::FieldArg;
use crate::encode::probes::spans::SpanId;
use crate::encode::strings;
use crate::encode::threads::Threads;
use crate::event::{Call, Event, Kind, LocalId, LostOthers, Payload, Sample, UserState};
use crate::flight::watch::{Fired, Limits, Watch};
use fxtrec_gates::{Amount, Dimension};
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_kernel::format::{Field, FieldLocation};
use fxtrec_units::{Cpu, Nanos, Tid};

/// The events of [`scene`], by their index in its catalog.
const TICK: u16 = 0;
const CALL: u16 = 1;
const RETURN: u16 = 2;
const ENTER: u16 = 3;
const EXIT: u16 = 4;
const HARD: u16 = 5;
const HARD_EXIT: u16 = 6;
const SOFT: u16 = 7;
const SOFT_EXIT: u16 = 8;
const TRACEPOINT: u16 = 9;

fn field(offset: usize, size: usize) -> Field {
    Field {
        name: "x".into(),
        ctype: "long".into(),
        offset,
        size,
        signed: true,
        place: FieldLocation::Inline,
        array_len: None,
    }
}

/// A scene with every event that these tests use.
fn scene(narrow: bool, in_scope_only: bool) -> Scene {
    let mut threads = Threads::new(Ids::Initial, Box::new(super::Proc::default()));
    let mut catalog = Catalog::default();
    let text = |catalog: &mut Catalog, name: &str| catalog.text(name).expect("there is room");
    let number = FieldArg::new(text(&mut catalog, "n"), &field(0, 8), None);
    let comm = Field { ctype: "char".into(), array_len: Some(4), ..field(8, 4) };
    let handler = FieldArg::new(strings::UNKNOWN, &comm, None);
    catalog.add_syscall(35, "nanosleep").expect("there is room");
    catalog.add_syscall(59, "execve").expect("there is room");
    catalog.name_softirqs(&["HI".to_owned(), "TIMER".to_owned()]).expect("there is room");
    for (act, class, category, name) in [
        (Act::Instant, Class::Probe, "uprobe", "tick"),
        (Act::Call(SpanId(0)), Class::Probe, "uprobe", "render"),
        (Act::Return(SpanId(0)), Class::Probe, "uprobe", "render"),
        (Act::SyscallEnter(field(0, 8)), Class::Syscall, "syscall", ""),
        (Act::SyscallExit(field(0, 8), field(8, 8)), Class::Syscall, "syscall", ""),
        (Act::HardEnter(field(0, 8), handler), Class::Interrupt, "irq", ""),
        (Act::HardExit(field(0, 8)), Class::Interrupt, "irq", ""),
        (Act::SoftEnter(field(0, 8)), Class::Interrupt, "softirq", ""),
        (Act::SoftExit(field(0, 8)), Class::Interrupt, "softirq", ""),
        (Act::Instant, Class::Tracepoint, "sched", "sched_switch"),
    ] {
        let args = if matches!(act, Act::Instant) { vec![number] } else { Vec::new() };
        let in_scope_only = in_scope_only && class != Class::Interrupt;
        let (category, name) = (text(&mut catalog, category), text(&mut catalog, name));
        catalog.add(Entry { act, class, category, name, args, in_scope_only });
    }
    threads.include(LocalId(7));
    let mut scene = if narrow { Scene::narrow(threads) } else { Scene::of(threads) };
    scene.encoder.lanes().extend(catalog.names());
    scene.encoder.expect(catalog);
    scene
}

/// Thread `tid` leaves a sample of `event` on CPU 0.
fn hit(scene: &mut Scene, time: u64, event: u16, tid: u32, stack: u64, raw: &[u8]) {
    let user = Some(UserState { stack, is_32_bit: false });
    let (extra, current) = (ExtraIndex(event), Tid(tid));
    let sample = Sample { extra, current, user, payload: Payload::default() };
    let event = Event { time: Nanos(time), kind: Kind::Sample(sample) };
    scene.encoder.event(Nanos(time), Cpu(0), &event, raw).expect("memory takes every record");
}

fn words(words: &[i64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The events of the trace: `time thread B|E|i name args`.
fn reported(scene: &mut Scene) -> Vec<String> {
    let bytes = scene.encoder.lanes().clone();
    let mut reader = Reader::from_slice(&bytes);
    let mut lines = Vec::new();
    while let Some(item) = reader.next().expect("the trace is sound") {
        let fxt_reader::Record::Event(event) = &item.record else { continue };
        if event.category == "fxtrec" {
            continue;
        }
        let kind = match event.kind {
            EventKind::DurationBegin => "B",
            EventKind::DurationEnd => "E",
            EventKind::Instant => "i",
            other => panic!("never written: {other:?}"),
        };
        let thread = event.thread.thread.0;
        let mut line = format!("{} {thread} {kind} {}", event.time.0, event.name);
        for arg in event.args.iter() {
            line.push_str(&format!(" {}={}", arg.name, arg.value));
        }
        lines.push(line);
    }
    lines
}

const ENTERED: u64 = 0x1000;
const LEFT: u64 = if cfg!(target_arch = "x86_64") { 0x1008 } else { 0x1000 };

#[test]
fn a_hit_is_an_event_on_the_thread_that_had_the_cpu() {
    let mut scene = scene(false, false);
    scene.at(1, 0, switch(0, "R", 5));
    hit(&mut scene, 2, TICK, 5, 0, &words(&[-3]));
    assert_eq!(reported(&mut scene), ["2 5 i tick n=-3"]);
    assert_eq!(scene.encoder.stats().probes.probe_hits, 1);
}

#[test]
fn a_sample_names_who_has_the_cpu_as_a_wake_up_does() {
    let mut scene = scene(false, false);
    scene.at(1, 0, switch(5, "S", 0));
    hit(&mut scene, 2, TICK, 6, 0, &words(&[1]));
    scene.at(3, 0, switch(6, "S", 0));
    assert_eq!(scene.encoder.stats().inferred_switches, 1, "idle to 6 was not reported");
}

#[test]
fn a_sample_of_the_switch_that_was_written_already_changes_nothing() {
    let mut scene = scene(false, false);
    scene.at(1, 0, switch(5, "S", 6));
    hit(&mut scene, 2, TRACEPOINT, 5, 0, &words(&[1]));
    scene.at(3, 0, switch(6, "S", 0));
    assert_eq!(reported(&mut scene), ["2 5 i sched_switch n=1"]);
    assert_eq!(scene.encoder.stats().inferred_switches, 0);
}

#[test]
fn a_span_begins_and_ends_on_its_thread() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, CALL, 5, ENTERED, &[]);
    hit(&mut scene, 2, CALL, 5, ENTERED - 64, &[]);
    hit(&mut scene, 3, RETURN, 5, LEFT - 64, &[]);
    hit(&mut scene, 4, RETURN, 5, LEFT, &[]);
    hit(&mut scene, 5, RETURN, 5, LEFT, &[]);
    let lines = ["1 5 B render", "2 5 B render", "3 5 E render", "4 5 E render"];
    assert_eq!(reported(&mut scene), lines);
    assert_eq!(scene.encoder.stats().probes.unmatched_ends, 1, "the last had no begin");
    assert_eq!(scene.encoder.stats().probes.probe_hits, 2, "a span is one hit");
}

#[test]
fn a_return_ends_what_is_inside_of_it_first() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, CALL, 5, ENTERED, &[]);
    hit(&mut scene, 2, CALL, 5, ENTERED - 64, &[]);
    hit(&mut scene, 3, RETURN, 5, LEFT, &[]);
    let lines = ["1 5 B render", "2 5 B render", "3 5 E render inferred=true", "3 5 E render"];
    assert_eq!(reported(&mut scene), lines);
}

#[test]
fn a_thread_that_ends_ends_its_spans_and_a_new_owner_of_its_id_has_none() {
    let mut scene = scene(false, false);
    scene.at(1, 0, switch(0, "R", 5));
    hit(&mut scene, 2, CALL, 5, ENTERED, &[]);
    scene.at(3, 0, switch(5, "X", 0));
    scene.at(4, 0, fork((5, 5), (1, 1)));
    scene.at(5, 0, switch(0, "R", 5));
    hit(&mut scene, 6, RETURN, 5, LEFT, &[]);
    assert_eq!(reported(&mut scene), ["2 5 B render", "3 5 E render unfinished=true"]);
    assert_eq!(scene.encoder.stats().probes.unmatched_ends, 1);
}

#[test]
fn a_system_call_has_its_name_and_what_it_returns() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, EXIT, 5, 0, &words(&[35, 0]));
    hit(&mut scene, 2, ENTER, 5, 0, &words(&[35]));
    hit(&mut scene, 3, EXIT, 5, 0, &words(&[35, -4]));
    hit(&mut scene, 4, ENTER, 5, 0, &words(&[1]));
    hit(&mut scene, 5, EXIT, 5, 0, &words(&[1, 0]));
    assert_eq!(reported(&mut scene), ["2 5 B nanosleep", "3 5 E nanosleep ret=-4"]);
    let counts = scene.encoder.stats().probes;
    assert_eq!((counts.syscalls, counts.unmatched_ends), (1, 1), "that of 1 is not wanted");
}

#[test]
fn spans_of_a_program_that_is_replaced_end_when_the_call_that_does_it_has() {
    let mut scene = scene(false, false);
    scene.at(1, 0, switch(0, "R", 5));
    hit(&mut scene, 2, CALL, 5, ENTERED, &[]);
    hit(&mut scene, 3, ENTER, 5, 0, &words(&[59]));
    scene.at(4, 0, executed(5, "new"));
    hit(&mut scene, 5, EXIT, 5, 0, &words(&[59, 0]));
    let lines =
        ["2 5 B render", "3 5 B execve", "5 5 E execve ret=0", "5 5 E render unfinished=true"];
    assert_eq!(reported(&mut scene), lines);
}

#[test]
fn what_is_open_at_the_end_is_ended_and_marked() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, CALL, 5, ENTERED, &[]);
    hit(&mut scene, 2, ENTER, 5, 0, &words(&[35]));
    hit(&mut scene, 3, SOFT, 5, 0, &words(&[1]));
    scene.encoder.end_all_spans(Nanos(9)).expect("memory takes every record");
    let ends: Vec<String> =
        reported(&mut scene).into_iter().filter(|l| l.starts_with('9')).collect();
    let cpu = 0xc000_0001_u64;
    let lines = [
        "9 5 E nanosleep unfinished=true".to_owned(),
        "9 5 E render unfinished=true".to_owned(),
        format!("9 {cpu} E TIMER unfinished=true"),
    ];
    assert_eq!(ends, lines);
}

#[test]
fn interrupts_are_on_the_thread_of_their_cpu_by_the_name_of_their_handler() {
    let mut scene = scene(false, false);
    let mut device = words(&[9]);
    device.extend(b"eth0");
    hit(&mut scene, 1, SOFT, 5, 0, &words(&[0]));
    hit(&mut scene, 2, HARD, 5, 0, &device);
    hit(&mut scene, 3, HARD_EXIT, 5, 0, &words(&[9]));
    hit(&mut scene, 4, SOFT_EXIT, 5, 0, &words(&[0]));
    hit(&mut scene, 5, SOFT, 5, 0, &words(&[77]));
    let cpu = 0xc000_0001_u64;
    let lines = ["1 B HI", "2 B eth0", "3 E eth0", "4 E HI", "5 B unknown"];
    let lines = lines.map(|line| line.replacen(' ', &format!(" {cpu} "), 1));
    assert_eq!(reported(&mut scene), lines);
    let names = scene.named();
    assert!(names.contains(&format!("thread {cpu} = CPU 0 of {}", 0xc000_0000_u64)), "{names:?}");
}

#[test]
fn a_loss_ends_the_interrupts_of_its_cpu() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, SOFT, 5, 0, &words(&[1]));
    scene.at(2, 0, LOST);
    hit(&mut scene, 3, SOFT_EXIT, 5, 0, &words(&[1]));
    let ends: Vec<String> =
        reported(&mut scene).into_iter().filter(|line| line.contains(" E ")).collect();
    assert_eq!(ends, [format!("2 {} E TIMER inferred=true", 0xc000_0001_u64)]);
}

#[test]
fn where_system_calls_are_lost_those_that_were_open_are_doubtful_and_nothing_else_is() {
    let mut scene = scene(false, false);
    scene.at(1, 0, switch(0, "R", 5));
    hit(&mut scene, 2, SOFT, 5, 0, &words(&[1]));
    hit(&mut scene, 3, ENTER, 5, 0, &words(&[35]));
    let lost = LostOthers { count: 7, at_most: false, calls: true };
    scene.at(4, 0, Kind::LostOthers(lost));
    hit(&mut scene, 5, EXIT, 5, 0, &words(&[35, 0]));
    hit(&mut scene, 6, ENTER, 5, 0, &words(&[35]));
    hit(&mut scene, 7, EXIT, 5, 0, &words(&[35, 0]));
    scene.at(8, 0, switch(5, "S", 0));
    scene.at(9, 0, Kind::LostOthers(LostOthers { calls: false, at_most: true, ..lost }));
    let cpu = 0xc000_0001_u64;
    let lines = [
        format!("2 {cpu} B TIMER"),
        "3 5 B nanosleep".to_owned(),
        "5 5 E nanosleep ret=0 lost_inside=true".to_owned(),
        "6 5 B nanosleep".to_owned(),
        "7 5 E nanosleep ret=0".to_owned(),
        format!("9 {cpu} E TIMER inferred=true"),
    ];
    assert_eq!(reported(&mut scene), lines);
    let stats = scene.encoder.stats();
    assert_eq!((stats.lost, stats.losses, stats.inferred_switches), (0, 0, 0));
    assert_eq!((stats.lost_others, stats.lost_others_at_most, stats.is_whole()), (14, true, false));
    let own: Vec<String> =
        scene.scheduled().into_iter().filter(|line| line.contains("fxtrec:lost")).collect();
    let expected = [
        "4 999/999: fxtrec:lost_others count=7 cpu=0 of=\"syscalls\"",
        "9 999/999: fxtrec:lost_others count=7 cpu=0 at_most=true",
    ];
    assert_eq!(own, expected);
}

#[test]
fn only_threads_in_scope_count_where_that_is_asked_for_and_switches_may_be_everyones() {
    let mut scene = scene(false, true);
    scene.at(1, 0, switch(7, "S", 8));
    scene.at(2, 0, switch(8, "S", 7));
    hit(&mut scene, 3, TICK, 7, 0, &words(&[1]));
    scene.at(4, 0, switch(7, "S", 8));
    hit(&mut scene, 5, TICK, 8, 0, &words(&[2]));
    assert_eq!(reported(&mut scene), ["3 7 i tick n=1"]);
    assert_eq!(scene.encoder.stats().switches_written, 3);
}

#[test]
fn a_sample_that_is_too_short_is_counted_and_its_event_kept() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, TICK, 5, 0, &[1, 2, 3]);
    hit(&mut scene, 2, ENTER, 5, 0, &[1, 2, 3]);
    assert_eq!(reported(&mut scene), ["1 5 i tick"]);
    assert_eq!(scene.encoder.stats().probes.undecoded, 2);
}

#[test]
fn a_piece_ends_what_is_open_in_it_and_the_next_begins_it_again() {
    let mut scene = scene(false, false);
    hit(&mut scene, 1, CALL, 5, ENTERED, &[]);
    hit(&mut scene, 2, ENTER, 5, 0, &words(&[35]));
    let beginning = scene.encoder.rotate(Nanos(10)).expect("memory takes every record");
    let lines =
        ["1 5 B render", "2 5 B nanosleep", "10 5 E nanosleep cut=true", "10 5 E render cut=true"];
    assert_eq!(reported(&mut scene), lines);
    let names = scene.encoder.catalog().names();
    scene.begin_anew(&[names, beginning].concat());
    hit(&mut scene, 13, EXIT, 5, 0, &words(&[35, 0]));
    hit(&mut scene, 14, RETURN, 5, LEFT, &[]);
    let lines = [
        "10 5 B render cut=true",
        "10 5 B nanosleep cut=true",
        "13 5 E nanosleep ret=0",
        "14 5 E render",
    ];
    assert_eq!(reported(&mut scene), lines);
}

#[test]
fn what_began_before_a_trace_is_known_by_its_end_or_by_being_open_still() {
    let mut scene = scene(false, false);
    for (time, stack) in [(1, ENTERED), (2, ENTERED - 64), (3, ENTERED - 128)] {
        hit(&mut scene, time, CALL, 5, stack, &[]);
    }
    let names = scene.encoder.catalog().names();
    scene.begin_anew(&names);
    hit(&mut scene, 10, RETURN, 5, LEFT - 128, &[]);
    hit(&mut scene, 11, RETURN, 5, LEFT - 64, &[]);
    hit(&mut scene, 12, CALL, 5, ENTERED - 64, &[]);
    let now = scene.encoder.present();
    let bytes = scene.encoder.lanes().clone();
    let begun = both_ways(&[], &[&bytes], &now);
    let (time, moment) = begun.expect("there is something in it");
    assert_eq!(time, Nanos(10));
    let open = moment.spans.values().next().expect("one thread");
    assert_eq!((moment.spans.len(), open.len()), (1, 3), "the outermost is open still");
}

#[test]
fn a_hit_of_a_probe_fires_its_trigger_and_its_return_does_not() {
    let mut scene = scene(false, false);
    let trigger = "probe render if tid = 5".parse().expect("a trigger");
    let limits = Limits { interval: Nanos(0), most: None };
    let mut watch = Watch::new(vec![trigger], limits);
    let catalog = scene.encoder.catalog();
    let extras: Vec<ExtraIndex> = catalog.probes_called("render").collect();
    assert_eq!(extras, [ExtraIndex(CALL)]);
    assert!(catalog.probes_called("nanosleep").next().is_none(), "no probe of a user's");
    let mut names: Vec<&str> = catalog.probe_names().collect();
    names.sort_unstable();
    assert_eq!(names, ["render", "tick"]);
    watch.expect(extras[0], 0);
    scene.encoder.watch_with(watch);
    hit(&mut scene, 1, CALL, 6, ENTERED, &[]);
    hit(&mut scene, 2, CALL, 5, ENTERED, &[]);
    hit(&mut scene, 3, RETURN, 5, LEFT, &[]);
    let watch = scene.encoder.watch().expect("there is one");
    let fired: Vec<_> = watch.take_fired().map(|fired| (fired.time, fired.value)).collect();
    assert_eq!(fired, [(Nanos(2), None)]);
}

#[test]
fn a_call_fires_at_its_return_if_it_took_too_long_and_nothing_was_lost_in_it() {
    let mut scene = scene(false, false);
    let texts = ["probe('render') > 5ns", "probe('render') >= 3ns if tid = 6", "probe render"];
    let triggers = texts.map(|text| text.parse().expect("a trigger")).to_vec();
    let limits = Limits { interval: Nanos(0), most: None };
    let mut watch = Watch::new(triggers, limits);
    watch.expect(ExtraIndex(RETURN), 0);
    watch.expect(ExtraIndex(RETURN), 1);
    scene.encoder.watch_with(watch);
    for (tid, begin, end) in [(5, 1, 6), (6, 10, 13), (5, 20, 26)] {
        hit(&mut scene, begin, CALL, tid, ENTERED, &[]);
        hit(&mut scene, end, RETURN, tid, LEFT, &[]);
    }
    let watch = scene.encoder.watch().expect("there is one");
    let reported = |fired: Fired| {
        let thread = fired.thread.expect("a thread").tid.0;
        (fired.trigger, thread, fired.since.map(|it| it.0), fired.time.0, fired.value)
    };
    let took = |number| Some(Amount { number, dimension: Dimension::Time });
    let fired: Vec<_> = watch.take_fired().map(reported).collect();
    assert_eq!(fired, [(1, 6, Some(10), 13, took(3.0)), (0, 5, Some(20), 26, took(6.0))]);
    hit(&mut scene, 30, CALL, 5, ENTERED, &[]);
    scene.at(35, 0, LOST);
    hit(&mut scene, 90, RETURN, 5, LEFT, &[]);
    hit(&mut scene, 95, RETURN, 5, LEFT, &[]);
    assert_eq!(scene.encoder.watch().expect("there is one").take_fired().count(), 0);
}

#[test]
fn calls_without_samples_become_what_samples_of_them_become() {
    // Call 35 begins and ends, 1 is not requested, 59 never ends, and one end belongs to no call.
    let calls = [(35, None), (35, Some(-4)), (1, None), (1, Some(0)), (59, None), (-1, Some(0))];
    let mut scenes = [true, false].map(|narrow| [(); 2].map(|()| scene(narrow, true)));
    for [samples, calls_only] in &mut scenes {
        for (time, (number, result)) in (100..).zip(calls) {
            for tid in [7, 8] {
                let (number_of_sample, event) = (i64::from(number), result.map_or(ENTER, |_| EXIT));
                let raw = words(&[number_of_sample, result.unwrap_or_default()]);
                hit(samples, time, event, tid, 0, &raw);
                let (extra, tid, is_32_bit) = (ExtraIndex(event), Tid(tid), false);
                let call = Call { extra, tid, number, result, is_32_bit };
                let event = Event { time: Nanos(time), kind: Kind::Call(call) };
                let encoded = calls_only.encoder.event(Nanos(time), Cpu(0), &event, &[]);
                encoded.expect("memory takes every record");
            }
        }
        assert_eq!(samples.encoder.lanes(), calls_only.encoder.lanes());
        assert!(reported(calls_only).iter().any(|line| line.contains("nanosleep")));
        let counts = |scene: &Scene| scene.encoder.stats().probes;
        assert_eq!(counts(samples), counts(calls_only));
    }
}
