//! Getting the records out of an engine's memory that nobody finished: a mapping
//! left by a process that was killed, or a dump of one.
//!
//! The header tells what is where. What is durable comes first, from what was
//! saved to what was committed. Then come the rolling buffers, the older one
//! first; in each, records are stepped over by their first words. A claimed one
//! was never finished and is left out, and where the words are zero nothing was
//! written.

use std::ops::Range;

use super::config::HEADER_WORDS;
use super::header::Header;
use super::position::part_of;
use super::walk::finished_records;
use crate::layout::limits::WORD_BYTES;

/// Why a memory cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// It does not begin with the header of an engine of this version.
    #[error("this is not the memory of a trace engine, or of one of another version")]
    NoHeader,
    /// The header tells sizes that do not fit the memory.
    #[error("the trace engine's header tells sizes that its memory does not have")]
    Sizes,
}

/// What was found, as words in the order in which to save them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Durable records that had not been saved.
    pub durable: Vec<u64>,
    /// Finished rolling records, older ones first.
    pub rolling: Vec<u64>,
    /// Records that were reserved and never finished, at least.
    pub unfinished: u64,
    /// Records that the engine itself had dropped.
    pub dropped: u64,
}

/// Finds all finished records in a copy of an engine's memory.
///
/// # Errors
///
/// When it is not an engine's memory. Damage beyond that costs the records from
/// there to the end of their buffer, which are then not told from room that was
/// never used.
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

    /// The durable records that were not saved, put together where they run over
    /// the ring's end.
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

/// Where the data of a rolling buffer is: to the end that the header tells, or
/// to the buffer's end while it was open.
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
