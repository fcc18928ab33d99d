//! What was taken out of a provider's buffer before that was full.
//!
//! Where one archive ends and another begins, what a provider has recorded by then is written, though nobody has asked for
//! it to be saved. When it is saved, the same records are in it, in the same order, and are left out. Others may have come
//! between them, since each thread fills room of its own:
//!
//! ```text
//!  buffer     [ a b . . | x . . . ]     archive 1: a b x, ahead
//!  buffer     [ a b c d | x y z . ]     archive 2: c d y z, saved
//! ```
//!
//! So records are told by what is in them. A provider that changes them afterwards, against the protocol, has them in both.

use fxt_format::walk::records;
use fxt_writer::engine::Piece;

use super::fault::Fault;

/// What is in an archive already of what comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ahead {
    durable: Vec<u64>,
    rolling: Vec<u64>,
}

impl Ahead {
    /// Remembers what was written ahead, out of a buffer of so many words.
    ///
    /// # Errors
    /// When that is more than the buffer holds.
    pub(super) fn add(&mut self, piece: &Piece, buffer: usize) -> Result<(), Fault> {
        self.durable.extend_from_slice(&piece.durable);
        self.rolling.extend_from_slice(&piece.rolling);
        match self.durable.len() + self.rolling.len() <= buffer {
            true => Ok(()),
            false => Err(Fault::Changed),
        }
    }

    /// Leaves out of a piece what was written ahead of it.
    pub(super) fn without(&self, piece: &mut Piece) {
        leave_out(&mut piece.durable, &self.durable);
        leave_out(&mut piece.rolling, &self.rolling);
    }

    /// The same of a piece that was saved, which is not met again.
    pub(super) fn settle(&mut self, piece: &mut Piece) {
        let durable = leave_out(&mut piece.durable, &self.durable);
        let rolling = leave_out(&mut piece.rolling, &self.rolling);
        self.durable.drain(..durable);
        self.rolling.drain(..rolling);
    }
}

/// Takes the records that are `ahead` out of others, as far as they come there in this order; says how many words that were.
fn leave_out(from: &mut Vec<u64>, ahead: &[u64]) -> usize {
    if ahead.is_empty() {
        return 0;
    }
    let mut rest = ahead;
    let mut kept = Vec::with_capacity(from.len());
    for record in records(from) {
        match rest.strip_prefix(record) {
            Some(after) => rest = after,
            None => kept.extend_from_slice(record),
        }
    }
    *from = kept;
    ahead.len() - rest.len()
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
        assert_eq!((saved, &ahead), (seen, &Ahead::default()));
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
        assert_eq!(ahead, Ahead::default());
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
    fn no_more_is_remembered_than_a_buffer_holds() {
        let mut ahead = Ahead::default();
        ahead.add(&piece(&[], &[two(1)]), 4).expect("room");
        // As of one that writes its buffer anew each time it is looked at.
        ahead.add(&piece(&[], &[two(2)]), 4).expect("room");
        let more = ahead.add(&piece(&[two(4)], &[]), 4);
        assert!(matches!(more, Err(Fault::Changed)), "{more:?}");
    }
}
