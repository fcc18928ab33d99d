//! Creates the file for the daemon to write, with the rights of the user of ctl.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::CtlError;
use crate::cli::CtlCommon;
use crate::kernel::directory::Facts;
use crate::kernel::terminal::stdout_is_terminal;
use crate::kernel::user::Owner;
use crate::sink::{NewFile, new_file};

/// File name extensions that imply compression.
const PACKED: [&str; 8] = ["gz", "zst", "bz2", "xz", "lz4", "lzma", "br", "zip"];

#[derive(Debug)]
pub(super) struct TraceFile {
    output: OwnedFd,
    /// The file and its absolute path; `None` for standard output.
    made: Option<(NewFile, PathBuf)>,
}

impl TraceFile {
    /// Creates the file, or takes standard output for `-`. Only a path that the user named may be a FIFO or device.
    pub(super) fn create(
        path: &Path,
        named: bool,
        common: &CtlCommon,
    ) -> Result<TraceFile, CtlError> {
        if path == Path::new("-") {
            return TraceFile::stdout(common);
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        if PACKED.contains(&ending.to_ascii_lowercase().as_str()) {
            return Err(CtlError::Compressed(path.to_owned()));
        }
        let made = new_file(path, named, Owner::sudo_caller())?;
        let system = |source| CtlError::System { doing: "pass the file to the daemon", source };
        let output = made.file.as_fd().try_clone_to_owned().map_err(system)?;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(TraceFile { output, made: Some((made, absolute)) })
    }

    fn stdout(common: &CtlCommon) -> Result<TraceFile, CtlError> {
        if common.json {
            return Err(CtlError::TraceAndJson);
        }
        if stdout_is_terminal() {
            return Err(CtlError::TraceToTerminal);
        }
        let system =
            |source| CtlError::System { doing: "pass standard output to the daemon", source };
        let output = io::stdout().as_fd().try_clone_to_owned().map_err(system)?;
        Ok(TraceFile { output, made: None })
    }

    /// The descriptor for the daemon.
    pub(super) fn descriptor(&self) -> Result<OwnedFd, CtlError> {
        let system = |source| CtlError::System { doing: "pass the file to the daemon", source };
        self.output.try_clone().map_err(system)
    }

    /// The absolute path, unless it is standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.made.as_ref().map(|(_, path)| path.as_path())
    }

    /// The new path of an earlier file of this name, if there was one.
    pub(super) fn kept_old(&self) -> Option<&Path> {
        self.made.as_ref().and_then(|(made, _)| made.kept_old.as_deref())
    }

    /// Whether the file has been removed since.
    pub(super) fn is_removed(&self) -> bool {
        let facts = self.made.as_ref().and_then(|(made, _)| Facts::of_file(&made.file).ok());
        facts.is_some_and(|facts| facts.has_no_name)
    }

    /// Removes the file again, because nothing was recorded.
    pub(super) fn discard(self) {
        if let Some(undo) = self.made.and_then(|(made, _)| made.undo) {
            undo.take_back();
        }
    }
}
