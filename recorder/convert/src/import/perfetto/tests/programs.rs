//! Slices, counters, flows and stacks.

use super::*;

const CLEARED: u64 = 1;
const RELIES: u64 = 2;

fn packet(time: u64, sequence: u64, flags: u64) -> Built {
    message().number(8, time).number(10, sequence).number(13, flags)
}

/// An event of kind `kind` on a track.
fn on(track: u64, kind: u64) -> Built {
    message().number(9, kind).number(11, track)
}

fn thread_track(uuid: u64, pid: u64, tid: u64, name: &str) -> Built {
    let thread = message().number(1, pid).number(2, tid).text(5, name);
    message().with(60, message().number(1, uuid).with(4, thread)).number(10, 1)
}

#[test]
fn slices_of_a_thread_have_interned_names_and_arguments() {
    let interned = message()
        .with(1, message().number(1, 4).text(2, "net"))
        .with(2, message().number(1, 5).text(2, "fetch"))
        .with(3, message().number(1, 6).text(2, "url"))
        .with(29, message().number(1, 7).text(2, "a/b"));
    let nested = message()
        .text(10, "extra")
        .with(11, message().text(10, "deep").number(4, u64::MAX))
        .with(12, message().number(3, 9));
    let begin = on(70, 1)
        .number(3, 4)
        .number(10, 5)
        .with(4, message().number(1, 6).number(17, 7))
        .with(4, nested);
    let fxt = converted(&trace([
        thread_track(70, 40, 41, "fetcher"),
        packet(1000, 1, CLEARED).with(12, interned).with(11, begin),
        packet(1100, 1, RELIES).with(11, on(70, 3).number(10, 5).with(55, message())),
        packet(1200, 1, RELIES).with(11, on(70, 2)),
        // Its begin is not in the trace.
        packet(1300, 1, RELIES).with(11, on(70, 2)),
    ]));
    let expected = [
        "1000 begin net:fetch of 40/41 url=\"a/b\" extra.deep=-1 extra[0]=9",
        "1100 instant :fetch of 40/41",
        "1200 end net:fetch of 40/41",
    ];
    assert_eq!(lines(&fxt.0), expected);
    assert_eq!(fxt.1.times("ends of slices whose beginning is missing, left out"), 1);
    assert_eq!(fxt.1.times("stacks of track events, left out"), 1);
    assert!(objects(&fxt.0).contains(&"thread 41 fetcher of 40".to_owned()));
}

#[test]
fn packets_that_rely_on_lost_ones_are_left_out_and_counted() {
    let interned = |name| message().with(2, message().number(1, 5).text(2, name));
    let event = || on(70, 3).number(10, 5);
    let (fxt, report) = converted(&trace([
        thread_track(70, 40, 41, "x"),
        packet(900, 1, RELIES).with(11, event()),
        packet(1000, 1, CLEARED).with(12, interned("first")).with(11, event()),
        packet(1100, 1, RELIES).number(42, 1).with(11, event()),
        packet(1200, 1, CLEARED).with(12, interned("second")).with(11, event()),
    ]));
    assert_eq!(lines(&fxt), ["1000 instant :first of 40/41", "1200 instant :second of 40/41"]);
    assert_eq!(report.times("packets that depend on lost ones, left out"), 2);
}

#[test]
fn tracks_of_no_thread_are_asynchronous_and_counters_have_their_unit() {
    let process = message().number(1, 40).text(6, "shop");
    let fxt = converted(&trace([
        message().with(60, message().number(1, 10).with(3, process)),
        message().with(60, message().number(1, 11).number(5, 10).text(2, "requests")),
        message().with(
            60,
            message()
                .number(1, 12)
                .number(5, 10)
                .text(2, "memory")
                .with(8, message().number(4, 1024)),
        ),
        packet(100, 1, 0).with(11, on(11, 1).text(23, "GET /")),
        packet(150, 1, 0).with(11, on(11, 1).text(23, "lookup")),
        packet(160, 1, 0).with(11, on(12, 4).number(30, 3)),
        packet(170, 1, 0).with(11, on(11, 2)),
        packet(180, 1, 0).with(11, on(11, 2)),
        packet(190, 1, 0).with(11, on(12, 4).fixed(44, 1.5_f64.to_bits())),
    ]))
    .0;
    let expected = [
        "100 async begin 11 :GET / of 40/40",
        "150 async begin 11 :lookup of 40/40",
        "160 counter 0 :memory of 40/40 value=3072",
        "170 async end 11 :lookup of 40/40",
        "180 async end 11 :GET / of 40/40",
        "190 counter 0 :memory of 40/40 value=1.5",
    ];
    assert_eq!(lines(&fxt), expected);
    for name in ["process 40 shop", "thread 40 shop of 40"] {
        assert!(objects(&fxt).contains(&name.to_owned()), "{:?}", objects(&fxt));
    }
}

#[test]
fn flows_lead_from_slice_to_slice_until_they_end() {
    let slice = |track, kind, flow: &[u64]| {
        flow.iter().fold(on(track, kind).text(23, "work"), |event, id| event.fixed(47, *id))
    };
    let fxt = converted(&trace([
        thread_track(70, 40, 41, "a"),
        thread_track(71, 40, 42, "b"),
        packet(100, 1, 0).with(11, slice(70, 1, &[8])),
        packet(200, 1, 0).with(11, slice(71, 1, &[8])),
        packet(300, 1, 0).with(11, on(71, 3).text(23, "done").fixed(48, 8)),
        packet(400, 1, 0).with(11, slice(70, 3, &[8])),
    ]))
    .0;
    let flows: Vec<String> = lines(&fxt).into_iter().filter(|line| line.contains("flow")).collect();
    let expected = [
        "100 flow begin 8 :flow of 40/41",
        "200 flow step 8 :flow of 40/42",
        "300 flow end 8 :flow of 40/42",
        "400 flow begin 8 :flow of 40/41",
    ];
    assert_eq!(flows, expected);
}

#[test]
fn slices_that_repeat_scheduling_are_left_out_where_there_are_switches() {
    // As in wprof: the end repeats the category, and the instants of wakeups have flows to the slice.
    let slice = |kind, category| on(70, kind).text(22, category);
    let packets = [
        thread_track(70, 40, 41, "worker"),
        packet(90, 1, 0).with(11, slice(3, "WAKEE").text(23, "WAKEE").fixed(47, 80)),
        packet(100, 1, 0).with(11, slice(1, "ONCPU").text(23, "worker").fixed(47, 80)),
        packet(110, 1, 0).with(11, slice(1, "UTRACE").text(23, "parse")),
        packet(150, 1, 0).with(11, slice(2, "UTRACE")),
        packet(200, 1, 0).with(11, slice(2, "ONCPU")),
    ];
    let others = [
        "90 instant WAKEE:WAKEE of 40/41",
        "90 flow begin 80 WAKEE:flow of 40/41",
        "110 begin UTRACE:parse of 40/41",
        "150 end UTRACE:parse of 40/41",
    ];
    let switch = switch(100, ("swapper/0", 0, 120), 0, ("worker", 41, 120));
    let (fxt, report) = converted(&trace(packets.clone().into_iter().chain([bundle(0, [switch])])));
    let found: Vec<String> = lines(&fxt).into_iter().filter(|line| line.contains('/')).collect();
    assert_eq!(found, others);
    assert_eq!(report.times("slices that repeat scheduling, left out"), 1);
    // Without switches, these are the only scheduling data of the trace.
    let found = lines(&converted(&trace(packets)).0);
    assert_eq!(found.len(), others.len() + 3, "{found:?}");
    for line in ["100 begin ONCPU:worker of 40/41", "200 end ONCPU:worker of 40/41"] {
        assert!(found.iter().any(|it| it == line), "{line} in {found:?}");
    }
}

#[test]
fn counters_that_tell_differences_are_summed_up_on_each_track() {
    let counter = |uuid, name, factor| {
        let unit = message().number(4, factor).number(5, 1);
        let track = message().number(1, uuid).text(2, name).with(8, unit);
        message().with(60, track)
    };
    let count = |time, track, value: i64| {
        packet(time, 1, 0).with(11, on(track, 4).number(30, value.cast_unsigned()))
    };
    let fxt = converted(&trace([
        counter(12, "bytes", 8),
        counter(13, "items", 1),
        count(100, 12, 5),
        count(110, 13, 7),
        count(120, 12, -2),
        count(130, 13, 1),
        // An event's values for other tracks belong to those tracks.
        packet(140, 1, 0).with(11, on(13, 4).number(30, 2).numbers(31, &[12]).numbers(12, &[1])),
    ]))
    .0;
    let expected = [
        "100 counter 0 :bytes of 0/0 value=40",
        "110 counter 0 :items of 0/0 value=7",
        "120 counter 0 :bytes of 0/0 value=24",
        "130 counter 0 :items of 0/0 value=8",
        "140 counter 0 :items of 0/0 value=10",
        "140 counter 0 :bytes of 0/0 value=32",
    ];
    assert_eq!(lines(&fxt), expected);
}

#[test]
fn what_android_prints_becomes_spans_and_counters() {
    let print = |time, text| event(time, 41, 0, 3, message().text(2, text));
    let fxt = converted(&trace([bundle(
        0,
        [
            print(100, "B|40|draw|frame\n"),
            print(150, "C|40|queued|-2\n"),
            print(160, "S|40|load|7\n"),
            print(200, "E|40\n"),
            print(250, "F|40|load|7\n"),
            print(300, "hello|world\n"),
        ],
    )]))
    .0;
    let found: Vec<String> = lines(&fxt)
        .into_iter()
        .map(|line| {
            line.split(' ')
                .filter(|word| word.parse::<u64>().is_ok_and(|id| id > 1_000_000).eq(&false))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let expected = [
        "100 begin atrace:draw|frame of 41/41",
        "150 counter 0 atrace:queued of 40/40 value=-2",
        "160 async begin atrace:load of 40/40",
        "200 end atrace:draw|frame of 41/41",
        "250 async end atrace:load of 40/40",
        "300 instant ftrace:hello|world of 41/41",
    ];
    assert_eq!(found, expected);
}

#[test]
fn stacks_have_their_functions_from_the_innermost_on_and_files() {
    let text = |number, text| message().number(1, number).text(2, text);
    let frame = |number, function, mapping, address| {
        message().number(1, number).number(2, function).number(3, mapping).number(4, address)
    };
    let interned = message()
        .with(5, text(1, "main"))
        .with(5, text(2, "work"))
        .with(5, text(3, "do_syscall_64"))
        .with(17, text(1, "usr/bin/app"))
        .with(17, text(2, "[kernel.kallsyms]"))
        .with(19, message().number(1, 1).number(7, 1))
        .with(19, message().number(1, 2).number(7, 2))
        .with(6, frame(1, 1, 1, 0x1000))
        .with(6, frame(2, 2, 1, 0x2000))
        // Inlined functions have the same position.
        .with(6, frame(3, 1, 1, 0x2000))
        .with(6, frame(4, 3, 2, 0x30))
        .with(7, message().number(1, 9).numbers(2, &[1, 3, 2, 4]));
    let sample = message().number(2, 40).number(3, 41).number(4, 9);
    let fxt = converted(&trace([packet(500, 1, CLEARED).with(12, interned).with(66, sample)])).0;
    let mut reader = Reader::from_slice(&fxt);
    let (mut found, mut names, mut files) =
        (Vec::new(), std::collections::HashMap::new(), Vec::new());
    while let Some(item) = reader.next().expect("a sound trace") {
        match item.record {
            Record::Backtrace(it) => {
                assert_eq!((it.time.0, it.thread.thread.0, it.flags), (500, 41, 2 << 8));
                found = it.frames.iter().collect();
            }
            Record::UserspaceObject(it) => {
                names.insert(it.pointer, format!("{} {}", it.process.0, it.name));
            }
            Record::Module(it) => files.push((it.process.0, it.name.to_owned())),
            _ => {}
        }
    }
    let found: Vec<&str> = found.iter().map(|address| &*names[address]).collect();
    assert_eq!(found, ["0 do_syscall_64", "40 work", "40 main", "40 main"]);
    assert_eq!(files, [(40, "usr/bin/app".to_owned())]);
}

#[test]
fn stack_samples_are_of_what_their_writer_says_and_else_of_a_cpu() {
    let text = |number, text| message().number(1, number).text(2, text);
    let task = |pid, tid| message().number(2, pid).number(3, tid);
    let interned = || {
        message()
            .with(5, text(1, "main"))
            .with(5, text(2, "poll"))
            .with(6, message().number(1, 1).number(2, 1))
            .with(6, message().number(1, 2).number(2, 2))
            .with(7, message().number(1, 9).numbers(2, &[1, 2]))
            .with(48, task(40, 42).number(1, 6))
    };
    let begin = |sequence, source| {
        let packet = packet(0, sequence, CLEARED).with(12, interned());
        match source {
            "" => packet,
            source => packet.with(59, message().with(100, message().text(1, source))),
        }
    };
    let sample = |time, sequence, sample| packet(time, sequence, RELIES).with(135, sample);
    let of_stack = || message().number(6, 9);
    let (fxt, report) = converted(&trace([
        begin(1, "fxtrec.offcpu"),
        begin(2, "fxtrec.wake"),
        begin(3, ""),
        sample(500, 1, of_stack().with(1, task(40, 41)).number(11, 7000)),
        sample(600, 2, of_stack().number(2, 6)),
        sample(700, 3, of_stack().number(2, 6).text(7, "no frame pointer")),
        // Neither a thread nor an interned stack.
        sample(800, 3, of_stack().number(2, 99)),
        sample(900, 3, message().number(2, 6).number(6, 99)),
    ]));
    let expected = ["500 41 0: poll main", "600 42 1: poll main", "700 42 2: poll main"];
    assert_eq!(super::back::stacks(&fxt), expected);
    assert_eq!(report.times("samples without a time, a thread or a stack, left out"), 2);
}

#[test]
fn the_older_events_of_chrome_are_slices_and_operations_of_their_thread() {
    let main = message().number(1, 40).number(2, 41).text(5, "main");
    let old = |time, phase: u8, name, rest: Built| {
        let event = message().text(23, name).with(6, rest.number(2, phase.into()));
        packet(time, 1, RELIES).with(11, event)
    };
    let fxt = converted(&trace([
        packet(0, 1, CLEARED).with(44, main),
        old(100, b'X', "load", message().number(3, 5)),
        old(200, b'B', "parse", message()),
        old(300, b'E', "", message()),
        old(400, b'b', "fetch", message().number(10, 77)),
        old(500, b'e', "fetch", message().number(10, 77)),
        // For a thread other than the writer.
        old(600, b'I', "done", message().number(18, 40).number(19, 42)),
    ]))
    .0;
    let found = lines(&fxt);
    assert!(found[0].starts_with("100 until ") && found[0].contains("5100"), "{found:?}");
    let expected = [
        "200 begin :parse of 40/41",
        "300 end :parse of 40/41",
        "400 async begin 77 :fetch of 40/41",
        "500 async end 77 :fetch of 40/41",
        "600 instant :done of 40/42",
    ];
    assert_eq!(found[1..], expected);
}
