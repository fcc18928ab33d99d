//! What a provider has said that its later records refer to.
//!
//! A provider registers its strings and threads once. A part of its records that is to stand without those before it
//! begins with what was registered by then. Everything is kept under its index or koid, so what is said anew takes no
//! more room.

use std::collections::BTreeMap;
use std::sync::Arc;

use fxt_format::initialization::DEFAULT_TICKS_PER_SECOND;
use fxt_format::walk::records;
use fxt_format::{header, record_type, string, thread};

use super::event::text_of;

/// No more objects than these are kept; those with the lowest koids go first.
const MOST_OBJECTS: usize = 65_536;

/// The words of one record.
type Record = Box<[u64]>;

#[derive(Debug, Default)]
pub(super) struct Names {
    initialization: Record,
    strings: BTreeMap<u64, (Record, Arc<str>)>,
    threads: BTreeMap<u64, Record>,
    objects: BTreeMap<u64, Record>,
}

impl Names {
    /// Takes note of whole records.
    pub(super) fn learn(&mut self, piece: &[u64]) {
        records(piece).for_each(|record| self.learn_one(record));
    }

    /// Takes note of one record.
    pub(super) fn learn_one(&mut self, record: &[u64]) {
        let Some((&first, body)) = record.split_first() else { return };
        match header::TYPE.get(first) {
            record_type::INITIALIZATION => self.initialization = record.into(),
            record_type::STRING => {
                let bytes = usize::try_from(string::LENGTH.get(first)).unwrap_or(0);
                let text = text_of(body, bytes);
                self.strings.insert(string::INDEX.get(first), (record.into(), text));
            }
            record_type::THREAD => {
                self.threads.insert(thread::INDEX.get(first), record.into());
            }
            record_type::KERNEL_OBJECT => {
                self.objects.insert(body.first().copied().unwrap_or(0), record.into());
                if self.objects.len() > MOST_OBJECTS {
                    self.objects.pop_first();
                }
            }
            _ => {}
        }
    }

    /// Appends the records that later ones may refer to.
    pub(super) fn recall(&self, out: &mut Vec<u8>) {
        // Objects are called by strings.
        let strings = self.strings.values().map(|(record, _)| record);
        let others = self.threads.values().chain(self.objects.values());
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

    /// How many ticks of the provider's clock are a second.
    pub(super) fn ticks_per_second(&self) -> u64 {
        let told = self.initialization.get(1).copied();
        told.filter(|ticks| *ticks > 0).unwrap_or(DEFAULT_TICKS_PER_SECOND)
    }
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

    /// What is registered, and an event that refers to it.
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
        names.learn(&first);
        names.learn(&later);
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
        names.learn(&first);
        let size = |names: &Names| {
            let mut recalled = Vec::new();
            names.recall(&mut recalled);
            recalled.len()
        };
        let once = size(&names);
        for _ in 0..3 {
            names.learn(&first);
            names.learn(&later);
        }
        assert_eq!(size(&names), once);
    }
}
