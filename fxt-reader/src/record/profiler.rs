//! Profiler records: modules, mappings and stacks. The format specification does not describe them.

use std::fmt;
use std::str;

use fxt_format::limits::WORD_BYTES;
use fxt_format::profiler::{backtrace, mapping, module};

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{ByteOrder, Koid, Nanos, Thread};

/// A file with code that a process has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// The process.
    pub process: Koid,
    /// The number by which mappings of the process refer to it.
    pub id: u16,
    /// Its name.
    pub name: &'a str,
    /// The build id that the linker wrote; empty if there is none.
    pub build_id: &'a [u8],
}

impl<'a> Module<'a> {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, module::HEADER);
        Ok(Self {
            time: tables.time(cursor.word()?)?,
            process: tables.process(module::THREAD.get(header), cursor)?,
            id: module_id(module::MODULE_ID.get(header)),
            name: str::from_utf8(cursor.stream(module::NAME_LENGTH.get(header))?)
                .map_err(|_| Reason::NotUtf8)?,
            build_id: cursor.stream(module::BUILD_ID_LENGTH.get(header))?,
        })
    }
}

/// Where part of a module is mapped in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// The process.
    pub process: Koid,
    /// The module.
    pub module: u16,
    /// Three bits whose meaning is not published.
    pub flags: u8,
    /// The address that it begins at.
    pub start: u64,
    /// Its length in bytes; the reader does not check that it ends within the address space.
    pub length: u64,
    /// The address within the module at which the mapping begins.
    pub module_address: u64,
}

impl Mapping {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'_>,
        tables: &Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, mapping::HEADER);
        Ok(Self {
            time: tables.time(cursor.word()?)?,
            process: tables.process(mapping::THREAD.get(header), cursor)?,
            module: module_id(mapping::MODULE_ID.get(header)),
            flags: u8::try_from(mapping::FLAGS.get(header)).unwrap_or(u8::MAX),
            start: cursor.word()?,
            length: cursor.word()?,
            module_address: cursor.word()?,
        })
    }

    /// Whether `address` is in it.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        address >= self.start && address - self.start < self.length
    }
}

/// The stack of a thread at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backtrace<'a> {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// The thread.
    pub thread: Thread,
    /// 28 bits whose meaning is not published.
    pub flags: u32,
    /// The program counters, innermost first.
    pub frames: Frames<'a>,
}

impl<'a> Backtrace<'a> {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, backtrace::HEADER);
        let time = tables.time(cursor.word()?)?;
        let thread = tables.thread(backtrace::THREAD.get(header), cursor)?;
        let mut frames = cursor.part(backtrace::FRAME_COUNT.get(header))?;
        let words = Frames { bytes: frames.rest(), order: frames.order() };
        frames.skip_rest();
        cursor.finish_part(&frames);
        let flags = u32::try_from(backtrace::FLAGS.get(header)).unwrap_or(u32::MAX);
        Ok(Self { time, thread, flags, frames: words })
    }
}

/// The frames of a [`Backtrace`], innermost first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Frames<'a> {
    /// The number of frames, at most 255.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len() / WORD_BYTES
    }

    /// Whether there is no stack.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The program counters.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        let (words, order) = (self.bytes.as_chunks().0, self.order);
        words.iter().map(move |&word| order.word(word))
    }
}

impl fmt::Debug for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|frame| format!("{frame:#x}"))).finish()
    }
}

fn module_id(field: u64) -> u16 {
    u16::try_from(field).unwrap_or(u16::MAX)
}
