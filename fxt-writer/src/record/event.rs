//! Event record: something that happened on a thread ("Event record").

use super::{Record, checked_size};
use crate::arg::{self, Arg};
use crate::error::EncodeError;
use crate::ids::{ThreadName, Ticks};
use crate::layout::{event, record_type};
use crate::space::Slot;
use crate::text::Text;

/// What kind of event it is, with what that kind adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A moment in time.
    Instant,
    /// Samples of a time series: each argument is one value.
    Counter {
        /// Tells counters of the same name apart.
        id: u64,
    },
    /// An operation begins on this thread.
    DurationBegin,
    /// The innermost operation of this thread ends.
    DurationEnd,
    /// An operation that began at the event's time and is over.
    DurationComplete {
        /// When it ended.
        end: Ticks,
    },
    /// An operation that may span threads begins.
    AsyncBegin {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// A moment within an operation that may span threads.
    AsyncInstant {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// An operation that may span threads ends.
    AsyncEnd {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// A sequence of actions begins, in the duration around this event.
    FlowBegin {
        /// Correlates the events of one flow.
        id: u64,
    },
    /// A point within a flow.
    FlowStep {
        /// Correlates the events of one flow.
        id: u64,
    },
    /// A flow ends.
    FlowEnd {
        /// Correlates the events of one flow.
        id: u64,
    },
}

impl EventKind {
    /// The event type, and the word after the arguments where there is one.
    #[inline]
    pub(crate) const fn encoded(self) -> (u64, Option<u64>) {
        match self {
            Self::Instant => (event::INSTANT, None),
            Self::Counter { id } => (event::COUNTER, Some(id)),
            Self::DurationBegin => (event::DURATION_BEGIN, None),
            Self::DurationEnd => (event::DURATION_END, None),
            Self::DurationComplete { end } => (event::DURATION_COMPLETE, Some(end.0)),
            Self::AsyncBegin { id } => (event::ASYNC_BEGIN, Some(id)),
            Self::AsyncInstant { id } => (event::ASYNC_INSTANT, Some(id)),
            Self::AsyncEnd { id } => (event::ASYNC_END, Some(id)),
            Self::FlowBegin { id } => (event::FLOW_BEGIN, Some(id)),
            Self::FlowStep { id } => (event::FLOW_STEP, Some(id)),
            Self::FlowEnd { id } => (event::FLOW_END, Some(id)),
        }
    }
}

/// An event of any of the eleven kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// What kind of event it is.
    pub kind: EventKind,
    /// When it happened, or began.
    pub time: Ticks,
    /// The thread it happened on.
    pub thread: ThreadName,
    /// Its category, by which viewers group and filter.
    pub category: Text<'a>,
    /// Its name.
    pub name: Text<'a>,
    /// Up to 15 arguments.
    pub args: &'a [Arg<'a>],
}

impl Record for Event<'_> {
    #[inline]
    fn words(&self) -> Result<usize, EncodeError> {
        let extra = usize::from(self.kind.encoded().1.is_some());
        checked_size(
            2 + self.thread.inline_words()
                + self.category.inline_words()?
                + self.name.inline_words()?
                + arg::words(self.args)?
                + extra,
        )
    }

    #[inline]
    fn header(&self, words: usize) -> u64 {
        event::TYPE.put(record_type::EVENT)
            | event::SIZE.put(words as u64)
            | event::EVENT_TYPE.put(self.kind.encoded().0)
            | event::ARG_COUNT.put(self.args.len() as u64)
            | event::THREAD.put(self.thread.encoded())
            | event::CATEGORY.put(self.category.encoded())
            | event::NAME.put(self.name.encoded())
    }

    #[inline]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        if let ThreadName::Inline { process, thread } = self.thread {
            slot.put(process.0);
            slot.put(thread.0);
        }
        self.category.put(slot);
        self.name.put(slot);
        arg::put(self.args, slot);
        if let Some(word) = self.kind.encoded().1 {
            slot.put(word);
        }
    }
}
