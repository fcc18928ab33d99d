//! Scheduling records: threads woken, and switched in and out of a CPU
//! ("Scheduling Record").

use super::{Record, checked_size};
use crate::arg::{self, Arg};
use crate::error::EncodeError;
use crate::ids::{Koid, ThreadName, Ticks};
use crate::layout::scheduling::{self, context_switch, legacy_context_switch, thread_wakeup};
use crate::layout::{ThreadState, record_type};
use crate::space::Slot;

/// A CPU went from one thread to another ("Context Switch Record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSwitch<'a> {
    /// The CPU.
    pub cpu: u16,
    /// When.
    pub time: Ticks,
    /// The thread that left the CPU.
    pub outgoing: Koid,
    /// The thread that got the CPU.
    pub incoming: Koid,
    /// What the thread that left does next.
    pub outgoing_state: ThreadState,
    /// Up to 15 arguments; by convention `incoming_weight` and
    /// `outgoing_weight`.
    pub args: &'a [Arg<'a>],
}

impl Record for ContextSwitch<'_> {
    #[inline]
    fn words(&self) -> Result<usize, EncodeError> {
        checked_size(context_switch::FIXED_WORDS + arg::words(self.args)?)
    }

    #[inline]
    fn header(&self, words: usize) -> u64 {
        context_switch::TYPE.put(record_type::SCHEDULING)
            | context_switch::SIZE.put(words as u64)
            | context_switch::ARG_COUNT.put(self.args.len() as u64)
            | context_switch::CPU.put(u64::from(self.cpu))
            | context_switch::OUTGOING_STATE.put(self.outgoing_state.to_field())
            | context_switch::SCHEDULING_TYPE.put(scheduling::CONTEXT_SWITCH)
    }

    #[inline]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        slot.put(self.outgoing.0);
        slot.put(self.incoming.0);
        arg::put(self.args, slot);
    }
}

/// A thread was woken ("Thread Wakeup Record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wakeup<'a> {
    /// The CPU it was woken for.
    pub cpu: u16,
    /// When.
    pub time: Ticks,
    /// The thread that was woken.
    pub thread: Koid,
    /// Up to 15 arguments; by convention `weight`.
    pub args: &'a [Arg<'a>],
}

impl Record for Wakeup<'_> {
    #[inline]
    fn words(&self) -> Result<usize, EncodeError> {
        checked_size(thread_wakeup::FIXED_WORDS + arg::words(self.args)?)
    }

    #[inline]
    fn header(&self, words: usize) -> u64 {
        thread_wakeup::TYPE.put(record_type::SCHEDULING)
            | thread_wakeup::SIZE.put(words as u64)
            | thread_wakeup::ARG_COUNT.put(self.args.len() as u64)
            | thread_wakeup::CPU.put(u64::from(self.cpu))
            | thread_wakeup::SCHEDULING_TYPE.put(scheduling::THREAD_WAKEUP)
    }

    #[inline]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        slot.put(self.thread.0);
        arg::put(self.args, slot);
    }
}

/// One side of a [`LegacyContextSwitch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacySide {
    /// The thread.
    pub thread: ThreadName,
    /// Its priority.
    pub priority: u8,
}

impl LegacySide {
    fn put(self, slot: &mut impl Slot) {
        if let ThreadName::Inline { process, thread } = self.thread {
            slot.put(process.0);
            slot.put(thread.0);
        }
    }
}

/// A context switch in the older form that readers still accept ("Legacy
/// Context Switch Record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyContextSwitch {
    /// The CPU.
    pub cpu: u8,
    /// When.
    pub time: Ticks,
    /// The thread that left the CPU.
    pub outgoing: LegacySide,
    /// The thread that got the CPU.
    pub incoming: LegacySide,
    /// What the thread that left does next; anything but running.
    pub outgoing_state: ThreadState,
}

impl Record for LegacyContextSwitch {
    fn words(&self) -> Result<usize, EncodeError> {
        if self.outgoing_state == ThreadState::Running {
            return Err(EncodeError::LegacyRunning);
        }
        Ok(2 + self.outgoing.thread.inline_words() + self.incoming.thread.inline_words())
    }

    fn header(&self, words: usize) -> u64 {
        use legacy_context_switch as layout;
        layout::TYPE.put(record_type::SCHEDULING)
            | layout::SIZE.put(words as u64)
            | layout::CPU.put(u64::from(self.cpu))
            | layout::OUTGOING_STATE.put(self.outgoing_state.to_field())
            | layout::OUTGOING_THREAD.put(self.outgoing.thread.encoded())
            | layout::INCOMING_THREAD.put(self.incoming.thread.encoded())
            | layout::OUTGOING_PRIORITY.put(u64::from(self.outgoing.priority))
            | layout::INCOMING_PRIORITY.put(u64::from(self.incoming.priority))
            | layout::SCHEDULING_TYPE.put(scheduling::LEGACY_CONTEXT_SWITCH)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        self.outgoing.put(slot);
        self.incoming.put(slot);
    }
}
