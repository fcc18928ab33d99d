//! The content of 64-bit words: named spans of bits, a word as a table of such
//! spans, the size of a record from its header word, and the enumerations of
//! field values. Writer and reader share them.

use std::fmt;

use crate::limits::WORD_BYTES;
use crate::metadata::provider_event;
use crate::scheduling::{context_switch, thread_state};
use crate::{blob, event, header, kernel_object, large_header, record_type};

/// Declares one word: a constant [`Field`] per named field, and a
/// [`Word`] that lists them. Bit positions are inclusive, as in the
/// format specification.
macro_rules! word {
    (
        $(#[$word_doc:meta])*
        $word:ident {
            $( $(#[$field_doc:meta])* $field:ident [$first:literal .. $last:literal] )+
        }
    ) => {
        $(
            $(#[$field_doc])*
            #[doc = concat!("\n\nBits `[", $first, " .. ", $last, "]`.")]
            pub const $field: $crate::Field = $crate::Field::new($first, $last);
        )+

        $(#[$word_doc])*
        pub const $word: $crate::Word = $crate::Word::new(&[
            $( (stringify!($field), $field) ),+
        ]);
    };
}

/// A span of bits `[first .. last]` of a 64-bit word, both ends inclusive, as
/// the format specification writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    first: u32,
    last: u32,
}

impl Field {
    /// The field `[first .. last]`.
    ///
    /// # Panics
    ///
    /// When the span is empty or leaves the word. Tables are constants, so this
    /// is a compile error there.
    #[must_use]
    pub const fn new(first: u32, last: u32) -> Self {
        assert!(first <= last && last <= 63, "a field lies within one 64-bit word");
        Self { first, last }
    }

    /// Position of the least significant bit.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// Position of the most significant bit.
    #[must_use]
    pub const fn last(self) -> u32 {
        self.last
    }

    /// Width in bits, 1 to 64.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.last - self.first + 1
    }

    /// The largest value that fits.
    #[must_use]
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The word whose bits are one in this field and zero elsewhere.
    #[must_use]
    pub const fn mask(self) -> u64 {
        self.max() << self.first
    }

    /// Whether `value` can be stored without loss.
    #[must_use]
    pub const fn fits(self, value: u64) -> bool {
        value <= self.max()
    }

    /// The field's value in `word`.
    #[must_use]
    #[inline(always)]
    pub const fn get(self, word: u64) -> u64 {
        (word & self.mask()) >> self.first
    }

    /// A word that holds `value` in this field and zero elsewhere; combine such words with `|`.
    ///
    /// A value that is too wide is truncated to its low bits, so that the neighbouring fields stay intact; debug builds panic. Check a
    /// value that may be too wide with [`fits`](Self::fits) first.
    #[must_use]
    #[inline(always)]
    pub const fn put(self, value: u64) -> u64 {
        debug_assert!(self.fits(value), "value too wide for its field");
        (value << self.first) & self.mask()
    }

    /// `word` with this field replaced by `value`; see [`put`](Self::put) for
    /// values that are too wide.
    #[must_use]
    #[inline(always)]
    pub const fn set(self, word: u64, value: u64) -> u64 {
        (word & !self.mask()) | self.put(value)
    }
}

/// The table of one word: its fields with their names, lowest bits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    fields: &'static [(&'static str, Field)],
    used: u64,
}

impl Word {
    /// A word made of `fields`.
    ///
    /// # Panics
    ///
    /// When two fields overlap. Tables are constants, so this is a compile
    /// error there.
    #[must_use]
    pub const fn new(fields: &'static [(&'static str, Field)]) -> Self {
        let mut used = 0;
        let mut at = 0;
        while at < fields.len() {
            let mask = fields[at].1.mask();
            assert!(used & mask == 0, "two fields of a word overlap");
            used |= mask;
            at += 1;
        }
        Self { fields, used }
    }

    /// The fields with the names of their constants, lowest bits first.
    #[must_use]
    pub const fn fields(self) -> &'static [(&'static str, Field)] {
        self.fields
    }

    /// The bits that belong to no field: a writer leaves them zero, a reader
    /// ignores them.
    #[must_use]
    pub const fn reserved(self) -> u64 {
        !self.used
    }
}

/// The number of words of the record with this header word; `None` if its size is zero, which no record has.
#[must_use]
#[inline]
pub const fn record_words(first: u64) -> Option<usize> {
    let words = match header::TYPE.get(first) {
        record_type::LARGE => large_header::SIZE.get(first),
        _ => header::SIZE.get(first),
    };
    // At most 32 bits.
    if words == 0 { None } else { Some(words as usize) }
}

/// Whether this is the header word of a record of `words` words.
#[must_use]
#[inline(always)]
pub const fn has_size(first: u64, words: usize) -> bool {
    matches!(record_words(first), Some(size) if size == words)
}

/// The number of bytes of the record with this header word; `None` as for [`record_words`], or if the number does not fit
/// a `usize`.
#[must_use]
#[inline]
pub const fn record_bytes(first: u64) -> Option<usize> {
    match record_words(first) {
        Some(words) => words.checked_mul(WORD_BYTES),
        None => None,
    }
}

/// Declares the enumeration of a field's values: each value with a display name, and one variant for the values that the
/// format does not define.
macro_rules! enumeration {
    (
        $(#[$doc:meta])*
        $name:ident in $field:expr, others $(#[$other_doc:meta])* $other:ident as $prefix:literal {
            $( $(#[$value_doc:meta])* $variant:ident = $value:path, $text:literal; )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$value_doc])* $variant, )+
            $(#[$other_doc])*
            $other(u8),
        }

        impl $name {
            /// The variant for a value of the field.
            #[must_use]
            #[inline]
            pub const fn from_field(value: u64) -> Self {
                match value {
                    $( $value => Self::$variant, )+
                    other if other <= u8::MAX as u64 => Self::$other(other as u8),
                    _ => Self::$other(u8::MAX),
                }
            }

            /// The value of the field; an undefined one is truncated to the bits that fit.
            #[must_use]
            #[inline]
            pub const fn to_field(self) -> u64 {
                match self {
                    $( Self::$variant => $value, )+
                    Self::$other(other) => other as u64 & $field.max(),
                }
            }

            /// The defined variant with this display name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $( $text => Some(Self::$variant), )+
                    _ => None,
                }
            }

            /// The display name, if the format defines the value.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$variant => Some($text), )+
                    Self::$other(_) => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::$other(other) => write!(f, concat!($prefix, "{}"), other),
                    named => f.write_str(named.name().unwrap_or_default()),
                }
            }
        }
    };
}

enumeration! {
    /// The four bits that every record header begins with ("Record Types").
    RecordType in header::TYPE, others
    /// A type that the format does not define.
    Undefined as "record of unknown type " {
        /// Written by the program that assembles an archive.
        Metadata = record_type::METADATA, "metadata record";
        /// Sets the ticks per second of the records that follow.
        Initialization = record_type::INITIALIZATION, "initialization record";
        /// An entry of the string table.
        String = record_type::STRING, "string record";
        /// An entry of the thread table.
        Thread = record_type::THREAD, "thread record";
        /// Something that happened on a thread.
        Event = record_type::EVENT, "event record";
        /// A named block of bytes.
        Blob = record_type::BLOB, "blob record";
        /// What a pointer refers to.
        UserspaceObject = record_type::USERSPACE_OBJECT, "userspace object record";
        /// What a koid refers to.
        KernelObject = record_type::KERNEL_OBJECT, "kernel object record";
        /// Threads woken, and switched in and out of a CPU.
        Scheduling = record_type::SCHEDULING, "scheduling record";
        /// A message written to the log.
        Log = record_type::LOG, "log record";
        /// A module, a mapping or a backtrace; see [`profiler`](crate::profiler).
        Profiler = record_type::PROFILER, "profiler record";
        /// A record whose size field has 32 bits.
        Large = record_type::LARGE, "large record";
    }
}

enumeration! {
    /// The state of a thread that leaves a CPU ("Thread States").
    ThreadState in context_switch::OUTGOING_STATE, others
    /// A state that the format does not define, 6 to 15.
    Undefined as "state-" {
        /// Created, never ran.
        New = thread_state::NEW, "new";
        /// Runnable: it was preempted.
        Running = thread_state::RUNNING, "running";
        /// Suspended, for example stopped by a signal.
        Suspended = thread_state::SUSPENDED, "suspended";
        /// Waiting, so not runnable.
        Blocked = thread_state::BLOCKED, "blocked";
        /// Exiting, but not yet dead.
        Dying = thread_state::DYING, "dying";
        /// The thread has exited.
        Dead = thread_state::DEAD, "dead";
    }
}

enumeration! {
    /// The type of a kernel object, one of Zircon's `ZX_OBJ_TYPE` values.
    ObjectType in kernel_object::OBJECT_TYPE, others
    /// Another kind, by its `ZX_OBJ_TYPE` number.
    Other as "object-type-" {
        /// A process.
        Process = kernel_object::ZX_OBJ_TYPE_PROCESS, "process";
        /// A thread; its record has a [`PROCESS_ARG`](kernel_object::PROCESS_ARG) koid argument.
        Thread = kernel_object::ZX_OBJ_TYPE_THREAD, "thread";
    }
}

enumeration! {
    /// What a provider can report ("Provider event metadata").
    ProviderEventKind in provider_event::EVENT_ID, others
    /// An event that the format does not define, 1 to 15.
    Undefined as "event-" {
        /// A buffer filled up; records were likely dropped.
        BufferFilledUp = provider_event::BUFFER_FILLED_UP, "buffer filled up";
    }
}

enumeration! {
    /// The type of a BLOB record's payload ("BLOB record").
    BlobType in blob::BLOB_TYPE, others
    /// A type that the format does not define.
    Undefined as "type-" {
        /// Raw untyped data.
        Data = blob::DATA, "data";
        /// Last branch records of an Intel performance monitor.
        LastBranch = blob::LAST_BRANCH, "last_branch";
        /// A piece of a Perfetto protobuf trace.
        Perfetto = blob::PERFETTO, "perfetto";
    }
}

/// The kind of an event, with its extra fields ("Event record"). `T` is a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind<T> {
    /// A single point in time.
    Instant,
    /// A sample of a counter: each numeric argument is a series.
    Counter {
        /// Distinguishes counters of the same name.
        id: u64,
    },
    /// An operation begins on this thread.
    DurationBegin,
    /// The operation that began last on this thread ends.
    DurationEnd,
    /// An operation on this thread that began at the event's time and has ended.
    DurationComplete {
        /// When it ended.
        end: T,
    },
    /// An operation that may span threads begins.
    AsyncBegin {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// A point within an operation that may span threads.
    AsyncInstant {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// An operation that may span threads ends.
    AsyncEnd {
        /// Correlates the events of one operation.
        id: u64,
    },
    /// A flow begins, an arrow between durations.
    FlowBegin {
        /// Correlates the events of one flow.
        id: u64,
    },
    /// A point that a flow passes.
    FlowStep {
        /// Correlates the events of one flow.
        id: u64,
    },
    /// A flow ends.
    FlowEnd {
        /// Correlates the events of one flow.
        id: u64,
    },
}

impl<T> EventKind<T> {
    /// The value of the [`EVENT_TYPE`](event::EVENT_TYPE) field.
    #[must_use]
    #[inline]
    pub const fn event_type(&self) -> u64 {
        match self {
            Self::Instant => event::INSTANT,
            Self::Counter { .. } => event::COUNTER,
            Self::DurationBegin => event::DURATION_BEGIN,
            Self::DurationEnd => event::DURATION_END,
            Self::DurationComplete { .. } => event::DURATION_COMPLETE,
            Self::AsyncBegin { .. } => event::ASYNC_BEGIN,
            Self::AsyncInstant { .. } => event::ASYNC_INSTANT,
            Self::AsyncEnd { .. } => event::ASYNC_END,
            Self::FlowBegin { .. } => event::FLOW_BEGIN,
            Self::FlowStep { .. } => event::FLOW_STEP,
            Self::FlowEnd { .. } => event::FLOW_END,
        }
    }

    /// The id of a counter, or the correlation id of an async event or a flow.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> Option<u64> {
        match self {
            Self::Counter { id }
            | Self::AsyncBegin { id }
            | Self::AsyncInstant { id }
            | Self::AsyncEnd { id }
            | Self::FlowBegin { id }
            | Self::FlowStep { id }
            | Self::FlowEnd { id } => Some(*id),
            _ => None,
        }
    }

    /// Converts the time of this kind by `time`.
    #[must_use]
    pub fn map<U>(self, time: impl FnOnce(T) -> U) -> EventKind<U> {
        match self {
            Self::Instant => EventKind::Instant,
            Self::Counter { id } => EventKind::Counter { id },
            Self::DurationBegin => EventKind::DurationBegin,
            Self::DurationEnd => EventKind::DurationEnd,
            Self::DurationComplete { end } => EventKind::DurationComplete { end: time(end) },
            Self::AsyncBegin { id } => EventKind::AsyncBegin { id },
            Self::AsyncInstant { id } => EventKind::AsyncInstant { id },
            Self::AsyncEnd { id } => EventKind::AsyncEnd { id },
            Self::FlowBegin { id } => EventKind::FlowBegin { id },
            Self::FlowStep { id } => EventKind::FlowStep { id },
            Self::FlowEnd { id } => EventKind::FlowEnd { id },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_a_field_survives_the_way_there_and_back() {
        for value in 0..16 {
            assert_eq!(RecordType::from_field(value).to_field(), value);
            assert_eq!(ThreadState::from_field(value).to_field(), value);
            assert_eq!(ProviderEventKind::from_field(value).to_field(), value);
        }
        for value in 0..256 {
            assert_eq!(ObjectType::from_field(value).to_field(), value);
            assert_eq!(BlobType::from_field(value).to_field(), value);
        }
    }

    #[test]
    fn an_undefined_value_never_reaches_the_neighbouring_field() {
        assert_eq!(ThreadState::Undefined(0xff).to_field(), 0xf);
        assert!(context_switch::OUTGOING_STATE.fits(ThreadState::Undefined(0xff).to_field()));
    }

    #[test]
    fn a_value_is_found_by_its_name_where_the_format_has_one() {
        for value in 0..16 {
            let state = ThreadState::from_field(value);
            assert_eq!(state.name().and_then(ThreadState::named), state.name().map(|_| state));
        }
        assert_eq!(ThreadState::named("state-9"), None);
    }

    #[test]
    fn values_are_called_as_the_format_calls_them() {
        assert_eq!(ThreadState::Dying.to_string(), "dying");
        assert_eq!(ThreadState::Undefined(9).to_string(), "state-9");
        assert_eq!(ObjectType::Other(17).to_string(), "object-type-17");
        assert_eq!(RecordType::Large.to_string(), "large record");
        assert_eq!(RecordType::Undefined(12).to_string(), "record of unknown type 12");
    }

    #[test]
    fn kinds_with_one_more_word_are_those_with_an_id_or_an_end() {
        let kinds = [
            EventKind::Instant,
            EventKind::Counter { id: 1 },
            EventKind::DurationBegin,
            EventKind::DurationEnd,
            EventKind::DurationComplete { end: 1 },
            EventKind::AsyncBegin { id: 1 },
            EventKind::AsyncInstant { id: 1 },
            EventKind::AsyncEnd { id: 1 },
            EventKind::FlowBegin { id: 1 },
            EventKind::FlowStep { id: 1 },
            EventKind::FlowEnd { id: 1 },
        ];
        for (event_type, kind) in kinds.into_iter().enumerate() {
            assert_eq!(kind.event_type(), event_type as u64);
            let carries = kind.id().is_some() || matches!(kind, EventKind::DurationComplete { .. });
            assert_eq!(event::has_extra_word(event_type as u64), carries, "{kind:?}");
        }
    }

    #[test]
    fn a_field_keeps_its_neighbours() {
        let middle = Field::new(4, 15);
        assert_eq!(middle.put(0xabc), 0xabc0);
        assert_eq!(middle.set(u64::MAX, 0), 0xffff_ffff_ffff_000f);
        assert_eq!(middle.get(0xffff_ffff_ffff_123f), 0x123);
    }

    #[test]
    fn a_field_may_be_the_whole_word_or_a_single_bit() {
        let whole = Field::new(0, 63);
        assert_eq!(whole.put(u64::MAX), u64::MAX);
        assert_eq!(whole.get(u64::MAX), u64::MAX);
        let top = Field::new(63, 63);
        assert_eq!(top.put(1), 1 << 63);
        assert_eq!(top.max(), 1);
    }

    #[test]
    fn the_largest_value_fits_and_the_next_does_not() {
        let nibble = Field::new(60, 63);
        assert!(nibble.fits(15));
        assert!(!nibble.fits(16));
    }

    #[test]
    fn bits_outside_all_fields_are_reserved() {
        const WORD: Word = Word::new(&[("low", Field::new(0, 7)), ("top", Field::new(63, 63))]);
        assert_eq!(WORD.reserved(), 0x7fff_ffff_ffff_ff00);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn overlapping_fields_are_refused() {
        static OVERLAPPING: [(&str, Field); 2] = [("a", Field::new(0, 7)), ("b", Field::new(7, 8))];
        let _ = Word::new(&OVERLAPPING);
    }
}
