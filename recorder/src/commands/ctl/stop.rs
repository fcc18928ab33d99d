//! `fxtrec ctl stop`.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::{CtlError, connect, show};
use crate::cli::{CtlCommon, CtlStopArgs};
use crate::control::client::{Client, ClientError};
use crate::control::wire::{ControllerError, ProviderStats, SessionState, StopOptions, Stopped};

/// The messages of `ctl stop`.
#[derive(Debug, Serialize)]
struct Answer {
    /// The session's state: `stopped` with `--keep`, else `ready`.
    state: &'static str,
    /// The trace file by the name that the daemon knows; null if it is not a file.
    output: Option<PathBuf>,
    /// The reason why the trace in the file is incomplete; null if it is complete.
    incomplete: Option<String>,
    /// What was recorded of each application.
    provider_stats: Vec<ProviderStats>,
    #[serde(skip)]
    has_kernel: bool,
}

#[derive(Debug)]
pub(super) struct Ending {
    /// The recorded data of each application.
    pub(super) provider_stats: Vec<ProviderStats>,
    /// The reason why the trace in the file is incomplete.
    pub(super) incomplete: Option<String>,
}

pub(super) fn stop(
    args: &CtlStopArgs,
    common: &CtlCommon,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let mut client = connect(common)?;
    let status = client.status()?;
    if status.state == SessionState::Ready {
        return Err(CtlError::NoSession("stop"));
    }
    let (state, ending) = if args.keep {
        let options = StopOptions { write_results: Some(!args.no_write) };
        let Stopped { provider_stats, incomplete } = client.stop(options)?;
        (SessionState::Stopped, Ending { provider_stats, incomplete })
    } else {
        (SessionState::Ready, end(&mut client, !args.no_write)?)
    };
    let Ending { provider_stats, incomplete } = ending;
    let output = status.output.map(PathBuf::from);
    let has_kernel = status.kernel.has_recorded();
    let answer = Answer { state: state.name(), output, incomplete, provider_stats, has_kernel };
    show::answer(common.json, &answer, out, text)?;
    answer.incomplete.map_or(Ok(()), |why| Err(CtlError::Incomplete(why)))
}

/// Stops the session, if it is not stopped already, and ends it.
pub(super) fn end(client: &mut Client, write: bool) -> Result<Ending, CtlError> {
    let provider_stats = match client.stop(StopOptions { write_results: Some(write) }) {
        Ok(stopped) => stopped.provider_stats,
        Err(ClientError::Refused(ControllerError::NotStarted)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // Data that was missing at the stop may have been written by the end.
    let incomplete = client.terminate()?.incomplete;
    Ok(Ending { provider_stats, incomplete })
}

/// The reason why a session ended by itself.
pub(super) fn why_lost(client: &mut Client) -> CtlError {
    match client.stop(StopOptions::default()) {
        Err(error @ ClientError::Refused(ControllerError::Aborted { .. })) => error.into(),
        _ => CtlError::Lost,
    }
}

fn text(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    match &answer.output {
        Some(path) => writeln!(out, "{}; the trace is {}", done(answer), path.display())?,
        None => writeln!(out, "{}", done(answer))?,
    }
    show::provider_stats(&answer.provider_stats, answer.has_kernel, out)
}

fn done(answer: &Answer) -> &'static str {
    if answer.state == SessionState::Ready.name() {
        "the session has ended"
    } else {
        "the session has stopped; fxtrec ctl start --again continues it"
    }
}
