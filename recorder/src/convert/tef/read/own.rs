//! Events that fxtrec itself wrote for records that JSON has nothing like, read back.
//!
//! Each has the field `fxt`. One that is not as fxtrec writes it is read as any other event.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fxt_writer::layout::limits::MAX_ARGS;
use fxt_writer::record::{
    BlobMetadata, ContextSwitch, KernelObject, LargeBlob, LegacyContextSwitch, LegacySide, Log,
    ObjectType, ProviderEvent, ThreadState, UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, EncodeError, Koid, ProviderId, Text, Ticks, Value, WriteError};

use super::args::ArgSet;
use super::fields::{Fields, moment, string};
use super::ids::pointer;
use super::members::{Members, integer, text};
use super::{Importer, PROVIDER, Target};
use crate::convert::error::{ConvertError, Position};
use crate::convert::tef::marks;

impl Importer<'_> {
    /// Reads an event back; false when it is not one of fxtrec's.
    pub(super) fn own(&mut self, fields: &Fields<'_>, at: Position) -> Result<bool, ConvertError> {
        let mark = fields.mark.and_then(text).unwrap_or_default();
        if mark == marks::DERIVED {
            return Ok(true);
        }
        let content = if fields.switch.is_some() { fields.switch } else { fields.args };
        let Some(args) = content.and_then(Members::of) else { return Ok(false) };
        let read = match &*mark {
            marks::SWITCH => self.switch(fields, args, at),
            marks::LEGACY_SWITCH => self.legacy_switch(fields, &args, at),
            marks::WAKEUP => self.wakeup(fields, args, at),
            marks::LOG => self.log(fields, &args, at),
            marks::PROVIDER => self.provider(&args),
            marks::PROVIDER_EVENT => self.provider_event(&args),
            marks::KERNEL_OBJECT => self.other_object(fields, &args, at),
            marks::USERSPACE_OBJECT => self.userspace_object(fields, &args, at),
            marks::LARGE_BLOB => self.large_blob(fields, &args, at),
            _ => return Ok(false),
        };
        match read {
            Ok(done) => Ok(done.is_some()),
            // As any other event it may fit.
            Err(ConvertError::Encode(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn switch<'a>(
        &mut self,
        fields: &Fields<'a>,
        mut args: Members<'a>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let time = end_of(fields, at)?;
        let Some(switch) = Sides::of(fields, &mut args) else { return Ok(None) };
        self.now = Some(time);
        with_args(self.target()?, &args, fields, |target, args| {
            target.write(&ContextSwitch {
                cpu: switch.cpu,
                time: Ticks(time),
                outgoing: Koid(switch.outgoing),
                incoming: Koid(switch.incoming),
                outgoing_state: switch.state,
                args,
            })
        })
        .map(Some)
    }

    fn legacy_switch<'a>(
        &mut self,
        fields: &Fields<'a>,
        args: &Members<'a>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let time = end_of(fields, at)?;
        let number = |name| args.get(name).and_then(integer);
        let priority = |name| number(name).and_then(|number| u8::try_from(number).ok());
        let mut sides = Members(args.0.clone());
        let parts = (|| {
            Some((
                Sides::of(fields, &mut sides)?,
                (Koid(number("outgoing_process")?), priority("outgoing_priority")?),
                (Koid(number("incoming_process")?), priority("incoming_priority")?),
            ))
        })();
        let Some((switch, (from, high), (to, low))) = parts else { return Ok(None) };
        let Ok(cpu) = u8::try_from(switch.cpu) else { return Ok(None) };
        self.now = Some(time);
        let target = self.target()?;
        let outgoing = target.thread((from, Koid(switch.outgoing)))?;
        let incoming = target.thread((to, Koid(switch.incoming)))?;
        target.write(&LegacyContextSwitch {
            cpu,
            time: Ticks(time),
            outgoing: LegacySide { thread: outgoing, priority: high },
            incoming: LegacySide { thread: incoming, priority: low },
            outgoing_state: switch.state,
        })?;
        Ok(Some(()))
    }

    fn wakeup<'a>(
        &mut self,
        fields: &Fields<'a>,
        mut args: Members<'a>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let time = moment(fields.time, "ts", at)?.nanos;
        let cpu = args.take("cpu").and_then(integer).and_then(|cpu| u16::try_from(cpu).ok());
        let (Some(cpu), Some(thread)) = (cpu, fields.thread.and_then(integer)) else {
            return Ok(None);
        };
        self.now = Some(time);
        with_args(self.target()?, &args, fields, |target, args| {
            target.write(&Wakeup { cpu, time: Ticks(time), thread: Koid(thread), args })
        })
        .map(Some)
    }

    fn log(
        &mut self,
        fields: &Fields<'_>,
        args: &Members<'_>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let time = moment(fields.time, "ts", at)?.nanos;
        let Some(message) = args.get("message").and_then(text) else { return Ok(None) };
        let (process, thread) = self.thread_of(fields)?;
        self.now = Some(time);
        let target = self.target()?;
        let thread = target.thread((Koid(process), Koid(thread)))?;
        target.write(&Log { time: Ticks(time), thread, message: &message })?;
        Ok(Some(()))
    }

    fn provider(&mut self, args: &Members<'_>) -> Result<Option<()>, ConvertError> {
        let id = args.get("id").and_then(integer).and_then(|id| u32::try_from(id).ok());
        let (Some(id), Some(name)) = (id, args.get("name").and_then(text)) else { return Ok(None) };
        if name != PROVIDER.1 {
            // Written from FXT, in which an id has one meaning.
            self.ids.trust_threads();
        }
        self.switch_provider(ProviderId(id), &name)?;
        Ok(Some(()))
    }

    fn provider_event(&mut self, args: &Members<'_>) -> Result<Option<()>, ConvertError> {
        let id = args.get("id").and_then(integer).and_then(|id| u32::try_from(id).ok());
        let event = args.get("event").and_then(integer).and_then(|event| u8::try_from(event).ok());
        let (Some(id), Some(event)) = (id, event) else { return Ok(None) };
        self.target()?.write(&ProviderEvent { id: ProviderId(id), event })?;
        Ok(Some(()))
    }

    fn other_object<'a>(
        &mut self,
        fields: &Fields<'a>,
        args: &Members<'a>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let name = string(fields.name, "name", at)?;
        let parts = (|| {
            let mut members = args.get("snapshot").and_then(Members::of)?;
            let kind = u8::try_from(members.take("type").and_then(integer)?).ok()?;
            Some((kind, id(fields)?, members))
        })();
        let Some((kind, koid, members)) = parts else { return Ok(None) };
        with_args(self.target()?, &members, fields, |target, args| {
            let name = target.text(&name)?;
            let kind = ObjectType::Other(kind);
            target.write(&KernelObject { kind, koid: Koid(koid), name, args })
        })
        .map(Some)
    }

    fn userspace_object<'a>(
        &mut self,
        fields: &Fields<'a>,
        args: &Members<'a>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let name = string(fields.name, "name", at)?;
        let members = args.get("snapshot").and_then(Members::of);
        let (Some(members), Some(pointer)) = (members, id(fields)) else { return Ok(None) };
        let process = Koid(self.process_of(fields)?);
        with_args(self.target()?, &members, fields, |target, args| {
            let process = fxt_writer::ThreadName::Inline { process, thread: process };
            let name = target.text(&name)?;
            target.write(&UserspaceObject { pointer, process, name, args })
        })
        .map(Some)
    }

    fn large_blob<'a>(
        &mut self,
        fields: &Fields<'a>,
        args: &Members<'a>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let category = string(fields.category, "cat", at)?;
        let name = string(fields.name, "name", at)?;
        let time = moment(fields.time, "ts", at)?.nanos;
        let parts = (|| {
            let mut members = args.get("snapshot").and_then(Members::of)?;
            let data = members.take("data").and_then(text)?;
            Some((STANDARD.decode(&*data).ok()?, members))
        })();
        let Some((payload, members)) = parts else { return Ok(None) };
        let (process, thread) = self.thread_of(fields)?;
        self.now = Some(time);
        with_args(self.target()?, &members, fields, |target, args| {
            let thread = target.thread((Koid(process), Koid(thread)))?;
            let metadata = Some(BlobMetadata { time: Ticks(time), thread, args });
            let (category, name) = (target.text(&category)?, target.text(&name)?);
            target.write(&LargeBlob { category, name, metadata, payload: &payload })
        })
        .map(Some)
    }
}

/// What the slice of a switch says about it.
struct Sides {
    cpu: u16,
    outgoing: u64,
    incoming: u64,
    state: ThreadState,
}

impl Sides {
    /// Takes its parts out of the arguments.
    fn of(fields: &Fields<'_>, args: &mut Members<'_>) -> Option<Self> {
        let state = args.take("state").and_then(text)?;
        Some(Self {
            cpu: u16::try_from(fields.thread.and_then(integer)?).ok()?,
            outgoing: args.take("thread").and_then(integer)?,
            incoming: args.take("next").and_then(integer)?,
            state: match &*state {
                "new" => ThreadState::New,
                "running" => ThreadState::Running,
                "suspended" => ThreadState::Suspended,
                "blocked" => ThreadState::Blocked,
                "dying" => ThreadState::Dying,
                "dead" => ThreadState::Dead,
                _ => return None,
            },
        })
    }
}

/// The time at which a slice ends, in nanoseconds.
fn end_of(fields: &Fields<'_>, at: Position) -> Result<u64, ConvertError> {
    let time = moment(fields.time, "ts", at)?.nanos;
    // What ends is an end, or has a length.
    let Some(length) = fields.duration else { return Ok(time) };
    Ok(time.saturating_add(moment(Some(length), "dur", at)?.nanos))
}

/// The number in the field `id`.
fn id(fields: &Fields<'_>) -> Option<u64> {
    pointer(&text(fields.id?)?)
}

/// Hands the arguments of a record over, in the order of the JSON.
fn with_args<'a, 'o>(
    target: &mut Target<'o>,
    members: &Members<'a>,
    fields: &Fields<'a>,
    write: impl FnOnce(&mut Target<'o>, &[Arg<'_>]) -> Result<(), WriteError<std::io::Error>>,
) -> Result<(), ConvertError> {
    let mut set = ArgSet::default();
    set.add(members, fields.types.as_ref());
    set.with(|list| {
        let mut args = [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS];
        let Some(args) = args.get_mut(..list.len()) else {
            return Err(EncodeError::TooManyArgs { count: list.len() }.into());
        };
        for (arg, (name, value)) in args.iter_mut().zip(list) {
            *arg = Arg::new(target.text(name)?, *value);
        }
        Ok(write(target, args)?)
    })
}
