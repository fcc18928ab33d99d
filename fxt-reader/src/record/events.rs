//! Event records: something that happened on a thread at a time.

use fxt_format::event;

use super::Kind;
use super::argument::Args;
use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Nanos, Thread};

/// Something that happened on a thread at a time ("Event record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// The thread that the event is on.
    pub thread: Thread,
    /// The category, by which viewers and sessions filter.
    pub category: &'a str,
    /// The name that viewers show.
    pub name: &'a str,
    /// Which of the eleven event types it is, with the extra fields of that type.
    pub kind: EventKind,
    /// Its arguments.
    pub args: Args<'a>,
}

/// The type of an event with its extra fields.
pub type EventKind = fxt_format::EventKind<Nanos>;

impl Kind {
    /// The record kind of an event of this kind.
    #[must_use]
    pub const fn of_event(kind: &EventKind) -> Self {
        match kind {
            EventKind::Instant => Self::Instant,
            EventKind::Counter { .. } => Self::Counter,
            EventKind::DurationBegin => Self::DurationBegin,
            EventKind::DurationEnd => Self::DurationEnd,
            EventKind::DurationComplete { .. } => Self::DurationComplete,
            EventKind::AsyncBegin { .. } => Self::AsyncBegin,
            EventKind::AsyncInstant { .. } => Self::AsyncInstant,
            EventKind::AsyncEnd { .. } => Self::AsyncEnd,
            EventKind::FlowBegin { .. } => Self::FlowBegin,
            EventKind::FlowStep { .. } => Self::FlowStep,
            EventKind::FlowEnd { .. } => Self::FlowEnd,
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
