//! The records of a provider, read back.

use std::collections::{BTreeMap, HashMap, HashSet};

use fxt_reader::check::{Checker, Promises};
use fxt_reader::record::EventKind;
use fxt_reader::{ObjectType, Reader, Record};
use fxt_writer::ProviderId;
use fxt_writer::layout::walk::{records_in_bytes, whole_records};
use fxt_writer::layout::{header, record_type, string};
use fxt_writer::record::{Magic, ProviderInfo, ProviderSection, Record as _};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) time: u64,
    pub(crate) process: u64,
    pub(crate) thread: u64,
    pub(crate) category: String,
    pub(crate) name: String,
    /// Names and values as text, in their order.
    pub(crate) args: Vec<(String, String)>,
}

impl Event {
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.arg(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no number {name} in {self:?}"))
    }

    pub(crate) fn arg(&self, name: &str) -> Option<&str> {
        self.args.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Everything in the order in which it was saved.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    pub(crate) events: Vec<Event>,
    pub(crate) logs: Vec<(u64, String)>,
    pub(crate) blobs: HashMap<String, Vec<u8>>,
    pub(crate) blob_records: usize,
    pub(crate) threads: HashMap<u64, (String, u64)>,
    pub(crate) processes: HashMap<u64, String>,
    pub(crate) strings: HashSet<String>,
    pub(crate) ticks_per_second: Option<u64>,
    /// Records that the provider had no room for.
    pub(crate) dropped: u64,
}

/// The records without those that only fill unused room: managers leave them out, too.
fn without_fillers(records: &[u8]) -> Vec<u8> {
    assert_eq!(whole_records(records, records.len()), records.len(), "whole records");
    let is_filler = |record: &&[u8]| {
        let first = u64::from_ne_bytes(*record.first_chunk().expect("a header word"));
        header::TYPE.get(first) == record_type::STRING && string::INDEX.get(first) == 0
    };
    records_in_bytes(records).filter(|record| !is_filler(record)).flatten().copied().collect()
}

impl Archive {
    /// Reads the records of one provider, and checks that they all follow the format.
    pub(crate) fn read(records: &[u8], dropped: u64) -> Self {
        let mut bytes: Vec<u8> = Vec::new();
        let (id, name) = (ProviderId(2), "provider");
        Magic.write(&mut bytes).expect("memory");
        ProviderInfo { id, name }.write(&mut bytes).expect("memory");
        ProviderSection { id }.write(&mut bytes).expect("memory");
        bytes.extend(without_fillers(records));

        let mut archive = Self { dropped, ..Self::default() };
        let mut checker = Checker::new(Promises::Spec);
        let mut reader = Reader::new(&bytes[..]);
        while let Some(item) = reader.next().expect("a sound record") {
            checker.item(&item);
            archive.record(&item.record);
        }
        let report = checker.finish(reader.summary());
        assert!(report.is_sound(), "{report:?}");
        archive
    }

    fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Event(event) => self.events.push(Event {
                kind: event.kind,
                time: event.time.0,
                process: event.thread.process.0,
                thread: event.thread.thread.0,
                category: event.category.to_owned(),
                name: event.name.to_owned(),
                args: event
                    .args
                    .iter()
                    .map(|arg| (arg.name.to_owned(), arg.value.to_string()))
                    .collect(),
            }),
            Record::Log(log) => self.logs.push((log.thread.thread.0, log.message.to_owned())),
            Record::Blob(blob) => {
                self.blob_records += 1;
                self.blobs.entry(blob.name.to_owned()).or_default().extend_from_slice(blob.payload);
            }
            Record::KernelObject(object) => match object.object_type {
                ObjectType::Process => {
                    drop(self.processes.insert(object.koid.0, object.name.to_owned()));
                }
                _ => {
                    let process = object.process().map_or(0, |process| process.0);
                    self.threads.insert(object.koid.0, (object.name.to_owned(), process));
                }
            },
            Record::String(string) => drop(self.strings.insert(string.value.to_owned())),
            Record::Initialization(head) => self.ticks_per_second = Some(head.ticks_per_second),
            _ => {}
        }
    }

    /// The events of that name.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.name == name)
    }

    /// The number of records that the application wrote, without those that only define names.
    pub(crate) fn written(&self) -> u64 {
        (self.events.len() + self.logs.len() + self.blob_records) as u64
    }

    /// Asserts that in each thread an end closes the most recent begin, and returns how many spans are open in the end.
    pub(crate) fn open_spans(&self) -> usize {
        let mut open: BTreeMap<u64, Vec<(&str, u64)>> = BTreeMap::new();
        for event in &self.events {
            let stack = open.entry(event.thread).or_default();
            match event.kind {
                EventKind::DurationBegin => stack.push((&event.name, event.time)),
                EventKind::DurationEnd => {
                    let (name, begun) = stack.pop().expect("an end of something");
                    assert_eq!(name, event.name);
                    assert!(begun <= event.time);
                }
                _ => {}
            }
        }
        open.values().map(Vec::len).sum()
    }
}
