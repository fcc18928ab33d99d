//! Log records: messages written to the log.

use std::str;

use fxt_format::log;

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Nanos, Thread};

/// A message written to the log ("Log record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log<'a> {
    /// The timestamp, in nanoseconds.
    pub time: Nanos,
    /// The thread that wrote it.
    pub thread: Thread,
    /// The message.
    pub message: &'a str,
}

impl<'a> Log<'a> {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, log::HEADER);
        Ok(Self {
            time: tables.time(cursor.word()?)?,
            thread: tables.thread(log::THREAD.get(header), cursor)?,
            message: str::from_utf8(cursor.stream(log::LENGTH.get(header))?)
                .map_err(|_| Reason::NotUtf8)?,
        })
    }
}
