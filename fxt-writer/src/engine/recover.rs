//! Recovers the records in the memory of an engine that did not finish: a mapping left by a killed process, or a dump of such memory.
//!
//! The header contains the layout. Durable records come first, from the end of the
//! saved ones to the end of the committed ones. Then come the rolling buffers,
//! the older one first; their first words lead from record to record. A claimed record was never finished and is skipped; words that are
//! zero were never written.

use std::ops::Range;

use super::config::HEADER_WORDS;
use super::header::Header;
use super::position::part_of;
use super::walk::finished_records;
use crate::layout::limits::WORD_BYTES;

/// The reason why memory cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// It does not begin with the header of an engine of this version.
    #[error("this is not the memory of a trace engine of this version")]
    NoHeader,
    /// The sizes in the header do not fit the memory.
    #[error("the sizes in the trace engine's header do not match its memory")]
    Sizes,
}

/// The recovered records, as words, in the order in which to save them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Durable records that had not been saved.
    pub durable: Vec<u64>,
    /// Finished rolling records, older ones first.
    pub rolling: Vec<u64>,
    /// The minimum number of records that were reserved but never finished.
    pub unfinished: u64,
    /// Records that the engine dropped.
    pub dropped: u64,
}

/// Finds all finished records in a copy of an engine's memory.
///
/// # Errors
///
/// Returns an error when the memory is not that of an engine. Damage after the header loses the records from the damaged word to the end of
/// the buffer, because they cannot be distinguished from unused space.
pub fn recover(memory: &[u64]) -> Result<Recovered, RecoverError> {
    let first = memory.first_chunk::<HEADER_WORDS>().ok_or(RecoverError::NoHeader)?;
    let header = Header::read(first).ok_or(RecoverError::NoHeader)?;
    let parts = Parts::new(&header, memory).ok_or(RecoverError::Sizes)?;
    let durable = parts.durable(&header).ok_or(RecoverError::Sizes)?;
    let mut rolling = Vec::new();
    let mut unfinished = 0;
    for wrapped in [header.wrapped_count.wrapping_sub(1), header.wrapped_count] {
        let part = part_of(wrapped);
        let words = parts.rolling[part];
        let span = data_span(&header, part, words.len()).ok_or(RecoverError::Sizes)?;
        let take = |_, record: &[u64]| rolling.extend_from_slice(record);
        unfinished += finished_records(&words[span], take).unfinished;
    }
    Ok(Recovered { durable, rolling, unfinished, dropped: header.dropped })
}

struct Parts<'a> {
    durable: &'a [u64],
    rolling: [&'a [u64]; 2],
}

impl<'a> Parts<'a> {
    fn new(header: &Header, memory: &'a [u64]) -> Option<Self> {
        let (durable, rest) =
            memory.get(HEADER_WORDS..)?.split_at_checked(words(header.durable_bytes)?)?;
        let (first, rest) = rest.split_at_checked(words(header.rolling_bytes)?)?;
        // Oneshot mode has no second buffer.
        let second = rest.get(..first.len()).unwrap_or_default();
        Some(Self { durable, rolling: [first, second] })
    }

    /// The durable records that were not saved, joined if they wrap around the
    /// ring's end.
    fn durable(&self, header: &Header) -> Option<Vec<u64>> {
        let count = words(header.durable_end.checked_sub(header.durable_saved)?)?;
        if count > self.durable.len() {
            return None;
        }
        let begin = words(header.durable_saved)?;
        let ring = self.durable.iter().copied().cycle();
        Some(ring.skip(begin.checked_rem(self.durable.len()).unwrap_or(0)).take(count).collect())
    }
}

/// The span of a rolling buffer's data: to the end in the header, or to the
/// buffer's end if it was open.
fn data_span(header: &Header, part: usize, len: usize) -> Option<Range<usize>> {
    let start = words(header.rolling_start[part])?;
    let end = match words(header.rolling_end[part])? {
        0 => len,
        end => end,
    };
    (start <= end && end <= len).then_some(start..end)
}

fn words(bytes: u64) -> Option<usize> {
    usize::try_from(bytes / WORD_BYTES as u64).ok()
}
