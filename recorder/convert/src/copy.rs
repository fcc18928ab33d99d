//! Copies records from one trace to another: strings and threads are registered again; koids, times and CPUs are translated.

use fxt_format::limits::{MAX_ARGS, MAX_FRAMES};
use fxt_format::{EventKind, ObjectType};
use fxt_reader::record::{Arg as ReadArg, Args, Event};
use fxt_reader::{Koid, Nanos, Record, Thread};
use fxt_writer::lanes::Lanes;
use fxt_writer::{Arg, Text, ThreadName, Ticks, Value, WriteError, Writer, record as write};

use super::retype;
use fxtrec_capture::stacks::perfetto;
use fxtrec_sched::backtrace::{self, NAME_MODULE};
use fxtrec_units::convention::{FIRST_CPU, HOST, HOST_CPUS};

/// The changes between the two traces.
pub(super) trait Translate {
    /// The koid in the new trace.
    fn koid(&self, koid: Koid) -> Koid {
        koid
    }

    /// The time in the new trace.
    fn time(&self, time: Nanos) -> Nanos {
        time
    }

    /// The CPU in the new trace.
    fn cpu(&self, cpu: u16) -> u16 {
        cpu
    }

    /// The machine on which processes of the trace ran, if the new trace contains several machines.
    fn host(&self) -> Option<&str> {
        None
    }

    /// The number of CPU 0 in the new trace, which has the CPUs of several machines.
    fn first_cpu(&self) -> Option<u16> {
        None
    }

    /// The number of a module of the process in the new trace.
    fn module(&self, _process: Koid, id: u16) -> u16 {
        id
    }

    /// The id in the new trace of the asynchronous operation or flow that the event is of.
    fn correlation(&self, _event: &Event<'_>, id: u64) -> u64 {
        id
    }

    /// The value of an argument of an event, if it has to change.
    fn argument(&self, _event: &Event<'_>, _arg: &ReadArg<'_>) -> Option<Value<'static>> {
        None
    }

    /// The text in the new trace, if it has to change.
    fn text(&self, _role: Role<'_>, _text: &str) -> Option<String> {
        None
    }
}

/// The role of a string in a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role<'a> {
    /// The name of a process, thread or other kernel object.
    Object,
    /// The name of the object at an address of a process.
    Address(Koid),
    /// The file of a module.
    Module,
    Category,
    /// The name of an event, or of a blob.
    Event {
        category: &'a str,
    },
    /// The name of an argument, and its value: with the category of the event that has it, if an event has it.
    Key(Option<&'a str>),
    Value {
        category: Option<&'a str>,
        key: &'a str,
    },
    Message,
}

/// Registers the text as it is written in the new trace.
fn text<'t, L: Lanes>(
    role: Role<'_>,
    text: &'t str,
    target: &mut Writer<L>,
    translate: &impl Translate,
) -> Result<Text<'t>, WriteError<L::Full>> {
    let Some(other) = translate.text(role, text) else { return target.text(text) };
    Ok(match target.text(&other)? {
        Text::Indexed(index) => Text::Indexed(index),
        // The table is full, and an inline text would have to outlive this function.
        Text::Inline(_) => Text::Inline("redacted"),
    })
}

/// Changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsItIs;

impl Translate for AsItIs {}

/// Writes `record` into `target`; false for records that belong to tables or providers, which the caller handles, and for what FXT does not
/// define.
///
/// # Errors
///
/// Returns an error if there is no space, or a record is too large now that one of its strings is inline.
pub(super) fn copy<L: Lanes>(
    record: &Record<'_>,
    target: &mut Writer<L>,
    translate: &impl Translate,
) -> Result<bool, WriteError<L::Full>> {
    let koid = |koid| translate.koid(koid);
    let time = |time| Ticks(translate.time(time).0);
    match record {
        Record::Event(event) => return copy_event(event, target, translate),
        Record::Log(log) => {
            let thread = thread_of(log.thread, target, translate)?;
            let other = translate.text(Role::Message, log.message);
            let message = other.as_deref().unwrap_or(log.message);
            target.write(&write::Log { time: time(log.time), thread, message })?;
        }
        Record::Module(module) => {
            let other = translate.text(Role::Module, module.name);
            target.write(&write::Module {
                time: time(module.time),
                process: write::ProcessName::Inline(koid(module.process)),
                id: translate.module(module.process, module.id),
                name: other.as_deref().unwrap_or(module.name),
                build_id: if other.is_none() { module.build_id } else { &[] },
            })?;
        }
        Record::Mapping(mapping) => target.write(&write::Mapping {
            time: time(mapping.time),
            process: write::ProcessName::Inline(koid(mapping.process)),
            module: translate.module(mapping.process, mapping.module),
            flags: mapping.flags,
            start: mapping.start,
            length: mapping.length,
            module_address: mapping.module_address,
        })?,
        Record::Backtrace(backtrace) => {
            let thread = thread_of(backtrace.thread, target, translate)?;
            let mut frames = [0; MAX_FRAMES];
            let count = backtrace.frames.len().min(MAX_FRAMES);
            frames.iter_mut().zip(backtrace.frames.iter()).for_each(|(to, frame)| *to = frame);
            target.write(&write::Backtrace {
                time: time(backtrace.time),
                thread,
                flags: backtrace.flags,
                frames: &frames[..count],
            })?;
        }
        Record::KernelObject(object) => {
            let mut args = arguments(object.args, None, target, translate)?;
            if object.object_type == ObjectType::Process
                && object.args.str("host").is_none()
                && let Some(host) = translate.host()
            {
                let role = Role::Value { category: None, key: "host" };
                let host = Value::Str(text(role, host, target, translate)?);
                args.push(Arg::new(target.text("host")?, host));
            }
            let name = text(Role::Object, object.name, target, translate)?;
            target.write(&write::KernelObject {
                object_type: object.object_type,
                koid: koid(object.koid),
                name,
                args: args.as_slice(),
            })?;
        }
        Record::UserspaceObject(object) => {
            let mut args = arguments(object.args, None, target, translate)?;
            if let Some(id) = backtrace::module_of_name(&object.args) {
                let id = translate.module(object.process, id);
                let name = target.text(NAME_MODULE)?;
                args.replace(Arg::new(name, Value::uint(id.into())));
            }
            let process = koid(object.process);
            let name = text(Role::Address(object.process), object.name, target, translate)?;
            target.write(&write::UserspaceObject {
                pointer: object.pointer,
                process: ThreadName::Inline { process, thread: process },
                name,
                args: args.as_slice(),
            })?;
        }
        Record::ContextSwitch(switch) => {
            let args = arguments(switch.args, None, target, translate)?;
            target.write(&write::ContextSwitch {
                cpu: translate.cpu(switch.cpu.0),
                time: time(switch.time),
                outgoing: koid(switch.outgoing),
                incoming: koid(switch.incoming),
                outgoing_state: switch.outgoing_state,
                args: args.as_slice(),
            })?;
        }
        Record::LegacyContextSwitch(switch) => {
            let Ok(cpu) = u8::try_from(translate.cpu(switch.cpu.0)) else {
                return Ok(false);
            };
            let outgoing = thread_of(switch.outgoing, target, translate)?;
            let incoming = thread_of(switch.incoming, target, translate)?;
            let side = |thread, priority| write::LegacySide { thread, priority };
            target.write(&write::LegacyContextSwitch {
                cpu,
                time: time(switch.time),
                outgoing: side(outgoing, switch.outgoing_priority),
                incoming: side(incoming, switch.incoming_priority),
                outgoing_state: switch.outgoing_state,
            })?;
        }
        Record::Wakeup(wakeup) => {
            let args = arguments(wakeup.args, None, target, translate)?;
            target.write(&write::Wakeup {
                cpu: translate.cpu(wakeup.cpu.0),
                time: time(wakeup.time),
                thread: koid(wakeup.koid),
                args: args.as_slice(),
            })?;
        }
        Record::Blob(blob) => {
            let blob_type = match blob.blob_type {
                fxt_reader::record::BlobType::LastBranch => write::BlobType::LastBranch,
                fxt_reader::record::BlobType::Perfetto => write::BlobType::Perfetto,
                _ => write::BlobType::Data,
            };
            let about = |about: perfetto::About| perfetto::About {
                time: time(Nanos(about.time)).0,
                process: koid(Koid(about.process)).0,
                thread: koid(Koid(about.thread)).0,
            };
            let translated = match blob.name {
                perfetto::BLOB => perfetto::rewrite(blob.payload, |it| Some(about(it))),
                _ => None,
            };
            let payload = translated.as_deref().unwrap_or(blob.payload);
            let name = target.text(blob.name)?;
            target.write(&write::Blob { name, blob_type, payload })?;
        }
        Record::LargeBlob(blob) => {
            let (category, name) = (target.text(blob.category)?, target.text(blob.name)?);
            let Some(about) = blob.metadata else {
                let payload = blob.payload;
                target.write(&write::LargeBlob { category, name, metadata: None, payload })?;
                return Ok(true);
            };
            let args = arguments(about.args, None, target, translate)?;
            let thread = thread_of(about.thread, target, translate)?;
            let metadata =
                write::BlobMetadata { time: time(about.time), thread, args: args.as_slice() };
            let metadata = Some(metadata);
            target.write(&write::LargeBlob { category, name, metadata, payload: blob.payload })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn copy_event<L: Lanes>(
    event: &Event<'_>,
    target: &mut Writer<L>,
    translate: &impl Translate,
) -> Result<bool, WriteError<L::Full>> {
    let kind = correlated(event.kind, |id| translate.correlation(event, id));
    let kind = kind.map(|end| Ticks(translate.time(end).0));
    let args = arguments(event.args, Some(event), target, translate)?;
    let thread = thread_of(event.thread, target, translate)?;
    let name = text(Role::Event { category: event.category }, event.name, target, translate)?;
    let category = text(Role::Category, event.category, target, translate)?;
    let (time, args) = (Ticks(translate.time(event.time).0), args.as_slice());
    target.write(&write::Event { kind, time, thread, category, name, args })?;
    if let ("fxtrec", "trace_info") = (event.category, event.name)
        && let Some((first, host)) = translate.first_cpu().zip(translate.host())
    {
        let role = Role::Value { category: Some("fxtrec"), key: HOST };
        let host = Value::Str(text(role, host, target, translate)?);
        let args = [
            Arg::new(target.text(HOST)?, host),
            Arg::new(target.text(FIRST_CPU)?, Value::Uint32(first.into())),
        ];
        let (kind, name) = (EventKind::Instant, target.text(HOST_CPUS)?);
        target.write(&write::Event { kind, time, thread, category, name, args: &args })?;
    }
    Ok(true)
}

/// The kind with another id, if it is a kind of operation or flow.
fn correlated<T>(kind: EventKind<T>, new: impl FnOnce(u64) -> u64) -> EventKind<T> {
    match kind {
        EventKind::AsyncBegin { id } => EventKind::AsyncBegin { id: new(id) },
        EventKind::AsyncInstant { id } => EventKind::AsyncInstant { id: new(id) },
        EventKind::AsyncEnd { id } => EventKind::AsyncEnd { id: new(id) },
        EventKind::FlowBegin { id } => EventKind::FlowBegin { id: new(id) },
        EventKind::FlowStep { id } => EventKind::FlowStep { id: new(id) },
        EventKind::FlowEnd { id } => EventKind::FlowEnd { id: new(id) },
        kind => kind,
    }
}

fn thread_of<L: Lanes>(
    thread: Thread,
    target: &mut Writer<L>,
    translate: &impl Translate,
) -> Result<ThreadName, WriteError<L::Full>> {
    let (process, own) = (translate.koid(thread.process), translate.koid(thread.thread));
    target.thread((process, own))
}

/// Arguments for a record of the new trace.
pub(super) struct Arguments<'a> {
    items: [Arg<'a>; MAX_ARGS],
    length: usize,
}

impl<'a> Arguments<'a> {
    pub(super) fn new() -> Self {
        Self { items: [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS], length: 0 }
    }

    /// Adds one, unless the record already has the maximum number.
    pub(super) fn push(&mut self, arg: Arg<'a>) {
        if let Some(place) = self.items.get_mut(self.length) {
            *place = arg;
            self.length += 1;
        }
    }

    /// Gives the item with this name another value.
    fn replace(&mut self, arg: Arg<'a>) {
        let known = self.items[..self.length].iter_mut().find(|known| known.name == arg.name);
        if let Some(known) = known {
            *known = arg;
        }
    }

    pub(super) fn as_slice(&self) -> &[Arg<'a>] {
        &self.items[..self.length]
    }
}

/// The arguments of a record, their strings registered. An argument of a type that FXT does not define is left out: its content may have
/// another meaning elsewhere.
pub(super) fn arguments<'a, L: Lanes>(
    args: Args<'a>,
    event: Option<&Event<'_>>,
    target: &mut Writer<L>,
    translate: &impl Translate,
) -> Result<Arguments<'a>, WriteError<L::Full>> {
    let mut copied = Arguments::new();
    let category = event.map(|event| event.category);
    for arg in &args {
        let changed = event.and_then(|event| translate.argument(event, &arg));
        let value = match (changed, arg.value) {
            (Some(value), _) => Some(value),
            (None, fxt_reader::record::Value::Str(value)) => {
                let role = Role::Value { category, key: arg.name };
                Some(Value::Str(text(role, value, target, translate)?))
            }
            (None, fxt_reader::record::Value::Koid(koid)) => {
                Some(Value::Koid(translate.koid(koid)))
            }
            (None, value) => retype::value(value),
        };
        if let Some(value) = value {
            let key = text(Role::Key(category), arg.name, target, translate)?;
            copied.push(Arg::new(key, value));
        }
    }
    Ok(copied)
}
