//! `fxtrec open`: opens a file in the Perfetto UI with one command.
//!
//! The UI is a web page that loads a trace from the URL in its link. Only this file is served, on the loopback address, with the header
//! that lets that page read it:
//!
//! ```text
//! fxtrec open x.fxt --> browser: https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/TOKEN/x.fxt
//!        <-- GET /TOKEN/x.fxt, Origin: https://ui.perfetto.dev -- the page's own script
//!        --- the file, then fxtrec ends ------------------->
//! ```
//!
//! The page's security policy lets it load only from port 9001 of this machine.

pub(crate) mod browser;
mod serve;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use crate::cli::OpenArgs;
use crate::convert::{ConvertError, Format, Input, Options, Output, Packing, convert};
use crate::kernel::random;
use serve::Served;

/// The page that shows traces.
const PERFETTO: &str = "https://ui.perfetto.dev";

/// The reason why a trace could not be opened in the Perfetto UI.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The trace cannot be read or converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The port is in use or not permitted.
    #[error(
        "cannot serve on port {port}: {source}; stop the program that uses it (another `fxtrec \
         open`?), or open the file yourself at {PERFETTO}"
    )]
    Listen { port: u16, source: io::Error },
    /// Accepting connections failed.
    #[error("cannot accept connections: {0}")]
    Accept(#[source] io::Error),
    /// No random numbers are available.
    #[error("getrandom: {0}")]
    Token(#[source] io::Error),
    /// The file to serve cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Serves the file until it has been fetched. The link is written to `messages`.
///
/// # Errors
///
/// Returns an error when the file cannot be read, or the port cannot be used.
pub fn run(args: &OpenArgs, messages: &mut dyn Write) -> Result<(), OpenError> {
    let served = prepare(args)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .map_err(|source| OpenError::Listen { port: args.port, source })?;
    // Port 0 means any.
    let port = listener.local_addr().map_or(args.port, |address| address.port());
    let link = format!("{PERFETTO}/#!/?url=http://127.0.0.1:{port}/{}", served.path);
    // If standard error is closed, the browser still gets the link.
    let _ = writeln!(messages, "{link}");
    if !args.no_browser
        && let Err(reason) = browser::open(&link)
    {
        let _ = writeln!(messages, "fxtrec: open this link in a browser: {reason}");
    }
    let _ = writeln!(messages, "fxtrec: waiting for the browser; press Ctrl-C to stop");
    serve::until_fetched(&listener, port, served)
}

/// The file itself, or its conversion to FXT in an unnamed temporary file.
fn prepare(args: &OpenArgs) -> Result<Served, OpenError> {
    let read = |source| OpenError::Read { path: args.file.clone(), source };
    let token = random::hex_token().map_err(OpenError::Token)?;
    let mut input = Input::open(&args.file, true)?;
    let format = input.format()?;
    let stem = args.file.file_name().and_then(OsStr::to_str).unwrap_or("trace.fxt");
    if matches!(format, Format::Fxt | Format::Perfetto) {
        drop(input);
        let file = File::open(&args.file).map_err(read)?;
        return Served::new(stem, &token, file).map_err(read);
    }
    let file = tempfile::tempfile().map_err(read)?;
    let mut output =
        Output::of_file(file.try_clone().map_err(read)?, Packing::Plain).map_err(read)?;
    let result = convert(&mut input, format, &mut output, Format::Fxt, Options::default());
    input.finish();
    result?;
    output.finish()?;
    Served::new(&format!("{stem}.fxt"), &token, file).map_err(read)
}

#[cfg(test)]
mod tests;
