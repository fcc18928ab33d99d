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
//! CPUs together hold more than a cache does, or one has filled half of its queue, they get [`CROWDED_WINDOW`]. What arrives
//! behind the watermark all the same goes out at once and is counted as late.
//!
//! What has come together may take longer to hand out than a ring takes to fill. So backlogs whose rings are filling are
//! read after every [`BETWEEN_LOOKS`] events. What goes out stays the same: the watermark is that of before, and by its proof
//! what such a look adds is younger.
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

/// They are from so many events on, which is some MiB: what has left the caches before its turn costs half as much again.
const CROWDED: usize = 128 * 1024;

/// So they are when one CPU alone has so many: half of what is held of it. Were the window longer than it takes to make the other half, a
/// hot CPU's queue would be full again and again, what comes meanwhile would stay in its ring, and all that is held
/// would go out in one long piece while the ring fills.
const CROWDED_CPU: usize = QUEUE_EVENTS / 2;

/// They are no more when there is less than this part of either.
const SPARSE_PART: usize = 8;

/// How much older than a CPU's youngest event one may be that is still to be stored: the length of an interrupt.
pub const SLACK: Nanos = Nanos(1_000_000);

/// How many events of one CPU are held at most.
pub const QUEUE_EVENTS: usize = 32 * 1024;

/// After so many events that went out, backlogs whose rings are filling are read: that is a few milliseconds.
pub const BETWEEN_LOOKS: usize = 32 * 1024;

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

    /// Reads the ring that it comes from, if that has not much room left; true if something is still in the ring since there is
    /// no room here.
    fn read_if_filling(&mut self) -> bool;

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

/// Why handing out ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emitted {
    /// Nothing is left up to the watermark.
    All,
    /// It was as much as was wanted.
    Enough,
    /// No more is taken.
    Refused,
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
        take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> bool {
        self.emit_some(watermark, backlogs, usize::MAX, take) != Emitted::Refused
    }

    /// As [`Merger::emit_with`], but ends when `most` events went out, or a few more if they are one CPU's.
    fn emit_some<B: Backlog>(
        &mut self,
        watermark: Nanos,
        backlogs: &mut [B],
        most: usize,
        mut take: impl FnMut(Nanos, Cpu, &Event, &[u8]) -> bool,
    ) -> Emitted {
        let mut out = 0;
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
            if out >= most {
                return Emitted::Enough;
            }
            let until = turn(heads.as_slice(), head).min(watermark);
            let (go_on, next) = match head.part {
                Part::Queue => {
                    let queue = &mut queues[head.queue];
                    let before = queue.held();
                    let go_on = queue.hand_out(until, |cpu, event, bytes| {
                        take(handed.at(event.time), cpu, event, bytes)
                    });
                    out += before - queue.held();
                    (go_on, queue.events.front().map(|event| event.time))
                }
                Part::Backlog(number) => {
                    let backlog = &mut backlogs[number];
                    let (cpu, before) = (backlog.cpu(), backlog.held());
                    let go_on = backlog
                        .hand_out(until, |event| take(handed.at(event.time), cpu, event, &[]));
                    out += before - backlog.held();
                    (go_on, backlog.first())
                }
            };
            if !go_on {
                return Emitted::Refused;
            }
            if let Some(mut first) = heads.peek_mut() {
                match next {
                    Some(time) => first.0.time = time,
                    None => drop(PeekMut::pop(first)),
                }
            }
        }
        Emitted::All
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
            let mut full = read(self, backlogs);
            self.note_crowd(backlogs);
            let watermark = self.watermark(now, backlogs);
            loop {
                match self.emit_some(watermark, backlogs, BETWEEN_LOOKS, &mut take) {
                    Emitted::All => break,
                    Emitted::Refused => return false,
                    Emitted::Enough => {
                        for backlog in backlogs.iter_mut() {
                            full |= backlog.read_if_filling();
                        }
                    }
                }
            }
            if !full {
                return true;
            }
        }
    }

    /// Whether CPUs that are quiet may hold up the others for less time from now on.
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
mod tests;
