//! A sink that also copies the records to a reader.
//!
//! The copy must never delay the output: if its reader falls too far behind, it
//! gets no more.

use std::io::{self, Read};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::{Sink, SinkError, Totals, Unsaved};

/// The maximum number of writes that wait to be read. Most of them are half a trace buffer, so this limits the memory of the copy.
const PIECES: usize = 16;

/// Writes to another sink and sends a copy of every record.
#[derive(Debug)]
pub struct Tee {
    sink: Box<dyn Sink>,
    copy: Option<Sender<Piece>>,
}

#[derive(Debug)]
enum Piece {
    Records(Vec<u8>),
    /// The last piece: all data was passed on.
    End,
}

/// The copy, to be read while the trace is written.
#[derive(Debug)]
pub struct Copy {
    pieces: Receiver<Piece>,
    current: io::Cursor<Vec<u8>>,
    ended: bool,
}

/// A sink that writes to `sink`, and a reader of the data that it writes.
pub fn tee(sink: Box<dyn Sink>) -> (Tee, Copy) {
    let (copy, pieces) = bounded(PIECES);
    (Tee { sink, copy: Some(copy) }, Copy { pieces, current: io::Cursor::default(), ended: false })
}

impl Tee {
    fn give(&mut self, piece: Piece) {
        let Some(copy) = &self.copy else { return };
        match copy.try_send(piece) {
            Ok(()) => {}
            // A trace with a gap is worse than none.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.copy = None,
        }
    }
}

impl Sink for Tee {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        self.sink.write(records)?;
        if self.copy.is_some() {
            self.give(Piece::Records(records.to_vec()));
        }
        Ok(())
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        self.sink.flush_point()
    }

    fn totals(&self) -> Totals {
        self.sink.totals()
    }

    fn held(&self) -> u64 {
        self.sink.held()
    }

    fn unsaved(&self) -> Unsaved {
        self.sink.unsaved()
    }

    fn finish(&mut self) -> Result<Totals, SinkError> {
        self.give(Piece::End);
        self.copy = None;
        self.sink.finish()
    }
}

impl Copy {
    /// Whether the trace was read to its end: false if the copy was abandoned or the output failed.
    pub fn is_whole(&self) -> bool {
        self.ended
    }
}

impl Read for Copy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.current.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.ended {
                return Ok(read);
            }
            match self.pieces.recv() {
                Ok(Piece::Records(records)) => self.current = io::Cursor::new(records),
                Ok(Piece::End) => self.ended = true,
                Err(_) => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn the_copy_is_what_was_written_to_its_end() {
        let (mut tee, mut copy) = tee(Box::new(Memory::default()));
        tee.write(&[1; 8]).expect("memory");
        tee.write(&[2; 16]).expect("memory");
        let totals = tee.finish().expect("memory");
        let mut read = Vec::new();
        copy.read_to_end(&mut read).expect("a channel");
        assert_eq!((read.len(), read[0], read[8]), (24, 1, 2));
        assert!(copy.is_whole());
        assert_eq!(totals.record_bytes, 24);
    }

    #[test]
    fn a_copy_that_is_not_taken_is_given_up_and_the_output_continues() {
        let (mut tee, mut copy) = tee(Box::new(Memory::default()));
        for _ in 0..PIECES + 5 {
            tee.write(&[7; 8]).expect("memory");
        }
        let totals = tee.finish().expect("memory");
        assert_eq!(totals.record_bytes, 8 * (PIECES as u64 + 5));
        let mut read = Vec::new();
        copy.read_to_end(&mut read).expect("a channel");
        assert_eq!(read.len(), 8 * PIECES);
        assert!(!copy.is_whole());
    }

    #[test]
    fn an_output_without_an_end_has_no_whole_copy() {
        let (mut tee, mut copy) = tee(Box::new(Memory::default()));
        tee.write(&[7; 8]).expect("memory");
        drop(tee);
        let mut read = Vec::new();
        copy.read_to_end(&mut read).expect("a channel");
        assert!(!copy.is_whole());
    }
}
