//! Waits for the end of a session that ends with `ctl`: until COMMAND exits, Ctrl-C, or the session is aborted.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use std::os::fd::AsFd;

use super::CtlError;
use crate::cli::CtlCommon;
use crate::control::client::Client;
use crate::control::wire::SessionState;
use crate::kernel::child::{Child, Held};
use crate::kernel::signals::Signals;
use crate::kernel::stop_token::StopToken;

/// The longest single wait; every event that ends the wait also wakes it.
const LONG: Duration = Duration::from_secs(3600);

/// How often to check.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Outcome {
    /// The exit status of COMMAND, if there was one.
    pub(super) exit_status: Option<u8>,
    /// Whether the session ended before it was stopped.
    pub(super) lost: bool,
}

/// Lets COMMAND run and waits until it has ended; without one, waits for Ctrl-C or a signal. If the session ends on its own, the wait for
/// Ctrl-C ends, but COMMAND keeps running. Calls `look` regularly while the session runs.
pub(super) fn until_the_end(
    mut signals: Signals,
    held: Option<Held>,
    common: &CtlCommon,
    mut look: Option<&mut dyn FnMut() -> Result<(), CtlError>>,
) -> Result<Outcome, CtlError> {
    let pause = if look.is_some() { LOOK } else { LONG };
    let system = |doing| move |source| CtlError::System { doing, source };
    let session = Session::watch(common)?;
    let mut child = held.map(Held::release).transpose()?;
    loop {
        let mut asked_to_end = false;
        while let Some(caught) = signals.read().map_err(system("read signals"))? {
            match caught.signal {
                Signal::SIGINT | Signal::SIGQUIT => {
                    asked_to_end = true;
                    // The terminal has already sent COMMAND the signal.
                    pass_on(child.as_ref().filter(|_| caught.from_user), caught.signal);
                }
                Signal::SIGTERM | Signal::SIGHUP => {
                    asked_to_end = true;
                    pass_on(child.as_ref(), caught.signal);
                }
                _ => {}
            }
        }
        if let Some(look) = look.as_mut().filter(|_| !session.is_over()) {
            look()?;
        }
        match &mut child {
            Some(child) => {
                if let Some(ended) = child.try_wait().map_err(system("wait for COMMAND"))? {
                    let exit_status = Some(ended.exit_code());
                    return Ok(Outcome { exit_status, lost: session.is_over() });
                }
            }
            None if asked_to_end || session.is_over() => {
                return Ok(Outcome { exit_status: None, lost: session.is_over() });
            }
            None => {}
        }
        if session.is_over() {
            // From now on, only COMMAND is relevant: the session's descriptor is readable and would end every wait at once.
            let none = StopToken::new().map_err(system("wait"))?;
            none.wait([signals.as_fd()].into_iter(), LONG).map_err(system("wait"))?;
        } else {
            let wait = session.0.wait([signals.as_fd()].into_iter(), pause);
            wait.map_err(system("wait"))?;
        }
    }
}

fn pass_on(child: Option<&Child>, signal: Signal) {
    if let Some(child) = child {
        // A COMMAND of another user cannot be signalled; wait for it nevertheless.
        let _ = child.signal(signal);
    }
}

/// Whether the session still exists, according to a separate connection.
struct Session(StopToken);

impl Session {
    fn watch(common: &CtlCommon) -> Result<Session, CtlError> {
        let system = |source| CtlError::System { doing: "watch the session", source };
        let stop = StopToken::new().map_err(system)?;
        let states = Client::connect(&common.socket)?.watch_states()?;
        let over = stop.clone();
        let watch = move || {
            let goes_on = |state| !matches!(state, SessionState::Ready | SessionState::Terminating);
            for state in states {
                if !state.is_ok_and(|answer| goes_on(answer.state)) {
                    break;
                }
            }
            over.stop();
        };
        // It ends with the session, or at the latest with the process.
        thread::Builder::new().name("watch".to_owned()).spawn(watch).map_err(system)?;
        Ok(Session(stop))
    }

    fn is_over(&self) -> bool {
        self.0.is_stopped()
    }
}
