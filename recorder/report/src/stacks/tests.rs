use fxt_reader::Reader;

use super::example::trace;
use super::*;

fn read(with_stacks: bool) -> Option<Blocked> {
    of(&trace(with_stacks))
}

fn of(bytes: &[u8]) -> Option<Blocked> {
    let open = || Ok::<_, Error>(Reader::from_slice(bytes));
    blocked(open, Options::default()).expect("it can be read").map(|(_, blocked)| blocked)
}

#[test]
fn each_long_wait_has_its_stack_and_the_longest_comes_first() {
    let blocked = read(true).expect("stacks");
    let waits: Vec<(u128, Option<u64>)> = blocked
        .waits
        .iter()
        .map(|wait| {
            let stack = wait.stack.map(|number| blocked.recorded.all[number].time);
            (wait.blocked.as_millis(), stack)
        })
        .collect();
    assert_eq!(waits, [(5, Some(10_000_300)), (3, None), (2, Some(19_999_600))]);
    assert_eq!((blocked.censored, blocked.total().as_millis()), (1, 10));
    assert!(read(false).is_none());
}

/// Thread 71 of process 70, which has no stacks, is blocked from 60 to 68 ms on another CPU; `of` selects which processes have stacks.
fn with_another_process(of: Option<&str>) -> Blocked {
    use fxt_writer::record::{ContextSwitch, KernelObject, ObjectType, ThreadState, Wakeup};
    use fxt_writer::{Arg, Koid as Id, Text, Ticks, Value, Writer};
    let mut more = Writer::new(Vec::new());
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Id(70)))];
    for (kind, koid, args) in
        [(ObjectType::Process, 70, &[][..]), (ObjectType::Thread, 71, &process)]
    {
        let name = Text::Inline("other");
        more.write(&KernelObject { object_type: kind, koid: Id(koid), name, args }).expect("room");
    }
    let mut info = vec![("over_ns", Value::uint(2 * example::MS))];
    info.extend(of.map(|of| ("of", Value::Str(Text::Inline(of)))));
    more.instant(Ticks(1), (Id(1), Id(1)), "fxtrec", "stack_info", &info).expect("room");
    for (time, outgoing, incoming) in [(59, 0, 71), (60, 71, 0), (69, 0, 71), (70, 71, 0)] {
        let time = Ticks(time * example::MS);
        if time.0 == 69 * example::MS {
            let time = Ticks(68 * example::MS);
            more.write(&Wakeup { cpu: 1, time, thread: Id(71), args: &[] }).expect("room");
        }
        let (outgoing, incoming) = (Id(outgoing), Id(incoming));
        let outgoing_state = ThreadState::Blocked;
        let switch = ContextSwitch { cpu: 1, time, outgoing, incoming, outgoing_state, args: &[] };
        more.write(&switch).expect("room");
    }
    super::tests::of(&[trace(true), more.into_inner()].concat()).expect("stacks")
}

#[test]
fn where_only_some_processes_have_stacks_the_waits_of_others_are_left_out() {
    let waits = |of| {
        let blocked = with_another_process(of);
        let is_about = [41, 71].map(|thread| blocked.recorded.is_about(Koid(thread)));
        (blocked.waits.iter().map(|wait| wait.blocked.as_millis()).collect::<Vec<_>>(), is_about)
    };
    assert_eq!(waits(None), (vec![8, 5, 3, 2], [true, true]));
    // Another wait of a process with stacks has none.
    assert_eq!(waits(Some(fxtrec_sched::backtrace::OF_CHOSEN)), (vec![5, 3, 2], [true, false]));
}

#[test]
fn the_line_of_a_system_call_is_that_of_the_instruction_that_made_it() {
    let asked = |kernel: &[u8]| {
        let mut bytes = trace(true);
        let name = b"pipe_read";
        let at = bytes.windows(name.len()).position(|it| it == name).expect("a name");
        bytes[at..at + kernel.len()].copy_from_slice(kernel);
        let mut asked = Vec::new();
        let mut blocked = of(&bytes).expect("there are stacks");
        blocked.recorded.find_lines(|_, _, within| {
            asked.push(within);
            Vec::new()
        });
        asked.sort_unstable();
        asked
    };
    assert_eq!(asked(b"pipe_read"), [0x210, 0x220, 0x230]);
    // A waker's stack without the kernel stack gives no clue.
    assert_eq!(asked(b"el0_svc_x"), [0x20f, 0x21f, 0x230]);
}

#[test]
fn the_text_names_lengths_functions_wakers_and_what_is_missing() {
    let mut out = Vec::new();
    write_text(&read(true).expect("stacks"), (1, Some(2)), &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let expected = "\
3 waits of 2.00 ms and longer, in which threads were blocked for 10.0 ms
1 of them has no stack: 3.00 ms
1 more stack is of waits whose length is unknown

The longest, innermost function first:
   1.  5.00 ms  work;er[41], 0.010000000 to 0.015000000, woken by waker[60]
          pipe_read [k]
          a;b::<c d>  (x.so)
          0x9000
          (the innermost function may lack its caller)
        woken from:
          kick  (x.so)

By stack:
   1.  5.00 ms  50.0 %  1 time, at most 5.00 ms: work;er[41]
          pipe_read [k]
          a;b::<c d>  (x.so)
          0x9000
          (the innermost function may lack its caller)
   2.  3.00 ms  30.0 %  1 time, at most 3.00 ms: work;er[41]
          no stack
1 more stack; --rows 0 shows all
";
    assert_eq!(text, expected);
}

#[test]
fn the_json_has_the_same_for_programs() {
    let mut out = Vec::new();
    write_json(&read(true).expect("stacks"), 2, &mut out).expect("memory");
    let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(json["format"], "fxtrec-stacks");
    assert_eq!((&json["over_ns"], &json["blocked_ns"]), (&2_000_000.into(), &10_000_000.into()));
    let [first, none, last] = &json["stacks"].as_array().expect("stacks")[..] else {
        panic!("{json}");
    };
    assert_eq!(first["frames"][0]["function"], "pipe_read");
    assert_eq!(first["frames"][1]["module"], "/lib/x.so");
    assert_eq!(first["frames"][1]["address"], 0x210);
    assert_eq!(first["lacks"][0], "the innermost function may lack its caller");
    assert_eq!(first["threads"][0]["comm"], "work;er");
    assert_eq!(none["frames"], serde_json::Value::Null);
    assert_eq!(none["blocked_ns"], 3_000_000);
    assert_eq!((&last["waits"], &last["max_ns"]), (&1.into(), &2_000_000.into()));
    let worst = json["worst"].as_array().expect("waits");
    assert_eq!(worst.len(), 2);
    assert_eq!(worst[0]["waker"]["comm"], "waker");
    assert_eq!(worst[0]["waker_frames"][0]["function"], "kick");
    assert_eq!(
        (&worst[1]["waker"], &worst[1]["frames"]),
        (&worst[1]["waker_frames"], &none["frames"])
    );
}

#[test]
fn folded_text_pprof_and_the_picture_have_the_same_weights() {
    let blocked = read(true).expect("stacks");
    let profile = Profile::of(Kind::OffCpu, &blocked);
    assert_eq!(profile.folded().values().sum::<u64>(), 10_000_000);
    let mut svg = Vec::new();
    write_svg(&profile, &mut svg).expect("memory");
    let svg = String::from_utf8(svg).expect("text");
    for part in ["by stack: 10.0 ms", "work_er: 10.0 ms, 100.0 %", "pipe_read_[k]: 2.00 ms, 20.0 %"]
    {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let mut elements = quick_xml::Reader::from_str(&svg);
    let mut boxes = 0;
    loop {
        match elements.read_event().expect("well-formed") {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Start(it) if it.name().as_ref() == "g" => boxes += 1,
            _ => {}
        }
    }
    // The root, the thread, and three, one and two boxes for its three stacks.
    assert_eq!(boxes, 8);
}

/// The fields of a Protocol Buffers message: number, and value or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => fields.push((key >> 3, Ok(varint(&mut bytes)))),
            2 => {
                let length = varint(&mut bytes) as usize;
                let part;
                (part, bytes) = bytes.split_at(length);
                fields.push((key >> 3, Err(part)));
            }
            other => panic!("wire type {other}"),
        }
    }
    fields
}

#[test]
fn a_profile_for_pprof_has_its_stacks_innermost_first_with_both_values() {
    let blocked = read(true).expect("stacks");
    let mut gzip = Vec::new();
    write_pprof(&Profile::of(Kind::OffCpu, &blocked), &mut gzip).expect("memory");
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&gzip[..]);
    std::io::Read::read_to_end(&mut decoder, &mut bytes).expect("gzip");
    let all = fields(&bytes);
    let parts =
        |number| all.iter().filter(move |it| it.0 == number).map(|it| it.1.expect_err("bytes"));
    let texts: Vec<&str> = parts(6).map(|text| std::str::from_utf8(text).expect("text")).collect();
    assert_eq!(texts[0], "");
    let value = |message: &[u8], number: u64| -> u64 {
        fields(message).iter().find(|it| it.0 == number).map_or(0, |it| it.1.expect("a number"))
    };
    let name = |function: u64| {
        let mut all = parts(5).filter(|it| value(it, 1) == function);
        texts[value(all.next().expect("it is there"), 2) as usize]
    };
    let function = |location: u64| {
        let location = parts(4).find(|it| value(it, 1) == location).expect("it is there");
        let line = fields(location).into_iter().find(|it| it.0 == 4).expect("a line");
        name(value(line.1.expect_err("a message"), 1))
    };
    let samples: Vec<(Vec<&str>, Vec<u8>)> = parts(2)
        .map(|sample| {
            let of = fields(sample);
            let packed = |number| of.iter().find(|it| it.0 == number).expect("there").1;
            let stack = packed(1).expect_err("packed").iter().map(|&it| function(it.into()));
            (stack.collect(), packed(2).expect_err("packed").to_vec())
        })
        .collect();
    assert_eq!(samples[0].0, ["pipe_read_[k]", "a;b::<c d>", "0x9000"]);
    // One sample, and 5 000 000 ns.
    assert_eq!(samples[0].1, [1, 0xc0, 0x96, 0xb1, 0x02]);
    assert!(samples[1].0.is_empty(), "{samples:?}");
    let types: Vec<&str> = parts(1).map(|it| texts[value(it, 1) as usize]).collect();
    assert_eq!(types, ["samples", "blocked"]);
}

#[test]
fn a_profile_for_firefox_has_each_thread_with_its_stacks_and_weights() {
    let blocked = read(true).expect("stacks");
    let profiles = [Kind::OffCpu, Kind::Wake].map(|kind| Profile::of(kind, &blocked));
    let mut text = Vec::new();
    write_firefox(&profiles, &mut text).expect("memory");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let threads = json["threads"].as_array().expect("threads");
    let names: Vec<&str> = threads.iter().filter_map(|thread| thread["name"].as_str()).collect();
    assert_eq!(names, ["work;er (blocked)", "waker (ended waits)"]);
    let at = |table: &serde_json::Value, column: &str, place: &serde_json::Value| {
        table[column][place.as_u64().expect("a place") as usize].clone()
    };
    let mut found = Vec::new();
    for thread in threads {
        for table in ["samples", "stackTable", "frameTable", "funcTable", "resourceTable"] {
            let table = thread[table].as_object().expect("a table");
            for (column, values) in table.iter().filter(|(_, values)| values.is_array()) {
                let length = values.as_array().map(Vec::len);
                assert_eq!(length, table["length"].as_u64().map(|it| it as usize), "{column}");
            }
        }
        for place in 0..thread["samples"]["length"].as_u64().expect("a length") {
            let place = serde_json::json!(place);
            let mut stack = at(&thread["samples"], "stack", &place);
            let mut functions = Vec::new();
            while !stack.is_null() {
                let frame = at(&thread["stackTable"], "frame", &stack);
                let function = at(&thread["frameTable"], "func", &frame);
                let name = at(&thread["funcTable"], "name", &function);
                let name = &thread["stringArray"][name.as_u64().expect("a place") as usize];
                functions.push(name.as_str().expect("a name").to_owned());
                stack = at(&thread["stackTable"], "prefix", &stack);
            }
            let figure = |column| at(&thread["samples"], column, &place).as_f64();
            found.push((figure("time"), figure("weight"), functions.join(" ")));
        }
    }
    let expected = [
        (Some(10.0), Some(5.0), "pipe_read a;b::<c d> 0x9000"),
        (Some(20.0), Some(2.0), "pipe_read x.so+0x220"),
        (Some(30.0), Some(3.0), ""),
        (Some(14.9999), Some(5.0), "kick"),
    ];
    let expected = expected.map(|(time, weight, names)| (time, weight, names.to_owned()));
    assert_eq!(found, expected);
}
