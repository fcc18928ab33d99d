//! Damage: how to distinguish it from unusual or truncated records, and how to continue after it.

use fxt_format::{header, large_blob, record_type};

use super::{CONFIRMING, Reader, SEARCH_STEP, State};
use crate::error::{Damage, Reason};
use crate::raw;
use crate::record::Unknown;
use crate::resync::{LOOKAHEAD, Probe};
use crate::types::ByteOrder;

impl Reader<'_> {
    pub(super) fn probe(&self, order: ByteOrder, enough_at_end: Option<usize>) -> Probe<'_> {
        Probe { order, tables: &self.any_reference, enough_at_end }
    }

    /// Marks that the record at the position is damaged.
    #[cold]
    pub(super) fn damage(&mut self, reason: Reason, length: Option<usize>) -> Damage {
        self.state = State::Damaged(length);
        self.summary.damaged_regions += 1;
        Damage { offset: self.input.offset(), record_type: raw::record_type(self.header()), reason }
    }

    /// Whether the bytes after a record of an unknown type make it likely that it
    /// is a record rather than damage.
    #[cold]
    pub(super) fn is_likely(&mut self, length: usize) -> bool {
        let to_end = !self.input.ensure(length.saturating_add(LOOKAHEAD));
        let behind = self.input.window().get(length..).unwrap_or_default();
        self.probe(self.order, to_end.then_some(1)).confirms(behind)
    }

    /// Returns whether the size of a record that is longer than the rest of the input is wrong: valid records then begin within it.
    /// Otherwise the record is truncated.
    #[cold]
    pub(super) fn is_overrun(&self) -> bool {
        let header_word = self.header();
        let window = self.input.window();
        if header::TYPE.get(header_word) == record_type::LARGE
            && Unknown::of(header_word).is_none()
            && header_word & large_blob::HEADER.reserved() == 0
        {
            // A payload may be a trace itself.
            return false;
        }
        self.probe(self.order, Some(CONFIRMING)).find(window, 1..window.len()).is_some()
    }

    /// Moves to the next position where valid records begin.
    #[cold]
    pub(super) fn recover(&mut self, length: Option<usize>) {
        if let Some(length) = length
            && self.is_confirmed(length)
        {
            self.skip_damage(length);
            return;
        }
        let mut from = 1;
        loop {
            let more = self.input.ensure(SEARCH_STEP + LOOKAHEAD);
            let window = self.input.window();
            let until = if more { SEARCH_STEP } else { window.len() };
            let probe = self.probe(self.order, (!more).then_some(1));
            let found = probe.find(window, from..until);
            self.skip_damage(found.unwrap_or(until));
            if found.is_some() || !more {
                return;
            }
            from = 0;
        }
    }

    /// Whether the size of a damaged record is right: valid records, or the end
    /// of the input, follow it.
    fn is_confirmed(&mut self, length: usize) -> bool {
        let to_end = !self.input.ensure(length.saturating_add(LOOKAHEAD));
        let behind = self.input.window().get(length..).unwrap_or_default();
        behind.is_empty() || self.probe(self.order, to_end.then_some(1)).chain(behind, CONFIRMING)
    }

    fn skip_damage(&mut self, length: usize) {
        self.input.consume(length);
        self.summary.damaged_bytes += length as u64;
    }
}
