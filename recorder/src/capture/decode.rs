//! From the bytes of a perf record to a typed event.
//!
//! Where a tracepoint's fields lie is taken from its `format` file once, at the
//! start ([`SchedLayout`]); per event there is one length check and a handful of
//! loads.

use perf_event_open_sys::bindings as b;

use super::cursor::Cursor;
use super::event::{Comm, Event, Kind, LocalId, Sample, Switch, UserState, Wake, WakeKind};
use super::payload::Payload;
use crate::kernel::extra::OpenExtras;
use crate::kernel::format::{Field, Format, FormatError, Place};
use crate::kernel::prev_state::{StateTable, StateTableError};
use crate::kernel::ring::RawRecord;
use crate::units::{Cpu, Nanos, Tid};

/// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ` of `common_flags`.
const IN_INTERRUPT: u8 = 0x08 | 0x10;

/// What perf gives as the id of a thread that has none any more.
const NO_ID: LocalId = LocalId(u32::MAX);

/// Why the tracepoints of this kernel cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A field is missing.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The task states cannot be read.
    #[error(transparent)]
    States(#[from] StateTableError),
    /// A field has a size or place that no known kernel gives it.
    #[error(
        "field `{field}` of tracepoint {event} is {size} bytes of an unknown kind; please report this kernel"
    )]
    Field {
        /// The tracepoint.
        event: String,
        /// The field.
        field: String,
        /// Its size in bytes.
        size: usize,
    },
}

/// The tracepoints that the scheduler is recorded with.
#[derive(Clone, Debug)]
pub struct SchedFormats {
    /// `sched_switch`.
    pub switch: Format,
    /// `sched_wakeup`.
    pub wakeup: Format,
    /// `sched_wakeup_new`.
    pub wakeup_new: Format,
    /// `sched_waking`, where it is wanted.
    pub waking: Option<Format>,
}

/// Offset of a four-byte field.
pub(super) type At = usize;

#[derive(Clone, Copy, Debug)]
struct CommonLayout {
    flags: At,
    pid: At,
}

/// Where everything lies in `sched_switch`.
#[derive(Clone, Debug)]
pub struct SwitchLayout {
    id: u16,
    least: usize,
    common: CommonLayout,
    prev_comm: At,
    prev_pid: At,
    prev_prio: At,
    prev_state: At,
    state_is_long: bool,
    next_comm: At,
    next_pid: At,
    next_prio: At,
    states: StateTable,
}

/// Where everything lies in a wake-up tracepoint.
#[derive(Clone, Debug)]
pub struct WakeLayout {
    kind: WakeKind,
    id: u16,
    least: usize,
    common: CommonLayout,
    comm: At,
    pid: At,
    prio: At,
    target_cpu: At,
}

/// Where everything lies in the samples of the scheduler's tracepoints.
#[derive(Clone, Debug)]
pub struct SchedLayout {
    switch: SwitchLayout,
    wakes: Vec<WakeLayout>,
}

pub(super) fn locate(format: &Format, name: &str, sizes: &[usize]) -> Result<At, LayoutError> {
    let field: &Field = format.field(name)?;
    if field.place == Place::Inline && sizes.contains(&field.size) {
        return Ok(field.offset);
    }
    Err(LayoutError::Field { event: format.name.clone(), field: name.to_owned(), size: field.size })
}

pub(super) fn least(format: &Format) -> usize {
    format.fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0)
}

pub(super) fn id(format: &Format) -> Result<u16, LayoutError> {
    // A sample begins with the tracepoint's id in two bytes, so a larger one could not be told from another.
    u16::try_from(format.id).map_err(|_| LayoutError::Field {
        event: format.name.clone(),
        field: "common_type".to_owned(),
        size: 2,
    })
}

impl CommonLayout {
    fn new(format: &Format) -> Result<CommonLayout, LayoutError> {
        let kind = locate(format, "common_type", &[2])?;
        if kind != 0 {
            return Err(LayoutError::Field {
                event: format.name.clone(),
                field: "common_type".to_owned(),
                size: 2,
            });
        }
        Ok(CommonLayout {
            flags: locate(format, "common_flags", &[1])?,
            pid: locate(format, "common_pid", &[4])?,
        })
    }
}

impl SwitchLayout {
    /// Finds every field that is used.
    ///
    /// # Errors
    /// [`LayoutError`] when the tracepoint is of no known shape.
    pub fn new(format: &Format) -> Result<SwitchLayout, LayoutError> {
        Ok(SwitchLayout {
            id: id(format)?,
            least: least(format),
            common: CommonLayout::new(format)?,
            prev_comm: locate(format, "prev_comm", &[16])?,
            prev_pid: locate(format, "prev_pid", &[4])?,
            prev_prio: locate(format, "prev_prio", &[4])?,
            prev_state: locate(format, "prev_state", &[4, 8])?,
            state_is_long: format.field("prev_state")?.size == 8,
            next_comm: locate(format, "next_comm", &[16])?,
            next_pid: locate(format, "next_pid", &[4])?,
            next_prio: locate(format, "next_prio", &[4])?,
            states: StateTable::parse(format)?,
        })
    }

    /// Decodes what the tracepoint wrote, common fields first; `None` when that is too short.
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        if raw.len() < self.least {
            return None;
        }
        let state = if self.state_is_long {
            i64::from_ne_bytes(chunk(raw, self.prev_state)?)
        } else {
            i64::from(i32_at(raw, self.prev_state)?)
        };
        Some(Kind::Switch(Switch {
            prev: tid_at(raw, self.prev_pid)?,
            next: tid_at(raw, self.next_pid)?,
            prev_prio: i32_at(raw, self.prev_prio)?,
            next_prio: i32_at(raw, self.next_prio)?,
            state: self.states.decode(state),
            prev_comm: Comm(chunk(raw, self.prev_comm)?),
            next_comm: Comm(chunk(raw, self.next_comm)?),
        }))
    }
}

impl WakeLayout {
    /// Finds every field that is used.
    ///
    /// # Errors
    /// [`LayoutError`] when the tracepoint is of no known shape.
    pub fn new(format: &Format, kind: WakeKind) -> Result<WakeLayout, LayoutError> {
        Ok(WakeLayout {
            kind,
            id: id(format)?,
            least: least(format),
            common: CommonLayout::new(format)?,
            comm: locate(format, "comm", &[16])?,
            pid: locate(format, "pid", &[4])?,
            prio: locate(format, "prio", &[4])?,
            target_cpu: locate(format, "target_cpu", &[4])?,
        })
    }

    /// Decodes what the tracepoint wrote, common fields first; `None` when that is too short.
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        if raw.len() < self.least {
            return None;
        }
        let current = tid_at(raw, self.common.pid)?;
        let flags = *raw.get(self.common.flags)?;
        Some(Kind::Wake(Wake {
            kind: self.kind,
            tid: tid_at(raw, self.pid)?,
            prio: i32_at(raw, self.prio)?,
            target: Cpu(u32_at(raw, self.target_cpu)?),
            comm: Comm(chunk(raw, self.comm)?),
            current,
            from_task: flags & IN_INTERRUPT == 0 && current != Tid::IDLE,
        }))
    }
}

impl SchedLayout {
    /// Finds every field that is used.
    ///
    /// # Errors
    /// [`LayoutError`] when this kernel's tracepoints are of no known shape.
    pub fn new(formats: &SchedFormats) -> Result<SchedLayout, LayoutError> {
        let mut wakes = vec![
            WakeLayout::new(&formats.wakeup, WakeKind::Wakeup)?,
            WakeLayout::new(&formats.wakeup_new, WakeKind::New)?,
        ];
        if let Some(waking) = &formats.waking {
            wakes.push(WakeLayout::new(waking, WakeKind::Waking)?);
        }
        Ok(SchedLayout { switch: SwitchLayout::new(&formats.switch)?, wakes })
    }

    /// The id of `sched_switch`, then of the wake-up tracepoints, as [`super::perf_source`] opens them.
    pub fn tracepoints(&self) -> Vec<u64> {
        let wakes = self.wakes.iter().map(|wake| u64::from(wake.id));
        std::iter::once(u64::from(self.switch.id)).chain(wakes).collect()
    }

    /// How `sched_switch` reports task states.
    pub fn states(&self) -> &StateTable {
        &self.switch.states
    }

    /// Decodes what a tracepoint wrote, common fields first; `None` when it is none of these tracepoints.
    #[inline]
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        let id = u16::from_ne_bytes(chunk(raw, 0)?);
        if id == self.switch.id {
            return self.switch.decode(raw);
        }
        self.wakes.iter().find(|wake| wake.id == id)?.decode(raw)
    }

    fn current(&self, raw: &[u8]) -> Option<Tid> {
        // The common fields lie alike in every tracepoint of a kernel.
        tid_at(raw, self.switch.common.pid)
    }
}

pub(super) fn chunk<const N: usize>(raw: &[u8], at: usize) -> Option<[u8; N]> {
    raw.get(at..)?.first_chunk().copied()
}

pub(super) fn u32_at(raw: &[u8], at: At) -> Option<u32> {
    chunk(raw, at).map(u32::from_ne_bytes)
}

fn i32_at(raw: &[u8], at: At) -> Option<i32> {
    chunk(raw, at).map(i32::from_ne_bytes)
}

pub(super) fn tid_at(raw: &[u8], at: At) -> Option<Tid> {
    u32_at(raw, at).map(Tid)
}

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

/// Decodes one perf record; `None` for one of no interest, or one that is too short for what it claims to be.
pub fn decode<'a>(
    layout: &SchedLayout,
    record: RawRecord<'a>,
    shape: Shape<'_>,
) -> Option<Decoded<'a>> {
    let mut cursor = Cursor::new(record.body);
    match record.kind {
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
                Some((extra, has_stack)) => {
                    let user = if has_stack { read_user_state(&mut cursor)? } else { None };
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
fn decode_side_band(record: RawRecord<'_>, mut cursor: Cursor<'_>) -> Option<Event> {
    let time = Nanos(cursor.read_back_u64()?);
    let kind = match record.kind {
        b::PERF_RECORD_LOST => {
            let _id = cursor.read_u64()?;
            Kind::Lost { count: cursor.read_u64()? }
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
pub(crate) mod tests {
    use super::*;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

    pub(crate) fn format(name: &str, id: u32, fields: &str, print: &str) -> Format {
        let text =
            format!("name: {name}\nID: {id}\nformat:\n{COMMON}\n{fields}\nprint fmt: {print}\n");
        Format::parse(&text).expect("a well-formed format")
    }

    fn wake_format(name: &str, id: u32) -> Format {
        let fields = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;";
        format(name, id, fields, "\"pid=%d\", REC->pid")
    }

    fn formats() -> SchedFormats {
        let fields = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;";
        let print = "\"state=%s%s\", (REC->prev_state & ((((0x0 | 0x1 | 0x2) + 1) << 1) - 1)) ? \
            __print_flags(REC->prev_state & ((((0x0 | 0x1 | 0x2) + 1) << 1) - 1), \"|\", \
            { 0x1, \"S\" }, { 0x2, \"D\" }, { 0x4, \"I\" }) : \"R\", \
            REC->prev_state & (((0x0 | 0x1 | 0x2) + 1) << 1) ? \"+\" : \"\"";
        SchedFormats {
            switch: format("sched_switch", 300, fields, print),
            wakeup: wake_format("sched_wakeup", 301),
            wakeup_new: wake_format("sched_wakeup_new", 302),
            waking: None,
        }
    }

    pub(crate) fn layout() -> SchedLayout {
        SchedLayout::new(&formats()).expect("a known shape")
    }

    fn comm(name: &str) -> [u8; 16] {
        Comm::from_bytes(name.as_bytes()).0
    }

    fn raw_switch(state: i64) -> Vec<u8> {
        let mut raw = 300u16.to_ne_bytes().to_vec();
        raw.extend([0, 0]);
        raw.extend(10i32.to_ne_bytes());
        raw.extend(comm("out"));
        raw.extend(10i32.to_ne_bytes());
        raw.extend(120i32.to_ne_bytes());
        raw.extend(state.to_ne_bytes());
        raw.extend(comm("in"));
        raw.extend(11i32.to_ne_bytes());
        raw.extend(98i32.to_ne_bytes());
        raw
    }

    fn raw_wake(id: u16, flags: u8, current: i32) -> Vec<u8> {
        let mut raw = id.to_ne_bytes().to_vec();
        raw.extend([flags, 0]);
        raw.extend(current.to_ne_bytes());
        raw.extend(comm("woken"));
        raw.extend([42i32, 120, 3].map(i32::to_ne_bytes).concat());
        raw
    }

    fn sample(time: u64, raw: &[u8]) -> Vec<u8> {
        let mut body = time.to_ne_bytes().to_vec();
        body.extend((raw.len() as u32).to_ne_bytes());
        body.extend(raw);
        body
    }

    const PLAIN: Shape<'static> = Shape { namespace_ids: false, extras: None };

    fn decode_body(kind: u32, misc: u32, body: &[u8]) -> Option<Decoded<'_>> {
        decode(&layout(), RawRecord { kind, misc: misc as u16, body }, PLAIN)
    }

    #[test]
    fn a_switch_is_read_by_its_format() {
        let body = sample(77, &raw_switch(2));
        let event = decode_body(b::PERF_RECORD_SAMPLE, 0, &body).expect("whole").event;
        let Kind::Switch(switch) = event.kind else { panic!("{event:?}") };
        assert_eq!((event.time, switch.prev, switch.next), (Nanos(77), Tid(10), Tid(11)));
        assert_eq!((switch.prev_prio, switch.next_prio), (120, 98));
        assert_eq!((switch.state.letter, switch.state.preempted), ('D', false));
        assert_eq!(
            (switch.prev_comm.as_bytes(), switch.next_comm.as_bytes()),
            (&b"out"[..], &b"in"[..])
        );
    }

    #[test]
    fn a_waker_is_named_only_by_a_task_outside_interrupts() {
        for (flags, current, from_task) in
            [(0u8, 5, true), (0x08, 5, false), (0x10, 5, false), (0, 0, false), (0x01, 5, true)]
        {
            let body = sample(1, &raw_wake(301, flags, current));
            let event = decode_body(b::PERF_RECORD_SAMPLE, 0, &body).expect("whole").event;
            let Kind::Wake(wake) = event.kind else { panic!("{event:?}") };
            assert_eq!(wake.from_task, from_task, "flags {flags:#x} current {current}");
            assert_eq!((wake.kind, wake.tid, wake.target), (WakeKind::Wakeup, Tid(42), Cpu(3)));
        }
    }

    #[test]
    fn namespace_ids_come_before_the_time_and_become_an_identity() {
        let mut body = 2u32.to_ne_bytes().to_vec();
        body.extend(3u32.to_ne_bytes());
        body.extend(sample(9, &raw_wake(302, 0, 500)));
        let record = RawRecord { kind: b::PERF_RECORD_SAMPLE, misc: 0, body: &body };
        let shape = Shape { namespace_ids: true, ..PLAIN };
        let found = decode(&layout(), record, shape).expect("whole");
        let identity = found.identity.expect("an identity");
        let expected =
            Kind::Identity { tid: Tid(500), local_pid: LocalId(2), local_tid: LocalId(3) };
        assert_eq!(identity, Event { time: Nanos(9), kind: expected });
    }

    #[test]
    fn side_band_records_end_with_their_time() {
        let words =
            |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let with_time = |mut body: Vec<u8>| {
            body.extend(55u64.to_ne_bytes());
            body
        };
        let kind = |record, misc, body: Vec<u8>| {
            let event = decode_body(record, misc, &body).expect("whole").event;
            assert_eq!(event.time, Nanos(55));
            event.kind
        };
        // FORK: pid, parent's pid, tid, parent's tid, time of the fork; then the ids.
        let mut fork = words(&[20, 10, 21, 11]);
        fork.extend(54u64.to_ne_bytes());
        let expected = Kind::Fork {
            pid: LocalId(20),
            tid: LocalId(21),
            parent_pid: LocalId(10),
            parent_tid: LocalId(11),
        };
        assert_eq!(kind(b::PERF_RECORD_FORK, 0, with_time(fork.clone())), expected);
        let exit = kind(b::PERF_RECORD_EXIT, 0, with_time(fork));
        assert_eq!(exit, Kind::Exit { pid: LocalId(20), tid: LocalId(21) });

        let mut renamed = words(&[20, 21]);
        renamed.extend(b"name\0\0\0\0");
        let exec = b::PERF_RECORD_MISC_COMM_EXEC;
        let comm = Comm::from_bytes(b"name");
        let expected = Kind::Comm { pid: LocalId(20), tid: LocalId(21), exec: true, comm };
        assert_eq!(kind(b::PERF_RECORD_COMM, exec, with_time(renamed)), expected);

        let mut lost = 1u64.to_ne_bytes().to_vec();
        lost.extend(99u64.to_ne_bytes());
        assert_eq!(kind(b::PERF_RECORD_LOST, 0, with_time(lost)), Kind::Lost { count: 99 });

        // SWITCH_CPU_WIDE: who went out, then the ids: who is in.
        let switched = with_time(words(&[30, 31, 40, 41]));
        let expected = Kind::Running { pid: LocalId(40), tid: LocalId(41) };
        assert_eq!(kind(b::PERF_RECORD_SWITCH_CPU_WIDE, 0, switched.clone()), expected);
        let reaped = with_time(words(&[30, 31, u32::MAX, u32::MAX]));
        assert_eq!(decode_body(b::PERF_RECORD_SWITCH_CPU_WIDE, 0, &reaped), None);
        let out = b::PERF_RECORD_MISC_SWITCH_OUT;
        assert_eq!(decode_body(b::PERF_RECORD_SWITCH_CPU_WIDE, out, &switched), None);
    }

    #[test]
    fn a_record_cut_anywhere_is_nothing_and_no_panic() {
        let body = sample(77, &raw_switch(1));
        for len in 0..body.len() {
            assert_eq!(decode_body(b::PERF_RECORD_SAMPLE, 0, &body[..len]), None, "{len} bytes");
        }
        for kind in 0..20 {
            for len in 0..40 {
                let body = vec![0xff; len];
                let found = decode_body(kind, 0, &body);
                assert!(found.is_none_or(|found| found.event.time == Nanos(u64::MAX)));
            }
        }
    }

    #[test]
    fn a_field_of_an_unknown_size_is_refused_by_name() {
        let mut formats = formats();
        for field in &mut formats.wakeup.fields {
            if field.name == "pid" {
                field.size = 8;
            }
        }
        let error = SchedLayout::new(&formats).expect_err("pid of eight bytes");
        assert!(error.to_string().contains("`pid` of tracepoint sched_wakeup"), "{error}");
    }
}
