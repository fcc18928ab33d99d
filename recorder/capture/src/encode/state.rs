//! Linux task states as FXT thread states.

use fxt_writer::record::ThreadState;

use fxtrec_kernel::prev_state::PrevState;

/// How a thread that goes out is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingState {
    /// The format's state.
    pub fxt: ThreadState,
    /// The kernel's own letters, where the format's state does not imply them.
    pub detail: Option<Detail>,
}

/// The kernel's states that share an FXT state with a more common one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// `R+`: preempted.
    Preempted,
    /// `D`: uninterruptible sleep.
    Uninterruptible,
    /// `I`: idle kernel thread, uninterruptible but not counted as load.
    IdleSleep,
    /// `P`: parked kernel thread.
    Parked,
    /// `t`: stopped by a tracer.
    Traced,
    /// A state that has no letter on the running kernel, or that this table does not know.
    Other,
}

impl Detail {
    /// Every detail, in the order of their strings' place in the trace.
    pub const ALL: [Detail; 6] = [
        Detail::Preempted,
        Detail::Uninterruptible,
        Detail::IdleSleep,
        Detail::Parked,
        Detail::Traced,
        Detail::Other,
    ];

    /// The text of the `prev_state` argument.
    pub fn text(self) -> &'static str {
        match self {
            Detail::Preempted => "R+",
            Detail::Uninterruptible => "D",
            Detail::IdleSleep => "I",
            Detail::Parked => "P",
            Detail::Traced => "t",
            Detail::Other => "?",
        }
    }
}

/// Translates the state in which a thread went out.
pub fn outgoing_state(state: PrevState) -> OutgoingState {
    // A preempted thread stays runnable, whatever sleep it was about to begin.
    let (fxt, detail) = match state.letter {
        _ if state.preempted => (ThreadState::Running, Some(Detail::Preempted)),
        'R' => (ThreadState::Running, None),
        'S' => (ThreadState::Blocked, None),
        'D' => (ThreadState::Blocked, Some(Detail::Uninterruptible)),
        'I' => (ThreadState::Blocked, Some(Detail::IdleSleep)),
        'P' => (ThreadState::Blocked, Some(Detail::Parked)),
        'T' => (ThreadState::Suspended, None),
        't' => (ThreadState::Suspended, Some(Detail::Traced)),
        'Z' => (ThreadState::Dying, None),
        'X' | 'x' => (ThreadState::Dead, None),
        _ => (ThreadState::Blocked, Some(Detail::Other)),
    };
    OutgoingState { fxt, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(letter: char, preempted: bool) -> (ThreadState, Option<&'static str>) {
        let state = outgoing_state(PrevState { letter, preempted });
        (state.fxt, state.detail.map(Detail::text))
    }

    #[test]
    fn states_are_those_of_the_table() {
        assert_eq!(of('R', false), (ThreadState::Running, None));
        assert_eq!(of('R', true), (ThreadState::Running, Some("R+")));
        assert_eq!(of('S', false), (ThreadState::Blocked, None));
        assert_eq!(of('D', false), (ThreadState::Blocked, Some("D")));
        assert_eq!(of('I', false), (ThreadState::Blocked, Some("I")));
        assert_eq!(of('P', false), (ThreadState::Blocked, Some("P")));
        assert_eq!(of('T', false), (ThreadState::Suspended, None));
        assert_eq!(of('t', false), (ThreadState::Suspended, Some("t")));
        assert_eq!(of('Z', false), (ThreadState::Dying, None));
        assert_eq!(of('X', false), (ThreadState::Dead, None));
        assert_eq!(of('?', false), (ThreadState::Blocked, Some("?")));
    }

    #[test]
    fn a_preempted_thread_stays_runnable_even_when_it_was_about_to_sleep() {
        assert_eq!(of('S', true), (ThreadState::Running, Some("R+")));
    }
}
