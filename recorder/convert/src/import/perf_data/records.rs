//! The records of a perf.data one by one: decompressed, and in order of time.
//!
//! ```text
//!   file, pipe --> record's head, body --+--> packed: unpack --> heads, bodies --+--> rounds --> in order
//!                                        +---------------------------------------+
//!                                        +--> descriptions of events and features, taken in at once
//! ```
//!
//! A length in the file is trusted only when that many bytes are present, and memory is limited: a compressed record is decompressed in
//! pieces, and a round that is too large is sorted in parts.

use std::io::{self, Read};

use zstd::stream::raw::{Decoder, Operation};

use super::error::PerfDataError;
use super::frames::Frames;
use super::head::{Features, MOST_DESCRIBED};
use super::layout::{Common, FIRST_OF_PERF, Layout, Layouts};
use super::rounds::{Rounds, Timed};
use crate::ConvertError;
use crate::import::bytes::Bytes;
use crate::import::error::ImportError;

/// The size of a record's header: type, miscellaneous bits, size.
const HEAD_BYTES: usize = 8;

/// Bytes to decompress at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// The maximum size of the records that wait to be sorted, in bytes.
const MOST_WAITING: usize = 256 << 20;

// Records of perf's own.
const EVENT: u32 = FIRST_OF_PERF;
const TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// A record from the kernel.
#[derive(Debug)]
pub(super) struct PerfRecord {
    pub(super) kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub(super) misc: u16,
    pub(super) common: Common,
    pub(super) layout: Layout,
    pub(super) body: Box<[u8]>,
}

impl Timed for PerfRecord {
    fn time(&self) -> Option<u64> {
        self.common.time
    }

    fn bytes(&self) -> usize {
        size_of::<PerfRecord>() + self.body.len()
    }
}

/// The head of a record.
#[derive(Clone, Copy, Debug)]
struct RecordHead {
    kind: u32,
    misc: u16,
    /// The size of the whole record.
    bytes: u16,
}

impl RecordHead {
    fn parse(bytes: &[u8]) -> Result<RecordHead, ImportError> {
        let mut bytes = Bytes::new("the records", bytes);
        Ok(RecordHead { kind: bytes.u32()?, misc: bytes.u16()?, bytes: bytes.u16()? })
    }

    /// The number of bytes after the header.
    fn body(self, at: u64) -> Result<usize, ImportError> {
        let body = usize::from(self.bytes).checked_sub(HEAD_BYTES);
        body.ok_or_else(|| self.too_small(at))
    }

    fn too_small(self, at: u64) -> ImportError {
        PerfDataError::Record { kind: self.kind, at, bytes: self.bytes.into() }.into()
    }
}

/// Records that are being decompressed.
struct Packed {
    decoder: Decoder<'static>,
    /// The compressed data; from `taken` on it is not decompressed yet.
    packed: Vec<u8>,
    taken: usize,
    /// Whether the decoder may hold output back because of a full buffer.
    may_hold: bool,
    /// Decompressed data that is not a whole record yet.
    plain: Vec<u8>,
}

impl Packed {
    fn new() -> io::Result<Packed> {
        let (packed, plain) = (Vec::new(), Vec::new());
        Ok(Packed { decoder: Decoder::new()?, packed, taken: 0, may_hold: false, plain })
    }

    /// Decompresses one more piece; false if there is none.
    fn unpack(&mut self) -> io::Result<bool> {
        let packed = self.packed.get(self.taken..).unwrap_or_default();
        if packed.is_empty() && !self.may_hold {
            return Ok(false);
        }
        let filled = self.plain.len();
        self.plain.resize(filled + PIECE_BYTES, 0);
        let room = self.plain.get_mut(filled..).unwrap_or_default();
        let done = self.decoder.run_on_buffers(packed, room);
        let written = done.as_ref().map_or(0, |done| done.bytes_written);
        self.plain.truncate(filled + written);
        let done = done?;
        self.taken += done.bytes_read;
        self.may_hold = written == PIECE_BYTES;
        // After a complete frame, the decoder waits for the next one, even if there is none.
        let moved = done.bytes_read > 0 || written > 0;
        if !moved && self.taken < self.packed.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the compressed data ends early",
            ));
        }
        Ok(moved)
    }
}

/// The records of a file or a pipe.
pub(super) struct Records<R> {
    input: R,
    /// The total number of bytes; `None` for a pipe.
    len: Option<u64>,
    /// The number of bytes read.
    at: u64,
    ended: bool,
    layouts: Layouts,
    pub(super) features: Features,
    packed: Option<Box<Packed>>,
    frames: Frames,
    /// Whether a compressed record had a wrong size.
    wrong_sizes: bool,
    rounds: Rounds<PerfRecord>,
}

impl<R: Read> Records<R> {
    pub(super) fn new(input: R, len: Option<u64>, layouts: Layouts, features: Features) -> Self {
        let rounds = Rounds::new(MOST_WAITING);
        let (packed, frames, wrong_sizes) = (None, Frames::default(), false);
        let (at, ended) = (0, false);
        Records { input, len, at, ended, layouts, features, packed, frames, wrong_sizes, rounds }
    }

    /// The number of rounds that were too large to be sorted as a whole.
    pub(super) fn split_rounds(&self) -> u64 {
        self.rounds.split
    }

    /// The next record in order; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<PerfRecord>, ConvertError> {
        loop {
            if let Some(record) = self.rounds.next() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.next_packed()? && !self.next_plain()? {
                self.ended = true;
                self.rounds.end();
            }
        }
    }

    /// Takes that many bytes; `None` at the end of a pipe.
    fn take(&mut self, bytes: u64) -> Result<Option<Vec<u8>>, ConvertError> {
        let left = self.len.map_or(u64::MAX, |len| len.saturating_sub(self.at));
        let mut taken = Vec::new();
        let limit = bytes.min(left);
        (&mut self.input).take(limit).read_to_end(&mut taken).map_err(ConvertError::Read)?;
        self.at += taken.len() as u64;
        match (taken.len() as u64 == bytes, self.len) {
            (true, _) => Ok(Some(taken)),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(ImportError::from(PerfDataError::Records(self.at)).into()),
        }
    }

    /// Skips that many bytes; false at the end of a pipe.
    fn pass(&mut self, bytes: u64) -> Result<bool, ConvertError> {
        let left = self.len.map_or(u64::MAX, |len| len.saturating_sub(self.at));
        let mut passed = (&mut self.input).take(bytes.min(left));
        let passed = io::copy(&mut passed, &mut io::sink()).map_err(ConvertError::Read)?;
        self.at += passed;
        match (passed == bytes, self.len) {
            (false, Some(_)) => Err(ImportError::from(PerfDataError::Records(self.at)).into()),
            (whole, _) => Ok(whole),
        }
    }

    /// Takes the next record out of compressed data; false if there is none.
    fn next_packed(&mut self) -> Result<bool, ConvertError> {
        let Some(packed) = &mut self.packed else { return Ok(false) };
        let wrong_sizes = self.wrong_sizes;
        let unpack = |packed: &mut Packed| {
            let part = "the compressed records";
            packed.unpack().map_err(|source| match wrong_sizes {
                true => ImportError::WrongSizes(source),
                false => ImportError::Unpack { part, source },
            })
        };
        loop {
            if packed.plain.len() >= HEAD_BYTES {
                let head = RecordHead::parse(&packed.plain)?;
                let end = HEAD_BYTES + head.body(self.at)?;
                if let Some(body) = packed.plain.get(HEAD_BYTES..end) {
                    let body = body.to_vec();
                    packed.plain.drain(..end);
                    self.record(head, body)?;
                    return Ok(true);
                }
            }
            if !unpack(packed)? {
                return Ok(false);
            }
        }
    }

    /// Reads the next uncompressed record; false at the end.
    fn next_plain(&mut self) -> Result<bool, ConvertError> {
        if self.len.is_some_and(|len| self.at >= len) {
            return Ok(false);
        }
        let at = self.at;
        let Some(head) = self.take(HEAD_BYTES as u64)? else { return Ok(false) };
        let head = RecordHead::parse(&head)?;
        let Some(body) = self.take(head.body(at)? as u64)? else { return Ok(false) };
        let mut bytes = Bytes::new("the records", &body);
        match head.kind {
            TRACING_DATA => {
                let size = u64::from(bytes.u32()?);
                if size > MOST_DESCRIBED {
                    return Err(ImportError::from(PerfDataError::Described(size)).into());
                }
                let described = self.take(size.next_multiple_of(8))?;
                let is_whole = described.is_some();
                self.features.described = described.or(self.features.described.take());
                Ok(is_whole)
            }
            AUXTRACE => {
                let size = bytes.u64()?;
                self.pass(size)
            }
            COMPRESSED => self.packed_record(body, 0, None),
            COMPRESSED2 => {
                let size = bytes.u64()?;
                let stated = usize::try_from(size).ok();
                let stated = stated.filter(|len| (1..=bytes.rest().len()).contains(len));
                let len = match stated {
                    Some(len) => {
                        self.frames.pass(bytes.rest().get(..len).unwrap_or_default(), false)
                    }
                    // perf 6.16 gives the first of several records the size of all of them, and the others 0.
                    None => self.frames.pass(bytes.rest(), true),
                };
                self.wrong_sizes |= stated.is_none();
                self.packed_record(body, 8, Some(len))
            }
            _ => {
                self.record(head, body)?;
                Ok(true)
            }
        }
    }

    /// Takes a compressed record; its compressed data is `len` bytes long and begins at `start`.
    fn packed_record(
        &mut self,
        mut body: Vec<u8>,
        start: usize,
        len: Option<usize>,
    ) -> Result<bool, ConvertError> {
        body.truncate(len.map_or(body.len(), |len| start + len));
        if self.packed.is_none() {
            self.packed = Some(Box::new(Packed::new().map_err(ConvertError::Read)?));
        }
        if let Some(packed) = &mut self.packed {
            (packed.packed, packed.taken) = (body, start);
        }
        Ok(true)
    }

    /// Takes an uncompressed or decompressed record.
    fn record(&mut self, head: RecordHead, body: Vec<u8>) -> Result<(), ConvertError> {
        match head.kind {
            FINISHED_ROUND => self.rounds.end_round(),
            EVENT => {
                // The attribute has its own length; the event's ids follow it.
                let mut size = Bytes::new("the description of an event", &body);
                size.take(4)?;
                let attribute_bytes = u64::from(size.u32()?);
                let mut bytes = Bytes::new("the description of an event", &body);
                let attribute = bytes.take(attribute_bytes)?;
                self.layouts.add(attribute, bytes.rest())?;
            }
            FEATURE => {
                let mut bytes = Bytes::new("a feature", &body);
                let number = bytes.u64()?;
                self.features.take_over(number, bytes.rest());
            }
            kind if kind >= FIRST_OF_PERF => {}
            kind => {
                let layout = self.layouts.of_record(kind, &body)?;
                let common = layout.common(kind, &body)?;
                let body = body.into_boxed_slice();
                self.rounds.add(PerfRecord { kind, misc: head.misc, common, layout, body });
            }
        }
        Ok(())
    }
}
