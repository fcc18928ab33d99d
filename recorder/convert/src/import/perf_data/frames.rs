//! Finds the end of the content of a compressed record from the content itself.
//!
//! perf compresses all records into one zstd stream, and ends each compressed record at the end of a block. Since 6.16 it pads each record
//! to a multiple of 8 bytes. Three zero bytes are a block, too (an empty one), but fewer are not:
//!
//! ```text
//!   record 1   | frame's head | block | block | 00 00 |        record 2   | block | block | 00 00 00 00 |
//!                                             ^ ends here                                 ^
//! ```

/// The size of a block's header, and of the part of a frame's header that determines its length (RFC 8878).
const BLOCK_HEAD_BYTES: usize = 3;
const FRAME_HEAD_BYTES: usize = 5;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Padding is shorter than this, in bytes.
const PADDED_TO: usize = 8;

/// The position in a zstd stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    in_frame: bool,
    has_checksum: bool,
    /// The number of the block's bytes in the next record.
    rest: usize,
}

impl Frames {
    /// Processes a compressed record. With `padded`, zeros after its last block are padding. Returns the number of bytes without padding.
    pub(super) fn pass(&mut self, record: &[u8], padded: bool) -> usize {
        let mut at = 0;
        loop {
            let skipped = self.rest.min(record.len() - at);
            self.rest -= skipped;
            at += skipped;
            let left = record.get(at..).unwrap_or_default();
            let is_padding = left.len() < PADDED_TO && left.iter().all(|byte| *byte == 0);
            if padded && is_padding {
                return at;
            }
            let Some(length) = self.part(left) else { return record.len() };
            self.rest = length;
        }
    }

    /// The length of the frame header or block at the beginning; `None` if unknown.
    fn part(&mut self, bytes: &[u8]) -> Option<usize> {
        if !self.in_frame {
            let head = bytes.get(..FRAME_HEAD_BYTES)?;
            let descriptor = *head.strip_prefix(&MAGIC)?.first()?;
            let single_segment = descriptor & 0x20 != 0;
            let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
            let content = [usize::from(single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
            (self.in_frame, self.has_checksum) = (true, descriptor & 4 != 0);
            return Some(FRAME_HEAD_BYTES + usize::from(!single_segment) + dictionary + content);
        }
        let [low, middle, high] = *bytes.first_chunk::<BLOCK_HEAD_BYTES>()?;
        let head = u32::from_le_bytes([low, middle, high, 0]);
        let (is_last, kind, size) = (head & 1 != 0, head >> 1 & 3, (head >> 3) as usize);
        // A run-length block contains its byte once.
        let content = if kind == 1 { 1 } else { size };
        let checksum = if is_last && self.has_checksum { 4 } else { 0 };
        self.in_frame = !is_last;
        Some(BLOCK_HEAD_BYTES + content + checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Pieces of one stream, each flushed as perf does.
    fn pieces(contents: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
        let mut taken = 0;
        contents
            .iter()
            .map(|content| {
                encoder.write_all(content).expect("memory");
                encoder.flush().expect("memory");
                let piece = encoder.get_ref()[taken..].to_vec();
                taken += piece.len();
                piece
            })
            .collect()
    }

    #[test]
    fn a_record_ends_with_its_last_block_whatever_its_padding() {
        let contents: Vec<Vec<u8>> = (1..60usize)
            .map(|length| (0..length * 37).map(|at| ((at * at * length) >> 3) as u8).collect())
            .chain([vec![7; 300_000], vec![0; 5000]])
            .collect();
        let mut frames = Frames::default();
        let mut paddings = [0; PADDED_TO];
        for piece in pieces(&contents) {
            let padded = piece.len().next_multiple_of(8);
            paddings[padded - piece.len()] += 1;
            let mut record = piece.clone();
            record.resize(padded, 0);
            let end = frames.pass(&record, true);
            // Whole empty blocks do not matter.
            assert!(
                piece[end.min(piece.len())..].iter().all(|byte| *byte == 0) && end <= piece.len()
            );
        }
        assert!(paddings.iter().all(|count| *count > 0), "{paddings:?}");
    }

    #[test]
    fn what_is_no_stream_is_taken_whole() {
        assert_eq!(Frames::default().pass(b"no stream of zstd", true), 17);
        assert_eq!(Frames::default().pass(&[0; 7], true), 0);
        let mut frames = Frames { rest: 100, ..Frames::default() };
        assert_eq!((frames.pass(&[1; 40], true), frames.rest), (40, 60));
    }
}
