//! How providers' records get into the archive.
//!
//! Each piece is enclosed in metadata, so that other writers to the same archive
//! need not know about it:
//!
//! ```text
//!  [ provider info, once ][ section of the provider ][ durable ][ rolling ][ event: buffer filled up ][ section of fxtrec ][ losses ]
//! ```

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use fxt_format::limits::WORD_BYTES;
use fxt_writer::engine::Piece;
use fxt_writer::record::{ProviderEvent, ProviderInfo, ProviderSection, Record};
use fxt_writer::{Koid, ProviderId};

use super::known::{Known, Room};
use super::loss::RecordLoss;
use fxtrec_units::Nanos;
use fxtrec_units::convention::PROVIDER;

/// Accepts whole records of an archive, one piece after another. It may wait for space: meanwhile, providers that fill their buffers drop
/// and count records.
pub type Archive = Box<dyn FnMut(Vec<u8>) + Send>;

/// Space for the records around a piece, in bytes.
const ROOM_BYTES: usize = 64 * WORD_BYTES;

/// A piece and its provider.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) id: ProviderId,
    pub(super) name: Arc<str>,
    pub(super) piece: Piece,
    /// The koid of its process in the trace.
    pub(super) process: Koid,
    /// The provider's losses since the previous piece.
    pub(super) losses: Vec<RecordLoss>,
}

impl Owned {
    /// The size of its records in an archive.
    fn record_bytes(&self) -> usize {
        (self.piece.durable.len() + self.piece.rolling.len()) * WORD_BYTES
    }

    /// The memory that it takes while it is held.
    fn held_bytes(&self) -> usize {
        let words = self.piece.durable.capacity() + self.piece.rolling.capacity();
        let losses = self.losses.capacity() * size_of::<RecordLoss>();
        size_of::<Owned>() + self.name.len() + words * WORD_BYTES + losses
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        put_words(bytes, &self.piece.durable);
        put_words(bytes, &self.piece.rolling);
        if !self.losses.is_empty() {
            put(bytes, &ProviderEvent::buffer_filled_up(self.id));
        }
    }
}

/// The records of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its id in the archive.
    pub id: ProviderId,
    pub name: String,
    /// Whether it continues to record.
    pub goes_on: bool,
    /// The koid of its process in the trace.
    pub process: Koid,
    /// Its records, with everything that they refer to.
    pub records: Vec<u8>,
    /// The losses of the provider.
    pub losses: Vec<RecordLoss>,
}

impl Section {
    /// Appends the piece to an archive that contains nothing of this provider: the provider info, its records, and a switch back to
    /// fxtrec's own section.
    pub fn put(&self, archive: &mut Vec<u8>) {
        put(archive, &ProviderInfo { id: self.id, name: &self.name });
        put(archive, &ProviderSection { id: self.id });
        archive.extend_from_slice(&self.records);
        put(archive, &ProviderSection { id: PROVIDER });
        self.losses.iter().for_each(|loss| loss.put(&self.name, self.process, archive));
    }
}

/// The data of providers that is missing in later archives because of memory limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Strings, and names of threads and processes.
    pub names: u64,
    /// Open spans that are not begun again.
    pub spans: u64,
}

/// The archive, and the pieces held back from it.
pub(super) struct Output {
    archive: Archive,
    /// Providers that the archive knows by name.
    introduced: HashSet<u32>,
    held: VecDeque<Owned>,
    held_bytes: usize,
    /// The maximum amount that is held, in bytes.
    capacity: usize,
    holds: bool,
    /// Whether another archive may begin while providers record.
    divided: bool,
    /// The definitions of pieces that are no longer held and, for a divided archive, their open spans.
    known: BTreeMap<u32, Known>,
    /// The memory of that state.
    known_takes: Room,
    known_most: Room,
    /// The number of held pieces of each provider that has disconnected.
    gone: HashMap<u32, usize>,
    /// Names and open spans for which there was no space, and which are missing in later archives.
    lacking: LeftOut,
    /// Providers for which part of that data is not in the archive either.
    unsaid: HashSet<u32>,
    /// Pieces that were dropped because there were too many.
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
    /// Holds back at most `capacity` bytes on request. A `divided` archive may be [rotated](Output::rotate). An archive is rotated when it
    /// has `archive_bytes`.
    pub(super) fn new(
        archive: Archive,
        capacity: usize,
        divided: bool,
        archive_bytes: u64,
    ) -> Output {
        Output {
            archive,
            introduced: HashSet::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            capacity,
            holds: false,
            divided,
            known: BTreeMap::new(),
            known_takes: Room::default(),
            known_most: Room::for_all(archive_bytes),
            gone: HashMap::new(),
            lacking: LeftOut::default(),
            unsaid: HashSet::new(),
            forgotten: 0,
        }
    }

    /// Holds pieces back until [`Output::release`] or [`Output::discard`].
    pub(super) fn hold(&mut self) {
        self.holds = true;
    }

    /// Writes the held pieces, and from now on all pieces at once.
    pub(super) fn release(&mut self) {
        self.holds = false;
        for owned in std::mem::take(&mut self.held) {
            self.write(&owned);
        }
        self.held_bytes = 0;
        self.let_go();
    }

    /// Discards the held pieces, and writes all further pieces at once.
    pub(super) fn discard(&mut self) {
        self.holds = false;
        self.held.clear();
        self.held_bytes = 0;
        self.let_go();
    }

    /// Begins another archive, in which no provider has been introduced.
    pub(super) fn forget_all(&mut self) {
        self.introduced.clear();
        self.known.clear();
        self.known_takes = Room::default();
        self.lacking = LeftOut::default();
        self.unsaid.clear();
        self.forgotten = 0;
    }

    /// Accepts a piece, unless it is empty.
    pub(super) fn take(&mut self, mut owned: Owned) {
        if owned.piece.is_empty() && owned.losses.is_empty() {
            return;
        }
        if !self.holds {
            return self.write(&owned);
        }
        // It was copied with room for a whole buffer.
        owned.piece.durable.shrink_to_fit();
        owned.piece.rolling.shrink_to_fit();
        self.held_bytes += owned.held_bytes();
        self.held.push_back(owned);
        while self.held_bytes > self.capacity
            && let Some(oldest) = self.held.pop_front()
        {
            self.held_bytes -= oldest.held_bytes();
            self.forgotten += 1;
            let id = oldest.id.0;
            if let Some(pieces) = self.gone.get_mut(&id) {
                *pieces -= 1;
                if *pieces == 0 {
                    self.gone.remove(&id);
                    self.forget_known(id);
                    continue;
                }
            }
            // Later pieces may refer to it.
            self.learn(&oldest);
            self.unsaid.insert(id);
        }
    }

    /// Records that a provider will send no more data.
    pub(super) fn forget(&mut self, id: ProviderId) {
        match self.held.iter().filter(|owned| owned.id == id).count() {
            0 => self.forget_known(id.0),
            pieces => drop(self.gone.insert(id.0, pieces)),
        }
    }

    /// Records that a provider that has disconnected will not be introduced in another archive either.
    pub(super) fn forget_name(&mut self, id: ProviderId) {
        self.introduced.remove(&id.0);
    }

    /// Frees the data about ended providers whose pieces are no longer held.
    fn let_go(&mut self) {
        for id in std::mem::take(&mut self.gone).into_keys() {
            self.forget_known(id);
        }
    }

    fn forget_known(&mut self, id: u32) {
        self.unsaid.remove(&id);
        if let Some(known) = self.known.remove(&id) {
            self.known_takes = self.known_takes.less(known.takes());
        }
    }

    /// The data that is missing in later archives because of memory limits.
    pub(super) fn left_out(&self) -> LeftOut {
        // Dropped pieces are in no archive.
        let waiting = self.known.values().filter(|_| self.holds).map(|it| it.names.left_out());
        LeftOut { names: waiting.fold(self.lacking.names, u64::saturating_add), ..self.lacking }
    }

    /// Ends open spans at `time`, calls `between` to begin another archive, and introduces `providers` there, by id and name. Only for a
    /// divided archive.
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
        for known in self.known.values_mut() {
            self.lacking.spans = self.lacking.spans.saturating_add(known.open.take_left_out());
        }
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

    /// Begins the open spans that have not been begun in this archive yet, when there are no more records.
    pub(super) fn conclude(&mut self) {
        self.add(|known, out| known.open.resume(known.clock(), out));
    }

    /// Writes the records from `make` into the sections of providers.
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
                self.lacking.add_names(known);
            }
            bytes.extend_from_slice(&made);
            put(&mut bytes, &ProviderSection { id: PROVIDER });
            (self.archive)(bytes);
        }
    }

    /// The records of all providers: held pieces, and the `live` pieces of those that continue.
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
            let mut records = Vec::with_capacity(owned.record_bytes() + ROOM_BYTES);
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

    /// Stores the definitions in a piece for later pieces. Returns the begin records to write before it.
    fn learn(&mut self, owned: &Owned) -> Vec<u8> {
        if !self.divided && owned.piece.durable.is_empty() {
            return Vec::new();
        }
        let known = self.known.entry(owned.id.0).or_default();
        let others = self.known_takes.less(known.takes());
        let room = self.known_most.beside(others);
        let mut begun = Vec::new();
        if self.divided {
            begun = known.follow(&owned.piece, room);
        } else {
            known.names.learn(&owned.piece.durable, room.names);
        }
        self.known_takes = others.plus(known.takes());
        begun
    }

    fn write(&mut self, owned: &Owned) {
        let mut bytes = Vec::with_capacity(owned.record_bytes() + ROOM_BYTES);
        if self.introduced.insert(owned.id.0) {
            put(&mut bytes, &ProviderInfo { id: owned.id, name: &owned.name });
        }
        put(&mut bytes, &ProviderSection { id: owned.id });
        if self.unsaid.remove(&owned.id.0)
            && let Some(known) = self.known.get_mut(&owned.id.0)
        {
            known.names.recall(&mut bytes);
            self.lacking.add_names(known);
        }
        bytes.extend_from_slice(&self.learn(owned));
        owned.put(&mut bytes);
        put(&mut bytes, &ProviderSection { id: PROVIDER });
        owned.losses.iter().for_each(|loss| loss.put(&owned.name, owned.process, &mut bytes));
        (self.archive)(bytes);
    }
}

impl LeftOut {
    /// Counts names that were left out of the repeated definitions.
    fn add_names(&mut self, known: &mut Known) {
        self.names = self.names.saturating_add(known.names.take_left_out());
    }
}

fn put_words(bytes: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
}

fn put(bytes: &mut Vec<u8>, record: &impl Record) {
    // Registration rejects names that the format cannot express.
    let written = record.write(bytes);
    debug_assert!(written.is_ok(), "{written:?}");
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use fxt_reader::{Reader, Record as Read};
    use fxt_writer::Text;
    use fxt_writer::record::{Initialization, KernelObject, ObjectType};

    use super::super::names::MAX_NAME_BYTES;
    use super::*;

    fn piece(ticks: u64) -> Piece {
        let mut durable = Vec::new();
        Initialization { ticks_per_second: ticks }.write(&mut durable).expect("a vector");
        Piece { durable, ..Piece::default() }
    }

    /// The records that a provider with this id hands over.
    fn owned(id: u32, piece: Piece, dropped: bool) -> Owned {
        let loss = RecordLoss { records: Some(3), since: Nanos(5), until: Nanos(9) };
        let losses = if dropped { vec![loss] } else { Vec::new() };
        Owned { id: ProviderId(id), name: "app".into(), process: Koid(77), piece, losses }
    }

    fn output(capacity: usize) -> (Output, Arc<Mutex<Vec<u8>>>) {
        let archive = Arc::new(Mutex::new(Vec::new()));
        let theirs = archive.clone();
        let write = move |bytes: Vec<u8>| theirs.lock().expect("no panic").extend(bytes);
        (Output::new(Box::new(write), capacity, false, u64::MAX), archive)
    }

    /// The content of the archive, one word per record.
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
        let held = |ticks| {
            let mut owned = owned(ticks as u32 + 1, piece(ticks), false);
            owned.piece.durable.shrink_to_fit();
            owned
        };
        let (mut output, archive) = output(held(1).held_bytes() * 5 / 2);
        output.hold();
        for ticks in 1..=3 {
            output.take(held(ticks));
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

    /// A thread name of `length` bytes.
    fn named(koid: u64, length: usize) -> Piece {
        let (object_type, name) = (ObjectType::Thread, "n".repeat(length));
        let name = Text::Inline(&name);
        let object = KernelObject { object_type, koid: Koid(koid), name, args: &[] };
        let mut durable = Vec::new();
        object.write(&mut durable).expect("a vector");
        Piece { durable, ..Piece::default() }
    }

    fn kept(output: &Output) -> usize {
        output.known.values().map(|known| known.names.bytes()).sum()
    }

    #[test]
    fn names_of_all_providers_have_a_bound_and_what_a_later_archive_lacks_is_counted() {
        for divided in [false, true] {
            let mut output = Output::new(Box::new(drop), 0, divided, u64::MAX);
            // As long as a record can be, 48 MB in total.
            for koid in 0..500 {
                for id in [2, 3, 4] {
                    output.take(owned(id, named(koid, 32_000), false));
                }
            }
            let bytes = kept(&output);
            assert!(bytes <= MAX_NAME_BYTES && bytes > MAX_NAME_BYTES / 2, "{bytes}");
            assert_eq!(output.known_takes.names, bytes);
            assert_eq!(output.left_out(), LeftOut::default(), "this archive has them all");
            let names = [2, 3, 4].map(|id| (ProviderId(id), "app"));
            output.rotate(Nanos(5), || {}, names.into_iter());
            [2, 3, 4].into_iter().for_each(|id| output.take(owned(id, named(1000, 1), false)));
            let left_out = output.left_out().names;
            assert!((700..1000).contains(&left_out), "{left_out}");
            [2, 3, 4].into_iter().for_each(|id| output.forget(ProviderId(id)));
            assert_eq!((kept(&output), output.known_takes.names), (0, 0));
        }
    }

    #[test]
    fn of_small_archives_names_take_half_at_most() {
        let mut output = Output::new(Box::new(drop), 0, true, 1 << 20);
        for koid in 0..100 {
            [2, 3].into_iter().for_each(|id| output.take(owned(id, named(koid, 32_000), false)));
        }
        assert!((1..=512 << 10).contains(&kept(&output)), "{}", kept(&output));
    }

    #[test]
    fn of_providers_that_are_gone_nothing_is_kept_but_pieces_that_are_held() {
        let (mut output, _) = output(2000);
        output.hold();
        for id in 2..1000 {
            output.take(owned(id, named(1, 100), false));
            output.take(owned(id, named(2, 100), false));
            output.forget(ProviderId(id));
        }
        assert!(output.held_bytes <= 2000 && output.held.len() < 10, "{}", output.held.len());
        let kept = (output.known.len(), output.unsaid.len(), output.gone.len());
        assert!(kept <= (1, 1, 10), "{kept:?}");
        output.release();
        assert_eq!((output.known.len(), output.gone.len(), output.held_bytes), (0, 0, 0));
    }

    #[test]
    fn pieces_without_records_take_memory_too() {
        let (mut output, _) = output(64 << 10);
        output.hold();
        for _ in 0..10_000 {
            output.take(owned(7, Piece::default(), true));
        }
        assert!(output.held.len() * size_of::<Owned>() <= 64 << 10, "{}", output.held.len());
    }
}
