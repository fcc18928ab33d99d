//! `fxtrec span`: runs a command, and records how long it takes as a span. For programs that cannot use a library, such as shell scripts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;

use fxt_writer::provider::{Builder, Site};

use crate::cli::SpanArgs;

/// The number that a shell adds to the number of the signal that killed a command.
const KILLED: i32 = 128;

/// The reason why COMMAND did not run.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {command}: {source}")]
pub struct SpanError {
    command: String,
    source: io::Error,
}

impl SpanError {
    /// The status that a shell would exit with.
    pub fn exit_code(&self) -> u8 {
        match self.source.kind() {
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// Runs COMMAND within a span, and returns its exit status.
///
/// # Errors
/// Returns [`SpanError`].
pub fn run(args: &SpanArgs) -> Result<u8, SpanError> {
    // A script also runs if nothing can be recorded.
    let provider = Builder::new(&*args.category).init().ok();
    let site = Site::leaked(&args.category, &args.name);
    let program = args.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let within = || -> io::Result<ExitStatus> {
        let _span = site.armed().map(|armed| armed.duration(&[], []));
        Command::new(program).args(args.command.iter().skip(1)).status()
    };
    // The span is on a thread of its name, which the trace shows.
    let ran = thread::scope(|scope| {
        let thread = thread::Builder::new().name(args.name.clone());
        let ended = thread.spawn_scoped(scope, within)?.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("a thread of fxtrec panicked")))
    });
    drop(provider);
    let status = ran
        .map_err(|source| SpanError { command: program.to_string_lossy().into_owned(), source })?;
    let code = status.code().unwrap_or_else(|| KILLED + status.signal().unwrap_or(0));
    Ok(code.try_into().unwrap_or(u8::MAX))
}
