//! The layout of a record, which is determined by its event.
//!
//! ```text
//!   sample   | identifier | ip | pid, tid | time | addr | id | stream | cpu | period | read | calls | raw | ...
//!   others   | what the type says ......... | pid, tid | time | id | stream | cpu | identifier |
//! ```
//!
//! Each part is only present if its bit is set in the event's `sample_type`; the trailer of other records is only present if
//! `sample_id_all` is set.

use perf_event_open_sys::bindings as b;
use rustc_hash::FxHashMap;

use super::error::PerfDataError;
use crate::import::bytes::Bytes;
use crate::import::error::ImportError;

pub(super) const SAMPLE: u32 = b::PERF_RECORD_SAMPLE;

/// Records with types from here on are perf's own, not the kernel's.
pub(super) const FIRST_OF_PERF: u32 = 64;

const IDENTIFIER: u64 = b::PERF_SAMPLE_IDENTIFIER as u64;
const IP: u64 = b::PERF_SAMPLE_IP as u64;
const TID: u64 = b::PERF_SAMPLE_TID as u64;
const TIME: u64 = b::PERF_SAMPLE_TIME as u64;
const ADDR: u64 = b::PERF_SAMPLE_ADDR as u64;
const ID: u64 = b::PERF_SAMPLE_ID as u64;
const STREAM_ID: u64 = b::PERF_SAMPLE_STREAM_ID as u64;
const CPU: u64 = b::PERF_SAMPLE_CPU as u64;
const PERIOD: u64 = b::PERF_SAMPLE_PERIOD as u64;
const READ: u64 = b::PERF_SAMPLE_READ as u64;
const CALLCHAIN: u64 = b::PERF_SAMPLE_CALLCHAIN as u64;
const RAW: u64 = b::PERF_SAMPLE_RAW as u64;

/// The parts of a trailer, in order.
const TRAILER: u64 = TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER;

/// Bit of `perf_event_attr`'s flags: records other than samples have a trailer.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// The size of `perf_event_attr` up to the last field that is needed here, and of its first version with a `size`.
const FLAGS_END: usize = 48;

/// Files with more distinct layouts are rejected: a recording has a handful.
const MOST_LAYOUTS: usize = 256;

/// Files with more event ids are rejected: each is a file descriptor that perf had open.
const MOST_IDS: usize = 1 << 21;

/// The size of the parts in `parts` that are present; each has eight bytes.
fn bytes_of(sample_type: u64, parts: u64) -> usize {
    (sample_type & parts).count_ones() as usize * 8
}

/// The layout of an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    sample_type: u64,
    read_format: u64,
    has_trailer: bool,
}

/// The common fields of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) time: Option<u64>,
    pub(super) cpu: Option<u32>,
}

impl Layout {
    /// Reads the layout from a `perf_event_attr`, which may be longer than the known version.
    pub(super) fn of_attribute(attribute: &[u8]) -> Result<Layout, ImportError> {
        let mut bytes = Bytes::new("the description of an event", attribute);
        let _kind_size_config_period = bytes.take(24)?;
        let (sample_type, read_format) = (bytes.u64()?, bytes.u64()?);
        let has_trailer = bytes.u64()? & SAMPLE_ID_ALL != 0;
        Ok(Layout { sample_type, read_format, has_trailer })
    }

    fn has(&self, part: u64) -> bool {
        self.sample_type & part != 0
    }

    /// The position of the event's id: in samples from the beginning, in other records from the end.
    fn id_places(&self) -> (Option<usize>, Option<usize>) {
        let (identifier, id) = (self.has(IDENTIFIER), self.has(ID));
        let before = bytes_of(self.sample_type, IP | TID | TIME | ADDR);
        let behind = bytes_of(self.sample_type, ID | STREAM_ID | CPU);
        let place = |at_identifier, at_id| match (identifier, id) {
            (true, _) => Some(at_identifier),
            (false, true) => Some(at_id),
            (false, false) => None,
        };
        (place(0, before), place(8, behind).filter(|_| self.has_trailer))
    }

    /// The common fields of a kernel record.
    pub(super) fn common(&self, kind: u32, body: &[u8]) -> Result<Common, ImportError> {
        if kind == SAMPLE {
            return self.sample_head(&mut Bytes::new("the samples", body));
        }
        if !self.has_trailer {
            return Ok(Common::default());
        }
        let start = body.len().checked_sub(bytes_of(self.sample_type, TRAILER));
        let part = "the trailers of records";
        let start = start.ok_or(ImportError::Short { part, at: body.len() })?;
        let mut bytes = Bytes::new(part, body.get(start..).unwrap_or_default());
        let mut common = Common::default();
        if self.has(TID) {
            (common.pid, common.tid) = (Some(bytes.u32()?), Some(bytes.u32()?));
        }
        if self.has(TIME) {
            common.time = Some(bytes.u64()?);
        }
        bytes.take(bytes_of(self.sample_type, ID | STREAM_ID) as u64)?;
        if self.has(CPU) {
            common.cpu = Some(bytes.u32()?);
        }
        Ok(common)
    }

    fn sample_head(&self, bytes: &mut Bytes<'_>) -> Result<Common, ImportError> {
        let mut common = Common::default();
        bytes.take(bytes_of(self.sample_type, IDENTIFIER | IP) as u64)?;
        if self.has(TID) {
            (common.pid, common.tid) = (Some(bytes.u32()?), Some(bytes.u32()?));
        }
        if self.has(TIME) {
            common.time = Some(bytes.u64()?);
        }
        bytes.take(bytes_of(self.sample_type, ADDR | ID | STREAM_ID) as u64)?;
        if self.has(CPU) {
            common.cpu = Some(bytes.u32()?);
            let _reserved = bytes.u32()?;
        }
        Ok(common)
    }

    /// The tracepoint's raw data in a sample, if it has any.
    pub(super) fn raw<'a>(&self, body: &'a [u8]) -> Result<Option<&'a [u8]>, ImportError> {
        if !self.has(RAW) {
            return Ok(None);
        }
        let mut bytes = Bytes::new("the samples", body);
        self.sample_head(&mut bytes)?;
        bytes.take(bytes_of(self.sample_type, PERIOD) as u64)?;
        if self.has(READ) {
            self.skip_read(&mut bytes)?;
        }
        if self.has(CALLCHAIN) {
            let calls = bytes.u64()?;
            bytes.take(calls.saturating_mul(8))?;
        }
        let len = bytes.u32()?;
        bytes.take(u64::from(len)).map(Some)
    }

    /// Skips the counter values of a sample, which are in the format of read(2).
    fn skip_read(&self, bytes: &mut Bytes<'_>) -> Result<(), ImportError> {
        let has = |part: u32| u64::from(self.read_format & u64::from(part) != 0);
        let times = has(b::PERF_FORMAT_TOTAL_TIME_ENABLED) + has(b::PERF_FORMAT_TOTAL_TIME_RUNNING);
        // For each counter its value, its id and its number of lost samples.
        let words = 1 + has(b::PERF_FORMAT_ID) + has(b::PERF_FORMAT_LOST);
        let counters = match has(b::PERF_FORMAT_GROUP) {
            0 => 1,
            _ => bytes.u64()?,
        };
        let words = counters.saturating_mul(words).saturating_add(times);
        bytes.take(words.saturating_mul(8)).map(drop)
    }
}

/// The layouts of all events of a file.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    layouts: Vec<Layout>,
    /// The index of each event's layout, by the event's id.
    by_id: FxHashMap<u64, usize>,
    /// The number of ids so far, including duplicates.
    ids: usize,
}

impl Layouts {
    /// Adds an event: its attribute, and the ids of its records, as bytes.
    pub(super) fn add(&mut self, attribute: &[u8], ids: &[u8]) -> Result<(), ImportError> {
        if attribute.len() < FLAGS_END {
            return Err(PerfDataError::EventBytes(attribute.len() as u64).into());
        }
        let layout = Layout::of_attribute(attribute)?;
        let known = self.layouts.iter().position(|known| *known == layout);
        let index = known.unwrap_or(self.layouts.len());
        if known.is_none() {
            self.layouts.push(layout);
        }
        self.ids += ids.len() / 8;
        if self.layouts.len() > MOST_LAYOUTS || self.ids > MOST_IDS {
            return Err(PerfDataError::TooManyEvents.into());
        }
        let ids = ids.chunks_exact(8).filter_map(|id| id.first_chunk().copied());
        self.by_id.extend(ids.map(|id| (u64::from_ne_bytes(id), index)));
        Ok(())
    }

    /// The layout of a kernel record.
    pub(super) fn of_record(&self, kind: u32, body: &[u8]) -> Result<Layout, ImportError> {
        let (first, others) = self.layouts.split_first().ok_or(PerfDataError::NoEvents)?;
        if others.is_empty() {
            return Ok(*first);
        }
        // The layout can only be determined if the event's id is at the same position in all of them.
        let places = first.id_places();
        if others.iter().any(|other| other.id_places() != places) {
            return Err(PerfDataError::NoIdentifier.into());
        }
        let place = match kind {
            SAMPLE => places.0,
            _ => places.1.and_then(|from_end| body.len().checked_sub(from_end)),
        };
        let id = place.and_then(|place| body.get(place..)).and_then(|bytes| bytes.first_chunk());
        let known = id.and_then(|id| self.by_id.get(&u64::from_ne_bytes(*id)));
        // Records that perf itself generated about the state before the recording have no id, and the layout of the first event.
        Ok(known.and_then(|index| self.layouts.get(*index)).copied().unwrap_or(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(sample_type: u64, read_format: u64, flags: u64) -> Vec<u8> {
        let words = [0, 0, 0, sample_type, read_format, flags];
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn layout(sample_type: u64, read_format: u64) -> Layout {
        Layout::of_attribute(&attribute(sample_type, read_format, SAMPLE_ID_ALL)).expect("whole")
    }

    #[test]
    fn a_sample_has_its_raw_bytes_behind_counters_and_calls() {
        let group = u64::from(b::PERF_FORMAT_GROUP | b::PERF_FORMAT_ID);
        let all = IP | TID | TIME | CPU | PERIOD | READ | CALLCHAIN | RAW;
        let mut body = words(&[1, 7 << 32 | 6, 99, 3, 1, 2, 10, 11, 20, 21, 1, 0xffff]);
        body.extend(4u32.to_ne_bytes());
        body.extend(b"raw!");
        let layout = layout(all, group);
        let common = layout.common(SAMPLE, &body).expect("a sample");
        let expected = Common { pid: Some(6), tid: Some(7), time: Some(99), cpu: Some(3) };
        if cfg!(target_endian = "little") {
            assert_eq!(common, expected);
        }
        assert_eq!(layout.raw(&body).expect("a sample"), Some(&b"raw!"[..]));
        for len in 0..body.len() {
            layout.raw(&body[..len]).expect_err("it is cut");
        }
        // A single counter is not preceded by a count.
        let single = layout_of_single();
        let body = [words(&[5, 6, 0]), vec![2, 0, 0, 0, 8, 9]].concat();
        assert_eq!(single.raw(&body).expect("a sample"), Some(&[8, 9][..]));
    }

    fn layout_of_single() -> Layout {
        layout(READ | CALLCHAIN | RAW, u64::from(b::PERF_FORMAT_ID))
    }

    #[test]
    fn counts_that_no_record_has_room_for_are_refused() {
        for count in [u64::MAX, u64::MAX / 8 + 1, 1 << 61, 1 << 40] {
            let body = words(&[count, 0, 0]);
            layout(CALLCHAIN | RAW, 0).raw(&body).expect_err("no room");
            layout(READ | RAW, b::PERF_FORMAT_GROUP.into()).raw(&body).expect_err("no room");
        }
    }

    #[test]
    fn the_trailer_is_read_from_the_end() {
        let body = words(&[42, 42, 42, 99, 5, 3, 8]);
        let layout = layout(TIME | ID | CPU | IDENTIFIER, 0);
        let common = layout.common(b::PERF_RECORD_COMM, &body).expect("whole");
        assert_eq!(common.time, Some(99));
        if cfg!(target_endian = "little") {
            assert_eq!(common.cpu, Some(3));
        }
        layout.common(b::PERF_RECORD_COMM, &body[..24]).expect_err("the trailer has 32 bytes");
    }

    #[test]
    fn different_layouts_are_reported_by_the_events_number() {
        let mut layouts = Layouts::default();
        let error = layouts.of_record(SAMPLE, &[]).expect_err("no event");
        assert!(error.to_string().contains("does not describe its events"), "{error}");
        layouts.add(&attribute(IDENTIFIER | TIME, 0, 0), &words(&[1])).expect("an event");
        layouts.add(&attribute(IDENTIFIER | RAW, 0, 0), &words(&[2, 3])).expect("an event");
        let reported = |id: u64| layouts.of_record(SAMPLE, &words(&[id])).expect("it is known");
        assert!(reported(1).has(TIME) && reported(2).has(RAW) && reported(3).has(RAW));
        assert!(reported(4).has(TIME), "the first for want of a better");
        layouts.add(&attribute(TID, 0, 0), &[]).expect("an event");
        let error = layouts.of_record(SAMPLE, &words(&[1])).expect_err("no number in the third");
        assert!(error.to_string().contains("identify their event"), "{error}");
        layouts.add(&attribute(TID, 0, 0)[..40], &[]).expect_err("too short");
    }
}
