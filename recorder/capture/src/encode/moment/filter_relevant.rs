//! Selects the records from which the machine's state at the beginning of a trace can be derived.
//!
//! Most records are irrelevant for this: a CPU's second switch, a wakeup of a thread that does not wait at the end, a duration that begins
//! and ends. These are recognized by their first words, without being parsed, and left out.
//!
//! ```text
//!   trace     switch of 0 | switch of 0 | wakeup of c | begin f, end f | end g | lost | switch of 1
//!   essence   switch of 0 |             |             |                | end g | lost | switch of 1
//! ```
//!
//! The first record with a time is always kept, because it marks the beginning.

use fxt_writer::layout::scheduling::{self, context_switch, thread_wakeup};
use fxt_writer::layout::{event, header, record_type, string_ref, thread_ref, walk};
use fxt_writer::{Koid, Text};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{MachineState, Track};
use crate::encode::strings;

const WORD: usize = size_of::<u64>();

/// The category of fxtrec's own events, if the head does not register it as a string.
const OWN: &[u8] = b"fxtrec";

/// The records of `pieces` that are relevant to [`rewind`](super::rewind::rewind), with `now` at their end. `None` if this cannot be
/// determined: a record is cut by the end of a piece, a record is malformed, or a duration is on a thread of the thread table.
pub(super) fn filter_relevant(pieces: &[&[u8]], now: &MachineState) -> Option<Vec<u8>> {
    let mut filter = Filter::new(now);
    for piece in pieces {
        let mut end = 0;
        for record in walk::records_in_bytes(piece) {
            filter.take(record)?;
            end += record.len();
        }
        if end < piece.len() {
            return None;
        }
    }
    Some(filter.finish())
}

/// The word at this index, if the record has that many.
#[inline(always)]
fn word(record: &[u8], number: usize) -> Option<u64> {
    let bytes = record.get(number * WORD..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

#[derive(Debug)]
struct Filter<'a> {
    kept: Vec<u8>,
    /// Whether the trace has begun: there was a record with a time.
    begun: bool,
    /// A bit for each CPU that has switched.
    switched: Vec<u64>,
    /// The threads that wait at the end and have had no record so far.
    unseen: FxHashSet<Koid>,
    /// A bit for each of them, chosen by the lowest bits of its id, so that most other threads need no search.
    perhaps: u64,
    /// The spans that have begun and not ended, the outermost first.
    open: FxHashMap<Track, Vec<&'a [u8]>>,
}

impl<'a> Filter<'a> {
    fn new(now: &MachineState) -> Filter<'a> {
        let mut filter = Filter {
            kept: Vec::new(),
            begun: false,
            switched: Vec::new(),
            unseen: now.waiting.keys().copied().collect(),
            perhaps: 0,
            open: FxHashMap::default(),
        };
        filter.find_bits();
        filter
    }

    fn find_bits(&mut self) {
        self.perhaps = self.unseen.iter().fold(0, |bits, koid| bits | bit(koid.0));
    }

    /// `None` if the record has too few words, or is of a kind that this filter does not know.
    #[inline(always)]
    fn take(&mut self, record: &'a [u8]) -> Option<()> {
        let first = word(record, 0)?;
        match header::TYPE.get(first) {
            record_type::SCHEDULING => match scheduling::SCHEDULING_TYPE.get(first) {
                scheduling::CONTEXT_SWITCH => {
                    let (out, inn) = (word(record, 2)?, word(record, 3)?);
                    let cpu = context_switch::CPU.get(first);
                    if self.is_first_of(cpu) | self.concerns(out) | self.concerns(inn) {
                        self.switch(record, cpu, [out, inn]);
                    }
                }
                scheduling::THREAD_WAKEUP => {
                    let koid = word(record, thread_wakeup::FIXED_WORDS - 1)?;
                    if !self.begun | self.concerns(koid) {
                        self.wakeup(record, koid);
                    }
                }
                _ => self.keep(record),
            },
            record_type::EVENT => self.event(first, record)?,
            // These are needed to understand other records.
            record_type::METADATA
            | record_type::INITIALIZATION
            | record_type::STRING
            | record_type::THREAD => self.keep(record),
            _ => {}
        }
        Some(())
    }

    /// Whether the CPU has not switched yet.
    #[inline(always)]
    fn is_first_of(&self, cpu: u64) -> bool {
        let word = self.switched.get((cpu / 64) as usize);
        word.is_none_or(|word| word & bit(cpu) == 0)
    }

    /// Whether the thread may be waiting at the end.
    #[inline(always)]
    fn concerns(&self, koid: u64) -> bool {
        self.perhaps & bit(koid) != 0
    }

    #[cold]
    fn switch(&mut self, record: &[u8], cpu: u64, koids: [u64; 2]) {
        let first = self.is_first_of(cpu);
        if first {
            // CPU numbers have 16 bits.
            let at = (cpu / 64) as usize;
            if at >= self.switched.len() {
                self.switched.resize(at + 1, 0);
            }
            self.switched[at] |= bit(cpu);
        }
        let seen = koids.map(|koid| self.see(koid));
        if first || seen.contains(&true) {
            self.keep(record);
        }
    }

    #[cold]
    fn wakeup(&mut self, record: &[u8], koid: u64) {
        if self.see(koid) | !self.begun {
            self.keep(record);
        }
    }

    /// Stores a record of the thread; returns whether this is the first record of a thread that waits at the end.
    fn see(&mut self, koid: u64) -> bool {
        let seen = self.unseen.remove(&Koid(koid));
        if seen {
            self.find_bits();
        }
        seen
    }

    /// Keeps a record with a time.
    fn keep(&mut self, record: &[u8]) {
        let first = word(record, 0).unwrap_or_default();
        self.begun |=
            matches!(header::TYPE.get(first), record_type::SCHEDULING | record_type::EVENT);
        self.kept.extend_from_slice(record);
    }

    #[inline(never)]
    fn event(&mut self, first: u64, record: &'a [u8]) -> Option<()> {
        let inline = event::THREAD.get(first) == thread_ref::INLINE;
        let names = if inline { 4 } else { 2 };
        if is(event::CATEGORY.get(first), strings::FXTREC, OWN, record.get(names * WORD..)?) {
            // Such an event only reports losses, and does not begin a trace.
            self.kept.extend_from_slice(record);
            return Some(());
        }
        let kind = event::EVENT_TYPE.get(first);
        if !matches!(kind, event::DURATION_BEGIN | event::DURATION_END) {
            if !self.begun {
                self.keep(record);
            }
            return Some(());
        }
        // A track given by its index in the thread table may also appear inline.
        if !inline {
            return None;
        }
        let open = self.open.entry((Koid(word(record, 2)?), Koid(word(record, 3)?))).or_default();
        match kind {
            event::DURATION_BEGIN if self.begun => open.push(record),
            event::DURATION_END if open.pop().is_some() => {}
            _ => self.keep(record),
        }
        Some(())
    }

    /// A span that is open at the end follows all spans on its track that have ended.
    fn finish(mut self) -> Vec<u8> {
        for record in self.open.into_values().flatten() {
            self.kept.extend_from_slice(record);
        }
        self.kept
    }
}

#[inline(always)]
fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

/// Whether a string ref is the known string. An inline name is at the beginning of `rest`.
fn is(reference: u64, known: Text<'_>, text: &[u8], rest: &[u8]) -> bool {
    match known {
        Text::Indexed(index) if string_ref::INLINE.get(reference) == 0 => {
            reference == index.encoded()
        }
        _ if string_ref::INLINE.get(reference) == 1 => {
            let length = string_ref::VALUE.get(reference);
            length == text.len() as u64 && rest.starts_with(text)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::moment::rewind::{rewind, rewind_trace};
    use crate::encode::moment::{Label, RunnableThread, Span};
    use fxt_reader::Reader;
    use fxt_writer::record::{
        ContextSwitch, Event, EventKind, Magic, Record, ThreadRecord, ThreadState,
    };
    use fxt_writer::{ThreadName, ThreadRef, Ticks};

    const TRACKS: u64 = 3;

    fn head() -> Vec<u8> {
        let mut head = Vec::new();
        Magic.write(&mut head).expect("memory");
        strings::write(&mut head).expect("memory");
        head
    }

    fn track(number: u64) -> ThreadName {
        ThreadName::Inline { process: Koid(7), thread: Koid(number) }
    }

    fn put(out: &mut Vec<u8>, kind: EventKind, thread: ThreadName, names: [&str; 2]) {
        let [category, name] = names.map(Text::Inline);
        let event = Event { kind, time: Ticks(5), thread, category, name, args: &[] };
        event.write(out).expect("memory");
    }

    fn span(name: &str) -> Span {
        let own = |text: &str| Label::Own(text.to_owned());
        Span { category: own("code"), name: own(name) }
    }

    /// The beginning that the selected records determine, which must be that of the whole trace.
    fn begun(records: &[u8], now: &MachineState) -> MachineState {
        let essential = filter_relevant(&[records], now).expect("sound records");
        assert!(essential.len() <= records.len());
        let few = rewind(&head(), &[records], now).expect("a sound trace");
        let whole = [head(), records.to_vec()].concat();
        let all = rewind_trace(&mut Reader::from_slice(&whole), now).expect("a sound trace");
        assert_eq!(few, all);
        few.map(|(_, moment)| moment).unwrap_or_default()
    }

    #[test]
    fn of_durations_only_those_that_are_cut_matter() {
        let mut records = Vec::new();
        let mut add = |kind, thread, name| put(&mut records, kind, track(thread), ["code", name]);
        add(EventKind::DurationEnd, 1, "inner");
        add(EventKind::DurationBegin, 2, "goes on");
        for _ in 0..1000 {
            add(EventKind::DurationBegin, 1, "whole");
            add(EventKind::DurationEnd, 1, "whole");
            add(EventKind::Instant, 1, "point");
        }
        add(EventKind::DurationEnd, 1, "outer");
        let mut now = MachineState::default();
        now.spans.insert((Koid(7), Koid(2)), vec![span("before"), span("goes on")]);
        assert!(filter_relevant(&[&records], &now).expect("sound").len() < 400);
        let spans = begun(&records, &now).spans;
        assert_eq!(spans[&(Koid(7), Koid(1))], [span("outer"), span("inner")]);
        assert_eq!(spans[&(Koid(7), Koid(2))], [span("before")]);
    }

    #[test]
    fn durations_of_chance_begin_as_all_records_say() {
        let mut chance = 1_u64;
        let mut roll = |sides: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (chance >> 33) % sides
        };
        for _ in 0..200 {
            let (mut records, mut depths) = (Vec::new(), [3_usize; TRACKS as usize]);
            for _ in 0..=roll(30) {
                let thread = roll(TRACKS);
                let depth = &mut depths[thread as usize];
                let kind = match roll(3) {
                    0 => EventKind::Instant,
                    1 if *depth > 0 => EventKind::DurationEnd,
                    _ => EventKind::DurationBegin,
                };
                match kind {
                    EventKind::DurationBegin => *depth += 1,
                    EventKind::DurationEnd => *depth -= 1,
                    _ => {}
                }
                put(&mut records, kind, track(thread), ["code", "f"]);
            }
            let mut now = MachineState::default();
            for (thread, depth) in (0..).zip(depths) {
                now.spans.insert((Koid(7), Koid(thread)), vec![span("f"); depth]);
            }
            let spans = begun(&records, &now).spans;
            // Every open span was already open at the beginning.
            assert!(spans.values().all(|open| open.len() == 3), "{spans:?}");
            assert_eq!(spans.len(), TRACKS as usize);
        }
    }

    #[test]
    fn fxtrecs_own_events_do_not_begin_a_trace_however_they_are_named() {
        let mut records = Vec::new();
        put(&mut records, EventKind::Instant, track(1), ["fxtrec", "lost"]);
        let own = Event {
            kind: EventKind::Instant,
            time: Ticks(5),
            thread: track(1),
            category: strings::FXTREC,
            name: strings::LOST,
            args: &[],
        };
        own.write(&mut records).expect("memory");
        assert!(rewind(&head(), &[&records], &MachineState::default()).expect("sound").is_none());
        let switch = ContextSwitch {
            cpu: 3,
            time: Ticks(6),
            outgoing: Koid(8),
            incoming: Koid(9),
            outgoing_state: ThreadState::Blocked,
            args: &[],
        };
        let mut doubtful = records.clone();
        switch.write(&mut doubtful).expect("memory");
        assert!(begun(&doubtful, &MachineState::default()).cpus.is_empty(), "after a loss");
        let mut sound = Vec::new();
        switch.write(&mut sound).expect("memory");
        let first = RunnableThread { koid: Koid(8), weight: 1024 };
        assert_eq!(begun(&sound, &MachineState::default()).cpus[&3], first);
    }

    #[test]
    fn what_is_not_understood_is_left_to_who_reads_every_record() {
        let now = MachineState::default();
        let mut records = Vec::new();
        put(&mut records, EventKind::DurationEnd, track(1), ["code", "f"]);
        let (first, second) = records.split_at(8);
        assert_eq!(filter_relevant(&[first, second], &now), None, "a record in two pieces");
        let pieces = rewind(&head(), &[first, second], &now).expect("together they are sound");
        assert_eq!(pieces, rewind(&head(), &[&records], &now).expect("sound"));
        assert_eq!(filter_relevant(&[&records[..16]], &now), None, "cut short");
        assert_eq!(filter_relevant(&[&[0; 16]], &now), None, "no record");
        // The record is as long as its header says, but too short for its type.
        let header = header::TYPE.put(record_type::SCHEDULING) | header::SIZE.put(2);
        let header = header | scheduling::SCHEDULING_TYPE.put(scheduling::CONTEXT_SWITCH);
        let short = [header, 5].map(u64::to_le_bytes).concat();
        assert_eq!(filter_relevant(&[&short], &now), None);
        let index = ThreadRef::indexed(1).expect("an index");
        let mut indexed = Vec::new();
        let thread = ThreadRecord { index, process: Koid(7), thread: Koid(1) };
        thread.write(&mut indexed).expect("memory");
        put(&mut indexed, EventKind::DurationEnd, ThreadName::Indexed(index), ["code", "f"]);
        assert_eq!(filter_relevant(&[&indexed], &now), None);
        let (_, moment) =
            rewind(&head(), &[&indexed], &now).expect("sound").expect("it has a time");
        assert_eq!(moment.spans[&(Koid(7), Koid(1))], [span("f")]);
    }
}
