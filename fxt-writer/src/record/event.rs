//! Event record: something that happened on a thread ("Event record").

use super::{Record, checked_size};
use crate::arg::{self, Arg, Text};
use crate::error::EncodeError;
use crate::ids::{ThreadName, Ticks};
use crate::layout::{event, record_type};
use crate::space::Slot;

/// The kind of an event, with its extra fields.
pub type EventKind = fxt_format::EventKind<Ticks>;

/// The word after the arguments, if the kind has one.
#[inline]
pub(crate) const fn extra_word(kind: EventKind) -> Option<u64> {
    match kind {
        EventKind::DurationComplete { end } => Some(end.0),
        _ => kind.id(),
    }
}

/// An event of any of the eleven kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// The kind of event.
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
        let extra = usize::from(extra_word(self.kind).is_some());
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
            | event::EVENT_TYPE.put(self.kind.event_type())
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
        if let Some(word) = extra_word(self.kind) {
            slot.put(word);
        }
    }
}
