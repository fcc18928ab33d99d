//! The content of a session's archive.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fxt_reader::record::EventKind;
use fxt_reader::{Reader, Record};

/// An archive, as far as the tests check it.
#[derive(Debug, Default)]
pub(super) struct Archive {
    /// The names of providers, by id; 1 is fxtrec.
    pub(super) names: BTreeMap<u32, String>,
    /// Events by the provider's name: name, thread and time of each.
    pub(super) events: BTreeMap<String, Vec<(String, u64, u64)>>,
    /// Scheduling records: time, and the threads' koids.
    pub(super) switches: Vec<(u64, u64, u64)>,
    /// The process of each application's events.
    pub(super) processes: BTreeSet<u64>,
}

impl Archive {
    /// Reads it, and fails the test unless it is valid.
    pub(super) fn read(path: &Path) -> Archive {
        Archive::of(&std::fs::read(path).expect("a file"))
    }

    pub(super) fn of(bytes: &[u8]) -> Archive {
        let mut reader = Reader::from_slice(bytes);
        let mut archive = Archive::default();
        let mut current = 0;
        while let Some(item) = reader.next().expect("a sound archive") {
            match item.record {
                Record::ProviderInfo(info) => {
                    current = info.id.0;
                    let earlier = archive.names.insert(current, info.name.to_owned());
                    assert_eq!(earlier, None, "each is introduced once");
                }
                Record::ProviderSection(section) => current = section.id.0,
                // Its beginning was counted.
                Record::Event(event) if event.kind == EventKind::DurationEnd => {}
                Record::Event(event) => {
                    let name = archive.names[&current].clone();
                    let thread = event.thread.thread.0;
                    if current != 1 {
                        archive.processes.insert(event.thread.process.0);
                    }
                    let event = (event.name.to_owned(), thread, event.time.0);
                    archive.events.entry(name).or_default().push(event);
                }
                Record::ContextSwitch(switch) => {
                    assert_eq!(current, 1, "the kernel's records are fxtrec's");
                    archive.switches.push((switch.time.0, switch.outgoing.0, switch.incoming.0));
                }
                _ => {}
            }
        }
        let summary = reader.summary();
        assert_eq!(summary.damaged_regions, 0, "{summary:?}");
        assert_eq!(current, 1, "it ends with fxtrec's own section");
        archive
    }

    /// The events of this name that this provider recorded; a duration counts as one.
    pub(super) fn count(&self, provider: &str, name: &str) -> usize {
        let events = self.events.get(provider).map_or(&[][..], Vec::as_slice);
        events.iter().filter(|(event, ..)| event == name).count()
    }
}
