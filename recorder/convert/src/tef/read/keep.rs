//! Data that does not fit into records, kept as text in blobs.

use fxt_writer::record::{Blob, BlobType};
use fxt_writer::{Text, text};

use super::Target;
use crate::error::ConvertError;

/// The maximum payload of a blob record, in bytes; the name and the header fit in addition.
const PIECE_BYTES: usize = 32_000;
/// The maximum length of a name that fits next to such a payload, in bytes.
const NAME_BYTES: usize = 640;

/// A blob that is written in pieces, all with the same name.
#[derive(Debug)]
pub(super) struct Pieces {
    name: String,
    pending: Vec<u8>,
}

impl Pieces {
    /// A blob with that name, which is truncated if necessary.
    pub(super) fn new(name: &str) -> Self {
        let mut name = text::clean(name.as_bytes()).into_owned();
        while name.len() > NAME_BYTES {
            name.pop();
        }
        Self { name, pending: Vec::new() }
    }

    pub(super) fn append(
        &mut self,
        bytes: &[u8],
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() - self.pending.len() % PIECE_BYTES;
        for piece in self.pending[..whole].chunks(PIECE_BYTES) {
            write_piece(&self.name, BlobType::Data, piece, target)?;
        }
        self.pending.drain(..whole);
        Ok(())
    }

    pub(super) fn end(self, target: &mut Target<'_>) -> Result<(), ConvertError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        write_piece(&self.name, BlobType::Data, &self.pending, target)
    }
}

/// Writes data of any length as blob records with the same name.
pub(super) fn write_blob(
    name: &str,
    blob_type: BlobType,
    data: &[u8],
    target: &mut Target<'_>,
) -> Result<(), ConvertError> {
    if data.is_empty() {
        return write_piece(name, blob_type, data, target);
    }
    for piece in data.chunks(PIECE_BYTES) {
        write_piece(name, blob_type, piece, target)?;
    }
    Ok(())
}

fn write_piece(
    name: &str,
    blob_type: BlobType,
    payload: &[u8],
    target: &mut Target<'_>,
) -> Result<(), ConvertError> {
    // Inline, because a name that is used once or twice is not worth a table entry.
    Ok(target.write(&Blob { name: Text::Inline(name), blob_type, payload })?)
}
