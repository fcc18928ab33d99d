//! Merges the events of all CPUs in order of time.
//!
//! Every CPU has a queue, sorted by time. A ring is nearly sorted already: only an interrupt that fires between the stamping and the
//! storing of a sample puts its own, younger samples first. So a new event is inserted from the back and almost never moves.
//!
//! Across CPUs the kernel guarantees less: a sample can become visible later than a younger one of another CPU. So events are held back
//! until nothing older can arrive. This time limit is the *watermark*:
//!
//! ```text
//!   CPU 0   . . . . . . . . . . o o o       youngest seen: t0, nothing older than t0 - SLACK can follow
//!   CPU 1   . . .                           quiet: nothing older than now - WINDOW can follow
//!   CPU 2   . . . . . . . o | | | | |       not read to its end: nothing older than t2 - SLACK can follow
//!                 ^
//!                 watermark = the minimum of these; what is left of it is merged
//! ```
//!
//! A busy CPU's younger events prove that its older ones have arrived, however long the machine was delayed in between. A quiet CPU gets
//! [`WINDOW`], and so does one whose ring was read to its end; if its ring shows that nothing is being written, it needs no more than
//! [`SLACK`]. Memory is bounded: a full queue accepts no more, its ring keeps the rest, and the quiet CPUs get only [`SLACK`] until there
//! is room again. Long before that, when all CPUs together hold more than fits in a cache, or one CPU has filled half of its queue, they
//! get [`CROWDED_WINDOW`]. An event that still arrives behind the watermark is passed on at once and counted as late.
//!
//! Handing out the held events may take longer than a ring takes to fill. So backlogs whose rings are filling are read after every
//! [`BETWEEN_LOOKS`] events. This does not change which events are passed on: the watermark stays the same, and every event that such a
//! read adds is younger, for the reasons above.
//!
//! While one CPU has the oldest events, they are passed on one after the other, up to the first event of the next CPU. Events that need no
//! sorting may wait outside of the queues, as a [`Backlog`], in a form that takes less memory.

mod payloads;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

use super::event::{Event, Kind, Payload};
use fxtrec_units::{Cpu, Nanos};
use payloads::Payloads;

/// The time for which a quiet CPU may delay the others.
pub const WINDOW: Nanos = Nanos(100_000_000);

/// [`WINDOW`] while the queues of all CPUs are crowded.
pub const CROWDED_WINDOW: Nanos = Nanos(10_000_000);

/// Queues are crowded from this number of events on, which takes a few MiB: events that leave the caches before their turn cost half as
/// much again.
const CROWDED: usize = 128 * 1024;

/// Queues are also crowded when a single CPU has this many events, half of what its queue holds. If the window were longer than the other
/// half takes to arrive, a hot CPU's queue would fill up repeatedly, new events would stay in its ring, and all held events would be passed
/// on in one burst while the ring fills.
const CROWDED_CPU: usize = QUEUE_EVENTS / 2;

/// Queues are no longer crowded below this fraction of either number.
const SPARSE_PART: usize = 8;

/// The maximum time by which a sample that is not stored yet may be older than a CPU's youngest event: the length of an interrupt.
pub const SLACK: Nanos = Nanos(1_000_000);

/// Maximum number of events of one CPU that are held.
pub const QUEUE_EVENTS: usize = 32 * 1024;

/// Backlogs whose rings are filling are read each time this many events were passed on, which takes a few milliseconds.
pub const BETWEEN_LOOKS: usize = 32 * 1024;

/// If a round passes on fewer events than that, the maximum length of one CPU's run, in nanoseconds.
const SHORT_RUN: u64 = 1_000_000;

/// The maximum number of bytes of event payloads that a queue holds, within one event.
pub const PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// The events of one CPU, sorted by time.
#[derive(Debug)]
pub struct Queue {
    cpu: Cpu,
    events: VecDeque<Event>,
    payloads: Payloads,
    youngest: Nanos,
    /// Whether the queue has everything that the CPU had reported by the last read.
    drained: bool,
}

impl Queue {
    fn new(cpu: Cpu) -> Queue {
        let (events, payloads) = (VecDeque::new(), Payloads::default());
        Queue { cpu, events, payloads, youngest: Nanos(0), drained: true }
    }

    /// Whether it accepts no more until [`Merger::emit`] makes room.
    pub fn is_full(&self) -> bool {
        self.events.len() >= QUEUE_EVENTS || self.payloads.held() >= PAYLOAD_BYTES
    }

    /// Stores the bytes that an event will carry, which must then be pushed to the same queue.
    pub fn keep(&mut self, content: &[u8]) -> Payload {
        self.payloads.push(content)
    }

    /// Adds an event of the CPU.
    // Inlined so that the event is built in its place: see [`decode_plain`](super::decode::decode_plain).
    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        if event.time < self.youngest {
            return self.insert(event);
        }
        self.youngest = event.time;
        self.events.push_back(event);
    }

    /// Adds an event that is older than the youngest event.
    #[cold]
    fn insert(&mut self, event: Event) {
        let mut at = self.events.len();
        while at > 0 && self.events[at - 1].time > event.time {
            at -= 1;
        }
        self.events.insert(at, event);
    }

    /// Passes on its events up to and including time `until`, as long as `take` returns true; returns the last result of `take`.
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

    /// Sets whether it has everything that the CPU has reported up to now.
    pub fn set_drained(&mut self, drained: bool) {
        self.drained = drained;
    }

    /// Time of the youngest event that was ever in it.
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

/// Events of one CPU that wait outside of the queues, sorted by time, in a separate format.
pub trait Backlog {
    /// That format.
    type Item;

    /// The number with which [`Receive::item`] gets its items; it is different for each backlog.
    fn number(&self) -> usize;

    fn cpu(&self) -> Cpu;

    /// A queue of the same CPU. If events have the same time as one in the backlog, those in earlier queues are passed on before it, and
    /// those in this queue after it.
    fn queue(&self) -> Lane;

    /// Time of the first event that is left.
    fn first(&mut self) -> Option<Nanos>;

    /// Time of the youngest event that was ever in it.
    fn youngest(&self) -> Nanos;

    /// Whether it has everything that the CPU had reported by the last read.
    fn is_drained(&self) -> bool;

    /// Whether nothing happened on the CPU between the last event and the read, except in the last [`SLACK`]: then the CPU does not delay
    /// others.
    fn is_complete(&self) -> bool;

    /// Reads its ring if little space is left in it; returns true if events remain in the ring because the backlog has no space.
    fn read_if_filling(&mut self) -> bool;

    /// Number of events in it. At [`QUEUE_EVENTS`] it accepts no more until [`Backlog::hand_out`] makes room.
    fn held(&self) -> usize;

    /// Passes on its items in order, up to and including time `until`, as long as `take` returns true. Returns the last result of `take`.
    fn hand_out(&mut self, until: Nanos, take: impl FnMut(&Self::Item) -> bool) -> bool;
}

/// Receives the events that a [`Merger`] passes on. Both methods return false to stop.
pub trait Receive<Item> {
    /// Receives an event of a queue, with the adjusted time, and its bytes.
    fn event(&mut self, time: Nanos, cpu: Cpu, event: &Event, bytes: &[u8]) -> bool;

    /// Receives an item of the backlog with the number `backlog`, which belongs to `cpu`. `handed` maps the time of each of its events to
    /// the adjusted time.
    fn item(&mut self, handed: &mut Handed, backlog: usize, cpu: Cpu, item: &Item) -> bool;
}

/// If the items are events, a closure takes all of them.
impl<F: FnMut(Nanos, Cpu, &Event, &[u8]) -> bool> Receive<Event> for F {
    fn event(&mut self, time: Nanos, cpu: Cpu, event: &Event, bytes: &[u8]) -> bool {
        self(time, cpu, event, bytes)
    }

    fn item(&mut self, handed: &mut Handed, _: usize, cpu: Cpu, event: &Event) -> bool {
        self(handed.at(event.time), cpu, event, &[])
    }
}

/// For mergers that have all events in queues.
#[derive(Debug)]
pub enum NoBacklog {}

impl Backlog for NoBacklog {
    type Item = Event;

    fn number(&self) -> usize {
        match *self {}
    }

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

    fn read_if_filling(&mut self) -> bool {
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
    /// One entry for each queue and backlog that is not empty. Kept to avoid allocations.
    heads: BinaryHeap<Reverse<Head>>,
    crowded: bool,
    handed: Handed,
    /// The number of events that a round passes on, and whether the last round left some.
    most_in_round: Option<usize>,
    has_more: bool,
}

/// The time of the first event of a queue or backlog, and its index; events with the same time are in the order of the indices. All of this
/// is in one number, because the heap compares heads several times for each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head(u128);

/// Where the first event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// In the backlog with this index.
    Backlog(usize),
    /// In the queue with this index.
    Queue(usize),
}

impl Head {
    /// Represents a queue, in place of a backlog's index.
    const NONE: u32 = u32::MAX;

    /// The head of a queue. The numbers of queues and backlogs are below those of all possible CPUs.
    fn of_queue(time: Nanos, queue: usize) -> Head {
        Head::new(time, queue, Head::NONE)
    }

    /// The head of a backlog that names this queue: it precedes that of the queue.
    fn of_backlog(time: Nanos, Lane(queue): Lane, backlog: usize) -> Head {
        Head::new(time, queue, backlog as u32)
    }

    fn new(time: Nanos, queue: usize, backlog: u32) -> Head {
        Head(u128::from(time.0) << 64 | (queue as u128) << 32 | u128::from(backlog))
    }

    fn time(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }

    fn set_time(&mut self, time: Nanos) {
        self.0 = u128::from(time.0) << 64 | u128::from(self.0 as u64);
    }

    fn part(self) -> Part {
        match self.0 as u32 {
            Head::NONE => Part::Queue((self.0 >> 32) as u32 as usize),
            backlog => Part::Backlog(backlog as usize),
        }
    }
}

/// The reason why passing on ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emitted {
    /// Nothing is left up to the watermark.
    All,
    /// As many as requested were passed on.
    Enough,
    /// The receiver has stopped.
    Refused,
}

/// The number of events that were passed on so far.
#[derive(Debug, Default)]
pub struct Handed {
    emitted: Nanos,
    late: u64,
    most_late: Nanos,
}

impl Handed {
    /// For events that follow an event that was handed out with this time.
    pub fn since(emitted: Nanos) -> Handed {
        Handed { emitted, ..Handed::default() }
    }

    /// The time with which an event of `time` is passed on.
    #[inline]
    pub fn at(&mut self, time: Nanos) -> Nanos {
        if time < self.emitted {
            self.late += 1;
            self.most_late = self.most_late.max(Nanos(self.emitted.0 - time.0));
        } else {
            self.emitted = time;
        }
        self.emitted
    }
}

/// The time up to which `first`, the first of `heads`, is passed on before the second.
fn turn(heads: &[Reverse<Head>], first: Head) -> Nanos {
    // The two children of a heap's root include the second.
    let second = heads.iter().skip(1).take(2).map(|head| head.0).min();
    second.map_or(Nanos(u64::MAX), |second| match first.time() == second.time() {
        true => second.time(),
        // For events at exactly the time of the second one, the order is determined when that time has been reached.
        false => Nanos(second.time().0 - 1),
    })
}

/// The entry of one CPU in a [`Merger`].
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

    /// Makes a round pass on `most` events, or a few more; `None` for all. See [`Merger::has_more`].
    pub fn limit_rounds(&mut self, most: Option<usize>) {
        self.most_in_round = most;
    }

    /// Whether the last round left events for the next one, because it had handed out enough.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// The queue of `cpu`, which is created if there is none.
    pub fn lane(&mut self, cpu: Cpu) -> Lane {
        let known = self.queues.iter().position(|queue| queue.cpu == cpu);
        known.map_or_else(|| self.another_lane(cpu), Lane)
    }

    /// Creates another queue of `cpu`, for events that arrive in another way and are ordered separately.
    pub fn another_lane(&mut self, cpu: Cpu) -> Lane {
        let (events, payloads) = (VecDeque::new(), Payloads::default());
        let youngest = Nanos(0);
        self.queues.push(Queue { cpu, events, payloads, youngest, drained: true });
        Lane(self.queues.len() - 1)
    }

    /// Whether the lane accepts no more until [`Merger::emit`] makes room.
    pub fn is_full(&self, lane: Lane) -> bool {
        self.queues[lane.0].is_full()
    }

    /// Stores the bytes that an event will carry, which must then be pushed to the same lane.
    pub fn keep(&mut self, lane: Lane, content: &[u8]) -> Payload {
        self.queues[lane.0].keep(content)
    }

    /// Adds an event of the lane's CPU.
    pub fn push(&mut self, lane: Lane, event: Event) {
        self.queues[lane.0].push(event);
    }

    /// The lane's queue, to fill it in place.
    pub fn queue(&mut self, lane: Lane) -> &mut Queue {
        &mut self.queues[lane.0]
    }

    /// Lends the lane's queue, so that another thread can fill it. Until it is back, the lane is empty.
    pub fn lend(&mut self, lane: Lane) -> Queue {
        let queue = &mut self.queues[lane.0];
        let empty = Queue::new(queue.cpu);
        std::mem::replace(queue, empty)
    }

    /// Puts a lent queue back into its lane.
    pub fn take_back(&mut self, lane: Lane, queue: Queue) {
        self.queues[lane.0] = queue;
    }

    /// Sets whether the lane has everything that its CPU has reported up to now.
    pub fn set_drained(&mut self, lane: Lane, drained: bool) {
        self.queues[lane.0].drained = drained;
    }

    /// The time up to which no event can be missing any more at `now`, which must be read before the rings are.
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

    /// The same as [`Merger::emit_with`], without backlogs.
    pub fn emit(
        &mut self,
        watermark: Nanos,
        mut take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        self.emit_with::<NoBacklog>(watermark, &mut [], &mut take)
    }

    /// Passes on, in order of time, every event up to `watermark`, as long as `to` returns true; returns its last result.
    ///
    /// The time that is passed with an event never decreases. It is the event's own time unless the event is late. The bytes that the event
    /// carries, if any, are passed too.
    pub fn emit_with<B: Backlog>(
        &mut self,
        watermark: Nanos,
        backlogs: &mut [B],
        to: &mut impl Receive<B::Item>,
    ) -> bool {
        self.emit_some(watermark, backlogs, usize::MAX, to) != Emitted::Refused
    }

    /// The same as [`Merger::emit_with`], but stops after `most` events, or a few more if they are from one CPU.
    fn emit_some<B: Backlog>(
        &mut self,
        watermark: Nanos,
        backlogs: &mut [B],
        most: usize,
        to: &mut impl Receive<B::Item>,
    ) -> Emitted {
        let mut out = 0;
        let Merger { queues, heads, handed, .. } = self;
        heads.clear();
        for (number, queue) in queues.iter().enumerate() {
            if let Some(first) = queue.events.front() {
                heads.push(Reverse(Head::of_queue(first.time, number)));
            }
        }
        for (number, backlog) in backlogs.iter_mut().enumerate() {
            if let Some(time) = backlog.first() {
                heads.push(Reverse(Head::of_backlog(time, backlog.queue(), number)));
            }
        }
        while let Some(Reverse(head)) = heads.peek().copied() {
            if head.time() > watermark {
                break;
            }
            if out >= most {
                return Emitted::Enough;
            }
            let run = if most < BETWEEN_LOOKS { SHORT_RUN } else { u64::MAX };
            let until = Nanos(head.time().0.saturating_add(run));
            let until = turn(heads.as_slice(), head).min(watermark).min(until);
            let (go_on, next) = match head.part() {
                Part::Queue(number) => {
                    let queue = &mut queues[number];
                    let before = queue.held();
                    let go_on = queue.hand_out(until, |cpu, event, bytes| {
                        to.event(handed.at(event.time), cpu, event, bytes)
                    });
                    out += before - queue.held();
                    (go_on, queue.events.front().map(|event| event.time))
                }
                Part::Backlog(index) => {
                    let backlog = &mut backlogs[index];
                    let (number, cpu) = (backlog.number(), backlog.cpu());
                    let before = backlog.held();
                    let go_on = backlog.hand_out(until, |item| to.item(handed, number, cpu, item));
                    out += before - backlog.held();
                    (go_on, backlog.first())
                }
            };
            if !go_on {
                return Emitted::Refused;
            }
            if let Some(mut first) = heads.peek_mut() {
                match next {
                    Some(time) => first.0.set_time(time),
                    None => drop(PeekMut::pop(first)),
                }
            }
        }
        Emitted::All
    }

    /// The same as [`Merger::round_with`], without backlogs.
    pub fn round(
        &mut self,
        mut read: impl FnMut(&mut Merger) -> bool,
        clock: impl Fn() -> Nanos,
        mut take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        self.round_with::<NoBacklog>(&mut Vec::new(), |merger, _| read(merger), clock, &mut take)
    }

    /// Lets `read` move the content of the rings into the merger or the backlogs, and passes on events that no older event can precede any
    /// more, until the rings are empty or `to` accepts no more. `read` returns whether something stays in a ring because its lane is full.
    /// Returns whether everything was accepted.
    pub fn round_with<B: Backlog>(
        &mut self,
        backlogs: &mut Vec<B>,
        mut read: impl FnMut(&mut Merger, &mut Vec<B>) -> bool,
        clock: impl Fn() -> Nanos,
        to: &mut impl Receive<B::Item>,
    ) -> bool {
        self.has_more = false;
        let most = self.most_in_round.unwrap_or(BETWEEN_LOOKS);
        loop {
            // Must be read before the rings: events from here on might not be in them yet.
            let now = clock();
            let mut full = read(self, backlogs);
            self.note_crowd(backlogs);
            let watermark = self.watermark(now, backlogs);
            loop {
                match self.emit_some(watermark, backlogs, most, to) {
                    Emitted::All => break,
                    Emitted::Refused => return false,
                    Emitted::Enough if self.most_in_round.is_some() => {
                        self.has_more = true;
                        return true;
                    }
                    Emitted::Enough => {
                        for backlog in backlogs.iter_mut() {
                            full |= backlog.read_if_filling();
                        }
                    }
                }
            }
            self.has_more = full && self.most_in_round.is_some();
            if !full || self.has_more {
                return true;
            }
        }
    }

    /// Updates whether quiet CPUs may delay the others only for a shorter time.
    fn note_crowd<B: Backlog>(&mut self, backlogs: &[B]) {
        let queues = self.queues.iter().map(Queue::held);
        let all = queues.chain(backlogs.iter().map(B::held));
        let (sum, most) =
            all.fold((0, 0), |(sum, most): (usize, usize), held| (sum + held, most.max(held)));
        let part = if self.crowded { SPARSE_PART } else { 1 };
        self.crowded = sum >= CROWDED / part || most >= CROWDED_CPU / part;
    }

    /// The time that was handed out last.
    pub fn emitted(&self) -> Nanos {
        self.handed.emitted
    }

    /// The number of events that arrived behind the watermark, and the greatest delay of one.
    pub fn late(&self) -> (u64, Nanos) {
        (self.handed.late, self.handed.most_late)
    }

    /// The number of held events.
    pub fn held(&self) -> usize {
        self.queues.iter().map(|queue| queue.events.len()).sum()
    }
}

#[cfg(test)]
mod tests;
