//! Reads back events that fxtrec wrote for records without an equivalent in JSON.
//!
//! Each has the field `fxt`. An event that is not exactly as fxtrec writes it is read like any other event.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fxt_format::limits::MAX_ARGS;
use fxt_writer::record::{
    BlobMetadata, ContextSwitch, KernelObject, LargeBlob, LegacyContextSwitch, LegacySide, Log,
    ObjectType, ProviderEvent, ProviderEventKind, ThreadState, UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, EncodeError, Koid, ProviderId, Text, Ticks, Value, WriteError};

use super::args::ArgSet;
use super::fields::{Fields, moment, string};
use super::ids::pointer;
use super::members::{Members, integer, text};
use super::{Importer, PROVIDER, Target};
use crate::error::{ConvertError, Position};
use crate::tef::marks;

struct Own<'e, 'a> {
    fields: &'e Fields<'a>,
    /// The record's arguments and its other fields.
    members: Members<'a>,
    at: Position,
}

impl Importer<'_> {
    /// Reads an event back; false if it is not one of fxtrec's.
    pub(super) fn own(&mut self, fields: &Fields<'_>, at: Position) -> Result<bool, ConvertError> {
        let mark = fields.mark.and_then(text).unwrap_or_default();
        if mark == marks::DERIVED {
            return Ok(true);
        }
        let content = if fields.switch.is_some() { fields.switch } else { fields.args };
        let Some(members) = content.and_then(Members::of) else { return Ok(false) };
        let own = Own { fields, members, at };
        let read = match &*mark {
            marks::SWITCH => self.switch(own),
            marks::LEGACY_SWITCH => self.legacy_switch(own),
            marks::WAKEUP => self.wakeup(own),
            marks::LOG => self.log(&own),
            marks::PROVIDER => self.provider(&own.members),
            marks::PROVIDER_EVENT => self.provider_event(&own.members),
            marks::KERNEL_OBJECT => self.other_object(&own),
            marks::USERSPACE_OBJECT => self.userspace_object(&own),
            marks::LARGE_BLOB => self.large_blob(&own),
            _ => return Ok(false),
        };
        match read {
            Ok(done) => Ok(done.is_some()),
            // It may fit as an ordinary event.
            Err(ConvertError::Encode(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn switch(&mut self, mut own: Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let time = own.end()?;
        let Some(switch) = own.sides() else { return Ok(None) };
        self.now = Some(time);
        own.with_args(&own.members, self.target()?, |target, args| {
            target.write(&ContextSwitch {
                cpu: switch.cpu,
                time: Ticks(time),
                outgoing: Koid(switch.outgoing),
                incoming: Koid(switch.incoming),
                outgoing_state: switch.state,
                args,
            })
        })
    }

    fn legacy_switch(&mut self, mut own: Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let time = own.end()?;
        let parts = (|| {
            Some((
                own.sides()?,
                (
                    Koid(own.members.number("outgoing_process")?),
                    own.members.number("outgoing_priority")?,
                ),
                (
                    Koid(own.members.number("incoming_process")?),
                    own.members.number("incoming_priority")?,
                ),
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

    fn wakeup(&mut self, mut own: Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let time = own.time()?;
        let cpu = own.members.take_number("cpu");
        let (Some(cpu), Some(thread)) = (cpu, own.fields.thread.and_then(integer)) else {
            return Ok(None);
        };
        self.now = Some(time);
        own.with_args(&own.members, self.target()?, |target, args| {
            target.write(&Wakeup { cpu, time: Ticks(time), thread: Koid(thread), args })
        })
    }

    fn log(&mut self, own: &Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let time = own.time()?;
        let Some(message) = own.members.get("message").and_then(text) else { return Ok(None) };
        let (process, thread) = self.thread_of(own.fields)?;
        self.now = Some(time);
        let target = self.target()?;
        let thread = target.thread((Koid(process), Koid(thread)))?;
        target.write(&Log { time: Ticks(time), thread, message: &message })?;
        Ok(Some(()))
    }

    fn provider(&mut self, members: &Members<'_>) -> Result<Option<()>, ConvertError> {
        let (id, name) = (members.number("id"), members.get("name").and_then(text));
        let (Some(id), Some(name)) = (id, name) else { return Ok(None) };
        if name != PROVIDER.1 {
            // The file was written from FXT, in which every id is unique.
            self.ids.trust_threads();
        }
        self.switch_provider(ProviderId(id), &name)?;
        Ok(Some(()))
    }

    fn provider_event(&mut self, members: &Members<'_>) -> Result<Option<()>, ConvertError> {
        let (id, event) = (members.number("id"), members.number("event"));
        let (Some(id), Some(event)) = (id, event) else { return Ok(None) };
        let event = ProviderEventKind::from_field(u8::into(event));
        self.target()?.write(&ProviderEvent { id: ProviderId(id), event })?;
        Ok(Some(()))
    }

    fn other_object(&mut self, own: &Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let name = own.name()?;
        let parts = (|| {
            let mut members = own.snapshot()?;
            let kind = members.take_number("type")?;
            Some((kind, own.id()?, members))
        })();
        let Some((kind, koid, members)) = parts else { return Ok(None) };
        own.with_args(&members, self.target()?, |target, args| {
            let name = target.text(&name)?;
            let kind = ObjectType::Other(kind);
            target.write(&KernelObject { object_type: kind, koid: Koid(koid), name, args })
        })
    }

    fn userspace_object(&mut self, own: &Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let name = own.name()?;
        let (Some(members), Some(pointer)) = (own.snapshot(), own.id()) else { return Ok(None) };
        let process = Koid(self.process_of(own.fields)?);
        own.with_args(&members, self.target()?, |target, args| {
            let process = fxt_writer::ThreadName::Inline { process, thread: process };
            let name = target.text(&name)?;
            target.write(&UserspaceObject { pointer, process, name, args })
        })
    }

    fn large_blob(&mut self, own: &Own<'_, '_>) -> Result<Option<()>, ConvertError> {
        let category = string(own.fields.category, "cat", own.at)?;
        let (name, time) = (own.name()?, own.time()?);
        let parts = (|| {
            let mut members = own.snapshot()?;
            let data = members.take("data").and_then(text)?;
            Some((STANDARD.decode(&*data).ok()?, members))
        })();
        let Some((payload, members)) = parts else { return Ok(None) };
        let (process, thread) = self.thread_of(own.fields)?;
        self.now = Some(time);
        own.with_args(&members, self.target()?, |target, args| {
            let thread = target.thread((Koid(process), Koid(thread)))?;
            let metadata = Some(BlobMetadata { time: Ticks(time), thread, args });
            let (category, name) = (target.text(&category)?, target.text(&name)?);
            target.write(&LargeBlob { category, name, metadata, payload: &payload })
        })
    }
}

/// The parts of a switch, from its slice.
struct Sides {
    cpu: u16,
    outgoing: u64,
    incoming: u64,
    state: ThreadState,
}

impl<'a> Own<'_, 'a> {
    /// The event's time in nanoseconds.
    fn time(&self) -> Result<u64, ConvertError> {
        Ok(moment(self.fields.time, "ts", self.at)?.nanos)
    }

    /// The end of a slice, in nanoseconds.
    fn end(&self) -> Result<u64, ConvertError> {
        let time = self.time()?;
        // The event is an end, or has a length.
        let Some(length) = self.fields.duration else { return Ok(time) };
        Ok(time.saturating_add(moment(Some(length), "dur", self.at)?.nanos))
    }

    fn name(&self) -> Result<Cow<'a, str>, ConvertError> {
        string(self.fields.name, "name", self.at)
    }

    /// The number in the field `id`.
    fn id(&self) -> Option<u64> {
        pointer(&text(self.fields.id?)?)
    }

    /// The members of an object's snapshot.
    fn snapshot(&self) -> Option<Members<'a>> {
        self.members.get("snapshot").and_then(Members::of)
    }

    /// Takes the parts of a switch out of the members.
    fn sides(&mut self) -> Option<Sides> {
        let state = self.members.take("state").and_then(text)?;
        Some(Sides {
            cpu: u16::try_from(self.fields.thread.and_then(integer)?).ok()?,
            outgoing: self.members.take_number("thread")?,
            incoming: self.members.take_number("next")?,
            state: ThreadState::named(&state)?,
        })
    }

    /// Passes the arguments of a record on, in the order of the JSON.
    fn with_args<'o>(
        &self,
        members: &Members<'a>,
        target: &mut Target<'o>,
        write: impl FnOnce(&mut Target<'o>, &[Arg<'_>]) -> Result<(), WriteError<std::io::Error>>,
    ) -> Result<Option<()>, ConvertError> {
        let mut set = ArgSet::default();
        set.add(members, self.fields.types.as_ref());
        set.with(|list| {
            let mut args = [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS];
            let Some(args) = args.get_mut(..list.len()) else {
                return Err(EncodeError::TooManyArgs { count: list.len() }.into());
            };
            for (arg, (name, value)) in args.iter_mut().zip(list) {
                *arg = Arg::new(target.text(name)?, *value);
            }
            Ok(Some(write(target, args)?))
        })
    }
}
