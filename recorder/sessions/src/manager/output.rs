//! What providers recorded, on its way into the archive.
//!
//! Each piece is put between metadata, so that whoever writes to the same archive
//! needs to know nothing of it:
//!
//! ```text
//!  [ provider info, once ][ section of the provider ][ durable ][ rolling ][ event: buffer filled up ][ section of fxtrec ][ losses ]
//! ```

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use fxt_format::limits::WORD_BYTES;
use fxt_writer::engine::Piece;
use fxt_writer::record::{ProviderEvent, ProviderInfo, ProviderSection, Record};
use fxt_writer::{Koid, ProviderId};

use super::known::Known;
use super::loss::RecordLoss;
use fxtrec_units::Nanos;
use fxtrec_units::convention::PROVIDER;

/// Takes whole records of an archive, one piece after the other. It may wait until there is room for more: meanwhile
/// providers that fill their buffers drop records, and count them.
pub type Archive = Box<dyn FnMut(Vec<u8>) + Send>;

/// Room for what goes around a piece, in bytes.
const ROOM_BYTES: usize = 64 * WORD_BYTES;

/// A piece and whose it is.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) id: ProviderId,
    pub(super) name: Arc<str>,
    pub(super) piece: Piece,
    /// Its process, as the trace numbers it.
    pub(super) process: Koid,
    /// What the provider dropped since the piece before.
    pub(super) losses: Vec<RecordLoss>,
}

impl Owned {
    fn bytes(&self) -> usize {
        (self.piece.durable.len() + self.piece.rolling.len()) * WORD_BYTES
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        put_words(bytes, &self.piece.durable);
        put_words(bytes, &self.piece.rolling);
        if !self.losses.is_empty() {
            put(bytes, &ProviderEvent::buffer_filled_up(self.id));
        }
    }
}

/// What one provider has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its id in the archive.
    pub id: ProviderId,
    pub name: String,
    /// Whether it goes on recording.
    pub goes_on: bool,
    /// Its process, as the trace numbers it.
    pub process: Koid,
    /// Its records, with all that they refer to.
    pub records: Vec<u8>,
    /// Records that it dropped.
    pub losses: Vec<RecordLoss>,
}

impl Section {
    /// Appends it to an archive that has nothing of this provider: who it is, its records, and the way back to fxtrec's own
    /// section.
    pub fn put(&self, archive: &mut Vec<u8>) {
        put(archive, &ProviderInfo { id: self.id, name: &self.name });
        put(archive, &ProviderSection { id: self.id });
        archive.extend_from_slice(&self.records);
        put(archive, &ProviderSection { id: PROVIDER });
        self.losses.iter().for_each(|loss| loss.put(&self.name, self.process, archive));
    }
}

/// The archive, and what may not be written to it yet.
pub(super) struct Output {
    archive: Archive,
    /// Providers that the archive knows by name.
    introduced: HashSet<u32>,
    held: VecDeque<Owned>,
    held_bytes: usize,
    /// The most that is held, in bytes.
    capacity: usize,
    holds: bool,
    /// Whether another archive may begin while providers record.
    divided: bool,
    /// What pieces that are not held any more had registered, and of a divided archive what they began.
    known: BTreeMap<u32, Known>,
    /// Providers of which some of that is not in the archive either.
    unsaid: HashSet<u32>,
    /// Pieces that were let go of since there were too many.
    pub(super) forgotten: u64,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("introduced", &self.introduced.len())
            .field("held_bytes", &self.held_bytes)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// Holds at most `capacity` bytes back when it is told to. A `divided` archive may be [rotated](Output::rotate).
    pub(super) fn new(archive: Archive, capacity: usize, divided: bool) -> Output {
        Output {
            archive,
            introduced: HashSet::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            capacity,
            holds: false,
            divided,
            known: BTreeMap::new(),
            unsaid: HashSet::new(),
            forgotten: 0,
        }
    }

    /// From now on pieces are kept, until [`Output::release`] or [`Output::discard`].
    pub(super) fn hold(&mut self) {
        self.holds = true;
    }

    /// Writes what was kept, and whatever comes next at once.
    pub(super) fn release(&mut self) {
        self.holds = false;
        for owned in std::mem::take(&mut self.held) {
            self.write(&owned);
        }
        self.held_bytes = 0;
    }

    /// Lets go of what was kept, and writes whatever comes next at once.
    pub(super) fn discard(&mut self) {
        self.holds = false;
        self.held.clear();
        self.held_bytes = 0;
    }

    /// Begins another archive, in which nobody has been introduced.
    pub(super) fn forget_all(&mut self) {
        self.introduced.clear();
        self.known.clear();
        self.unsaid.clear();
        self.forgotten = 0;
    }

    /// Takes a piece, if there is anything in it.
    pub(super) fn take(&mut self, owned: Owned) {
        if owned.piece.is_empty() && owned.losses.is_empty() {
            return;
        }
        if !self.holds {
            return self.write(&owned);
        }
        self.held_bytes += owned.bytes();
        self.held.push_back(owned);
        while self.held_bytes > self.capacity
            && let Some(oldest) = self.held.pop_front()
        {
            self.held_bytes -= oldest.bytes();
            self.forgotten += 1;
            // Later pieces may refer to it.
            self.learn(&oldest);
            self.unsaid.insert(oldest.id.0);
        }
    }

    /// Takes note that nothing more will come from a provider.
    pub(super) fn forget(&mut self, id: ProviderId) {
        if self.held.iter().all(|owned| owned.id != id) {
            self.known.remove(&id.0);
            self.unsaid.remove(&id.0);
        }
    }

    /// Ends what is open at `time`, has `between` begin another archive, and introduces `providers` there, by id and name.
    /// Only for one that is divided.
    pub(super) fn rotate<'n>(
        &mut self,
        time: Nanos,
        between: impl FnOnce(),
        providers: impl Iterator<Item = (ProviderId, &'n str)>,
    ) {
        self.add(|known, out| {
            let clock = known.clock();
            known.open.rotate(clock.ticks(time.0), clock, out);
        });
        between();
        self.unsaid.extend(self.known.keys());
        let before = std::mem::take(&mut self.introduced);
        let mut bytes = Vec::new();
        for (id, name) in providers.filter(|(id, _)| before.contains(&id.0)) {
            self.introduced.insert(id.0);
            put(&mut bytes, &ProviderInfo { id, name });
        }
        if !bytes.is_empty() {
            put(&mut bytes, &ProviderSection { id: PROVIDER });
            (self.archive)(bytes);
        }
    }

    /// Begins what is open and was not begun anew since the archive was: nothing more will come.
    pub(super) fn conclude(&mut self) {
        self.add(|known, out| known.open.resume(known.clock(), out));
    }

    /// Writes what `make` has to add to the sections of providers.
    fn add(&mut self, make: impl Fn(&mut Known, &mut Vec<u8>)) {
        for (id, known) in &mut self.known {
            let mut made = Vec::new();
            make(known, &mut made);
            if made.is_empty() {
                continue;
            }
            let mut bytes = Vec::with_capacity(made.len() + ROOM_BYTES);
            put(&mut bytes, &ProviderSection { id: ProviderId(*id) });
            if self.unsaid.remove(id) {
                known.names.recall(&mut bytes);
            }
            bytes.extend_from_slice(&made);
            put(&mut bytes, &ProviderSection { id: PROVIDER });
            (self.archive)(bytes);
        }
    }

    /// What providers have recorded: what is held, and `live` pieces of those that go on, one after the other.
    pub(super) fn sections(&self, live: impl Iterator<Item = Owned>) -> Vec<Section> {
        let mut sections = Vec::new();
        self.held.iter().for_each(|owned| self.add_section(&mut sections, owned, false));
        live.for_each(|owned| self.add_section(&mut sections, &owned, true));
        sections
    }

    fn add_section(&self, sections: &mut Vec<Section>, owned: &Owned, goes_on: bool) {
        if owned.piece.is_empty() && owned.losses.is_empty() {
            return;
        }
        let found = sections.iter().position(|section| section.id == owned.id);
        let at = found.unwrap_or_else(|| {
            let mut records = Vec::with_capacity(owned.bytes() + ROOM_BYTES);
            if let Some(known) = self.known.get(&owned.id.0) {
                known.names.recall(&mut records);
            }
            let (id, name, process) = (owned.id, owned.name.to_string(), owned.process);
            let losses = Vec::new();
            sections.push(Section { id, name, goes_on, process, records, losses });
            sections.len() - 1
        });
        sections[at].goes_on |= goes_on;
        owned.put(&mut sections[at].records);
        sections[at].losses.extend_from_slice(&owned.losses);
    }

    /// Keeps what a piece has registered, for pieces that refer to it. Returns what is to be begun anew before it.
    fn learn(&mut self, owned: &Owned) -> Vec<u8> {
        if self.divided {
            return self.known.entry(owned.id.0).or_default().follow(&owned.piece);
        }
        if !owned.piece.durable.is_empty() {
            self.known.entry(owned.id.0).or_default().names.learn(&owned.piece.durable);
        }
        Vec::new()
    }

    fn write(&mut self, owned: &Owned) {
        let mut bytes = Vec::with_capacity(owned.bytes() + ROOM_BYTES);
        if self.introduced.insert(owned.id.0) {
            put(&mut bytes, &ProviderInfo { id: owned.id, name: &owned.name });
        }
        put(&mut bytes, &ProviderSection { id: owned.id });
        if self.unsaid.remove(&owned.id.0)
            && let Some(known) = self.known.get(&owned.id.0)
        {
            known.names.recall(&mut bytes);
        }
        bytes.extend_from_slice(&self.learn(owned));
        owned.put(&mut bytes);
        put(&mut bytes, &ProviderSection { id: PROVIDER });
        owned.losses.iter().for_each(|loss| loss.put(&owned.name, owned.process, &mut bytes));
        (self.archive)(bytes);
    }
}

fn put_words(bytes: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
}

fn put(bytes: &mut Vec<u8>, record: &impl Record) {
    // A name that the format cannot express was not let in at registration.
    let written = record.write(bytes);
    debug_assert!(written.is_ok(), "{written:?}");
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use fxt_reader::{Reader, Record as Read};
    use fxt_writer::record::Initialization;

    use super::*;

    fn piece(ticks: u64) -> Piece {
        let mut durable = Vec::new();
        Initialization { ticks_per_second: ticks }.write(&mut durable).expect("a vector");
        Piece { durable, ..Piece::default() }
    }

    /// What a provider with this id hands over.
    fn owned(id: u32, piece: Piece, dropped: bool) -> Owned {
        let loss = RecordLoss { records: Some(3), since: Nanos(5), until: Nanos(9) };
        let losses = if dropped { vec![loss] } else { Vec::new() };
        Owned { id: ProviderId(id), name: "app".into(), process: Koid(77), piece, losses }
    }

    fn output(capacity: usize) -> (Output, Arc<Mutex<Vec<u8>>>) {
        let archive = Arc::new(Mutex::new(Vec::new()));
        let theirs = archive.clone();
        let write = move |bytes: Vec<u8>| theirs.lock().expect("no panic").extend(bytes);
        (Output::new(Box::new(write), capacity, false), archive)
    }

    /// What is in the archive, in a word each.
    fn shown(archive: &Mutex<Vec<u8>>) -> Vec<String> {
        let mut whole = 0x0016_5478_4604_0010_u64.to_le_bytes().to_vec();
        whole.extend(&*archive.lock().expect("no panic"));
        let mut reader = Reader::from_slice(&whole);
        let mut shown = Vec::new();
        while let Some(item) = reader.next().expect("a sound archive") {
            shown.push(match item.record {
                Read::ProviderInfo(info) => format!("info {} {}", info.id.0, info.name),
                Read::ProviderSection(section) => format!("section {}", section.id.0),
                Read::ProviderEvent(event) => format!("event {}", event.id.0),
                Read::Initialization(record) => format!("ticks {}", record.ticks_per_second),
                Read::Event(event) => {
                    let number = |name| match event.args.get(name) {
                        Some(fxt_reader::record::Value::UInt32(number)) => number,
                        other => panic!("{name} is {other:?}"),
                    };
                    let (name, time, process) = (event.name, event.time.0, event.thread.process.0);
                    format!(
                        "{name} of {process} at {time}: {} in {}",
                        number("count"),
                        number("during_ns")
                    )
                }
                _ => continue,
            });
        }
        shown
    }

    #[test]
    fn a_provider_is_introduced_once_and_each_piece_leads_back_to_fxtrec() {
        let (mut output, archive) = output(0);
        output.take(owned(7, piece(1), false));
        output.take(owned(7, Piece::default(), false));
        output.take(owned(7, piece(2), true));
        let expected = [
            "info 7 app",
            "section 7",
            "ticks 1",
            "section 1",
            "section 7",
            "ticks 2",
            "event 7",
            "section 1",
            "lost_records of 77 at 9: 3 in 4",
        ];
        assert_eq!(shown(&archive), expected);
    }

    #[test]
    fn what_is_held_is_written_when_it_may_be_and_the_oldest_goes_first_when_it_is_too_much() {
        let (mut output, archive) = output(40);
        output.hold();
        for ticks in 1..=3 {
            output.take(owned(ticks as u32 + 1, piece(ticks), false));
        }
        assert!(shown(&archive).is_empty());
        output.release();
        assert_eq!(output.forgotten, 1);
        let ticks: Vec<_> =
            shown(&archive).into_iter().filter(|text| text.starts_with("ticks")).collect();
        assert_eq!(ticks, ["ticks 2", "ticks 3"]);
        output.take(owned(5, piece(4), false));
        assert_eq!(shown(&archive).last().expect("written at once"), "section 1");
    }
}
