//! Events that consist of numbers only, once their strings and threads are
//! registered, as most events do.
//!
//! They are encoded in registers. An [`Event`](crate::record::Event) with its
//! arguments is several times as large as the record, and is written to and
//! copied on the stack before its first word reaches the buffer.

use crate::error::EncodeError;
use crate::layout::{argument, event, record_type};
use crate::record::{EventKind, Record, extra_word};
use crate::space::Slot;
use crate::{Ticks, Value};

/// Words before an event's arguments.
const FIXED_WORDS: usize = 2;

/// An event with registered thread, strings and argument names, and without
/// string values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<const N: usize> {
    /// Everything except the size.
    header: u64,
    time: Ticks,
    /// Each argument's first word, and its second word, if it has one.
    args: [(u64, Option<u64>); N],
    id: Option<u64>,
    words: usize,
}

impl<const N: usize> Plain<N> {
    /// The event of that kind whose thread, category, name and argument names have these table indices (0 for none); `None` if it is not
    /// plain.
    #[inline(always)]
    pub(super) fn new(
        kind: EventKind,
        time: Ticks,
        [thread, category, name]: [u64; 3],
        names: [u64; N],
        values: &[Value<'_>; N],
    ) -> Option<Self> {
        let (event_type, id) = (kind.event_type(), extra_word(kind));
        let mut words = FIXED_WORDS + N + usize::from(id.is_some());
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

    const TIME: Ticks = Ticks(77);
    /// Of the thread, the category and the name.
    const INDICES: [u64; 3] = [3, 1, 2];

    fn text(index: u16) -> Text<'static> {
        Text::Indexed(StringRef::indexed(index).expect("in range"))
    }

    /// The same event as an `Event` record.
    fn event<'a>(kind: EventKind, args: &'a [Arg<'a>]) -> Event<'a> {
        let thread = ThreadName::Indexed(ThreadRef::indexed(3).expect("in range"));
        Event { kind, time: TIME, thread, category: text(1), name: text(2), args }
    }

    #[test]
    fn without_arguments_it_is_the_same_record_if_all_is_registered() {
        let kinds = [EventKind::Instant, EventKind::DurationBegin, EventKind::DurationEnd];
        for kind in kinds.into_iter().chain([EventKind::Counter { id: 0 }]) {
            let plain = Plain::new(kind, TIME, INDICES, [], &[]).expect("it is plain");
            assert_eq!(words(&plain), words(&event(kind, &[])));
            for missing in 0..3 {
                let mut indices = INDICES;
                indices[missing] = 0;
                assert!(Plain::new(kind, TIME, indices, [], &[]).is_none());
            }
        }
    }

    #[test]
    fn with_arguments_it_is_the_same_record_if_none_is_a_string() {
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
            let plain = Plain::new(kind, TIME, INDICES, names, &values).expect("it is plain");
            assert_eq!(words(&plain), words(&event(kind, &args)));
        }
        let kind = EventKind::Instant;
        assert!(Plain::new(kind, TIME, [0, 1, 2], names, &values).is_none());
        assert!(Plain::new(kind, TIME, INDICES, [10, 0], &[Value::Null; 2]).is_none());
        let string = [Value::Str(text(4))];
        assert!(Plain::new(kind, TIME, INDICES, [10], &string).is_none());
    }
}
