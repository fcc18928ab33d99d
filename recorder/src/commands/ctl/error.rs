//! Why `fxtrec ctl` failed, and the exit status for it.

use std::io;
use std::path::PathBuf;

use crate::cli::EXIT_FAILURE;
use crate::control::client::ClientError;
use crate::kernel::child::LaunchError;
use crate::sink::SinkError;

/// Why `fxtrec ctl` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CtlError {
    /// The daemon cannot be reached, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The file for the trace cannot be made.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A trace on a terminal.
    #[error(
        "-o - writes the trace, which is binary, to standard output, and that is a terminal: pipe it, or name a file"
    )]
    TraceToTerminal,
    /// The trace and the answer on the same output.
    #[error("-o - and --json both write to standard output: name a file for the trace")]
    TraceAndJson,
    /// A pipe to a session that goes on when ctl has ended.
    #[error("-o - needs a session that ends with it: add --foreground, or a COMMAND")]
    DetachedPipe,
    /// A file that is to be compressed.
    #[error(
        "{}: the daemon writes plain FXT: name it .fxt, and compress it afterwards, or use fxtrec record",
        .0.display()
    )]
    Compressed(PathBuf),
    /// COMMAND could not be run.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// There is no session.
    #[error("there is no session to {0}; fxtrec ctl start begins one")]
    NoSession(&'static str),
    /// The session ended while it recorded.
    #[error(
        "the session has ended before it was told to: see the daemon's log (journalctl -u fxtrec)"
    )]
    Lost,
    /// The session has ended, and not all of it is there.
    #[error("the trace is incomplete: {0}")]
    Incomplete(String),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// A process that does not write snapshots.
    #[error("process {pid} writes no snapshots: {why}")]
    NoRecorder {
        /// The process.
        pid: u32,
        /// What it is instead.
        why: String,
    },
    /// A process that is not ours.
    #[error(
        "cannot ask process {pid} for a snapshot: {source}; is it somebody else's? then use sudo"
    )]
    Process {
        /// The process.
        pid: u32,
        /// What came back.
        source: io::Error,
    },
    /// The output does not take any more.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
    /// A system call that never fails did.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What came back.
        source: io::Error,
    },
}

impl CtlError {
    /// The exit status: 126 and 127 when COMMAND cannot be run or found, else [`EXIT_FAILURE`].
    pub fn exit_code(&self) -> u8 {
        match self {
            CtlError::Launch(error) => error.exit_code(),
            _ => EXIT_FAILURE,
        }
    }
}
