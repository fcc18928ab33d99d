//! Events that nothing but numbers remain of, once their strings and threads are
//! registered: most of those that programs record.
//!
//! They are put together in registers. An [`Event`](crate::record::Event) with its
//! arguments is several times as large as the record, and has been written to the
//! stack and copied there before a word of it is in the buffer.

use crate::error::EncodeError;
use crate::layout::{argument, event, record_type};
use crate::record::{EventKind, Record};
use crate::space::Slot;
use crate::{Ticks, Value};

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

/// An event with arguments whose values are no strings and whose names are
/// registered, or of a kind that has an id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<const N: usize> {
    /// All but the size.
    header: u64,
    time: Ticks,
    /// Each argument's first word, and whether it has another.
    args: [(u64, Option<u64>); N],
    id: Option<u64>,
    words: usize,
}

impl<const N: usize> Plain<N> {
    /// The event, if it is plain. The indices are as in [`Short::new`], and those of
    /// the arguments' names.
    #[inline(always)]
    pub(super) fn new(
        kind: EventKind,
        time: Ticks,
        [thread, category, name]: [u64; 3],
        names: [u64; N],
        values: &[Value<'_>; N],
    ) -> Option<Self> {
        let (event_type, id) = kind.encoded();
        let mut words = WORDS + N + usize::from(id.is_some());
        let mut args = [(0, None); N];
        for ((arg, name), value) in args.iter_mut().zip(names).zip(values) {
            if name == 0 || matches!(value, Value::Str(_)) {
                return None;
            }
            let (data, own) = value.encoded();
            let size = 1 + usize::from(own.is_some());
            let first = data | argument::SIZE.put(size as u64) | argument::NAME.put(name);
            *arg = (first, own);
            words += usize::from(own.is_some());
        }
        let header = event::TYPE.put(record_type::EVENT)
            | event::EVENT_TYPE.put(event_type)
            | event::ARG_COUNT.put(N as u64)
            | event::THREAD.put(thread)
            | event::CATEGORY.put(category)
            | event::NAME.put(name);
        let registered = thread != 0 && category != 0 && name != 0;
        registered.then_some(Self { header, time, args, id, words })
    }
}

impl<const N: usize> Record for Plain<N> {
    #[inline(always)]
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(self.words)
    }

    #[inline(always)]
    fn header(&self, words: usize) -> u64 {
        self.header | event::SIZE.put(words as u64)
    }

    #[inline(always)]
    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        for (first, own) in self.args {
            slot.put(first);
            if let Some(word) = own {
                slot.put(word);
            }
        }
        if let Some(word) = self.id {
            slot.put(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Event;
    use crate::{Arg, Koid, StringRef, Text, ThreadName, ThreadRef};

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

    #[test]
    fn a_plain_event_is_the_same_record_and_one_with_a_string_is_not_plain() {
        let text = |index| Text::Indexed(StringRef::indexed(index).expect("in range"));
        let (time, indices) = (Ticks(77), [3, 1, 2]);
        let values = [
            Value::Null,
            Value::Int32(-5),
            Value::Uint32(5),
            Value::Int64(i64::MIN),
            Value::Uint64(u64::MAX),
            Value::Double(0.5),
            Value::Pointer(0xdead),
            Value::Koid(Koid(9)),
            Value::Bool(true),
        ];
        let names = std::array::from_fn(|at| 10 + at as u64);
        let args: [_; 9] = std::array::from_fn(|at| Arg::new(text(10 + at as u16), values[at]));
        for kind in [EventKind::DurationBegin, EventKind::Counter { id: 8 }] {
            let event = Event {
                kind,
                time,
                thread: ThreadName::Indexed(ThreadRef::indexed(3).expect("in range")),
                category: text(1),
                name: text(2),
                args: &args,
            };
            let plain = Plain::new(kind, time, indices, names, &values).expect("it is plain");
            assert_eq!(words(&plain), words(&event));
        }
        let kind = EventKind::Instant;
        assert!(Plain::new(kind, time, [0, 1, 2], names, &values).is_none());
        assert!(Plain::new(kind, time, indices, [10, 0], &[Value::Null; 2]).is_none());
        let string = [Value::Str(text(4))];
        assert!(Plain::new(kind, time, indices, [10], &string).is_none());
    }
}
