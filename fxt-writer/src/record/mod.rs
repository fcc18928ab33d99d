//! The records of the format. Scheduling records, which make up most of a trace,
//! are defined here; the others have one module per family of the specification.
//!
//! Each record is a plain struct of its fields. [`Record::write`] checks it
//! against the limits of the format, reserves exactly the words it needs, and
//! writes it:
//!
//! ```
//! use fxt_writer::record::{ContextSwitch, Record, ThreadState};
//! use fxt_writer::{Arg, Koid, StringRef, Text, Ticks, Value};
//!
//! let mut words: Vec<u64> = Vec::new();
//! let weight = Text::Indexed(StringRef::indexed(1)?);
//! ContextSwitch {
//!     cpu: 3,
//!     time: Ticks(1_000),
//!     outgoing: Koid(17),
//!     incoming: Koid(18),
//!     outgoing_state: ThreadState::Blocked,
//!     args: &[Arg::new(weight, Value::Int32(1024))],
//! }
//! .write(&mut words)?;
//! assert_eq!(words.len(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bulk;
mod definitions;
mod event;
mod metadata;
mod objects;
mod profiler;

pub use bulk::{Blob, BlobMetadata, LargeBlob, Log};
pub use definitions::{Initialization, StringRecord, ThreadRecord};
#[cfg(all(feature = "provider", target_os = "linux", not(loom)))]
pub(crate) use event::extra_word;
pub use event::{Event, EventKind};
pub use metadata::{Magic, ProviderEvent, ProviderInfo, ProviderSection};
pub use objects::{KernelObject, UserspaceObject};
pub use profiler::{Backtrace, Mapping, Module, ProcessName};

pub use fxt_format::{BlobType, ObjectType, ProviderEventKind, ThreadState};

use crate::arg::Args;
use crate::error::{EncodeError, WriteError};
use crate::ids::{Koid, ThreadName, Ticks};
use crate::layout::scheduling::{self, context_switch, legacy_context_switch, thread_wakeup};
use crate::layout::{limits, record_type};
use crate::space::{Slot, Space};

/// A record: its size, its header word and the words after it.
///
/// Implement it to write records that this crate does not know.
pub trait Record {
    /// Size of the record in words, including its header.
    ///
    /// # Errors
    ///
    /// Returns an error when the format cannot express the record.
    fn words(&self) -> Result<usize, EncodeError>;

    /// The header word of the record, which is `words` words long.
    fn header(&self, words: usize) -> u64;

    /// Writes the `words() - 1` words after the header.
    fn body(&self, slot: &mut impl Slot);

    /// Writes the record into `space`.
    ///
    /// # Errors
    ///
    /// Returns an error if the format cannot express the record, or `space` has no space for it; in both cases nothing was written.
    #[inline(always)]
    fn write<S: Space>(&self, space: &mut S) -> Result<(), WriteError<S::Full>> {
        let words = self.words()?;
        let mut slot = space.reserve(words).map_err(WriteError::Full)?;
        self.body(&mut slot);
        slot.finish(self.header(words));
        Ok(())
    }
}

/// `words`, if an ordinary record may have as many.
#[inline(always)]
fn checked_size(words: usize) -> Result<usize, EncodeError> {
    if words <= limits::MAX_RECORD_WORDS {
        Ok(words)
    } else {
        Err(EncodeError::RecordTooLarge { words, max: limits::MAX_RECORD_WORDS })
    }
}

/// A CPU switched from one thread to another ("Context Switch Record").
///
/// With an array of arguments, the compiler knows the values' types and computes the record's words in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSwitch<A> {
    /// The CPU.
    pub cpu: u16,
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The thread that left the CPU.
    pub outgoing: Koid,
    /// The thread that got the CPU.
    pub incoming: Koid,
    /// The state of the outgoing thread.
    pub outgoing_state: ThreadState,
    /// Up to 15 arguments; by convention `incoming_weight` and
    /// `outgoing_weight`.
    pub args: A,
}

impl<A: Args> Record for ContextSwitch<A> {
    #[inline(always)]
    fn words(&self) -> Result<usize, EncodeError> {
        checked_size(context_switch::FIXED_WORDS + self.args.words()?)
    }

    #[inline(always)]
    fn header(&self, words: usize) -> u64 {
        context_switch::TYPE.put(record_type::SCHEDULING)
            | context_switch::SIZE.put(words as u64)
            | context_switch::ARG_COUNT.put(self.args.count() as u64)
            | context_switch::CPU.put(u64::from(self.cpu))
            | context_switch::OUTGOING_STATE.put(self.outgoing_state.to_field())
            | context_switch::SCHEDULING_TYPE.put(scheduling::CONTEXT_SWITCH)
    }

    #[inline(always)]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        slot.put(self.outgoing.0);
        slot.put(self.incoming.0);
        self.args.put(slot);
    }
}

/// A thread was woken ("Thread Wakeup Record").
///
/// An array of arguments has the same effect as in a [`ContextSwitch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wakeup<A> {
    /// The CPU it was woken for.
    pub cpu: u16,
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The thread that was woken.
    pub thread: Koid,
    /// Up to 15 arguments; by convention `weight`.
    pub args: A,
}

impl<A> Wakeup<A> {
    /// This wakeup with other arguments.
    #[inline(always)]
    pub fn with_args<B>(self, args: B) -> Wakeup<B> {
        let Wakeup { cpu, time, thread, args: _ } = self;
        Wakeup { cpu, time, thread, args }
    }
}

impl<A: Args> Record for Wakeup<A> {
    #[inline(always)]
    fn words(&self) -> Result<usize, EncodeError> {
        checked_size(thread_wakeup::FIXED_WORDS + self.args.words()?)
    }

    #[inline(always)]
    fn header(&self, words: usize) -> u64 {
        thread_wakeup::TYPE.put(record_type::SCHEDULING)
            | thread_wakeup::SIZE.put(words as u64)
            | thread_wakeup::ARG_COUNT.put(self.args.count() as u64)
            | thread_wakeup::CPU.put(u64::from(self.cpu))
            | thread_wakeup::SCHEDULING_TYPE.put(scheduling::THREAD_WAKEUP)
    }

    #[inline(always)]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        slot.put(self.thread.0);
        self.args.put(slot);
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
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The thread that left the CPU.
    pub outgoing: LegacySide,
    /// The thread that got the CPU.
    pub incoming: LegacySide,
    /// The state of the outgoing thread; any but running.
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
