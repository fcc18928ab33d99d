//! `fxtrec ctl`: a client of the daemon's trace controller, with one module per verb.
//!
//! Files are created here, with the rights of the user; the daemon gets the descriptor. The result of a verb goes to standard output, as
//! lines for people or, with `--json`, as objects whose fields docs/reference/sessions.md lists.

mod ask;
mod error;
mod file;
mod run;
mod show;
mod snapshot;
mod start;
mod stop;
mod watch;

use std::io::{self, Write};

use crate::cli::{CtlArgs, CtlCommon, CtlVerb};
use crate::control::client::Client;
use crate::units::look::Look;
pub use error::CtlError;
pub(in crate::commands) use snapshot::snapshot_of;

/// Runs the verb of `args` and returns the exit status. Standard output is written to `out`, remarks to `err`. An `out` that is closed
/// early is not an error.
///
/// # Errors
/// Returns an error when the daemon cannot be reached or refuses, or when a file cannot be written.
pub fn run(
    args: CtlArgs,
    look: Look,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, CtlError> {
    let common = args.common;
    let done = match args.verb {
        CtlVerb::Status => ask::status(&common, out).map(|()| 0),
        CtlVerb::Providers => ask::providers(&common, look, out).map(|()| 0),
        CtlVerb::Categories => ask::categories(&common, look, out).map(|()| 0),
        CtlVerb::Start(start) if start.again => start::again(*start, &common, out).map(|()| 0),
        CtlVerb::Start(start) => start::start(*start, &common, out, err),
        CtlVerb::Stop(stop) => stop::stop(&stop, &common, out).map(|()| 0),
        CtlVerb::Snapshot(snapshot) => snapshot::snapshot(snapshot, &common, out, err).map(|()| 0),
        CtlVerb::Watch => watch::watch(&common, out, err).map(|()| 0),
    };
    match done {
        Err(CtlError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        done => done,
    }
}

fn connect(common: &CtlCommon) -> Result<Client, CtlError> {
    Ok(Client::connect(&common.socket)?)
}
