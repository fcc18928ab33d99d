//! Event record (type 4): something that happened on a thread at a time.
//!
//! After the header word come: the timestamp; the process and thread koids when
//! the thread is inline; the category and the name when they are inline; the
//! arguments; and for most event types one more word, see [`has_extra_word`].

word! {
    /// Header word.
    HEADER {
        /// Record type (4).
        TYPE [0 .. 3]
        /// Record size in words.
        SIZE [4 .. 15]
        /// Event type.
        EVENT_TYPE [16 .. 19]
        /// Number of arguments.
        ARG_COUNT [20 .. 23]
        /// Thread (thread ref).
        THREAD [24 .. 31]
        /// Category (string ref).
        CATEGORY [32 .. 47]
        /// Name (string ref).
        NAME [48 .. 63]
    }
}

/// Instant event.
pub const INSTANT: u64 = 0;
/// Counter event; the extra word is the counter id.
pub const COUNTER: u64 = 1;
/// Duration begin event.
pub const DURATION_BEGIN: u64 = 2;
/// Duration end event.
pub const DURATION_END: u64 = 3;
/// Duration complete event; the extra word is the end time in ticks.
pub const DURATION_COMPLETE: u64 = 4;
/// Async begin event; the extra word is the async correlation id.
pub const ASYNC_BEGIN: u64 = 5;
/// Async instant event; the extra word is the async correlation id.
pub const ASYNC_INSTANT: u64 = 6;
/// Async end event; the extra word is the async correlation id.
pub const ASYNC_END: u64 = 7;
/// Flow begin event; the extra word is the flow correlation id.
pub const FLOW_BEGIN: u64 = 8;
/// Flow step event; the extra word is the flow correlation id.
pub const FLOW_STEP: u64 = 9;
/// Flow end event; the extra word is the flow correlation id.
pub const FLOW_END: u64 = 10;

/// Whether events of this type have one more word after the arguments.
#[must_use]
pub const fn has_extra_word(event_type: u64) -> bool {
    matches!(event_type, COUNTER | DURATION_COMPLETE..=FLOW_END)
}
