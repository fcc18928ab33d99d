//! What a capture source reports: typed events, the same for every source.

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
    /// Takes the first 15 bytes before a NUL.
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

/// Which tracepoint reported a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeKind {
    /// `sched_wakeup`: a thread became runnable.
    Wakeup,
    /// `sched_wakeup_new`: the same for the first time in its life.
    New,
    /// `sched_waking`: a thread is about to be made runnable, seen where the waker runs.
    Waking,
}

/// A context switch, as `sched_switch` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    pub prev: Tid,
    pub next: Tid,
    /// The kernel's priority of who goes out: below 100 real-time or deadline, 100 to 139 for nice -20 to 19.
    pub prev_prio: i32,
    /// The same of who comes in.
    pub next_prio: i32,
    /// The state in which the thread goes out.
    pub state: PrevState,
    /// The number of the system call in which it blocks, where the source tells it.
    pub syscall: Option<u16>,
    /// Whether the processes of who goes out and who comes in are in scope now, where the kernel chooses.
    pub in_scope: Option<[bool; 2]>,
    /// The name of who goes out; empty where the source does not tell it.
    pub prev_comm: Comm,
    /// The name of who comes in; empty where the source does not tell it.
    pub next_comm: Comm,
}

/// What befell the slice of a thread that goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceFacts {
    /// For how long the host had taken the CPU.
    pub steal: Nanos,
    /// What is known of the quota if its thread is able to run on, and may not or did not for some time.
    pub throttled: Option<Throttle>,
    /// The futex that it blocks on, if it does and somebody asked.
    pub futex: Option<Futex>,
    /// The lock of the kernel that it waits for, even if it is preempted and not blocked, if somebody asked.
    pub kernel_lock: Option<KernelLock>,
}

/// What interrupts took of the slice of a thread that goes out, and since when it was to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The time in interrupts, and how many there were.
    pub irq: Nanos,
    pub irqs: u32,
    /// How long before its end a switch was first asked for, if one was.
    pub asked: Option<Nanos>,
}

/// What is known of a thread that begins to wait in a queue that a quota holds back, or held back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// For how long its queue was throttled so far, by the queue's own count.
    pub kept: Nanos,
    /// The number of the cgroup whose quota is used up; 0 where none is, and where that is not known.
    pub cgroup: u64,
    /// By which its own cgroup can be told from others.
    pub own: u32,
    /// Whether the quota is used up now.
    pub now: bool,
    /// Whether the queue counts for all threads that wait in it, since the kernel throttles queues and not tasks: every wait of
    /// which this is not told began in a queue that never was throttled.
    pub of_queues: bool,
}

/// What the queue of a thread that waits says at its end, or at a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub tid: Tid,
    /// For how long it was throttled so far.
    pub kept: Nanos,
    /// The CPU of the queue.
    pub cpu: Cpu,
    /// As of [`Throttle`].
    pub own: u32,
    /// As of [`Throttle`].
    pub of_queues: bool,
    /// Whether the thread was moved to it just now, and does not leave it.
    pub begins: bool,
    /// Whether it is throttled still.
    pub goes_on: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Which of the tracepoints it was.
    pub kind: WakeKind,
    pub tid: Tid,
    /// Its priority, as in [`Switch`].
    pub prio: i32,
    /// The CPU on whose run queue it goes.
    pub target: Cpu,
    /// Its name; empty where the source does not tell it.
    pub comm: Comm,
    /// The thread that runs on the CPU where this was seen.
    pub current: Tid,
    pub by: Waker,
    /// Of a first wake-up: whether the new thread belongs to the process of `current`, where the source tells it.
    pub same_process: Option<bool>,
    /// Whether its process is in scope now, where the kernel chooses.
    pub in_scope: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// Nobody can tell: an interrupt may have completed what another CPU began.
    Unknown,
    Task(Tid),
    /// A hard or soft interrupt does.
    Interrupt,
}

impl Waker {
    /// Who does what happened while `current` ran, as far as the place where it happened tells.
    pub fn here(kind: WakeKind, current: Tid, in_interrupt: bool) -> Waker {
        match (kind, in_interrupt) {
            (WakeKind::Waking, true) => Waker::Interrupt,
            (_, false) if current != Tid::IDLE => Waker::Task(current),
            _ => Waker::Unknown,
        }
    }
}

/// Where an event's bytes are in the queue of its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Payload {
    pub(crate) at: u64,
    pub(crate) len: u32,
}

/// A sample of an event that is recorded beside the scheduler's. What it says lies in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub extra: ExtraIndex,
    /// The thread that had the CPU.
    pub current: Tid,
    /// What that thread's program had for registers, where that was asked for.
    pub user: Option<UserState>,
    /// The raw bytes, as the tracepoint's format describes them.
    pub payload: Payload,
}

/// The beginning or end of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which of the events beside the scheduler's it stands for.
    pub extra: ExtraIndex,
    pub tid: Tid,
    /// -1 for an end that is of no call.
    pub number: i16,
    /// What it returns, if it ends.
    pub result: Option<i64>,
    /// Whether it is of a 32-bit program on a 64-bit machine.
    pub is_32_bit: bool,
}

/// Where a thread was in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserState {
    pub stack: u64,
    /// Whether it is a 32-bit program on a 64-bit machine.
    pub is_32_bit: bool,
}

/// What tracepoints tell about the life of a thread. They name threads as the initial pid namespace does, and do not
/// say which process a thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// A thread came into being.
    Begin {
        tid: Tid,
        parent: Tid,
        /// Whether it is a thread of the same process, and not the first one of a new process.
        same_process: bool,
        /// Whether its process may be in another cgroup than its parent's.
        elsewhere: bool,
    },
    /// A thread has a new name, by its own wish or by execve(2).
    Rename { tid: Tid, comm: Comm },
    /// A thread begins to exit; it will be switched out once more, for ever.
    End { tid: Tid },
    /// The process of this thread may be in another cgroup than before: that of this number, where it is told.
    Home { tid: Tid, cgroup: Option<u64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One thread made room for another.
    Switch(Switch),
    /// What befell the slice that the next switch of this CPU ends.
    Slice(SliceFacts),
    /// The same of what interrupts took.
    Taken(Taken),
    Wake(Wake),
    /// The kernel says by other means than `sched_switch` that this thread has come in.
    Running {
        pid: LocalId,
        tid: LocalId,
    },
    /// A thread or process came into being.
    Fork {
        /// The process of the new thread.
        pid: LocalId,
        tid: LocalId,
        parent_pid: LocalId,
        parent_tid: LocalId,
    },
    /// A thread begins to exit; it will be switched out once more, for ever.
    Exit {
        pid: LocalId,
        tid: LocalId,
    },
    /// A thread has a new name.
    Comm {
        pid: LocalId,
        tid: LocalId,
        /// Whether the name came with execve(2).
        exec: bool,
        comm: Comm,
    },
    /// A thread came, went or was renamed, as tracepoints tell it and not perf's own records.
    Life(Life),
    /// Inside a pid namespace: the ids there of a thread, learned from a sample it left.
    Identity {
        /// The thread as tracepoints name it.
        tid: Tid,
        /// Its process in the recorder's namespace.
        local_pid: LocalId,
        /// Its id in the recorder's namespace.
        local_tid: LocalId,
    },
    /// A probe or tracepoint beside the scheduler's was hit.
    Sample(Sample),
    /// A system call begins or ends, as programs tell it and not samples.
    Call(Call),
    /// A thread comes in or is moved: what the queue that it was on says, or the one that it goes to.
    Kept(Kept),
    /// The thread that the next event wakes begins to wait in a queue that is throttled, or was.
    Queued(Throttle),
    /// What the interrupt is about that does the next wake-up of this CPU.
    Origin(Origin),
    /// A thread is moved from one CPU's queue to another's.
    Moved {
        tid: Tid,
        from: Cpu,
        to: Cpu,
    },
    /// A thread begins or ends to wait for a lock of the kernel. What befell a slice has it where the source tells it so.
    Contention {
        tid: Tid,
        contention: Contention,
    },
    /// Events of threads out of scope were left out: who has this CPU now is not who the last event said.
    Skipped,
    /// Events are missing since the last one of this CPU.
    Lost(Loss),
    /// Events beside the scheduler's are missing since the last one of them of this CPU, and no switch or wake-up is.
    LostOthers(LostOthers),
    /// Forks, exits and changes of names are missing on this CPU; how many, where somebody counted.
    LostLives {
        count: Option<u64>,
    },
    /// The CPU went offline at this time, or soon after.
    Offline {
        /// Whether nothing else says that the idle task came in then.
        goes_idle: bool,
    },
    /// The CPU is online again, or for the first time.
    Online,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How many events of the scheduler and of probes; `None` when nobody counted.
    pub events: Option<u64>,
    /// Whether they may be fewer: they were counted together with records that tell nothing new.
    pub at_most: bool,
    /// Records beside them that say who came in where no tracepoint does.
    pub switch_records: u64,
}

impl Loss {
    pub const fn exactly(count: u64) -> Loss {
        Loss { events: Some(count), at_most: false, switch_records: 0 }
    }

    /// So many events, or fewer.
    pub const fn at_most(count: u64) -> Loss {
        Loss { events: Some(count), at_most: true, switch_records: 0 }
    }

    /// Nobody knows how many.
    pub const fn unknown() -> Loss {
        Loss { events: None, at_most: false, switch_records: 0 }
    }
}

/// Events beside the scheduler's that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostOthers {
    pub count: u64,
    /// Whether they may be fewer: they were counted together with records of other kinds.
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
