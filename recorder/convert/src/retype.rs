//! What fxt-reader hands out, as fxt-writer takes it.
//!
//! The two crates share the format's tables, enumerations and identities, and nothing else, so that
//! each can test the other; whoever needs both translates the rest here.

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
