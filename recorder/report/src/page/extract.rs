//! Extracts the data of the page from the records of a trace, in one pass.
//!
//! Scheduling events become [tiles](super::tile) at once, so that only a few packed bytes are kept for each of millions of switches. Spans
//! are kept in full until the end, because the format permits a span that began long ago to be the last record.

use fxt_reader::record::{Event as TraceEvent, EventKind, WEIGHT_INFO};
use fxt_reader::{Koid, Nanos, ObjectType, Record};
use fxtrec_sched::{Held, Met, Occupant, Thread, WakeupFacts};

use super::PageError;
use super::args::{ArgsIndex, Arguments};
use super::counters::Counters;
use super::flows::Flows;
use super::info::Info;
use super::lanes::{Event, Lanes, Observer, Stamped, Taken};
use super::operations::{Operations, Track};
use super::packer::Packer;
use super::spans::{NameIndex, Spans};
use super::state::State;
use super::threads::{ThreadIndex, Threads};
use super::tile::{Tile, TileWriter};
use super::usage::Usage;
use crate::analysis::{Moved, Switched, Vacated, Woken};

/// An interval in which a CPU's events were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) cpu: u16,
    /// Begin, in nanoseconds of the trace's clock.
    pub(super) from: u64,
    pub(super) to: u64,
    /// The number of lost events, if known.
    pub(super) count: Option<u64>,
}

/// An event that changes the state at a time before its own tile began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late {
    /// The tile, by its number.
    pub(super) tile: usize,
    pub(super) event: Event,
    /// The time from which the state applies, in nanoseconds of the trace's clock; 0 for before the trace.
    pub(super) since: u64,
}

/// Collects the data of the page.
#[derive(Debug, Default)]
pub(super) struct Extract {
    pub(super) threads: Threads,
    /// The full tiles; they are packed at the end.
    pub(super) tiles: Vec<Tile>,
    pub(super) spans: Spans,
    pub(super) arguments: Arguments,
    pub(super) operations: Operations,
    pub(super) flows: Flows,
    pub(super) counters: Counters,
    pub(super) gaps: Vec<Gap>,
    pub(super) late: Vec<Late>,
    /// Facts about the recording.
    pub(super) info: Info,
    /// The running and waiting times of threads, and the busy times of CPUs.
    pub(super) usage: Usage,
    pub(super) switches: u64,
    pub(super) wakeups: u64,
    pub(super) moves: u64,
    range: Option<(u64, u64)>,
    lanes: Lanes,
    writer: TileWriter,
    packer: Packer,
    tile_events: u32,
    /// Spans since the current tile began; they count towards its size.
    spans_in_tile: u32,
}

impl Extract {
    /// Starts with tiles of `tile_events` events.
    pub(super) fn new(tile_events: u32) -> Self {
        Self { tile_events, ..Self::default() }
    }

    /// Processes a record that is not about scheduling.
    ///
    /// # Errors
    ///
    /// Returns an error when a block cannot be packed.
    pub(super) fn take(&mut self, record: &Record<'_>) -> Result<(), PageError> {
        match record {
            Record::KernelObject(object) => match object.object_type {
                ObjectType::Process => self.threads.name_process(object.koid, object.name),
                ObjectType::Thread => {
                    self.threads.name(object.koid, object.name, object.process());
                }
                _ => {}
            },
            Record::Event(event) => self.event(event)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes a switch.
    ///
    /// # Errors
    ///
    /// Returns an error when a block cannot be packed.
    pub(super) fn switched(&mut self, switched: &Switched<'_>) -> Result<(), PageError> {
        let Switched { time: Nanos(time), cpu: fxt_reader::Cpu(cpu), said, .. } = *switched;
        let outgoing = self.side(switched.outgoing);
        let incoming = self.side(switched.incoming);
        let said = said.copied().unwrap_or_default();
        self.switches += 1;
        if let Some(displaced) = switched.displaced {
            let thread = self.threads.index(displaced);
            self.push(time, Event::Change { thread, state: State::Unknown, since: time });
        }
        // The outgoing thread of an inferred switch had the CPU before its occupant became unknown, but not necessarily since.
        if let (Met::Vacant, Some(thread), false) = (switched.met, outgoing, said.inferred) {
            self.claim((time, cpu), thread, switched);
        }
        let taken =
            Taken { steal: said.steal, irq: said.irq, irqs: said.irqs, asked: said.need_resched };
        if taken != Taken::default() {
            self.push(time, Event::Taken { cpu, taken });
        }
        let outgoing = outgoing.unwrap_or(ThreadIndex::IDLE);
        match incoming {
            Some(incoming) => {
                self.held_back(switched, incoming);
                let (state, inferred) = (switched.next, said.inferred);
                self.push(time, Event::Switch { cpu, outgoing, state, incoming, inferred });
            }
            None => {
                if !outgoing.is_idle() {
                    // The next state of a thread outside the scope is not recorded.
                    let next = switched.next;
                    let state = if next.is_over() { next } else { State::Unknown };
                    self.push(time, Event::Change { thread: outgoing, state, since: time });
                }
                self.push(time, Event::Vacate { cpu, length: 0 });
            }
        }
        self.close_full_tile()
    }

    /// The thread that the page shows on a CPU, if any.
    fn side(&mut self, occupant: Occupant<Koid>) -> Option<ThreadIndex> {
        match occupant {
            Occupant::Idle => Some(ThreadIndex::IDLE),
            Occupant::NotRecorded => None,
            Occupant::Thread(koid) => Some(self.threads.index(koid)),
        }
    }

    /// A thread leaves a CPU whose occupant was unknown: it was the occupant.
    fn claim(&mut self, (time, cpu): (u64, u16), thread: ThreadIndex, switched: &Switched<'_>) {
        let since = self.lanes.cpu(cpu).since;
        let lane = self.lanes.thread(thread);
        let ran = switched.before.is_some_and(|before| before.state == State::Running);
        let ran_since = (ran && !lane.state.is_known()).then(|| since.max(lane.since));
        self.push(time, Event::Claim { cpu, thread, since, ran_since });
    }

    /// Records when a quota held the thread back within the wait that ends, if that is known.
    fn held_back(&mut self, switched: &Switched<'_>, thread: ThreadIndex) {
        let said = switched.said.map_or((0, None), |said| (said.held, said.held_by));
        let Some(mut waited) = switched.waited else { return };
        let held = Held::of(waited, switched.time, said);
        let intervals = held.and_then(|held| switched.periods.place(held)).unwrap_or_default();
        for interval in intervals {
            let Some([_, held]) = waited.held_back(interval) else { continue };
            for Thread { since, state, .. } in [held, waited] {
                self.push(switched.time.0, Event::Change { thread, state, since: since.0 });
            }
        }
    }

    /// Takes a wakeup.
    ///
    /// # Errors
    ///
    /// Returns an error when a block cannot be packed.
    pub(super) fn woken(&mut self, woken: &Woken<'_>) -> Result<(), PageError> {
        let thread = self.threads.index(woken.thread);
        let waker = WakeupFacts::of(woken.args).waker.map(|koid| self.threads.index(koid));
        let state = woken.next.filter(|_| !thread.is_idle());
        self.wakeups += 1;
        self.push(woken.time.0, Event::Wake { cpu: woken.cpu.0, thread, waker, state });
        self.close_full_tile()
    }

    /// Takes a move to another queue.
    ///
    /// # Errors
    ///
    /// Returns an error when a block cannot be packed.
    pub(super) fn moved(&mut self, moved: &Moved) -> Result<(), PageError> {
        let Moved { time, thread, from, to } = *moved;
        let thread = self.threads.index(thread);
        self.moves += 1;
        self.push(time.0, Event::Move { thread, from: from.0, to: to.0 });
        self.close_full_tile()
    }

    /// Records the time from which the state of a CPU is unknown.
    ///
    /// # Errors
    ///
    /// Returns an error when a block cannot be packed.
    pub(super) fn vacated(&mut self, vacated: &Vacated) -> Result<(), PageError> {
        let (cpu, to) = (vacated.cpu.0, vacated.time.0);
        let mut from = to;
        if let Some(count) = vacated.lost {
            let begin = self.range.map_or(to, |(begin, _)| begin.min(to));
            from = self.lanes.cpu(cpu).since.clamp(begin, to);
            self.gaps.push(Gap { cpu, from, to, count });
        }
        if let Some(koid) = vacated.thread {
            let thread = self.threads.index(koid);
            self.push(to, Event::Change { thread, state: State::Unknown, since: from });
        }
        self.push(to, Event::Vacate { cpu, length: to - from });
        self.close_full_tile()
    }

    fn event(&mut self, event: &TraceEvent<'_>) -> Result<(), PageError> {
        let time = event.time.0;
        match (event.category, event.name) {
            ("fxtrec", "trace_info") => self.info.learn(&event.args),
            ("fxtrec", "trace_stats") => self.info.finished = true,
            ("fxtrec", "clock_info" | "stack_info" | WEIGHT_INFO) => return Ok(()),
            ("fxtrec", "host_steal" | "quota_stat") => {}
            // The analysis reports the effects of these records, and wakeups name the waker themselves.
            ("fxtrec", "lost") | ("sched", "waking" | "migrate" | "throttled") => {}
            (_, name) => return self.span(event, name),
        }
        self.extend(time);
        Ok(())
    }

    fn span(&mut self, event: &TraceEvent<'_>, name: &str) -> Result<(), PageError> {
        let time = event.time.0;
        let name = if name.is_empty() { event.category } else { name };
        let thread = self.threads.index_in(event.thread);
        let span = match event.kind {
            EventKind::DurationBegin => Some(self.spans.begin(thread, time, name)),
            EventKind::DurationEnd => self.spans.end(thread, time),
            EventKind::DurationComplete { end } => {
                self.extend(end.0);
                Some(self.spans.complete(thread, (time, end.0), name))
            }
            EventKind::Instant => Some(self.spans.instant(thread, time, name)),
            _ => {
                self.across(event, name, thread);
                None
            }
        };
        if let Some(span) = span {
            span.args = self.arguments.and(span.args, &event.args);
        }
        self.extend(time);
        self.spans_in_tile += 1;
        self.close_full_tile()
    }

    /// Processes an event that is not a span of a thread: an event of an operation, a flow or a counter.
    fn across(&mut self, event: &TraceEvent<'_>, name: &str, thread: ThreadIndex) {
        let (time, process) = (event.time.0, event.thread.process.0);
        let category = self.spans.name(event.category);
        let track = Track { category, name: self.spans.name(name) };
        let none = ArgsIndex::default();
        match event.kind {
            EventKind::AsyncBegin { id } => {
                let args = self.arguments.and(none, &event.args);
                self.operations.begin(track, (process, id), (thread, time), args);
            }
            EventKind::AsyncInstant { id } => {
                let args = self.arguments.and(none, &event.args);
                self.operations.instant(track, (process, id), time, args);
            }
            EventKind::AsyncEnd { id } => {
                let Some((span, began)) = self.operations.end(track, (process, id), time) else {
                    return;
                };
                let args = self.arguments.and(span.args, &event.args);
                span.args = self.arguments.on(args, began, Some(thread));
            }
            EventKind::FlowBegin { id } => self.flow(track, id, (thread, time), (true, true)),
            EventKind::FlowStep { id } => self.flow(track, id, (thread, time), (false, true)),
            EventKind::FlowEnd { id } => self.flow(track, id, (thread, time), (false, false)),
            EventKind::Counter { id } => {
                let names = (track.category, track.name);
                self.counters.take((process, id), names, (time, name), &event.args);
            }
            _ => {}
        }
    }

    fn flow(
        &mut self,
        Track { category, name }: Track,
        id: u64,
        at: (ThreadIndex, u64),
        (begins, goes_on): (bool, bool),
    ) {
        let key: (NameIndex, NameIndex, u64) = (category, name, id);
        self.flows.take(key, at, begins, goes_on);
    }

    fn push(&mut self, time: u64, event: Event) {
        self.extend(time);
        let stamped = Stamped { time, event };
        self.writer.push(stamped, &self.lanes);
        let (since, tile) = (event.since(time), self.tiles.len());
        if since < self.writer.start() && tile > 0 {
            self.late.push(Late { tile, event, since });
        }
        self.lanes.apply(stamped, &mut self.usage);
    }

    fn close_full_tile(&mut self) -> Result<(), PageError> {
        if self.writer.len() + self.spans_in_tile >= self.tile_events && self.writer.len() > 0 {
            self.close_tile()?;
            self.spans_in_tile = 0;
        }
        Ok(())
    }

    fn close_tile(&mut self) -> Result<(), PageError> {
        if let Some((tile, columns)) = self.writer.finish() {
            self.tiles.push(tile);
            self.packer.take(columns).map_err(PageError::Pack)?;
        }
        Ok(())
    }

    fn extend(&mut self, time: u64) {
        let (begin, end) = self.range.unwrap_or((time, time));
        self.range = Some((begin.min(time), end.max(time)));
    }

    /// The CPUs that have any events.
    pub(super) fn cpus(&self) -> impl Iterator<Item = u16> + '_ {
        self.lanes.cpus().iter().zip(0..).filter(|(lane, _)| lane.seen).map(|(_, cpu)| cpu)
    }

    /// Closes open intervals. Returns the start and the end of the trace, in nanoseconds of its clock.
    ///
    /// # Errors
    ///
    /// Returns an error when the last tile cannot be packed.
    pub(super) fn finish(&mut self) -> Result<(u64, u64), PageError> {
        self.close_tile()?;
        let packed = std::mem::take(&mut self.packer).finish().map_err(PageError::Pack)?;
        for (tile, packed) in self.tiles.iter_mut().zip(packed) {
            tile.packed = packed;
        }
        for (at, began) in self.operations.still_open() {
            if let Some(span) = self.operations.span_mut(at) {
                span.args = self.arguments.on(span.args, began, None);
            }
        }
        self.counters.finish();
        let (begin, end) = self.range.unwrap_or_default();
        self.lanes.end(end, &mut self.usage);
        self.usage.clip(begin);
        Ok((begin, end))
    }

    /// Repeats all events for an observer.
    ///
    /// # Errors
    ///
    /// Returns an error when a tile cannot be unpacked.
    pub(super) fn replay(&self, end: u64, observer: &mut impl Observer) -> Result<(), PageError> {
        let mut lanes = Lanes::default();
        for tile in &self.tiles {
            if !tile.replay(&mut lanes, observer).map_err(PageError::Pack)? {
                return Err(PageError::Pack(std::io::ErrorKind::InvalidData.into()));
            }
        }
        lanes.end(end, observer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;

    use super::*;
    use crate::page::Page;
    use crate::scene::{Leaves, Scene};
    use crate::{Options, analysis};

    /// The occupants of CPU 1: whether it was idle, and from when to when in microseconds.
    #[derive(Default)]
    struct OnOne(Vec<(bool, u64, u64)>);

    impl Observer for OnOne {
        fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64) {
            if cpu == 1 && from < to {
                self.0.push((thread.is_idle(), from / 1_000, to / 1_000));
            }
        }

        fn in_state(&mut self, _: ThreadIndex, _: State, _: u64, _: u64) {}
    }

    /// The occupants of CPU 1 that are shown after that many microseconds.
    fn on_one(scene: &Scene, after: u64) -> Vec<(bool, u64, u64)> {
        let reader = Reader::from_slice(scene.bytes());
        let (_, Page { mut extract, .. }) =
            analysis::observe(reader, Options::default(), Page::new()).expect("it is sound");
        let (_, end) = extract.finish().expect("memory");
        let mut on_one = OnOne::default();
        extract.replay(end, &mut on_one).expect("it was packed here");
        on_one.0.into_iter().filter(|it| it.2 > after).collect()
    }

    #[test]
    fn a_thread_that_an_inferred_switch_takes_off_after_a_gap_is_not_shown_since_the_gap() {
        let mut scene = Scene::new();
        scene.switch(10, 1, 0, Leaves::R, 102);
        scene.lose(30, 1, 7).inferred(40, 1, 102, 104);
        scene.switch(50, 1, 104, Leaves::S, 0);
        scene.lose(60, 1, 7);
        scene.switch(70, 1, 0, Leaves::R, 102);
        scene.end(80);
        // The idle task was switched out there, so it had the CPU since the second gap.
        let expected = [(false, 40, 50), (true, 60, 70), (false, 70, 80)];
        assert_eq!(on_one(&scene, 10), expected);
    }

    #[test]
    fn a_cpu_that_is_offline_is_not_shown_as_idle() {
        let mut scene = Scene::new();
        scene.switch(10, 1, 0, Leaves::R, 102);
        scene.switch(30, 1, 102, Leaves::S, 0);
        scene.offline(40, 1).online(80, 1);
        scene.switch(85, 1, 0, Leaves::R, 104);
        scene.switch(95, 1, 104, Leaves::S, 0);
        scene.end(100);
        let expected =
            [(false, 10, 30), (true, 30, 40), (true, 80, 85), (false, 85, 95), (true, 95, 100)];
        assert_eq!(on_one(&scene, 10), expected, "nobody from 40 to 80");
    }
}
