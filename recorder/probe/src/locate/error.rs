//! Why a spec's BINARY is not found.

use std::io;
use std::path::{Path, PathBuf};

/// Why a spec's BINARY is not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// Nothing in front of the colon, and nothing to be run or recorded by itself.
    #[error(
        "with nothing in front of the ':' it is a function of COMMAND, and there is no COMMAND \
         (nor -p PID): name the binary"
    )]
    NoCommand,
    /// COMMAND is not there.
    #[error("COMMAND {0} is not found, so neither are its functions")]
    CommandNotFound(String),
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
    /// There is no such library.
    #[error(
        "there is no library {name} (looked for {name} and {name}.so* as the loader does, then \
         for a program in PATH){advice}"
    )]
    NoLibrary {
        /// What was looked for.
        name: String,
        /// What to do next, or nothing.
        advice: String,
    },
    /// The library that the process runs is not on disk any more.
    #[error(
        "process {pid} runs a {} that was deleted or replaced since: start the process anew, or \
         name the file by its path",
        path.display()
    )]
    Replaced {
        /// The process.
        pid: u32,
        /// The library as the process sees it.
        path: PathBuf,
    },
    /// A relative path, and a process that sees other files.
    #[error(
        "{}: the process has another root directory, so this path has to begin with a slash",
        .0.display()
    )]
    Relative(PathBuf),
    /// The process cannot be looked at.
    #[error("cannot look at the files of process {pid}: {source}{}", advice(.source))]
    Process {
        /// The process.
        pid: u32,
        /// What came back.
        source: io::Error,
    },
}

impl LocateError {
    pub(super) fn no_library(name: &str, root: &Path) -> LocateError {
        let advice = if root == Path::new("/") && Path::new(name).is_file() {
            format!("; the file of that name in this directory is ./{name}")
        } else {
            "; a file can also be named by its path, with a slash in it".to_owned()
        };
        LocateError::NoLibrary { name: name.to_owned(), advice }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; for other users' processes, run fxtrec as root",
        io::ErrorKind::NotFound => "; has it ended?",
        _ => "",
    }
}
