//! The states of a session, and the answer to each request in them: exactly the table of `docs/reference/sessions.md`.
//!
//! ```text
//!            Initialize            Start                              Stop
//!   ready ----------> initialized ------> starting --> started ------------> stopping --> stopped
//!     ^                                      |             (a stop while it starts, too)     |
//!     |                                      +<------------------- Start --------------------+
//!     +--------------------------- terminating <---- Terminate, or the owner goes, from any of them
//! ```
//!
//! Operations that take time have their own state, which the thread that runs the operation leaves when it is done.

use super::wire::{ControllerError, SessionState};

/// A request to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Initialize,
    Start,
    Stop,
    Terminate,
    Snapshot,
}

#[cfg(test)]
impl Request {
    pub(super) const ALL: [Request; 5] =
        [Request::Initialize, Request::Start, Request::Stop, Request::Terminate, Request::Snapshot];
}

/// The state that follows a request, or why it is rejected.
///
/// # Errors
/// The errors in the table.
pub(super) fn answer(
    state: SessionState,
    request: Request,
) -> Result<SessionState, ControllerError> {
    use ControllerError as No;
    use SessionState as S;
    match (state, request) {
        (S::Ready, Request::Initialize) => Ok(S::Initialized),
        (S::Ready, _) => Err(No::NotInitialized),
        (S::Terminating, Request::Stop) => Err(No::NotStarted),
        (S::Terminating, _) => Err(No::Terminating),
        (_, Request::Initialize) => Err(No::AlreadyInitialized),
        (_, Request::Terminate) => Ok(S::Terminating),
        (S::Initialized | S::Stopped, Request::Start) => Ok(S::Starting),
        (S::Starting | S::Started, Request::Start) => Err(No::AlreadyStarted),
        (S::Stopping, Request::Start | Request::Snapshot) => Err(No::Stopping),
        (S::Starting | S::Started, Request::Stop) => Ok(S::Stopping),
        (S::Initialized | S::Stopping | S::Stopped, Request::Stop) => Err(No::NotStarted),
        (S::Started, Request::Snapshot) => Ok(S::Started),
        (S::Initialized | S::Starting | S::Stopped, Request::Snapshot) => Err(No::NotStarted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/reference/sessions.md: a row per state, in the order of [`Request::ALL`].
    const TABLE: [(SessionState, [&str; 5]); 7] = [
        (
            SessionState::Ready,
            ["initialized", "NotInitialized", "NotInitialized", "NotInitialized", "NotInitialized"],
        ),
        (
            SessionState::Initialized,
            ["AlreadyInitialized", "starting", "NotStarted", "terminating", "NotStarted"],
        ),
        (
            SessionState::Starting,
            ["AlreadyInitialized", "AlreadyStarted", "stopping", "terminating", "NotStarted"],
        ),
        (
            SessionState::Started,
            ["AlreadyInitialized", "AlreadyStarted", "stopping", "terminating", "started"],
        ),
        (
            SessionState::Stopping,
            ["AlreadyInitialized", "Stopping", "NotStarted", "terminating", "Stopping"],
        ),
        (
            SessionState::Stopped,
            ["AlreadyInitialized", "starting", "NotStarted", "terminating", "NotStarted"],
        ),
        (
            SessionState::Terminating,
            ["Terminating", "Terminating", "NotStarted", "Terminating", "Terminating"],
        ),
    ];

    fn reported(answer: Result<SessionState, ControllerError>) -> String {
        match answer {
            Ok(state) => state.name().to_owned(),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn every_request_in_every_state_gets_the_documented_answer() {
        assert_eq!(TABLE.map(|(state, _)| state), SessionState::ALL);
        for (state, answers) in TABLE {
            for (request, expected) in Request::ALL.into_iter().zip(answers) {
                assert_eq!(
                    reported(answer(state, request)),
                    expected,
                    "{request:?} when {state:?}"
                );
            }
        }
    }

    #[test]
    fn the_table_of_the_documentation_is_this_one() {
        let text = include_str!("../../../../docs/reference/sessions.md");
        for (state, answers) in TABLE {
            let cells = answers.map(|answer| format!("`{answer}`")).join(" | ");
            let row = format!("| `{}` | {cells} |", state.name());
            assert!(text.contains(&row), "docs/reference/sessions.md has no row {row}");
        }
    }
}
