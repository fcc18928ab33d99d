//! The state of a provider, learned from its records.

use fxt_format::walk::records;
use fxt_writer::engine::Piece;

use super::event::decode;
use super::names::{MAX_NAME_BYTES, Names};
use super::open::{Clock, MAX_OPEN_BYTES, Open};

/// A provider gets at most this fraction of the remaining memory (one part in this number), so that some always remains for the next one.
const SHARE: usize = 2;

/// The memory limits for this state, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) names: usize,
    /// The limit for open spans.
    pub(super) open: usize,
}

impl Room {
    pub(super) fn plus(self, other: Room) -> Room {
        Room { names: self.names + other.names, open: self.open + other.open }
    }

    pub(super) fn less(self, other: Room) -> Room {
        Room { names: self.names - other.names, open: self.open - other.open }
    }

    /// The limits for all providers together, if an archive is rotated after `archive_bytes`: each archive begins with
    /// all of this state.
    pub(super) fn for_all(archive_bytes: u64) -> Room {
        let bytes = usize::try_from(archive_bytes).unwrap_or(usize::MAX);
        Room { names: MAX_NAME_BYTES.min(bytes / 2), open: MAX_OPEN_BYTES.min(bytes / 8) }
    }

    /// The space that remains for one provider, given the use of the others.
    pub(super) fn beside(self, others: Room) -> Room {
        let share = |most: usize, others| most.saturating_sub(others) / SHARE;
        Room { names: share(self.names, others.names), open: share(self.open, others.open) }
    }
}

/// The state of a provider, learned from its records.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) names: Names,
    /// Its open spans, if they are tracked.
    pub(super) open: Open,
}

impl Known {
    /// Its memory, in bytes.
    pub(super) fn takes(&self) -> Room {
        Room { names: self.names.bytes(), open: self.open.bytes() }
    }

    /// Its clock, according to its last initialization record.
    pub(super) fn clock(&self) -> Clock {
        Clock { ticks_per_second: self.names.ticks_per_second() }
    }

    /// Reads the definitions and open spans in all records of a piece, within `room`. Returns the begin records of spans to write before
    /// them.
    pub(super) fn follow(&mut self, piece: &Piece, room: Room) -> Vec<u8> {
        let mut begun = Vec::new();
        for record in records(&piece.durable).chain(records(&piece.rolling)) {
            match decode(record, &self.names) {
                Some(seen) => {
                    self.open.follow(seen, self.clock(), room.open, &mut begun);
                }
                None => self.names.learn_one(record, room.names),
            }
        }
        begun
    }
}
