//! The convenient level: events by name, with strings and threads registered on
//! the way.
//!
//! A [`Writer`] keeps the string and the thread table of one provider. What it
//! meets the first time it registers, with a string or thread record ahead of the
//! record that needs it; after that the index is enough. When a table is full,
//! the least recently used entry is replaced, or the newcomer is written inline;
//! see [`TablesFull`].
//!
//! ```
//! use fxt_writer::{Koid, Ticks, Writer};
//!
//! let mut writer = Writer::new(Vec::<u8>::new());
//! writer.start("example", 1_000_000_000)?;
//! let main = (Koid(1), Koid(1));
//! writer.duration_begin(Ticks(10), main, "startup", "load", &[("files", 3.into())])?;
//! writer.duration_end(Ticks(25), main, "startup", "load", &[])?;
//! let trace = writer.into_inner();
//! assert_eq!(trace[..8], 0x0016_5478_4604_0010_u64.to_ne_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod events;
mod lru;

use crate::arg::{StringRef, Text};
use crate::engine::{Engine, Mode};
use crate::error::WriteError;
use crate::ids::{Koid, ProviderId, ThreadName, ThreadRef};
use crate::lanes::{EngineLanes, Lanes};
use crate::layout::limits::{MAX_STRING_INDEX, MAX_THREAD_INDEX};
use crate::record::{Initialization, Magic, ProviderInfo, Record, StringRecord, ThreadRecord};
use crate::space::Space;
use crate::text;
use lru::{Found, Lru};

/// What a [`Writer`] does with a string or thread when its table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablesFull {
    /// The least recently used entry is replaced. Right where records stay in the
    /// order in which they are written.
    Replace,
    /// What has no index is written inline. Right where records may be lost, as
    /// in a circular buffer: the loss of a replacement would give later records
    /// the wrong string.
    Inline,
}

/// A thread: its process and its own koid.
pub type Thread = (Koid, Koid);

/// The longest string that is worth a place in the table, in bytes. Longer ones
/// are written inline.
const MAX_INTERNED_BYTES: usize = 256;

/// Indices that one record can need: category, name, and 15 argument names.
const MIN_STRINGS: u16 = 17;

/// Writes records by name, and keeps the tables that indices refer to.
///
/// One writer has all indices of its provider for itself: give threads a provider
/// each, or share one writer behind a lock.
#[derive(Debug)]
pub struct Writer<L> {
    lanes: L,
    strings: Lru<String>,
    threads: Lru<(u64, u64)>,
    full: TablesFull,
}

impl<S: Space> Writer<S> {
    /// Writes into one space, in which records stay in order.
    #[must_use]
    pub fn new(space: S) -> Self {
        Self::with_lanes(space, TablesFull::Replace)
    }

    /// The space, with all that was written.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.lanes
    }
}

impl<'e> Writer<EngineLanes<'e>> {
    /// Writes into the lanes of an engine: registrations are durable.
    #[must_use]
    pub fn for_engine(engine: &'e Engine) -> Self {
        // The record that replaces an entry goes to the rolling lane, in the order of its use, as the durable lane is
        // read before rolling records that still rely on the old entry. So it must not be lost as circular buffers
        // lose what is old.
        let full = match engine.mode() {
            Mode::Oneshot | Mode::Streaming => TablesFull::Replace,
            Mode::Circular => TablesFull::Inline,
        };
        Self::with_lanes(EngineLanes::new(engine), full)
    }
}

impl<L: Lanes> Writer<L> {
    /// Writes into these lanes.
    #[must_use]
    pub fn with_lanes(lanes: L, full: TablesFull) -> Self {
        Self::with_table_sizes(lanes, full, MAX_STRING_INDEX, MAX_THREAD_INDEX)
    }

    /// Writes into these lanes with smaller tables, for readers with little
    /// memory: at most that many strings, at least 17, and threads.
    #[must_use]
    pub fn with_table_sizes(lanes: L, full: TablesFull, strings: u16, threads: u8) -> Self {
        let strings = Lru::new(strings.clamp(MIN_STRINGS, MAX_STRING_INDEX));
        Self { lanes, strings, threads: Lru::new(threads.into()), full }
    }

    /// Begins an archive: magic number, provider and clock. Not for a provider's
    /// buffer, which carries no metadata records.
    ///
    /// # Errors
    ///
    /// When there is no room, or a value that the format cannot express.
    pub fn start(
        &mut self,
        provider: &str,
        ticks_per_second: u64,
    ) -> Result<(), WriteError<L::Full>> {
        self.write(&Magic)?;
        self.write(&ProviderInfo { id: ProviderId(1), name: provider })?;
        self.write(&Initialization { ticks_per_second })
    }

    /// Writes a record that the caller has put together, with texts and threads
    /// from [`text`](Self::text) and [`thread`](Self::thread).
    ///
    /// # Errors
    ///
    /// When there is no room, or a value that the format cannot express.
    pub fn write(&mut self, record: &impl Record) -> Result<(), WriteError<L::Full>> {
        self.lanes.rolling(record)
    }

    /// The shortest way to name a string: by index, registered now if need be,
    /// or inline.
    ///
    /// # Errors
    ///
    /// When the string is one that the format cannot express.
    pub fn text<'t>(&mut self, content: &'t str) -> Result<Text<'t>, WriteError<L::Full>> {
        text::check(content)?;
        if content.is_empty() || content.len() > MAX_INTERNED_BYTES {
            return Ok(Text::Inline(content));
        }
        let found = self.strings.index(content, self.full == TablesFull::Replace);
        let (Found::Known(index) | Found::New(index) | Found::Replaced(index)) = found else {
            return Ok(Text::Inline(content));
        };
        let string = StringRef::indexed(index)?;
        let record = StringRecord { index: string, content };
        match register(&mut self.lanes, found, &record) {
            Ok(()) => Ok(Text::Indexed(string)),
            Err(WriteError::Full(_)) => {
                self.strings.forget(content, found);
                Ok(Text::Inline(content))
            }
            Err(error) => Err(error),
        }
    }

    /// The shortest way to name a thread: by index, registered now if need be, or
    /// inline.
    ///
    /// # Errors
    ///
    /// None at present; a thread that cannot be registered is written inline.
    pub fn thread(&mut self, thread: Thread) -> Result<ThreadName, WriteError<L::Full>> {
        let (process, own) = thread;
        let inline = ThreadName::Inline { process, thread: own };
        let key = (process.0, own.0);
        let found = self.threads.index(&key, self.full == TablesFull::Replace);
        let (Found::Known(index) | Found::New(index) | Found::Replaced(index)) = found else {
            return Ok(inline);
        };
        // The table has at most 255 entries.
        let Ok(index) = u8::try_from(index) else { return Ok(inline) };
        let index = ThreadRef::indexed(index)?;
        let record = ThreadRecord { index, process, thread: own };
        match register(&mut self.lanes, found, &record) {
            Ok(()) => Ok(ThreadName::Indexed(index)),
            Err(WriteError::Full(_)) => {
                self.threads.forget(&key, found);
                Ok(inline)
            }
            Err(error) => Err(error),
        }
    }
}

/// Writes the record that registers what was found, where it has to be: what is
/// new with the tables, what replaces an entry among the records, since those
/// before it rely on the old entry.
fn register<L: Lanes>(
    lanes: &mut L,
    found: Found,
    record: &impl Record,
) -> Result<(), WriteError<L::Full>> {
    match found {
        Found::Known(_) | Found::Full => Ok(()),
        Found::New(_) => lanes.durable(record),
        Found::Replaced(_) => lanes.rolling(record),
    }
}
