//! The events that a capture source reports: typed, and the same for every source.

pub use crate::contention::{Contention, KernelLock};
pub use crate::futex::Futex;
use fxtrec_kernel::bpf::origins::Origin;
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_kernel::prev_state::PrevState;
pub use fxtrec_units::LocalId;
use fxtrec_units::{Cpu, Nanos, Tid};

/// A thread's name as the kernel keeps it: up to 15 bytes, then zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// The first 15 bytes before a NUL.
    pub fn from_bytes(bytes: &[u8]) -> Comm {
        let mut comm = [0; 16];
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()).min(15);
        comm[..end].copy_from_slice(&bytes[..end]);
        Comm(comm)
    }

    /// The bytes before the first NUL.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Which tracepoint reported a wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeKind {
    /// `sched_wakeup`: a thread became runnable.
    Wakeup,
    /// `sched_wakeup_new`: a new thread became runnable for the first time.
    New,
    /// `sched_waking`: a thread is about to be made runnable, recorded on the waker's CPU.
    Waking,
}

/// A context switch, as `sched_switch` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    pub prev: Tid,
    pub next: Tid,
    /// The outgoing thread's kernel priority: below 100 real-time or deadline, 100 to 139 for nice -20 to 19.
    pub prev_prio: i32,
    /// The incoming thread's kernel priority.
    pub next_prio: i32,
    /// The state in which the thread is switched out.
    pub state: PrevState,
    /// The number of the system call in which it blocks, if the source reports it.
    pub syscall: Option<u16>,
    /// Whether the processes of the outgoing and the incoming thread are in scope now, if the kernel chooses.
    pub in_scope: Option<[bool; 2]>,
    /// The outgoing thread's name; empty if the source does not report it.
    pub prev_comm: Comm,
    /// The incoming thread's name; empty if the source does not report it.
    pub next_comm: Comm,
}

/// Facts about the slice of an outgoing thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceFacts {
    /// How long the host had taken the CPU (steal time).
    pub steal: Nanos,
    /// The facts about the quota, if the thread is runnable but throttled, or was throttled for some time.
    pub throttled: Option<Throttle>,
    /// The futex that it blocks on, if that was requested.
    pub futex: Option<Futex>,
    /// The kernel lock that it waits for, even if it is preempted and not blocked, if that was requested.
    pub kernel_lock: Option<KernelLock>,
}

/// The time that interrupts took from the slice of an outgoing thread, and when its switch was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The time in interrupts, and their number.
    pub irq: Nanos,
    pub irqs: u32,
    /// How long before the end of the slice a switch was first requested, if at all.
    pub asked: Option<Nanos>,
}

/// The facts about a thread that begins to wait in a queue that a quota holds back, or has held back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// How long its queue has been throttled so far, according to the queue's own count.
    pub kept: Nanos,
    /// The id of the cgroup whose quota is used up; 0 if none is, or if it is unknown.
    pub cgroup: u64,
    /// Identifies its own cgroup.
    pub own: u32,
    /// Whether the quota is used up now.
    pub now: bool,
    /// Whether the queue counts for all threads that wait in it, because the kernel throttles queues and not tasks. If so, every wait
    /// without such a report began in a queue that had never been throttled.
    pub of_queues: bool,
}

/// The report of a waiting thread's queue when the wait ends or the thread is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub tid: Tid,
    /// How long it was throttled so far.
    pub kept: Nanos,
    /// The CPU of the queue.
    pub cpu: Cpu,
    /// As in [`Throttle`].
    pub own: u32,
    /// As in [`Throttle`].
    pub of_queues: bool,
    /// Whether the thread was just moved to this queue; otherwise it leaves the queue.
    pub begins: bool,
    /// Whether the queue is still throttled.
    pub goes_on: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Which tracepoint reported it.
    pub kind: WakeKind,
    pub tid: Tid,
    /// Its priority, as in [`Switch`].
    pub prio: i32,
    /// The CPU whose run queue the thread is put on.
    pub target: Cpu,
    /// Its name; empty if the source does not report it.
    pub comm: Comm,
    /// The thread that runs on the CPU where this was recorded.
    pub current: Tid,
    pub by: Waker,
    /// For a first wakeup: whether the new thread belongs to the process of `current`, if the source reports that.
    pub same_process: Option<bool>,
    /// Whether its process is in scope now, if the kernel chooses.
    pub in_scope: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// Unknown: an interrupt may have completed a wakeup that another CPU began.
    Unknown,
    Task(Tid),
    /// A hard or soft interrupt.
    Interrupt,
}

impl Waker {
    /// The waker according to the context of this event, while `current` ran.
    pub fn here(kind: WakeKind, current: Tid, in_interrupt: bool) -> Waker {
        match (kind, in_interrupt) {
            (WakeKind::Waking, true) => Waker::Interrupt,
            (_, false) if current != Tid::IDLE => Waker::Task(current),
            _ => Waker::Unknown,
        }
    }
}

/// The position of an event's bytes in the queue of its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Payload {
    pub(crate) at: u64,
    pub(crate) len: u32,
}

/// A sample of a non-scheduler event. Its contents are in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub extra: ExtraIndex,
    /// The thread that had the CPU.
    pub current: Tid,
    /// The user registers of that thread, if they were requested.
    pub user: Option<UserState>,
    /// The raw bytes, as the tracepoint's format describes them.
    pub payload: Payload,
}

/// The beginning or end of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The non-scheduler event that it corresponds to.
    pub extra: ExtraIndex,
    pub tid: Tid,
    /// -1 for an end that belongs to no call.
    pub number: i16,
    /// The result, if the call ends.
    pub result: Option<i64>,
    /// Whether it is a call of a 32-bit program on a 64-bit machine.
    pub is_32_bit: bool,
}

/// The state of a thread in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserState {
    pub stack: u64,
    /// Whether it is a 32-bit program on a 64-bit machine.
    pub is_32_bit: bool,
}

/// The reports of tracepoints about the lifetime of a thread. They use the ids of the initial pid namespace, and do not contain the process
/// of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// A thread was created.
    Begin {
        tid: Tid,
        parent: Tid,
        /// Whether it is a new thread of the same process, rather than the first thread of a new process.
        same_process: bool,
        /// Whether its process may be in a different cgroup from its parent's.
        elsewhere: bool,
    },
    /// A thread has a new name, set by itself or by execve(2).
    Rename { tid: Tid, comm: Comm },
    /// A thread begins to exit; it will be switched out once more, for the last time.
    End { tid: Tid },
    /// The process of this thread may have changed its cgroup: to the cgroup with this id, if reported.
    Home { tid: Tid, cgroup: Option<u64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One thread was switched out and another one in.
    Switch(Switch),
    /// Facts about the slice that the next switch of this CPU ends.
    Slice(SliceFacts),
    /// The time that interrupts took from that slice.
    Taken(Taken),
    Wake(Wake),
    /// With a narrow scope that the kernel applies: this thread has `cpu`, for which a thread in scope waits.
    Occupant {
        cpu: Cpu,
        tid: Tid,
        prio: i32,
        /// Its name; empty if the source does not report it.
        comm: Comm,
    },
    /// The kernel reports, by other means than `sched_switch`, that this thread was switched in.
    Running {
        pid: LocalId,
        tid: LocalId,
    },
    /// A thread or process was created.
    Fork {
        /// The process of the new thread.
        pid: LocalId,
        tid: LocalId,
        parent_pid: LocalId,
        parent_tid: LocalId,
    },
    /// A thread begins to exit; it will be switched out once more, for the last time.
    Exit {
        pid: LocalId,
        tid: LocalId,
    },
    /// A thread has a new name.
    Comm {
        pid: LocalId,
        tid: LocalId,
        /// Whether the name was set by execve(2).
        exec: bool,
        comm: Comm,
    },
    /// A thread was created, exited or was renamed, as reported by tracepoints and not by perf's own records.
    Life(Life),
    /// Inside a pid namespace: the ids that a thread has in it, learned from one of its samples.
    Identity {
        /// The thread as tracepoints name it.
        tid: Tid,
        /// Its process in the recorder's namespace.
        local_pid: LocalId,
        /// Its id in the recorder's namespace.
        local_tid: LocalId,
    },
    /// A probe or a non-scheduler tracepoint was hit.
    Sample(Sample),
    /// A system call begins or ends, as reported by programs and not by samples.
    Call(Call),
    /// A thread is switched in or moved: the report of the queue that it leaves or enters.
    Kept(Kept),
    /// The thread that the next event wakes begins to wait in a queue that is or was throttled.
    Queued(Throttle),
    /// The cause of the interrupt that does the next wakeup of this CPU.
    Origin(Origin),
    /// A thread is moved from one CPU's queue to another's.
    Moved {
        tid: Tid,
        from: Cpu,
        to: Cpu,
    },
    /// A thread begins or ends waiting for a kernel lock. Sources that report this with the slice use [`SliceFacts`] instead.
    Contention {
        tid: Tid,
        contention: Contention,
    },
    /// Events of threads out of scope were left out: the thread on this CPU is not that of the last event.
    Skipped,
    /// Events between the last event of this CPU and this one are missing.
    Lost(Loss),
    /// Non-scheduler events between the last event of this CPU and this one are missing, but no switch or wakeup.
    LostOthers(LostOthers),
    /// Forks, exits and changes of names are missing on this CPU; the number, if they were counted.
    LostLives {
        count: Option<u64>,
    },
    /// The CPU went offline at this time, or soon after.
    Offline {
        /// Whether no other event reports that the idle task was switched in at that time.
        goes_idle: bool,
    },
    /// The CPU is online again, or for the first time.
    Online,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Number of events of the scheduler and of probes; `None` if they were not counted.
    pub events: Option<u64>,
    /// Whether the number may be lower: the events were counted together with redundant records.
    pub at_most: bool,
    /// Additional missing records, of the kind that reports an incoming thread if no tracepoint does.
    pub switch_records: u64,
}

impl Loss {
    pub const fn exactly(count: u64) -> Loss {
        Loss { events: Some(count), at_most: false, switch_records: 0 }
    }

    /// This number of events, or fewer.
    pub const fn at_most(count: u64) -> Loss {
        Loss { events: Some(count), at_most: true, switch_records: 0 }
    }

    /// An unknown number of events.
    pub const fn unknown() -> Loss {
        Loss { events: None, at_most: false, switch_records: 0 }
    }
}

/// Missing non-scheduler events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostOthers {
    pub count: u64,
    /// Whether the number may be lower: the events were counted together with records of other kinds.
    pub at_most: bool,
    /// Whether all of them are beginnings and ends of system calls.
    pub calls: bool,
}

/// One event of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub time: Nanos,
    pub kind: Kind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comm_ends_at_its_first_nul_or_after_fifteen_bytes() {
        assert_eq!(Comm::from_bytes(b"ab\0cd").as_bytes(), b"ab");
        assert_eq!(Comm::from_bytes(b"0123456789abcdefgh").as_bytes(), b"0123456789abcde");
        assert_eq!(Comm::from_bytes(b"").as_bytes(), b"");
    }

    #[test]
    fn an_event_is_small_enough_to_be_queued_by_the_thousand() {
        assert!(size_of::<Event>() <= 80, "{}", size_of::<Event>());
    }
}
