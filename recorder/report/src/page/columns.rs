//! Columns of similar numbers, which compress best.
//!
//! A block of the page is a sequence of columns. Each column follows its length in bytes. Numbers are varints: seven bits per byte, the low
//! ones first; the eighth bit means that more bytes follow.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// The number of values of seven bits.
const BASE: u64 = 128;

/// The bit in a byte of a varint that means that more bytes follow.
const MORE: u8 = 0x80;

/// A column that is being written.
#[derive(Debug, Default)]
pub(super) struct Column(Vec<u8>);

impl Column {
    /// Appends a byte unchanged.
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Appends strings separated by zero bytes.
    pub(super) fn texts(&mut self, texts: &[String]) {
        self.0.extend(texts.join("\0").bytes());
    }

    /// Appends eight bytes, the least significant first.
    pub(super) fn double(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn number(&mut self, mut value: u64) {
        while value >= BASE {
            self.0.push(low_bits(value) | MORE);
            value /= BASE;
        }
        self.0.push(low_bits(value));
    }

    /// Appends a number that may be negative: 0, -1, 1, -2 become 0, 1, 2, 3.
    pub(super) fn signed(&mut self, value: i64) {
        let folded = value.unsigned_abs().saturating_mul(2);
        self.number(if value < 0 { folded - 1 } else { folded });
    }
}

/// The lower seven bits, which always fit into a byte.
fn low_bits(value: u64) -> u8 {
    u8::try_from(value % BASE).unwrap_or_default()
}

/// The compression level, of 9: with the default of 6, a page of nine million events took twice the time and was 2.5 % smaller.
const LEVEL: u32 = 3;

/// The columns one after another, each after its length, compressed with deflate.
///
/// # Errors
///
/// The errors of the compressor, which does not fail for output in memory.
pub(super) fn pack(columns: &[Column]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    for column in columns {
        let mut length = Column::default();
        length.number(column.0.len() as u64);
        encoder.write_all(&length.0)?;
        encoder.write_all(&column.0)?;
    }
    encoder.finish()
}

/// Decompresses the output of [`pack`].
///
/// # Errors
///
/// Returns an error when the bytes are not the output of `pack`.
pub(super) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a column, or several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Reads unpacked bytes from their start.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The whole next column.
    pub(super) fn column(&mut self) -> Option<Cursor<'a>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (column, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Cursor(column))
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (mut value, mut unit) = (0_u64, 1_u64);
        loop {
            let byte = self.byte()?;
            let part = u64::from(byte) % BASE;
            value = value.checked_add(part.checked_mul(unit)?)?;
            if byte < MORE {
                return Some(value);
            }
            unit = unit.checked_mul(BASE)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let values = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        let mut column = Column::default();
        for value in values {
            column.number(value);
        }
        let bytes = unpack(&pack(&[column]).unwrap()).unwrap();
        let mut column = Cursor::new(&bytes).column().unwrap();
        assert_eq!(values.map(|_| column.number()), values.map(Some));
        assert_eq!(column.byte(), None);
    }

    #[test]
    fn negative_numbers_take_as_little_room_as_positive_ones() {
        let mut column = Column::default();
        for value in [0, -1, 1, -2, -64, 63] {
            column.signed(value);
        }
        assert_eq!(column.0, [0, 1, 2, 3, 127, 126]);
    }

    #[test]
    fn a_cut_off_column_is_none_rather_than_a_wrong_number() {
        assert_eq!(Cursor::new(&[0x80]).number(), None);
        assert_eq!(Cursor::new(&[2, 1]).column().map(|_| ()), None);
        assert_eq!(Cursor::new(&[0xff; 11]).number(), None);
    }
}
