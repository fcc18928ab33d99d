//! Compressors that know at each flush how to end the stream there.
//!
//! When the disk is full, the file is cut back to the last flush and ended with
//! a few bytes that fit into what was freed. It is then a valid file, only a
//! shorter one: tools that refuse a truncated stream still open it.

use std::fmt;
use std::io::{self, Write};

use flate2::Crc;
use flate2::write::DeflateEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

/// On scheduling records, 142 MB/s and a fifth of the size on a 2-CPU virtual machine; level 3 is
/// half as fast for a sixth of the size, and nothing above it gains more.
const GZIP_LEVEL: u32 = 2;

/// On the same records, 262 MB/s and a sixth of the size, which zstd's default of 3 does not reach:
/// long matches are rare in them, and looking for them costs more than it gives.
const ZSTD_LEVEL: i32 = 1;

/// How far back it looks, as a power of two, in bytes: a quarter of what the level has. What is compressed and what it is compared with stay
/// in the cache next to a core, which takes a fifth less time for 1 % more bytes (`docs/bench/capture.md`).
const ZSTD_WINDOW_LOG: u32 = 17;

/// A compressor that writes to memory.
pub(super) trait Codec: Send + fmt::Debug {
    /// Compresses more. Part of it may stay inside until the next flush.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Puts out whatever is still inside, so that all of it can be unpacked.
    fn flush(&mut self) -> io::Result<()>;

    fn finish(&mut self) -> io::Result<()>;

    /// The output since it was last emptied.
    fn output(&mut self) -> &mut Vec<u8>;

    /// The bytes that end the stream right after the last flush.
    fn ending(&self) -> Vec<u8>;
}

/// One gzip member (RFC 1952).
///
/// Made by hand around a deflate stream, since the checksum must be known in the middle.
pub(super) struct Gzip {
    deflate: DeflateEncoder<Vec<u8>>,
    checksum: Crc,
}

/// Magic number, deflate, no flags, no time, nothing about the compressor, Unix.
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

/// One zstd frame (RFC 8878) without a checksum.
pub(super) struct Zstd(ZstdEncoder<'static, Vec<u8>>);

/// A last block of zstd without content: raw, size 0 (RFC 8878, 3.1.1.2).
const EMPTY_LAST_ZSTD_BLOCK: [u8; 3] = [0x01, 0x00, 0x00];

impl Zstd {
    pub(super) fn new() -> io::Result<Zstd> {
        let mut encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?;
        encoder.window_log(ZSTD_WINDOW_LOG)?;
        // A frame that ends in the middle could not have one.
        encoder.include_checksum(false)?;
        Ok(Zstd(encoder))
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").finish_non_exhaustive()
    }
}

impl Codec for Zstd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.do_finish()
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.0.get_mut()
    }

    fn ending(&self) -> Vec<u8> {
        EMPTY_LAST_ZSTD_BLOCK.to_vec()
    }
}
