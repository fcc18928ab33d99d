//! One record as one line.
//!
//! ```text
//!     offset  seconds.nanoseconds  type            fields
//!       1480         8.123456789  context_switch  cpu=1 out=42:work blocked in=0:idle ...
//! ```
//!
//! Fields are `key=value` and strings are quoted, so that common tools can search and cut the lines. A koid is shown with its current name
//! or, before it is named, with its first later name, if the file can be read twice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Write};

use fxt_reader::record::{Args, EventKind, LargeBlobMetadata, Value};
use fxt_reader::{Error, Item, Koid, Nanos, ProviderId, Reader, Record, Thread};

/// The provider that records the scheduler; imported traces have it, too.
const RECORDER: &str = "fxtrec";

/// Writes records, remembering the names of koids.
#[derive(Debug)]
pub(super) struct Lines {
    raw: bool,
    names: HashMap<Koid, String>,
    /// Providers that record the scheduler: in their events koid 0 is the idle task, too.
    recorders: HashSet<ProviderId>,
}

/// A koid and its name, if it has one.
struct Named<'a>(Koid, Option<&'a str>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(koid, Some(name)) => write!(f, "{koid}:{}", name.escape_debug()),
            Self(koid, None) => koid.fmt(f),
        }
    }
}

/// The names of koids for a record.
struct Names<'a> {
    lines: &'a Lines,
    /// Whether koid 0 is the idle task: it is in scheduling records and in records of a provider that records the scheduler. Elsewhere it
    /// is an unknown process.
    has_idle: bool,
}

/// Arguments, with the names of the koids in them.
struct WithArgs<'a>(Args<'a>, &'a Names<'a>);

impl fmt::Display for WithArgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for arg in &self.0 {
            write!(f, " {}=", arg.name.escape_debug())?;
            match arg.value {
                Value::Koid(koid) => write!(f, "koid:{}", self.1.named(koid))?,
                value => write!(f, "{value}")?,
            }
        }
        Ok(())
    }
}

impl Lines {
    pub(super) fn new(raw: bool) -> Self {
        Self { raw, names: HashMap::new(), recorders: HashSet::new() }
    }

    /// Learns the first name of every koid. Read errors are reported when the records are printed.
    pub(super) fn learn_ahead(&mut self, reader: &mut Reader<'_>) {
        loop {
            match reader.next() {
                Ok(Some(item)) => {
                    if let Record::KernelObject(object) = item.record {
                        self.names.entry(object.koid).or_insert_with(|| object.name.to_owned());
                    }
                }
                Err(Error::Damaged(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Remembers the definitions to which later lines refer.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        match record {
            Record::KernelObject(object) => {
                self.names.insert(object.koid, object.name.to_owned());
            }
            Record::ProviderInfo(info) if info.name == RECORDER => {
                self.recorders.insert(info.id);
            }
            _ => {}
        }
    }

    /// Writes the line of `item`, and with `--raw` its words.
    pub(super) fn write(&self, item: &Item<'_>, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{:>10}  ", item.offset)?;
        match item.record.time() {
            Some(time) => write!(out, "{:>20}  ", time.to_string())?,
            None => write!(out, "{:>20}  ", "")?,
        }
        match item.record {
            Record::MagicNumber => write!(out, "{}", item.record.kind())?,
            _ => write!(out, "{:<16}", item.record.kind())?,
        }
        let is_scheduling = matches!(
            item.record,
            Record::ContextSwitch(_) | Record::LegacyContextSwitch(_) | Record::Wakeup(_)
        );
        let is_recorders = item.provider.is_some_and(|id| self.recorders.contains(&id));
        let names = Names { lines: self, has_idle: is_scheduling || is_recorders };
        names.write_fields(&item.record, out)?;
        if !item.oddities.is_empty() {
            write!(out, "  # {:?}", item.oddities)?;
        }
        writeln!(out)?;
        if self.raw {
            write_words(item, out)?;
        }
        Ok(())
    }

    /// The name of the thread, process or object, if it is known.
    pub(super) fn name_of(&self, koid: Koid) -> Option<&str> {
        self.names.get(&koid).map(String::as_str)
    }
}

impl Names<'_> {
    fn write_fields(&self, record: &Record<'_>, out: &mut dyn Write) -> io::Result<()> {
        match record {
            Record::MagicNumber => Ok(()),
            Record::ProviderInfo(info) => write!(out, " id={} name={:?}", info.id, info.name),
            Record::ProviderSection(section) => write!(out, " id={}", section.id),
            Record::ProviderEvent(event) => write!(out, " id={} event={:?}", event.id, event.event),
            Record::Initialization(initialization) => {
                write!(out, " ticks_per_second={}", initialization.ticks_per_second)
            }
            Record::String(string) => write!(out, " index={} {:?}", string.index, string.value),
            Record::Thread(record) => {
                write!(out, " index={}", record.index)?;
                self.write_thread(record.thread, out)
            }
            Record::Event(event) => {
                write!(out, " {:?} {:?}", event.category, event.name)?;
                self.write_thread(event.thread, out)?;
                write!(out, "{}", WithArgs(event.args, self))?;
                write_event_kind(event.kind, event.time, out)
            }
            Record::Blob(blob) => {
                let (name, kind, bytes) = (blob.name, blob.blob_type, blob.payload.len());
                write!(out, " {name:?} type={kind:?} bytes={bytes}")
            }
            Record::UserspaceObject(object) => {
                let process = self.named(object.process);
                write!(out, " {:?} pointer={:#x} process={process}", object.name, object.pointer)?;
                write!(out, "{}", WithArgs(object.args, self))
            }
            Record::KernelObject(object) => {
                let (kind, koid, name) = (object.object_type, object.koid, object.name);
                write!(out, " {kind} koid={koid} {name:?}{}", WithArgs(object.args, self))
            }
            Record::ContextSwitch(switch) => {
                let (outgoing, incoming) =
                    (self.named(switch.outgoing), self.named(switch.incoming));
                let (cpu, state) = (switch.cpu, switch.outgoing_state);
                write!(out, " cpu={cpu} out={outgoing} {state} in={incoming}")?;
                write!(out, "{}", WithArgs(switch.args, self))
            }
            Record::Wakeup(wakeup) => {
                let (cpu, thread) = (wakeup.cpu, self.named(wakeup.koid));
                write!(out, " cpu={cpu} thread={thread}{}", WithArgs(wakeup.args, self))
            }
            Record::LegacyContextSwitch(switch) => {
                let outgoing = self.named(switch.outgoing.thread);
                let incoming = self.named(switch.incoming.thread);
                let (cpu, state) = (switch.cpu, switch.outgoing_state);
                let (high, low) = (switch.outgoing_priority, switch.incoming_priority);
                write!(out, " cpu={cpu} out={outgoing} {state} in={incoming}")?;
                write!(out, " outgoing_priority={high} incoming_priority={low}")
            }
            Record::Log(log) => {
                self.write_thread(log.thread, out)?;
                write!(out, " {:?}", log.message)
            }
            Record::Module(module) => {
                let (process, id, name) = (self.named(module.process), module.id, module.name);
                write!(out, " process={process} id={id} {name:?} build_id=")?;
                module.build_id.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            Record::Mapping(mapping) => {
                let (process, id) = (self.named(mapping.process), mapping.module);
                let (start, length) = (mapping.start, mapping.length);
                write!(out, " process={process} module={id} start={start:#x} length={length:#x}")?;
                write!(
                    out,
                    " module_address={:#x} flags={:#x}",
                    mapping.module_address, mapping.flags
                )
            }
            Record::Backtrace(backtrace) => {
                self.write_thread(backtrace.thread, out)?;
                write!(out, " flags={:#x} frames={}", backtrace.flags, backtrace.frames.len())?;
                backtrace.frames.iter().try_for_each(|frame| write!(out, " {frame:#x}"))
            }
            Record::LargeBlob(blob) => {
                write!(out, " {:?} {:?}", blob.category, blob.name)?;
                if let Some(LargeBlobMetadata { thread, args, .. }) = blob.metadata {
                    self.write_thread(thread, out)?;
                    write!(out, "{}", WithArgs(args, self))?;
                }
                write!(out, " bytes={}", blob.payload.len())
            }
            Record::Unknown(what) => write!(out, " {what:?}"),
            other => write!(out, " {other:?}"),
        }
    }

    fn named(&self, koid: Koid) -> Named<'_> {
        let idle = (koid == Koid(0) && self.has_idle).then_some("idle");
        Named(koid, self.lines.name_of(koid).or(idle))
    }

    fn write_thread(&self, thread: Thread, out: &mut dyn Write) -> io::Result<()> {
        let (process, thread) = (self.named(thread.process), self.named(thread.thread));
        write!(out, " process={process} thread={thread}")
    }
}

fn write_event_kind(kind: EventKind, begin: Nanos, out: &mut dyn Write) -> io::Result<()> {
    match (kind, kind.id()) {
        (EventKind::DurationComplete { end }, _) => {
            write!(out, " end={end} duration_ns={}", end.0.saturating_sub(begin.0))
        }
        (_, Some(id)) => write!(out, " id={id}"),
        (_, None) => Ok(()),
    }
}

/// The words of a record, each at its offset, the header with its fields.
fn write_words(item: &Item<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (offset, word) in (item.offset..).step_by(8).zip(item.raw.words()) {
        write!(out, "{offset:>10}      {word:016x}")?;
        if offset == item.offset {
            for (name, value) in item.raw.fields() {
                write!(out, " {name}={value}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
