//! The reason why a spec's BINARY is not found.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a spec's BINARY is not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// There is no text before the colon, and no COMMAND or process to record.
    #[error(":SYMBOL is a function of COMMAND, and there is no COMMAND or -p PID: name the binary")]
    NoCommand,
    /// COMMAND does not exist.
    #[error("COMMAND {0} not found, so its functions are unknown")]
    CommandNotFound(String),
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// There is no such library.
    #[error(
        "library {name} not found (searched for {name} and {name}.so* like the loader, then for \
         a program in PATH){advice}"
    )]
    NoLibrary {
        name: String,
        /// The next step for the user, if there is one.
        advice: String,
    },
    /// The library that the process runs has been deleted from disk.
    #[error(
        "process {pid} runs a {} that has been deleted or replaced: restart the process, or give \
         the path of the file",
        path.display()
    )]
    Replaced {
        pid: u32,
        /// The library as the process sees it.
        path: PathBuf,
    },
    /// A relative path was given for a process that sees other files.
    #[error(
        "{}: the process has another root directory: give an absolute path",
        .0.display()
    )]
    Relative(PathBuf),
    /// The process cannot be examined.
    #[error("cannot read the files of process {pid}: {source}{}", advice(.source))]
    Process { pid: u32, source: io::Error },
}

impl LocateError {
    pub(super) fn no_library(name: &str, root: &Path) -> LocateError {
        let advice = if root == Path::new("/") && Path::new(name).is_file() {
            format!("; for the file in this directory, use ./{name}")
        } else {
            "; to use a file, give a path with a slash".to_owned()
        };
        LocateError::NoLibrary { name: name.to_owned(), advice }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; for other users' processes, run fxtrec as root",
        io::ErrorKind::NotFound => "; has it exited?",
        _ => "",
    }
}
