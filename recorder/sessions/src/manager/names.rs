//! The definitions of a provider that its later records refer to.
//!
//! A provider registers its strings and threads once. A part of its records that must be readable without the previous ones begins with the
//! definitions so far. All definitions are stored by index or koid, so a redefinition needs no additional memory. Because definitions may
//! be of any size, their memory is limited for all providers together.

use std::collections::BTreeMap;
use std::sync::Arc;

use fxt_format::initialization::DEFAULT_TICKS_PER_SECOND;
use fxt_format::walk::records;
use fxt_format::{header, record_type, string, thread};
use fxt_writer::StringRef;
use fxt_writer::record::{Record as _, StringRecord};

use super::event::text_of;

/// Maximum number of objects that are kept; those with the lowest koids are dropped first.
const MOST_OBJECTS: usize = 65_536;

/// The limit for the names of all providers together, overhead included, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 24 << 20;

/// The overhead of a record: its map entry and its allocation.
const EACH_BYTES: usize = 96;

/// The overhead of a string's text.
const TEXT_BYTES: usize = 32;

/// The replacement for a string that was not kept.
const UNKEPT: &str = "?";

/// The words of one record.
type Record = Box<[u64]>;

#[derive(Debug, Default)]
pub(super) struct Names {
    initialization: Record,
    strings: BTreeMap<u64, (Record, Arc<str>)>,
    /// The indices of strings for which there was no space, as a bit set.
    unkept: Vec<u64>,
    threads: BTreeMap<u64, Record>,
    objects: BTreeMap<u64, Record>,
    /// The memory of strings and objects, in bytes. Threads are not counted, since the format permits at most 255.
    bytes: usize,
    /// Strings and objects for which there was no space.
    left_out: u64,
}

impl Names {
    /// Reads definitions from whole records, as long as all names take no more than `most` bytes.
    pub(super) fn learn(&mut self, piece: &[u64], most: usize) {
        records(piece).for_each(|record| self.learn_one(record, most));
    }

    /// Reads a definition from one record, unless all names would then take more than `most` bytes.
    pub(super) fn learn_one(&mut self, record: &[u64], most: usize) {
        let Some((&first, body)) = record.split_first() else { return };
        match header::TYPE.get(first) {
            record_type::INITIALIZATION => self.initialization = record.into(),
            record_type::STRING => {
                let index = string::INDEX.get(first);
                let bytes = usize::try_from(string::LENGTH.get(first)).unwrap_or(0);
                let text = text_of(body, bytes);
                // The old string of this index is no longer valid, even if there is no space for the new one.
                if let Some((before, text)) = self.strings.remove(&index) {
                    self.bytes -= bytes_of_string(&before, &text);
                }
                let takes = bytes_of_string(record, &text);
                let is_kept = self.bytes + takes <= most;
                self.set_unkept(index, !is_kept);
                if !is_kept {
                    self.left_out = self.left_out.saturating_add(1);
                    return;
                }
                self.bytes += takes;
                self.strings.insert(index, (record.into(), text));
            }
            record_type::THREAD => {
                self.threads.insert(thread::INDEX.get(first), record.into());
            }
            record_type::KERNEL_OBJECT => {
                let koid = body.first().copied().unwrap_or(0);
                self.bytes += bytes_of(record);
                if let Some(before) = self.objects.insert(koid, record.into()) {
                    self.bytes -= bytes_of(&before);
                }
                while (self.objects.len() > MOST_OBJECTS || self.bytes > most)
                    && let Some((_, lowest)) = self.objects.pop_first()
                {
                    self.bytes -= bytes_of(&lowest);
                    self.left_out = self.left_out.saturating_add(1);
                }
            }
            _ => {}
        }
    }

    fn set_unkept(&mut self, index: u64, is_unkept: bool) {
        // There are 2^15 indices.
        let at = (index / 64) as usize;
        if is_unkept && self.unkept.len() <= at {
            self.unkept.resize(at + 1, 0);
        }
        if let Some(word) = self.unkept.get_mut(at) {
            let bit = 1 << (index % 64);
            *word = if is_unkept { *word | bit } else { *word & !bit };
        }
    }

    /// The indices of strings for which there was no space.
    fn unkept(&self) -> impl Iterator<Item = u16> {
        let words = (0_u16..).step_by(64).zip(&self.unkept);
        words.flat_map(|(from, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| from + bit)
        })
    }

    /// The memory of the names, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of strings and objects that were left out since the last call because there was no space.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// The number of strings and objects left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Appends the records that later ones may refer to.
    pub(super) fn recall(&self, out: &mut Vec<u8>) {
        // Objects are called by strings.
        let strings = self.strings.values().map(|(record, _)| record);
        let others = self.threads.values().chain(self.objects.values());
        // A reference to a missing definition would be damage.
        for index in self.unkept().filter_map(|index| StringRef::indexed(index).ok()) {
            let written = StringRecord { index, content: UNKEPT }.write(out);
            debug_assert!(written.is_ok(), "{written:?}");
        }
        for record in std::iter::once(&self.initialization).chain(strings).chain(others) {
            record.iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
        }
    }

    /// The string of this index.
    pub(super) fn string(&self, index: u64) -> Option<Arc<str>> {
        self.strings.get(&index).map(|(_, text)| text.clone())
    }

    /// The koids of the process and the thread of this index.
    pub(super) fn thread(&self, index: u64) -> Option<(u64, u64)> {
        let record = self.threads.get(&index)?;
        Some((*record.get(1)?, *record.get(2)?))
    }

    /// The ticks per second of the provider's clock.
    pub(super) fn ticks_per_second(&self) -> u64 {
        let reported = self.initialization.get(1).copied();
        reported.filter(|ticks| *ticks > 0).unwrap_or(DEFAULT_TICKS_PER_SECOND)
    }
}

/// The memory of a record, in bytes.
fn bytes_of(record: &[u64]) -> usize {
    EACH_BYTES + size_of_val(record)
}

fn bytes_of_string(record: &[u64], text: &str) -> usize {
    bytes_of(record) + TEXT_BYTES + text.len()
}

#[cfg(test)]
mod tests {
    use fxt_reader::{Reader, Record as Read};
    use fxt_writer::record::{
        Event, EventKind, Initialization, KernelObject, Magic, ObjectType, Record, StringRecord,
        ThreadRecord,
    };
    use fxt_writer::{Koid, StringRef, Text, ThreadName, ThreadRef, Ticks};

    use super::*;

    fn put(out: &mut Vec<u64>, record: &impl Record) {
        record.write(out).expect("memory has room");
    }

    fn text(index: u16) -> Text<'static> {
        Text::Indexed(StringRef::indexed(index).expect("in range"))
    }

    /// Definitions, and an event that refers to them.
    fn pieces(name: &str) -> [Vec<u64>; 2] {
        let mut first = Vec::new();
        put(&mut first, &Initialization { ticks_per_second: 1_000_000_000 });
        for (index, content) in [(1, "draw"), (2, name)] {
            let index = StringRef::indexed(index).expect("in range");
            put(&mut first, &StringRecord { index, content });
        }
        let (kind, koid) = (ObjectType::Process, Koid(2));
        put(&mut first, &KernelObject { object_type: kind, koid, name: text(2), args: &[] });
        let index = ThreadRef::indexed(1).expect("in range");
        put(&mut first, &ThreadRecord { index, process: koid, thread: koid });
        let mut later = Vec::new();
        let thread = ThreadName::Indexed(ThreadRef::indexed(1).expect("in range"));
        let (kind, time) = (EventKind::Instant, Ticks(5));
        let event = Event { kind, time, thread, category: text(1), name: text(2), args: &[] };
        put(&mut later, &event);
        [first, later]
    }

    #[test]
    fn records_that_begin_so_can_be_read_without_those_before() {
        let [first, later] = pieces("app");
        let mut names = Names::default();
        names.learn(&first, MAX_NAME_BYTES);
        names.learn(&later, MAX_NAME_BYTES);
        let mut archive = Vec::new();
        Magic.write(&mut archive).expect("memory has room");
        names.recall(&mut archive);
        later.iter().for_each(|word| archive.extend_from_slice(&word.to_ne_bytes()));
        let mut reader = Reader::from_slice(&archive);
        let (mut events, mut objects) = (Vec::new(), Vec::new());
        while let Some(item) = reader.next().expect("a sound archive") {
            match item.record {
                Read::Event(event) => {
                    let thread = event.thread.thread.0;
                    events.push(format!("{} {} of {thread}", event.category, event.name));
                }
                Read::KernelObject(object) => objects.push(object.name.to_owned()),
                _ => {}
            }
        }
        assert_eq!((events, objects), (vec!["draw app of 2".to_owned()], vec!["app".to_owned()]));
    }

    #[test]
    fn what_is_said_again_takes_no_more_room_and_events_take_none() {
        let [first, later] = pieces("app");
        let mut names = Names::default();
        names.learn(&first, MAX_NAME_BYTES);
        let size = |names: &Names| {
            let mut recalled = Vec::new();
            names.recall(&mut recalled);
            recalled.len()
        };
        let once = (size(&names), names.bytes());
        for _ in 0..3 {
            names.learn(&first, MAX_NAME_BYTES);
            names.learn(&later, MAX_NAME_BYTES);
        }
        assert_eq!((size(&names), names.bytes(), names.left_out()), (once.0, once.1, 0));
    }

    #[test]
    fn long_names_of_many_threads_and_strings_take_no_more_than_there_is_room_for() {
        const MOST: usize = 1 << 20;
        let long = "n".repeat(31_000);
        let mut names = Names::default();
        for koid in 1..=100 {
            let mut words = Vec::new();
            let (kind, name) = (ObjectType::Thread, Text::Inline(&long));
            put(&mut words, &KernelObject { object_type: kind, koid: Koid(koid), name, args: &[] });
            let index = StringRef::indexed(koid as u16).expect("in range");
            put(&mut words, &StringRecord { index, content: &long });
            names.learn(&words, MOST);
        }
        assert!(names.bytes() <= MOST, "{}", names.bytes());
        let mut recalled = Vec::new();
        names.recall(&mut recalled);
        assert!((MOST / 2..=MOST).contains(&recalled.len()), "{}", recalled.len());
        let unkept = 100 - names.strings.len();
        assert_eq!(names.unkept().count(), unkept);
        let kept = names.strings.len() + names.objects.len();
        assert_eq!(names.take_left_out(), 200 - kept as u64);
        assert_eq!(names.left_out(), 0, "it was taken");
    }

    #[test]
    fn an_index_for_whose_string_there_is_no_room_does_not_keep_the_one_that_it_had() {
        let string = |content: &str| {
            let mut words = Vec::new();
            let index = StringRef::indexed(5).expect("in range");
            put(&mut words, &StringRecord { index, content });
            words
        };
        let mut names = Names::default();
        names.learn(&string("draw"), 1024);
        assert_eq!(names.string(5).as_deref(), Some("draw"));
        names.learn(&string(&"n".repeat(2000)), 1024);
        assert_eq!((names.string(5), names.bytes(), names.left_out()), (None, 0, 1));
        let mut recalled = Vec::new();
        names.recall(&mut recalled);
        let mut stands_for = Vec::new();
        string("?").iter().for_each(|word| stands_for.extend_from_slice(&word.to_ne_bytes()));
        assert_eq!(recalled, stands_for, "what refers to it can be read");
        names.learn(&string("fill"), 1024);
        assert_eq!((names.string(5).as_deref(), names.unkept().count()), (Some("fill"), 0));
    }
}
