//! What a thread is doing, as the page shows it.

use fxt_reader::ThreadState;

/// What a thread is doing. The numbers stand in the page's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Not known: before it is first seen, or after a loss.
    #[default]
    Unknown = 0,
    /// On a CPU.
    Running = 1,
    /// Able to run, waiting for a CPU: woken.
    Woken = 2,
    /// Able to run, waiting for a CPU: it was preempted, or gave way.
    Preempted = 3,
    /// Blocked, interruptibly (`S`).
    Sleeping = 4,
    /// Blocked, uninterruptibly (`D`).
    Uninterruptible = 5,
    /// A kernel thread without work (`I`).
    Idle = 6,
    /// Parked (`P`).
    Parked = 7,
    /// Stopped by a signal (`T`).
    Stopped = 8,
    /// Stopped by a tracer (`t`).
    Traced = 9,
    /// Exited, not yet waited for (`Z`).
    Zombie = 10,
    /// Gone (`X`).
    Dead = 11,
}

/// All states, each at its number.
const ALL: [State; 12] = [
    State::Unknown,
    State::Running,
    State::Woken,
    State::Preempted,
    State::Sleeping,
    State::Uninterruptible,
    State::Idle,
    State::Parked,
    State::Stopped,
    State::Traced,
    State::Zombie,
    State::Dead,
];

impl State {
    /// What a thread is after it left a CPU in `state`, with the kernel's letter
    /// where the record keeps one.
    pub(super) fn left_in(state: ThreadState, letter: Option<&str>) -> Self {
        match (state, letter) {
            (ThreadState::New | ThreadState::Running, _) => Self::Preempted,
            (ThreadState::Blocked, Some("D")) => Self::Uninterruptible,
            (ThreadState::Blocked, Some("I")) => Self::Idle,
            (ThreadState::Blocked, Some("P")) => Self::Parked,
            (ThreadState::Blocked, _) => Self::Sleeping,
            (ThreadState::Suspended, Some("t")) => Self::Traced,
            (ThreadState::Suspended, _) => Self::Stopped,
            (ThreadState::Dying, _) => Self::Zombie,
            (ThreadState::Dead, _) => Self::Dead,
            _ => Self::Unknown,
        }
    }

    /// Its number in the page's blocks.
    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    /// The state of that number.
    pub(super) fn from_code(code: u8) -> Option<Self> {
        ALL.get(usize::from(code)).copied()
    }

    /// Whether it waits for a CPU.
    pub(super) const fn is_waiting(self) -> bool {
        matches!(self, Self::Woken | Self::Preempted)
    }

    /// Whether there is something to show.
    pub(super) const fn is_shown(self) -> bool {
        !matches!(self, Self::Unknown | Self::Dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_code() {
        for state in ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
        }
        assert_eq!(State::from_code(ALL.len() as u8), None);
    }

    #[test]
    fn the_kernels_letters_tell_blocked_threads_apart() {
        let left = State::left_in;
        assert_eq!(left(ThreadState::Blocked, None), State::Sleeping);
        assert_eq!(left(ThreadState::Blocked, Some("D")), State::Uninterruptible);
        assert_eq!(left(ThreadState::Running, Some("R+")), State::Preempted);
        assert_eq!(left(ThreadState::Suspended, Some("t")), State::Traced);
        assert_eq!(left(ThreadState::Undefined(9), None), State::Unknown);
    }
}
