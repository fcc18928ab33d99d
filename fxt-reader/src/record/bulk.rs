//! BLOB records, ordinary and large: bulk data that this format does not interpret.

use fxt_format::{BlobType, blob, large_blob};

use super::argument::Args;
use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Nanos, Thread};

/// A piece of bulk data; pieces of one name belong together ("BLOB record").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob<'a> {
    /// The name of the data stream that this piece belongs to.
    pub name: &'a str,
    /// How to understand the data.
    pub blob_type: BlobType,
    /// The bytes, without padding.
    pub payload: &'a [u8],
}

impl<'a> Blob<'a> {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, blob::HEADER);
        Ok(Self {
            name: tables.string(blob::NAME.get(header), cursor)?,
            blob_type: BlobType::from_field(blob::BLOB_TYPE.get(header)),
            payload: cursor.stream(blob::PAYLOAD_SIZE.get(header))?,
        })
    }
}

/// Bulk data beyond what an ordinary record holds ("Large BLOB record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargeBlob<'a> {
    /// The category, by which viewers and sessions filter.
    pub category: &'a str,
    /// The name, which identifies the format of the data.
    pub name: &'a str,
    /// The time, thread and arguments; absent in the format without metadata.
    pub metadata: Option<LargeBlobMetadata<'a>>,
    /// The bytes, without padding.
    pub payload: &'a [u8],
}

/// The optional metadata of a large blob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargeBlobMetadata<'a> {
    /// When it was made.
    pub time: Nanos,
    /// The thread that made it.
    pub thread: Thread,
    /// Further arguments.
    pub args: Args<'a>,
}

impl<'a> LargeBlob<'a> {
    /// Reads a large blob of one of the two formats.
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, large_blob::HEADER);
        let format_header = cursor.word()?;
        let (category, name, metadata);
        if large_blob::FORMAT.get(header) == large_blob::WITH_METADATA {
            use large_blob::with_metadata as table;
            cursor.inspect(format_header, table::FORMAT_HEADER);
            category = tables.string(table::CATEGORY.get(format_header), cursor)?;
            name = tables.string(table::NAME.get(format_header), cursor)?;
            metadata = Some(LargeBlobMetadata {
                time: tables.time(cursor.word()?)?,
                thread: tables.thread(table::THREAD.get(format_header), cursor)?,
                args: Args::parse(cursor, table::ARG_COUNT.get(format_header), tables)?,
            });
        } else {
            use large_blob::without_metadata as table;
            cursor.inspect(format_header, table::FORMAT_HEADER);
            category = tables.string(table::CATEGORY.get(format_header), cursor)?;
            name = tables.string(table::NAME.get(format_header), cursor)?;
            metadata = None;
        }
        let size = cursor.word()?;
        Ok(Self { category, name, metadata, payload: cursor.stream(size)? })
    }
}
