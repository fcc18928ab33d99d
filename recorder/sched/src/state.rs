//! The state of a thread.

use fxt_reader::ThreadState;

/// The state of a thread, in as much detail as a trace records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Unknown: there has been no event about the thread, or events about it are missing.
    #[default]
    Unknown,
    Running,
    /// Able to run, waiting for a CPU: it was woken.
    Woken,
    /// Able to run, waiting for a CPU: it was preempted, or yielded.
    Preempted,
    /// Able to run, but not allowed to: it left a CPU because the quota of its cgroup is used up.
    Throttled,
    /// Able to run, but not allowed to: it was woken while the quota of its cgroup is used up.
    WokenThrottled,
    /// Blocked, interruptibly (`S`).
    Sleeping,
    /// Blocked, uninterruptibly (`D`).
    Uninterruptible,
    /// A kernel thread without work (`I`).
    Idle,
    /// Parked (`P`).
    Parked,
    /// Stopped by a signal (`T`).
    Stopped,
    /// Stopped by a tracer (`t`).
    Traced,
    /// Exited, not yet waited for (`Z`).
    Zombie,
    /// Gone (`X`).
    Dead,
    /// Outside the scope of the recording: its state is deliberately not recorded.
    NotRecorded,
}

impl State {
    /// The state of a thread after it left a CPU in `state`, with the kernel's letters if the trace has them.
    #[inline]
    pub fn after(state: ThreadState, letters: Option<&str>) -> State {
        match (state, letters) {
            (ThreadState::New | ThreadState::Running, _) => State::Preempted,
            (ThreadState::Blocked, None) => State::Sleeping,
            (ThreadState::Blocked, Some("D")) => State::Uninterruptible,
            (ThreadState::Blocked, Some("I")) => State::Idle,
            (ThreadState::Blocked, Some("P")) => State::Parked,
            (ThreadState::Blocked, _) => State::Sleeping,
            (ThreadState::Suspended, Some("t")) => State::Traced,
            (ThreadState::Suspended, _) => State::Stopped,
            (ThreadState::Dying, _) => State::Zombie,
            (ThreadState::Dead, _) => State::Dead,
            _ => State::Unknown,
        }
    }

    /// Whether it is able to run and has no CPU: it waits for one, or first for its cgroup's quota.
    #[inline]
    pub const fn is_waiting(self) -> bool {
        matches!(self, State::Woken | State::Preempted | State::Throttled | State::WokenThrottled)
    }

    /// Whether only its cgroup's quota keeps it from waiting for a CPU.
    #[inline]
    pub const fn is_throttled(self) -> bool {
        matches!(self, State::Throttled | State::WokenThrottled)
    }

    /// The state once its cgroup has quota again: it waits for a CPU.
    #[inline]
    pub const fn released(self) -> State {
        match self {
            State::Throttled => State::Preempted,
            State::WokenThrottled => State::Woken,
            other => other,
        }
    }

    /// This state, held back by its cgroup's quota.
    #[inline]
    pub const fn held(self) -> State {
        match self {
            State::Preempted => State::Throttled,
            State::Woken => State::WokenThrottled,
            other => other,
        }
    }

    /// Whether it waits for something other than a CPU, until it is woken. False for stopped threads.
    #[inline]
    pub const fn is_blocked(self) -> bool {
        matches!(self, State::Sleeping | State::Uninterruptible | State::Idle | State::Parked)
    }

    /// Whether it was stopped, by a signal or a tracer.
    pub const fn is_stopped(self) -> bool {
        matches!(self, State::Stopped | State::Traced)
    }

    /// Whether it never runs again.
    pub const fn is_over(self) -> bool {
        matches!(self, State::Zombie | State::Dead)
    }

    /// Whether the trace shows its state.
    pub const fn is_known(self) -> bool {
        !matches!(self, State::Unknown | State::NotRecorded)
    }
}
