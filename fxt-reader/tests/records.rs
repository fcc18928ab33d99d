//! Every record of the format, put together by hand from its table and read back.

mod common;

use common::{HELLO, S, Side, Trace, W, inline};
use fxt_format::{
    argument, blob, event, header, kernel_object, large_blob, large_header, log, metadata,
    profiler, record_type, scheduling, userspace_object,
};
use fxt_reader::record::{
    Arg, Blob, BlobType, EventKind, ProviderEventKind, ThreadRecord, Unknown, Value,
};
use fxt_reader::{
    Cpu, Koid, Nanos, ObjectType, ProviderId, Reader, Record, RecordType, Thread, ThreadState,
};

const THREAD: Thread = Thread { process: Koid(70), thread: Koid(71) };

/// Reads a trace with the usual preamble, thread 7 in the table, and then `last`;
/// passes the last record to `check`.
fn reads(last: impl FnOnce(&mut Trace), check: impl FnOnce(Record<'_>)) {
    let mut trace = Trace::new();
    trace.preamble().thread(7, 70, 71);
    last(&mut trace);
    let mut reader = Reader::from_slice(&trace.bytes);
    for _ in 0..trace.offsets.len() - 1 {
        reader.next().expect("sound").expect("not the last");
    }
    let item = reader.next().expect("sound").expect("the last");
    assert!(item.oddities.is_empty(), "{:?}", item.oddities);
    assert_eq!(item.provider, Some(ProviderId(1)));
    assert_eq!(item.offset as usize, trace.offsets[trace.offsets.len() - 1]);
    check(item.record);
    assert!(reader.next().expect("sound").is_none());
    assert!(reader.summary().is_complete());
}

fn event_header(event_type: u64, arguments: u64, thread: u64, category: u64, name: u64) -> u64 {
    event::TYPE.put(record_type::EVENT)
        | event::EVENT_TYPE.put(event_type)
        | event::ARG_COUNT.put(arguments)
        | event::THREAD.put(thread)
        | event::CATEGORY.put(category)
        | event::NAME.put(name)
}

#[test]
fn the_magic_number_is_the_word_of_the_specification() {
    let mut trace = Trace::new();
    trace.magic();
    assert_eq!(trace.bytes, [0x10, 0x00, 0x04, 0x46, 0x78, 0x54, 0x16, 0x00]);
    let mut reader = Reader::from_slice(&trace.bytes);
    let item = reader.next().expect("sound").expect("a record");
    assert_eq!((item.record, item.provider), (Record::MagicNumber, None));
    assert!(reader.summary().magic);
}

#[test]
fn a_provider_event_names_its_provider() {
    use metadata::provider_event as table;
    reads(
        |trace| {
            trace.push(
                table::TYPE.put(record_type::METADATA)
                    | table::METADATA_TYPE.put(metadata::PROVIDER_EVENT)
                    | table::PROVIDER_ID.put(0xffff_ffff)
                    | table::EVENT_ID.put(table::BUFFER_FILLED_UP),
                &[],
            );
        },
        |record| {
            let Record::ProviderEvent(event) = record else { panic!("{record:?}") };
            assert_eq!(event.id, ProviderId(u32::MAX));
            assert_eq!(event.event, ProviderEventKind::BufferFilledUp);
        },
    );
}

#[test]
fn each_provider_has_its_own_strings_threads_and_ticks() {
    let mut trace = Trace::new();
    let instant = event_header(event::INSTANT, 0, 1, HELLO.into(), HELLO.into());
    trace.magic();
    trace.provider_info(1, "one").string(HELLO, "hello").thread(1, 10, 11);
    trace.provider_info(2, "two").initialization(1000).string(HELLO, "hola").thread(1, 20, 21);
    trace.push(instant, &[W(5)]).provider_section(1).push(instant, &[W(5)]);

    let mut reader = Reader::from_slice(&trace.bytes);
    let mut seen = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let Record::Event(event) = item.record {
            let provider = item.provider.expect("introduced");
            seen.push((provider.0, event.name.to_owned(), event.thread.thread.0, event.time.0));
        }
    }
    let expected = [(2, "hola".to_owned(), 21, 5_000_000), (1, "hello".to_owned(), 11, 5)];
    assert_eq!(seen, expected);
}

#[test]
fn a_string_record_defines_and_is_seen() {
    reads(
        |trace| {
            trace.string(0x7fff, "grüße");
        },
        |record| {
            let Record::String(string) = record else { panic!("{record:?}") };
            assert_eq!((string.index, string.value), (0x7fff, "grüße"));
        },
    );
}

#[test]
fn a_thread_record_defines_and_is_seen() {
    reads(
        |trace| {
            trace.thread(255, 70, 71);
        },
        |record| assert_eq!(record, Record::Thread(ThreadRecord { index: 255, thread: THREAD })),
    );
}

#[test]
fn all_eleven_event_types_carry_what_is_theirs() {
    let expected = [
        EventKind::Instant,
        EventKind::Counter { id: 99 },
        EventKind::DurationBegin,
        EventKind::DurationEnd,
        EventKind::DurationComplete { end: Nanos(99) },
        EventKind::AsyncBegin { id: 99 },
        EventKind::AsyncInstant { id: 99 },
        EventKind::AsyncEnd { id: 99 },
        EventKind::FlowBegin { id: 99 },
        EventKind::FlowStep { id: 99 },
        EventKind::FlowEnd { id: 99 },
    ];
    for (event_type, kind) in (0..).zip(expected) {
        reads(
            |trace| {
                let header = event_header(event_type, 0, 7, HELLO.into(), inline("name-inline"));
                if event::has_extra_word(event_type) {
                    trace.push(header, &[W(42), S("name-inline"), W(99)]);
                } else {
                    trace.push(header, &[W(42), S("name-inline")]);
                }
            },
            |record| {
                let Record::Event(event) = record else { panic!("{record:?}") };
                assert_eq!((event.time, event.thread, event.kind), (Nanos(42), THREAD, kind));
                assert_eq!((event.category, event.name), ("hello", "name-inline"));
            },
        );
    }
}

#[test]
fn an_inline_thread_stands_before_the_inline_strings() {
    reads(
        |trace| {
            let header = event_header(event::INSTANT, 0, 0, inline("cat"), 0);
            trace.push(header, &[W(42), W(70), W(71), S("cat")]);
        },
        |record| {
            let Record::Event(event) = record else { panic!("{record:?}") };
            assert_eq!((event.thread, event.category, event.name), (THREAD, "cat", ""));
        },
    );
}

#[test]
fn all_ten_argument_types_are_read() {
    let head = |argument_type, words, data| {
        W(argument::TYPE.put(argument_type)
            | argument::SIZE.put(words)
            | argument::NAME.put(HELLO.into())
            | argument::DATA.put(data))
    };
    reads(
        |trace| {
            trace.push(
                event_header(event::INSTANT, 12, 7, 0, HELLO.into()),
                &[
                    W(42),
                    head(argument::NULL, 1, 0),
                    head(argument::INT32, 1, 0xffff_fffe),
                    head(argument::UINT32, 1, 0xffff_fffe),
                    head(argument::INT64, 2, 0),
                    W(u64::MAX - 1),
                    head(argument::UINT64, 2, 0),
                    W(u64::MAX - 1),
                    head(argument::DOUBLE, 2, 0),
                    W((-0.5_f64).to_bits()),
                    head(argument::STRING, 2, inline("value")),
                    S("value"),
                    head(argument::STRING, 1, HELLO.into()),
                    head(argument::POINTER, 2, 0),
                    W(0xdead_beef),
                    head(argument::KOID, 2, 0),
                    W(71),
                    head(argument::BOOL, 1, 1),
                    head(argument::BOOL, 1, 0),
                ],
            );
        },
        |record| {
            let values: Vec<Value<'_>> =
                record.args().expect("an event").iter().map(|arg| arg.value).collect();
            let expected = [
                Value::Null,
                Value::Int32(-2),
                Value::UInt32(u32::MAX - 1),
                Value::Int64(-2),
                Value::UInt64(u64::MAX - 1),
                Value::Double(-0.5),
                Value::Str("value"),
                Value::Str("hello"),
                Value::Pointer(0xdead_beef),
                Value::Koid(Koid(71)),
                Value::Bool(true),
                Value::Bool(false),
            ];
            assert_eq!(values, expected);
        },
    );
}

#[test]
fn an_argument_with_an_inline_name_and_an_inline_value_has_the_name_first() {
    reads(
        |trace| {
            let argument_header = argument::string::TYPE.put(argument::STRING)
                | argument::string::SIZE.put(4)
                | argument::string::NAME.put(inline("a long name"))
                | argument::string::VALUE.put(inline("value"));
            trace.push(
                event_header(event::COUNTER, 1, 7, 0, 0),
                &[W(42), W(argument_header), S("a long name"), S("value"), W(99)],
            );
        },
        |record| {
            let Record::Event(event) = record else { panic!("{record:?}") };
            let args: Vec<Arg<'_>> = event.args.iter().collect();
            assert_eq!(args, [Arg { name: "a long name", value: Value::Str("value") }]);
            assert_eq!(event.kind, EventKind::Counter { id: 99 });
        },
    );
}

#[test]
fn an_argument_of_an_unknown_type_is_skipped_by_its_size_and_counted() {
    let mut trace = Trace::new();
    let unknown = argument::TYPE.put(11) | argument::SIZE.put(3) | argument::NAME.put(HELLO.into());
    let known = argument::TYPE.put(argument::BOOL)
        | argument::SIZE.put(1)
        | argument::NAME.put(HELLO.into())
        | argument::boolean::VALUE.put(1);
    trace.preamble().push(
        event_header(event::INSTANT, 2, 0, 0, 0),
        &[W(42), W(70), W(71), W(unknown), W(1), W(2), W(known)],
    );
    let mut reader = Reader::from_slice(&trace.bytes);
    let mut values = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let Record::Event(event) = item.record {
            values.extend(event.args.iter().map(|arg| format!("{}={}", arg.name, arg.value)));
            assert_eq!(item.oddities.unknown_arguments(), 1);
        }
    }
    assert_eq!(values, ["hello=<argument type 11>", "hello=true"]);
    assert_eq!(reader.summary().unknown_arguments, 1);
}

#[test]
fn all_three_blob_types_keep_their_payload_without_padding() {
    for (field, blob_type) in [
        (blob::DATA, BlobType::Data),
        (blob::LAST_BRANCH, BlobType::LastBranch),
        (blob::PERFETTO, BlobType::Perfetto),
    ] {
        reads(
            |trace| {
                trace.push(
                    blob::TYPE.put(record_type::BLOB)
                        | blob::NAME.put(inline("b"))
                        | blob::PAYLOAD_SIZE.put(9)
                        | blob::BLOB_TYPE.put(field),
                    &[S("b"), S("nine byte")],
                );
            },
            |record| {
                let payload = &b"nine byte"[..];
                assert_eq!(record, Record::Blob(Blob { name: "b", blob_type, payload }));
            },
        );
    }
}

#[test]
fn a_userspace_object_has_a_process_and_no_thread() {
    for (reference, inline_koid) in [(0, &[W(70)][..]), (7, &[])] {
        reads(
            |trace| {
                use userspace_object as table;
                let mut atoms = vec![W(0xdead_beef)];
                atoms.extend(inline_koid);
                atoms.push(S("object"));
                trace.push(
                    table::TYPE.put(record_type::USERSPACE_OBJECT)
                        | table::PROCESS.put(reference)
                        | table::NAME.put(inline("object")),
                    &atoms,
                );
            },
            |record| {
                let Record::UserspaceObject(object) = record else { panic!("{record:?}") };
                assert_eq!((object.process, object.pointer), (Koid(70), 0xdead_beef));
                assert_eq!(object.name, "object");
            },
        );
    }
}

#[test]
fn a_thread_object_has_its_process() {
    reads(
        |trace| {
            trace.object(71, "worker", Some(70));
        },
        |record| {
            let Record::KernelObject(object) = record else { panic!("{record:?}") };
            assert_eq!((object.koid, object.name), (Koid(71), "worker"));
            assert_eq!(object.object_type, ObjectType::Thread);
            assert_eq!(object.process(), Some(Koid(70)));
        },
    );
}

#[test]
fn an_object_type_without_a_name_here_keeps_its_number() {
    reads(
        |trace| {
            trace.push(
                kernel_object::TYPE.put(record_type::KERNEL_OBJECT)
                    | kernel_object::OBJECT_TYPE.put(17)
                    | kernel_object::NAME.put(HELLO.into()),
                &[W(71)],
            );
        },
        |record| {
            let Record::KernelObject(object) = record else { panic!("{record:?}") };
            assert_eq!((object.object_type, object.name), (ObjectType::Other(17), "hello"));
        },
    );
}

#[test]
fn a_context_switch_has_both_sides_and_their_weights() {
    reads(
        |trace| {
            trace.switch(42, 0xffff, Side(71, 1024), Side(0, i32::MIN));
        },
        |record| {
            let Record::ContextSwitch(switch) = record else { panic!("{record:?}") };
            assert_eq!((switch.time, switch.cpu), (Nanos(42), Cpu(0xffff)));
            assert_eq!((switch.outgoing, switch.incoming), (Koid(71), Koid(0)));
            assert_eq!(switch.outgoing_state, ThreadState::Blocked);
            assert_eq!(switch.outgoing_weight(), Some(1024));
            assert_eq!(switch.incoming_weight(), Some(i32::MIN));
        },
    );
}

#[test]
fn a_wakeup_names_the_woken_and_may_name_the_waker() {
    use scheduling::thread_wakeup as table;
    reads(
        |trace| {
            let waker = argument::TYPE.put(argument::KOID)
                | argument::SIZE.put(3)
                | argument::NAME.put(inline("waker"));
            trace.push(
                table::TYPE.put(record_type::SCHEDULING)
                    | table::SCHEDULING_TYPE.put(scheduling::THREAD_WAKEUP)
                    | table::ARG_COUNT.put(1)
                    | table::CPU.put(3),
                &[W(42), W(71), W(waker), S("waker"), W(99)],
            );
        },
        |record| {
            let Record::Wakeup(wakeup) = record else { panic!("{record:?}") };
            assert_eq!((wakeup.time, wakeup.cpu, wakeup.koid), (Nanos(42), Cpu(3), Koid(71)));
            assert_eq!((wakeup.waker(), wakeup.weight()), (Some(Koid(99)), None));
        },
    );
}

#[test]
fn a_legacy_context_switch_takes_threads_from_the_table_or_inline() {
    use scheduling::legacy_context_switch as table;
    reads(
        |trace| {
            trace.push(
                table::TYPE.put(record_type::SCHEDULING)
                    | table::SCHEDULING_TYPE.put(scheduling::LEGACY_CONTEXT_SWITCH)
                    | table::CPU.put(0xff)
                    | table::OUTGOING_STATE.put(5)
                    | table::OUTGOING_THREAD.put(7)
                    | table::INCOMING_THREAD.put(0)
                    | table::OUTGOING_PRIORITY.put(16)
                    | table::INCOMING_PRIORITY.put(255),
                &[W(42), W(80), W(81)],
            );
        },
        |record| {
            let Record::LegacyContextSwitch(switch) = record else { panic!("{record:?}") };
            assert_eq!((switch.time, switch.cpu), (Nanos(42), Cpu(0xff)));
            assert_eq!(switch.outgoing_state, ThreadState::Dead);
            assert_eq!((switch.outgoing, switch.outgoing_priority), (THREAD, 16));
            let incoming = Thread { process: Koid(80), thread: Koid(81) };
            assert_eq!((switch.incoming, switch.incoming_priority), (incoming, 255));
        },
    );
}

#[test]
fn a_log_record_has_its_message() {
    reads(
        |trace| {
            trace.push(
                log::TYPE.put(record_type::LOG) | log::LENGTH.put(12) | log::THREAD.put(7),
                &[W(42), S("twelve bytes")],
            );
        },
        |record| {
            let Record::Log(log) = record else { panic!("{record:?}") };
            assert_eq!((log.time, log.thread), (Nanos(42), THREAD));
            assert_eq!(log.message, "twelve bytes");
        },
    );
}

/// The words are those of Fuchsia's own writer.
#[test]
fn a_module_a_mapping_and_a_backtrace_have_their_koids_before_the_rest() {
    let build_id = "\u{1}twenty bytes build\u{2}";
    reads(
        |trace| {
            let header_word = 0x0140_e006_3000_000a;
            trace.push(header_word, &[W(5000), W(123), S("test_module.so"), S(build_id)]);
            assert_eq!(trace.bytes[trace.bytes.len() - 64], 0x8a, "eight words");
        },
        |record| {
            let Record::Module(module) = record else { panic!("{record:?}") };
            assert_eq!((module.time, module.process, module.id), (Nanos(5000), Koid(123), 99));
            assert_eq!((module.name, module.build_id), ("test_module.so", build_id.as_bytes()));
        },
    );
    reads(
        |trace| {
            let header_word = 0x0000_1006_5001_000a;
            trace.push(header_word, &[W(6000), W(456), W(0x1000), W(0x2000), W(0x3000)]);
        },
        |record| {
            let Record::Mapping(mapping) = record else { panic!("{record:?}") };
            assert_eq!(
                (mapping.time, mapping.process, mapping.module),
                (Nanos(6000), Koid(456), 101)
            );
            assert_eq!((mapping.flags, mapping.start, mapping.length), (1, 0x1000, 0x2000));
            assert_eq!(mapping.module_address, 0x3000);
            let inside = [0xfff, 0x1000, 0x2fff, 0x3000].map(|address| mapping.contains(address));
            assert_eq!(inside, [false, true, true, false]);
        },
    );
    reads(
        |trace| {
            let header_word = 0x0000_0020_2002_000a;
            trace
                .push(header_word, &[W(7000), W(789), W(987), W(0x402a_964b_1499), W(0x4ae0_293b)]);
        },
        |record| {
            let Record::Backtrace(backtrace) = record else { panic!("{record:?}") };
            let thread = Thread { process: Koid(789), thread: Koid(987) };
            assert_eq!((backtrace.time, backtrace.thread), (Nanos(7000), thread));
            assert_eq!(backtrace.flags, 2);
            assert_eq!(backtrace.frames.len(), 2);
            assert!(backtrace.frames.iter().eq([0x402a_964b_1499, 0x4ae0_293b]));
        },
    );
}

#[test]
fn a_thread_of_the_table_names_the_process_of_a_module_and_the_thread_of_a_backtrace() {
    use profiler::{backtrace, mapping};
    let kind = profiler::TYPE.put(record_type::PROFILER) | profiler::THREAD.put(7);
    reads(
        |trace| {
            trace.push(kind | profiler::KIND.put(profiler::MODULE), &[W(1)]);
        },
        |record| {
            let Record::Module(module) = record else { panic!("{record:?}") };
            assert_eq!(
                (module.process, module.name, module.build_id),
                (THREAD.process, "", &[][..])
            );
        },
    );
    reads(
        |trace| {
            let header_word = kind | profiler::KIND.put(profiler::MAPPING) | mapping::FLAGS.put(7);
            trace.push(header_word, &[W(1), W(u64::MAX), W(1), W(0)]);
        },
        |record| {
            let Record::Mapping(mapping) = record else { panic!("{record:?}") };
            assert_eq!((mapping.process, mapping.flags), (THREAD.process, 7));
            assert!(mapping.contains(u64::MAX) && !mapping.contains(0));
        },
    );
    reads(
        |trace| {
            let header_word =
                kind | profiler::KIND.put(profiler::BACKTRACE) | backtrace::FRAME_COUNT.put(0);
            trace.push(header_word, &[W(1)]);
        },
        |record| {
            let Record::Backtrace(backtrace) = record else { panic!("{record:?}") };
            assert_eq!((backtrace.thread, backtrace.frames.is_empty()), (THREAD, true));
        },
    );
}

#[test]
fn a_profiler_record_that_promises_more_than_it_has_is_damaged() {
    use profiler::{backtrace, module};
    let kind = |kind| profiler::TYPE.put(record_type::PROFILER) | profiler::KIND.put(kind);
    let long = [
        kind(profiler::MODULE) | module::NAME_LENGTH.put(255),
        kind(profiler::MODULE) | module::NAME_LENGTH.put(8) | module::BUILD_ID_LENGTH.put(1),
        kind(profiler::MAPPING),
        kind(profiler::BACKTRACE) | backtrace::FRAME_COUNT.put(255),
        kind(profiler::BACKTRACE) | backtrace::FRAME_COUNT.put(2),
    ];
    for header_word in long {
        let mut trace = Trace::new();
        // Time, koids, and one additional word.
        trace.preamble().push(header_word, &[W(1), W(2), W(3), W(4)]).string(9, "still here");
        if profiler::KIND.get(header_word) == profiler::MODULE {
            // Time, process, and one additional word.
            trace = Trace::new();
            trace.preamble().push(header_word, &[W(1), W(2), W(3)]).string(9, "still here");
        }
        let mut reader = Reader::from_slice(&trace.bytes);
        let mut reasons = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => reasons.push(error.damage().expect("damage").reason),
            }
        }
        assert_eq!(reasons, [fxt_reader::Reason::TooShort], "{header_word:#x}");
    }
}

#[test]
fn a_large_blob_with_metadata_has_it_between_names_and_payload() {
    use large_blob::with_metadata as table;
    reads(
        |trace| {
            let format_header = table::CATEGORY.put(inline("cat"))
                | table::NAME.put(inline("name"))
                | table::ARG_COUNT.put(1)
                | table::THREAD.put(0);
            let argument_header = argument::TYPE.put(argument::NULL)
                | argument::SIZE.put(1)
                | argument::NAME.put(HELLO.into());
            trace.push(
                large_blob::TYPE.put(record_type::LARGE)
                    | large_blob::LARGE_TYPE.put(large_header::TYPE_BLOB)
                    | large_blob::FORMAT.put(large_blob::WITH_METADATA),
                &[
                    W(format_header),
                    S("cat"),
                    S("name"),
                    W(42),
                    W(70),
                    W(71),
                    W(argument_header),
                    W(3),
                    S("abc"),
                ],
            );
        },
        |record| {
            let Record::LargeBlob(blob) = record else { panic!("{record:?}") };
            assert_eq!((blob.category, blob.name, blob.payload), ("cat", "name", &b"abc"[..]));
            let metadata = blob.metadata.expect("the format has it");
            assert_eq!((metadata.time, metadata.thread), (Nanos(42), THREAD));
            assert_eq!(metadata.args.get("hello"), Some(Value::Null));
        },
    );
}

#[test]
fn a_large_blob_may_be_larger_than_any_ordinary_record() {
    use large_blob::without_metadata as table;
    let payload = "0123456789".repeat(10_000);
    reads(
        |trace| {
            let format_header = table::CATEGORY.put(HELLO.into()) | table::NAME.put(0);
            trace.push(
                large_blob::TYPE.put(record_type::LARGE)
                    | large_blob::LARGE_TYPE.put(large_header::TYPE_BLOB)
                    | large_blob::FORMAT.put(large_blob::WITHOUT_METADATA),
                &[W(format_header), W(100_000), S(&payload)],
            );
        },
        |record| {
            let Record::LargeBlob(blob) = record else { panic!("{record:?}") };
            assert_eq!((blob.category, blob.name, blob.metadata), ("hello", "", None));
            assert_eq!(blob.payload, payload.as_bytes());
        },
    );
}

#[test]
fn unknown_types_are_handed_out_as_such_and_skipped_by_their_size() {
    let mut trace = Trace::new();
    trace.preamble();
    let body = &[W(1), W(2)];
    trace.push(header::TYPE.put(12), body);
    trace.push(metadata::METADATA_TYPE.put(9), body);
    trace.push(
        metadata::METADATA_TYPE.put(metadata::TRACE_INFO)
            | metadata::trace_info::TRACE_INFO_TYPE.put(3),
        body,
    );
    trace.push(event_header(13, 0, 0, 0, 0), body);
    trace.push(
        scheduling::TYPE.put(record_type::SCHEDULING) | scheduling::SCHEDULING_TYPE.put(6),
        body,
    );
    trace.push(large_header::TYPE.put(record_type::LARGE) | large_header::LARGE_TYPE.put(4), body);
    trace.push(large_blob::TYPE.put(record_type::LARGE) | large_blob::FORMAT.put(5), body);
    trace.push(profiler::TYPE.put(record_type::PROFILER) | profiler::KIND.put(3), body);
    trace.string(9, "still here");

    let mut reader = Reader::from_slice(&trace.bytes);
    let mut unknown = Vec::new();
    while let Some(item) = reader.next().expect("skipped, not an error") {
        if let Record::Unknown(what) = item.record {
            assert_eq!(item.raw.words().skip(1).collect::<Vec<_>>(), [1, 2]);
            unknown.push(what);
        }
    }
    let expected = [
        Unknown::RecordType(RecordType::Undefined(12)),
        Unknown::MetadataType(9),
        Unknown::TraceInfoType(3),
        Unknown::EventType(13),
        Unknown::SchedulingType(6),
        Unknown::LargeType(4),
        Unknown::BlobFormat(5),
        Unknown::ProfilerKind(3),
    ];
    assert_eq!(unknown, expected);
    assert_eq!(reader.summary().unknown_records, 8);
    assert_eq!(reader.summary().records, trace.offsets.len() as u64);
}

#[test]
fn the_raw_view_names_the_fields_of_the_header() {
    let trace = Trace::with_switches(1);
    let mut reader = Reader::from_slice(&trace.bytes);
    let mut fields = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        fields = item.raw.fields().collect();
        assert_eq!(item.raw.words().next(), Some(item.raw.header()));
    }
    let expected = [
        ("TYPE", 8),
        ("SIZE", 6),
        ("ARG_COUNT", 2),
        ("CPU", 0),
        ("OUTGOING_STATE", 3),
        ("SCHEDULING_TYPE", 1),
    ];
    assert_eq!(fields, expected);
}
