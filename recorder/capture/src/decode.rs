//! Decodes the bytes of a perf record into a typed event.

use perf_event_open_sys::bindings as b;

use super::cursor::Cursor;
use super::event::{Comm, Event, Kind, LocalId, Loss, Payload, Sample, UserState};
use super::sched::SchedLayout;
use fxtrec_kernel::extra::OpenExtras;
use fxtrec_kernel::ring::RawRecord;
use fxtrec_units::Nanos;

/// The id that perf reports for a thread that no longer has one.
const NO_ID: LocalId = LocalId(u32::MAX);

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The event. The caller must still store a sample's payload.
    pub event: Event,
    /// Inside a pid namespace: the ids that the current thread has there.
    pub identity: Option<Event>,
    /// The bytes that a sample carries; empty for any other event.
    pub payload: &'a [u8],
}

/// The content of a ring's records.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Whether records carry ids of the recorder's pid namespace.
    pub namespace_ids: bool,
    /// The non-scheduler events, if any: if so, records carry the id of the event that wrote them.
    pub extras: Option<&'a OpenExtras>,
}

impl Shape<'_> {
    /// Whether samples carry the time and the tracepoint's bytes, and nothing else.
    pub fn is_plain(self) -> bool {
        !self.namespace_ids && self.extras.is_none()
    }
}

/// Decodes a sample of one of the scheduler's tracepoints, where samples carry only the time and the tracepoint's bytes. Nearly all records
/// are of this kind, so all of this must be inlined into the code that puts the event into its queue: passing the 80 bytes of an event from
/// function to function costs more than creating it. Returns `None` as [`decode`] does.
#[inline(always)]
pub fn decode_plain(layout: &SchedLayout, body: &[u8]) -> Option<Event> {
    let mut cursor = Cursor::new(body);
    let time = Nanos(cursor.read_u64()?);
    let len = cursor.read_u32()?;
    let kind = layout.decode(cursor.take(len as usize)?)?;
    Some(Event { time, kind })
}

/// Decodes one perf record; `None` if it is irrelevant, or too short for its type.
pub fn decode<'a>(
    layout: &SchedLayout,
    record: RawRecord<'a>,
    shape: Shape<'_>,
) -> Option<Decoded<'a>> {
    let mut cursor = Cursor::new(record.body);
    match record.kind {
        b::PERF_RECORD_SAMPLE if shape.is_plain() => {
            let event = decode_plain(layout, record.body)?;
            Some(Decoded { event, identity: None, payload: &[] })
        }
        b::PERF_RECORD_SAMPLE => {
            let extra = match shape.extras {
                Some(extras) => extras.find(cursor.read_u64()?),
                None => None,
            };
            let local = match shape.namespace_ids {
                true => Some((LocalId(cursor.read_u32()?), LocalId(cursor.read_u32()?))),
                false => None,
            };
            let time = Nanos(cursor.read_u64()?);
            let len = cursor.read_u32()?;
            let raw = cursor.take(len as usize)?;
            let identity = local.and_then(|(local_pid, local_tid)| {
                let tid = layout.current(raw)?;
                Some(Event { time, kind: Kind::Identity { tid, local_pid, local_tid } })
            });
            let (kind, payload) = match extra {
                None => (layout.decode(raw)?, &[][..]),
                Some(opened) => {
                    let extra = opened.index(raw)?;
                    let user = if opened.has_stack { read_user_state(&mut cursor)? } else { None };
                    let (current, payload) = (layout.current(raw)?, Payload::default());
                    (Kind::Sample(Sample { extra, current, user, payload }), raw)
                }
            };
            Some(Decoded { event: Event { time, kind }, identity, payload })
        }
        _ => {
            if shape.extras.is_some() {
                cursor.read_back_u64()?;
            }
            let event = decode_side_band(record, cursor)?;
            Some(Decoded { event, identity: None, payload: &[] })
        }
    }
}

/// Reads the registers that a sample contains on request; there is one. The inner `None` means a kernel thread, which has no user
/// registers.
fn read_user_state(cursor: &mut Cursor<'_>) -> Option<Option<UserState>> {
    let abi = cursor.read_u64()?;
    if abi == u64::from(b::PERF_SAMPLE_REGS_ABI_NONE) {
        return Some(None);
    }
    let is_32_bit = abi == u64::from(b::PERF_SAMPLE_REGS_ABI_32);
    Some(Some(UserState { stack: cursor.read_u64()?, is_32_bit }))
}

/// Decodes a record that is not a sample. Such records end with the sample's ids, the last of which is the time.
pub(crate) fn decode_side_band(record: RawRecord<'_>, mut cursor: Cursor<'_>) -> Option<Event> {
    let time = Nanos(cursor.read_back_u64()?);
    let kind = match record.kind {
        b::PERF_RECORD_LOST => {
            let _id = cursor.read_u64()?;
            Kind::Lost(Loss::exactly(cursor.read_u64()?))
        }
        b::PERF_RECORD_FORK | b::PERF_RECORD_EXIT => {
            let pid = LocalId(cursor.read_u32()?);
            let parent_pid = LocalId(cursor.read_u32()?);
            let tid = LocalId(cursor.read_u32()?);
            let parent_tid = LocalId(cursor.read_u32()?);
            match record.kind {
                b::PERF_RECORD_FORK => Kind::Fork { pid, tid, parent_pid, parent_tid },
                _ => Kind::Exit { pid, tid },
            }
        }
        b::PERF_RECORD_COMM => {
            let pid = LocalId(cursor.read_u32()?);
            let tid = LocalId(cursor.read_u32()?);
            let exec = u32::from(record.misc) & b::PERF_RECORD_MISC_COMM_EXEC != 0;
            Kind::Comm { pid, tid, exec, comm: Comm::from_bytes(cursor.rest()) }
        }
        b::PERF_RECORD_SWITCH_CPU_WIDE
            if u32::from(record.misc) & b::PERF_RECORD_MISC_SWITCH_OUT == 0 =>
        {
            // The body names the outgoing thread; the sample's ids name the incoming one.
            let ids = cursor.take_back(8)?;
            let mut ids = Cursor::new(ids);
            let (pid, tid) = (LocalId(ids.read_u32()?), LocalId(ids.read_u32()?));
            // An exited thread that is still running its last code has no ids any more.
            if tid == NO_ID {
                return None;
            }
            Kind::Running { pid, tid }
        }
        _ => return None,
    };
    Some(Event { time, kind })
}

#[cfg(test)]
mod extra_tests;
#[cfg(test)]
mod tests;
