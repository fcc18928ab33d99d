//! Follows a circular buffer while it is written.

use super::*;
use crate::engine::memory::{claim_word, vacant_word};

fn follow(provider: &Provider, cursor: &mut Cursor) -> Piece {
    provider.remote.follow(cursor, false, &mut |_| true).expect("a header")
}

#[test]
fn each_look_has_what_came_since_the_last_one_through_all_fillings() {
    let (provider, mut cursor) = (Provider::new(Mode::Circular), Cursor::default());
    provider.register(1);
    let (mut seen, mut durable, mut written) = (Vec::new(), 0, 0);
    // A buffer has room for 17 of these.
    for count in [0, 1, 0, 16, 5, 17, 17, 3, 0, 12] {
        (0..count).for_each(|_| {
            provider.write(written);
            written += 1;
        });
        let piece = follow(&provider, &mut cursor);
        assert_eq!((piece.tally.torn, piece.tally.cut_bytes), (0, 0));
        seen.extend(numbers(&piece.rolling));
        durable += piece.durable.len();
        assert_eq!(seen, (0..written).collect::<Vec<_>>());
    }
    assert_eq!(durable, 2, "a string, once");
    let all = provider.remote.view(&mut |_| true).expect("a header");
    assert!(all.rolling.len() > 17, "nothing was taken");
}

#[test]
fn what_was_reused_before_a_look_is_counted_and_the_next_looks_continue() {
    let (provider, mut cursor) = (Provider::new(Mode::Circular), Cursor::default());
    provider.write(0);
    follow(&provider, &mut cursor);
    (1..60).for_each(|number| provider.write(number));
    let piece = follow(&provider, &mut cursor);
    assert_eq!((piece.tally.torn, numbers(&piece.rolling).last()), (1, Some(&59)));
    provider.write(60);
    let piece = follow(&provider, &mut cursor);
    assert_eq!((piece.tally.torn, numbers(&piece.rolling)), (0, vec![60]));
}

#[test]
fn a_record_in_the_making_is_seen_once_it_is_whole() {
    let (provider, mut cursor) = (Provider::new(Mode::Circular), Cursor::default());
    let engine = provider.engine.clone();
    let mut lane = engine.rolling();
    let mut slot = lane.reserve(3).expect("there is room");
    slot.put(1);
    provider.write(2);
    assert_eq!(numbers(&follow(&provider, &mut cursor).rolling), [2]);
    assert_eq!(numbers(&follow(&provider, &mut cursor).rolling), []);
    slot.put(!1);
    slot.finish(EVENT);
    provider.write(3);
    assert_eq!(numbers(&follow(&provider, &mut cursor).rolling), [1, 3]);
}

/// Memory in which a writer executes one store before each load, starting at a given load.
struct WrittenTo {
    words: RefCell<Vec<u64>>,
    stores: RefCell<std::vec::IntoIter<(usize, u64)>>,
    first: usize,
    loads: std::cell::Cell<usize>,
}

impl WrittenTo {
    fn store(&self) {
        if let Some((at, word)) = self.stores.borrow_mut().next() {
            self.words.borrow_mut()[at] = word;
        }
    }
}

impl SharedWords for WrittenTo {
    fn words(&self) -> usize {
        self.words.borrow().len()
    }

    fn load(&self, index: usize) -> u64 {
        if self.loads.replace(self.loads.get() + 1) >= self.first {
            self.store();
        }
        self.words.borrow()[index]
    }
}

/// A thread fills the rest of one piece, and continues in another one behind it.
#[test]
fn records_of_a_thread_are_seen_in_order_while_it_goes_from_one_piece_to_the_next() {
    let provider = Provider::new(Mode::Circular);
    provider.write(0);
    let mut memory = provider.memory();
    let base = provider.engine.division.rolling_base(0);
    // Room for two more records, then another thread's record.
    memory[base + 3] = vacant_word(6);
    memory[base + 9..base + 12].copy_from_slice(&[EVENT, 100, !100]);
    let event = |at: usize, number: u64, left: usize| {
        let rest = (left > 0).then(|| (at + 3, vacant_word(left)));
        let content = [(at, claim_word(3 + left)), (at + 1, number), (at + 2, !number)];
        content.into_iter().chain(rest).chain([(at, EVENT)])
    };
    let stores: Vec<(usize, u64)> = event(base + 3, 1, 3)
        .chain(event(base + 6, 2, 0))
        .chain([(base + 12, vacant_word(9))])
        .chain(event(base + 12, 3, 6))
        .chain(event(base + 15, 4, 3))
        .collect();
    let mut looks = 0;
    for first in 0.. {
        let words = WrittenTo {
            words: RefCell::new(memory.clone()),
            stores: RefCell::new(stores.clone().into_iter()),
            first,
            loads: std::cell::Cell::new(0),
        };
        let remote = Remote::new(words, Mode::Circular).expect("a size in range");
        let mut cursor = Cursor::default();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let piece = remote.follow(&mut cursor, false, &mut |_| true).expect("a header");
            assert_eq!((piece.tally.torn, piece.tally.cut_bytes), (0, 0));
            seen.extend(numbers(&piece.rolling).into_iter().filter(|number| *number != 100));
            assert!(seen.iter().zip(0..).all(|(seen, number)| *seen == number), "{seen:?}");
            looks += 1;
        }
        let during = remote.words.loads.get();
        stores.iter().for_each(|_| remote.words.store());
        let piece = remote.follow(&mut cursor, true, &mut |_| true).expect("a header");
        seen.extend(numbers(&piece.rolling).into_iter().filter(|number| *number != 100));
        assert_eq!(seen, [0, 1, 2, 3, 4], "from load {first} on");
        if during <= first {
            break;
        }
    }
    assert!(looks > 100, "{looks}");
}
