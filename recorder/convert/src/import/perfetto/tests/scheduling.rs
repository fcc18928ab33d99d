//! Switches, wakeups, states, names, losses and facts.

use super::*;

/// Threads by name, id and priority.
const IDLE: (&str, u64, u64) = ("swapper/0", 0, 120);
const APP: (&str, u64, u64) = ("app", 101, 100);
const HOG: (&str, u64, u64) = ("hog", 102, 139);

/// Clocks with the monotonic one a second behind the boot-time clock.
fn clocks() -> Built {
    let clock = |id, time| message().number(1, id).number(2, time);
    let snapshot = message()
        .with(1, clock(6, 5_000_000_000))
        .with(1, clock(3, 4_000_000_000))
        .with(1, clock(1, 1_700_000_004_000_000_000));
    message().with(6, snapshot).number(10, 1)
}

#[test]
fn bundles_of_all_cpus_are_merged_and_states_have_the_kernels_letters() {
    let second = |ns: u64| 5_000_000_000 + ns;
    let fxt = converted(&trace([
        clocks(),
        bundle(1, [switch(second(400), IDLE, 0, HOG), switch(second(900), HOG, 0x100, IDLE)]),
        bundle(
            0,
            [
                switch(second(100), APP, 2, IDLE),
                wake((20, second(300)), (0, 0x08), ("app", 101), 0),
                switch(second(350), IDLE, 0, APP),
                switch(second(800), APP, 1, IDLE),
            ],
        ),
    ]))
    .0;
    let expected = [
        "4000000100 cpu 0: 101 blocked -> 0 prev_state=\"D\"",
        "4000000300 cpu 0: 101 woken by an interrupt",
        "4000000350 cpu 0: 0 running -> 101",
        "4000000400 cpu 1: 0 running -> 102",
        "4000000800 cpu 0: 101 blocked -> 0",
        "4000000900 cpu 1: 102 running -> 0 prev_state=\"R+\"",
    ];
    assert_eq!(lines(&fxt), expected);
    let info = info(&fxt);
    for wanted in [
        "source=\"Perfetto trace\"",
        "clock=\"monotonic\"",
        "causes=\"waker\"",
        "wall_clock_offset_ns=1700000000000000000",
    ] {
        assert!(info.iter().any(|arg| arg == wanted), "{wanted} in {info:?}");
    }
}

#[test]
fn compact_bundles_say_the_same_as_plain_ones() {
    // The outgoing thread is the last incoming one: the first switch has only the incoming thread.
    let compact = message()
        .text(5, "app")
        .text(5, "hog")
        .numbers(1, &[1000, 500, 500])
        .numbers(2, &[1, 0x100, 1])
        .numbers(3, &[101, 102, 101])
        .numbers(4, &[100, 139, 100])
        .numbers(6, &[0, 1, 0])
        .numbers(7, &[1600, 100])
        .numbers(8, &[101, 103])
        .numbers(9, &[0, 1])
        .numbers(10, &[100, 120])
        .numbers(11, &[0, 0])
        .numbers(12, &[1, 0x10]);
    let packet = message().with(1, message().number(1, 0).with(4, compact));
    let fxt = converted(&trace([packet])).0;
    let expected = [
        "1500 cpu 0: 101 running -> 102 prev_state=\"R+\"",
        "1600 cpu 0: 101 woken by 102",
        "1700 cpu 1: 103 woken by an interrupt",
        "2000 cpu 0: 102 blocked -> 101",
    ];
    let found = lines(&fxt);
    assert_eq!(found[0], expected[0]);
    assert_eq!(found[1..], expected[2..], "a thread that is awake is not woken");
    assert!(objects(&fxt).contains(&"thread 101 app of 101".to_owned()), "{:?}", objects(&fxt));
}

#[test]
fn a_wake_up_counts_once_and_its_waker_is_who_began_it() {
    // The waker runs on CPU 1; CPU 0 completes the wakeup in an interrupt.
    let both = trace([
        bundle(
            0,
            [
                switch(100, APP, 1, HOG),
                wake((17, 310), (102, 0x08), ("app", 101), 0),
                switch(400, HOG, 0, APP),
            ],
        ),
        bundle(1, [wake((20, 300), (55, 0), ("app", 101), 0)]),
    ]);
    let found = lines(&converted(&both).0);
    assert!(found.contains(&"310 cpu 0: 101 woken by 55".to_owned()), "{found:?}");
    assert_eq!(found.iter().filter(|line| line.contains("woken")).count(), 1);
    // Without flags, it is unknown whether it was an interrupt.
    let body = message().text(1, "app").number(2, 101).number(5, 0);
    let plain = message().number(1, 300).number(2, 55).with(20, body);
    let unknown = trace([bundle(0, [switch(100, APP, 1, HOG)]), bundle(1, [plain])]);
    let found = lines(&converted(&unknown).0);
    assert!(found.contains(&"300 cpu 0: 101 woken by ?".to_owned()), "{found:?}");
}

#[test]
fn a_recorder_that_does_not_say_who_ran_at_a_wake_up_adds_no_switch_and_no_waker() {
    // As in scxtop: the event's thread is the woken one.
    let body = message().text(1, "app").number(2, 101).number(5, 0);
    let waking = message().number(1, 300).number(2, 101).with(20, body);
    let fxt = converted(&trace([bundle(
        0,
        [switch(100, APP, 1, HOG), waking, switch(400, HOG, 0x100, APP)],
    )]))
    .0;
    let expected = [
        "100 cpu 0: 101 blocked -> 102",
        "300 cpu 0: 101 woken by ?",
        "400 cpu 0: 102 running -> 101 prev_state=\"R+\"",
    ];
    assert_eq!(lines(&fxt), expected);

    // As in systing: the wakeups of all CPUs are in the bundle of the first CPU, in packets without a writer.
    let switches = |tids: &[u64]| {
        let columns = message().text(5, "x").numbers(1, &[100, 200]).numbers(2, &[1, 1]);
        columns.numbers(3, tids).numbers(4, &[120, 120]).numbers(6, &[0, 0])
    };
    let wakings = switches(&[0, 101]).numbers(7, &[350]).numbers(8, &[103]).numbers(9, &[1]);
    let wakings = wakings.numbers(10, &[120]).numbers(11, &[0]).numbers(12, &[1]);
    let packet = |cpu, columns| message().with(1, message().number(1, cpu).with(4, columns));
    let others = switches(&[103, 0]);
    let gathered = [packet(0, wakings.clone()), packet(1, others.clone())];
    let reported = |packets: [Built; 2]| {
        let (fxt, report) = converted(&trace(packets));
        let found = lines(&fxt).into_iter().find(|line| line.contains("woken"));
        let causes = info(&fxt).into_iter().any(|arg| arg == "causes=\"waker\"");
        (found, causes, report.notes().len())
    };
    let woken = |by: &str| Some(format!("350 cpu 1: 103 woken by {by}"));
    assert_eq!(reported(gathered.clone()), (woken("?"), false, 1));
    // With a writer, the packets are Perfetto's own, and the CPU is known.
    assert_eq!(reported(gathered.map(|packet| packet.number(10, 1))), (woken("101"), true, 0));
}

#[test]
fn threads_have_the_names_and_processes_that_the_trace_tells_anywhere() {
    let process = |pid, name| message().number(1, pid).text(3, name);
    let thread = |tid, tgid| message().number(1, tid).number(3, tgid);
    let tree = message()
        .with(1, process(100, "/usr/bin/server --fast"))
        .with(2, thread(101, 100))
        .with(2, thread(100, 100));
    // A new thread of that process, and a thread that changes its name.
    let begin = message().number(1, 104).text(2, "app").number(3, 0x10000);
    let rename = message().number(1, 104).text(2, "app").text(3, "loader");
    let fxt = converted(&trace([
        bundle(
            0,
            [
                switch(100, IDLE, 0, APP),
                event(150, 101, 0, 235, begin),
                event(160, 101, 0, 236, rename),
                wake((114, 170), (101, 0), ("loader", 104), 0),
                switch(200, APP, 1, ("loader", 104, 120)),
            ],
        ),
        message().with(2, tree),
    ]))
    .0;
    let objects = objects(&fxt);
    for expected in ["process 100 server", "thread 101 app of 100", "thread 104 loader of 100"] {
        assert!(objects.iter().any(|object| object == expected), "{expected} in {objects:?}");
    }
    assert!(lines(&fxt).contains(&"170 cpu 0: 104 woken by 101".to_owned()));
}

#[test]
fn a_thread_that_the_kernel_frees_late_does_not_end_the_next_one_of_its_number() {
    let named = |tid, name| message().number(1, tid).text(2, name).number(3, 0x10000);
    let free = message().text(1, "first").number(2, 104).number(3, 120);
    let (first, second) = (("first", 104, 120), ("second", 104, 120));
    let (fxt, report) = converted(&trace([bundle(
        0,
        [
            switch(100, IDLE, 0, APP),
            event(110, 101, 0, 235, named(104, "first")),
            wake((114, 111), (101, 0), ("first", 104), 0),
            switch(120, APP, 1, first),
            switch(130, first, 0x10, APP),
            event(140, 101, 0, 235, named(104, "second")),
            wake((114, 141), (101, 0), ("second", 104), 0),
            event(150, 101, 0, 240, free),
            switch(160, APP, 1, second),
            switch(170, second, 1, IDLE),
        ],
    )]));
    const NEXT: u64 = 104 + (1 << 22);
    let found = lines(&fxt);
    let expected = [
        "130 cpu 0: 104 dead -> 101".to_owned(),
        format!("141 cpu 0: {NEXT} woken by 101"),
        format!("160 cpu 0: 101 blocked -> {NEXT}"),
        format!("170 cpu 0: {NEXT} blocked -> 0"),
    ];
    assert_eq!(found[found.len() - 4..], expected, "{found:?}");
    assert_eq!(report.times("other events of ftrace, left out"), 0);
}

#[test]
fn a_stack_at_the_time_at_which_its_thread_exits_is_of_that_thread() {
    let interned = message()
        .with(5, message().number(1, 1).text(2, "do_exit"))
        .with(6, message().number(1, 1).number(2, 1))
        .with(7, message().number(1, 9).numbers(2, &[1]));
    let sample = message().number(2, 100).number(3, 104).number(4, 9);
    let (fxt, _) = converted(&trace([
        bundle(
            0,
            [switch(100, APP, 1, ("first", 104, 120)), switch(130, ("first", 104, 120), 0x10, APP)],
        ),
        message().number(8, 130).number(10, 2).number(13, 1).with(12, interned).with(66, sample),
    ]));
    assert_eq!(super::back::stacks(&fxt), ["130 104 2: do_exit"]);
    let threads = objects(&fxt);
    let threads: Vec<&String> = threads.iter().filter(|it| it.starts_with("thread")).collect();
    assert_eq!(threads, ["thread 101 app of 101", "thread 104 first of 100"]);
}

#[test]
fn what_was_lost_is_a_gap_on_its_cpu_and_has_the_number_of_the_rings_count() {
    let stats = |phase, overrun| {
        let cpu = message().number(1, 0).number(3, overrun);
        message().with(34, message().number(1, phase).with(2, cpu))
    };
    let mut lossy = message().number(1, 0).number(3, 1);
    for event in [switch(500, HOG, 1, APP), switch(600, APP, 1, IDLE)] {
        lossy = lossy.with(2, event);
    }
    let fxt = converted(&trace([
        stats(1, 10),
        bundle(0, [switch(100, IDLE, 0, APP)]),
        message().with(1, lossy),
        stats(2, 17),
    ]))
    .0;
    let found = lines(&fxt);
    let lost = "500 instant fxtrec:lost of 4294967295/4294967295 count=7 cpu=0 at_most=true";
    let at = found.iter().position(|line| line == lost).unwrap_or_else(|| panic!("{found:?}"));
    assert!(found[at + 1..].iter().any(|line| line.starts_with("500 cpu 0: 102 blocked -> 101")));
    // Dropped packets of a writer are a gap on each CPU.
    let late = bundle(0, [switch(200, APP, 1, IDLE)]).number(42, 1);
    let dropped = converted(&trace([bundle(0, [switch(100, IDLE, 0, APP)]), late])).0;
    let lost = lines(&dropped).into_iter().find(|line| line.contains("fxtrec:lost"));
    assert_eq!(lost.as_deref(), Some("200 instant fxtrec:lost of 4294967295/4294967295 cpu=0"));
}

#[test]
fn system_calls_interrupts_moves_and_blocked_functions_are_facts() {
    let symbols = message().with(26, message().number(1, 7).text(2, "folio_wait_bit_common"));
    let enter = message().number(1, 202);
    let irq = message().number(1, 30).text(2, "virtio0");
    let soft = message().number(1, 3);
    let moved = message().number(2, 101).number(4, 0).number(5, 1);
    let reason = message().number(1, 101).number(2, 7).number(3, 1);
    let fxt = converted(&trace([bundle(
        0,
        [
            switch(100, IDLE, 0, APP),
            event(110, 101, 0, 329, enter),
            switch(200, APP, 2, HOG),
            event(300, 102, 0x08, 36, irq.clone()),
            event(310, 102, 0x08, 37, irq),
            event(320, 102, 0x10, 24, soft.clone()),
            event(325, 102, 0x10, 18, reason),
            wake((17, 330), (102, 0x10), ("app", 101), 0),
            event(350, 102, 0x10, 25, soft),
            event(360, 102, 0, 491, moved),
            switch(400, HOG, 0, APP),
        ],
    )
    .with(12, symbols)]))
    .0;
    let found = lines(&fxt);
    for expected in [
        "200 cpu 0: 101 blocked -> 102 prev_state=\"D\" syscall=202",
        "300 begin irq:virtio0 of 3221225472/3221225473",
        "310 end irq:virtio0 of 3221225472/3221225473",
        "320 begin irq:net_rx of 3221225472/3221225473",
        "360 instant sched:migrate of 101/101 orig_cpu=0 dest_cpu=1",
        "400 cpu 0: 102 running -> 101 irq_ns=40 irqs=2",
    ] {
        assert!(found.iter().any(|line| line == expected), "{expected} in {found:#?}");
    }
    assert!(info(&fxt).contains(&"causes=\"irq,migrate,syscall\"".to_owned()), "{:?}", info(&fxt));
    let mut reader = Reader::from_slice(&fxt);
    let (mut stack, mut names) = (None, std::collections::HashMap::new());
    while let Some(item) = reader.next().expect("a sound trace") {
        match item.record {
            Record::Backtrace(it) => {
                let frames: Vec<u64> = it.frames.iter().collect();
                stack = Some((it.time.0, it.thread.thread.0, frames));
            }
            Record::UserspaceObject(it) => {
                names.insert(it.pointer, it.name.to_owned());
            }
            _ => {}
        }
    }
    let (time, thread, frames) = stack.expect("where it was blocked");
    assert_eq!((time, thread, frames.len()), (200, 101, 1), "since it left its CPU");
    assert_eq!(names[&frames[0]], "folio_wait_bit_common");
}

#[test]
fn idle_states_and_frequencies_are_counters_of_their_cpus() {
    let power = |state, cpu| message().number(1, state).number(2, cpu);
    const AWAKE: u64 = u32::MAX as u64;
    let fxt = converted(&trace([bundle(
        0,
        [
            event(100, 0, 0, 13, power(2, 0)),
            event(110, 0, 0, 13, power(1, 1)),
            // The frequency of a CPU other than the one that sets it.
            event(150, 0, 0, 11, power(2_400_000, 1)),
            event(200, 0, 0, 13, power(AWAKE, 0)),
        ],
    )]))
    .0;
    let expected = [
        "100 counter 0 power:cpu_idle of 0/0 state=2",
        "110 counter 1 power:cpu_idle of 0/0 state=1",
        "150 counter 1 power:cpu_frequency of 0/0 khz=2400000",
        "200 counter 0 power:cpu_idle of 0/0 state=4294967295",
    ];
    assert_eq!(lines(&fxt), expected);
}

#[test]
fn any_size_of_the_sorted_pieces_gives_the_same_trace() {
    let mut packets = Vec::new();
    for round in 0..40_u64 {
        for cpu in [2, 0, 1] {
            let at = round * 10_000 + cpu * 7;
            let thread = ("worker", 200 + cpu, 120);
            packets.push(bundle(
                cpu,
                [
                    switch(at + 100, ("swapper", 0, 120), 0, thread),
                    wake((17, at + 4000), (200 + cpu, 0), ("worker", 200 + (cpu + 1) % 3), 0),
                    switch(at + 9000, thread, 1, ("swapper", 0, 120)),
                ],
            ));
        }
    }
    let trace = trace(packets);
    let of = |piece_bytes| {
        let mut input = Input::from_bytes(trace.clone()).expect("not packed");
        let mut out = Vec::new();
        super::super::read_in_pieces(&mut input, &mut out, piece_bytes).expect("sound");
        out
    };
    let whole = of(1 << 20);
    assert_eq!(lines(&whole).iter().filter(|line| line.contains("->")).count(), 240);
    assert!(of(1) == whole && of(1500) == whole);
}
