//! Event records: something that happened on a thread at a time.

use fxt_writer::layout::event;

use super::Kind;
use super::argument::Args;
use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Nanos, Thread};

/// Something that happened on a thread at a time ("Event record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// When.
    pub time: Nanos,
    /// Where.
    pub thread: Thread,
    /// What it belongs to.
    pub category: &'a str,
    /// What it is called.
    pub name: &'a str,
    /// Which of the eleven event types it is, with what that type carries.
    pub kind: EventKind,
    /// Its arguments.
    pub args: Args<'a>,
}

/// The type of an event and the word that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A moment.
    Instant,
    /// A sample of a counter: each numeric argument is a series.
    Counter {
        /// Tells counters of the same name apart.
        id: u64,
    },
    /// The begin of an operation on this thread.
    DurationBegin,
    /// The end of the operation begun last on this thread.
    DurationEnd,
    /// An operation on this thread, begin and end in one.
    DurationComplete {
        /// When it ended.
        end: Nanos,
    },
    /// The begin of an operation that may span threads.
    AsyncBegin {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// A moment of an operation that may span threads.
    AsyncInstant {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// The end of an operation that may span threads.
    AsyncEnd {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// The begin of a flow, an arrow between durations.
    FlowBegin {
        /// Correlates the events of one flow.
        id: u64,
    },
    /// A point a flow passes.
    FlowStep {
        /// Correlates the events of one flow.
        id: u64,
    },
    /// The end of a flow.
    FlowEnd {
        /// Correlates the events of one flow.
        id: u64,
    },
}

impl EventKind {
    /// The kind of the whole record.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Instant => Kind::Instant,
            Self::Counter { .. } => Kind::Counter,
            Self::DurationBegin => Kind::DurationBegin,
            Self::DurationEnd => Kind::DurationEnd,
            Self::DurationComplete { .. } => Kind::DurationComplete,
            Self::AsyncBegin { .. } => Kind::AsyncBegin,
            Self::AsyncInstant { .. } => Kind::AsyncInstant,
            Self::AsyncEnd { .. } => Kind::AsyncEnd,
            Self::FlowBegin { .. } => Kind::FlowBegin,
            Self::FlowStep { .. } => Kind::FlowStep,
            Self::FlowEnd { .. } => Kind::FlowEnd,
        }
    }

    /// The id of a counter, or the correlation id of an async event or a flow.
    #[must_use]
    pub const fn id(self) -> Option<u64> {
        match self {
            Self::Counter { id }
            | Self::AsyncBegin { id }
            | Self::AsyncInstant { id }
            | Self::AsyncEnd { id }
            | Self::FlowBegin { id }
            | Self::FlowStep { id }
            | Self::FlowEnd { id } => Some(id),
            _ => None,
        }
    }
}

impl<'a> Event<'a> {
    /// Reads an event of one of the eleven types.
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, event::HEADER);
        let time = tables.time(cursor.word()?)?;
        let thread = tables.thread(event::THREAD.get(header), cursor)?;
        let category = tables.string(event::CATEGORY.get(header), cursor)?;
        let name = tables.string(event::NAME.get(header), cursor)?;
        let args = Args::parse(cursor, event::ARG_COUNT.get(header), tables)?;
        let kind = match event::EVENT_TYPE.get(header) {
            event::INSTANT => EventKind::Instant,
            event::COUNTER => EventKind::Counter { id: cursor.word()? },
            event::DURATION_BEGIN => EventKind::DurationBegin,
            event::DURATION_END => EventKind::DurationEnd,
            event::DURATION_COMPLETE => {
                EventKind::DurationComplete { end: tables.time(cursor.word()?)? }
            }
            event::ASYNC_BEGIN => EventKind::AsyncBegin { id: cursor.word()? },
            event::ASYNC_INSTANT => EventKind::AsyncInstant { id: cursor.word()? },
            event::ASYNC_END => EventKind::AsyncEnd { id: cursor.word()? },
            event::FLOW_BEGIN => EventKind::FlowBegin { id: cursor.word()? },
            event::FLOW_STEP => EventKind::FlowStep { id: cursor.word()? },
            _ => EventKind::FlowEnd { id: cursor.word()? },
        };
        Ok(Self { time, thread, category, name, kind, args })
    }
}
