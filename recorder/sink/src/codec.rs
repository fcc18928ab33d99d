//! Compressors that know at each flush how to end the stream there.
//!
//! When the disk is full, the file is truncated to the last flush and ended with a few bytes, which fit into the freed space. The result is
//! a valid but shorter file: tools that reject a truncated stream still open it.

use std::fmt;
use std::io::{self, Write};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use flate2::Crc;
use flate2::write::DeflateEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

/// On scheduling records, 142 MB/s and a fifth of the size on a 2-CPU virtual machine; level 3 is half as fast for a sixth of the size, and
/// higher levels gain nothing.
const GZIP_LEVEL: u32 = 2;

/// On the same records, 262 MB/s and a sixth of the size, which zstd's default of 3 does not reach: long matches are rare in them, and the
/// search for them costs more than it saves.
const ZSTD_LEVEL: i32 = 1;

/// The search window, as a power of two, in bytes: a quarter of the level's default. The window and the input fit into a core's own cache,
/// which takes a fifth less time for 1 % more bytes (`docs/bench/capture.md`).
const ZSTD_WINDOW_LOG: u32 = 17;

/// A compressor that writes to memory.
pub(super) trait Codec: Send + fmt::Debug {
    /// Compresses more. Part of the data may stay in the compressor until the next flush.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Outputs all data that is still in the compressor, so that all of it can be decompressed.
    fn flush(&mut self) -> io::Result<()>;

    fn finish(&mut self) -> io::Result<()>;

    /// The output since it was last emptied.
    fn output(&mut self) -> &mut Vec<u8>;

    /// The bytes that end the stream right after the last flush.
    fn ending(&self) -> Vec<u8>;
}

/// One gzip member (RFC 1952).
///
/// Built by hand around a deflate stream, since the checksum must be known in the middle.
pub(super) struct Gzip {
    deflate: DeflateEncoder<Vec<u8>>,
    checksum: Crc,
}

/// Magic number, deflate, no flags, no time, no information about the compressor, Unix.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// A final deflate block without content: fixed codes, end of block (RFC 1951, 3.2.3).
const EMPTY_FINAL_DEFLATE_BLOCK: [u8; 2] = [0x03, 0x00];

impl Gzip {
    pub(super) fn new() -> Gzip {
        let level = flate2::Compression::new(GZIP_LEVEL);
        Gzip { deflate: DeflateEncoder::new(GZIP_HEADER.to_vec(), level), checksum: Crc::new() }
    }

    fn trailer(&self) -> [u8; 8] {
        let [a, b, c, d] = self.checksum.sum().to_le_bytes();
        let [e, f, g, h] = self.checksum.amount().to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl fmt::Debug for Gzip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gzip").finish_non_exhaustive()
    }
}

impl Codec for Gzip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.deflate.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.deflate.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.deflate.try_finish()?;
        let trailer = self.trailer();
        self.deflate.get_mut().extend_from_slice(&trailer);
        Ok(())
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.deflate.get_mut()
    }

    fn ending(&self) -> Vec<u8> {
        [&EMPTY_FINAL_DEFLATE_BLOCK[..], &self.trailer()].concat()
    }
}

/// One zstd frame (RFC 8878) without a checksum. If one thread is not enough, a second frame follows, which other threads compress.
pub(super) struct Zstd {
    encoder: ZstdEncoder<'static, Vec<u8>>,
    /// The number of threads that compress the second frame; 0 for none.
    helpers: u32,
    /// Whether the second frame is next.
    is_busy: bool,
    /// Time spent in the first frame since the last flush, and when that was.
    spent: Duration,
    flushed: Instant,
}

/// A last block of zstd without content: raw, size 0 (RFC 8878, 3.1.1.2).
const EMPTY_LAST_ZSTD_BLOCK: [u8; 3] = [0x01, 0x00, 0x00];

/// One more thread compresses for each group of this many CPUs that this process may use.
const CPUS_PER_HELPER: usize = 8;

/// The maximum number of threads: with more, the disk is the limit.
const MOST_HELPERS: u32 = 8;

/// The number of threads that compress when one is not enough, if this process may use this number of CPUs.
fn helpers_for(cpus: usize) -> u32 {
    match u32::try_from(cpus / CPUS_PER_HELPER).unwrap_or(MOST_HELPERS) {
        0 | 1 => 0,
        helpers => helpers.min(MOST_HELPERS),
    }
}

impl Zstd {
    pub(super) fn new() -> io::Result<Zstd> {
        Zstd::with_helpers(helpers_for(available_parallelism().map_or(1, usize::from)))
    }

    fn with_helpers(helpers: u32) -> io::Result<Zstd> {
        let encoder = Zstd::frame(Vec::new())?;
        let (spent, flushed) = (Duration::ZERO, Instant::now());
        Ok(Zstd { encoder, helpers, is_busy: false, spent, flushed })
    }

    fn frame(output: Vec<u8>) -> io::Result<ZstdEncoder<'static, Vec<u8>>> {
        let mut encoder = ZstdEncoder::new(output, ZSTD_LEVEL)?;
        encoder.window_log(ZSTD_WINDOW_LOG)?;
        // A frame that ends in the middle could not have a checksum.
        encoder.include_checksum(false)?;
        Ok(encoder)
    }

    /// Ends the first frame, and begins the second.
    fn get_help(&mut self) -> io::Result<()> {
        self.encoder.do_finish()?;
        self.encoder = Zstd::frame(std::mem::take(self.encoder.get_mut()))?;
        self.encoder.multithread(std::mem::take(&mut self.helpers))
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").finish_non_exhaustive()
    }
}

impl Codec for Zstd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // This is not done at the flush: until the second frame begins, the stream can be ended there although the first frame is still
        // open.
        if std::mem::take(&mut self.is_busy) {
            self.get_help()?;
        }
        let begin = Instant::now();
        let written = self.encoder.write_all(bytes);
        self.spent += begin.elapsed();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()?;
        let now = Instant::now();
        let spent = std::mem::take(&mut self.spent);
        let since = now.duration_since(std::mem::replace(&mut self.flushed, now));
        self.is_busy = self.helpers > 0 && 2 * spent >= since;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.encoder.do_finish()
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.encoder.get_mut()
    }

    fn ending(&self) -> Vec<u8> {
        EMPTY_LAST_ZSTD_BLOCK.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(packed: &[u8]) -> Vec<u8> {
        zstd::stream::decode_all(packed).expect("a valid stream")
    }

    #[test]
    fn a_small_machine_compresses_on_one_thread_and_a_large_one_on_a_few() {
        assert_eq!([1, 8, 15, 16, 64, 512].map(helpers_for), [0, 0, 0, 2, 8, 8]);
    }

    #[test]
    fn with_help_the_stream_is_the_same_and_can_be_ended_at_each_flush() {
        let mut codec = Zstd::with_helpers(2).expect("a compressor");
        let (mut plain, mut packed) = (Vec::new(), Vec::new());
        for round in 0..6_u32 {
            let piece: Vec<u8> =
                (0..300_000_u32).flat_map(|word| ((word / 7) ^ round).to_le_bytes()).collect();
            codec.write(&piece).expect("memory takes it");
            plain.extend(piece);
            // Regardless of the machine's speed, the thread counts as busy from the third round on.
            codec.spent = if round < 2 { Duration::ZERO } else { Duration::from_secs(3600) };
            codec.flush().expect("memory takes it");
            packed.append(codec.output());
            let ended = [&packed[..], &codec.ending()].concat();
            assert!(unpack(&ended) == plain, "round {round}");
            assert_eq!(codec.helpers == 0, round > 2, "the second frame begins with round 3");
        }
        codec.finish().expect("memory takes it");
        packed.append(codec.output());
        assert!(unpack(&packed) == plain);
    }
}
