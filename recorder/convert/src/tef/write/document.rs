//! The outermost JSON object: events as they arrive, followed by everything else.
//!
//! `traceEvents` is one array, so the text of other members is collected in [`Spool`]s, which move to a temporary file when they grow.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use tempfile::SpooledTempFile;

use super::json::{self, Object};
use crate::error::ConvertError;

/// Bytes to collect in memory before they are written.
const PIECE_BYTES: usize = 64 * 1024;
/// The maximum size of a spool in memory, in bytes.
const SPOOL_BYTES: usize = 1 << 20;

/// A document that is being written.
pub(super) struct Document<'w> {
    out: &'w mut dyn Write,
    pending: Vec<u8>,
    any_event: bool,
    members: BTreeMap<String, Spool>,
}

impl<'w> Document<'w> {
    pub(super) fn begin(out: &'w mut dyn Write) -> Self {
        Self {
            out,
            pending: b"{\"traceEvents\":[".to_vec(),
            any_event: false,
            members: BTreeMap::new(),
        }
    }

    pub(super) fn event(&mut self) -> Object<'_> {
        Object::begin(self.raw_event())
    }

    /// The buffer for the text of the next event.
    pub(super) fn raw_event(&mut self) -> &mut Vec<u8> {
        self.pending.extend_from_slice(if self.any_event { b",\n" } else { b"\n" });
        self.any_event = true;
        &mut self.pending
    }

    /// The spool of a member, which is written after the events; empty at first.
    pub(super) fn member(&mut self, name: &str) -> &mut Spool {
        if !self.members.contains_key(name) {
            self.members.insert(name.to_owned(), Spool::default());
        }
        self.members.entry(name.to_owned()).or_default()
    }

    /// Removes a member that is written in another way.
    pub(super) fn take_member(&mut self, name: &str) -> Option<Spool> {
        self.members.remove(name)
    }

    /// Writes the collected text, if it is large enough.
    pub(super) fn settle(&mut self) -> Result<(), ConvertError> {
        if self.pending.len() >= PIECE_BYTES { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<(), ConvertError> {
        self.out.write_all(&self.pending).map_err(ConvertError::Write)?;
        self.pending.clear();
        Ok(())
    }

    /// Writes the members and the end. The text in each spool must be valid JSON.
    pub(super) fn end(mut self) -> Result<(), ConvertError> {
        self.pending.extend_from_slice(b"\n]");
        for (name, mut spool) in std::mem::take(&mut self.members) {
            self.pending.extend_from_slice(b",\n");
            json::string(&mut self.pending, &name);
            self.pending.push(b':');
            self.write_pending()?;
            spool.copy_to(self.out).map_err(ConvertError::Write)?;
        }
        self.pending.extend_from_slice(b"}\n");
        self.write_pending()
    }
}

#[derive(Debug)]
pub(super) struct Spool {
    file: SpooledTempFile,
    length: u64,
}

impl Default for Spool {
    fn default() -> Self {
        Self { file: SpooledTempFile::new(SPOOL_BYTES), length: 0 }
    }
}

impl Spool {
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), ConvertError> {
        self.file.write_all(bytes).map_err(ConvertError::Write)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn copy_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.file, out)?;
        Ok(())
    }

    /// Appends another spool.
    pub(super) fn append_spool(&mut self, mut other: Spool) -> Result<(), ConvertError> {
        other.file.seek(SeekFrom::Start(0)).map_err(ConvertError::Write)?;
        let copied = io::copy(&mut other.file, &mut self.file).map_err(ConvertError::Write)?;
        self.length += copied;
        Ok(())
    }

    /// The whole text, which must be small.
    pub(super) fn into_string(mut self) -> Result<String, ConvertError> {
        let mut text = String::new();
        self.file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.read_to_string(&mut text))
            .map_err(ConvertError::Write)?;
        Ok(text)
    }
}
