//! Several recordings in one archive.

use std::path::PathBuf;

use fxt_reader::Reader;
use fxt_writer::record::{Event, EventKind, KernelObject, ObjectType, Wakeup};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, Writer};

use super::*;
use crate::merge::{How, Source, merge};

/// A recording on a machine whose clock is this far behind the wall clock: thread 7, called `name`, is woken on CPU 0 at each of the times.
fn recording(name: &str, wall_clock: Option<i64>, times: &[u64]) -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start(name, 1_000_000_000).expect("room");
    let thread = (Koid(7), Koid(7));
    if let Some(offset) = wall_clock {
        let args = [("wall_clock_offset_ns", Value::int(offset))];
        let time = Ticks(times[0]);
        trace.instant(time, thread, "fxtrec", "trace_info", &args).expect("room");
        trace.instant(time, thread, "fxtrec", "clock_change", &args).expect("room");
    }
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(7)))];
    let text = Text::Inline(name);
    let kind = ObjectType::Thread;
    trace
        .write(&KernelObject { object_type: kind, koid: Koid(7), name: text, args: &process })
        .expect("room");
    for &time in times {
        let wakeup = Wakeup { cpu: 0, time: Ticks(time), thread: Koid(7), args: &[] };
        trace.write(&wakeup).expect("room");
    }
    trace.into_inner()
}

/// The content of these recordings' archive: times, providers, names and CPUs of the wakeups.
fn merged(
    recordings: &[(Vec<u8>, Option<i64>)],
    same_machine: bool,
) -> Result<Vec<(u64, u32, String, u16)>, ConvertError> {
    merged_with(recordings, same_machine, true)
}

/// The same, if an offset shows that a wall clock was wrong.
fn merged_at(
    recordings: &[(Vec<u8>, Option<i64>)],
    same_machine: bool,
) -> Result<Vec<(u64, u32, String, u16)>, ConvertError> {
    merged_with(recordings, same_machine, false)
}

fn merged_with(
    recordings: &[(Vec<u8>, Option<i64>)],
    same_machine: bool,
    keeps_wall_clock: bool,
) -> Result<Vec<(u64, u32, String, u16)>, ConvertError> {
    let folder = tempfile::tempdir().expect("a folder");
    let sources: Vec<Source> = recordings
        .iter()
        .enumerate()
        .map(|(at, (bytes, offset))| {
            let path: PathBuf = folder.path().join(format!("{at}.fxt"));
            std::fs::write(&path, bytes).expect("room");
            Source { path, offset: *offset }
        })
        .collect();
    let mut out = Vec::new();
    merge(&sources, &How { same_machine, ..How::default() }, &mut out)?;
    let mut reader = Reader::from_slice(&out);
    let mut names = std::collections::HashMap::new();
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        match item.record {
            fxt_reader::Record::KernelObject(object) => {
                assert_eq!(object.process(), Some(object.koid), "koids in arguments as well");
                names.insert(object.koid, object.name.to_owned());
            }
            fxt_reader::Record::Wakeup(wakeup) => {
                let provider = item.provider.expect("a provider").0;
                found.push((wakeup.time.0, provider, names[&wakeup.koid].clone(), wakeup.cpu.0));
            }
            fxt_reader::Record::Event(event) if keeps_wall_clock => {
                // The wall clock is the same, regardless of how the clock was shifted.
                let value = event.args.get("wall_clock_offset_ns").expect("an offset");
                let offset: u64 = value.to_string().parse().expect("a number");
                assert_eq!((event.time.0 + offset) / 1000, 10, "{event:?}");
            }
            _ => {}
        }
    }
    assert!(reader.summary().is_complete());
    Ok(found)
}

fn expected(list: &[(u64, u32, &str, u16)]) -> Vec<(u64, u32, String, u16)> {
    list.iter().map(|(time, id, name, cpu)| (*time, *id, (*name).to_owned(), *cpu)).collect()
}

#[test]
fn clocks_are_aligned_and_threads_and_cpus_kept_apart() {
    let one = recording("one", Some(10_000), &[100, 300, 500]);
    let two = recording("two", Some(9_000), &[1_200, 1_400]);
    assert_eq!(
        merged(&[(one, None), (two, None)], false).expect("merged"),
        expected(&[
            (100, 1, "one", 0),
            (200, 2, "two", 1),
            (300, 1, "one", 0),
            (400, 2, "two", 1),
            (500, 1, "one", 0)
        ])
    );
}

#[test]
fn an_offset_is_better_than_the_wall_clock_and_no_time_is_below_zero() {
    let one = recording("one", None, &[100, 300]);
    let two = recording("two", None, &[250]);
    assert_eq!(
        merged(&[(one.clone(), None), (two.clone(), Some(50))], false).expect("merged"),
        expected(&[(100, 1, "one", 0), (200, 2, "two", 1), (300, 1, "one", 0)])
    );
    // 250 on a clock that is 1000 ahead is 750 before the zero of the other clock.
    assert_eq!(
        merged(&[(one, None), (two, Some(1_000))], false).expect("merged"),
        expected(&[(0, 2, "two", 1), (850, 1, "one", 0), (1_050, 1, "one", 0)])
    );
}

#[test]
fn an_offset_corrects_the_wall_clocks_where_both_are_known() {
    let one = recording("one", Some(10_000), &[100, 300]);
    // By the wall clocks, 1200 is 200 in the first recording; the wall clock of the second was 40 ahead.
    let two = recording("two", Some(9_000), &[1_200]);
    let sources = |offset| [(one.clone(), None), (two.clone(), Some(offset))];
    let times = |offset, same_machine| {
        let found = merged_at(&sources(offset), same_machine).expect("merged");
        found.into_iter().map(|(time, ..)| time).collect::<Vec<_>>()
    };
    assert_eq!(times(40, false), [100, 160, 300]);
    assert_eq!(times(0, false), [100, 200, 300]);
    // One machine has one wall clock.
    assert_eq!(times(1_050, true), [100, 150, 300]);
}

#[test]
fn a_message_that_would_arrive_before_it_was_sent_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let recordings = [
        recording_with_flows(0, &[(1_000, 1)], &[]),
        recording_with_flows(50_000, &[], &[(1_040, 1)]),
    ];
    let sources = |offset| {
        let source = |at: usize| {
            let path = folder.path().join(format!("{at}.fxt"));
            std::fs::write(&path, &recordings[at]).expect("room");
            Source { path, offset: (at > 0).then_some(offset) }
        };
        [source(0), source(1)]
    };
    // The message took 40.
    for offset in [49_000, 50_040] {
        merge(&sources(offset), &How::default(), &mut Vec::new()).expect("it arrives later");
    }
    let error = merge(&sources(50_041), &How::default(), &mut Vec::new()).expect_err("reversed");
    let ConvertError::Reversed { sender, receiver, early } = error else { panic!("{error}") };
    assert!(sender.ends_with("0.fxt") && receiver.ends_with("1.fxt"));
    assert_eq!(early, "0.000000001 s");
}

#[test]
fn wall_clocks_that_messages_contradict_are_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let with_wall = |wall: i64, begins, ends| {
        let mut trace = recording("one", Some(wall), &[1]);
        trace.extend(recording_with_flows(0, begins, ends));
        trace
    };
    let notes = |wall, offset: Option<i64>| {
        let recordings = [
            with_wall(0, &[(1_000, 1)], &[(1_900, 2)]),
            with_wall(wall, &[(1_800, 2)], &[(1_040, 1)]),
        ];
        let sources = [0, 1].map(|at| {
            let path = folder.path().join(format!("{at}.fxt"));
            std::fs::write(&path, &recordings[at]).expect("room");
            Source { path, offset: offset.filter(|_| at == 1) }
        });
        let sync = offset.is_none().then_some(crate::sync::Messages::Flows);
        let how = How { sync, ..How::default() };
        merge(&sources, &how, &mut Vec::new()).expect("messages both ways").notes().to_vec()
    };
    // Messages permit -100 to 40: the middle is 30 below the true offset, and wrong by at most 70.
    assert_eq!(notes(30, None).len(), 1);
    let warned = notes(-5_000, None);
    assert!(
        warned[1].contains("warning: the wall clocks differ from that by 0.000005030 s"),
        "{warned:?}"
    );
    assert!(
        warned[1].ends_with("; without --sync, --offset=-0.00000503s corrects them"),
        "{warned:?}"
    );
    // With that offset, the clock is as far behind as by the messages.
    let corrected = notes(-5_000, Some(-5_030));
    let clock = |notes: &[String]| notes[0].split_once("'s").expect("the clock").0.to_owned();
    assert_eq!(clock(&corrected), clock(&warned));
}

#[test]
fn threads_of_several_hosts_keep_their_ids_and_processes_tell_the_host() {
    let of_host = |host: &str| {
        let mut trace = Writer::new(Vec::new());
        trace.start("fxtrec", 1_000_000_000).expect("room");
        let args =
            [("wall_clock_offset_ns", Value::int(5_i64)), ("host", Value::Str(Text::Inline(host)))];
        let thread = (Koid(7), Koid(7));
        trace.instant(Ticks(10), thread, "fxtrec", "trace_info", &args).expect("room");
        for koid in [Koid(7), Koid(7 + (1 << 22))] {
            let (object_type, name) = (ObjectType::Process, Text::Inline("app"));
            trace.write(&KernelObject { object_type, koid, name, args: &[] }).expect("room");
        }
        let wakeup = Wakeup { cpu: 2, time: Ticks(20), thread: Koid(7), args: &[] };
        trace.write(&wakeup).expect("room");
        trace.into_inner()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let sources = ["a", "b"].map(|host| {
        let path = folder.path().join(host);
        std::fs::write(&path, of_host(host)).expect("room");
        Source { path, offset: None }
    });
    let mut out = Vec::new();
    merge(&sources, &How::default(), &mut out).expect("merged");
    let mut reader = Reader::from_slice(&out);
    let (mut found, mut cpus) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next().expect("sound") {
        match item.record {
            fxt_reader::Record::KernelObject(object) => {
                found.push((object.args.str("host").expect("a host").to_owned(), object.koid.0));
            }
            fxt_reader::Record::Event(event) if event.name == "host_cpus" => {
                let first = event.args.get("first_cpu").expect("a number").to_string();
                cpus.push((event.args.str("host").expect("a host").to_owned(), first));
            }
            _ => {}
        }
    }
    assert_eq!(cpus, [("a".to_owned(), "0".to_owned()), ("b".to_owned(), "3".to_owned())]);
    let koids: std::collections::BTreeSet<u64> = found.iter().map(|(_, koid)| *koid).collect();
    assert_eq!(koids.len(), 4, "{found:?}");
    assert!(found.iter().all(|(_, koid)| koid & ((1 << 22) - 1) == 7), "{found:?}");
    let hosts: Vec<&str> = found.iter().map(|(host, _)| &**host).collect();
    assert_eq!(hosts, ["a", "a", "b", "b"]);
}

#[test]
fn on_one_machine_equal_ids_are_the_same() {
    let one = recording("one", None, &[100]);
    let two = recording("one", None, &[200]);
    let found = merged(&[(one, None), (two, Some(0))], true).expect("merged");
    assert_eq!(found, expected(&[(100, 1, "one", 0), (200, 2, "one", 0)]));
}

#[test]
fn without_any_clock_the_file_is_named() {
    let one = recording("one", Some(10_000), &[100]);
    let two = recording("two", None, &[200]);
    let error = merged(&[(one, None), (two, None)], false).expect_err("no clock");
    assert!(error.to_string().contains("1.fxt has no wall-clock offset"), "{error}");
}

/// A recording in which process 7 has a backtrace in its module 1, whose name is that of the recording.
fn recording_with_stack(name: &str) -> Vec<u8> {
    use fxt_writer::record::{Backtrace, Mapping, Module, ProcessName};
    let mut trace = Writer::new(recording(name, Some(9990), &[10]));
    let (time, process, start) = (Ticks(11), ProcessName::Inline(Koid(7)), 0x1000);
    trace.write(&Module { time, process, id: 1, name, build_id: &[] }).expect("room");
    let (module, flags, length, module_address) = (1, 5, 0x1000, 0);
    let mapping = Mapping { time, process, module, flags, start, length, module_address };
    trace.write(&mapping).expect("room");
    let thread = fxt_writer::ThreadName::Inline { process: Koid(7), thread: Koid(7) };
    trace.write(&Backtrace { time, thread, flags: 0, frames: &[0x1010] }).expect("room");
    trace.into_inner()
}

#[test]
fn modules_of_different_recordings_have_different_numbers_or_processes() {
    use fxt_reader::Record;
    let folder = tempfile::tempdir().expect("a folder");
    let sources: Vec<Source> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let path: PathBuf = folder.path().join(name);
            std::fs::write(&path, recording_with_stack(name)).expect("room");
            Source { path, offset: None }
        })
        .collect();
    let merged = |same_machine| {
        let mut out = Vec::new();
        merge(&sources, &How { same_machine, ..How::default() }, &mut out).expect("a clock each");
        let mut reader = Reader::from_slice(&out);
        let (mut modules, mut mappings, mut stacks) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(item) = reader.next().expect("sound") {
            match item.record {
                Record::Module(module) => {
                    modules.push((module.process.0, module.id, module.name.to_owned()));
                }
                Record::Mapping(mapping) => mappings.push((mapping.process.0, mapping.module)),
                Record::Backtrace(backtrace) => {
                    assert!(backtrace.frames.iter().eq([0x1010]));
                    stacks.push(backtrace.thread.process.0);
                }
                _ => {}
            }
        }
        let numbers: Vec<(u64, u16)> = modules.iter().map(|(koid, id, _)| (*koid, *id)).collect();
        assert_eq!(numbers, mappings);
        assert!(numbers.iter().map(|(koid, _)| *koid).eq(stacks));
        modules
    };
    let named = |koids: [u64; 3], ids: [u16; 3]| {
        let names = ["a", "b", "c"].map(str::to_owned);
        koids.into_iter().zip(ids).zip(names).map(|((koid, id), name)| (koid, id, name))
    };
    assert!(merged(true).into_iter().eq(named([7; 3], [1, 0, 2])));
    assert!(merged(false).into_iter().eq(named([7, 7 + (1 << 22), 7 + (2 << 22)], [1; 3])));
}

/// A recording whose clock is this far ahead, with the ends of flows at these times of a common clock.
fn recording_with_flows(ahead: u64, begins: &[(u64, u64)], ends: &[(u64, u64)]) -> Vec<u8> {
    use fxt_writer::record::{Event, EventKind};
    let mut trace = Writer::new(recording("one", None, &[ahead + 1]));
    let thread = fxt_writer::ThreadName::Inline { process: Koid(7), thread: Koid(7) };
    let (category, name) = (Text::Inline("net"), Text::Inline("message"));
    let kinds = begins.iter().map(|&(time, id)| (time, EventKind::FlowBegin { id }));
    let kinds = kinds.chain(ends.iter().map(|&(time, id)| (time, EventKind::FlowEnd { id })));
    for (time, kind) in kinds {
        let time = Ticks(ahead + time);
        trace.write(&Event { kind, time, thread, category, name, args: &[] }).expect("room");
    }
    trace.into_inner()
}

#[test]
fn messages_between_three_recordings_set_their_clocks_within_a_bound() {
    use crate::sync::Messages;
    let folder = tempfile::tempdir().expect("a folder");
    // The third has no message to or from the first.
    let recordings = [
        recording_with_flows(0, &[(1_000, 1)], &[(1_900, 2)]),
        recording_with_flows(50_000, &[(1_800, 2), (2_000, 3)], &[(1_040, 1), (2_300, 4)]),
        recording_with_flows(7, &[(2_200, 4)], &[(2_060, 3)]),
    ];
    let sources: Vec<Source> = (0..3)
        .map(|at| {
            let path = folder.path().join(format!("{at}.fxt"));
            std::fs::write(&path, &recordings[at]).expect("room");
            Source { path, offset: None }
        })
        .collect();
    let how = How { sync: Some(Messages::Flows), ..How::default() };
    let mut out = Vec::new();
    let report = merge(&sources, &how, &mut out).expect("messages both ways");
    let [second, third, ..] = report.notes() else { panic!("{report}") };
    // 40 forth and 100 back: the middle is 30 below the true offset, within the stated 70.
    assert!(second.contains("clock 0.000049970 s ahead"), "{second}");
    assert!(second.contains("wrong by at most 0.000000070 s: 1 message from"), "{second}");
    assert!(third.contains("wrong by at most 0.000000150 s"), "{third}");
    let mut reader = Reader::from_slice(&out);
    let mut wakeups = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let fxt_reader::Record::Wakeup(wakeup) = item.record {
            wakeups.push(wakeup.time.0);
        }
    }
    let spread = wakeups.iter().max().expect("three") - wakeups.iter().min().expect("three");
    assert!(wakeups.len() == 3 && spread <= 150, "{wakeups:?}");
    let flows = Messages::Events { send: "a".into(), receive: "b".into(), keys: vec!["c".into()] };
    let error = merge(&sources, &How { sync: Some(flows), ..how }, &mut Vec::new());
    assert!(error.expect_err("no such events").to_string().contains("both ways"));
}

#[test]
fn the_slowest_request_is_named_with_the_commands_that_explain_it() {
    use crate::sync::Messages;
    let folder = tempfile::tempdir().expect("a folder");
    // Three requests of 50, 900 and 70 ns; the server's clock is a second ahead.
    let exchanges: [(u64, [u64; 4]); 3] = [
        (1, [1000, 1010, 1040, 1050]),
        (2, [2000, 2020, 2880, 2900]),
        (3, [3000, 3010, 3060, 3070]),
    ];
    let write = |host: &str, ahead: u64, ends: [(&'static str, usize); 2]| {
        let mut trace = Writer::new(recording("one", None, &[ahead + 1]));
        let thread = (Koid(7), Koid(7));
        let info = [("host", Value::Str(Text::Inline(host)))];
        trace.instant(Ticks(ahead + 1), thread, "fxtrec", "trace_info", &info).expect("room");
        for (id, times) in exchanges {
            for (name, at) in ends {
                let (time, args) = (Ticks(ahead + times[at]), [("id", Value::uint(id))]);
                trace.instant(time, thread, "probe", name, &args).expect("room");
            }
        }
        let path = folder.path().join(format!("{host}.fxt"));
        std::fs::write(&path, trace.into_inner()).expect("room");
        Source { path, offset: None }
    };
    let sources = [
        write("web", 0, [("sent", 0), ("received", 3)]),
        write("db", 1_000_000_000, [("received", 1), ("sent", 2)]),
    ];
    let (send, receive) = ("sent".to_owned(), "received".to_owned());
    let sync = Some(Messages::Events { send, receive, keys: vec!["id".to_owned()] });
    let how = How { sync, ..How::default() };
    let report = merge(&sources, &how, &mut Vec::new()).expect("messages both ways");
    let [_, slowest, client, server] = report.notes() else { panic!("{report}") };
    assert_eq!(slowest, "slowest of 3 requests: id=2 took 900 ns, the median 70 ns");
    let why = "  fxtrec why FILE --thread 7";
    assert_eq!(*client, format!("{why}@web --from 0.000002000 --to 0.000002900"));
    assert_eq!(*server, format!("{why}@db --from 0.000002020 --to 0.000002880"));
}

/// Ids of operations and flows, by provider: kind, name and id.
fn ids(archive: &[u8]) -> Vec<(u32, &'static str, u64)> {
    use fxt_reader::record::EventKind;
    let mut reader = Reader::from_slice(archive);
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        let fxt_reader::Record::Event(event) = item.record else { continue };
        let what = match event.kind {
            EventKind::AsyncBegin { .. } => "begin",
            EventKind::AsyncEnd { .. } => "end",
            EventKind::FlowBegin { .. } => "send",
            EventKind::FlowEnd { .. } => "receive",
            _ => continue,
        };
        found.push((item.provider.expect("one").0, what, event.kind.id().expect("an id")));
    }
    found.sort();
    found
}

#[test]
fn ids_that_begin_in_two_recordings_are_distinguished_and_messages_between_them_kept() {
    let own = |name: &str, kinds: &[EventKind]| {
        let mut trace = Writer::new(recording(name, None, &[1]));
        let thread = fxt_writer::ThreadName::Inline { process: Koid(7), thread: Koid(7) };
        let (category, name) = (Text::Inline("app"), Text::Inline("work"));
        for (time, kind) in (2..).map(Ticks).zip(kinds.iter().copied()) {
            let event = Event { kind, time, thread, category, name, args: &[] };
            trace.write(&event).expect("room");
        }
        trace.into_inner()
    };
    let operation = [EventKind::AsyncBegin { id: 1 }, EventKind::AsyncEnd { id: 1 }];
    let flow = [EventKind::FlowBegin { id: 1 }, EventKind::FlowEnd { id: 1 }];
    let one = own("one", &[&operation[..], &flow, &[EventKind::FlowBegin { id: 5 }]].concat());
    let two = own("two", &[&operation[..], &flow, &[EventKind::FlowEnd { id: 5 }]].concat());
    let archive = |same_machine| {
        let folder = tempfile::tempdir().expect("a folder");
        let sources: Vec<Source> = [&one, &two]
            .into_iter()
            .enumerate()
            .map(|(at, bytes)| {
                let path = folder.path().join(format!("{at}.fxt"));
                std::fs::write(&path, bytes).expect("room");
                Source { path, offset: Some(0) }
            })
            .collect();
        let mut out = Vec::new();
        merge(&sources, &How { same_machine, ..How::default() }, &mut out).expect("merged");
        ids(&out)
    };
    let found = archive(false);
    let id = |provider, what, own: bool| {
        let is_it = |it: &&(u32, &str, u64)| (it.0, it.1, it.2 == 5) == (provider, what, !own);
        found.iter().find(is_it).expect("it is there").2
    };
    assert_eq!(id(1, "begin", true), 1, "the first keeps its ids");
    assert_eq!((id(1, "send", true), id(1, "receive", true)), (1, 1));
    assert_ne!(id(2, "begin", true), 1);
    assert_eq!(id(2, "begin", true), id(2, "end", true));
    assert_eq!(id(2, "send", true), id(2, "receive", true));
    assert_eq!((id(1, "send", false), id(2, "receive", false)), (5, 5), "a message between them");
    assert!(archive(true).iter().all(|(_, _, id)| *id == 1 || *id == 5), "of one machine");
}

#[test]
fn local_ids_of_json_stay_local_in_an_archive() {
    let json = r#"[
        {"ph":"b","cat":"c","name":"a","id2":{"local":"0x1"},"pid":7,"tid":7,"ts":1},
        {"ph":"e","cat":"c","name":"a","id2":{"local":"0x1"},"pid":7,"tid":7,"ts":2},
        {"ph":"s","cat":"c","name":"f","id2":{"local":"0x1"},"pid":7,"tid":7,"ts":3},
        {"ph":"f","cat":"c","name":"f","id2":{"local":"0x1"},"pid":7,"tid":7,"ts":4,"bp":"e"}]"#;
    let fxt = to_fxt(json).0;
    let folder = tempfile::tempdir().expect("a folder");
    let sources: Vec<Source> = (0..2)
        .map(|at| {
            let path = folder.path().join(format!("{at}.fxt"));
            std::fs::write(&path, &fxt).expect("room");
            Source { path, offset: Some(0) }
        })
        .collect();
    let mut out = Vec::new();
    merge(&sources, &How::default(), &mut out).expect("merged");
    let found = ids(&out);
    let of =
        |provider, what| found.iter().find(|it| (it.0, it.1) == (provider, what)).expect("one").2;
    assert_ne!(of(1, "begin"), of(2, "begin"));
    assert_ne!(of(1, "send"), of(2, "send"));
    assert_eq!((of(2, "begin"), of(2, "send")), (of(2, "end"), of(2, "receive")));
    // They are not messages between the two.
    let how = How { sync: Some(crate::sync::Messages::Flows), ..How::default() };
    let error = merge(&sources, &how, &mut Vec::new()).expect_err("no message");
    assert!(matches!(error, ConvertError::NoMessages { forth: 0, back: 0, .. }), "{error}");
}

#[test]
fn ids_of_processes_stay_apart_in_json_and_come_back() {
    let mut trace = Writer::new(Vec::new());
    trace.start("apps", 1_000_000_000).expect("room");
    for (time, process) in [(1, 7), (2, 8)] {
        let thread = (Koid(process), Koid(process));
        trace.async_begin(Ticks(time), thread, "c", "work", 5, &[]).expect("room");
        trace.async_end(Ticks(time + 10), thread, "c", "work", 5, &[]).expect("room");
    }
    let trace = trace.into_inner();
    let json = to_json(&trace, Sched::Slices);
    for event in events(&json) {
        assert_eq!(event["id2"], serde_json::json!({"local": "0x5"}), "{event}");
        assert!(event.get("id").is_none(), "{event}");
    }
    let back = records(&to_fxt(&json).0);
    assert_eq!(back, records(&trace));
}
