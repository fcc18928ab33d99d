//! Scheduling records: threads woken, and switched in and out of a CPU.

use fxt_format::scheduling::{context_switch, legacy_context_switch, thread_wakeup};

use super::argument::Args;
use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Cpu, Koid, Nanos, Thread, ThreadState};

/// The weight that marks a side of a context switch as the idle task.
pub const IDLE_WEIGHT: i32 = i32::MIN;

/// fxtrec's event that says that scheduling records leave out usual weights.
pub const WEIGHT_INFO: &str = "weight_info";

/// The argument (`Int32`) of [`WEIGHT_INFO`] with the weight that is left out.
pub const ABSENT_WEIGHT_ARG: &str = "absent";

/// The process of fxtrec's pseudo-threads, which occupy a CPU while its running thread is not recorded. The thread of CPU
/// `n` has this koid plus 1 plus `n`.
pub const NOT_RECORDED_PROCESS: Koid = Koid(0xd000_0000);

/// The weight of these pseudo-threads, which no thread has.
pub const NOT_RECORDED_WEIGHT: i32 = 0;

/// Whether the koid is that of a pseudo-thread for time that is not recorded, in a trace of fxtrec.
#[inline]
pub fn is_not_recorded(thread: Koid) -> bool {
    (NOT_RECORDED_PROCESS.0 + 1..=NOT_RECORDED_PROCESS.0 + 0x1_0000).contains(&thread.0)
}

/// A CPU switches from one thread to another ("Context Switch Record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSwitch<'a> {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// Which CPU.
    pub cpu: Cpu,
    /// The thread that ran.
    pub outgoing: Koid,
    /// The state it leaves in.
    pub outgoing_state: ThreadState,
    /// The thread that runs now.
    pub incoming: Koid,
    /// Additional facts about it, by convention the weights of both.
    pub args: Args<'a>,
}

impl<'a> ContextSwitch<'a> {
    #[inline(always)]
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, context_switch::HEADER);
        Ok(Self {
            time: tables.time(cursor.word()?)?,
            cpu: cpu(context_switch::CPU.get(header)),
            outgoing: Koid(cursor.word()?),
            outgoing_state: ThreadState::from_field(context_switch::OUTGOING_STATE.get(header)),
            incoming: Koid(cursor.word()?),
            args: Args::parse(cursor, context_switch::ARG_COUNT.get(header), tables)?,
        })
    }

    /// The weight of the thread that ran.
    #[must_use]
    pub fn outgoing_weight(&self) -> Option<i32> {
        self.args.int32(context_switch::OUTGOING_WEIGHT_ARG)
    }

    /// The weight of the thread that runs now.
    #[must_use]
    pub fn incoming_weight(&self) -> Option<i32> {
        self.args.int32(context_switch::INCOMING_WEIGHT_ARG)
    }
}

/// A thread becomes able to run ("Thread Wakeup Record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wakeup<'a> {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// The CPU on whose queue the thread is put.
    pub cpu: Cpu,
    /// The thread.
    pub koid: Koid,
    /// More about it, by convention its weight.
    pub args: Args<'a>,
}

impl<'a> Wakeup<'a> {
    #[inline(always)]
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, thread_wakeup::HEADER);
        Ok(Self {
            time: tables.time(cursor.word()?)?,
            cpu: cpu(thread_wakeup::CPU.get(header)),
            koid: Koid(cursor.word()?),
            args: Args::parse(cursor, thread_wakeup::ARG_COUNT.get(header), tables)?,
        })
    }

    /// The weight of the woken thread.
    #[must_use]
    pub fn weight(&self) -> Option<i32> {
        self.args.int32(thread_wakeup::WEIGHT_ARG)
    }

    /// The thread that woke it, if the record contains it.
    #[must_use]
    pub fn waker(&self) -> Option<Koid> {
        self.args.koid("waker")
    }
}

/// The context switch of older traces ("Legacy Context Switch Record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyContextSwitch {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// Which CPU.
    pub cpu: Cpu,
    /// The thread that ran.
    pub outgoing: Thread,
    /// The state in which it leaves the CPU.
    pub outgoing_state: ThreadState,
    /// Its priority.
    pub outgoing_priority: u8,
    /// The thread that runs now.
    pub incoming: Thread,
    /// Its priority.
    pub incoming_priority: u8,
}

impl LegacyContextSwitch {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'_>,
        tables: &Tables,
    ) -> Result<Self, Reason> {
        use legacy_context_switch as table;
        cursor.inspect(header, table::HEADER);
        Ok(Self {
            time: tables.time(cursor.word()?)?,
            cpu: cpu(table::CPU.get(header)),
            outgoing: tables.thread(table::OUTGOING_THREAD.get(header), cursor)?,
            outgoing_state: ThreadState::from_field(table::OUTGOING_STATE.get(header)),
            outgoing_priority: priority(table::OUTGOING_PRIORITY.get(header)),
            incoming: tables.thread(table::INCOMING_THREAD.get(header), cursor)?,
            incoming_priority: priority(table::INCOMING_PRIORITY.get(header)),
        })
    }
}

/// The CPU number from a scheduling record's header field.
#[inline(always)]
pub(crate) fn cpu(field: u64) -> Cpu {
    Cpu(u16::try_from(field).unwrap_or(u16::MAX))
}

fn priority(field: u64) -> u8 {
    u8::try_from(field).unwrap_or(u8::MAX)
}
