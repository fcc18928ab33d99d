//! Writes a trace with every kind of record, once with all strings and threads
//! indexed and once with all inline, and all ten types of argument wherever a
//! record takes arguments. For checks of readers: `scripts/check-formats` has
//! two of them read it. For a trace of a realistic program, see `every_event`.
//!
//! A second file has the records that make some readers reject a whole file: a
//! legacy context switch, and records of undefined types.
//!
//! ```sh
//! cargo run -p fxt-writer --example every_record -- out.fxt refused.fxt
//! ```

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use fxt_writer::layout::{header, record_type, scheduling};
use fxt_writer::record::{
    Blob, BlobMetadata, BlobType, ContextSwitch, Event, EventKind, Initialization, KernelObject,
    LargeBlob, LegacyContextSwitch, LegacySide, Log, Magic, ObjectType, ProviderEvent,
    ProviderInfo, ProviderSection, Record, StringRecord, ThreadRecord, ThreadState,
    UserspaceObject, Wakeup,
};
use fxt_writer::{
    Arg, EncodeError, Koid, ProviderId, Slot, StringRef, Text, ThreadName, ThreadRef, Ticks, Value,
};

type Outcome = Result<(), Box<dyn Error>>;

const PROCESS: Koid = Koid(100);
const THREAD: Koid = Koid(101);
const ONE: ProviderId = ProviderId(1);
const TWO: ProviderId = ProviderId(2);

/// The strings that the records use; the first two are their category and name,
/// the third is a value, and the others are the names of arguments.
const STRINGS: [&str; 13] = [
    "category", "name", "text", "null", "int32", "uint32", "int64", "uint64", "double", "string",
    "pointer", "koid", "bool",
];

fn main() -> Outcome {
    let [sound, refused] = std::env::args_os()
        .skip(1)
        .map(PathBuf::from)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: every_record OUT.fxt REFUSED.fxt")?;
    fs::write(sound, every_record()?)?;
    fs::write(refused, often_refused()?)?;
    Ok(())
}

fn every_record() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut trace = Vec::new();
    begin(&mut trace)?;
    let indexed = Forms::indexed(&mut trace)?;
    records(&mut trace, &indexed)?;
    ProviderEvent::buffer_filled_up(ONE).write(&mut trace)?;
    ProviderInfo { id: TWO, name: "second provider" }.write(&mut trace)?;
    Initialization { ticks_per_second: 1_000 }.write(&mut trace)?;
    records(&mut trace, &Forms::inline())?;
    // Back to the first provider: its tables and tick length still apply.
    ProviderSection { id: ONE }.write(&mut trace)?;
    records(&mut trace, &indexed)?;
    Ok(trace)
}

fn often_refused() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut trace = Vec::new();
    begin(&mut trace)?;
    for forms in [Forms::indexed(&mut trace)?, Forms::inline()] {
        let switch = LegacyContextSwitch {
            cpu: 1,
            time: Ticks(100),
            outgoing: LegacySide { thread: forms.thread, priority: 20 },
            incoming: LegacySide { thread: forms.thread, priority: 21 },
            outgoing_state: ThreadState::Blocked,
        };
        switch.write(&mut trace)?;
    }
    let scheduling = scheduling::SCHEDULING_TYPE.put(7);
    Undefined(scheduling | header::TYPE.put(record_type::SCHEDULING)).write(&mut trace)?;
    Undefined(header::TYPE.put(record_type::PROFILER + 1)).write(&mut trace)?;
    let thread = Forms::inline().thread;
    Log { time: Ticks(100), thread, message: "behind what is not known" }.write(&mut trace)?;
    Ok(trace)
}

fn begin(trace: &mut Vec<u8>) -> Outcome {
    Magic.write(trace)?;
    ProviderInfo { id: ONE, name: "every_record" }.write(trace)?;
    Initialization { ticks_per_second: 1_000_000_000 }.write(trace)?;
    Ok(())
}

/// How records refer to strings and threads.
struct Forms {
    strings: [Text<'static>; STRINGS.len()],
    thread: ThreadName,
}

impl Forms {
    /// By index, after the records that define each.
    fn indexed(trace: &mut Vec<u8>) -> Result<Self, Box<dyn Error>> {
        let mut strings = [Text::EMPTY; STRINGS.len()];
        for ((index, content), text) in (1..).zip(STRINGS).zip(&mut strings) {
            let index = StringRef::indexed(index)?;
            StringRecord { index, content }.write(trace)?;
            *text = Text::Indexed(index);
        }
        let index = ThreadRef::indexed(1)?;
        ThreadRecord { index, process: PROCESS, thread: THREAD }.write(trace)?;
        Ok(Self { strings, thread: ThreadName::Indexed(index) })
    }

    /// Inline, which needs no definition.
    fn inline() -> Self {
        let thread = ThreadName::Inline { process: PROCESS, thread: THREAD };
        Self { strings: STRINGS.map(Text::Inline), thread }
    }

    /// An argument of every type. `scripts/lib/every_record.py` has the same values.
    fn args(&self) -> [Arg<'static>; 10] {
        let [_, _, text, null, int32, uint32, int64, uint64, double, string, pointer, koid, bool] =
            self.strings;
        [
            Arg::new(null, Value::Null),
            Arg::new(int32, Value::Int32(i32::MIN)),
            Arg::new(uint32, Value::Uint32(u32::MAX)),
            Arg::new(int64, Value::Int64(i64::MIN)),
            Arg::new(uint64, Value::Uint64(u64::MAX)),
            Arg::new(double, Value::Double(-1.5)),
            Arg::new(string, Value::Str(text)),
            Arg::new(pointer, Value::Pointer(0xdead_beef_0000)),
            Arg::new(koid, Value::Koid(THREAD)),
            Arg::new(bool, Value::Bool(true)),
        ]
    }
}

/// Every record except definitions, with all possible arguments.
fn records(trace: &mut Vec<u8>, forms: &Forms) -> Outcome {
    let (time, thread, [category, name, ..]) = (Ticks(100), forms.thread, forms.strings);
    let args = &forms.args()[..];
    events(trace, forms, args)?;
    for blob_type in [BlobType::Data, BlobType::LastBranch, BlobType::Perfetto] {
        Blob { name, blob_type, payload: b"not whole words" }.write(trace)?;
    }
    UserspaceObject { pointer: 0xdead_beef_0000, process: thread, name, args }.write(trace)?;
    for (kind, koid) in [(ObjectType::Process, PROCESS), (ObjectType::Thread, THREAD)] {
        KernelObject { object_type: kind, koid, name, args }.write(trace)?;
    }
    let (outgoing, incoming, outgoing_state) = (THREAD, Koid(102), ThreadState::Blocked);
    ContextSwitch { cpu: 1, time, outgoing, incoming, outgoing_state, args }.write(trace)?;
    Wakeup { cpu: 1, time, thread: THREAD, args }.write(trace)?;
    Log { time, thread, message: "a message" }.write(trace)?;
    for metadata in [None, Some(BlobMetadata { time, thread, args })] {
        LargeBlob { category, name, metadata, payload: b"not whole words" }.write(trace)?;
    }
    Ok(())
}

fn events(trace: &mut Vec<u8>, forms: &Forms, args: &[Arg<'_>]) -> Outcome {
    let [category, name, ..] = forms.strings;
    let (time, thread, id) = (Ticks(100), forms.thread, u64::MAX);
    let kinds = [
        EventKind::Instant,
        EventKind::Counter { id },
        EventKind::DurationBegin,
        EventKind::DurationEnd,
        EventKind::DurationComplete { end: Ticks(200) },
        EventKind::AsyncBegin { id },
        EventKind::AsyncInstant { id },
        EventKind::AsyncEnd { id },
        EventKind::FlowBegin { id },
        EventKind::FlowStep { id },
        EventKind::FlowEnd { id },
    ];
    for kind in kinds {
        Event { kind, time, thread, category, name, args }.write(trace)?;
    }
    Ok(())
}

/// A record of a type that the format does not define, of two words. Readers use the size to skip records that they do not know.
struct Undefined(u64);

impl Record for Undefined {
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(2)
    }

    fn header(&self, words: usize) -> u64 {
        self.0 | header::SIZE.put(words as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(0);
    }
}
