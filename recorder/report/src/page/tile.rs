//! Tiles: the exact events of a stretch of time, packed, with what they follow from.
//!
//! A tile can be unfolded alone: it begins with the state of every CPU and
//! thread at its start. The layout is in `docs/page.md`.

use std::io;

use super::columns::{Column, Cursor, pack, unpack};
use super::machine::{Doing, Event, Machine, Observer, Stamped, Taken};
use super::state;
use super::threads::ThreadIndex;

/// The first byte of an event: a state from 0 to 15 for a switch, or one of
/// these.
mod head {
    /// Added to the state: no tracepoint reported the switch.
    pub(super) const INFERRED: u8 = 16;
    /// Added to the state: who went out is not who came in last, and is given.
    pub(super) const OUTGOING: u8 = 32;
    pub(super) const WAKE: u8 = 64;
    /// A wake-up of a thread that a quota holds back.
    pub(super) const WAKE_THROTTLED: u8 = 65;
    pub(super) const HELD: u8 = 66;
    pub(super) const TAKEN: u8 = 67;
    pub(super) const GAP: u8 = 128;
}

/// How many states a switch's head has room for.
const STATES: u8 = 16;

/// The events of a stretch of time.
#[derive(Debug)]
pub(super) struct Tile {
    /// The time of the first event.
    pub(super) start: u64,
    pub(super) events: u32,
    pub(super) packed: Vec<u8>,
}

/// Collects the events of one tile after the other.
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
    /// How many events there are in the present tile.
    pub(super) fn len(&self) -> u32 {
        self.events
    }

    /// Adds an event that `before` has not been told of yet.
    pub(super) fn push(&mut self, stamped: Stamped, before: &Machine) {
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
                let given = before.on(cpu) != Some(outgoing);
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
            Event::Wake { cpu, thread, waker, throttled } => {
                self.heads.byte(if throttled { head::WAKE_THROTTLED } else { head::WAKE });
                self.cpus.number(cpu.into());
                self.threads.number(thread.0.into());
                self.extras.number(optional(waker));
            }
            Event::Held { thread, from, until } => {
                self.heads.byte(head::HELD);
                self.cpus.number(0);
                self.threads.number(thread.0.into());
                self.extras.number(stamped.time.saturating_sub(from));
                self.extras.number(until.saturating_sub(from));
            }
            Event::Taken { cpu, taken } => {
                self.heads.byte(head::TAKEN);
                self.cpus.number(cpu.into());
                for number in [taken.steal, taken.irq, taken.irqs] {
                    self.extras.number(number);
                }
                self.extras.number(taken.asked.map_or(0, |asked| asked.saturating_add(1)));
            }
            Event::Gap { cpu, length } => {
                self.heads.byte(head::GAP);
                self.cpus.number(cpu.into());
                self.extras.number(length);
            }
        }
    }

    /// The tile, if there is anything in it; the next one is begun.
    pub(super) fn finish(&mut self) -> io::Result<Option<Tile>> {
        let done = std::mem::take(self);
        if done.events == 0 {
            return Ok(None);
        }
        let mut columns = Vec::from(done.snapshot);
        columns.extend([done.heads, done.times, done.cpus, done.threads, done.extras]);
        Ok(Some(Tile { start: done.start, events: done.events, packed: pack(&columns)? }))
    }
}

/// A thread that may not be known, as one number.
fn optional(thread: Option<ThreadIndex>) -> u64 {
    thread.map_or(0, |thread| u64::from(thread.0) + 1)
}

/// How long before `now` it was, as one number: 0 for before the trace.
fn age(since: u64, now: u64) -> u64 {
    if since == 0 { 0 } else { now.saturating_sub(since) + 1 }
}

/// What the machine is doing: who is on each CPU and since when; then each
/// thread of which something is known, what it does, since when, where, and who
/// woke it.
fn snapshot(machine: &Machine, now: u64) -> [Column; SNAPSHOT_COLUMNS] {
    let mut columns: [Column; SNAPSHOT_COLUMNS] = Default::default();
    let [on, on_ages, threads, states, ages, cpus, wakers] = &mut columns;
    for (thread, since) in machine.seats() {
        on.number(optional(thread));
        on_ages.number(age(since, now));
    }
    let mut next = 0;
    for (index, Doing { doing, waker }) in machine.threads().iter().enumerate() {
        if state::is_shown(doing.state) {
            threads.number((index - next) as u64);
            next = index + 1;
            states.byte(state::code(doing.state));
            ages.number(age(doing.since.0, now));
            cpus.number(doing.cpu.0.into());
            wakers.number(optional(*waker));
        }
    }
    columns
}

impl Tile {
    /// Tells `machine`, which has been told of all tiles before, what is in this
    /// one. False if the block is not what a [`TileWriter`] made.
    ///
    /// # Errors
    ///
    /// When the block cannot be decompressed.
    pub(super) fn replay(
        &self,
        machine: &mut Machine,
        observer: &mut impl Observer,
    ) -> io::Result<bool> {
        let bytes = unpack(&self.packed)?;
        Ok(self.replay_unpacked(&bytes, machine, observer).is_some())
    }

    fn replay_unpacked(
        &self,
        bytes: &[u8],
        machine: &mut Machine,
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
            machine.apply(events.next(machine)?, observer);
        }
        Some(())
    }
}

/// The event columns of a tile, being read.
struct Events<'a> {
    heads: Cursor<'a>,
    times: Cursor<'a>,
    cpus: Cursor<'a>,
    threads: Cursor<'a>,
    extras: Cursor<'a>,
    time: u64,
}

impl Events<'_> {
    fn next(&mut self, before: &Machine) -> Option<Stamped> {
        self.time += self.times.number()?;
        let cpu = u16::try_from(self.cpus.number()?).ok()?;
        let event = match self.heads.byte()? {
            head::GAP => Event::Gap { cpu, length: self.extras.number()? },
            wake @ (head::WAKE | head::WAKE_THROTTLED) => {
                let thread = thread(self.threads.number()?)?;
                let waker = match self.extras.number()? {
                    0 => None,
                    waker => Some(thread_of(waker)?),
                };
                Event::Wake { cpu, thread, waker, throttled: wake == head::WAKE_THROTTLED }
            }
            head::HELD => {
                let thread = thread(self.threads.number()?)?;
                let from = self.time.checked_sub(self.extras.number()?)?;
                let until = from.checked_add(self.extras.number()?)?;
                Event::Held { thread, from, until }
            }
            head::TAKEN => {
                let mut number = || self.extras.number();
                let (steal, irq, irqs) = (number()?, number()?, number()?);
                let asked = number()?.checked_sub(1);
                Event::Taken { cpu, taken: Taken { steal, irq, irqs, asked } }
            }
            switch => {
                let incoming = thread(self.threads.number()?)?;
                let flags = switch / STATES * STATES;
                let outgoing = if flags >= head::OUTGOING {
                    thread(self.extras.number()?)?
                } else {
                    before.on(cpu)?
                };
                let state = state::from_code(switch % STATES)?;
                let inferred = flags % head::OUTGOING == head::INFERRED;
                Event::Switch { cpu, outgoing, state, incoming, inferred }
            }
        };
        Some(Stamped { time: self.time, event })
    }
}

fn thread(number: u64) -> Option<ThreadIndex> {
    u32::try_from(number).ok().map(ThreadIndex)
}

/// The thread behind a number of [`optional`] that is not 0.
fn thread_of(number: u64) -> Option<ThreadIndex> {
    thread(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::state::State;

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
        [
            (1_000, switch(1, State::Sleeping, 0)),
            (
                1_400,
                Event::Wake { cpu: 3, thread: thread(1), waker: Some(thread(0)), throttled: true },
            ),
            (90_000, Event::Held { thread: thread(1), from: 1_400, until: 50_000 }),
            (90_000, switch(0, State::Preempted, 1)),
            (90_500, Event::Taken { cpu: 3, taken }),
            (90_500, switch(7, State::Zombie, 9)),
            (95_000, Event::Gap { cpu: 3, length: 4_500 }),
            (95_001, Event::Wake { cpu: 70, thread: thread(300), waker: None, throttled: false }),
            (95_001, switch(300, State::Uninterruptible, 0)),
        ]
        .map(|(time, event)| Stamped { time, event })
        .to_vec()
    }

    #[test]
    fn what_goes_into_tiles_comes_out_of_them() {
        for tile_events in 1..=9 {
            let (mut machine, mut writer) = (Machine::default(), TileWriter::default());
            let mut tiles = Vec::new();
            for event in events() {
                writer.push(event, &machine);
                machine.apply(event, &mut Nothing);
                if writer.len() == tile_events {
                    tiles.extend(writer.finish().unwrap());
                }
            }
            tiles.extend(writer.finish().unwrap());
            assert_eq!(tiles.len(), 9_usize.div_ceil(tile_events as usize));
            let mut again = Machine::default();
            for tile in &tiles {
                assert!(tile.replay(&mut again, &mut Nothing).unwrap());
            }
            assert!(again.seats().eq(machine.seats()));
            assert_eq!(again.threads(), machine.threads());
        }
    }

    #[test]
    fn a_tile_that_was_cut_off_is_refused() {
        let (mut machine, mut writer) = (Machine::default(), TileWriter::default());
        for event in events() {
            writer.push(event, &machine);
            machine.apply(event, &mut Nothing);
        }
        let mut tile = writer.finish().unwrap().unwrap();
        tile.events += 1;
        assert!(!tile.replay(&mut Machine::default(), &mut Nothing).unwrap());
    }
}
