//! The reason why `fxtrec ctl` failed, and the exit status for it.

use std::io;
use std::path::PathBuf;

use crate::cli::EXIT_FAILURE;
use crate::commands::plan::flight::FlightError;
use crate::control::client::ClientError;
use crate::kernel::child::LaunchError;
use crate::kernel::procfs::ProcfsError;
use crate::sink::SinkError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CtlError {
    /// The daemon cannot be reached, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The file for the trace cannot be created.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A trace on a terminal.
    #[error(
        "-o - would write the binary trace to a terminal: redirect standard output, or name a file"
    )]
    TraceToTerminal,
    /// The trace and the answer would both be written to standard output.
    #[error("-o - and --json both write to standard output: name a file for the trace")]
    TraceAndJson,
    /// A pipe for a session that continues after ctl has ended.
    #[error("-o - needs a session that ends with ctl: add --foreground, or a COMMAND")]
    DetachedPipe,
    /// Triggers in a session that continues after ctl has ended.
    #[error(
        "--trigger needs a session that ends with ctl, which writes the snapshots: add --foreground, or a COMMAND"
    )]
    DetachedTrigger,
    /// A requirement of triggers is not met.
    #[error(transparent)]
    Flight(#[from] FlightError),
    /// No running process has this name.
    #[error("no running process{} matches --comm {}", if *.own { " of yours" } else { "" }, .globs.join(" "))]
    NoSuchName { globs: Vec<String>, own: bool },
    /// `/proc` cannot be read.
    #[error(transparent)]
    Processes(#[from] ProcfsError),
    /// A file name that asks for compression.
    #[error(
        "{}: the daemon cannot compress: name the file .fxt and compress it afterwards, or use fxtrec record",
        .0.display()
    )]
    Compressed(PathBuf),
    /// COMMAND could not be run.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("cannot {0}: there is no session; start one with fxtrec ctl start")]
    NoSession(&'static str),
    /// Some of the requested data would be missing in the trace.
    #[error(
        "the policy does not permit {}: root can add a rule to the policy file; --categories '*' records only applications, and --allow-partial records what is permitted",
        .0.join(", ")
    )]
    Partial(Vec<String>),
    /// The session ended while it recorded.
    #[error("the session ended early: see the daemon's log (journalctl -u fxtrec)")]
    Lost,
    /// The session has ended, but its trace is incomplete.
    #[error("the trace is incomplete: {0}")]
    Incomplete(String),
    /// There is no process with this id.
    #[error("process {0} does not exist")]
    NoProcess(u32),
    /// A process that does not write snapshots.
    #[error("process {pid} cannot write a snapshot: {why}")]
    NoRecorder { pid: u32, why: String },
    /// A process of another user.
    #[error(
        "cannot request a snapshot from process {pid}: {source}; if it belongs to another user, use sudo"
    )]
    Process { pid: u32, source: io::Error },
    /// The output accepts no more data.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
    /// A system call failed that normally cannot fail.
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
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
