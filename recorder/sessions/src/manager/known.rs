//! What is known of a provider from what it has recorded.

use fxt_format::walk::records;
use fxt_writer::engine::Piece;

use super::event::decode;
use super::names::{MAX_NAME_BYTES, Names};
use super::open::{Clock, MAX_OPEN_BYTES, Open};

/// A provider gets at most this part of what others leave, as a divisor: there is always something left for the next.
const SHARE: usize = 2;

/// How many bytes what is known may take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) names: usize,
    /// For what a provider is in the middle of.
    pub(super) open: usize,
}

impl Room {
    pub(super) fn plus(self, other: Room) -> Room {
        Room { names: self.names + other.names, open: self.open + other.open }
    }

    pub(super) fn less(self, other: Room) -> Room {
        Room { names: self.names - other.names, open: self.open - other.open }
    }

    /// What there is for all providers, where another archive begins after so many bytes: it has to begin with all of it.
    pub(super) fn for_all(archive_bytes: u64) -> Room {
        let bytes = usize::try_from(archive_bytes).unwrap_or(usize::MAX);
        Room { names: MAX_NAME_BYTES.min(bytes / 2), open: MAX_OPEN_BYTES.min(bytes / 8) }
    }

    /// What there is of that for one provider, while others take so much.
    pub(super) fn beside(self, others: Room) -> Room {
        let share = |most: usize, others| most.saturating_sub(others) / SHARE;
        Room { names: share(self.names, others.names), open: share(self.open, others.open) }
    }
}

/// What is known of a provider from what it has recorded.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) names: Names,
    /// What it is in the middle of, where that is followed.
    pub(super) open: Open,
}

impl Known {
    /// How many bytes it takes.
    pub(super) fn takes(&self) -> Room {
        Room { names: self.names.bytes(), open: self.open.bytes() }
    }

    /// Its clock, as it told it last.
    pub(super) fn clock(&self) -> Clock {
        Clock { ticks_per_second: self.names.ticks_per_second() }
    }

    /// Takes note of all records of a piece, for which there is so much room. Returns what is to be begun anew before them.
    pub(super) fn follow(&mut self, piece: &Piece, room: Room) -> Vec<u8> {
        let mut begun = Vec::new();
        for record in records(&piece.durable).chain(records(&piece.rolling)) {
            match decode(record, &self.names) {
                Some(seen) => self.open.follow(seen, self.clock(), room.open, &mut begun),
                None => self.names.learn_one(record, room.names),
            }
        }
        begun
    }
}
