//! Splits a stream into whole records, so that other records can be inserted between them.
//!
//! The kernel's recorder writes a complete archive. In the session's archive, its records belong to provider 1, which the head of the
//! session has already introduced, so its magic number and provider info are left out.

use fxt_format::limits::WORD_BYTES;
use fxt_format::metadata::{self, MAGIC_WORD, provider_info};
use fxt_format::walk::record_words;
use fxt_format::{event, header, record_type, string};
use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection, Record};

use fxtrec_units::convention::PROVIDER;

/// The largest record of the kernel's recorder, in words; a larger size is invalid.
const MOST_WORDS: usize = 1 << 20;

/// The clock's ticks per second: they are nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// The records that each archive begins with: provider 1 is fxtrec, and times are nanoseconds.
pub(super) fn head() -> Vec<u8> {
    let mut head = Vec::new();
    let written = Magic
        .write(&mut head)
        .and_then(|()| ProviderInfo { id: PROVIDER, name: "fxtrec" }.write(&mut head))
        .and_then(|()| ProviderSection { id: PROVIDER }.write(&mut head))
        .and_then(|()| Initialization { ticks_per_second: TICKS_PER_SECOND }.write(&mut head));
    debug_assert!(written.is_ok(), "{written:?}");
    head
}

/// The category of the scheduler's events, such as a thread's move to another run queue.
const SCHED: &[u8] = b"sched";

/// The input is not a stream of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's recorder wrote an invalid trace: no record begins with {0:#018x}")]
pub(super) struct NoRecord(u64);

/// Splits a stream that arrives in portions of any size.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The beginning of a record whose end has not arrived.
    rest: Vec<u8>,
    /// Whether scheduling records are requested, and events of the scheduler.
    scheduling: bool,
    /// The string reference of the scheduler's category; 0, the empty string, before it is defined.
    sched: u64,
}

impl Splitter {
    /// Begins with the first byte of an archive.
    pub(super) fn new(scheduling: bool) -> Splitter {
        Splitter { rest: Vec::new(), scheduling, sched: 0 }
    }

    /// The complete records in these bytes.
    ///
    /// # Errors
    /// Fails when a word at which a record should begin is not a valid header.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, NoRecord> {
        self.rest.extend_from_slice(bytes);
        let mut whole = Vec::with_capacity(self.rest.len());
        let mut at = 0;
        while let Some(first) = word(&self.rest[at..]) {
            let bytes = size(first)? * WORD_BYTES;
            let Some(record) = self.rest.get(at..at + bytes) else { break };
            if header::TYPE.get(first) == record_type::STRING {
                let (index, is_sched) = (string::INDEX.get(first), content(first, record) == SCHED);
                match is_sched {
                    true => self.sched = index,
                    // From now on, the index refers to something else.
                    false if self.sched == index => self.sched = 0,
                    false => {}
                }
            }
            if self.is_wanted(first) {
                whole.extend_from_slice(record);
            }
            at += bytes;
        }
        self.rest.drain(..at);
        Ok(whole)
    }

    fn is_wanted(&self, first: u64) -> bool {
        match header::TYPE.get(first) {
            record_type::SCHEDULING => self.scheduling,
            record_type::EVENT => {
                self.scheduling || self.sched == 0 || event::CATEGORY.get(first) != self.sched
            }
            record_type::METADATA => {
                let introduces = provider_info::METADATA_TYPE.get(first) == metadata::PROVIDER_INFO;
                first != MAGIC_WORD && !introduces
            }
            _ => true,
        }
    }
}

/// The text of a string record; `None` if the stated length exceeds the record.
fn content(first: u64, record: &[u8]) -> &[u8] {
    let length = usize::try_from(string::LENGTH.get(first)).unwrap_or(usize::MAX);
    record.get(WORD_BYTES..).and_then(|text| text.get(..length)).unwrap_or_default()
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

/// The size of the record that begins with this word, in words.
fn size(first: u64) -> Result<usize, NoRecord> {
    record_words(first).filter(|words| *words <= MOST_WORDS).ok_or(NoRecord(first))
}

#[cfg(test)]
mod tests {
    use fxt_writer::StringRef;
    use fxt_writer::record::StringRecord;

    use super::*;

    fn string() -> Vec<u8> {
        let mut bytes = Vec::new();
        let index = StringRef::indexed(1).expect("not zero");
        StringRecord { index, content: "some text" }.write(&mut bytes).expect("a vector");
        bytes
    }

    fn switch() -> Vec<u8> {
        let mut bytes = Vec::new();
        // A scheduling record of three words, by its header only: the contents are not examined.
        let first = header::TYPE.put(record_type::SCHEDULING) | header::SIZE.put(3);
        for word in [first, 1, 2] {
            bytes.extend_from_slice(&u64::to_ne_bytes(word));
        }
        bytes
    }

    #[test]
    fn records_come_whole_however_they_are_cut() {
        let stream = [head(), string(), switch(), string()].concat();
        let expected = [string(), switch(), string()].concat();
        for portion in [1, 3, 8, 13, stream.len()] {
            let mut splitter = Splitter::new(true);
            let mut whole = Vec::new();
            for bytes in stream.chunks(portion) {
                whole.extend(splitter.take(bytes).expect("records"));
            }
            assert!(whole.ends_with(&expected), "in portions of {portion}");
            // The magic number and the introduction are left out; the section and the initialization are not.
            assert_eq!(whole.len(), expected.len() + 3 * WORD_BYTES, "{portion}");
            assert!(splitter.rest.is_empty());
        }
    }

    #[test]
    fn scheduling_records_are_left_out_where_nobody_asked_for_them() {
        let stream = [string(), switch(), string()].concat();
        let whole = Splitter::new(false).take(&stream).expect("records");
        assert_eq!(whole, [string(), string()].concat());
    }

    /// An instant event with a category that is defined as `of`.
    fn of_category(of: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let index = StringRef::indexed(7).expect("not zero");
        StringRecord { index, content: of }.write(&mut bytes).expect("a vector");
        let first = header::TYPE.put(record_type::EVENT)
            | header::SIZE.put(2)
            | event::THREAD.put(1)
            | event::CATEGORY.put(7);
        for word in [first, 1] {
            bytes.extend_from_slice(&u64::to_ne_bytes(word));
        }
        bytes
    }

    #[test]
    fn events_of_the_scheduler_are_left_out_with_its_records_and_others_are_not() {
        let count = |stream: &[u8], scheduling| {
            let whole = Splitter::new(scheduling).take(stream).expect("records");
            (stream.len() - whole.len()) / WORD_BYTES
        };
        assert_eq!(count(&of_category("sched"), false), 2);
        assert_eq!(count(&of_category("sched"), true), 0);
        assert_eq!(count(&of_category("irq"), false), 0);
        assert_eq!(count(&[of_category("sched"), of_category("irq")].concat(), false), 2);
    }

    #[test]
    fn what_is_cut_off_at_the_end_is_left_out() {
        let stream = [string(), string()].concat();
        let whole = Splitter::new(true).take(&stream[..stream.len() - 1]).expect("records");
        assert_eq!(whole, string());
    }

    #[test]
    fn what_is_no_record_is_an_error_and_takes_no_memory() {
        assert_eq!(Splitter::new(true).take(&[0; 8]), Err(NoRecord(0)));
        assert!(Splitter::new(true).take(&[0xff; 8]).is_err());
    }
}
