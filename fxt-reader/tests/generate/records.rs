//! Writes one record after another according to the choices, and describes each.

use std::collections::HashMap;

use fxt_reader::Kind;
use fxt_writer::record::{
    Backtrace, Blob, BlobMetadata, BlobType, ContextSwitch, Event, EventKind, Initialization,
    KernelObject, LargeBlob, LegacyContextSwitch, LegacySide, Log, Magic, Mapping, Module,
    ObjectType, ProcessName, ProviderEvent, ProviderEventKind, ProviderInfo, ProviderSection,
    Record, StringRecord, ThreadRecord, ThreadState, UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, StringRef, Text, ThreadName, ThreadRef, Ticks, Value};

use super::Generated;
use super::choices::Choices;
use super::describe;

const STATES: [ThreadState; 6] = [
    ThreadState::New,
    ThreadState::Running,
    ThreadState::Suspended,
    ThreadState::Blocked,
    ThreadState::Dying,
    ThreadState::Dead,
];

/// The definitions of a provider so far, which readers must remember.
#[derive(Debug)]
struct Provider {
    strings: HashMap<u16, String>,
    threads: HashMap<u8, (u64, u64)>,
    ticks_per_second: u64,
}

/// A string as written, and its meaning.
enum Name {
    Indexed(u16, String),
    Inline(String),
}

impl Name {
    fn text(&self) -> Text<'_> {
        match self {
            Self::Indexed(index, _) => {
                Text::Indexed(StringRef::indexed(*index).expect("an index in use"))
            }
            Self::Inline(text) => Text::Inline(text),
        }
    }

    fn meaning(&self) -> &str {
        match self {
            Self::Indexed(_, text) | Self::Inline(text) => text,
        }
    }
}

/// The value of an argument before its strings are borrowed.
enum Content {
    Plain(Value<'static>, String),
    Text(Name),
}

pub struct Generator<'a> {
    choices: Choices<'a>,
    providers: HashMap<u32, Provider>,
    current: Option<u32>,
    before: Provider,
    bytes: Vec<u8>,
    expected: Vec<String>,
}

impl Default for Provider {
    fn default() -> Self {
        let (strings, threads) = Default::default();
        Self { strings, threads, ticks_per_second: 1_000_000_000 }
    }
}

impl<'a> Generator<'a> {
    pub fn new(choices: &'a [u8]) -> Self {
        Self {
            choices: Choices::new(choices),
            providers: HashMap::new(),
            current: None,
            before: Provider::default(),
            bytes: Vec::new(),
            expected: Vec::new(),
        }
    }

    pub fn run(mut self) -> Generated {
        self.write(&Magic, || Kind::MagicNumber.to_string());
        while !self.choices.is_used_up() {
            self.record();
        }
        Generated { bytes: self.bytes, expected: self.expected }
    }

    fn provider(&mut self) -> &mut Provider {
        match self.current {
            Some(id) => self.providers.entry(id).or_default(),
            None => &mut self.before,
        }
    }

    /// Writes the record if the format can express it; returns whether it did.
    fn write(&mut self, record: &impl Record, meaning: impl FnOnce() -> String) -> bool {
        let before = self.bytes.len();
        if record.write(&mut self.bytes).is_err() {
            assert_eq!(self.bytes.len(), before, "a refused record leaves nothing behind");
            return false;
        }
        self.expected.push(meaning());
        true
    }

    fn record(&mut self) {
        match self.choices.below(19) {
            0 => self.provider_info(),
            1 => self.provider_section(),
            2 => self.provider_event(),
            3 => self.initialization(),
            4 => self.string(),
            5 => self.thread_record(),
            6 | 7 => self.event(),
            8 => self.blob(),
            9 => self.userspace_object(),
            10 => self.kernel_object(),
            11 => self.context_switch(),
            12 => self.wakeup(),
            13 => self.legacy_context_switch(),
            14 => self.log(),
            15 => self.large_blob(),
            16 => self.module(),
            17 => self.mapping(),
            _ => self.backtrace(),
        }
    }

    fn provider_info(&mut self) {
        let (id, name) = (self.choices.below(4) as u32, self.choices.text());
        let kind = Kind::ProviderInfo;
        if self.write(&ProviderInfo { id: ProviderId(id), name: &name }, || {
            format!("{kind} {id} {name}")
        }) {
            self.current = Some(id);
        }
    }

    fn provider_section(&mut self) {
        let id = self.choices.below(4) as u32;
        let kind = Kind::ProviderSection;
        if self.write(&ProviderSection { id: ProviderId(id) }, || format!("{kind} {id}")) {
            self.current = Some(id);
        }
    }

    fn provider_event(&mut self) {
        let (id, number) = (self.choices.u32(), self.choices.below(16) as u64);
        let event = ProviderEventKind::from_field(number);
        self.write(&ProviderEvent { id: ProviderId(id), event }, || {
            format!("{} {id} {number}", Kind::ProviderEvent)
        });
    }

    fn initialization(&mut self) {
        let some = u64::from(self.choices.u32()) + 1;
        let ticks = [1_000_000_000, 1, 24_000_000, 3_000_000_001, some][self.choices.below(5)];
        if self.write(&Initialization { ticks_per_second: ticks }, || {
            format!("{} {ticks}", Kind::Initialization)
        }) {
            self.provider().ticks_per_second = ticks;
        }
    }

    fn string(&mut self) {
        let index = [u16::from(self.choices.byte() % 8) + 1, 0x7fff][self.choices.below(2)];
        let content = self.choices.text();
        let reference = StringRef::indexed(index).expect("in range");
        let kind = Kind::String;
        if self.write(&StringRecord { index: reference, content: &content }, || {
            format!("{kind} {index} {content}")
        }) {
            self.provider().strings.insert(index, content);
        }
    }

    fn thread_record(&mut self) {
        let index = [self.choices.byte() % 8 + 1, 0xff][self.choices.below(2)];
        let (process, thread) = (self.choices.u64(), self.choices.u64());
        let record = ThreadRecord {
            index: ThreadRef::indexed(index).expect("in range"),
            process: Koid(process),
            thread: Koid(thread),
        };
        let kind = Kind::Thread;
        if self.write(&record, || format!("{kind} {index} {}", describe::thread(process, thread))) {
            self.provider().threads.insert(index, (process, thread));
        }
    }

    fn event(&mut self) {
        let (time, nanos) = self.time();
        let (thread, thread_meaning) = self.thread();
        let (category, name) = (self.name(), self.name());
        let args = self.args();
        let (id, (end, end_nanos)) = (self.choices.u64(), self.time());
        let (kind, title, extra) = match self.choices.below(11) {
            0 => (EventKind::Instant, Kind::Instant, None),
            1 => (EventKind::Counter { id }, Kind::Counter, Some(id)),
            2 => (EventKind::DurationBegin, Kind::DurationBegin, None),
            3 => (EventKind::DurationEnd, Kind::DurationEnd, None),
            4 => (EventKind::DurationComplete { end }, Kind::DurationComplete, Some(end_nanos)),
            5 => (EventKind::AsyncBegin { id }, Kind::AsyncBegin, Some(id)),
            6 => (EventKind::AsyncInstant { id }, Kind::AsyncInstant, Some(id)),
            7 => (EventKind::AsyncEnd { id }, Kind::AsyncEnd, Some(id)),
            8 => (EventKind::FlowBegin { id }, Kind::FlowBegin, Some(id)),
            9 => (EventKind::FlowStep { id }, Kind::FlowStep, Some(id)),
            _ => (EventKind::FlowEnd { id }, Kind::FlowEnd, Some(id)),
        };
        let (written, meaning) = (args_to_write(&args), args_meaning(&args));
        let record = Event {
            kind,
            time,
            thread,
            category: category.text(),
            name: name.text(),
            args: &written,
        };
        self.write(&record, || {
            let (category, name) = (category.meaning(), name.meaning());
            format!("{title} {nanos} {thread_meaning} {category} {name}{meaning} {extra:?}")
        });
    }

    fn blob(&mut self) {
        let (name, payload) = (self.name(), self.choices.payload());
        let (blob_type, number) =
            [(BlobType::Data, 1), (BlobType::LastBranch, 2), (BlobType::Perfetto, 3)]
                [self.choices.below(3)];
        self.write(&Blob { name: name.text(), blob_type, payload: &payload }, || {
            format!("{} {} {number} {payload:?}", Kind::Blob, name.meaning())
        });
    }

    fn userspace_object(&mut self) {
        let pointer = self.choices.u64();
        let (process, process_meaning) = self.thread();
        let (name, args) = (self.name(), self.args());
        let written = args_to_write(&args);
        let record = UserspaceObject { pointer, process, name: name.text(), args: &written };
        self.write(&record, || {
            let process = process_meaning.split('/').next().unwrap_or_default();
            let (kind, name) = (Kind::UserspaceObject, name.meaning());
            format!("{kind} {pointer} {process} {name}{}", args_meaning(&args))
        });
    }

    fn kernel_object(&mut self) {
        let (koid, number) = (self.choices.u64(), self.choices.byte());
        let kind = match number {
            1 => ObjectType::Process,
            2 => ObjectType::Thread,
            other => ObjectType::Other(other),
        };
        let (name, args) = (self.name(), self.args());
        let written = args_to_write(&args);
        let record =
            KernelObject { object_type: kind, koid: Koid(koid), name: name.text(), args: &written };
        self.write(&record, || {
            let (kind, name) = (Kind::KernelObject, name.meaning());
            format!("{kind} {number} {koid} {name}{}", args_meaning(&args))
        });
    }

    fn context_switch(&mut self) {
        let (time, nanos) = self.time();
        let (cpu, state) = (self.choices.u16(), self.choices.below(6));
        let (outgoing, incoming) = (self.choices.u64(), self.choices.u64());
        let args = self.args();
        let written = args_to_write(&args);
        let record = ContextSwitch {
            cpu,
            time,
            outgoing: Koid(outgoing),
            incoming: Koid(incoming),
            outgoing_state: STATES[state],
            args: &written,
        };
        self.write(&record, || {
            let (kind, args) = (Kind::ContextSwitch, args_meaning(&args));
            format!("{kind} {nanos} {cpu} {outgoing} {state} {incoming}{args}")
        });
    }

    fn wakeup(&mut self) {
        let (time, nanos) = self.time();
        let (cpu, thread) = (self.choices.u16(), self.choices.u64());
        let args = self.args();
        let written = args_to_write(&args);
        let record = Wakeup { cpu, time, thread: Koid(thread), args: &written };
        self.write(&record, || {
            format!("{} {nanos} {cpu} {thread}{}", Kind::Wakeup, args_meaning(&args))
        });
    }

    fn legacy_context_switch(&mut self) {
        let (time, nanos) = self.time();
        let (cpu, state) = (self.choices.byte(), self.choices.below(6));
        let (outgoing, outgoing_meaning) = self.thread();
        let (incoming, incoming_meaning) = self.thread();
        let (high, low) = (self.choices.byte(), self.choices.byte());
        let record = LegacyContextSwitch {
            cpu,
            time,
            outgoing: LegacySide { thread: outgoing, priority: high },
            incoming: LegacySide { thread: incoming, priority: low },
            outgoing_state: STATES[state],
        };
        self.write(&record, || {
            let kind = Kind::LegacyContextSwitch;
            format!(
                "{kind} {nanos} {cpu} {outgoing_meaning} {state} {high} {incoming_meaning} {low}"
            )
        });
    }

    fn log(&mut self) {
        let (time, nanos) = self.time();
        let (thread, thread_meaning) = self.thread();
        let message = self.choices.text();
        self.write(&Log { time, thread, message: &message }, || {
            format!("{} {nanos} {thread_meaning} {message}", Kind::Log)
        });
    }

    fn large_blob(&mut self) {
        let (category, name, payload) = (self.name(), self.name(), self.choices.payload());
        let (time, nanos) = self.time();
        let (thread, thread_meaning) = self.thread();
        let args = self.args();
        let written = args_to_write(&args);
        let with = self.choices.below(2) == 1;
        let record = LargeBlob {
            category: category.text(),
            name: name.text(),
            metadata: with.then_some(BlobMetadata { time, thread, args: &written }),
            payload: &payload,
        };
        self.write(&record, || {
            let metadata = with.then(|| format!("{nanos} {thread_meaning}"));
            let args = if with { args_meaning(&args) } else { String::new() };
            let (kind, category, name) = (Kind::LargeBlob, category.meaning(), name.meaning());
            format!("{kind} {category} {name} {metadata:?}{args} {payload:?}")
        });
    }

    fn module(&mut self) {
        let (time, nanos) = self.time();
        let (process, meaning) = self.process();
        let (id, name, build_id) =
            (self.choices.u16(), self.choices.text(), self.choices.payload());
        let record = Module { time, process, id, name: &name, build_id: &build_id };
        self.write(&record, || {
            format!("{} {nanos} {meaning} {id} {name} {build_id:?}", Kind::Module)
        });
    }

    fn mapping(&mut self) {
        let (time, nanos) = self.time();
        let (process, meaning) = self.process();
        // One in nine values does not fit.
        let (module, flags) = (self.choices.u16(), self.choices.below(9) as u8);
        let [start, length, module_address] = [(); 3].map(|()| self.choices.u64());
        let record = Mapping { time, process, module, flags, start, length, module_address };
        self.write(&record, || {
            let kind = Kind::Mapping;
            format!("{kind} {nanos} {meaning} {module} {flags} {start} {length} {module_address}")
        });
    }

    fn backtrace(&mut self) {
        let (time, nanos) = self.time();
        let (thread, meaning) = self.thread();
        let count = match self.choices.byte() {
            // One more than the maximum.
            255 => 256,
            254 => 255,
            other => usize::from(other % 9),
        };
        let frames: Vec<u64> = (0..count).map(|_| self.choices.u64()).collect();
        let flags = [0, 1, (1 << 28) - 1, 1 << 28][self.choices.below(4)];
        self.write(&Backtrace { time, thread, flags, frames: &frames }, || {
            format!("{} {nanos} {meaning} {flags} {frames:?}", Kind::Backtrace)
        });
    }

    /// A process, by one of its threads or by its koid.
    fn process(&mut self) -> (ProcessName, String) {
        let (thread, meaning) = self.thread();
        let process = meaning.split('/').next().unwrap_or_default().to_owned();
        let name = match thread {
            ThreadName::Indexed(index) => ProcessName::OfThread(index),
            ThreadName::Inline { process, .. } => ProcessName::Inline(process),
        };
        (name, process)
    }

    /// A time, and its value in nanoseconds; both always fit into 64 bits.
    fn time(&mut self) -> (Ticks, u64) {
        let ticks_per_second = self.provider().ticks_per_second;
        let ticks = match ticks_per_second {
            1_000_000_000.. => self.choices.u64(),
            _ => self.choices.u32().into(),
        };
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second);
        (Ticks(ticks), u64::try_from(nanos).expect("bounded above"))
    }

    fn thread(&mut self) -> (ThreadName, String) {
        let known = self.choices.below(3) > 0;
        let (process, thread) = (self.choices.u64(), self.choices.u64());
        let index = [self.choices.byte() % 8 + 1, 0xff][self.choices.below(2)];
        match self.provider().threads.get(&index) {
            Some(&(process, thread)) if known => {
                let reference = ThreadRef::indexed(index).expect("an index in use");
                (ThreadName::Indexed(reference), describe::thread(process, thread))
            }
            _ => {
                let name = ThreadName::Inline { process: Koid(process), thread: Koid(thread) };
                (name, describe::thread(process, thread))
            }
        }
    }

    fn name(&mut self) -> Name {
        let index = [u16::from(self.choices.byte() % 8) + 1, 0x7fff][self.choices.below(2)];
        match self.provider().strings.get(&index).cloned() {
            Some(text) => Name::Indexed(index, text),
            None => Name::Inline(self.choices.text()),
        }
    }

    /// Up to sixteen arguments, one more than a record may have.
    fn args(&mut self) -> Vec<(Name, Content)> {
        let count = match self.choices.byte() {
            255 => 16,
            254 => 15,
            other => usize::from(other % 4),
        };
        (0..count).map(|_| (self.name(), self.content())).collect()
    }

    fn content(&mut self) -> Content {
        let bits = self.choices.u64();
        let half = (bits & u64::from(u32::MAX)) as u32;
        let (value, text) = match self.choices.below(10) {
            0 => (Value::Null, "null".into()),
            1 => (Value::Int32(half.cast_signed()), format!("i32 {}", half.cast_signed())),
            2 => (Value::Uint32(half), format!("u32 {half}")),
            3 => (Value::Int64(bits.cast_signed()), format!("i64 {}", bits.cast_signed())),
            4 => (Value::Uint64(bits), format!("u64 {bits}")),
            5 => (Value::Double(f64::from_bits(bits)), format!("f64 {bits:x}")),
            6 => return Content::Text(self.name()),
            7 => (Value::Pointer(bits), format!("ptr {bits}")),
            8 => (Value::Koid(Koid(bits)), format!("koid {bits}")),
            _ => (Value::Bool(bits % 2 == 1), format!("bool {}", bits % 2 == 1)),
        };
        Content::Plain(value, text)
    }
}

fn args_to_write(args: &[(Name, Content)]) -> Vec<Arg<'_>> {
    args.iter()
        .map(|(name, content)| match content {
            Content::Plain(value, _) => Arg::new(name.text(), *value),
            Content::Text(text) => Arg::new(name.text(), Value::Str(text.text())),
        })
        .collect()
}

fn args_meaning(args: &[(Name, Content)]) -> String {
    args.iter()
        .map(|(name, content)| match content {
            Content::Plain(_, meaning) => format!(" [{}: {meaning}]", name.meaning()),
            Content::Text(text) => format!(" [{}: str {}]", name.meaning(), text.meaning()),
        })
        .collect()
}
