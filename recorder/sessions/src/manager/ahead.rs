//! Records that were written from a provider's buffer before it was full.
//!
//! At the end of an archive, the records that a provider has written so far are copied without a request from it. When the buffer is saved
//! later, it contains the same records in the same order, so they are left out. New records may be between them, because each thread fills
//! its own piece of the buffer:
//!
//! ```text
//!  buffer     [ a b . . | x . . . ]     archive 1: a b x, ahead
//!  buffer     [ a b c d | x y z . ]     archive 2: c d y z, saved
//! ```
//!
//! So records are recognized by a hash of their content. If a provider changes them afterwards, which violates the protocol, both versions
//! are written. Memory for hashes is limited for all providers together; records beyond the limit are written to the archive that is
//! current when they are saved.

use std::hash::{BuildHasher, RandomState};

use fxt_format::walk::records;
use fxt_writer::engine::Piece;

use super::fault::Fault;

/// The limit for hashes of all providers together, in bytes: enough for two million records.
pub(super) const MAX_AHEAD_BYTES: usize = 16 << 20;

/// A record: its number of words, as far as that fits into these bits, and a hash of them.
type Mark = u64;

const WORDS_BITS: u32 = 16;
const MOST_WORDS: u64 = (1 << WORDS_BITS) - 1;

/// The next records that are already in an archive.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    /// The key is unknown to providers, which might otherwise choose records with equal hashes.
    key: RandomState,
    durable: Vec<Mark>,
    rolling: Vec<Mark>,
}

impl Ahead {
    /// Remembers the records that were written ahead from a buffer of this many words.
    ///
    /// # Errors
    /// Returns an error when there are more records than the buffer can hold.
    pub(super) fn add(&mut self, piece: &Piece, buffer: usize) -> Result<(), Fault> {
        let Ahead { key, durable, rolling } = self;
        for (marks, words) in [(&mut *durable, &piece.durable), (&mut *rolling, &piece.rolling)] {
            marks.reserve_exact(records(words).count());
            marks.extend(records(words).map(|record| mark(key, record)));
        }
        let words: u64 = durable.iter().chain(&*rolling).map(|mark| mark & MOST_WORDS).sum();
        match words <= buffer as u64 {
            true => Ok(()),
            false => Err(Fault::Changed),
        }
    }

    /// Its memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.durable.capacity() + self.rolling.capacity()) * size_of::<Mark>()
    }

    /// Its memory after this piece is added, in bytes.
    pub(super) fn bytes_with(&self, piece: &Piece) -> usize {
        let parts = [(&self.durable, &piece.durable), (&self.rolling, &piece.rolling)];
        let marks = |(marks, words): (&Vec<Mark>, &Vec<u64>)| {
            marks.capacity().max(marks.len() + records(words).count())
        };
        parts.into_iter().map(marks).sum::<usize>() * size_of::<Mark>()
    }

    /// Removes from a piece the records that were written ahead.
    pub(super) fn without(&self, piece: &mut Piece) {
        leave_out(&mut piece.durable, &self.durable, &self.key);
        leave_out(&mut piece.rolling, &self.rolling, &self.key);
    }

    /// The same as [`without`](Self::without), but for a saved piece, whose records do not occur again.
    pub(super) fn settle(&mut self, piece: &mut Piece) {
        let durable = leave_out(&mut piece.durable, &self.durable, &self.key);
        let rolling = leave_out(&mut piece.rolling, &self.rolling, &self.key);
        for (marks, met) in [(&mut self.durable, durable), (&mut self.rolling, rolling)] {
            marks.drain(..met);
            marks.shrink_to_fit();
        }
    }
}

fn mark(key: &RandomState, record: &[u64]) -> Mark {
    key.hash_one(record) << WORDS_BITS | (record.len() as u64).min(MOST_WORDS)
}

/// Removes the records in `ahead` from other records, while they occur there in this order; returns how many.
fn leave_out(from: &mut Vec<u64>, ahead: &[Mark], key: &RandomState) -> usize {
    if ahead.is_empty() {
        return 0;
    }
    let mut met = 0;
    let mut kept = Vec::with_capacity(from.len());
    for record in records(from) {
        match ahead.get(met) {
            Some(next) if *next == mark(key, record) => met += 1,
            _ => kept.extend_from_slice(record),
        }
    }
    *from = kept;
    met
}

#[cfg(test)]
mod tests {
    use fxt_writer::record::{Initialization, Record, ThreadRecord};
    use fxt_writer::{Koid, ThreadRef};

    use super::*;

    /// More than any piece in these tests has.
    const ROOM: usize = 100;

    /// A record of two words.
    fn two(number: u64) -> Vec<u64> {
        let mut words = Vec::new();
        Initialization { ticks_per_second: number }.write(&mut words).expect("a vector");
        words
    }

    /// A record of three words.
    fn three(number: u64) -> Vec<u64> {
        let index = ThreadRef::indexed(1).expect("not zero");
        let (process, thread) = (Koid(number), Koid(number));
        let mut words = Vec::new();
        ThreadRecord { index, process, thread }.write(&mut words).expect("a vector");
        words
    }

    fn piece(durable: &[Vec<u64>], rolling: &[Vec<u64>]) -> Piece {
        Piece { durable: durable.concat(), rolling: rolling.concat(), ..Piece::default() }
    }

    #[test]
    fn what_was_written_ahead_is_left_out_once() {
        let mut ahead = Ahead::default();
        ahead.add(&piece(&[three(1)], &[two(1), two(2)]), ROOM).expect("room");
        let whole = || piece(&[three(1), three(2)], &[two(1), two(2), three(3)]);
        let mut seen = whole();
        ahead.without(&mut seen);
        assert_eq!(seen, piece(&[three(2)], &[three(3)]));
        let mut saved = whole();
        ahead.settle(&mut saved);
        assert_eq!((saved, ahead.bytes()), (seen, 0));
        let mut next = whole();
        ahead.settle(&mut next);
        assert_eq!(next, whole(), "nothing is to be left out any more");
    }

    /// The picture in the module's documentation.
    #[test]
    fn records_that_came_between_those_written_ahead_are_kept() {
        let mut ahead = Ahead::default();
        ahead.add(&piece(&[], &[two(1), two(2), three(7)]), ROOM).expect("room");
        let all = [two(1), two(2), two(3), two(4), three(7), three(8), three(9)];
        let mut saved = piece(&[], &all);
        ahead.settle(&mut saved);
        assert_eq!(saved, piece(&[], &[two(3), two(4), three(8), three(9)]));
        assert_eq!(ahead.bytes(), 0);
    }

    #[test]
    fn what_was_taken_out_of_two_buffers_is_left_out_of_both() {
        let mut ahead = Ahead::default();
        ahead.add(&piece(&[], &[two(1), two(2), three(3)]), ROOM).expect("room");
        let mut older = piece(&[], &[two(1), two(2)]);
        ahead.settle(&mut older);
        assert!(older.is_empty());
        let mut newer = piece(&[], &[three(3), two(4)]);
        ahead.settle(&mut newer);
        assert_eq!(newer, piece(&[], &[two(4)]));
    }

    #[test]
    fn what_is_remembered_takes_less_than_the_records() {
        let mut ahead = Ahead::default();
        let long: Vec<Vec<u64>> =
            (1..=1000).map(|number| [two(number), three(number)].concat()).collect();
        let all = piece(&[two(1)], &long);
        let expected = ahead.bytes_with(&all);
        ahead.add(&all, 6000).expect("room");
        assert_eq!((ahead.bytes(), expected), (2001 * 8, 2001 * 8));
        assert_eq!(ahead.bytes_with(&piece(&[], &[two(1)])), 2002 * 8);
    }

    #[test]
    fn no_more_is_remembered_than_a_buffer_holds() {
        let mut ahead = Ahead::default();
        ahead.add(&piece(&[], &[two(1)]), 4).expect("room");
        // As if a provider rewrote its buffer each time it is read.
        ahead.add(&piece(&[], &[two(2)]), 4).expect("room");
        let more = ahead.add(&piece(&[two(4)], &[]), 4);
        assert!(matches!(more, Err(Fault::Changed)), "{more:?}");
    }
}
