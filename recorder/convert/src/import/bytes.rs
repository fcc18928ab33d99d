//! Reads a file's bytes from front to back.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::error::ImportError;
use crate::ConvertError;

/// The rest of some part of a file. Numbers are in this machine's byte order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    whole: usize,
    /// The name of the part, for errors about its end.
    part: &'static str,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(part: &'static str, bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes, whole: bytes.len(), part }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn short(&self) -> ImportError {
        ImportError::Short { part: self.part, at: self.whole - self.rest.len() }
    }

    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8], ImportError> {
        let len = usize::try_from(len).map_err(|_| self.short())?;
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ImportError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ImportError> {
        self.array().map(u8::from_ne_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ImportError> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ImportError> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ImportError> {
        self.array().map(u64::from_ne_bytes)
    }

    /// The text up to the next NUL, which is consumed too.
    pub(super) fn text(&mut self) -> Result<String, ImportError> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.short())?;
        let text = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// A string after its length.
    pub(super) fn sized_text(&mut self) -> Result<String, ImportError> {
        let len = self.u64()?;
        self.take(len).map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

/// A piece of a file in memory.
#[derive(Debug)]
pub(super) struct Window(pub(super) Vec<u8>);

impl Window {
    /// Up to `bytes` bytes from `offset` on; fewer at the end of the file.
    pub(super) fn of(file: &File, offset: u64, bytes: u64) -> Result<Window, ConvertError> {
        let len = file.metadata().map_err(ConvertError::Read)?.len();
        let bytes = len.saturating_sub(offset).min(bytes);
        let mut window = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut window, offset).map_err(ConvertError::Read)?;
        Ok(Window(window))
    }

    pub(super) fn bytes(&self, part: &'static str) -> Bytes<'_> {
        Bytes::new(part, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_ends_too_early_is_reported_with_the_place() {
        let mut bytes = Bytes::new("the names", b"ab\0\x07\0\0\0");
        assert_eq!(bytes.text().expect("a text"), "ab");
        let error = bytes.u64().expect_err("four bytes are left");
        assert_eq!(error.to_string(), "the names: truncated at byte 3");
        assert_eq!(bytes.u32().expect("they are still there"), 7u32.to_le());
        assert!(bytes.is_empty());
        assert!(bytes.take(u64::MAX).is_err());
    }
}
