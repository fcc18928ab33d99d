//! Finding the next valid record after damage.
//!
//! If only a record's content is damaged and its size is right, only that record
//! is skipped. A record is sound only if reserved bits and padding are zero, no words are left over, and no type is unknown.
//!
//! ```text
//!   damaged      tried, no chain          found
//! |##########|. . . . . . . . . . . . .|----|--|------|---|- - -
//! ^ damage    ^ ^ ^                    ^ resume here
//! ```
//!
//! Sound is strict here: reserved bits and padding are zero, no words are left
//! over, no type is unknown. A chain is [`CHAIN`] records, or fewer if the input
//! ends right after them.

use std::ops::Range;

use fxt_format::limits::{MAX_RECORD_WORDS, WORD_BYTES};
use fxt_format::walk::record_bytes;
use fxt_format::{header, record_type};

use crate::cursor::Cursor;
use crate::record::Record;
use crate::tables::Tables;
use crate::types::ByteOrder;

/// The number of valid records in a row that prove that records begin here.
/// Arguments and streams inside records can look like a record or two.
pub(crate) const CHAIN: usize = 4;

/// Bytes that hold a chain of ordinary records of any size.
pub(crate) const LOOKAHEAD: usize = CHAIN * MAX_RECORD_WORDS * WORD_BYTES;

/// The interpretation of some bytes as a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Exactly one record, without oddities.
    Sound,
    /// A record of an unknown type.
    Unknown,
    /// Not a record, or a record with an oddity.
    Unsound,
}

/// Judges whether valid records begin at a position.
#[derive(Debug)]
pub(crate) struct Probe<'t> {
    pub(crate) order: ByteOrder,
    /// [`Tables::accepting_any_reference`]: a lost definition must not make
    /// every later record that refers to it look unsound.
    pub(crate) tables: &'t Tables,
    /// If the examined bytes reach the end of the input: the number of sound records that suffices if they are followed by nothing or by a
    /// partial record.
    pub(crate) enough_at_end: Option<usize>,
}

impl Probe<'_> {
    /// Whether a chain of `wanted` valid records begins at the start of `bytes`.
    pub(crate) fn chain(&self, bytes: &[u8], wanted: usize) -> bool {
        let mut rest = bytes;
        for found in 0..wanted {
            let enough = self.enough_at_end.is_some_and(|enough| found >= enough);
            let Some(&word) = rest.first_chunk() else { return enough };
            let word = self.order.word(word);
            let Some(size) = record_bytes(word) else { return false };
            let Some((record, behind)) = rest.split_at_checked(size) else {
                // A large record may extend beyond the examined bytes.
                return enough || (found > 0 && header::TYPE.get(word) == record_type::LARGE);
            };
            if !self.is_sound(record) {
                return false;
            }
            rest = behind;
        }
        true
    }

    /// Whether `bytes` starts with any number of records of unknown types and
    /// then a sound one (or the end of the input). If so, the bytes before are
    /// likely a record, even if its header is unusual.
    pub(crate) fn confirms(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(&word) = rest.first_chunk() {
            let word = self.order.word(word);
            let Some(size) = record_bytes(word) else { return false };
            let Some((record, behind)) = rest.split_at_checked(size) else {
                // The end of the input or of the window. Many words look like the header of a large record that extends beyond the input
                // (only four bits must match), so a large record proves nothing.
                return header::TYPE.get(word) != record_type::LARGE;
            };
            match self.judge(record) {
                Verdict::Sound => return true,
                Verdict::Unknown => rest = behind,
                Verdict::Unsound => return false,
            }
        }
        true
    }

    fn is_sound(&self, bytes: &[u8]) -> bool {
        self.judge(bytes) == Verdict::Sound
    }

    fn judge(&self, bytes: &[u8]) -> Verdict {
        let mut cursor = Cursor::new(bytes, self.order);
        match Record::parse(&mut cursor, self.tables) {
            Ok(Record::Unknown(_)) => Verdict::Unknown,
            Ok(_) if cursor.oddities.is_empty() => Verdict::Sound,
            _ => Verdict::Unsound,
        }
    }

    /// The first position in `bytes`, within `positions`, where a chain begins.
    pub(crate) fn find(&self, bytes: &[u8], mut positions: Range<usize>) -> Option<usize> {
        positions.find(|&at| bytes.get(at..).is_some_and(|bytes| self.chain(bytes, CHAIN)))
    }
}
