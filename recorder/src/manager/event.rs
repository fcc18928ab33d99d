//! Events of providers, as far as it matters which spans they begin and end.
//!
//! What a provider says may be anything. A record that is shorter than it says it needs, or that refers to what was
//! never registered, is no event here; in the archive it stays as it is.

use std::sync::Arc;

use fxt_writer::layout::{event, header, large_header, record_type, string_ref, thread_ref};

use super::names::Names;

/// Bytes in a word.
const WORD_BYTES: usize = 8;

/// What spans are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// Durations of a thread, by the koids of its process and its own.
    Thread(u64, u64),
    /// Operations of this category and id, which may go from thread to thread.
    Async(Arc<str>, u64),
}

/// What an event does to its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Begins a span.
    Begin(Label),
    /// Ends the innermost span; of an operation, the innermost of this name.
    End(Arc<str>),
    /// Neither.
    None,
}

/// What a span is called, and where it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The koid of the process.
    pub(super) process: u64,
    /// The koid of the thread.
    pub(super) thread: u64,
    pub(super) category: Arc<str>,
    pub(super) name: Arc<str>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) track: Track,
    /// In ticks of its provider.
    pub(super) time: u64,
    pub(super) act: Act,
}

/// The records of a piece, each whole.
pub(super) fn records(words: &[u64]) -> impl Iterator<Item = &[u64]> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (record, after) = rest.split_at_checked(record_words(*rest.first()?)?)?;
        rest = after;
        Some(record)
    })
}

/// How many words the record has that begins with this one; `None` when it cannot be one.
fn record_words(first: u64) -> Option<usize> {
    let words = match header::TYPE.get(first) {
        record_type::LARGE => large_header::SIZE.get(first),
        _ => header::SIZE.get(first),
    };
    usize::try_from(words).ok().filter(|words| *words > 0)
}

/// The event that a record is, with names as they are at this point.
pub(super) fn decode(record: &[u64], names: &Names) -> Option<Seen> {
    let (&first, mut rest) = record.split_first()?;
    if header::TYPE.get(first) != record_type::EVENT {
        return None;
    }
    let time = take(&mut rest, 1)?[0];
    let (process, thread) = match event::THREAD.get(first) {
        thread_ref::INLINE => {
            let koids = take(&mut rest, 2)?;
            (koids[0], koids[1])
        }
        index => names.thread(index)?,
    };
    let kind = event::EVENT_TYPE.get(first);
    let is_async = matches!(kind, event::ASYNC_BEGIN | event::ASYNC_INSTANT | event::ASYNC_END);
    let begins = matches!(kind, event::DURATION_BEGIN | event::ASYNC_BEGIN);
    if !is_async && !begins {
        let ends = kind == event::DURATION_END;
        let act = if ends { Act::End(Arc::default()) } else { Act::None };
        return Some(Seen { track: Track::Thread(process, thread), time, act });
    }
    let category = text(event::CATEGORY.get(first), &mut rest, names)?;
    let name = text(event::NAME.get(first), &mut rest, names)?;
    let track = match is_async {
        // The id comes last.
        true => Track::Async(category.clone(), *rest.last()?),
        false => Track::Thread(process, thread),
    };
    let act = match kind {
        event::ASYNC_INSTANT => Act::None,
        event::ASYNC_END => Act::End(name),
        _ => Act::Begin(Label { process, thread, category, name }),
    };
    Some(Seen { track, time, act })
}

/// The next `words` of a record.
fn take<'r>(rest: &mut &'r [u64], words: usize) -> Option<&'r [u64]> {
    let (taken, after) = rest.split_at_checked(words)?;
    *rest = after;
    Some(taken)
}

/// The text that a reference stands for; an inline one is taken out of the record.
fn text(reference: u64, rest: &mut &[u64], names: &Names) -> Option<Arc<str>> {
    let value = string_ref::VALUE.get(reference);
    if reference == string_ref::EMPTY {
        return Some(Arc::default());
    }
    if string_ref::INLINE.get(reference) == 0 {
        return names.string(value);
    }
    let bytes = usize::try_from(value).ok()?;
    let words = take(rest, bytes.div_ceil(WORD_BYTES))?;
    Some(text_of(words, bytes))
}

/// The first `bytes` of words, as text.
pub(super) fn text_of(words: &[u64], bytes: usize) -> Arc<str> {
    let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect();
    fxt_writer::text::clean(&all).into()
}

#[cfg(test)]
mod tests {
    use fxt_writer::record::{Event, EventKind, Record, StringRecord, ThreadRecord};
    use fxt_writer::{Arg, Koid, StringRef, Text, ThreadName, ThreadRef, Ticks, Value};

    use super::*;

    fn words(record: &impl Record) -> Vec<u64> {
        let mut words = Vec::new();
        record.write(&mut words).expect("a vector");
        words
    }

    fn names() -> Names {
        let mut names = Names::default();
        let index = StringRef::indexed(3).expect("not zero");
        names.learn(&words(&StringRecord { index, content: "draw" }));
        let index = ThreadRef::indexed(1).expect("not zero");
        names.learn(&words(&ThreadRecord { index, process: Koid(7), thread: Koid(8) }));
        names
    }

    fn event(kind: EventKind, thread: ThreadName, name: Text<'_>) -> Vec<u64> {
        let args = [Arg::new(Text::Inline("an argument"), Value::Int32(4))];
        let category = Text::Inline("a category of some length");
        words(&Event { kind, time: Ticks(5), thread, category, name, args: &args })
    }

    #[test]
    fn names_are_found_inline_and_by_index() {
        let indexed = ThreadName::Indexed(ThreadRef::indexed(1).expect("not zero"));
        let inline = ThreadName::Inline { process: Koid(7), thread: Koid(8) };
        let draw = Text::Indexed(StringRef::indexed(3).expect("not zero"));
        let label = Label {
            process: 7,
            thread: 8,
            category: "a category of some length".into(),
            name: "draw".into(),
        };
        for thread in [indexed, inline] {
            for name in [draw, Text::Inline("draw")] {
                let begin = event(EventKind::DurationBegin, thread, name);
                let seen = decode(&begin, &names()).expect("an event");
                assert_eq!((seen.track, seen.time), (Track::Thread(7, 8), 5));
                assert_eq!(seen.act, Act::Begin(label.clone()));
                let end = event(EventKind::AsyncEnd { id: 99 }, thread, name);
                let seen = decode(&end, &names()).expect("an event");
                assert_eq!(seen.track, Track::Async(label.category.clone(), 99));
                assert_eq!(seen.act, Act::End("draw".into()));
            }
        }
    }

    #[test]
    fn what_refers_to_nothing_and_what_is_cut_short_is_no_event() {
        let thread = ThreadName::Indexed(ThreadRef::indexed(2).expect("not zero"));
        let begin = event(EventKind::DurationBegin, thread, Text::EMPTY);
        assert_eq!(decode(&begin, &names()), None);
        let thread = ThreadName::Inline { process: Koid(7), thread: Koid(8) };
        let whole = event(EventKind::DurationBegin, thread, Text::Inline("draw"));
        // Behind the name are arguments, which are not looked at.
        for length in 0..whole.len() - 4 {
            assert_eq!(decode(&whole[..length], &names()), None, "{length} words");
        }
    }

    #[test]
    fn a_piece_is_walked_up_to_what_is_no_record() {
        let thread = ThreadName::Inline { process: Koid(7), thread: Koid(8) };
        let one = event(EventKind::Instant, thread, Text::Inline("draw"));
        let mut piece = [one.clone(), one.clone()].concat();
        assert_eq!(records(&piece).collect::<Vec<_>>(), [&one[..], &one[..]]);
        piece.push(0);
        assert_eq!(records(&piece).count(), 2);
        assert_eq!(records(&one[..2]).count(), 0);
    }
}
