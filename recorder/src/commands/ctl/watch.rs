//! `fxtrec ctl watch`: prints state changes and alerts of sessions as they happen.
//!
//! ```text
//! states thread   a connection: the state, and each change --+
//! alerts thread   another, while there is a session ---------+-> one line each
//! ```

use std::io::Write;
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use serde::Serialize;

use super::show::{json_line, plain};
use super::{CtlError, connect};
use crate::cli::CtlCommon;
use crate::control::client::ClientError;
use crate::control::wire::{Alert, ControllerError, SessionState, State};

/// A message from one of the connections.
#[derive(Debug)]
enum News {
    State(State),
    Alert(Alert),
    /// The connection for states has ended.
    StatesOver(Result<(), ClientError>),
    /// The connection for alerts has ended, and stays closed until there is another session.
    AlertsOver(Result<(), ClientError>),
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line<'a> {
    State { state: SessionState },
    Alert { alert: &'a str },
}

pub(super) fn watch(
    common: &CtlCommon,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), CtlError> {
    let (news, heard) = unbounded();
    let states = connect(common)?.watch_states()?;
    follow("states", states, news.clone(), News::State, News::StatesOver)?;
    let mut alerts_followed = false;
    for item in heard {
        match item {
            News::State(State { state }) => {
                show(common, &Line::State { state }, out)?;
                if !alerts_followed && state != SessionState::Ready {
                    let alerts = connect(common)?.watch_alerts()?;
                    follow("alerts", alerts, news.clone(), News::Alert, News::AlertsOver)?;
                    alerts_followed = true;
                }
            }
            News::Alert(Alert { alert_name }) => {
                show(common, &Line::Alert { alert: &alert_name }, out)?;
            }
            News::AlertsOver(end) => {
                alerts_followed = false;
                if let Err(error @ ClientError::Refused(ControllerError::NotPermitted { .. })) = end
                {
                    // Changes of state are still printed.
                    let _ = writeln!(err, "fxtrec: no alerts: {error}");
                }
            }
            News::StatesOver(end) => return Ok(end?),
        }
    }
    Ok(())
}

fn follow<R: Send + 'static>(
    name: &str,
    answers: impl Iterator<Item = Result<R, ClientError>> + Send + 'static,
    news: Sender<News>,
    item: fn(R) -> News,
    over: fn(Result<(), ClientError>) -> News,
) -> Result<(), CtlError> {
    let listen = move || {
        for answer in answers {
            let (next, last) = match answer {
                Ok(answer) => (item(answer), false),
                Err(error) => (over(Err(error)), true),
            };
            // If the receiver has ended, the process is about to end.
            if news.send(next).is_err() || last {
                return;
            }
        }
        let _ = news.send(over(Ok(())));
    };
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(listen);
    spawned.map_err(|source| CtlError::System { doing: "start a thread", source })?;
    Ok(())
}

fn show(common: &CtlCommon, line: &Line<'_>, out: &mut dyn Write) -> Result<(), CtlError> {
    if common.json {
        return Ok(json_line(line, out)?);
    }
    match line {
        Line::State { state } => writeln!(out, "state {}", state.name())?,
        Line::Alert { alert } => writeln!(out, "alert {}", plain(alert))?,
    }
    Ok(out.flush()?)
}
