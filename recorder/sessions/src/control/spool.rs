//! A queue of bytes that continues in a file when it becomes long.
//!
//! Filling it never waits, and memory stays bounded. The file has no name and disappears with the queue.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The most bytes kept in memory.
const MEMORY_BYTES: usize = 8 * 1024 * 1024;

/// The size of one read from the file, in bytes.
const CHUNK_BYTES: u64 = 256 * 1024;

#[derive(Debug)]
pub(super) struct Spool {
    memory: VecDeque<Vec<u8>>,
    memory_bytes: usize,
    file: Option<File>,
    /// Where the next byte is read from the file.
    read: u64,
    /// Where the next byte is written in the file.
    written: u64,
    folder: PathBuf,
    limit: u64,
}

impl Spool {
    /// An empty queue of at most `limit` bytes, whose file is in `folder`.
    pub(super) fn new(folder: PathBuf, limit: u64) -> Spool {
        Spool {
            memory: VecDeque::new(),
            memory_bytes: 0,
            file: None,
            read: 0,
            written: 0,
            folder,
            limit,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory_bytes as u64 + (self.written - self.read)
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// Returns an error if there is no space: the limit is reached or the disk is full.
    pub(super) fn push(&mut self, piece: Vec<u8>) -> io::Result<()> {
        let bytes = piece.len() as u64;
        if self.bytes().saturating_add(bytes) > self.limit {
            let text = format!("more than {} bytes are waiting to be read", self.limit);
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        let in_file = self.written > self.read;
        if !in_file && self.memory_bytes + piece.len() <= MEMORY_BYTES {
            self.memory_bytes += piece.len();
            self.memory.push_back(piece);
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(&self.folder)?),
        };
        file.write_all_at(&piece, self.written)?;
        self.written += bytes;
        Ok(())
    }

    /// Removes and returns the first bytes; `None` if there are none.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub(super) fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(piece) = self.memory.pop_front() {
            self.memory_bytes -= piece.len();
            return Ok(Some(piece));
        }
        let bytes = (self.written - self.read).min(CHUNK_BYTES);
        let Some(file) = self.file.as_ref().filter(|_| bytes > 0) else { return Ok(None) };
        let mut piece = vec![0; bytes as usize];
        file.read_exact_at(&mut piece, self.read)?;
        self.read += bytes;
        if self.read == self.written {
            // The file's content is no longer needed.
            file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        Ok(Some(piece))
    }

    /// Discards the content.
    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.memory_bytes = 0;
        self.file = None;
        (self.read, self.written) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(limit: u64) -> Spool {
        Spool::new(std::env::temp_dir(), limit)
    }

    fn drain(spool: &mut Spool) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = spool.pop().expect("it can be read") {
            all.extend(piece);
        }
        all
    }

    #[test]
    fn what_went_through_the_file_comes_in_the_order_in_which_it_went_in() {
        let mut spool = spool(u64::MAX);
        let piece = |number: u8| vec![number; MEMORY_BYTES / 4 + 1];
        let mut expected = Vec::new();
        for number in 0..8 {
            spool.push(piece(number)).expect("room");
            expected.extend(piece(number));
        }
        assert!(spool.file.is_some() && spool.memory_bytes <= MEMORY_BYTES);
        assert_eq!(spool.bytes(), expected.len() as u64);
        // While the file is read, more bytes may be added, which must follow those in the file.
        let first = spool.pop().expect("read").expect("some");
        spool.push(piece(8)).expect("room");
        expected.extend(piece(8));
        assert!([first, drain(&mut spool)].concat() == expected);
        assert_eq!((spool.bytes(), spool.written), (0, 0));
        spool.push(vec![1]).expect("room");
        assert_eq!(drain(&mut spool), [1]);
    }

    #[test]
    fn beyond_its_limit_it_takes_nothing() {
        let mut spool = spool(10);
        spool.push(vec![0; 10]).expect("room");
        let error = spool.push(vec![0]).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        spool.clear();
        spool.push(vec![7]).expect("room again");
        assert_eq!(drain(&mut spool), [7]);
    }
}
