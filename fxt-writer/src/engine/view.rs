//! The data to save, as bytes.

use super::Engine;
use super::config::Mode;
use super::handover::SaveError;
use super::position::part_of;
use super::state::State;
use crate::layout::limits::WORD_BYTES;
use crate::packet::Packet;

/// The reason why a packet cannot be viewed: the same reasons for which it could not be saved.
pub type ViewError = SaveError;

/// The bytes to save for one packet, borrowed from the engine's memory. While a view is alive, no buffer is given back.
#[derive(Debug)]
#[must_use = "a view does nothing unless it is read"]
pub struct View<'e> {
    engine: &'e Engine,
    #[cfg(not(loom))]
    pieces: Vec<&'e [u8]>,
    #[cfg(loom)]
    pieces: Vec<Vec<u8>>,
    durable: usize,
}

impl Engine {
    /// The data to save for `packet`.
    ///
    /// # Errors
    ///
    /// Returns an error when no buffer with the packet's values waits to be saved.
    pub fn view(&self, packet: Packet) -> Result<View<'_>, ViewError> {
        let mut state = self.lock();
        self.check_waiting(&state, packet)?;
        let mut spans = self.durable_spans(&state, packet);
        let durable = spans.len();
        let index = part_of(packet.data32);
        let base = self.division.rolling_base(index);
        let data = state.parts[index].data();
        spans.extend(data.into_iter().map(|span| base + span.start..base + span.end));
        state.views += 1;
        // SAFETY: the spans lie within the memory. The rolling spans are the data of a Complete buffer: all of it is committed (the lock
        // and the counts order those stores before this), abandoned reservations are left out, and the buffer is neither cleared nor opened
        // while `views` is not zero. The durable spans lie between the saved and the committed data; writers store only beyond the
        // committed data, and space before `saved` is freed only when `views` is zero.
        #[cfg(not(loom))]
        let pieces = spans.into_iter().map(|span| unsafe { self.memory.bytes(span) }).collect();
        #[cfg(loom)]
        let pieces = spans.into_iter().map(|span| self.memory.copy(span)).collect();
        Ok(View { engine: self, pieces, durable })
    }

    /// The durable data to save before the packet's buffer: one span, or two if
    /// it wraps around the ring's end.
    fn durable_spans(&self, state: &State, packet: Packet) -> Vec<std::ops::Range<usize>> {
        // In modes that save nothing until the end, all durable data precedes the oldest buffer.
        if self.config.mode != Mode::Streaming && state.first != Some(packet.data32) {
            return Vec::new();
        }
        let end = packet.data64 / WORD_BYTES as u64;
        let begin = state.durable.saved.min(end);
        if begin == end {
            return Vec::new();
        }
        let (first, last) = (self.durable_word(begin), self.durable_word(end - 1));
        if first <= last {
            return std::iter::once(first..last + 1).collect();
        }
        let base = self.division.durable_base();
        vec![first..base + self.division.durable, base..last + 1]
    }
}

impl View<'_> {
    /// All pieces in the order in which to save them: durable ones first.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(AsRef::as_ref)
    }

    /// The durable pieces: none, one, or two if the data wraps around the ring's end.
    pub fn durable(&self) -> impl Iterator<Item = &[u8]> {
        self.slices().take(self.durable)
    }

    /// The rolling pieces: one, or more if a writer in between was abandoned.
    pub fn rolling(&self) -> impl Iterator<Item = &[u8]> {
        self.slices().skip(self.durable)
    }

    /// Bytes in all pieces.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        let mut state = self.engine.lock();
        state.views -= 1;
        // Circular writers wait for views to end.
        self.engine.wake(&state);
    }
}
