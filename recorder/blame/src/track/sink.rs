//! The events about threads and CPUs, and the trait that receives them.

use fxt_reader::Cpu;
use fxt_reader::record::Event;
use fxtrec_sched::State;
use fxtrec_units::lock_kind::LockKind;

use super::Tracker;
use crate::origins::Origin;
use crate::threads::Index;

/// The reason why the state of a thread is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The recording contains nothing about the thread before this time.
    #[default]
    NotSeen,
    Lost,
    /// It slept, and may have waited for a CPU after that: its wakeup is not in the file.
    NoWakeup,
    /// No event reported the switch.
    Inferred,
    /// It is outside the scope of the recording.
    OutOfScope,
    /// It waited for a CPU, or a quota held it back, at unknown times within the interval.
    Unplaced,
    /// The interval has more entries than the log keeps.
    NotKept,
    /// The chain is too long to be followed further.
    NotFollowed,
    /// The recorded waker was not seen running at that time.
    WakerUnseen,
}

impl Reason {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::NotSeen => "not_seen",
            Reason::Lost => "lost",
            Reason::NoWakeup => "no_wakeup",
            Reason::Inferred => "inferred",
            Reason::OutOfScope => "out_of_scope",
            Reason::Unplaced => "unplaced",
            Reason::NotKept => "not_kept",
            Reason::NotFollowed => "not_followed",
            Reason::WakerUnseen => "waker_unseen",
        }
    }

    /// A description as text.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::NotSeen => "no record of the thread yet",
            Reason::Lost => "events were lost",
            Reason::NoWakeup => "off the CPU; its wakeup is not in the file",
            Reason::Inferred => "no event reported the switch",
            Reason::OutOfScope => "outside the scope of the recording",
            Reason::Unplaced => "throttled or waiting; which one is unknown",
            Reason::NotKept => "too many events to keep",
            Reason::NotFollowed => "not followed further",
            Reason::WakerUnseen => "the waker was not seen running",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The file does not contain it.
    #[default]
    Unknown,
    Interrupt(Origin),
    Thread(Index),
}

/// A disk request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub bytes: u64,
    /// The thread that made the request, if known.
    pub by: Option<Index>,
    /// When the request was made, and when the disk got it.
    pub started: Option<u64>,
    pub issued: Option<u64>,
}

/// Additional data at the beginning of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum About {
    #[default]
    Nothing,
    Woken(By),
    /// It was switched out while it was in this system call.
    Syscall(Option<u64>),
    /// It continues to wait, in the queue of the given CPU, or held back. Before that, it was in the queue of this CPU.
    Queue(Cpu),
    /// The reason why the state is unknown.
    Unknown(Reason),
}

/// A thread enters a state.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    pub time: u64,
    pub state: State,
    pub cpu: Cpu,
    pub about: About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnCpu {
    Thread(Index),
    Idle,
    OutOfScope,
    Unknown,
}

/// The lock that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lock {
    /// The address of its futex, or the id of a kernel lock.
    pub address: u64,
    /// The kind of kernel lock, if it is one; otherwise it is a futex.
    pub kernel: Option<LockKind>,
    /// Its owner when the wait began; `None` if unknown, or if such a futex has no owner.
    pub owner: Option<Index>,
    /// Whether the thread waited for that thread to exit, and not for a lock.
    pub is_end: bool,
}

impl Lock {
    /// The address of its futex, if it is one.
    pub fn futex(self) -> Option<u64> {
        self.kernel.is_none().then_some(self.address)
    }

    /// The id of the kernel lock, if it is one.
    pub fn kernel_id(self) -> Option<u64> {
        self.kernel.map(|_| self.address)
    }

    /// The owner of the lock, if it is a lock.
    pub fn holder(self) -> Option<Index> {
        self.owner.filter(|_| !self.is_end)
    }

    /// The thread whose exit is waited for.
    pub fn ending(self) -> Option<Index> {
        self.owner.filter(|_| self.is_end)
    }
}

/// Receives the new states of threads and CPUs, in order for each of them.
pub trait Sink {
    /// A thread enters a state. If the state is running, it has the CPU.
    fn begin(&mut self, thread: Index, begin: Begin);
    /// The thread was blocked since the beginning of the trace; the next call reports that it is woken.
    fn was_blocked(&mut self, _: Index) {}
    /// The time that was taken from the current slice of the thread.
    fn taken(&mut self, _: Index, _steal: u64, _irq: u64) {}
    /// The cgroup whose quota held the thread back in the wait that has ended.
    fn quota(&mut self, _: Index, _cgroup: u32) {}
    /// The lock that a thread waits for; the thread has just blocked.
    fn lock(&mut self, _: Index, _time: u64, _: Lock) {}
    /// The time from the sending of the packet by the waker to the wakeup that it caused, which was the last event.
    fn sent(&mut self, _: Index, _ago: u64) {}
    /// The request whose completion woke the thread just now.
    fn request(&mut self, _: Index, _: Request) {}
    /// A CPU switches to something other than a thread.
    fn on_cpu(&mut self, _: Cpu, _time: u64, _: OnCpu) {}
    /// A span of a thread, not recorded by the kernel.
    fn event(&mut self, _: &Event<'_>, _is_provider: bool) {}
    /// The next record is a scheduling record with this time. Returns whether it is needed.
    fn advance(&mut self, _: &Tracker, _time: u64) -> bool {
        true
    }
}

/// Both are reported.
impl<A: Sink, B: Sink> Sink for (A, B) {
    #[inline(always)]
    fn begin(&mut self, thread: Index, begin: Begin) {
        self.0.begin(thread, begin);
        self.1.begin(thread, begin);
    }

    fn was_blocked(&mut self, thread: Index) {
        self.0.was_blocked(thread);
        self.1.was_blocked(thread);
    }

    fn taken(&mut self, thread: Index, steal: u64, irq: u64) {
        self.0.taken(thread, steal, irq);
        self.1.taken(thread, steal, irq);
    }

    fn quota(&mut self, thread: Index, cgroup: u32) {
        self.0.quota(thread, cgroup);
        self.1.quota(thread, cgroup);
    }

    fn lock(&mut self, thread: Index, time: u64, lock: Lock) {
        self.0.lock(thread, time, lock);
        self.1.lock(thread, time, lock);
    }

    fn sent(&mut self, thread: Index, ago: u64) {
        self.0.sent(thread, ago);
        self.1.sent(thread, ago);
    }

    fn request(&mut self, thread: Index, request: Request) {
        self.0.request(thread, request);
        self.1.request(thread, request);
    }

    #[inline(always)]
    fn on_cpu(&mut self, cpu: Cpu, time: u64, on_cpu: OnCpu) {
        self.0.on_cpu(cpu, time, on_cpu);
        self.1.on_cpu(cpu, time, on_cpu);
    }

    fn event(&mut self, event: &Event<'_>, is_provider: bool) {
        self.0.event(event, is_provider);
        self.1.event(event, is_provider);
    }

    #[inline(always)]
    fn advance(&mut self, tracker: &Tracker, time: u64) -> bool {
        let wanted = self.0.advance(tracker, time);
        self.1.advance(tracker, time) && wanted
    }
}
