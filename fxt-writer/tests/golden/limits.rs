//! Values that the format cannot express are rejected, and nothing is written.

use fxt_writer::record::{
    Backtrace, Blob, BlobType, ContextSwitch, Event, EventKind, Initialization, KernelObject,
    LargeBlob, LegacyContextSwitch, LegacySide, Log, Mapping, Module, ObjectType, ProcessName,
    ProviderEvent, ProviderEventKind, ProviderInfo, Record, StringRecord, ThreadState,
};
use fxt_writer::{Arg, EncodeError, Koid, ProviderId, StringRef, Text, ThreadRef, Ticks, Value};

use crate::{indexed, thread};

#[track_caller]
fn assert_refused(record: &impl Record, error: EncodeError) {
    let mut words: Vec<u64> = vec![1];
    assert_eq!(record.write(&mut words), Err(error.into()));
    assert_eq!(words, [1]);
}

#[track_caller]
fn assert_accepted(record: &impl Record, words: usize) {
    let mut written: Vec<u64> = Vec::new();
    assert_eq!(record.write(&mut written), Ok(()));
    assert_eq!(written.len(), words);
    assert_eq!(written[0] >> 4 & 0xfff, words as u64);
}

fn event<'a>(name: Text<'a>, args: &'a [Arg<'a>]) -> Event<'a> {
    let kind = EventKind::Instant;
    Event { kind, time: Ticks(0), thread: thread(1), category: Text::EMPTY, name, args }
}

#[test]
fn sixteen_arguments_are_one_too_many() {
    let args = vec![Arg::new(indexed(1), Value::Null); 16];
    assert_accepted(&event(indexed(1), &args[..15]), 17);
    let error = EncodeError::TooManyArgs { count: 16 };
    assert_refused(&event(indexed(1), &args), error);
    let switch = ContextSwitch {
        cpu: 0,
        time: Ticks(0),
        outgoing: Koid(0),
        incoming: Koid(0),
        outgoing_state: ThreadState::New,
        args: &args,
    };
    assert_refused(&switch, error);
    let object = KernelObject {
        object_type: ObjectType::Process,
        koid: Koid(0),
        name: Text::EMPTY,
        args: &args,
    };
    assert_refused(&object, error);
}

#[test]
fn strings_beyond_32000_bytes_are_refused_wherever_they_are() {
    let long = "x".repeat(32_001);
    let error = EncodeError::StringTooLong { bytes: 32_001 };
    let text = Text::Inline(&long);
    assert_refused(&event(text, &[]), error);
    assert_refused(&event(indexed(1), &[Arg::new(text, Value::Null)]), error);
    assert_refused(&event(indexed(1), &[Arg::new(indexed(1), Value::Str(text))]), error);
    let index = StringRef::indexed(1).expect("in range");
    assert_refused(&StringRecord { index, content: &long }, error);
    assert_accepted(&StringRecord { index, content: &long[..32_000] }, 4001);
}

#[test]
fn a_record_of_4095_words_is_the_largest() {
    // Two words of event, 4000 of name, and an argument of 1 + 92 words.
    let (name, value) = ("n".repeat(32_000), "v".repeat(93 * 8));
    let args = |bytes| [Arg::new(indexed(1), Value::Str(Text::Inline(&value[..bytes])))];
    assert_accepted(&event(Text::Inline(&name), &args(92 * 8)), 4095);
    let error = EncodeError::RecordTooLarge { words: 4096, max: 4095 };
    assert_refused(&event(Text::Inline(&name), &args(92 * 8 + 1)), error);
}

#[test]
fn an_argument_of_a_large_blob_is_no_larger_than_its_size_field_says() {
    let (name, value) = ("n".repeat(32_000), "v".repeat(32_000));
    let args = [Arg::new(Text::Inline(&name), Value::Str(Text::Inline(&value)))];
    let metadata =
        fxt_writer::record::BlobMetadata { time: Ticks(0), thread: thread(1), args: &args };
    let record = LargeBlob {
        category: Text::EMPTY,
        name: Text::EMPTY,
        metadata: Some(metadata),
        payload: &[],
    };
    assert_refused(&record, EncodeError::RecordTooLarge { words: 8001, max: 4095 });
}

#[test]
fn a_nul_is_refused_wherever_it_is() {
    let error = EncodeError::NulInString { at: 1 };
    assert_refused(&event(Text::Inline("a\0"), &[]), error);
    assert_refused(&ProviderInfo { id: ProviderId(0), name: "a\0" }, error);
    assert_refused(&Log { time: Ticks(0), thread: thread(1), message: "a\0" }, error);
    let index = StringRef::indexed(1).expect("in range");
    assert_refused(&StringRecord { index, content: "a\0" }, error);
}

#[test]
fn index_zero_and_indices_beyond_the_table_are_refused() {
    assert_eq!(StringRef::indexed(0), Err(EncodeError::StringIndex { index: 0 }));
    assert_eq!(StringRef::indexed(0x8000), Err(EncodeError::StringIndex { index: 0x8000 }));
    assert_eq!(ThreadRef::indexed(0), Err(EncodeError::ThreadIndex));
    let record = StringRecord { index: StringRef::EMPTY, content: "x" };
    assert_refused(&record, EncodeError::StringIndex { index: 0 });
}

#[test]
fn payloads_names_and_messages_are_no_longer_than_their_length_fields_say() {
    let payload = vec![0; 4094 * 8 + 1];
    let blob =
        |bytes| Blob { name: Text::EMPTY, blob_type: BlobType::Data, payload: &payload[..bytes] };
    assert_accepted(&blob(4094 * 8), 4095);
    assert_refused(&blob(4094 * 8 + 1), EncodeError::BlobTooLarge { bytes: 4094 * 8 + 1 });

    let long = "x".repeat(0x8000);
    let provider = |bytes| ProviderInfo { id: ProviderId(0), name: &long[..bytes] };
    assert_accepted(&provider(255), 33);
    assert_refused(&provider(256), EncodeError::ProviderNameTooLong { bytes: 256 });

    let log = |bytes| Log { time: Ticks(0), thread: thread(1), message: &long[..bytes] };
    assert_accepted(&log(4093 * 8), 4095);
    let error = EncodeError::RecordTooLarge { words: 4096, max: 4095 };
    assert_refused(&log(4093 * 8 + 1), error);
    assert_refused(&log(0x8000), EncodeError::LogMessageTooLong { bytes: 0x8000 });
}

#[test]
fn values_that_mean_nothing_are_refused() {
    let zero = Initialization { ticks_per_second: 0 };
    assert_refused(&zero, EncodeError::ZeroTicksPerSecond);
    let event = ProviderEvent { id: ProviderId(0), event: ProviderEventKind::Undefined(16) };
    assert_refused(&event, EncodeError::ProviderEvent { id: 16 });
    let side = LegacySide { thread: thread(1), priority: 0 };
    let record = LegacyContextSwitch {
        cpu: 0,
        time: Ticks(0),
        outgoing: side,
        incoming: side,
        outgoing_state: ThreadState::Running,
    };
    assert_refused(&record, EncodeError::LegacyRunning);
}

#[test]
fn modules_mappings_and_backtraces_are_no_larger_than_their_fields_say() {
    let (name, build_id) = ("n".repeat(256), [0; 256]);
    let (time, process) = (Ticks(0), ProcessName::Inline(Koid(0)));
    let module = |name_bytes: usize, id_bytes: usize| Module {
        time,
        process,
        id: u16::MAX,
        name: &name[..name_bytes],
        build_id: &build_id[..id_bytes],
    };
    assert_accepted(&module(255, 255), 3 + 32 + 32);
    assert_accepted(&module(0, 0), 3);
    assert_refused(&module(256, 0), EncodeError::ModuleTooLong { bytes: 256 });
    assert_refused(&module(0, 256), EncodeError::ModuleTooLong { bytes: 256 });
    let nul = Module { name: "a\0", ..module(0, 0) };
    assert_refused(&nul, EncodeError::NulInString { at: 1 });

    let mapping =
        |flags| Mapping { time, process, module: 0, flags, start: 0, length: 0, module_address: 0 };
    assert_accepted(&mapping(7), 6);
    assert_refused(&mapping(8), EncodeError::FlagsTooWide { flags: 8, bits: 3 });

    let frames = [0; 256];
    let backtrace =
        |flags, count| Backtrace { time, thread: thread(1), flags, frames: &frames[..count] };
    assert_accepted(&backtrace((1 << 28) - 1, 255), 257);
    assert_refused(&backtrace(0, 256), EncodeError::TooManyFrames { frames: 256 });
    let error = EncodeError::FlagsTooWide { flags: 1 << 28, bits: 28 };
    assert_refused(&backtrace(1 << 28, 0), error);
}
