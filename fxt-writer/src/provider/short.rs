//! The shortest events, which are most of them: a moment, begin or end without
//! arguments, of strings and a thread that are registered.

use crate::Ticks;
use crate::error::EncodeError;
use crate::layout::{event, record_type};
use crate::record::{EventKind, Record};
use crate::space::Slot;

/// Words in such an event.
const WORDS: usize = 2;

/// An event of two words, of which the first says everything but the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    header: u64,
    time: Ticks,
}

impl Short {
    /// The event of that kind whose thread and strings have these indices in their
    /// tables, where 0 is none; and if it is so short.
    #[inline(always)]
    pub(super) fn new(
        kind: EventKind,
        time: Ticks,
        [thread, category, name]: [u64; 3],
    ) -> Option<Self> {
        let bare =
            matches!(kind, EventKind::Instant | EventKind::DurationBegin | EventKind::DurationEnd);
        let header = event::TYPE.put(record_type::EVENT)
            | event::SIZE.put(WORDS as u64)
            | event::EVENT_TYPE.put(kind.encoded().0)
            | event::THREAD.put(thread)
            | event::CATEGORY.put(category)
            | event::NAME.put(name);
        let registered = thread != 0 && category != 0 && name != 0;
        (bare && registered).then_some(Self { header, time })
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
    use crate::record::Event;
    use crate::{StringRef, Text, ThreadName, ThreadRef};

    fn words(record: &impl Record) -> Vec<u64> {
        let mut words = Vec::new();
        record.write(&mut words).expect("a vector");
        words
    }

    #[test]
    fn a_short_event_is_the_same_record_and_no_other_event_is_short() {
        let text = |index| Text::Indexed(StringRef::indexed(index).expect("in range"));
        let (time, indices) = (Ticks(77), [3, 1, 2]);
        for kind in [EventKind::Instant, EventKind::DurationBegin, EventKind::DurationEnd] {
            let event = Event {
                kind,
                time,
                thread: ThreadName::Indexed(ThreadRef::indexed(3).expect("in range")),
                category: text(1),
                name: text(2),
                args: &[],
            };
            let short = Short::new(kind, time, indices).expect("it is short");
            assert_eq!(words(&short), words(&event));
            for missing in 0..3 {
                let mut indices = indices;
                indices[missing] = 0;
                assert!(Short::new(kind, time, indices).is_none());
            }
        }
        assert!(Short::new(EventKind::Counter { id: 0 }, time, indices).is_none());
    }
}
