//! From the records of a trace to what the page is made of, in one pass.
//!
//! Scheduling becomes [tiles](super::tile) as it comes, so that of millions of
//! switches only the packed form is kept: a few bytes each. Spans are kept whole
//! until the end, since the format allows one that began long ago to come last.

use fxt_reader::record::{
    ContextSwitch, Event as TraceEvent, EventKind, IDLE_WEIGHT, NOT_RECORDED_WEIGHT, Value,
    is_not_recorded,
};
use fxt_reader::{Cpu, Koid, Nanos, ObjectType, Record};
use fxtrec_sched::{Held, Periods};

use super::PageError;
use super::info::{Info, number};
use super::machine::{Event, Machine, Observer, Stamped, Taken};
use super::spans::Spans;
use super::state::State;
use super::threads::{ThreadIndex, Threads};
use super::tile::{Tile, TileWriter};
use super::usage::Usage;

/// A stretch of time of which a CPU's events were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) cpu: u16,
    /// Begin, in nanoseconds of the trace's clock.
    pub(super) from: u64,
    pub(super) to: u64,
    /// How many events, where that is known.
    pub(super) count: Option<u64>,
}

/// Collects what the page is made of.
#[derive(Debug, Default)]
pub(super) struct Extract {
    pub(super) threads: Threads,
    /// The tiles that are full.
    pub(super) tiles: Vec<Tile>,
    pub(super) spans: Spans,
    pub(super) gaps: Vec<Gap>,
    /// About the recording.
    pub(super) info: Info,
    /// How much each thread and CPU did.
    pub(super) usage: Usage,
    /// Who was on each CPU when the trace began: the first that is seen to leave.
    pub(super) first_on: Vec<Option<ThreadIndex>>,
    pub(super) switches: u64,
    pub(super) wakeups: u64,
    range: Option<(u64, u64)>,
    machine: Machine,
    /// When cgroups were throttled.
    periods: Periods,
    writer: TileWriter,
    tile_events: u32,
    /// Spans since the present tile began, which count for its size.
    spans_in_tile: u32,
    /// The time of the last scheduling record.
    last: u64,
}

impl Extract {
    /// Begins, with tiles of that many events.
    pub(super) fn new(tile_events: u32) -> Self {
        Self { tile_events, ..Self::default() }
    }

    /// Takes one record.
    ///
    /// # Errors
    ///
    /// When a block cannot be packed.
    pub(super) fn take(&mut self, record: &Record<'_>) -> Result<(), PageError> {
        match record {
            Record::ContextSwitch(switch) => self.switch(switch)?,
            Record::LegacyContextSwitch(switch) => {
                let idle = |priority: u8, koid: Koid| if priority == 0 { Koid(0) } else { koid };
                let outgoing = idle(switch.outgoing_priority, switch.outgoing.thread);
                let incoming = idle(switch.incoming_priority, switch.incoming.thread);
                let event = Event::Switch {
                    cpu: switch.cpu.0,
                    outgoing: self.threads.index(outgoing),
                    state: State::after(switch.outgoing_state, None),
                    incoming: self.threads.index(incoming),
                    inferred: false,
                };
                self.switches += 1;
                self.push(switch.time.0, event)?;
            }
            Record::Wakeup(wakeup) => {
                let event = Event::Wake {
                    cpu: wakeup.cpu.0,
                    thread: self.threads.index(wakeup.koid),
                    waker: wakeup.waker().map(|koid| self.threads.index(koid)),
                    throttled: wakeup.args.get("throttled") == Some(Value::Bool(true)),
                };
                self.wakeups += 1;
                self.push(wakeup.time.0, event)?;
            }
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

    fn switch(&mut self, switch: &ContextSwitch<'_>) -> Result<(), PageError> {
        let idle = |weight: Option<i32>, koid| {
            if weight == Some(IDLE_WEIGHT) { Koid(0) } else { koid }
        };
        let (mut outgoing_weight, mut incoming_weight) = (None, None);
        let (mut letter, mut inferred, mut throttled) = (None, false, false);
        let (mut taken, mut held, mut by) = (Taken::default(), 0, None);
        for arg in switch.args.iter() {
            match (arg.name, arg.value) {
                ("outgoing_weight", Value::Int32(w)) => {
                    outgoing_weight = Some(w);
                }
                ("incoming_weight", Value::Int32(w)) => {
                    incoming_weight = Some(w);
                }
                ("prev_state", Value::Str(text)) => letter = Some(text),
                ("inferred", Value::Bool(value)) => inferred = value,
                ("throttled", Value::Bool(value)) => throttled = value,
                ("throttled_by", Value::Str(cgroup)) => by = Some(cgroup),
                ("throttled_ns", value) => held = number(value).unwrap_or(0),
                ("steal_ns", value) => taken.steal = number(value).unwrap_or(0),
                ("irq_ns", value) => taken.irq = number(value).unwrap_or(0),
                ("irqs", value) => taken.irqs = number(value).unwrap_or(0),
                ("need_resched_ns", value) => taken.asked = number(value),
                _ => {}
            }
        }
        let is_unrecorded =
            |koid, weight| is_not_recorded(koid) && weight == Some(NOT_RECORDED_WEIGHT);
        let (from_nobody, to_nobody) = (
            is_unrecorded(switch.outgoing, outgoing_weight),
            is_unrecorded(switch.incoming, incoming_weight),
        );
        let index = |threads: &mut Threads, nobody: bool, koid| match nobody {
            true => ThreadIndex::IDLE,
            false => threads.index(koid),
        };
        let outgoing = idle(outgoing_weight, switch.outgoing);
        let incoming = idle(incoming_weight, switch.incoming);
        let left = State::after(switch.outgoing_state, letter);
        let left = if throttled { left.held() } else { left };
        let state = match left {
            _ if left.is_over() => left,
            // What an outsider does next is not recorded. What nobody saw go out is anywhere.
            _ if to_nobody || inferred => State::Unknown,
            _ => left,
        };
        let outgoing_index = index(&mut self.threads, from_nobody, outgoing);
        let incoming_index = index(&mut self.threads, to_nobody, incoming);
        let event = Event::Switch {
            cpu: switch.cpu.0,
            outgoing: outgoing_index,
            state,
            incoming: incoming_index,
            inferred,
        };
        self.switches += 1;
        let (time, cpu) = (switch.time.0, switch.cpu.0);
        // Where it is not recorded who has a CPU, nothing is known of it: as in a gap, which ends here or begins.
        let nothing_known = Event::Gap { cpu, length: 0 };
        // Nor who had it between a gap and a switch that is inferred: the one that goes out had it before the gap.
        if from_nobody || inferred && self.machine.is_lost(cpu) {
            self.push(time, nothing_known)?;
        }
        self.held_back(time, incoming_index, held, by);
        if taken != Taken::default() {
            self.push_open(time, Event::Taken { cpu, taken });
        }
        self.push(time, event)?;
        if to_nobody {
            self.push(time, nothing_known)?;
        }
        Ok(())
    }

    /// Tells where in the wait that ends a quota held the thread back, if it is known.
    fn held_back(&mut self, time: u64, thread: ThreadIndex, nanos: u64, by: Option<&str>) {
        let Some(doing) = self.machine.threads().get(thread.index()).map(|known| known.doing)
        else {
            return;
        };
        if !doing.state.is_waiting() || nanos == 0 && !doing.state.is_throttled() {
            return;
        }
        let at_begin = doing.state.is_throttled();
        let wait = (doing.since, Nanos(time.max(self.last)));
        let held = Held { wait, cpu: doing.cpu, nanos, at_begin, by };
        for (from, until) in self.periods.place(held).into_iter().flatten() {
            self.push_open(time, Event::Held { thread, from: from.0, until: until.0 });
        }
    }

    /// What the scheduler does beside switches and wake-ups.
    fn sched_event(&mut self, event: &TraceEvent<'_>) {
        let cpu = |name| event.args.get(name).and_then(number);
        let cpu = |name| cpu(name).and_then(|cpu| u16::try_from(cpu).ok()).map(Cpu);
        let process = event.thread.process.0;
        match event.kind {
            EventKind::Instant => {
                if let Some(cpu) = cpu("dest_cpu") {
                    let thread = self.threads.index_in(event.thread);
                    self.machine.migrate(thread, cpu);
                }
            }
            EventKind::AsyncBegin { id } => {
                if let (Some(cgroup), Some(cpu)) = (event.args.str("cgroup"), cpu("cpu")) {
                    self.periods.begin((process, id), (cgroup, cpu), event.time);
                }
            }
            EventKind::AsyncEnd { id } => {
                self.periods.end((process, id), event.time);
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &TraceEvent<'_>) -> Result<(), PageError> {
        let time = event.time.0;
        match (event.category, event.name) {
            ("fxtrec", "trace_info") => self.info.learn(&event.args),
            ("fxtrec", "trace_stats") => self.info.finished = true,
            ("fxtrec", "host_steal") => {}
            ("fxtrec", "lost") => {
                let arg = |name| event.args.get(name).and_then(number);
                if let Some(cpu) = arg("cpu").and_then(|cpu| u16::try_from(cpu).ok()) {
                    self.lost(cpu, time, arg("count"))?;
                }
            }
            ("fxtrec", name @ ("cpu_offline" | "cpu_online")) => {
                let cpu = event.args.get("cpu").and_then(number);
                if let Some(cpu) = cpu.and_then(|cpu| u16::try_from(cpu).ok()) {
                    self.away(cpu, time)?;
                }
                return self.span(event, name);
            }
            // Wake-ups as the waker saw them: the wake-up itself names the waker.
            ("sched", "waking") => {}
            ("sched", "migrate" | "throttled") => self.sched_event(event),
            (_, name) => return self.span(event, name),
        }
        self.extend(time);
        Ok(())
    }

    fn span(&mut self, event: &TraceEvent<'_>, name: &str) -> Result<(), PageError> {
        let time = event.time.0;
        let name = if name.is_empty() { event.category } else { name };
        let thread = self.threads.index_in(event.thread);
        match event.kind {
            EventKind::DurationBegin => self.spans.begin(thread, time, name),
            EventKind::DurationEnd => self.spans.end(thread, time),
            EventKind::DurationComplete { end } => {
                self.spans.complete(thread, time, end.0, name);
                self.extend(end.0);
            }
            EventKind::Instant => self.spans.instant(thread, time, name),
            _ => return Ok(()),
        }
        self.extend(time);
        self.spans_in_tile += 1;
        self.close_full_tile()
    }

    fn lost(&mut self, cpu: u16, time: u64, count: Option<u64>) -> Result<(), PageError> {
        let to = time.max(self.last);
        let begin = self.range.map_or(to, |(begin, _)| begin);
        let from = self.machine.since(cpu).clamp(begin, to);
        self.gaps.push(Gap { cpu, from, to, count });
        self.push(to, Event::Gap { cpu, length: to - from })
    }

    /// A CPU goes offline or comes back. Nobody has it in between, not even the idle task that it is left with: between
    /// two gaps of no length nothing is known of it.
    fn away(&mut self, cpu: u16, time: u64) -> Result<(), PageError> {
        if self.machine.on(cpu).is_some_and(|thread| !thread.is_idle()) {
            // It is back already, as its events say.
            return Ok(());
        }
        self.push(time, Event::Gap { cpu, length: 0 })
    }

    fn push(&mut self, time: u64, event: Event) -> Result<(), PageError> {
        self.push_open(time, event);
        self.close_full_tile()
    }

    /// Adds an event which the next one belongs to.
    fn push_open(&mut self, time: u64, event: Event) {
        // Time does not go back in what fxtrec writes; others are taken to be a little late.
        let time = time.max(self.last);
        self.last = time;
        self.extend(time);
        if let Event::Switch { cpu, outgoing, .. } = event {
            let at = usize::from(cpu);
            if self.first_on.len() <= at {
                self.first_on.resize(at + 1, None);
            }
            let begun = self.machine.since(cpu) != 0;
            if !begun && self.first_on[at].is_none() {
                self.first_on[at] = Some(outgoing);
            }
        }
        let stamped = Stamped { time, event };
        self.writer.push(stamped, &self.machine);
        self.machine.apply(stamped, &mut self.usage);
    }

    fn close_full_tile(&mut self) -> Result<(), PageError> {
        if self.writer.len() + self.spans_in_tile >= self.tile_events && self.writer.len() > 0 {
            self.tiles.extend(self.writer.finish().map_err(PageError::Pack)?);
            self.spans_in_tile = 0;
        }
        Ok(())
    }

    fn extend(&mut self, time: u64) {
        let (begin, end) = self.range.unwrap_or((time, time));
        self.range = Some((begin.min(time), end.max(time)));
    }

    /// Whether anything is said about the CPU.
    pub(super) fn has_seen(&self, cpu: u16) -> bool {
        self.machine.has_seen(cpu)
    }

    /// Closes what is open. Returns the begin and the end of the trace, in
    /// nanoseconds of its clock.
    ///
    /// # Errors
    ///
    /// When the last tile cannot be packed.
    pub(super) fn finish(&mut self) -> Result<(u64, u64), PageError> {
        self.tiles.extend(self.writer.finish().map_err(PageError::Pack)?);
        let (begin, end) = self.range.unwrap_or_default();
        self.machine.end(end, &mut self.usage);
        self.usage.clip(begin);
        Ok((begin, end))
    }

    /// Tells everything that happened once more.
    ///
    /// # Errors
    ///
    /// When a tile cannot be unpacked, which was packed here.
    pub(super) fn replay(&self, end: u64, observer: &mut impl Observer) -> Result<(), PageError> {
        let mut machine = Machine::default();
        for tile in &self.tiles {
            if !tile.replay(&mut machine, observer).map_err(PageError::Pack)? {
                return Err(PageError::Pack(std::io::ErrorKind::InvalidData.into()));
            }
        }
        machine.end(end, observer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;

    use super::*;
    use crate::scene::{Leaves, Scene};

    /// In microseconds: who was on CPU 1, whether idle, from when to when.
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

    /// Who is shown on CPU 1 after that many microseconds.
    fn on_one(scene: &Scene, after: u64) -> Vec<(bool, u64, u64)> {
        let mut extract = Extract::new(1_000);
        let mut reader = Reader::from_slice(scene.bytes());
        while let Some(item) = reader.next().expect("it is sound") {
            extract.take(&item.record).expect("memory");
        }
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
        // The idle task was seen to leave, so it has been there since the second gap.
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
