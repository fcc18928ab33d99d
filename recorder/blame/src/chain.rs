//! The critical path: from the end of an interval backwards, through the wakers.
//!
//! ```text
//!   audio  |== blocked in futex =====================|- ran -|
//!                                                    ^ woken by ui
//!   ui        |= ran =|..... waited for CPU 0 .......|
//!                       hog had it
//!   chain  |u|= ui ran |..... ui waited, for hog ....| audio |     u: before that, ui slept: who woke it, and so on
//! ```
//!
//! While a thread has a CPU, waits for a CPU or is held back by a quota, this state is the reason why it makes no progress. While it is
//! blocked, the reason is what the thread that eventually woke it did in the meantime. So a [`Frame`] is what one thread did in an
//! interval, and a step in which it was blocked contains the frame of its waker for the same interval. The innermost steps, one after
//! another, tile the outermost interval.
//!
//! A server with its own timers interrupts its wait for another thread now and then. In the frame of a waker, these waits count as a single
//! wait, and the last part shows the reason:
//!
//! ```text
//!   server |= poll ===|- its timer -|= poll ===|- its timer -|= poll ===|- answers -|
//!                                                                       ^ woken by the database
//!   frame  |=================== poll, until the database woke it =======|- ran -----|
//! ```

use fxt_reader::Cpu;
use fxtrec_sched::State;

use crate::log::{Entry, Id, Log, Taken};
use crate::origins::Origin;
use crate::threads::Index;
use crate::track::{By, Lock, OnCpu, Reason, Request};
use crate::{Cause, Causes, Class};

/// Maximum depth of wakers that are followed.
const MOST_DEEP: usize = 48;

/// Maximum number of steps of a chain.
pub const MOST_STEPS: usize = 100_000;

/// Maximum number of lock owners that are followed although they did not wake the waiter.
const MOST_HOLDERS: usize = 64;

/// Maximum number of entries searched for the threads that had the CPUs during a wait.
const MOST_LOOKS: u64 = 50_000_000;

/// The maximum time, in nanoseconds, until a woken thread is runnable after its waker has begun the wakeup and left its CPU. It takes
/// microseconds, unless a host has taken away the target CPU.
const MOST_UNDERWAY: u64 = 50_000_000;

/// Maximum number of threads that had the CPU in a wait and are listed individually.
const MOST_SHARES: usize = 64;

/// What a thread did in an interval: steps in order, without gaps.
#[derive(Clone, Debug)]
pub struct Frame {
    pub thread: Index,
    pub from: u64,
    pub to: u64,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub from: u64,
    pub to: u64,
    pub what: What,
}

/// What a thread did during the whole interval.
#[derive(Clone, Debug)]
pub enum What {
    /// It had a CPU. The parts taken from that time, if it is the whole slice; `None` for a part of a slice from which something was taken,
    /// because it is unknown which part; `all_taken` is the sum taken from the whole slice, in nanoseconds.
    Ran {
        cpu: Cpu,
        taken: Option<Taken>,
        all_taken: u64,
    },
    /// It waited for a CPU, after it was woken or preempted. The threads that had the CPU, and for how long, the longest first.
    Waited {
        cpu: Cpu,
        woken: Option<By>,
        shares: Vec<(OnCpu, u64)>,
    },
    /// A quota held the thread back.
    Throttled {
        cgroup: Option<u32>,
    },
    Blocked(Blocked),
    /// It was woken, not yet runnable.
    Underway,
    /// The packet that it sent was on its way.
    Packet,
    /// Its request was in the queue of a disk, or in the disk.
    Request(Request, Origin),
    Unknown(Reason),
}

/// It was blocked, stopped, or had ended.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// When that began, possibly before the interval.
    pub since: u64,
    pub state: State,
    pub syscall: Option<u64>,
    /// Whether the thread is known.
    pub is_call_known: bool,
    /// The lock that it waited for, if recorded.
    pub lock: Option<Lock>,
    /// What it waited for according to its stack, if the stack was examined.
    pub by_stack: Option<Class>,
    pub ended: Ended,
    /// When the waker sent the packet that woke the thread, if a packet did.
    pub sent: Option<u64>,
    /// The request whose completion woke the thread.
    pub request: Option<Request>,
    /// What the waker did during the wait, if it was a thread and could be followed.
    pub inside: Option<Box<Frame>>,
    /// The reason why it was not followed although it was a thread.
    pub stopped: Option<Reason>,
    /// What the owner of the lock did during the wait, if another thread ended the wait, or if it has not ended.
    pub holder: Option<Box<Frame>>,
}

impl Blocked {
    /// What it waited for, in a recording that has these facts. `name` is that of its system call.
    pub fn class(&self, causes: Causes, name: Option<&str>) -> Class {
        match self.lock {
            Some(lock) if lock.is_end => return Class::Join,
            Some(lock) if lock.kernel.is_some() => return Class::KernelLock,
            _ => {}
        }
        let known = causes.has(Cause::Syscall) && self.is_call_known || self.syscall.is_some();
        let class = Class::of(self.state, known.then_some(name));
        if self.request.is_some() && class.is_vague() {
            return Class::Disk;
        }
        self.by_stack.filter(|_| class.is_vague()).unwrap_or(class)
    }
}

/// How a blocked time ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It continues beyond the interval.
    NotYet,
    Woken(By),
}

impl Step {
    pub fn length(&self) -> u64 {
        self.to - self.from
    }
}

/// The thread that ended a wait, its entry when the wait began and the one after that, and the system call of the wait.
#[derive(Clone, Copy, Debug)]
struct Later {
    waker: Index,
    then: Id,
    next: Option<(Id, Entry)>,
    syscall: u64,
}

/// A thread's time, examined from its end.
struct Walk<'a> {
    log: &'a Log,
    /// The threads that are being followed, the outermost first.
    stack: Vec<Index>,
    steps: usize,
    looks: u64,
    holders: usize,
    wakers: Wakers,
    /// Whether a thread is followed during a wait that its own timer ended.
    tried: bool,
}

/// How to treat the wakers of an interval's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakers {
    /// They are followed: their activity during the wait is examined.
    Followed,
    /// They are only named.
    OnlyNamed,
}

/// What a thread did in an interval that has ended, and which threads it waited for.
pub fn follow(log: &Log, thread: Index, (from, to): (u64, u64), wakers: Wakers) -> Frame {
    let stack = Vec::new();
    let mut walk = Walk { log, stack, steps: 0, looks: 0, holders: 0, wakers, tried: false };
    let last = log.last(thread).unwrap_or(Id::NONE);
    walk.frame(thread, (from, to), last)
}

impl Walk<'_> {
    /// The frame of a thread; `last` is the thread's entry at the end of the interval, or a later entry.
    fn frame(&mut self, thread: Index, within: (u64, u64), last: Id) -> Frame {
        self.frame_before(thread, within, last, None)
    }

    /// [`Self::frame`], if the entry after `last` is known.
    fn frame_before(
        &mut self,
        thread: Index,
        (from, to): (u64, u64),
        last: Id,
        next: Option<(Id, Entry)>,
    ) -> Frame {
        self.stack.push(thread);
        let mut steps: Vec<Step> = Vec::new();
        // The current step ends here, and `next` is the entry at which the previous step ends.
        let (mut until, mut id) = (to, last);
        let mut next = next;
        let mut later = None;
        let mut anchor = None;
        while until > from {
            let first = |first: &(Id, Entry)| self.log.before_first(thread, &first.1);
            let known = match id {
                Id::NONE => next.as_ref().and_then(first),
                id => self.log.get(id),
            };
            let Some(mut entry) = known else {
                let reason = if id == Id::NONE { Reason::NotSeen } else { Reason::NotKept };
                steps.push(Step { from, to: until, what: What::Unknown(reason) });
                break;
            };
            if self.stack.len() > 1 && self.wakers == Wakers::Followed {
                (id, entry) = self.first_wait((id, entry), next, (from, until));
            }
            let begin = entry.time.max(from);
            if begin < until {
                self.steps += 1;
                if self.steps > MOST_STEPS || self.looks > MOST_LOOKS {
                    let what = What::Unknown(Reason::NotFollowed);
                    steps.push(Step { from, to: until, what });
                    break;
                }
                let whole = entry.time >= from && next.is_some_and(|it| it.1.time == until);
                let mut what = self.what((id, &entry), (begin, until), (next, whole), anchor);
                if self.stack.len() == 1 && self.wakers == Wakers::Followed {
                    later = self.tried((&entry, next), &mut what, (begin, until), later);
                }
                steps.push(Step { from: begin, to: until, what });
                until = begin;
            } else {
                self.looks += 1;
            }
            // The first entry after that shows which thread had the CPU that it was queued on.
            anchor = entry.anchor().or(anchor);
            (next, id) = (Some((id, entry)), entry.prev);
        }
        self.stack.pop();
        steps.reverse();
        Frame { thread, from, to, steps }
    }

    /// The first of a series of waits in the same system call. A thread ended the last wait, and the waiting thread's own timers ended the
    /// others. The waiting thread did nothing in between that caused the last wait to end.
    fn first_wait(
        &mut self,
        (id, entry): (Id, Entry),
        next: Option<(Id, Entry)>,
        (from, until): (u64, u64),
    ) -> (Id, Entry) {
        let mut first = (id, entry);
        let next = next.map(|it| it.1).filter(|it| it.time == until && entry.state.is_blocked());
        let Some((By::Thread(_), then)) = next.as_ref().and_then(Entry::woken) else {
            return first;
        };
        let mut of_waker = then;
        while first.1.time > from && self.looks <= MOST_LOOKS {
            // Goes back through what the thread did since its previous wait.
            let (mut at, mut later) = (first.1.prev, first.1);
            let before = loop {
                self.looks += 1;
                match self.log.get(at) {
                    Some(it) if it.state.is_blocked() => break it,
                    Some(it)
                        if it.state == State::Running
                            || it.state.is_waiting()
                            || is_missed(&it) =>
                    {
                        (at, later) = (it.prev, it);
                    }
                    _ => return first,
                }
            };
            let by_timer =
                matches!(later.woken(), Some((By::Interrupt(by), _)) if by.is_own_timer());
            if !by_timer && !is_missed(&later)
                || before.syscall().is_none()
                || before.syscall() != entry.syscall()
            {
                return first;
            }
            if !self.is_unasked((&mut of_waker, &mut None), before.time.max(from)) {
                return first;
            }
            first = (at, before);
        }
        first
    }

    /// Handles a thread that was blocked until its own timer woke it, and then again in the same system call until another thread woke it:
    /// adds the activity of the other thread during the first wait. `later` has the other thread, its entry at that time or a later one,
    /// and the system call. Returns the same for the preceding step.
    fn tried(
        &mut self,
        (entry, next): (&Entry, Option<(Id, Entry)>),
        what: &mut What,
        (from, to): (u64, u64),
        later: Option<Later>,
    ) -> Option<Later> {
        let What::Blocked(blocked) = what else {
            let is_between = matches!(
                what,
                What::Ran { .. } | What::Waited { .. } | What::Unknown(Reason::NoWakeup)
            );
            return later.filter(|_| is_between);
        };
        match (blocked.ended, later) {
            (Ended::Woken(By::Thread(waker)), _) => {
                let (_, then) = next.and_then(|it| it.1.woken())?;
                let syscall = blocked.syscall?;
                let mut later = Later { waker, then, next: None, syscall };
                self.is_unasked((&mut later.then, &mut later.next), from).then_some(later)
            }
            (Ended::Woken(By::Interrupt(by)), Some(mut later))
                if by.is_own_timer() && blocked.syscall == Some(later.syscall) =>
            {
                let Later { waker, then, next, .. } = later;
                let is_unasked = self.is_unasked((&mut later.then, &mut later.next), from);
                if !entry.state.is_blocked() || !is_unasked {
                    return None;
                }
                self.tried = true;
                blocked.inside = Some(Box::new(self.frame_before(waker, (from, to), then, next)));
                self.tried = false;
                Some(later)
            }
            // The wakeup is not in the file: the next step is unknown.
            (Ended::NotYet, Some(mut later)) if blocked.syscall == Some(later.syscall) => {
                self.is_unasked((&mut later.then, &mut later.next), from).then_some(later)
            }
            _ => None,
        }
    }

    /// Goes back through what a thread did after `from`. Whether the thread that is followed did not wake it in that time.
    fn is_unasked(&mut self, (then, next): (&mut Id, &mut Option<(Id, Entry)>), from: u64) -> bool {
        let thread = self.stack.last().copied();
        while let Some(entry) = self.log.get(*then).filter(|it| it.time > from) {
            self.looks += 1;
            if matches!(entry.woken(), Some((By::Thread(by), _)) if Some(by) == thread) {
                return false;
            }
            (*then, *next) = (entry.prev, Some((*then, entry)));
        }
        true
    }

    fn what(
        &mut self,
        (id, entry): (Id, &Entry),
        (from, to): (u64, u64),
        (next, whole): (Option<(Id, Entry)>, bool),
        anchor: Option<Id>,
    ) -> What {
        match entry.state {
            State::Running => {
                let taken = self.log.taken_of(id);
                let all_taken = taken.steal.saturating_add(taken.irq);
                let taken = (whole || all_taken == 0).then_some(taken);
                What::Ran { cpu: entry.cpu, taken, all_taken }
            }
            State::Throttled | State::WokenThrottled => {
                What::Throttled { cgroup: self.log.quota_of(id) }
            }
            State::Woken | State::Preempted => {
                let anchor = anchor.or_else(|| self.log.anchor_of_cpu(entry.cpu));
                let shares = self.shares(entry.cpu, anchor, (from, to));
                let woken = entry.woken().map(|woken| woken.0);
                let woken = woken.or((entry.state == State::Woken).then_some(By::Unknown));
                What::Waited { cpu: entry.cpu, woken, shares }
            }
            State::Unknown | State::NotRecorded => What::Unknown(entry.reason()),
            state => {
                // While another thread retried, this thread may have continued to wait.
                let is_end = |it: &(Id, Entry)| it.1.time == to || self.tried && it.1.time > to;
                let (next_id, next) = next.filter(is_end).unzip();
                let woken = next.as_ref().and_then(Entry::woken);
                let Some((by, then)) = woken else {
                    let ended = (Ended::NotYet, None, None);
                    return self.blocked((id, entry), (from, to), ended, (None, None));
                };
                // How long a request took is known where it ended.
                let done = next_id.filter(|_| next.is_some_and(|it| it.time == to));
                let request = done.and_then(|id| self.log.request_of(id));
                let sent = next.as_ref().and_then(Entry::sent);
                let inside = match by {
                    By::Thread(waker) if state.is_blocked() && self.wakers == Wakers::Followed => {
                        match sent {
                            Some(sent) => self.sender((waker, then), sent, (from, to)),
                            None => self.waker((waker, then), (from, to)),
                        }
                    }
                    By::Interrupt(origin)
                        if state.is_blocked() && self.wakers == Wakers::Followed =>
                    {
                        let issuer =
                            |(request, then)| self.issuer((request, origin), then, (from, to));
                        (request.and_then(issuer), None)
                    }
                    _ => (None, None),
                };
                let request = request.map(|(request, _)| request);
                self.blocked((id, entry), (from, to), (Ended::Woken(by), sent, request), inside)
            }
        }
    }

    fn blocked(
        &mut self,
        (id, entry): (Id, &Entry),
        within: (u64, u64),
        (ended, sent, request): (Ended, Option<u64>, Option<Request>),
        (inside, stopped): (Option<Box<Frame>>, Option<Reason>),
    ) -> What {
        let lock = self.log.lock_of(id);
        let owner = lock.and_then(|lock| lock.owner);
        let holder = owner.filter(|owner| ended != Ended::Woken(By::Thread(*owner)));
        let holder = holder.and_then(|owner| self.holder(owner, within));
        let (since, state, syscall) = (entry.time, entry.state, entry.syscall());
        let is_call_known = entry.is_call_known();
        let by_stack = None;
        What::Blocked(Blocked {
            since,
            state,
            syscall,
            is_call_known,
            lock,
            by_stack,
            ended,
            sent,
            request,
            inside,
            stopped,
            holder,
        })
    }

    /// What the owner of a lock did during the wait for it. The thread that it waited for itself is named, but not followed.
    fn holder(&mut self, owner: Index, within: (u64, u64)) -> Option<Box<Frame>> {
        let followed = self.wakers == Wakers::Followed && self.stack.len() == 1;
        if !followed || self.holders >= MOST_HOLDERS || self.stack.contains(&owner) {
            return None;
        }
        self.holders += 1;
        let last = self.log.last(owner)?;
        self.wakers = Wakers::OnlyNamed;
        let frame = self.frame(owner, within, last);
        self.wakers = Wakers::Followed;
        Some(Box::new(frame))
    }

    /// What a waker did during the wait that it ended, or why that is not followed. `then` is its activity when the wakeup was recorded.
    fn waker(
        &mut self,
        (waker, then): (Index, Id),
        (from, to): (u64, u64),
    ) -> (Option<Box<Frame>>, Option<Reason>) {
        if self.stack.len() >= MOST_DEEP || self.stack.contains(&waker) {
            return (None, Some(Reason::NotFollowed));
        }
        // It may have left its CPU before the woken thread was runnable.
        let (mut id, mut left) = (then, to);
        loop {
            match self.log.get(id) {
                Some(entry) if entry.state == State::Running => break,
                Some(entry) if to - entry.time.min(to) <= MOST_UNDERWAY && entry.time > from => {
                    (left, id) = (entry.time.min(to), entry.prev);
                }
                _ => return (None, Some(Reason::WakerUnseen)),
            }
        }
        let mut frame = self.frame(waker, (from, left), id);
        if left < to {
            frame.steps.push(Step { from: left, to, what: What::Underway });
            frame.to = to;
        }
        (Some(Box::new(frame)), None)
    }

    /// What the sender of a packet did during the wait for it, and how long the packet was on its way.
    fn sender(
        &mut self,
        (sender, then): (Index, Id),
        sent: u64,
        (from, to): (u64, u64),
    ) -> (Option<Box<Frame>>, Option<Reason>) {
        self.until((sender, then), sent, (from, to), What::Packet)
    }

    /// What another thread did until it made a request that ended the wait, followed by the request itself. If a request was made before
    /// the wait, there is nothing to follow.
    fn issuer(
        &mut self,
        (request, origin): (Request, Origin),
        then: Id,
        (from, to): (u64, u64),
    ) -> Option<Box<Frame>> {
        match (request.by, request.started.filter(|started| *started > from)) {
            (Some(by), Some(started)) => {
                self.until((by, then), started, (from, to), What::Request(request, origin)).0
            }
            _ => None,
        }
    }

    /// What a thread did until it started the operation that ended the wait, followed by the operation itself.
    fn until(
        &mut self,
        (thread, then): (Index, Id),
        began: u64,
        (from, to): (u64, u64),
        what: What,
    ) -> (Option<Box<Frame>>, Option<Reason>) {
        let mut frame = Frame { thread, from, to: from, steps: Vec::new() };
        if began > from {
            if self.stack.len() >= MOST_DEEP || self.stack.contains(&thread) {
                return (None, Some(Reason::NotFollowed));
            }
            let mut id = then;
            loop {
                match self.log.get(id) {
                    Some(entry) if entry.time > began => id = entry.prev,
                    Some(entry) if entry.state == State::Running => break,
                    _ => return (None, Some(Reason::WakerUnseen)),
                }
                self.looks += 1;
            }
            frame = self.frame(thread, (from, began.min(to)), id);
        }
        if frame.to < to {
            frame.steps.push(Step { from: frame.to, to, what });
            frame.to = to;
        }
        (Some(Box::new(frame)), None)
    }

    fn shares(&mut self, cpu: Cpu, anchor: Option<Id>, span: (u64, u64)) -> Vec<(OnCpu, u64)> {
        let mut sums = rustc_hash::FxHashMap::<OnCpu, u64>::default();
        self.looks += self.log.occupants(cpu, anchor, span, |on_cpu, length| {
            *sums.entry(on_cpu).or_default() += length;
        });
        let mut shares: Vec<(OnCpu, u64)> = sums.into_iter().collect();
        shares.sort_unstable_by_key(|&(on_cpu, length)| (u64::MAX - length, on_cpu));
        shares
    }
}

/// Whether this represents the end of a wait whose wakeup is not in the file.
fn is_missed(entry: &Entry) -> bool {
    entry.state == State::Unknown && entry.reason() == Reason::NoWakeup
}

impl Frame {
    /// Updates the time taken from the slice in which the interval ends, because the slice continued after that end.
    pub(crate) fn end_in_slice(&mut self, of_slice: Taken) {
        if let Some(Step { what: What::Ran { taken, all_taken, .. }, .. }) = self.steps.last_mut() {
            *all_taken = of_slice.steal.saturating_add(of_slice.irq);
            *taken = (*all_taken == 0).then_some(Taken::default());
        }
    }

    /// Visits the innermost steps, in order: for each, the threads that wait for it, the outermost first, and the step itself.
    pub fn leaves<'a>(&'a self, show: &mut impl FnMut(&[Index], &'a Step)) {
        self.show_leaves(&mut Vec::new(), show);
    }

    fn show_leaves<'a>(&'a self, path: &mut Vec<Index>, show: &mut impl FnMut(&[Index], &'a Step)) {
        path.push(self.thread);
        for step in &self.steps {
            match &step.what {
                What::Blocked(Blocked { inside: Some(inside), .. }) => {
                    inside.show_leaves(path, show);
                }
                _ => show(path, step),
            }
        }
        path.pop();
    }
}

/// The longest ones, and the sum of the rest.
pub fn longest<T: Clone>(shares: &[(T, u64)]) -> (&[(T, u64)], u64) {
    let (named, rest) = shares.split_at(MOST_SHARES.min(shares.len()));
    (named, rest.iter().map(|share| share.1).sum())
}
