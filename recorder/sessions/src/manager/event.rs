//! Decodes the parts of providers' events that show which spans begin and end.
//!
//! A provider's data is not trusted. A record that is too short for its content, or refers to something unregistered, is not an event here;
//! in the archive it stays unchanged.

use std::sync::Arc;

use fxt_format::walk::{Body, inline_words, stream};
use fxt_format::{event, header, record_type, string_ref, thread_ref};

use super::names::Names;

/// The key of a track of spans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// Durations of a thread, by the koids of its process and its own.
    Thread(u64, u64),
    /// Operations of this category and id, which may go from thread to thread.
    Async(Arc<str>, u64),
}

/// The effect of an event on its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Begin(Label),
    /// Ends the innermost span; on an operation's track, the innermost span with this name. The end of a span of a thread may have another
    /// name.
    End(Arc<str>),
    /// A span that ended at this time.
    Whole(Label, u64),
    None,
}

/// The name of a span, and where it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The koid of the process.
    pub(super) process: u64,
    /// The koid of the thread.
    pub(super) thread: u64,
    pub(super) category: Arc<str>,
    pub(super) name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) track: Track,
    /// The koid of the thread that recorded it.
    pub(super) thread: u64,
    /// In ticks of its provider.
    pub(super) time: u64,
    pub(super) act: Act,
}

/// Decodes a record as an event, with the names at this point.
pub(super) fn decode(record: &[u64], names: &Names) -> Option<Seen> {
    let (first, mut body) = Body::of(record)?;
    if header::TYPE.get(first) != record_type::EVENT {
        return None;
    }
    let time = body.word()?;
    let (process, thread) = match event::THREAD.get(first) {
        thread_ref::INLINE => (body.word()?, body.word()?),
        index => names.thread(index)?,
    };
    let kind = event::EVENT_TYPE.get(first);
    let is_async = matches!(kind, event::ASYNC_BEGIN | event::ASYNC_INSTANT | event::ASYNC_END);
    let on_thread = |act| Some(Seen { track: Track::Thread(process, thread), thread, time, act });
    if kind == event::DURATION_END {
        let mut text = |field| text(field, &mut body, names);
        let name = text(event::CATEGORY.get(first)).and_then(|_| text(event::NAME.get(first)));
        return on_thread(Act::End(name.unwrap_or_default()));
    }
    let begins = matches!(kind, event::DURATION_BEGIN | event::ASYNC_BEGIN);
    let is_whole = kind == event::DURATION_COMPLETE;
    if !is_async && !begins && !is_whole {
        return on_thread(Act::None);
    }
    let category = text(event::CATEGORY.get(first), &mut body, names)?;
    let name = text(event::NAME.get(first), &mut body, names)?;
    let track = match is_async {
        // The id is last.
        true => Track::Async(category.clone(), *body.rest().last()?),
        false => Track::Thread(process, thread),
    };
    let act = match kind {
        event::ASYNC_INSTANT => Act::None,
        event::ASYNC_END => Act::End(name),
        event::DURATION_COMPLETE => {
            // The end is last.
            Act::Whole(Label { process, thread, category, name }, *body.rest().last()?)
        }
        _ => Act::Begin(Label { process, thread, category, name }),
    };
    Some(Seen { track, thread, time, act })
}

/// The text of a reference; an inline text is consumed from the record.
fn text(reference: u64, body: &mut Body<'_>, names: &Names) -> Option<Arc<str>> {
    if reference == string_ref::EMPTY {
        return Some(Arc::default());
    }
    let value = string_ref::VALUE.get(reference);
    if string_ref::INLINE.get(reference) == 0 {
        return names.string(value);
    }
    let words = body.words(inline_words(reference))?;
    Some(text_of(words, usize::try_from(value).ok()?))
}

/// The first `bytes` of words, as text.
pub(super) fn text_of(words: &[u64], bytes: usize) -> Arc<str> {
    fxt_writer::text::clean(&stream(words, bytes)).into()
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
        names.learn(&words(&StringRecord { index, content: "draw" }), usize::MAX);
        let index = ThreadRef::indexed(1).expect("not zero");
        names.learn(&words(&ThreadRecord { index, process: Koid(7), thread: Koid(8) }), usize::MAX);
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
                let end = event(EventKind::DurationEnd, thread, name);
                let seen = decode(&end, &names()).expect("an event");
                assert_eq!(seen.act, Act::End("draw".into()));
                let whole = event(EventKind::DurationComplete { end: Ticks(9) }, thread, name);
                let seen = decode(&whole, &names()).expect("an event");
                assert_eq!((seen.time, seen.act), (5, Act::Whole(label.clone(), 9)));
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
        // The arguments after the name are ignored.
        for length in 0..whole.len() - 4 {
            assert_eq!(decode(&whole[..length], &names()), None, "{length} words");
        }
    }
}
