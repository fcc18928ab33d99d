//! Records that define what later records refer to: the length of a tick, strings
//! and threads.

use std::str;

use fxt_format::{initialization, string, thread};

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::types::{Koid, Thread};

/// The length of a tick ("Initialization record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialization {
    /// Ticks of the trace's clock in a second, never zero.
    pub ticks_per_second: u64,
}

impl Initialization {
    pub(crate) fn parse(header: u64, cursor: &mut Cursor<'_>) -> Result<Self, Reason> {
        cursor.inspect(header, initialization::HEADER);
        match cursor.word()? {
            0 => Err(Reason::ZeroTicks),
            ticks_per_second => Ok(Self { ticks_per_second }),
        }
    }
}

/// Gives a string an index in the string table ("String record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringRecord<'a> {
    /// The index, 1 to 0x7fff; 0 is ignored.
    pub index: u16,
    /// The string.
    pub value: &'a str,
}

impl<'a> StringRecord<'a> {
    pub(crate) fn parse(header: u64, cursor: &mut Cursor<'a>) -> Result<Self, Reason> {
        let (index, bytes) = Self::parse_bytes(header, cursor)?;
        Ok(Self { index, value: str::from_utf8(bytes).map_err(|_| Reason::NotUtf8)? })
    }

    /// The index and the bytes of the string, which need not be UTF-8.
    pub(crate) fn parse_bytes(
        header: u64,
        cursor: &mut Cursor<'a>,
    ) -> Result<(u16, &'a [u8]), Reason> {
        cursor.inspect(header, string::HEADER);
        let index = u16::try_from(string::INDEX.get(header)).unwrap_or(u16::MAX);
        Ok((index, cursor.stream(string::LENGTH.get(header))?))
    }
}

/// Gives a thread an index in the thread table ("Thread record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRecord {
    /// The index, 1 to 0xff; 0 is ignored.
    pub index: u8,
    /// The thread.
    pub thread: Thread,
}

impl ThreadRecord {
    pub(crate) fn parse(header: u64, cursor: &mut Cursor<'_>) -> Result<Self, Reason> {
        cursor.inspect(header, thread::HEADER);
        Ok(Self {
            index: u8::try_from(thread::INDEX.get(header)).unwrap_or(u8::MAX),
            thread: Thread { process: Koid(cursor.word()?), thread: Koid(cursor.word()?) },
        })
    }
}
