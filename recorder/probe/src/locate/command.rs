//! COMMAND's executable, and programs by `PATH`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{LocateError, Program};

/// The file that will be run: the first that exists and is executable, as for execvp(3).
pub(super) fn executable(program: &Program) -> Result<PathBuf, LocateError> {
    let found = program.candidates.iter().find(|path| is_runnable(path));
    // A bare name is searched in the current directory if PATH includes it.
    found
        .map(|path| match path.components().count() {
            1 if path.is_relative() => Path::new(".").join(path),
            _ => path.clone(),
        })
        .ok_or_else(|| LocateError::CommandNotFound(program.given.to_string_lossy().into_owned()))
}

/// The path of a program found in `PATH`.
pub(super) fn in_path(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).filter(|path| is_runnable(path)).collect()
}

fn is_runnable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
