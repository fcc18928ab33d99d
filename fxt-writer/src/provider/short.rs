//! The shortest events, which are most of them: a moment, begin or end without
//! arguments, of strings and a thread that are registered.

use crate::error::EncodeError;
use crate::record::{Event, EventKind, Record};
use crate::space::Slot;
use crate::{Text, ThreadName, Ticks};

/// Words in such an event.
const WORDS: usize = 2;

/// An event of two words, of which the first says everything but the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    header: u64,
    time: Ticks,
}

impl Short {
    /// `event`, if it is so short.
    #[inline(always)]
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let Event { kind, time, thread, category, name, args } = *event;
        let bare =
            matches!(kind, EventKind::Instant | EventKind::DurationBegin | EventKind::DurationEnd);
        let registered = matches!(
            (thread, category, name),
            (ThreadName::Indexed(_), Text::Indexed(_), Text::Indexed(_))
        );
        let is_short = bare && registered && args.is_empty();
        is_short.then(|| Self { header: event.header(WORDS), time })
    }
}

impl Record for Short {
    #[inline(always)]
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(WORDS)
    }

    #[inline(always)]
    fn header(&self, _: usize) -> u64 {
        self.header
    }

    #[inline(always)]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arg, Koid, StringRef, ThreadRef, Value};

    fn words(record: &impl Record) -> Vec<u64> {
        let mut words = Vec::new();
        record.write(&mut words).expect("a vector");
        words
    }

    #[test]
    fn a_short_event_is_the_same_record_and_no_other_event_is_short() {
        let text = |index| Text::Indexed(StringRef::indexed(index).expect("in range"));
        let short = Event {
            kind: EventKind::DurationBegin,
            time: Ticks(77),
            thread: ThreadName::Indexed(ThreadRef::indexed(3).expect("in range")),
            category: text(1),
            name: text(2),
            args: &[],
        };
        for kind in [EventKind::Instant, EventKind::DurationBegin, EventKind::DurationEnd] {
            let event = Event { kind, ..short };
            let found = Short::of(&event).expect("it is short");
            assert_eq!(words(&found), words(&event));
        }
        let args = [Arg::new(text(4), Value::Null)];
        let thread = ThreadName::Inline { process: Koid(1), thread: Koid(2) };
        let others = [
            Event { kind: EventKind::Counter { id: 0 }, ..short },
            Event { args: &args, ..short },
            Event { thread, ..short },
            Event { category: Text::Inline("a"), ..short },
            Event { name: Text::Inline("a"), ..short },
        ];
        assert!(others.iter().all(|event| Short::of(event).is_none()));
    }
}
