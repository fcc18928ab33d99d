mod follow;
mod live;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use super::super::{Engine, OnFull};
use super::*;
use crate::layout::metadata::MAGIC_WORD;
use crate::layout::string;
use crate::record::{ProviderSection, Record};
use crate::space::{Slot, Space};
use crate::{ProviderId, StringRef};

const BYTES: usize = 1024;

/// Memory that does not change.
impl SharedWords for Vec<u64> {
    fn words(&self) -> usize {
        self.len()
    }

    fn load(&self, index: usize) -> u64 {
        self[index]
    }
}

struct Provider {
    engine: Arc<Engine>,
    inbox: Receiver<Packet>,
    remote: Remote<Arc<Engine>>,
    durable: Vec<u64>,
    rolling: Vec<u64>,
    tally: Tally,
}

impl Provider {
    fn new(mode: Mode) -> Self {
        Self::of(mode, BYTES)
    }

    fn of(mode: Mode, bytes: usize) -> Self {
        let (packets, inbox) = mpsc::channel();
        let config = Config { mode, bytes, on_full: OnFull::Drop, ..Config::default() };
        let engine = Engine::new(config, move |packet| packets.send(packet).unwrap_or(()));
        let engine = engine.expect("a size in range");
        let remote = Remote::new(engine.clone(), mode).expect("a size in range");
        let (durable, rolling) = (Vec::new(), Vec::new());
        Self { engine, inbox, remote, durable, rolling, tally: Tally::default() }
    }

    fn write(&self, number: u64) {
        let mut lane = self.engine.rolling();
        let mut slot = lane.reserve(3).expect("there is room");
        slot.put(number);
        slot.put(!number);
        slot.finish(EVENT);
    }

    fn register(&self, index: u16) {
        assert!(self.try_register(index), "there is room");
    }

    /// Whether there was room; if not, a buffer was handed over to free some.
    fn try_register(&self, index: u16) -> bool {
        let index = StringRef::indexed(index).expect("not zero");
        let record = crate::record::StringRecord { index, content: "string" };
        record.write(&mut self.engine.durable()).is_ok()
    }

    fn save_all(&mut self) {
        while let Ok(packet) = self.inbox.try_recv() {
            self.save(packet);
            self.engine.saved(packet.buffer_saved()).expect("it waits");
        }
    }

    fn keep(&mut self, piece: Piece) {
        self.durable.extend(piece.durable);
        self.rolling.extend(piece.rolling);
        self.tally += piece.tally;
    }

    fn save(&mut self, packet: Packet) {
        let piece = self.remote.save(packet, &mut |_| true).expect("an engine's request");
        self.keep(piece);
    }

    fn rest(&mut self) {
        let piece = self.remote.rest(&mut |_| true).expect("an engine's memory");
        self.keep(piece);
    }

    /// A copy of the memory, as it is now.
    fn memory(&self) -> Vec<u64> {
        (0..self.engine.words()).map(|index| self.engine.load(index)).collect()
    }

    fn numbers(&self) -> Vec<u64> {
        numbers(&self.rolling)
    }

    fn strings(&self) -> Vec<u64> {
        self.durable.chunks(2).map(|record| string::INDEX.get(record[0])).collect()
    }
}

/// The numbers of the events that [`Provider::write`] wrote.
fn numbers(rolling: &[u64]) -> Vec<u64> {
    assert!(rolling.chunks(3).all(|record| record[0] == EVENT && record[1] == !record[2]));
    rolling.chunks(3).map(|record| record[1]).collect()
}

/// The header of an event of three words, whose content no test here reads.
const EVENT: u64 = header::TYPE.put(record_type::EVENT) | header::SIZE.put(3);

#[test]
fn what_an_engine_hands_over_and_what_is_left_is_everything() {
    let mut provider = Provider::new(Mode::Streaming);
    for number in 0..200 {
        while !provider.try_register(number as u16 + 1) {
            provider.save_all();
        }
        provider.write(number);
    }
    provider.rest();
    assert_eq!(provider.numbers(), (0..200).collect::<Vec<_>>());
    assert_eq!(provider.strings(), (1..=200).collect::<Vec<_>>());
    assert_eq!(provider.tally, Tally { records: 400, ..Tally::default() });
    assert!(provider.remote.durable_used() > 0.5, "a ring of four strings was in use");
    // There are no more records.
    provider.rest();
    assert_eq!(provider.tally.records, 400);
}

#[test]
fn a_buffer_is_not_saved_again_when_its_provider_died_before_it_learnt_of_that() {
    let mut provider = Provider::new(Mode::Streaming);
    provider.register(1);
    (0..18).for_each(|number| provider.write(number));
    let packet = provider.inbox.try_recv().expect("the first buffer is full");
    provider.save(packet);
    provider.write(18);
    provider.rest();
    assert_eq!(provider.numbers(), (0..19).collect::<Vec<_>>());
    assert_eq!(provider.strings(), [1]);
}

#[test]
fn a_request_that_was_on_its_way_is_not_needed() {
    let mut provider = Provider::new(Mode::Streaming);
    provider.register(1);
    (0..30).for_each(|number| provider.write(number));
    provider.rest();
    assert_eq!(provider.numbers(), (0..30).collect::<Vec<_>>());
    assert_eq!(provider.strings(), [1]);
}

#[test]
fn a_record_in_the_making_is_all_that_a_kill_costs() {
    let mut provider = Provider::new(Mode::Streaming);
    provider.write(1);
    let engine = provider.engine.clone();
    let mut lane = engine.rolling();
    let mut slot = lane.reserve(5).expect("there is room");
    slot.put(u64::MAX);
    provider.write(2);
    provider.rest();
    assert_eq!(provider.numbers(), [1, 2]);
    assert_eq!(provider.tally.unfinished, 1);
    drop(slot);
}

#[test]
fn a_circular_buffer_is_saved_oldest_first_and_a_oneshot_buffer_from_its_start() {
    let mut provider = Provider::new(Mode::Circular);
    provider.register(1);
    (0..100).for_each(|number| provider.write(number));
    provider.rest();
    assert_eq!(provider.numbers(), (68..100).collect::<Vec<_>>());
    assert_eq!(provider.strings(), [1]);

    let mut provider = Provider::new(Mode::Oneshot);
    (0..10).for_each(|number| provider.write(number));
    provider.rest();
    assert_eq!(provider.numbers(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_buffer_in_the_middle_of_being_cleared_has_no_records() {
    let provider = Provider::new(Mode::Circular);
    (0..20).for_each(|number| provider.write(number));
    let mut memory = provider.memory();
    let division = provider.engine.division;
    // The mark that `clear_part` sets first; then half a record is cleared.
    memory[6] = (division.rolling * WORD_BYTES) as u64;
    memory[10] = memory[6];
    memory[division.rolling_base(0)] = 0;
    let mut remote = Remote::new(memory, Mode::Circular).expect("a size in range");
    let piece = remote.rest(&mut |_| true).expect("a header");
    assert_eq!(piece.tally, Tally { records: 3, ..Tally::default() });
    assert_eq!(piece.rolling[1], 17);
}

#[test]
fn requests_that_cannot_be_are_refused_and_change_nothing() {
    let mut provider = Provider::new(Mode::Streaming);
    provider.register(1);
    (0..18).for_each(|number| provider.write(number));
    let good = provider.inbox.try_recv().expect("the first buffer is full");
    assert_eq!(good, Packet::save_buffer(0, 16));
    let mut refused = |packet| provider.remote.save(packet, &mut |_| true).expect_err("refused");
    let order = |asked| RemoteError::OutOfOrder { asked, expected: 0 };
    assert_eq!(refused(Packet::save_buffer(1, 16)), order(1));
    assert_eq!(refused(Packet::save_buffer(u32::MAX, 16)), order(u32::MAX));
    for end in [15, 72, u64::MAX, 1 << 63] {
        let error = RemoteError::DurableEnd { end, saved: 0, capacity: 64 };
        assert_eq!(refused(Packet::save_buffer(0, end)), error);
    }
    provider.save(good);
    let again = provider.remote.save(good, &mut |_| true).expect_err("refused");
    assert_eq!(again, RemoteError::OutOfOrder { asked: 0, expected: 1 });
    let backwards = Packet::save_buffer(1, 8);
    let backwards = provider.remote.save(backwards, &mut |_| true).expect_err("refused");
    assert_eq!(backwards, RemoteError::DurableEnd { end: 8, saved: 16, capacity: 64 });
    assert_eq!(provider.numbers(), (0..17).collect::<Vec<_>>());

    let mut circular = Provider::new(Mode::Circular);
    let error = circular.remote.save(good, &mut |_| true).expect_err("refused");
    assert_eq!(error, RemoteError::NotStreaming);
}

#[test]
fn an_engine_of_another_kind_than_asked_for_is_not_read() {
    let provider = Provider::new(Mode::Streaming);
    provider.write(1);
    let mut other = Remote::new(provider.memory(), Mode::Circular).expect("a size in range");
    assert_eq!(other.rest(&mut |_| true), Err(RemoteError::NoHeader));
    let mut longer = provider.memory();
    longer.extend([0; 64]);
    let mut longer = Remote::new(longer, Mode::Streaming).expect("a size in range");
    assert_eq!(longer.rest(&mut |_| true), Err(RemoteError::NoHeader));
}

#[test]
fn records_that_providers_may_not_write_are_left_out_and_counted() {
    let mut provider = Provider::new(Mode::Streaming);
    let section = ProviderSection { id: ProviderId(1) };
    section.write(&mut provider.engine.durable()).expect("there is room");
    provider.write(1);
    let mut lane = provider.engine.rolling();
    lane.reserve(1).expect("there is room").finish(MAGIC_WORD);
    (2..5).for_each(|number| provider.write(number));
    let piece = provider.remote.rest(&mut |record| {
        record[1] *= 10;
        record[2] = !record[1];
        record[1] != 30
    });
    provider.keep(piece.expect("an engine's memory"));
    assert_eq!(provider.numbers(), [10, 20, 40]);
    assert!(provider.durable.is_empty());
    assert_eq!(provider.tally, Tally { records: 3, refused: 3, ..Tally::default() });
}

/// Every word of a piece belongs to a whole record of a kind that providers may write.
fn assert_framed(piece: &Piece) {
    for words in [&piece.durable, &piece.rolling] {
        let mut framed = 0;
        let walked = finished_records(words, |_, record| {
            assert_ne!(header::TYPE.get(record[0]), record_type::METADATA);
            framed += record.len();
        });
        assert_eq!((framed, walked.cut), (words.len(), 0));
    }
}

#[test]
fn any_damaged_word_costs_data_and_never_the_framing() {
    let provider = Provider::new(Mode::Streaming);
    for index in 1..5 {
        provider.register(index);
        (0..5).for_each(|number| provider.write(number));
    }
    let packet = provider.inbox.try_recv().expect("the first buffer is full");
    let memory = provider.memory();
    for at in 0..memory.len() {
        for damage in
            [0, 8, u64::MAX, memory[at] ^ 0xf0, memory[at] ^ (1 << 40), memory[at].wrapping_add(8)]
        {
            let mut damaged = memory.clone();
            damaged[at] = damage;
            let mut remote = Remote::new(damaged, Mode::Streaming).expect("a size in range");
            let pieces = [
                remote.view(&mut |_| true),
                remote.save(packet, &mut |_| true),
                remote.rest(&mut |_| true),
            ];
            for piece in pieces {
                match piece {
                    Ok(piece) => assert_framed(&piece),
                    Err(error) => assert!(at < HEADER_WORDS, "{error} by word {at}"),
                }
            }
        }
    }
}

/// Memory that reads differently each time: sometimes the header of an engine,
/// sometimes numbers that look like sizes and records.
struct Fickle {
    honest: Vec<u64>,
    state: RefCell<u64>,
}

impl SharedWords for Fickle {
    fn words(&self) -> usize {
        self.honest.len()
    }

    fn load(&self, index: usize) -> u64 {
        let mut state = self.state.borrow_mut();
        // xorshift64
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        match *state % 8 {
            0 if index >= 5 => *state,
            1 if index >= 5 => *state % 64 * 8,
            2 if index >= HEADER_WORDS => *state & 0xff,
            _ => self.honest[index],
        }
    }
}

#[test]
fn memory_that_changes_while_it_is_read_never_breaks_the_framing() {
    let provider = Provider::new(Mode::Streaming);
    for index in 1..5 {
        provider.register(index);
        (0..5).for_each(|number| provider.write(number));
    }
    let packet = provider.inbox.try_recv().expect("the first buffer is full");
    let mut saved = 0;
    for seed in 1..2000 {
        let words = Fickle { honest: provider.memory(), state: RefCell::new(seed) };
        let mut remote = Remote::new(words, Mode::Streaming).expect("a size in range");
        let pieces = [
            remote.view(&mut |_| true),
            remote.save(packet, &mut |_| true),
            remote.rest(&mut |_| true),
        ];
        for piece in pieces.iter().flatten() {
            assert_framed(piece);
            saved += 1;
        }
    }
    assert!(saved > 100, "{saved} pieces were saved");
}
