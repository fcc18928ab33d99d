//! Windows of traces, which are complete traces.

use fxt_reader::check::{Promises, check};
use fxt_reader::record::is_not_recorded;
use fxt_reader::{Nanos, Reader};
use fxt_writer::record::{ContextSwitch, KernelObject, ObjectType, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, Writer};

use super::*;
use crate::cut::{Filter, Window, cut};

const IDLE: i32 = i32::MIN;
const APP: (Koid, Koid) = (Koid(40), Koid(41));

/// Process 40 "app" with thread 41 "worker"; 50 "rival". On CPU 0: 41 from 1, 50 from 5, idle from 7, 41 from 9, idle from 11. 41 has a
/// duration from 2 to 10, a counter at 3, an async operation from 4 on. 60 "late" is woken at 3 and is switched in on CPU 1 at 8.
fn trace() -> Vec<u8> {
    let mut trace = named();
    put_switch(&mut trace, 0, 1, (0, 41));
    trace.duration_begin(Ticks(2), APP, "c", "work", &[]).expect("room");
    let weight = [Arg::new(Text::Inline("weight"), Value::Int32(1024))];
    let wakeup = Wakeup { cpu: 1, time: Ticks(3), thread: Koid(60), args: &weight };
    trace.write(&wakeup).expect("room");
    trace.counter(Ticks(3), APP, "c", "queue", 0, &[("length", 7.into())]).expect("room");
    trace.async_begin(Ticks(4), APP, "c", "request", 9, &[]).expect("room");
    put_switch(&mut trace, 0, 5, (41, 50));
    put_switch(&mut trace, 0, 7, (50, 0));
    put_switch(&mut trace, 1, 8, (0, 60));
    put_switch(&mut trace, 0, 9, (0, 41));
    trace.duration_end(Ticks(10), APP, "c", "work", &[]).expect("room");
    put_switch(&mut trace, 0, 11, (41, 0));
    trace.into_inner()
}

/// A trace with names only.
fn named() -> Writer<Vec<u8>> {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).expect("room");
    for (kind, koid, name, process) in [
        (ObjectType::Process, 40, "app", None),
        (ObjectType::Thread, 41, "worker", Some(40)),
        (ObjectType::Process, 50, "rival", None),
        (ObjectType::Thread, 50, "rival", Some(50)),
        (ObjectType::Process, 60, "late", None),
        (ObjectType::Thread, 60, "late", Some(60)),
        (ObjectType::Process, 0, "idle", None),
        (ObjectType::Thread, 0, "idle", Some(0)),
    ] {
        let process = process.map(|process| ("process", Value::Koid(Koid(process))));
        let cgroup = ("cgroup", Value::Str(Text::Inline("/svc")));
        let args: Vec<_> = process
            .or((name == "app").then_some(cgroup))
            .map(|(name, value)| Arg::new(Text::Inline(name), value))
            .into_iter()
            .collect();
        let name = Text::Inline(name);
        trace
            .write(&KernelObject { object_type: kind, koid: Koid(koid), name, args: &args })
            .expect("room");
    }
    trace
}

fn put_switch(trace: &mut Writer<Vec<u8>>, cpu: u16, time: u64, (outgoing, incoming): (u64, u64)) {
    let weight = |koid| Value::Int32(if koid == 0 { IDLE } else { 1024 });
    let args = [
        Arg::new(Text::Inline("incoming_weight"), weight(incoming)),
        Arg::new(Text::Inline("outgoing_weight"), weight(outgoing)),
    ];
    let (outgoing, incoming) = (Koid(outgoing), Koid(incoming));
    let outgoing_state = ThreadState::Blocked;
    let time = Ticks(time);
    trace
        .write(&ContextSwitch { cpu, time, outgoing, incoming, outgoing_state, args: &args })
        .expect("room");
}

fn piece(from: u64, to: u64, filter: Filter) -> Vec<u8> {
    piece_of(&trace(), from, to, filter)
}

fn piece_of(trace: &[u8], from: u64, to: u64, filter: Filter) -> Vec<u8> {
    let window = Window { from: Nanos(from), to: Nanos(to), filter };
    let mut out = Vec::new();
    cut(&mut Reader::from_slice(trace), &window, &mut out).expect("a piece");
    let report = check(&mut Reader::from_slice(&out), Promises::Fxtrec).expect("readable");
    assert!(report.is_sound(), "{:?}", report.findings);
    out
}

#[test]
fn a_loss_that_had_begun_in_the_window_is_reported_at_its_end() {
    let mut trace = named();
    put_switch(&mut trace, 0, 1, (0, 41));
    put_switch(&mut trace, 1, 2, (0, 60));
    put_switch(&mut trace, 0, 5, (41, 50));
    // It is after the window, and the next loss is after it.
    put_switch(&mut trace, 1, 8, (60, 0));
    let number = |name, number: u64| (name, Value::uint(number));
    for (time, name, args) in [
        (9, "lost", [number("cpu", 0), number("count", 17)]),
        (10, "lost", [number("cpu", 1), number("count", 18)]),
        (10, "lost_others", [number("cpu", 1), number("count", 19)]),
        (11, "lost", [number("cpu", 0), number("count", 20)]),
        (11, "lost_records", [number("count", 21), number("during_ns", 6)]),
        (12, "lost_records", [number("count", 22), number("during_ns", 5)]),
    ] {
        trace.instant(Ticks(time), APP, "fxtrec", name, &args).expect("room");
    }
    let trace = trace.into_inner();
    let losses = |to| {
        let piece = piece_of(&trace, 0, to, Filter::default());
        let mut reader = Reader::from_slice(&piece);
        let mut found = Vec::new();
        while let Some(item) = reader.next().expect("sound") {
            if let fxt_reader::Record::Event(event) = item.record {
                let count = event.args.get("count").and_then(fxtrec_sched::unsigned);
                found.push((event.time.0, event.name.to_owned(), count.expect("it is there")));
            }
        }
        found
    };
    let at = |time: u64, name: &str, count: u64| (time, name.to_owned(), count);
    assert_eq!(losses(6), [at(6, "lost", 17), at(6, "lost_records", 21)]);
    let expected = [at(9, "lost", 17), at(9, "lost", 18), at(9, "lost_others", 19)];
    assert_eq!(losses(9)[..3], expected);
    // Both CPUs are unknown since the last loss.
    assert_eq!(losses(20).len(), 6);
}

#[test]
fn a_window_outside_of_the_trace_is_an_error_that_says_where_the_trace_is() {
    for (from, to) in [(12, 20), (u64::MAX, u64::MAX), (0, 0)] {
        let window = Window { from: Nanos(from), to: Nanos(to), filter: Filter::default() };
        let bytes = trace();
        let error = cut(&mut Reader::from_slice(&bytes), &window, &mut Vec::new());
        match error.expect_err("nothing is there") {
            ConvertError::Outside { begin: Nanos(1), end: Nanos(11) } => {}
            error => panic!("{error}"),
        }
    }
    // There are events at either end.
    for (from, to) in [(11, 20), (0, 1)] {
        assert!(!switches(&piece(from, to, Filter::default())).is_empty(), "{from}");
    }
}

/// Switches as (time, CPU, out, in); inferred ones have a mark.
fn switches(piece: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(piece);
    let mut list = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let fxt_reader::Record::ContextSwitch(switch) = item.record {
            let inferred = if switch.args.get("inferred").is_some() { "*" } else { "" };
            let (time, cpu) = (switch.time.0, switch.cpu);
            let name = |koid| match is_not_recorded(koid) {
                true => "?".to_owned(),
                false => koid.to_string(),
            };
            let (outgoing, incoming) = (name(switch.outgoing), name(switch.incoming));
            list.push(format!("{time} cpu{cpu} {outgoing}->{incoming}{inferred}"));
        }
    }
    list
}

#[test]
fn a_window_begins_with_who_runs_and_ends_with_nobody() {
    let piece = piece(6, 10, Filter::default());
    assert_eq!(
        switches(&piece),
        [
            "6 cpu0 0->50*",
            "7 cpu0 50->0",
            "8 cpu1 0->60",
            "9 cpu0 0->41",
            "10 cpu0 41->0*",
            "10 cpu1 60->0*"
        ]
    );
}

#[test]
fn a_thread_that_was_woken_though_it_has_a_cpu_does_not_wait_for_one() {
    let mut trace = Writer::new(trace());
    put_switch(&mut trace, 0, 12, (0, 41));
    for (time, thread) in [(13, 41), (14, 50)] {
        let (time, thread) = (Ticks(time), Koid(thread));
        trace.write(&Wakeup { cpu: 0, time, thread, args: &[] }).expect("room");
    }
    trace.counter(Ticks(20), APP, "c", "queue", 0, &[("length", 7.into())]).expect("room");
    let piece = piece_of(&trace.into_inner(), 15, 30, Filter::default());
    let mut reader = Reader::from_slice(&piece);
    let mut woken = Vec::new();
    while let Some(item) = reader.next().expect("a sound piece") {
        if let fxt_reader::Record::Wakeup(wakeup) = item.record {
            woken.push(wakeup.koid.0);
        }
    }
    assert_eq!(woken, [50]);
}

#[test]
fn a_switch_that_comes_late_and_is_left_out_changes_nobody_in_the_piece() {
    let mut trace = Writer::new(trace());
    put_switch(&mut trace, 0, 12, (0, 41));
    put_switch(&mut trace, 1, 17, (60, 0));
    // It is before the window, and continues into it.
    put_switch(&mut trace, 0, 15, (41, 50));
    put_switch(&mut trace, 0, 18, (50, 0));
    let piece = piece_of(&trace.into_inner(), 16, 20, Filter::default());
    assert_eq!(
        switches(&piece),
        ["16 cpu0 0->41*", "16 cpu1 0->60*", "17 cpu1 60->0", "18 cpu0 41->50*", "18 cpu0 50->0"]
    );
}

#[test]
fn what_is_open_is_written_again() {
    let all = records(&piece(6, 9, Filter::default()));
    let one = |what: &str| {
        let found: Vec<&String> = all.iter().filter(|record| record.contains(what)).collect();
        assert_eq!(found.len(), 1, "{what}: {all:#?}");
        found[0].clone()
    };
    let begin = one("kind: DurationBegin");
    assert!(
        begin.contains("time: Nanos(6)") && begin.contains("\"began_ns\": UInt32(2)"),
        "{begin}"
    );
    assert!(one("kind: DurationEnd").contains("time: Nanos(9)"));
    assert!(one("kind: AsyncBegin").contains("\"cut\": Bool(true)"));
    assert!(one("kind: AsyncEnd { id: 9 }").contains("time: Nanos(9)"));
    assert!(one("kind: Counter").contains("\"length\": Int32(7)"));
    let wakeup = one("Wakeup(");
    assert!(wakeup.contains("time: Nanos(6)") && wakeup.contains("\"inferred\": Bool(true)"));
}

#[test]
fn only_names_that_are_used_are_in_a_piece() {
    let names = |piece: &[u8]| {
        let all = records(piece);
        ["worker", "rival", "late"].map(|name| all.iter().any(|record| record.contains(name)))
    };
    assert_eq!(names(&piece(9, 11, Filter::default())), [true, false, true]);
    assert_eq!(names(&piece(1, 4, Filter::default())), [true, false, true]);
    let app = records(&piece(9, 11, Filter::default()));
    let app = app.iter().find(|record| record.contains("\"app\"")).expect("it is used");
    assert!(app.contains("/svc"), "with its cgroup: {app}");
}

#[test]
fn the_idle_task_has_a_name_though_the_recording_never_gave_it_one() {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).expect("room");
    for koid in [41, 50] {
        let (kind, name) = (ObjectType::Thread, Text::Inline("busy"));
        let args = [Arg::new(Text::Inline("process"), Value::Koid(Koid(koid)))];
        trace
            .write(&KernelObject { object_type: kind, koid: Koid(koid), name, args: &args })
            .expect("room");
    }
    for (time, sides) in [(1, (41, 50)), (5, (50, 41)), (9, (41, 50))] {
        put_switch(&mut trace, 0, time, sides);
    }
    let trace = trace.into_inner();
    for (from, expected) in [
        (2, ["2 cpu0 0->50*", "5 cpu0 50->41", "8 cpu0 41->0*"].as_slice()),
        (0, &["1 cpu0 41->50", "5 cpu0 50->41", "8 cpu0 41->0*"]),
    ] {
        let piece = piece_of(&trace, from, 8, Filter::default());
        assert_eq!(switches(&piece), expected);
        let all = records(&piece);
        let first = |what: &str| all.iter().position(|record| record.contains(what));
        let named = first("koid: Koid(0)");
        assert!(named.is_some() && named < first("ContextSwitch("), "{all:#?}");
    }
}

#[test]
fn a_piece_of_one_process_shows_who_took_its_cpu_until_that_one_leaves() {
    for filter in [
        Filter { comms: vec!["app".to_owned()], ..Filter::default() },
        Filter { comms: vec!["worker".to_owned()], ..Filter::default() },
        Filter { pids: vec![40], ..Filter::default() },
    ] {
        assert_eq!(
            switches(&piece(0, u64::MAX, filter)),
            ["1 cpu0 ?->41", "5 cpu0 41->50", "7 cpu0 50->?", "9 cpu0 ?->41", "11 cpu0 41->0"]
        );
    }
}

#[test]
fn a_window_of_one_process_begins_and_ends_with_what_is_not_recorded() {
    let app = || Filter { pids: vec![40], ..Filter::default() };
    assert_eq!(
        switches(&piece(2, 6, app())),
        ["2 cpu0 ?->41*", "5 cpu0 41->50", "6 cpu0 50->?*"],
        "50 goes out behind the window"
    );
    let six = piece(6, 10, app());
    assert_eq!(switches(&six), ["9 cpu0 ?->41", "10 cpu0 41->?*"], "50 had the CPU before");
    let all = records(&six);
    let of = |what: &str| all.iter().filter(|record| record.contains(what)).count();
    assert_eq!(of("name: \"not recorded\""), 2, "a process and a thread: {all:#?}");
    assert_eq!(of("name: \"idle\""), 0, "{all:#?}");
    let unseen = "\"outgoing_weight\": Int32(0)";
    assert_eq!(of(unseen), 1, "{all:#?}");
    assert!(all.iter().any(|record| record.contains(unseen) && record.contains("Blocked")));
}

#[test]
fn a_piece_of_some_threads_says_so_and_one_of_all_is_as_whole_as_the_trace() {
    let scoped = |scope: Option<&str>| {
        let mut trace = Writer::new(Vec::new());
        trace.start("fxtrec", 1_000_000_000).expect("room");
        let args: Vec<(&str, Value<'_>)> =
            scope.map(|scope| ("scope", scope.into())).into_iter().collect();
        let thread = (Koid(7), Koid(7));
        trace.instant(Ticks(0), thread, "fxtrec", "trace_info", &args).expect("room");
        for koid in [0, 41] {
            let (kind, koid, name) = (ObjectType::Thread, Koid(koid), Text::Inline("one"));
            let args = [Arg::new(Text::Inline("process"), Value::Koid(koid))];
            trace
                .write(&KernelObject { object_type: kind, koid, name, args: &args })
                .expect("room");
        }
        put_switch(&mut trace, 0, 1, (0, 41));
        put_switch(&mut trace, 0, 2, (41, 0));
        trace.into_inner()
    };
    let scope = |trace: &[u8], filter| {
        let all = records(&piece_of(trace, 0, 9, filter));
        let info = all.iter().find(|record| record.contains("trace_info")).expect("an event");
        let scope = info.split_once("\"scope\": Str(\"").map(|(_, rest)| rest);
        scope.and_then(|rest| rest.split_once('"')).map(|(scope, _)| scope.to_owned())
    };
    let some = || Filter { pids: vec![41], ..Filter::default() };
    for (whole, cut) in [(None, "cut"), (Some("all"), "cut"), (Some("app"), "app")] {
        let trace = scoped(whole);
        assert_eq!(scope(&trace, some()).as_deref(), Some(cut), "{whole:?}");
        assert_eq!(scope(&trace, Filter::default()).as_deref(), whole);
    }
}

#[test]
fn a_piece_of_one_cpu_has_the_scheduling_of_no_other() {
    let filter = Filter { cpus: vec![1], ..Filter::default() };
    assert_eq!(switches(&piece(0, u64::MAX, filter)), ["8 cpu1 0->60", "11 cpu1 60->0*"]);
}

/// Modules, mappings and backtraces around the window from 4 to 8. Process 40 has one module that explains a frame in the window, one that
/// explains only earlier frames, and one that is looked up after the window; the kernel is process 0's.
fn trace_with_stacks() -> Vec<u8> {
    use fxt_writer::record::{Backtrace, Mapping, Module, ProcessName};
    let mut trace = Writer::new(trace());
    let over = [("over_ns", fxt_writer::Value::uint(7))];
    let recorder = (Koid(1), Koid(1));
    trace.instant(Ticks(2), recorder, "fxtrec", "stack_info", &over).expect("room");
    let mut put_code = |process: u64, id: u16, time: u64, start: u64| {
        let (process, time) = (ProcessName::Inline(Koid(process)), Ticks(time));
        let name = format!("code {id}");
        trace.write(&Module { time, process, id, name: &name, build_id: &[1, 2] }).expect("room");
        let (module, flags, length, module_address) = (id, 5, 0x1000, 0);
        let mapping = Mapping { time, process, module, flags, start, length, module_address };
        trace.write(&mapping).expect("room");
    };
    put_code(0, 0, 1, 0xffff_ffff_8100_0000);
    put_code(40, 1, 2, 0x1000);
    put_code(40, 2, 2, 0x2000);
    put_code(50, 1, 2, 0x1000);
    for (time, frames) in [
        (3, [0xffff_ffff_8100_0010_u64, 0x2010, 0x1010]),
        (5, [0xffff_ffff_8100_0010, 0x1010, 0x3010]),
        (9, [0xffff_ffff_8100_0010, 0x2010, 0x1010]),
    ] {
        let thread = fxt_writer::ThreadName::Inline { process: Koid(40), thread: Koid(41) };
        let backtrace = Backtrace { time: Ticks(time), thread, flags: 9, frames: &frames };
        trace.write(&backtrace).expect("room");
    }
    let mut put_code = |id: u16, time: u64, start: u64| {
        let (process, time) = (ProcessName::Inline(Koid(40)), Ticks(time));
        trace.write(&Module { time, process, id, name: "late", build_id: &[] }).expect("room");
        let (module, flags, length, module_address) = (id, 5, 0x1000, 0);
        let mapping = Mapping { time, process, module, flags, start, length, module_address };
        trace.write(&mapping).expect("room");
    };
    put_code(3, 10, 0x3000);
    put_code(4, 10, 0x4000);
    trace.into_inner()
}

#[test]
fn a_cut_keeps_the_backtraces_of_its_window_and_the_code_that_they_are_in() {
    use fxt_reader::Record;
    let window = |comm: &[&str]| Window {
        from: Nanos(4),
        to: Nanos(8),
        filter: Filter {
            comms: comm.iter().map(|&name| name.to_owned()).collect(),
            ..Filter::default()
        },
    };
    let piece_of = |window: &Window| {
        let mut piece = Vec::new();
        cut(&mut Reader::from_slice(&trace_with_stacks()), window, &mut piece).expect("cut");
        let report = check(&mut Reader::from_slice(&piece), Promises::Fxtrec).expect("readable");
        assert!(report.is_sound(), "{:?}", report.findings);
        let mut reader = Reader::from_slice(&piece);
        let mut found = Vec::new();
        while let Some(item) = reader.next().expect("sound") {
            match item.record {
                Record::Module(module) => {
                    found.push(format!(
                        "module {} {} {}",
                        module.time.0, module.process, module.name
                    ));
                }
                Record::Mapping(mapping) => {
                    found.push(format!("mapping {} {:#x}", mapping.time.0, mapping.start));
                }
                Record::Backtrace(backtrace) => {
                    assert_eq!((backtrace.flags, backtrace.frames.len()), (9, 3));
                    found.push(format!("backtrace {}", backtrace.time.0));
                }
                Record::Event(event) if event.name == "stack_info" => {
                    let over = event.args.get("over_ns").expect("it says which waits are long");
                    found.push(format!("stack_info {} {over}", event.time.0));
                }
                _ => {}
            }
        }
        found
    };
    let expected = [
        "stack_info 4 7",
        "module 4 0 code 0",
        "mapping 4 0xffffffff81000000",
        "module 4 40 code 1",
        "mapping 4 0x1000",
        "backtrace 5",
        "module 8 40 late",
        "mapping 8 0x3000",
    ];
    assert_eq!(piece_of(&window(&[])), expected);
    assert_eq!(piece_of(&window(&["worker"])), expected);
    assert_eq!(piece_of(&window(&["rival"])), ["stack_info 4 7"]);
}

#[test]
fn json_has_no_place_for_stacks_and_says_so() {
    let (json, report) =
        converted(&trace_with_stacks()[..], Format::Fxt, Format::Json, Options::default())
            .expect("a trace");
    assert_eq!(report.times("stacks, left out"), 3);
    assert_eq!(report.times("modules and mappings of stacks, left out"), 12);
    assert!(!String::from_utf8(json).expect("text").contains("code 1"));
}

/// This many events; each refers to one long string in all of its arguments.
fn referring(events: u64) -> Vec<u8> {
    let mut trace = Writer::new(Vec::new()).with_long_strings();
    trace.start("test", 1_000_000_000).expect("room");
    let long = "x".repeat(32_000);
    let value = Value::Str(trace.text(&long).expect("room"));
    let names: Vec<String> = (0..15).map(|number| format!("arg{number}")).collect();
    let args: Vec<(&str, Value<'_>)> = names.iter().map(|name| (name.as_str(), value)).collect();
    for number in 0..events {
        trace.instant(Ticks(number), APP, "c", "event", &args).expect("room");
    }
    trace.into_inner()
}

#[test]
fn a_piece_refers_to_long_strings_as_the_trace_does() {
    let trace = referring(400);
    let mut piece = Vec::new();
    let window = Window { from: Nanos(0), to: Nanos(399), filter: Filter::default() };
    let report = cut(&mut Reader::from_slice(&trace), &window, &mut piece).expect("cut");
    assert_eq!(report.remarks().next(), None, "nothing is left out");
    assert!(piece.len() < 2 * trace.len(), "{} of {}", piece.len(), trace.len());
    let mut reader = Reader::from_slice(&piece);
    let mut events = 0;
    while let Some(item) = reader.next().expect("sound") {
        events += u64::from(matches!(item.record, fxt_reader::Record::Event(_)));
    }
    assert_eq!(events, 400);
}

#[test]
fn what_refers_to_a_long_string_again_and_again_is_not_written_out_without_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = referring(400);
    let most = (64 << 20) + 256 * trace.len() as u64;
    let mut input = Input::from_bytes(trace).expect("bytes");
    let path = folder.path().join("out.json");
    let output = Output::create(&path, Packing::Plain, &[]).expect("room");
    let mut output = output.bound_by(&input);
    let options = Options::default();
    let result = convert(&mut input, Format::Fxt, &mut output, Format::Json, options);
    let error = result.expect_err("192 MB").to_string();
    assert!(error.contains("more than 256 times as large as the input"), "{error}");
    let written = output.finish().expect("room");
    assert!(written < most + (1 << 20), "{written} of {most}");
}
