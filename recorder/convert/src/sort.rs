//! Sorts items by time: an external sort in bounded memory.
//!
//! Pieces are sorted in memory, written to a temporary file, and merged; items that fit into one piece stay in memory. Items of the same
//! time and rank keep the order in which they were added.
//!
//! ```text
//!   items --> | piece, sorted | piece, sorted | ... --> merge --> items in order of time, rank
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use fxtrec_kernel::progress::Progress;

/// The memory for all pieces during the merge, and the minimum and maximum for one piece, in bytes.
const MERGED_BYTES: usize = 16 << 20;
const WINDOW_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// Bytes to collect before they are written.
const PENDING_BYTES: usize = 256 << 10;

/// The sort key. Items with equal keys stay in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) time: u64,
    pub(super) rank: u8,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    start: usize,
    length: u32,
}

/// The size of an entry's header in the temporary file.
const HEAD_BYTES: usize = 8 + 1 + 4;

/// Items that are being sorted.
#[derive(Debug)]
pub(super) struct Sorter {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    file: Option<BufWriter<File>>,
    written: u64,
    /// The beginning and end of each piece in the file.
    pieces: Vec<(u64, u64)>,
    piece_bytes: usize,
}

impl Sorter {
    /// Sorts in pieces of about `piece_bytes` bytes.
    pub(super) fn new(piece_bytes: usize) -> Sorter {
        let (entries, bytes, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Sorter { entries, bytes, file: None, written: 0, pieces, piece_bytes }
    }

    pub(super) fn add(&mut self, key: Key, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.entries.push(Entry { key, start: self.bytes.len(), length });
        self.bytes.extend_from_slice(bytes);
        let held = self.bytes.len() + self.entries.len() * size_of::<Entry>();
        if held >= self.piece_bytes { self.put_away() } else { Ok(()) }
    }

    /// Writes a piece to the file.
    fn put_away(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = BufWriter::with_capacity(PENDING_BYTES, tempfile::tempfile()?);
                self.file.insert(file)
            }
        };
        let from = self.written;
        // Stable, and fast if there are sorted runs.
        self.entries.sort_by_key(|entry| entry.key);
        for Entry { key, start, length } in self.entries.drain(..) {
            let mut head = [key.rank; HEAD_BYTES];
            head[..8].copy_from_slice(&key.time.to_ne_bytes());
            head[9..].copy_from_slice(&length.to_ne_bytes());
            file.write_all(&head)?;
            file.write_all(&self.bytes[start..start + length as usize])?;
            self.written += HEAD_BYTES as u64 + u64::from(length);
        }
        self.bytes.clear();
        self.pieces.push((from, self.written));
        Ok(())
    }

    /// All items in order. Reading the file counts as another pass of `progress`.
    pub(super) fn sorted(mut self, progress: Progress) -> io::Result<Sorted> {
        if self.file.is_none() {
            self.entries.sort_by_key(|entry| entry.key);
            let Sorter { entries, bytes, .. } = self;
            return Ok(Sorted(Source::Memory { entries, bytes, next: 0 }));
        }
        self.put_away()?;
        progress.restart(self.written);
        let Sorter { file: Some(file), pieces, entries, bytes, .. } = self else {
            return Err(io::ErrorKind::NotFound.into());
        };
        drop((entries, bytes));
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let window =
            (MERGED_BYTES / pieces.len().max(1)).clamp(*WINDOW_BYTES.start(), *WINDOW_BYTES.end());
        let from = Windows { file, window, progress };
        let mut merge = Merge { from, pieces: Vec::new(), heap: BinaryHeap::new(), given: false };
        for (at, (from, to)) in pieces.into_iter().enumerate() {
            let mut piece = Piece { from, to, bytes: Vec::new(), at: 0, item: 0..0 };
            if let Some(key) = piece.advance(&merge.from)? {
                merge.heap.push(Reverse((key, at)));
            }
            merge.pieces.push(piece);
        }
        Ok(Sorted(Source::File(merge)))
    }
}

/// The sorted items.
#[derive(Debug)]
pub(super) struct Sorted(Source);

#[derive(Debug)]
enum Source {
    Memory { entries: Vec<Entry>, bytes: Vec<u8>, next: usize },
    File(Merge),
}

impl Sorted {
    pub(super) fn next(&mut self) -> io::Result<Option<(Key, &[u8])>> {
        match &mut self.0 {
            Source::Memory { entries, bytes, next } => {
                let Some(Entry { key, start, length }) = entries.get(*next).copied() else {
                    return Ok(None);
                };
                *next += 1;
                Ok(bytes.get(start..start + length as usize).map(|bytes| (key, bytes)))
            }
            Source::File(merge) => merge.next(),
        }
    }
}

/// The file of the pieces, and how much to read at a time.
#[derive(Debug)]
struct Windows {
    file: File,
    window: usize,
    progress: Progress,
}

/// All pieces, merged.
#[derive(Debug)]
struct Merge {
    from: Windows,
    pieces: Vec<Piece>,
    heap: BinaryHeap<Reverse<(Key, usize)>>,
    /// Whether the first item of the heap was returned already.
    given: bool,
}

impl Merge {
    fn next(&mut self) -> io::Result<Option<(Key, &[u8])>> {
        if std::mem::take(&mut self.given)
            && let Some(mut first) = self.heap.peek_mut()
        {
            let Reverse((_, at)) = *first;
            match self.pieces[at].advance(&self.from)? {
                Some(key) => *first = Reverse((key, at)),
                None => drop(PeekMut::pop(first)),
            }
        }
        let Some(Reverse((key, at))) = self.heap.peek().copied() else { return Ok(None) };
        self.given = true;
        let piece = &self.pieces[at];
        Ok(piece.bytes.get(piece.item.clone()).map(|bytes| (key, bytes)))
    }
}

/// A sorted piece of the file.
#[derive(Debug)]
struct Piece {
    /// The part that is not read yet.
    from: u64,
    to: u64,
    /// The part in memory, from `at` on.
    bytes: Vec<u8>,
    at: usize,
    /// The position of the current item in `bytes`.
    item: std::ops::Range<usize>,
}

impl Piece {
    /// Advances to the next item.
    fn advance(&mut self, from: &Windows) -> io::Result<Option<Key>> {
        let Some(head) = self.take(HEAD_BYTES, from)? else { return Ok(None) };
        let head: [u8; HEAD_BYTES] =
            self.bytes[head].try_into().map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let [time @ .., _, _, _, _, _] = head;
        let [.., rank, a, b, c, d] = head;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        self.item = self.take(length, from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Some(Key { time: u64::from_ne_bytes(time), rank }))
    }

    fn take(&mut self, count: usize, from: &Windows) -> io::Result<Option<std::ops::Range<usize>>> {
        while self.bytes.len() - self.at < count {
            let left = usize::try_from(self.to - self.from).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(None);
            }
            self.bytes.drain(..self.at);
            self.at = 0;
            let filled = self.bytes.len();
            self.bytes.resize(filled + left.min(from.window.max(count)), 0);
            from.file.read_exact_at(&mut self.bytes[filled..], self.from)?;
            from.progress.add(self.bytes.len() - filled);
            self.from += (self.bytes.len() - filled) as u64;
        }
        self.at += count;
        Ok(Some(self.at - count..self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_same_order_and_equal_keys_keep_theirs() {
        let keys: Vec<Key> =
            (0..3000u64).map(|at| Key { time: at * 7919 % 500, rank: (at % 3) as u8 }).collect();
        let mut expected: Vec<(Key, usize)> = keys.iter().copied().zip(0..).collect();
        expected.sort();
        for piece_bytes in [1, 4000, 1 << 20] {
            let mut sorter = Sorter::new(piece_bytes);
            for (at, key) in keys.iter().enumerate() {
                // With different lengths, some of them empty.
                let text = if at % 7 == 0 { String::new() } else { at.to_string() };
                sorter.add(*key, text.as_bytes()).expect("room");
            }
            let mut sorted = sorter.sorted(Progress::hidden()).expect("room");
            for (key, at) in &expected {
                let (found, bytes) = sorted.next().expect("room").expect("as many as were added");
                let text = if at % 7 == 0 { String::new() } else { at.to_string() };
                assert_eq!((found, bytes), (*key, text.as_bytes()), "{piece_bytes}");
            }
            assert!(sorted.next().expect("room").is_none());
        }
    }
}
