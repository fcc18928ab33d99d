//! What is known of a provider from what it has recorded.

use fxt_format::walk::records;
use fxt_writer::engine::Piece;

use super::event::decode;
use super::names::Names;
use super::open::{Clock, Open};

/// What is known of a provider from what it has recorded.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) names: Names,
    /// What it is in the middle of, where that is followed.
    pub(super) open: Open,
}

impl Known {
    /// Its clock, as it told it last.
    pub(super) fn clock(&self) -> Clock {
        Clock { ticks_per_second: self.names.ticks_per_second() }
    }

    /// Takes note of all records of a piece. Returns what is to be begun anew before them.
    pub(super) fn follow(&mut self, piece: &Piece) -> Vec<u8> {
        let mut begun = Vec::new();
        for record in records(&piece.durable).chain(records(&piece.rolling)) {
            match decode(record, &self.names) {
                Some(seen) => self.open.follow(seen, self.clock(), &mut begun),
                None => self.names.learn_one(record),
            }
        }
        begun
    }
}
