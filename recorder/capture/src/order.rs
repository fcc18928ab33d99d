//! Putting the events of all CPUs into one order of time.
//!
//! Every CPU has a queue, sorted by time. A ring is nearly sorted already: only
//! an interrupt that fires between the stamping and the storing of a sample
//! puts its own, younger samples first. So a new event is inserted from the
//! back and almost never moves.
//!
//! Between CPUs the kernel promises less: a sample can be stamped and become
//! visible later than a younger one of another CPU. So events are held back
//! until nothing older can arrive, which is the *watermark*:
//!
//! ```text
//!   CPU 0   . . . . . . . . . . o o o       youngest seen: t0, nothing older than t0 - SLACK can follow
//!   CPU 1   . . .                           quiet: nothing older than now - WINDOW can follow
//!   CPU 2   . . . . . . . o | | | | |       not read to its end: nothing older than t2 - SLACK can follow
//!                 ^
//!                 watermark = the minimum of these; what is left of it goes out, merged
//! ```
//!
//! A CPU that is busy proves by its own younger events that the older ones have
//! arrived, however long the machine was held up in between. A CPU that is quiet
//! gets [`WINDOW`], and so does one whose ring was read to its end; if its ring
//! tells that nothing is being written, it needs no more than [`SLACK`]. Memory is
//! bounded: a queue that is full takes no more, its ring keeps the rest, and the
//! quiet CPUs get only [`SLACK`] until there is room again. Long before that, when all
//! CPUs together hold more than a cache does, they get [`CROWDED_WINDOW`]. What arrives
//! behind the watermark all the same goes out at once and is counted as late.
//!
//! While a CPU has the oldest events, they go out one after the other up to the first of the next CPU. Events that need
//! no sorting may wait for that outside of the queues, as a [`Backlog`], in a form that takes less memory.

mod payloads;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

use super::event::{Event, Kind, Payload};
use fxtrec_units::{Cpu, Nanos};
use payloads::Payloads;

/// How long a quiet CPU may hold up the others.
pub const WINDOW: Nanos = Nanos(100_000_000);

/// The same while the queues of all CPUs are crowded.
pub const CROWDED_WINDOW: Nanos = Nanos(10_000_000);

/// They are from so many events on, which is some MiB: what has left the caches before its turn costs half as much again. A machine
/// of few CPUs does not make them within the window.
const CROWDED: usize = 128 * 1024;

/// They are no more when there are fewer than these.
const SPARSE: usize = CROWDED / 8;

/// How much older than a CPU's youngest event one may be that is still to be stored: the length of an interrupt.
pub const SLACK: Nanos = Nanos(1_000_000);

/// How many events of one CPU are held at most.
pub const QUEUE_EVENTS: usize = 32 * 1024;

/// How many bytes that its events carry are held at most, give or take one event's.
pub const PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// The events of one CPU, sorted by time.
#[derive(Debug)]
pub struct Queue {
    cpu: Cpu,
    events: VecDeque<Event>,
    payloads: Payloads,
    youngest: Nanos,
    /// Whether everything that the CPU had to say when it was last asked is in the queue.
    drained: bool,
}

impl Queue {
    fn new(cpu: Cpu) -> Queue {
        let (events, payloads) = (VecDeque::new(), Payloads::default());
        Queue { cpu, events, payloads, youngest: Nanos(0), drained: true }
    }

    /// Whether it takes no more before [`Merger::emit`] has made room.
    pub fn is_full(&self) -> bool {
        self.events.len() >= QUEUE_EVENTS || self.payloads.held() >= PAYLOAD_BYTES
    }

    /// Keeps the bytes that an event is going to carry, which must then be pushed to the same queue.
    pub fn keep(&mut self, content: &[u8]) -> Payload {
        self.payloads.push(content)
    }

    /// Adds an event of the CPU.
    // Into its place and not by way of others': see [`decode_plain`](super::decode::decode_plain).
    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        if event.time < self.youngest {
            return self.insert(event);
        }
        self.youngest = event.time;
        self.events.push_back(event);
    }

    /// Adds an event that is older than the youngest.
    #[cold]
    fn insert(&mut self, event: Event) {
        let mut at = self.events.len();
        while at > 0 && self.events[at - 1].time > event.time {
            at -= 1;
        }
        self.events.insert(at, event);
    }

    /// Hands out its events up to the last that is not younger than `until`, as long as `take` returns true; returns what that
    /// returned last.
    fn hand_out(&mut self, until: Nanos, mut take: impl FnMut(Cpu, &Event, &[u8]) -> bool) -> bool {
        while let Some(event) = self.events.front().filter(|event| event.time <= until) {
            let go_on = match event.kind {
                Kind::Sample(sample) => {
                    let content = self.payloads.get(sample.payload);
                    let go_on = take(self.cpu, event, content);
                    self.payloads.release(sample.payload);
                    go_on
                }
                _ => take(self.cpu, event, &[]),
            };
            self.events.pop_front();
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Says whether it has everything that the CPU had to say by now.
    pub fn set_drained(&mut self, drained: bool) {
        self.drained = drained;
    }

    /// When the youngest event happened that was ever in it.
    pub fn youngest(&self) -> Nanos {
        self.youngest
    }

    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// How many events are in it.
    pub fn held(&self) -> usize {
        self.events.len()
    }
}

/// Events of one CPU that lie sorted by time outside of the queues, and are decoded when it is their turn.
pub trait Backlog {
    fn cpu(&self) -> Cpu;

    /// A queue of the same CPU. What happened at the same time as something in the backlog goes out before it if it is in an
    /// earlier queue, and after it if it is in this one.
    fn queue(&self) -> Lane;

    /// When the first of the events happened that are left.
    fn first(&mut self) -> Option<Nanos>;

    /// When the youngest event happened that was ever in it.
    fn youngest(&self) -> Nanos;

    /// Whether everything that the CPU had to say when it was last asked is in it.
    fn is_drained(&self) -> bool;

    /// Whether nothing else happened on the CPU before it was asked, give or take [`SLACK`]: then it holds up no others.
    fn is_complete(&self) -> bool;

    /// How many events are in it. At [`QUEUE_EVENTS`] it takes no more before [`Backlog::hand_out`] has made room.
    fn held(&self) -> usize;

    /// Hands out its events in order, up to the last that is not younger than `until`, as long as `take` returns true. Returns
    /// what that returned last.
    fn hand_out(&mut self, until: Nanos, take: impl FnMut(&Event) -> bool) -> bool;
}

/// For mergers that have all events in queues.
#[derive(Debug)]
pub enum NoBacklog {}

impl Backlog for NoBacklog {
    fn cpu(&self) -> Cpu {
        match *self {}
    }

    fn queue(&self) -> Lane {
        match *self {}
    }

    fn first(&mut self) -> Option<Nanos> {
        match *self {}
    }

    fn youngest(&self) -> Nanos {
        match *self {}
    }

    fn is_drained(&self) -> bool {
        match *self {}
    }

    fn is_complete(&self) -> bool {
        match *self {}
    }

    fn held(&self) -> usize {
        match *self {}
    }

    fn hand_out(&mut self, _: Nanos, _: impl FnMut(&Event) -> bool) -> bool {
        match *self {}
    }
}

/// The queues of all CPUs.
#[derive(Debug, Default)]
pub struct Merger {
    queues: Vec<Queue>,
    /// Of each queue and backlog that is not empty. Kept to spare allocations.
    heads: BinaryHeap<Reverse<Head>>,
    crowded: bool,
    handed: Handed,
}

/// When the first event of a queue or backlog happened, and which it is. What happened at once goes out in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    time: Nanos,
    /// The number of the queue, or of that of the backlog.
    queue: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The backlog of this number.
    Backlog(usize),
    Queue,
}

/// What was handed out so far.
#[derive(Debug, Default)]
struct Handed {
    emitted: Nanos,
    late: u64,
    most_late: Nanos,
}

impl Handed {
    /// The time to hand out an event of `time` with.
    #[inline]
    fn at(&mut self, time: Nanos) -> Nanos {
        if time < self.emitted {
            self.late += 1;
            self.most_late = self.most_late.max(Nanos(self.emitted.0 - time.0));
        } else {
            self.emitted = time;
        }
        self.emitted
    }
}

/// Up to when it is the turn of `first`, which is the first of `heads`: then that of the second begins.
fn turn(heads: &[Reverse<Head>], first: Head) -> Nanos {
    // Those below the first of a heap are the second and another.
    let second = heads.iter().skip(1).take(2).map(|head| head.0).min();
    second.map_or(Nanos(u64::MAX), |second| match first.time == second.time {
        true => second.time,
        // At the second's time, who goes first is decided when it has come.
        false => Nanos(second.time.0 - 1),
    })
}

/// One CPU's place in a [`Merger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(usize);

impl Lane {
    #[cfg(test)]
    pub(super) fn place(self) -> usize {
        self.0
    }
}

impl Merger {
    /// A merger of no CPUs.
    pub fn new() -> Merger {
        Merger::default()
    }

    /// The queue of `cpu`, made when there is none yet.
    pub fn lane(&mut self, cpu: Cpu) -> Lane {
        let known = self.queues.iter().position(|queue| queue.cpu == cpu);
        known.map_or_else(|| self.another_lane(cpu), Lane)
    }

    /// One more queue of `cpu`, for events that come another way and are in an order of their own.
    pub fn another_lane(&mut self, cpu: Cpu) -> Lane {
        let (events, payloads) = (VecDeque::new(), Payloads::default());
        let youngest = Nanos(0);
        self.queues.push(Queue { cpu, events, payloads, youngest, drained: true });
        Lane(self.queues.len() - 1)
    }

    /// Whether the lane takes no more before [`Merger::emit`] has made room.
    pub fn is_full(&self, lane: Lane) -> bool {
        self.queues[lane.0].is_full()
    }

    /// Keeps the bytes that an event is going to carry, which must then be pushed to the same lane.
    pub fn keep(&mut self, lane: Lane, content: &[u8]) -> Payload {
        self.queues[lane.0].keep(content)
    }

    /// Adds an event of the lane's CPU.
    pub fn push(&mut self, lane: Lane, event: Event) {
        self.queues[lane.0].push(event);
    }

    /// The lane's queue, to be filled in place.
    pub fn queue(&mut self, lane: Lane) -> &mut Queue {
        &mut self.queues[lane.0]
    }

    /// Gives the lane's queue away, to be filled by another thread. Until it is back the lane is empty.
    pub fn lend(&mut self, lane: Lane) -> Queue {
        let queue = &mut self.queues[lane.0];
        let empty = Queue::new(queue.cpu);
        std::mem::replace(queue, empty)
    }

    /// Puts a queue that was lent back into its lane.
    pub fn take_back(&mut self, lane: Lane, queue: Queue) {
        self.queues[lane.0] = queue;
    }

    /// Says whether the lane has everything that its CPU had to say by now.
    pub fn set_drained(&mut self, lane: Lane, drained: bool) {
        self.queues[lane.0].drained = drained;
    }

    /// Up to when nothing can be missing any more at time `now`, which must have been read before the rings were.
    pub fn watermark<B: Backlog>(&self, now: Nanos, backlogs: &[B]) -> Nanos {
        let full = self.queues.iter().any(Queue::is_full)
            || backlogs.iter().any(|backlog| backlog.held() >= QUEUE_EVENTS);
        let window = match (full, self.crowded) {
            (true, _) => SLACK,
            (false, true) => CROWDED_WINDOW,
            (false, false) => WINDOW,
        };
        let before = |time: Nanos, by: Nanos| Nanos(time.0.saturating_sub(by.0));
        let safe = |youngest, drained, window| match drained {
            true => before(youngest, SLACK).max(before(now, window)),
            false => before(youngest, SLACK),
        };
        let queues = self.queues.iter().map(|queue| safe(queue.youngest, queue.drained, window));
        let backlogs = backlogs.iter().map(|backlog| {
            let window = if backlog.is_complete() { SLACK } else { window };
            safe(backlog.youngest(), backlog.is_drained(), window)
        });
        queues.chain(backlogs).min().unwrap_or(before(now, window))
    }

    /// As [`Merger::emit_with`], without backlogs.
    pub fn emit(
        &mut self,
        watermark: Nanos,
        take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        self.emit_with::<NoBacklog>(watermark, &mut [], take)
    }

    /// Hands out, in order of time, every event not younger than `watermark`, as long as `take` returns true; returns what
    /// that returned last.
    ///
    /// The time that is handed out with an event never goes back. It is the event's own except for a late one. With
    /// the event come the bytes that it carries, if any.
    pub fn emit_with<B: Backlog>(
        &mut self,
        watermark: Nanos,
        backlogs: &mut [B],
        mut take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        let Merger { queues, heads, handed, .. } = self;
        heads.clear();
        for (number, queue) in queues.iter().enumerate() {
            if let Some(first) = queue.events.front() {
                heads.push(Reverse(Head { time: first.time, queue: number, part: Part::Queue }));
            }
        }
        for (number, backlog) in backlogs.iter_mut().enumerate() {
            if let Some(time) = backlog.first() {
                let (Lane(queue), part) = (backlog.queue(), Part::Backlog(number));
                heads.push(Reverse(Head { time, queue, part }));
            }
        }
        while let Some(Reverse(head)) = heads.peek().copied() {
            if head.time > watermark {
                break;
            }
            let until = turn(heads.as_slice(), head).min(watermark);
            let (go_on, next) = match head.part {
                Part::Queue => {
                    let queue = &mut queues[head.queue];
                    let go_on = queue.hand_out(until, |cpu, event, bytes| {
                        take(handed.at(event.time), cpu, event, bytes)
                    });
                    (go_on, queue.events.front().map(|event| event.time))
                }
                Part::Backlog(number) => {
                    let backlog = &mut backlogs[number];
                    let cpu = backlog.cpu();
                    let go_on = backlog
                        .hand_out(until, |event| take(handed.at(event.time), cpu, event, &[]));
                    (go_on, backlog.first())
                }
            };
            if !go_on {
                return false;
            }
            if let Some(mut first) = heads.peek_mut() {
                match next {
                    Some(time) => first.0.time = time,
                    None => drop(PeekMut::pop(first)),
                }
            }
        }
        true
    }

    /// As [`Merger::round_with`], without backlogs.
    pub fn round(
        &mut self,
        mut read: impl FnMut(&mut Merger) -> bool,
        clock: impl Fn() -> Nanos,
        take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        self.round_with::<NoBacklog>(&mut Vec::new(), |merger, _| read(merger), clock, take)
    }

    /// Lets `read` move what the rings hold into the merger or the backlogs, and hands out what nothing older can precede any
    /// more, until the rings are empty or `take` takes no more. `read` says whether a ring is not empty since its lane is
    /// full. Returns whether everything was taken.
    pub fn round_with<B: Backlog>(
        &mut self,
        backlogs: &mut Vec<B>,
        mut read: impl FnMut(&mut Merger, &mut Vec<B>) -> bool,
        clock: impl Fn() -> Nanos,
        mut take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        loop {
            // Before the rings are read: what happens from here on may not be in them yet.
            let now = clock();
            let full = read(self, backlogs);
            let held = self.held() + backlogs.iter().map(B::held).sum::<usize>();
            self.crowded = held >= if self.crowded { SPARSE } else { CROWDED };
            let go_on = self.emit_with(self.watermark(now, backlogs), backlogs, &mut take);
            if !full || !go_on {
                return go_on;
            }
        }
    }

    /// The time that was handed out last.
    pub fn emitted(&self) -> Nanos {
        self.handed.emitted
    }

    /// How many events arrived behind the watermark, and by how much the worst of them.
    pub fn late(&self) -> (u64, Nanos) {
        (self.handed.late, self.handed.most_late)
    }

    /// How many events are held.
    pub fn held(&self) -> usize {
        self.queues.iter().map(|queue| queue.events.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Loss;
    use super::*;

    const NONE: &[NoBacklog] = &[];

    fn event(time: u64) -> Event {
        Event { time: Nanos(time), kind: Kind::Lost(Loss::exactly(time)) }
    }

    fn emitted(merger: &mut Merger, watermark: u64) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        merger.emit(Nanos(watermark), |time, cpu, _, _| {
            found.push((time.0, cpu.0));
            true
        });
        found
    }

    /// The picture in the module's documentation, in milliseconds.
    #[test]
    fn the_picture_holds() {
        const MS: u64 = 1_000_000;
        let mut merger = Merger::new();
        let lanes = [0, 1, 2].map(|cpu| merger.lane(Cpu(cpu)));
        for ms in 290..=302 {
            merger.push(lanes[0], event(ms * MS));
        }
        for ms in 290..=292 {
            merger.push(lanes[1], event(ms * MS));
        }
        for ms in 290..=297 {
            merger.push(lanes[2], event(ms * MS));
        }
        // Seen at 303 ms, the quiet CPU 1 holds the others up to what it last showed ...
        assert_eq!(merger.watermark(Nanos(303 * MS), NONE), Nanos(291 * MS));
        assert_eq!(emitted(&mut merger, 291 * MS).len(), 6);
        // ... and a window later no longer: then CPU 2 proves what it has shown, less the slack.
        assert_eq!(merger.watermark(Nanos(396 * MS), NONE), Nanos(296 * MS));
        let rest = emitted(&mut merger, 296 * MS);
        assert_eq!(rest.len(), 1 + 5 + 5);
        assert_eq!(merger.held(), 6 + 1);
    }

    #[test]
    fn an_interrupt_that_was_stored_before_what_it_interrupted_is_put_after_it() {
        let mut merger = Merger::new();
        let lane = merger.lane(Cpu(0));
        for time in [10, 30, 31, 20, 40] {
            merger.push(lane, event(time));
        }
        let times: Vec<u64> = emitted(&mut merger, u64::MAX).iter().map(|pair| pair.0).collect();
        assert_eq!(times, [10, 20, 30, 31, 40]);
        assert_eq!(merger.late().0, 0);
    }

    #[test]
    fn what_comes_behind_the_watermark_is_late_and_time_does_not_go_back() {
        let mut merger = Merger::new();
        let lanes = [0, 1].map(|cpu| merger.lane(Cpu(cpu)));
        merger.push(lanes[0], event(100));
        assert_eq!(emitted(&mut merger, 100), [(100, 0)]);
        merger.push(lanes[1], event(60));
        merger.push(lanes[1], event(101));
        assert_eq!(emitted(&mut merger, 200), [(100, 1), (101, 1)]);
        assert_eq!(merger.late(), (1, Nanos(40)));
    }

    #[test]
    fn a_full_queue_makes_room_though_another_cpu_is_quiet() {
        let mut merger = Merger::new();
        let busy = merger.lane(Cpu(0));
        merger.lane(Cpu(1));
        // All of it within the window, so that the quiet CPU would hold it up.
        const MS: u64 = 1_000_000;
        for event_number in 0..QUEUE_EVENTS as u64 {
            merger.push(busy, event(500 * MS + event_number));
        }
        merger.set_drained(busy, false);
        assert!(merger.is_full(busy));
        let watermark = merger.watermark(Nanos(502 * MS), NONE);
        assert_eq!(watermark, Nanos(499 * MS + QUEUE_EVENTS as u64 - 1));
        merger.push(busy, event(510 * MS));
        let watermark = merger.watermark(Nanos(512 * MS), NONE);
        assert_eq!(emitted(&mut merger, watermark.0).len(), QUEUE_EVENTS);
        assert!(!merger.is_full(busy));
    }

    #[test]
    fn a_cpu_that_was_not_read_to_its_end_holds_up_the_others_however_late_it_is() {
        let mut merger = Merger::new();
        let lanes = [0, 1].map(|cpu| merger.lane(Cpu(cpu)));
        const MS: u64 = 1_000_000;
        merger.push(lanes[0], event(1000 * MS));
        merger.push(lanes[1], event(10 * MS));
        merger.set_drained(lanes[1], false);
        assert_eq!(merger.watermark(Nanos(2000 * MS), NONE), Nanos(9 * MS));
        merger.set_drained(lanes[1], true);
        assert_eq!(merger.watermark(Nanos(2000 * MS), NONE), Nanos(1900 * MS));
    }

    #[test]
    fn taking_can_stop_between_two_events() {
        let mut merger = Merger::new();
        let lane = merger.lane(Cpu(0));
        (1..=3).for_each(|time| merger.push(lane, event(time)));
        let mut taken = 0;
        merger.emit(Nanos(10), |_, _, _, _| {
            taken += 1;
            false
        });
        assert_eq!((taken, merger.held()), (1, 2));
        assert_eq!(emitted(&mut merger, 10), [(2, 0), (3, 0)]);
    }

    #[test]
    fn any_mix_of_cpus_comes_out_sorted_and_whole() {
        let mut merger = Merger::new();
        let lanes: Vec<Lane> = (0..256).map(|cpu| merger.lane(Cpu(cpu))).collect();
        let mut seed = 1u64;
        for round in 0..20u64 {
            for lane in &lanes {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                merger.push(*lane, event(round * 1000 + (seed >> 54)));
            }
        }
        let times: Vec<u64> = emitted(&mut merger, u64::MAX).iter().map(|pair| pair.0).collect();
        assert_eq!(times.len(), 20 * 256);
        assert!(times.is_sorted());
        assert_eq!(merger.late().0, 0);
    }

    /// A backlog of what a test puts in.
    #[derive(Debug)]
    struct Sorted {
        cpu: Cpu,
        queue: Lane,
        events: VecDeque<Event>,
        youngest: Nanos,
        complete: bool,
    }

    impl Backlog for Sorted {
        fn cpu(&self) -> Cpu {
            self.cpu
        }
        fn queue(&self) -> Lane {
            self.queue
        }
        fn first(&mut self) -> Option<Nanos> {
            self.events.front().map(|event| event.time)
        }
        fn youngest(&self) -> Nanos {
            self.youngest
        }
        fn is_drained(&self) -> bool {
            true
        }
        fn is_complete(&self) -> bool {
            self.complete
        }
        fn held(&self) -> usize {
            self.events.len()
        }
        fn hand_out(&mut self, until: Nanos, mut take: impl FnMut(&Event) -> bool) -> bool {
            while let Some(event) = self.events.front().copied().filter(|event| event.time <= until)
            {
                self.events.pop_front();
                if !take(&event) {
                    return false;
                }
            }
            true
        }
    }

    #[test]
    fn events_in_backlogs_go_out_as_those_in_queues_do() {
        const CPUS: u32 = 5;
        let mut seed = 1u64;
        let mut roll = |sides: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        // Two queues for each CPU, the second of which has little; the first is a backlog in the other merger.
        let (mut plain, mut other) = (Merger::new(), Merger::new());
        let queues: Vec<[Lane; 2]> = (0..CPUS)
            .map(|cpu| [plain.another_lane(Cpu(cpu)), plain.another_lane(Cpu(cpu))])
            .collect();
        let mut backlogs: Vec<Sorted> = (0..CPUS)
            .map(|cpu| {
                let queue = other.another_lane(Cpu(cpu));
                let (events, youngest) = (VecDeque::new(), Nanos(0));
                Sorted { cpu: Cpu(cpu), queue, events, youngest, complete: false }
            })
            .collect();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let mut times = [1000u64; CPUS as usize];
        for round in 0..200 {
            for _ in 0..roll(300) {
                let cpu = roll(u64::from(CPUS)) as usize;
                // Often at the same time as others, and in runs.
                for _ in 0..=roll(4) {
                    times[cpu] += roll(3);
                    let rare = roll(10) == 0;
                    let event = Event { time: Nanos(times[cpu]), kind: Kind::Online };
                    plain.push(queues[cpu][usize::from(rare)], event);
                    let backlog = &mut backlogs[cpu];
                    match rare {
                        true => other.push(backlog.queue, event),
                        false => {
                            backlog.events.push_back(event);
                            backlog.youngest = event.time;
                        }
                    }
                }
            }
            // Some of what follows is late.
            let watermark = times.iter().min().map_or(0, |time| time + roll(20));
            let watermark = if round == 199 { u64::MAX } else { watermark };
            // Taking stops somewhere now and then.
            let last = roll(100) as usize;
            expected.clear();
            plain.emit(Nanos(watermark), |time, cpu, event, _| {
                expected.push((time, cpu, event.time));
                expected.len() != last
            });
            found.clear();
            other.emit_with(Nanos(watermark), &mut backlogs, |time, cpu, event, _| {
                found.push((time, cpu, event.time));
                found.len() != last
            });
            assert_eq!(found, expected, "round {round}");
        }
        assert_eq!(plain.late(), other.late());
        assert!(plain.late().0 > 0, "nothing was late");
    }

    #[test]
    fn a_backlog_counts_for_the_watermark_as_a_queue_does() {
        const MS: u64 = 1_000_000;
        let mut merger = Merger::new();
        let queue = merger.another_lane(Cpu(0));
        merger.push(queue, event(500 * MS));
        let backlog = |youngest: u64| Sorted {
            cpu: Cpu(0),
            queue,
            events: VecDeque::new(),
            youngest: Nanos(youngest),
            complete: false,
        };
        assert_eq!(merger.watermark(Nanos(510 * MS), &[backlog(490 * MS)]), Nanos(489 * MS));
        // One that cannot lack anything does not hold up the queue.
        let complete = Sorted { complete: true, ..backlog(490 * MS) };
        assert_eq!(merger.watermark(Nanos(510 * MS), &[complete]), Nanos(499 * MS));
        assert_eq!(merger.watermark(Nanos(510 * MS), &[backlog(505 * MS)]), Nanos(499 * MS));
        let mut full = backlog(505 * MS);
        full.events = (0..QUEUE_EVENTS as u64).map(event).collect();
        assert_eq!(merger.watermark(Nanos(510 * MS), &[full]), Nanos(509 * MS));
    }
}
