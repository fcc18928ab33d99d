//! What was taken out of a provider's buffer before that was full.
//!
//! Where one archive ends and another begins, what a provider has recorded by then is written, though nobody has asked for
//! it to be saved. When it is saved, it begins with the same records, which are left out:
//!
//! ```text
//!  buffer     [ a b c . . . . ]     archive 1: a b c, ahead
//!  buffer     [ a b c d e f g ]     archive 2: d e f g, saved
//! ```
//!
//! The buffer may be changed in between by a provider that does not keep to the protocol. So what is left out are whole
//! records, as many words as were taken, or nothing more is believed.

use fxt_writer::engine::Piece;

use super::event::records;
use super::fault::Fault;

/// How much of what comes next is in an archive already, in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ahead {
    durable: usize,
    rolling: usize,
}

impl Ahead {
    /// Counts what was written ahead.
    pub(super) fn add(&mut self, piece: &Piece) {
        self.durable += piece.durable.len();
        self.rolling += piece.rolling.len();
    }

    /// Leaves out of a piece that was saved what was written ahead of it.
    ///
    /// # Errors
    /// When the piece does not have the records that were there.
    pub(super) fn leave_out(&mut self, piece: &mut Piece) -> Result<(), Fault> {
        self.durable -= cut(&mut piece.durable, self.durable)?;
        self.rolling -= cut(&mut piece.rolling, self.rolling)?;
        Ok(())
    }
}

/// Takes `words`, or all if there are fewer, off the beginning of whole records; says how many that was.
fn cut(from: &mut Vec<u64>, words: usize) -> Result<usize, Fault> {
    let words = words.min(from.len());
    let mut whole = 0;
    let mut sizes = records(from).map(<[u64]>::len);
    while whole < words {
        whole += sizes.next().ok_or(Fault::Changed)?;
    }
    drop(sizes);
    if whole != words {
        return Err(Fault::Changed);
    }
    from.drain(..words);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use fxt_writer::record::{Initialization, Record, ThreadRecord};
    use fxt_writer::{Koid, ThreadRef};

    use super::*;

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
        ahead.add(&piece(&[three(1)], &[two(1), two(2)]));
        let mut saved = piece(&[three(1), three(2)], &[two(1), two(2), three(3)]);
        ahead.leave_out(&mut saved).expect("they are there");
        assert_eq!(saved, piece(&[three(2)], &[three(3)]));
        assert_eq!(ahead, Ahead::default());
        ahead.leave_out(&mut saved).expect("nothing is to be left out");
        assert_eq!(saved, piece(&[three(2)], &[three(3)]));
    }

    #[test]
    fn what_was_taken_out_of_two_buffers_is_left_out_of_both() {
        let mut ahead = Ahead::default();
        ahead.add(&piece(&[], &[two(1), two(2), three(3)]));
        let mut older = piece(&[], &[two(1), two(2)]);
        ahead.leave_out(&mut older).expect("they are there");
        assert!(older.is_empty());
        let mut newer = piece(&[], &[three(3), two(4)]);
        ahead.leave_out(&mut newer).expect("they are there");
        assert_eq!(newer, piece(&[], &[two(4)]));
    }

    #[test]
    fn no_record_is_cut_in_half_whatever_became_of_the_buffer() {
        for changed in [vec![three(1), two(2)], vec![vec![0, 0, 0]], vec![vec![0x0004_0043]]] {
            let mut ahead = Ahead::default();
            ahead.add(&piece(&[], &[two(1), two(2)]));
            let mut saved = piece(&[], &changed);
            let left_out = ahead.leave_out(&mut saved);
            assert!(matches!(left_out, Err(Fault::Changed)), "{left_out:?}");
        }
    }
}
