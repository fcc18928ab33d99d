//! Writes records to anything that implements [`std::io::Write`].

use std::io;

use super::{Slot, Space};
use crate::layout::limits::WORD_BYTES;

/// Collects whole records and writes them to `W` in large pieces.
///
/// After an error of `W`, every later reservation and [`finish`](Self::finish) return that error, and no more data is written. So the
/// output is a prefix of the trace in whole records, except for the piece whose write failed.
#[derive(Debug)]
#[must_use = "records that are still collected are lost unless finish() is called"]
pub struct Output<W: io::Write> {
    inner: W,
    pending: Vec<u8>,
    failed: Option<(io::ErrorKind, String)>,
}

/// Bytes that are collected before they are written.
const PIECE_BYTES: usize = 64 * 1024;

impl<W: io::Write> Output<W> {
    /// Writes records to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, pending: Vec::with_capacity(2 * PIECE_BYTES), failed: None }
    }

    /// Writes the collected records and returns `inner`.
    ///
    /// # Errors
    ///
    /// The first error of `inner`, now or earlier.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_pending()?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    fn write_pending(&mut self) -> io::Result<()> {
        if let Some((kind, text)) = &self.failed {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let written = self.inner.write_all(&self.pending);
        if let Err(error) = &written {
            self.failed = Some((error.kind(), error.to_string()));
        }
        self.pending.clear();
        written
    }
}

impl<W: io::Write> Space for Output<W> {
    type Full = io::Error;
    type Slot<'a>
        = OutputSlot<'a>
    where
        W: 'a;

    #[inline]
    fn reserve(&mut self, words: usize) -> Result<OutputSlot<'_>, io::Error> {
        if self.pending.len() >= PIECE_BYTES || self.failed.is_some() {
            self.write_pending()?;
        }
        let Ok(slot) = Space::reserve(&mut self.pending, words);
        Ok(OutputSlot { slot })
    }
}

/// Room for a record that will be written to an [`Output`].
#[derive(Debug)]
pub struct OutputSlot<'a> {
    slot: <Vec<u8> as Space>::Slot<'a>,
}

impl Slot for OutputSlot<'_> {
    #[inline]
    fn put(&mut self, word: u64) {
        self.slot.put(word);
    }

    #[inline]
    fn finish(self, header: u64) {
        self.slot.finish(header);
    }
}

const _: () = assert!(PIECE_BYTES.is_multiple_of(WORD_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `room` bytes, then fails permanently.
    struct SmallDisk {
        room: usize,
    }

    impl io::Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_of_the_writer_is_reported_until_the_end() {
        let mut output = Output::new(SmallDisk { room: PIECE_BYTES / 2 });
        let mut refused = 0;
        for _ in 0..PIECE_BYTES / WORD_BYTES + 3 {
            match output.reserve(1) {
                Ok(slot) => slot.finish(1),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 3);
        let error = output.finish().err().map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::StorageFull));
    }
}
