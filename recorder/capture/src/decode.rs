//! From the bytes of a perf record to a typed event.

use perf_event_open_sys::bindings as b;

use super::cursor::Cursor;
use super::event::{Comm, Event, Kind, LocalId, Loss, Payload, Sample, UserState};
use super::sched::SchedLayout;
use fxtrec_kernel::extra::OpenExtras;
use fxtrec_kernel::ring::RawRecord;
use fxtrec_units::Nanos;

/// What perf gives as the id of a thread that has none any more.
const NO_ID: LocalId = LocalId(u32::MAX);

/// What a record turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The event. A sample's payload is still to be kept.
    pub event: Event,
    /// Inside a pid namespace: who the current thread is there.
    pub identity: Option<Event>,
    /// The bytes that a sample carries; empty for any other event.
    pub payload: &'a [u8],
}

/// What the records of a ring were asked to carry.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Whether it is the ids of the recorder's pid namespace.
    pub namespace_ids: bool,
    /// The events beside the scheduler's, where there are any: then it is the id of the event that wrote a record.
    pub extras: Option<&'a OpenExtras>,
}

impl Shape<'_> {
    /// Whether samples carry the time and what the tracepoint wrote, and nothing else.
    pub fn is_plain(self) -> bool {
        !self.namespace_ids && self.extras.is_none()
    }
}

/// Decodes a sample of one of the scheduler's tracepoints, where samples carry the time and what the tracepoint wrote. Nearly all
/// records are such, so that all of this is to be in one piece with what puts the event into its queue: handed from function to
/// function, its 80 bytes cost more than to make them. `None` as of [`decode`].
#[inline(always)]
pub fn decode_plain(layout: &SchedLayout, body: &[u8]) -> Option<Event> {
    let mut cursor = Cursor::new(body);
    let time = Nanos(cursor.read_u64()?);
    let len = cursor.read_u32()?;
    let kind = layout.decode(cursor.take(len as usize)?)?;
    Some(Event { time, kind })
}

/// Decodes one perf record; `None` for one of no interest, or one that is too short for what it claims to be.
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

/// Reads the registers that a sample was asked to carry, of which there is one. Inside: `None` for a thread of the
/// kernel, which has no program.
fn read_user_state(cursor: &mut Cursor<'_>) -> Option<Option<UserState>> {
    let abi = cursor.read_u64()?;
    if abi == u64::from(b::PERF_SAMPLE_REGS_ABI_NONE) {
        return Some(None);
    }
    let is_32_bit = abi == u64::from(b::PERF_SAMPLE_REGS_ABI_32);
    Some(Some(UserState { stack: cursor.read_u64()?, is_32_bit }))
}

/// Decodes what is not a sample. Such records end with the sample's ids, of which the time is the last.
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
            // The body names who went out; who came in is the thread of the sample's ids.
            let ids = cursor.take_back(8)?;
            let mut ids = Cursor::new(ids);
            let (pid, tid) = (LocalId(ids.read_u32()?), LocalId(ids.read_u32()?));
            // A thread that has been reaped and still runs, to its very end, has no ids any more.
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
