//! The high level: events by name; strings and threads are registered
//! automatically.
//!
//! A [`Writer`] keeps the string and thread tables of one provider. It registers
//! a string or thread on first use, with a string or thread record before the
//! record that needs it, and uses the index from then on. When a table is full,
//! the least recently used entry is replaced, or the new one is written inline;
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
    /// Replace the least recently used entry. For spaces in which records stay in
    /// the order in which they are written.
    Replace,
    /// Write strings and threads without an index inline. For spaces that may lose records, such as a circular buffer: if a replacing
    /// record were lost, later records would refer to the wrong string.
    Inline,
}

/// A thread: its process and its own koid.
pub type Thread = (Koid, Koid);

/// The longest string that is worth an entry in the table, in bytes. Longer strings are written inline, unless all strings must be
/// registered.
const MAX_INTERNED_BYTES: usize = 256;

/// Indices that one record can need: category, name and 15 argument names.
const MIN_STRINGS: u16 = 17;

/// Writes records by name, and keeps the tables that indices refer to.
///
/// A writer assigns all indices of its provider: for several threads, use one
/// provider per thread, or share one writer behind a lock.
#[derive(Debug)]
pub struct Writer<L> {
    lanes: L,
    strings: Lru<String>,
    threads: Lru<(u64, u64)>,
    full: TablesFull,
    most_bytes: usize,
}

impl<S: Space> Writer<S> {
    /// Writes into one space, in which records stay in order.
    #[must_use]
    pub fn new(space: S) -> Self {
        Self::with_lanes(space, TablesFull::Replace)
    }

    /// The space, with everything written.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.lanes
    }
}

impl<'e> Writer<EngineLanes<'e>> {
    /// Writes into the lanes of an engine: registrations are durable.
    #[must_use]
    pub fn for_engine(engine: &'e Engine) -> Self {
        // A record that replaces an entry goes to the rolling lane, in order of use, since rolling records that follow the durable lane may
        // still rely on the old entry. So it must not be lost, as old records in circular buffers are.
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
        let threads = Lru::new(threads.into());
        Self { lanes, strings, threads, full, most_bytes: MAX_INTERNED_BYTES }
    }

    /// Registers strings of any length, which a copy of another trace needs: with a long inline string in place of an index, a record may
    /// become too large.
    #[must_use]
    pub fn with_long_strings(self) -> Self {
        Self { most_bytes: usize::MAX, ..self }
    }

    /// Begins an archive: magic number, provider and clock. Not for a provider's
    /// buffer, which must not contain metadata records.
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room, or a value that the format cannot express.
    pub fn start(
        &mut self,
        provider: &str,
        ticks_per_second: u64,
    ) -> Result<(), WriteError<L::Full>> {
        self.write(&Magic)?;
        self.write(&ProviderInfo { id: ProviderId(1), name: provider })?;
        self.write(&Initialization { ticks_per_second })
    }

    /// Writes a record that the caller has built, with strings and threads from
    /// [`text`](Self::text) and [`thread`](Self::thread).
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room, or a value that the format cannot express.
    pub fn write(&mut self, record: &impl Record) -> Result<(), WriteError<L::Full>> {
        self.lanes.rolling(record)
    }

    /// The shortest reference to a string: its index (the string is registered if needed), or the string inline.
    ///
    /// # Errors
    ///
    /// Returns an error when the string is one that the format cannot express.
    pub fn text<'t>(&mut self, content: &'t str) -> Result<Text<'t>, WriteError<L::Full>> {
        text::check(content)?;
        if content.is_empty() || content.len() > self.most_bytes {
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

    /// The shortest reference to a thread: its index (the thread is registered if needed), or the thread inline.
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

/// Writes the record that registers a new entry: to the durable lane if its index is new; to the rolling lane if it replaces an entry,
/// because earlier rolling records refer to the old one.
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
