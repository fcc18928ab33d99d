//! What the records of other providers refer to, so that an output can begin in the middle of them.
//!
//! A provider registers its strings and threads once, in the first output of a recording that is divided. Each later
//! output has to begin with what was registered by then. Everything is kept under its index or koid, so what is said
//! anew takes no more room.

use std::collections::BTreeMap;

use fxt_writer::layout::{header, metadata, record_type, string, thread};

use super::records::record_bytes;

/// Of each provider, no more objects than these are kept; those with the lowest koids go first.
const MOST_OBJECTS: usize = 65_536;

/// The words of one record, as bytes.
type Record = Box<[u8]>;

/// What was said of one provider, and by it, that later records may refer to.
#[derive(Debug, Default)]
struct Provider {
    info: Record,
    initialization: Record,
    strings: BTreeMap<u64, Record>,
    threads: BTreeMap<u64, Record>,
    objects: BTreeMap<u64, Record>,
}

/// All providers of a recording but fxtrec itself.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    providers: BTreeMap<u64, Provider>,
    /// The record that leads back to fxtrec's own section.
    back: Record,
}

fn word(record: &[u8], at: usize) -> u64 {
    let bytes = record.get(8 * at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Dictionary {
    /// Takes note of a piece: whole records of one or more providers, each behind the record that begins its section.
    /// The last section is fxtrec's own.
    pub(crate) fn learn(&mut self, piece: &[u8]) {
        let mut section = None;
        let mut rest = piece;
        while let Some((record, after)) =
            record_bytes(rest).and_then(|size| rest.split_at_checked(size))
        {
            rest = after;
            let first = word(record, 0);
            if header::TYPE.get(first) == record_type::METADATA {
                section = self.metadata(record).or(section);
            } else if let Some(provider) = section.and_then(|id| self.providers.get_mut(&id)) {
                provider.learn(record);
            }
        }
    }

    /// Takes note of a metadata record. The provider whose section it begins, if it does.
    fn metadata(&mut self, record: &[u8]) -> Option<u64> {
        let first = word(record, 0);
        match metadata::METADATA_TYPE.get(first) {
            metadata::PROVIDER_INFO => {
                let id = metadata::provider_info::PROVIDER_ID.get(first);
                self.providers.entry(id).or_default().info = record.into();
                None
            }
            metadata::PROVIDER_SECTION => {
                self.back = record.into();
                Some(metadata::provider_section::PROVIDER_ID.get(first))
            }
            _ => None,
        }
    }

    /// What an output must have behind its head for the pieces to come.
    pub(super) fn beginning(&self) -> Vec<u8> {
        let mut beginning = Vec::new();
        self.providers.keys().for_each(|id| self.introduce(*id, &mut beginning));
        if !beginning.is_empty() {
            beginning.extend_from_slice(&self.back);
        }
        beginning
    }

    /// Appends what was said of and by one provider, and leaves its section open.
    fn introduce(&self, id: u64, out: &mut Vec<u8>) {
        let Some(provider) = self.providers.get(&id) else { return };
        out.extend_from_slice(&provider.info);
        let section = metadata::provider_section::TYPE.put(record_type::METADATA)
            | metadata::provider_section::SIZE.put(1)
            | metadata::provider_section::METADATA_TYPE.put(metadata::PROVIDER_SECTION)
            | metadata::provider_section::PROVIDER_ID.put(id);
        out.extend(section.to_le_bytes());
        self.recall(id, out);
    }

    /// Appends what one provider said that later records of it may refer to, to a section of it.
    pub(crate) fn recall(&self, id: u64, out: &mut Vec<u8>) {
        let Some(provider) = self.providers.get(&id) else { return };
        out.extend_from_slice(&provider.initialization);
        // Objects are called by strings.
        let tables = [&provider.strings, &provider.threads, &provider.objects];
        for record in tables.into_iter().flat_map(BTreeMap::values) {
            out.extend_from_slice(record);
        }
    }

    /// Forgets a provider of which nothing more will come.
    pub(crate) fn forget(&mut self, id: u64) {
        self.providers.remove(&id);
    }
}

impl Provider {
    fn learn(&mut self, record: &[u8]) {
        let first = word(record, 0);
        let (table, key) = match header::TYPE.get(first) {
            record_type::INITIALIZATION => {
                self.initialization = record.into();
                return;
            }
            record_type::STRING => (&mut self.strings, string::INDEX.get(first)),
            record_type::THREAD => (&mut self.threads, thread::INDEX.get(first)),
            // The word behind the header is the koid.
            record_type::KERNEL_OBJECT => (&mut self.objects, word(record, 1)),
            _ => return,
        };
        table.insert(key, record.into());
        if self.objects.len() > MOST_OBJECTS {
            self.objects.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use fxt_reader::{Reader, Record as Read};
    use fxt_writer::record::{
        Event, EventKind, Initialization, KernelObject, Magic, ObjectType, ProviderInfo,
        ProviderSection, StringRecord, ThreadRecord,
    };
    use fxt_writer::{Koid, ProviderId, StringRef, Text, ThreadName, ThreadRef, Ticks};

    use super::*;

    const FXTREC: ProviderId = ProviderId(1);

    fn text(index: u16) -> Text<'static> {
        Text::Indexed(StringRef::indexed(index).expect("in range"))
    }

    fn put(out: &mut Vec<u8>, record: &impl fxt_writer::record::Record) {
        record.write(out).expect("memory has room");
    }

    /// The first piece of a provider, which says what it will refer to.
    fn first_piece(id: u32, name: &str) -> Vec<u8> {
        let mut piece = Vec::new();
        put(&mut piece, &ProviderInfo { id: ProviderId(id), name });
        put(&mut piece, &ProviderSection { id: ProviderId(id) });
        put(&mut piece, &Initialization { ticks_per_second: 1_000_000_000 });
        for (index, content) in [(1, "draw"), (2, name)] {
            let index = StringRef::indexed(index).expect("in range");
            put(&mut piece, &StringRecord { index, content });
        }
        let (kind, koid) = (ObjectType::Process, Koid(id.into()));
        put(&mut piece, &KernelObject { kind, koid, name: text(2), args: &[] });
        let index = ThreadRef::indexed(1).expect("in range");
        put(&mut piece, &ThreadRecord { index, process: koid, thread: koid });
        put(&mut piece, &ProviderSection { id: FXTREC });
        piece
    }

    /// A later one, which refers to that.
    fn later_piece(id: u32) -> Vec<u8> {
        let mut piece = Vec::new();
        put(&mut piece, &ProviderSection { id: ProviderId(id) });
        let thread = ThreadName::Indexed(ThreadRef::indexed(1).expect("in range"));
        let (kind, time) = (EventKind::Instant, Ticks(5));
        let event = Event { kind, time, thread, category: text(1), name: text(2), args: &[] };
        put(&mut piece, &event);
        put(&mut piece, &ProviderSection { id: FXTREC });
        piece
    }

    #[test]
    fn an_output_that_begins_so_can_be_read_without_the_one_before() {
        let mut dictionary = Dictionary::default();
        assert!(dictionary.beginning().is_empty(), "nobody else, nothing to say");
        for (id, name) in [(2, "app"), (3, "db")] {
            dictionary.learn(&first_piece(id, name));
            dictionary.learn(&later_piece(id));
        }
        let mut output = Vec::new();
        put(&mut output, &Magic);
        put(&mut output, &ProviderInfo { id: FXTREC, name: "fxtrec" });
        output.extend(dictionary.beginning());
        output.extend([later_piece(2), later_piece(3)].concat());
        let mut reader = Reader::from_slice(&output);
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
        assert_eq!(events, ["draw app of 2", "draw db of 3"]);
        assert_eq!(objects, ["app", "db"]);
    }

    #[test]
    fn what_is_said_again_takes_no_more_room_and_events_take_none() {
        let mut dictionary = Dictionary::default();
        dictionary.learn(&first_piece(2, "app"));
        let once = dictionary.beginning();
        for _ in 0..3 {
            dictionary.learn(&first_piece(2, "app"));
            dictionary.learn(&later_piece(2));
        }
        assert_eq!(dictionary.beginning(), once);
    }
}
