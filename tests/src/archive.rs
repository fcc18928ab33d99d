//! The records of applications in a trace.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fxt_reader::record::{EventKind, Value};
use fxt_reader::{Reader, Record};

/// An event of an application.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: String,
    /// Its kind.
    pub kind: EventKind,
    /// Its time, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    pub process: u64,
    pub thread: u64,
    /// Its arguments that are integers, with true as 1.
    pub numbers: BTreeMap<String, u64>,
}

/// A provider and its events, in order.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    pub name: String,
    pub events: Vec<Event>,
    /// How often its buffer was reported full.
    pub filled_up: u64,
    /// The numbers of its `provider_stats`.
    pub stats: HashMap<String, u64>,
}

/// All providers of a trace, without fxtrec, by id.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    pub providers: BTreeMap<u32, Provider>,
}

fn number(value: Value<'_>) -> Option<u64> {
    match value {
        Value::UInt32(value) => Some(value.into()),
        Value::UInt64(value) => Some(value),
        Value::Int32(value) => value.try_into().ok(),
        Value::Int64(value) => value.try_into().ok(),
        Value::Bool(value) => Some(value.into()),
        _ => None,
    }
}

impl Archive {
    /// Reads a file.
    ///
    /// # Panics
    /// When it cannot be read to its end, or contains damage.
    pub fn read(path: &Path) -> Archive {
        let mut reader = Reader::open(path).expect("a trace");
        let mut archive = Archive::default();
        let mut current = 1;
        while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{path:?}: {error}")) {
            match item.record {
                Record::ProviderInfo(info) => {
                    current = info.id.0;
                    if current != 1 {
                        let provider = archive.providers.entry(current).or_default();
                        provider.name = info.name.to_owned();
                    }
                }
                Record::ProviderSection(section) => current = section.id.0,
                Record::ProviderEvent(event) if event.id.0 != 1 => {
                    archive.providers.entry(event.id.0).or_default().filled_up += 1;
                }
                Record::Event(event) => {
                    let numbers = event.args.iter();
                    let numbers = numbers
                        .filter_map(|arg| Some((arg.name.to_owned(), number(arg.value)?)))
                        .collect::<BTreeMap<_, _>>();
                    if current == 1 {
                        if event.name == "provider_stats" {
                            let id = numbers["id"] as u32;
                            let provider = archive.providers.entry(id).or_default();
                            provider.stats = numbers.into_iter().collect();
                        }
                        continue;
                    }
                    let provider = archive.providers.get_mut(&current).expect("introduced");
                    provider.events.push(Event {
                        name: event.name.to_owned(),
                        kind: event.kind,
                        time: event.time.0,
                        process: event.thread.process.0,
                        thread: event.thread.thread.0,
                        numbers,
                    });
                }
                _ => {}
            }
        }
        assert_eq!(reader.summary().damaged_regions, 0, "{:?}", reader.summary());
        archive
    }

    /// The only provider.
    ///
    /// # Panics
    /// When there are none or several.
    pub fn only(self) -> Provider {
        assert_eq!(self.providers.len(), 1);
        self.providers.into_values().next().expect("one")
    }
}

impl Provider {
    /// The argument `number` of its events with this name that have one, in order.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let events = self.events.iter().filter(|event| event.name == name);
        events.filter_map(|event| event.numbers.get("number").copied()).collect()
    }
}
