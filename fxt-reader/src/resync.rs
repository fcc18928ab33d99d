//! Finding the next sound record after damage.
//!
//! A record whose content is damaged but whose size is right is skipped alone.
//! Where the size cannot be trusted, every byte position behind the damage is
//! tried until one is found where a chain of sound records begins:
//!
//! ```text
//!   damaged      tried, no chain          found
//! |##########|. . . . . . . . . . . . .|----|--|------|---|- - -
//! ^ damage    ^ ^ ^                    ^ resume here
//! ```
//!
//! Sound is meant strictly here: reserved bits and padding zero, no words left
//! over, no unknown types. A chain is [`CHAIN`] records, or
//! fewer when the input ends right behind them.

use std::ops::Range;

use fxt_format::limits::{MAX_RECORD_WORDS, WORD_BYTES};
use fxt_format::walk::record_bytes;
use fxt_format::{header, record_type};

use crate::cursor::Cursor;
use crate::record::Record;
use crate::tables::Tables;
use crate::types::ByteOrder;

/// How many records in a row convince. Arguments and streams inside records can
/// look like a record or two.
pub(crate) const CHAIN: usize = 4;

/// Bytes that hold a chain of ordinary records of any size.
pub(crate) const LOOKAHEAD: usize = CHAIN * MAX_RECORD_WORDS * WORD_BYTES;

/// What some bytes are, taken as a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Exactly a record with nothing at all odd about it.
    Sound,
    /// A record of an unknown type.
    Unknown,
    /// No record, or one that is odd.
    Unsound,
}

/// Judges whether sound records begin at some place.
#[derive(Debug)]
pub(crate) struct Probe<'t> {
    pub(crate) order: ByteOrder,
    /// [`Tables::accepting_any_reference`]: a lost definition must not make
    /// every later record that refers to it look unsound.
    pub(crate) tables: &'t Tables,
    /// When the bytes looked at reach to the end of the input: how many sound
    /// records do if nothing, or only part of one, is behind them.
    pub(crate) enough_at_end: Option<usize>,
}

impl Probe<'_> {
    /// Whether a chain of `wanted` sound records begins at the start of `bytes`.
    pub(crate) fn chain(&self, bytes: &[u8], wanted: usize) -> bool {
        let mut rest = bytes;
        for found in 0..wanted {
            let enough = self.enough_at_end.is_some_and(|enough| found >= enough);
            let Some(&word) = rest.first_chunk() else { return enough };
            let word = self.order.word(word);
            let Some(size) = record_bytes(word) else { return false };
            let Some((record, behind)) = rest.split_at_checked(size) else {
                // A large record may reach beyond what is looked at.
                return enough || (found > 0 && header::TYPE.get(word) == record_type::LARGE);
            };
            if !self.is_sound(record) {
                return false;
            }
            rest = behind;
        }
        true
    }

    /// Whether records of unknown types, if any, and then a sound one (or the
    /// end of the input) are at the start of `bytes`. That makes it likely that
    /// the bytes before them are a record, should its header be unusual.
    pub(crate) fn confirms(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(&word) = rest.first_chunk() {
            let word = self.order.word(word);
            let Some(size) = record_bytes(word) else { return false };
            let Some((record, behind)) = rest.split_at_checked(size) else {
                // The end, or as far as was looked. Any four bits can make a
                // large record that reaches beyond, so those prove nothing.
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
