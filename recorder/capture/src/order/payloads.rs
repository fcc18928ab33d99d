//! The bytes that events carry while they wait in a queue.

use crate::event::Payload;

/// The bytes that the events of one queue carry.
///
/// Events are small and all of one size, but the data of probes and tracepoints is not. It goes into a separate ring, and the event keeps
/// its position:
///
/// ```text
///   ring   ....[len|bytes][len|bytes, done][len|bytes]..........
///              ^tail                                  ^head
/// ```
///
/// An event may leave the queue before an older event whose data precedes its own in the ring, so its space is first marked as done, and
/// then freed from the tail on. Positions only grow; the ring's size is a power of two, and doubles when it is full.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    bytes: Vec<u8>,
    head: u64,
    tail: u64,
}

/// Length in the lower half, [`DONE`] in the upper.
const HEADER: usize = 8;

/// Marks room that is no longer needed.
const DONE: u64 = 1 << 32;

const LEAST: usize = 4096;

/// Bytes that a payload of `len` takes in the ring.
fn room(len: usize) -> usize {
    HEADER + len.next_multiple_of(HEADER)
}

impl Payloads {
    /// Bytes that are in use.
    pub(super) fn held(&self) -> usize {
        (self.head - self.tail) as usize
    }

    fn index(&self, at: u64) -> usize {
        // The length is a power of two; this is only called while the ring has memory.
        at as usize & (self.bytes.len() - 1)
    }

    fn header(&self, at: u64) -> u64 {
        let index = self.index(at);
        self.bytes[index..].first_chunk().map_or(DONE, |chunk| u64::from_ne_bytes(*chunk))
    }

    fn set_header(&mut self, at: u64, header: u64) {
        let index = self.index(at);
        self.bytes[index..index + HEADER].copy_from_slice(&header.to_ne_bytes());
    }

    /// Keeps a copy of `content`, which is shorter than 64 KiB as every record of a perf ring is.
    pub(super) fn push(&mut self, content: &[u8]) -> Payload {
        if content.is_empty() {
            return Payload::default();
        }
        let wanted = room(content.len());
        loop {
            let capacity = self.bytes.len();
            let to_end = capacity - (self.head as usize & capacity.saturating_sub(1));
            // A payload is contiguous: if there is not enough room at the end of the ring, that room is left empty.
            let skipped = if to_end < wanted { to_end } else { 0 };
            if self.held() + skipped + wanted > capacity {
                self.grow(self.held() + skipped + wanted);
                continue;
            }
            if skipped > 0 {
                self.set_header(self.head, DONE | (skipped - HEADER) as u64);
                self.head += skipped as u64;
                continue;
            }
            break;
        }
        let payload = Payload { at: self.head, len: content.len() as u32 };
        self.set_header(payload.at, u64::from(payload.len));
        let start = self.index(payload.at) + HEADER;
        self.bytes[start..start + content.len()].copy_from_slice(content);
        self.head += wanted as u64;
        payload
    }

    /// The bytes of a payload that was not released.
    pub(super) fn get(&self, payload: Payload) -> &[u8] {
        if payload.len == 0 {
            return &[];
        }
        let start = self.index(payload.at) + HEADER;
        &self.bytes[start..start + payload.len as usize]
    }

    /// Releases the room of a payload.
    pub(super) fn release(&mut self, payload: Payload) {
        if payload.len == 0 {
            return;
        }
        self.set_header(payload.at, DONE | u64::from(payload.len));
        while self.tail != self.head {
            let header = self.header(self.tail);
            if header & DONE == 0 {
                break;
            }
            self.tail += room((header & !DONE) as usize) as u64;
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) {
        let old = std::mem::take(&mut self.bytes);
        let capacity = wanted.max(LEAST).next_power_of_two().max(old.len() * 2);
        self.bytes = vec![0; capacity];
        // No payload crosses a multiple of the old length, so each such part stays contiguous.
        let mut at = self.tail;
        while at != self.head && !old.is_empty() {
            let from = at as usize & (old.len() - 1);
            let len = (old.len() - from).min((self.head - at) as usize);
            let to = self.index(at);
            self.bytes[to..to + len].copy_from_slice(&old[from..from + len]);
            at += len as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| (seed * 31 + at) as u8).collect()
    }

    #[test]
    fn bytes_come_back_as_they_were_whatever_their_lengths() {
        let mut payloads = Payloads::default();
        let kept: Vec<Payload> = (0..3000).map(|n| payloads.push(&content(n, n % 517))).collect();
        for (n, payload) in kept.iter().enumerate() {
            assert_eq!(payloads.get(*payload), content(n, n % 517), "{n}");
        }
    }

    #[test]
    fn room_is_used_again_however_long_it_continues() {
        let mut payloads = Payloads::default();
        let mut kept = std::collections::VecDeque::new();
        for n in 0..100_000 {
            kept.push_back((n, payloads.push(&content(n, n % 100))));
            if kept.len() > 20 {
                // The second may precede the first, for example after an interrupt.
                let at = usize::from(n % 7 == 0);
                let (n, payload) = kept.remove(at).expect("there are more than twenty");
                assert_eq!(payloads.get(payload), content(n, n % 100));
                payloads.release(payload);
            }
        }
        assert_eq!(payloads.bytes.len(), LEAST);
        kept.drain(..).for_each(|(_, payload)| payloads.release(payload));
        assert_eq!(payloads.held(), 0);
    }

    #[test]
    fn growing_keeps_what_wrapped_around() {
        let mut payloads = Payloads::default();
        let mut kept = std::collections::VecDeque::new();
        for n in 0..40 {
            kept.push_back((n, payloads.push(&content(n, 90))));
        }
        for _ in 0..30 {
            let (_, payload) = kept.pop_front().expect("forty were kept");
            payloads.release(payload);
        }
        for n in 40..200 {
            kept.push_back((n, payloads.push(&content(n, 90))));
        }
        assert!(payloads.bytes.len() > LEAST);
        for (n, payload) in kept {
            assert_eq!(payloads.get(payload), content(n, 90), "{n}");
        }
    }
}
