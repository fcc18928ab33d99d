//! Tiles: the exact events of an interval, packed, with the state of all lanes at its start.
//!
//! A tile can be unfolded without the others: it begins with the state of every CPU and thread. The layout is in `docs/reference/page.md`.

use std::io;

use super::columns::{Column, Cursor, unpack};
use super::lanes::{Event, Lanes, Observer, Stamped, Taken, ThreadLane};
use super::state::{self, State};
use super::threads::ThreadIndex;

/// The first byte of an event: a state from 0 to 15 for a switch, or one of these.
pub(super) mod head {
    /// Added to the state if the switch was inferred.
    pub(in crate::page) const INFERRED: u8 = 16;
    /// Added to the state if the outgoing thread is not the CPU's occupant; it is then given.
    pub(in crate::page) const OUTGOING: u8 = 32;
    /// Added to the thread's new state.
    pub(in crate::page) const WAKE: u8 = 64;
    /// Added to the state.
    pub(in crate::page) const CHANGE: u8 = 80;
    pub(in crate::page) const TAKEN: u8 = 96;
    pub(in crate::page) const CLAIM: u8 = 97;
    /// A correction for a thread that ran.
    pub(in crate::page) const CLAIM_RUNNING: u8 = 98;
    pub(in crate::page) const MOVE: u8 = 99;
    pub(in crate::page) const VACATE: u8 = 128;
}

/// The number of states that a head can hold. A wakeup to the first state, unknown, means that the state does not change.
const STATES: u8 = 16;

/// The first head that is not a switch, a wakeup or a change.
const WITHOUT_STATE: u8 = head::CHANGE + STATES;

/// The events of an interval.
#[derive(Debug)]
pub(super) struct Tile {
    /// The time of the first event.
    pub(super) start: u64,
    pub(super) events: u32,
    /// Empty until it is packed.
    pub(super) packed: Vec<u8>,
}

/// Collects the events of the tiles, one tile after another.
#[derive(Debug, Default)]
pub(super) struct TileWriter {
    start: u64,
    last: u64,
    events: u32,
    snapshot: [Column; SNAPSHOT_COLUMNS],
    heads: Column,
    times: Column,
    cpus: Column,
    threads: Column,
    extras: Column,
}

const SNAPSHOT_COLUMNS: usize = 7;

impl TileWriter {
    /// The number of events in the current tile.
    pub(super) fn len(&self) -> u32 {
        self.events
    }

    /// The begin of the current tile.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Adds an event that is not applied to `before` yet.
    pub(super) fn push(&mut self, stamped: Stamped, before: &Lanes) {
        if self.events == 0 {
            self.start = stamped.time;
            self.last = stamped.time;
            self.snapshot = snapshot(before, stamped.time);
        }
        self.events += 1;
        self.times.number(stamped.time.saturating_sub(self.last));
        self.last = stamped.time;
        match stamped.event {
            Event::Switch { cpu, outgoing, state, incoming, inferred } => {
                let given = before.cpu(cpu).thread != Some(outgoing);
                self.heads.byte(
                    state::code(state)
                        + if inferred { head::INFERRED } else { 0 }
                        + if given { head::OUTGOING } else { 0 },
                );
                self.cpus.number(cpu.into());
                self.threads.number(incoming.0.into());
                if given {
                    self.extras.number(outgoing.0.into());
                }
            }
            Event::Wake { cpu, thread, waker, state } => {
                self.heads.byte(head::WAKE + state.map_or(0, state::code));
                self.cpus.number(cpu.into());
                self.threads.number(thread.0.into());
                self.extras.number(optional(waker));
            }
            Event::Move { thread, from, to } => {
                self.heads.byte(head::MOVE);
                self.cpus.number(to.into());
                self.threads.number(thread.0.into());
                self.extras.number(from.into());
            }
            Event::Change { thread, state, since } => {
                self.heads.byte(head::CHANGE + state::code(state));
                self.cpus.number(0);
                self.threads.number(thread.0.into());
                self.extras.number(age(since, stamped.time));
            }
            Event::Claim { cpu, thread, since, ran_since } => {
                self.heads.byte(ran_since.map_or(head::CLAIM, |_| head::CLAIM_RUNNING));
                self.cpus.number(cpu.into());
                self.threads.number(thread.0.into());
                for since in [Some(since), ran_since].into_iter().flatten() {
                    self.extras.number(age(since, stamped.time));
                }
            }
            Event::Taken { cpu, taken } => {
                self.heads.byte(head::TAKEN);
                self.cpus.number(cpu.into());
                for number in [taken.steal, taken.irq, taken.irqs] {
                    self.extras.number(number);
                }
                self.extras.number(taken.asked.map_or(0, |asked| asked.saturating_add(1)));
            }
            Event::Vacate { cpu, length } => {
                self.heads.byte(head::VACATE);
                self.cpus.number(cpu.into());
                self.extras.number(length);
            }
        }
    }

    /// The tile and its columns to be packed, if it has any events; starts the next tile.
    pub(super) fn finish(&mut self) -> Option<(Tile, Vec<Column>)> {
        if self.events == 0 {
            return None;
        }
        let done = std::mem::take(self);
        let mut columns = Vec::from(done.snapshot);
        columns.extend([done.heads, done.times, done.cpus, done.threads, done.extras]);
        Some((Tile { start: done.start, events: done.events, packed: Vec::new() }, columns))
    }
}

/// A thread that may be unknown, as one number.
fn optional(thread: Option<ThreadIndex>) -> u64 {
    thread.map_or(0, |thread| u64::from(thread.0) + 1)
}

/// The time before `now`, as one number; 0 for before the trace.
fn age(since: u64, now: u64) -> u64 {
    if since == 0 { 0 } else { now.saturating_sub(since) + 1 }
}

/// The time for an [`age`].
fn since(age: u64, now: u64) -> Option<u64> {
    if age == 0 { Some(0) } else { now.checked_sub(age - 1) }
}

/// The state of all lanes at time `now`: for each CPU its occupant and when it got the CPU; then for each thread with a known state that
/// state, when it began, the CPU, and the waker.
fn snapshot(lanes: &Lanes, now: u64) -> [Column; SNAPSHOT_COLUMNS] {
    let mut columns: [Column; SNAPSHOT_COLUMNS] = Default::default();
    let [on, on_ages, threads, states, ages, cpus, wakers] = &mut columns;
    for lane in lanes.cpus() {
        on.number(optional(lane.thread));
        on_ages.number(age(lane.since, now));
    }
    let mut next = 0;
    for (index, &ThreadLane { state, since, cpu, waker }) in lanes.threads().iter().enumerate() {
        if state::is_shown(state) {
            threads.number((index - next) as u64);
            next = index + 1;
            states.byte(state::code(state));
            ages.number(age(since, now));
            cpus.number(cpu.into());
            wakers.number(optional(waker));
        }
    }
    columns
}

impl Tile {
    /// Applies this tile to `lanes`, to which all earlier tiles must be applied already. Returns false if the block was not written by a
    /// [`TileWriter`].
    ///
    /// # Errors
    ///
    /// Returns an error when the block cannot be decompressed.
    pub(super) fn replay(
        &self,
        lanes: &mut Lanes,
        observer: &mut impl Observer,
    ) -> io::Result<bool> {
        let bytes = unpack(&self.packed)?;
        Ok(self.replay_unpacked(&bytes, lanes, observer).is_some())
    }

    fn replay_unpacked(
        &self,
        bytes: &[u8],
        lanes: &mut Lanes,
        observer: &mut impl Observer,
    ) -> Option<()> {
        let mut columns = Cursor::new(bytes);
        for _ in 0..SNAPSHOT_COLUMNS {
            columns.column()?;
        }
        let mut events = Events {
            heads: columns.column()?,
            times: columns.column()?,
            cpus: columns.column()?,
            threads: columns.column()?,
            extras: columns.column()?,
            time: self.start,
        };
        for _ in 0..self.events {
            lanes.apply(events.next(lanes)?, observer);
        }
        Some(())
    }
}

/// The event columns of a tile, during reading.
struct Events<'a> {
    heads: Cursor<'a>,
    times: Cursor<'a>,
    cpus: Cursor<'a>,
    threads: Cursor<'a>,
    extras: Cursor<'a>,
    time: u64,
}

impl Events<'_> {
    fn next(&mut self, before: &Lanes) -> Option<Stamped> {
        self.time += self.times.number()?;
        let cpu = u16::try_from(self.cpus.number()?).ok()?;
        let head = self.heads.byte()?;
        let state = || state::from_code(head % STATES);
        let event = match head {
            head::VACATE => Event::Vacate { cpu, length: self.extras.number()? },
            head::TAKEN => {
                let mut number = || self.extras.number();
                let (steal, irq, irqs) = (number()?, number()?, number()?);
                let asked = number()?.checked_sub(1);
                Event::Taken { cpu, taken: Taken { steal, irq, irqs, asked } }
            }
            head::CLAIM | head::CLAIM_RUNNING => {
                let thread = thread(self.threads.number()?)?;
                let mut since = || since(self.extras.number()?, self.time);
                let first = since()?;
                let ran_since = if head == head::CLAIM { None } else { Some(since()?) };
                Event::Claim { cpu, thread, since: first, ran_since }
            }
            head::MOVE => {
                let thread = thread(self.threads.number()?)?;
                let from = u16::try_from(self.extras.number()?).ok()?;
                Event::Move { thread, from, to: cpu }
            }
            other if other >= WITHOUT_STATE => return None,
            head::CHANGE.. => {
                let thread = thread(self.threads.number()?)?;
                let since = since(self.extras.number()?, self.time)?;
                Event::Change { thread, state: state()?, since }
            }
            head::WAKE.. => {
                let thread = thread(self.threads.number()?)?;
                let waker = match self.extras.number()? {
                    0 => None,
                    waker => Some(thread_of(waker)?),
                };
                let state = Some(state()?).filter(|&state| state != State::Unknown);
                Event::Wake { cpu, thread, waker, state }
            }
            _ => {
                let incoming = thread(self.threads.number()?)?;
                let outgoing = if head >= head::OUTGOING {
                    thread(self.extras.number()?)?
                } else {
                    before.cpu(cpu).thread?
                };
                let inferred = head % head::OUTGOING >= head::INFERRED;
                Event::Switch { cpu, outgoing, state: state()?, incoming, inferred }
            }
        };
        Some(Stamped { time: self.time, event })
    }
}

fn thread(number: u64) -> Option<ThreadIndex> {
    u32::try_from(number).ok().map(ThreadIndex)
}

/// The thread for a number of [`optional`] that is not 0.
fn thread_of(number: u64) -> Option<ThreadIndex> {
    thread(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::super::columns::pack;
    use super::*;

    fn finish(writer: &mut TileWriter) -> Option<Tile> {
        writer.finish().map(|(tile, columns)| Tile { packed: pack(&columns).unwrap(), ..tile })
    }

    #[derive(Default)]
    struct Nothing;

    impl Observer for Nothing {
        fn on_cpu(&mut self, _: u16, _: ThreadIndex, _: u64, _: u64) {}
        fn in_state(&mut self, _: ThreadIndex, _: State, _: u64, _: u64) {}
    }

    fn events() -> Vec<Stamped> {
        let thread = ThreadIndex;
        let taken = Taken { steal: 70, irq: 300, irqs: 2, asked: Some(0) };
        let switch = |outgoing, state, incoming| Event::Switch {
            cpu: 3,
            outgoing: thread(outgoing),
            state,
            incoming: thread(incoming),
            inferred: incoming == 9,
        };
        let wake = |cpu, thread_index, waker, state| Event::Wake {
            cpu,
            thread: thread(thread_index),
            waker,
            state,
        };
        [
            (1_000, Event::Claim { cpu: 3, thread: thread(1), since: 0, ran_since: Some(0) }),
            (1_000, switch(1, State::Sleeping, 0)),
            (1_400, wake(3, 1, Some(thread(0)), Some(State::WokenThrottled))),
            (2_000, Event::Move { thread: thread(1), from: 3, to: 200 }),
            (90_000, Event::Change { thread: thread(1), state: State::Woken, since: 50_000 }),
            (90_000, switch(0, State::Preempted, 1)),
            (90_500, Event::Taken { cpu: 3, taken }),
            (90_500, switch(7, State::Zombie, 9)),
            (95_000, Event::Vacate { cpu: 3, length: 4_500 }),
            (95_001, wake(70, 300, None, None)),
            (95_001, Event::Claim { cpu: 3, thread: thread(300), since: 95_000, ran_since: None }),
            (95_001, switch(300, State::Uninterruptible, 0)),
        ]
        .map(|(time, event)| Stamped { time, event })
        .to_vec()
    }

    #[test]
    fn what_goes_into_tiles_comes_out_of_them() {
        let count = events().len();
        for tile_events in 1..=count {
            let (mut lanes, mut writer) = (Lanes::default(), TileWriter::default());
            let mut tiles = Vec::new();
            for event in events() {
                writer.push(event, &lanes);
                lanes.apply(event, &mut Nothing);
                if writer.len() as usize == tile_events {
                    tiles.extend(finish(&mut writer));
                }
            }
            tiles.extend(finish(&mut writer));
            assert_eq!(tiles.len(), count.div_ceil(tile_events));
            let mut again = Lanes::default();
            for tile in &tiles {
                assert!(tile.replay(&mut again, &mut Nothing).unwrap());
            }
            assert_eq!((again.cpus(), again.threads()), (lanes.cpus(), lanes.threads()));
        }
    }

    #[test]
    fn a_tile_that_was_cut_off_is_refused() {
        let (mut lanes, mut writer) = (Lanes::default(), TileWriter::default());
        for event in events() {
            writer.push(event, &lanes);
            lanes.apply(event, &mut Nothing);
        }
        let mut tile = finish(&mut writer).unwrap();
        tile.events += 1;
        assert!(!tile.replay(&mut Lanes::default(), &mut Nothing).unwrap());
    }
}
