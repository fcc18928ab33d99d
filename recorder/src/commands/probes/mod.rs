//! `fxtrec probes`: lists the functions and USDT probes of a binary.

mod json;
mod table;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::cli::ProbesArgs;
use crate::file_worker::{FileWorkerError, Files};
use crate::probe::{Context, spec::Binary};
use crate::units::Pid;
use crate::units::look::Look;

/// The reason why there is no list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbesError {
    /// The binary cannot be read, or nothing in it matches.
    #[error(transparent)]
    Probe(#[from] FileWorkerError),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Writes the list for `args` to `out`. An output that is closed early is not an error.
///
/// # Errors
/// Returns an error if the binary cannot be read, nothing in it matches, or the output fails.
pub fn run(args: &ProbesArgs, look: Look, out: &mut dyn Write) -> Result<(), ProbesError> {
    let pids = args.pid.map(Pid).into_iter().collect();
    let context = Context { program: None, pids, most: usize::MAX };
    let pattern = args.glob.as_deref().unwrap_or("*");
    let listings = Files::default().list(&binary(&args.binary), pattern, &context)?;
    let mut out = BufWriter::new(out);
    let written = listings.iter().try_for_each(|listing| match (args.json, args.names) {
        (true, _) => json::write(listing, &mut out),
        (false, true) => table::write_names(listing, &mut out),
        (false, false) => table::write(listing, look, &mut out),
    });
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The binary, parsed as in a probe spec.
fn binary(text: &str) -> Binary {
    if text.contains('/') {
        Binary::Path(PathBuf::from(text))
    } else {
        Binary::Name(text.to_owned())
    }
}
