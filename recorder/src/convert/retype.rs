//! What fxt-reader hands out, as fxt-writer takes it.
//!
//! The two crates share the format's layout and nothing else, so that each can test the other;
//! whoever needs both translates here.

use fxt_reader::record as read;
use fxt_writer::record as write;

/// An argument's value. `None` for a type that the format does not define.
pub(super) fn value(value: read::Value<'_>) -> Option<fxt_writer::Value<'_>> {
    use fxt_writer::Value as To;
    use read::Value as From;
    Some(match value {
        From::Null => To::Null,
        From::Int32(value) => To::Int32(value),
        From::UInt32(value) => To::Uint32(value),
        From::Int64(value) => To::Int64(value),
        From::UInt64(value) => To::Uint64(value),
        From::Double(value) => To::Double(value),
        From::Str(value) => To::Str(fxt_writer::Text::Inline(value)),
        From::Pointer(value) => To::Pointer(value),
        From::Koid(value) => To::Koid(koid(value)),
        From::Bool(value) => To::Bool(value),
        _ => return None,
    })
}

/// A koid.
pub(super) fn koid(koid: fxt_reader::Koid) -> fxt_writer::Koid {
    fxt_writer::Koid(koid.0)
}

/// A time, which in what we write is always in nanoseconds.
pub(super) fn time(time: fxt_reader::Nanos) -> fxt_writer::Ticks {
    fxt_writer::Ticks(time.0)
}

/// A thread.
pub(super) fn thread(thread: fxt_reader::Thread) -> fxt_writer::writer::Thread {
    (koid(thread.process), koid(thread.thread))
}

/// A thread's state. `None` for a value that the format does not define.
pub(super) fn state(state: fxt_reader::ThreadState) -> Option<write::ThreadState> {
    use fxt_reader::ThreadState as From;
    use write::ThreadState as To;
    Some(match state {
        From::New => To::New,
        From::Running => To::Running,
        From::Suspended => To::Suspended,
        From::Blocked => To::Blocked,
        From::Dying => To::Dying,
        From::Dead => To::Dead,
        _ => return None,
    })
}

/// The kind of a kernel object.
pub(super) fn object_type(kind: fxt_reader::ObjectType) -> write::ObjectType {
    match kind {
        fxt_reader::ObjectType::Process => write::ObjectType::Process,
        fxt_reader::ObjectType::Thread => write::ObjectType::Thread,
        fxt_reader::ObjectType::Other(number) => write::ObjectType::Other(number),
        // All values of the field are one of the above; the type leaves room for names of more.
        _ => write::ObjectType::Other(0),
    }
}

/// The kind of an event, with its word. `None` for one that the format does not define.
pub(super) fn event_kind(kind: read::EventKind) -> Option<write::EventKind> {
    use read::EventKind as From;
    use write::EventKind as To;
    Some(match kind {
        From::Instant => To::Instant,
        From::Counter { id } => To::Counter { id },
        From::DurationBegin => To::DurationBegin,
        From::DurationEnd => To::DurationEnd,
        From::DurationComplete { end } => To::DurationComplete { end: time(end) },
        From::AsyncBegin { id } => To::AsyncBegin { id },
        From::AsyncInstant { id } => To::AsyncInstant { id },
        From::AsyncEnd { id } => To::AsyncEnd { id },
        From::FlowBegin { id } => To::FlowBegin { id },
        From::FlowStep { id } => To::FlowStep { id },
        From::FlowEnd { id } => To::FlowEnd { id },
        _ => return None,
    })
}
