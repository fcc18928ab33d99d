//! Reads memory that is being written to.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::engine::Full;
use crate::engine::header::HELD;
use crate::engine::memory::claim_word;

#[test]
fn a_view_takes_nothing_out() {
    for mode in [Mode::Streaming, Mode::Circular, Mode::Oneshot] {
        let mut provider = Provider::new(mode);
        if mode != Mode::Oneshot {
            provider.register(1);
        }
        (0..30).for_each(|number| provider.write(number));
        let view = |provider: &Provider| provider.remote.view(&mut |_| true).expect("a header");
        let first = view(&provider);
        assert_eq!(numbers(&first.rolling), (0..30).collect::<Vec<_>>(), "{mode:?}");
        assert_eq!(view(&provider), first, "{mode:?}");
        if mode == Mode::Streaming {
            // The requested save still works, and later views do not see the records.
            let packet = provider.inbox.try_recv().expect("the first buffer is full");
            provider.save(packet);
            let left = view(&provider);
            assert_eq!(numbers(&left.rolling), (17..30).collect::<Vec<_>>());
            assert!(left.durable.is_empty());
        }
        provider.rest();
        assert_eq!(provider.numbers(), (0..30).collect::<Vec<_>>(), "{mode:?}");
        assert_eq!(provider.durable, first.durable, "{mode:?}");
    }
}

#[test]
fn a_record_in_the_making_is_not_in_a_view_and_those_around_it_are() {
    let provider = Provider::new(Mode::Circular);
    provider.write(1);
    let engine = provider.engine.clone();
    let mut lane = engine.rolling();
    let mut slot = lane.reserve(5).expect("there is room");
    slot.put(EVENT);
    provider.write(2);
    let piece = provider.remote.view(&mut |_| true).expect("a header");
    assert_eq!((numbers(&piece.rolling), piece.tally.unfinished), (vec![1, 2], 1));
    drop(slot);
}

/// Memory that a simulated writer changes while it is read: from some load on, it executes a few stores before each load.
struct WrittenTo {
    words: RefCell<Vec<u64>>,
    stores: Vec<(usize, u64)>,
    made: Cell<usize>,
    loads: Cell<usize>,
    first: usize,
    pace: usize,
}

impl SharedWords for WrittenTo {
    fn words(&self) -> usize {
        self.words.borrow().len()
    }

    fn load(&self, index: usize) -> u64 {
        let load = self.loads.replace(self.loads.get() + 1);
        let mut words = self.words.borrow_mut();
        if load >= self.first {
            let made = self.made.get();
            let now = self.stores.iter().skip(made).take(self.pace);
            now.for_each(|&(at, word)| words[at] = word);
            self.made.set((made + self.pace).min(self.stores.len()));
        }
        words[index]
    }
}

/// Views memory while `stores` are executed in it, starting at every point of the view and at several paces; `check` gets each view. A pace
/// of 0 executes no store.
fn view_through(
    memory: &[u64],
    stores: &[(usize, u64)],
    mode: Mode,
    check: impl Fn(&Piece, usize),
) -> usize {
    let mut views = 0;
    for pace in [0, 1, 2, 3, 5, 20, stores.len()] {
        for first in 0.. {
            let words = WrittenTo {
                words: RefCell::new(memory.to_vec()),
                stores: stores.to_vec(),
                made: Cell::new(0),
                loads: Cell::new(0),
                first,
                pace,
            };
            let remote = Remote::new(words, mode).expect("a size in range");
            let piece = remote.view(&mut |_| true).expect("a header");
            check(&piece, pace);
            views += 1;
            if pace == 0 || remote.words.loads.get() <= first {
                break;
            }
        }
    }
    views
}

/// The stores with which a writer writes event `number` at word `at`.
fn stores_of_event(at: usize, number: u64) -> [(usize, u64); 4] {
    [(at, claim_word(3)), (at + 1, number), (at + 2, !number), (at, EVENT)]
}

#[test]
fn records_that_are_written_while_they_are_read_are_whole_or_not_there() {
    let provider = Provider::new(Mode::Circular);
    (0..10).for_each(|number| provider.write(number));
    let base = provider.engine.division.rolling_base(0) + 30;
    let new = (0..5_usize).flat_map(|count| stores_of_event(base + 3 * count, 10 + count as u64));
    let stores: Vec<_> = new.collect();
    let views = view_through(&provider.memory(), &stores, Mode::Circular, |piece, _| {
        let seen = numbers(&piece.rolling);
        assert_eq!(seen, (0..seen.len() as u64).collect::<Vec<_>>());
        assert!((10..=15).contains(&seen.len()) && piece.tally.torn == 0, "{piece:?}");
    });
    assert!(views > 500, "{views}");
}

#[test]
fn a_room_that_is_claimed_while_others_behind_it_are_filled_hides_none_of_them() {
    let provider = Provider::new(Mode::Circular);
    (0..3).for_each(|number| provider.write(number));
    let mut memory = provider.memory();
    let base = provider.engine.division.rolling_base(0);
    // The writer has only reserved the room of the second record.
    memory[base + 3..base + 6].fill(0);
    let stores = stores_of_event(base + 3, 1);
    view_through(&memory, &stores, Mode::Circular, |piece, _| {
        let seen = numbers(&piece.rolling);
        assert!(seen == [0, 2] || seen == [0, 1, 2], "{seen:?}");
    });
}

#[test]
fn a_buffer_that_is_used_again_while_it_is_read_is_never_mixed_with_what_was_in_it() {
    let provider = Provider::new(Mode::Circular);
    (0..20).for_each(|number| provider.write(number));
    let memory = provider.memory();
    let division = provider.engine.division;
    let (base, whole) = (division.rolling_base(0), (division.rolling * WORD_BYTES) as u64);
    // The engine's stores when the second buffer is full, in order.
    let mut stores = vec![(6, whole), (10, whole)];
    stores.extend((base..base + 51).map(|index| (index, 0)));
    stores.extend([(1, memory[1] + (1 << 32)), (6, 0), (10, 0), (7, 72), (11, 0)]);
    stores.extend((0..5_usize).flat_map(|count| {
        // The second buffer has three records, 17 to 19.
        stores_of_event(base + 3 * count, 20 + count as u64)
    }));
    let views = view_through(&memory, &stores, Mode::Circular, |piece, pace| {
        let seen = numbers(&piece.rolling);
        let expected = *seen.first().expect("the second buffer is always there")..;
        assert_eq!(seen, expected.take(seen.len()).collect::<Vec<_>>(), "pace {pace}");
        assert!(seen.contains(&17) && seen.contains(&19), "{seen:?}");
        assert_eq!((piece.tally.torn, piece.tally.cut_bytes), (0, 0), "another look settles it");
    });
    assert!(views > 1000, "{views}");
}

/// Memory that is reused at every view.
struct Restless(RefCell<Vec<u64>>);

impl SharedWords for Restless {
    fn words(&self) -> usize {
        self.0.borrow().len()
    }

    fn load(&self, index: usize) -> u64 {
        let mut words = self.0.borrow_mut();
        if index == 1 {
            words[1] = words[1].wrapping_add(2 << 32);
        }
        words[index]
    }
}

#[test]
fn buffers_that_never_rest_are_left_out_and_counted() {
    let provider = Provider::new(Mode::Circular);
    provider.register(1);
    (0..20).for_each(|number| provider.write(number));
    let words = Restless(RefCell::new(provider.memory()));
    let mut remote = Remote::new(words, Mode::Circular).expect("a size in range");
    for piece in [remote.view(&mut |_| true), remote.rest(&mut |_| true)] {
        let piece = piece.expect("a header");
        assert!(piece.rolling.is_empty());
        assert_eq!((piece.durable.len(), piece.tally.torn), (2, 2), "names are there");
    }
}

/// An engine whose buffers are all reused whenever its header is read, unless its writers are held.
struct Hasty(Arc<Engine>);

impl Hasty {
    fn write(&self, number: u64) -> Result<(), Full> {
        let mut lane = self.0.rolling();
        let mut slot = lane.reserve(3)?;
        slot.put(number);
        slot.put(!number);
        slot.finish(EVENT);
        Ok(())
    }
}

impl SharedWords for Hasty {
    fn words(&self) -> usize {
        self.0.words()
    }

    fn load(&self, index: usize) -> u64 {
        if index == 0 {
            // Two buffers of 17 records.
            let _ = (0..40).try_for_each(|number| self.write(number));
        }
        self.0.load(index)
    }

    fn exchange(&self, index: usize, value: u64) {
        self.0.exchange(index, value);
    }
}

#[test]
fn a_view_of_buffers_that_are_reused_all_the_time_holds_their_writers_and_lets_them_go() {
    let provider = Provider::new(Mode::Circular);
    provider.register(1);
    let remote = Remote::new(Hasty(provider.engine.clone()), Mode::Circular);
    let remote = remote.expect("a size in range");
    let piece = remote.view(&mut |_| true).expect("a header");
    let dropped = provider.engine.dropped();
    assert_eq!((piece.tally.torn, piece.held, piece.durable.len()), (0, true, 2));
    let seen = numbers(&piece.rolling);
    assert!(seen.len() >= 17, "the buffer that is not written any more is whole: {seen:?}");
    assert!(dropped > 0, "writers found no room");
    for number in 0..100 {
        remote.words.write(number).expect("the buffers are reused again");
    }
    assert_eq!(provider.engine.dropped(), dropped);
}

#[test]
fn a_view_of_buffers_at_rest_holds_nobody() {
    let provider = Provider::new(Mode::Circular);
    (0..60).for_each(|number| provider.write(number));
    let piece = provider.remote.view(&mut |_| true).expect("a header");
    assert_eq!((piece.held, piece.tally.torn), (false, 0));
}

#[test]
fn a_blocked_writer_that_was_held_continues_when_the_reader_releases_it() {
    let (packets, _inbox) = mpsc::channel();
    let config =
        Config { mode: Mode::Circular, bytes: BYTES, on_full: OnFull::Block, ..Config::default() };
    let engine = Engine::new(config, move |packet| packets.send(packet).unwrap_or(()));
    let hasty = Hasty(engine.expect("a size in range"));
    hasty.exchange(HELD, 1);
    let theirs = Hasty(hasty.0.clone());
    let (done, is_done) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        let written = (0..40).try_for_each(|number| theirs.write(number));
        done.send(written).expect("the test listens");
    });
    // One buffer of 17 records, while the second does not exist.
    let wait = std::time::Duration::from_secs(20);
    let until = std::time::Instant::now() + wait;
    while hasty.0.position().offset() < 51 && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!((hasty.0.position().offset(), hasty.0.position().wrapped()), (51, 0));
    assert!(is_done.try_recv().is_err(), "it waits");
    hasty.exchange(HELD, 0);
    assert_eq!(is_done.recv_timeout(wait), Ok(Ok(())));
    writer.join().expect("no panic");
    assert_eq!(hasty.0.dropped(), 0);
}

/// Makes the threads of a scope end, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_look_at_an_engine_under_full_load_shows_what_its_threads_wrote_in_order() {
    let provider = Provider::of(Mode::Circular, 32 * 1024);
    let over = AtomicBool::new(false);
    let (mut records, mut wrapped) = (0, 0);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (engine, over) = (provider.engine.clone(), &over);
            scope.spawn(move || {
                let mut number = thread << 32;
                while !over.load(Ordering::Relaxed) {
                    let mut lane = engine.rolling();
                    // No room at the moment: let the other thread write.
                    let Ok(mut slot) = lane.reserve(3) else { continue };
                    slot.put(number);
                    slot.put(!number);
                    slot.finish(EVENT);
                    number += 1;
                }
            });
        }
        let ends = Ends(&over);
        // Until the views have read enough records and the buffers were reused often enough.
        while records < 100_000 || wrapped < 100 {
            let piece = provider.remote.view(&mut |_| true).expect("a header");
            assert_eq!((piece.tally.cut_bytes, piece.tally.torn), (0, 0), "{:?}", piece.tally);
            let seen = numbers(&piece.rolling);
            for thread in 0..2 {
                let own = seen.iter().filter(|number| **number >> 32 == thread);
                let own: Vec<_> = own.collect();
                assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "{own:?}");
            }
            records += seen.len();
            wrapped = provider.engine.header().expect("a header").wrapped_count;
        }
        drop(ends);
    });
}
