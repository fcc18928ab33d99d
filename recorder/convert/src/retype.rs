//! Converts fxt-reader's types into fxt-writer's.
//!
//! The two crates share only the tables, enumerations and ids of the format, so each can test the other. Users of both crates convert the
//! other types here.

use fxt_reader::record as read;

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
        From::Koid(value) => To::Koid(value),
        From::Bool(value) => To::Bool(value),
        _ => return None,
    })
}

pub(super) fn thread(thread: fxt_reader::Thread) -> fxt_writer::writer::Thread {
    (thread.process, thread.thread)
}
