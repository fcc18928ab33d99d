//! The states of threads in the page's blocks.

pub(super) use fxtrec_sched::State;

/// The states that the page distinguishes, each at the index of its number in the blocks.
const ALL: [State; 14] = [
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
    State::Throttled,
    State::WokenThrottled,
];

/// The number of a state in the page's blocks. States that are not recorded are shown like unknown ones.
pub(super) const fn code(state: State) -> u8 {
    match state {
        State::Unknown | State::NotRecorded => 0,
        State::Running => 1,
        State::Woken => 2,
        State::Preempted => 3,
        State::Sleeping => 4,
        State::Uninterruptible => 5,
        State::Idle => 6,
        State::Parked => 7,
        State::Stopped => 8,
        State::Traced => 9,
        State::Zombie => 10,
        State::Dead => 11,
        State::Throttled => 12,
        State::WokenThrottled => 13,
    }
}

/// The state with that number.
pub(super) fn from_code(code: u8) -> Option<State> {
    ALL.get(usize::from(code)).copied()
}

/// Whether the state is drawn.
pub(super) const fn is_shown(state: State) -> bool {
    state.is_known() && !matches!(state, State::Dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_code() {
        for state in ALL {
            assert_eq!(from_code(code(state)), Some(state));
        }
        assert_eq!(from_code(ALL.len() as u8), None);
    }

    #[test]
    fn what_is_not_recorded_or_gone_is_not_shown() {
        let hidden = [State::Unknown, State::NotRecorded, State::Dead];
        assert_eq!(hidden.map(is_shown), [false; 3]);
        assert!(ALL.iter().filter(|state| !hidden.contains(state)).all(|state| is_shown(*state)));
        assert_eq!(code(State::NotRecorded), code(State::Unknown));
    }
}
