//! Private directories for temporary files.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::kernel::file_lock;

/// A younger directory may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A directory that no other user can enter. It is removed with its content when it is dropped. If its process is killed before that, the
/// next process that makes one with the same prefix removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: TempDir,
    /// Locked for as long as the process lives.
    _lock: File,
}

impl Scratch {
    /// Creates one in `top`, with a name that begins with `prefix`, and removes those of processes that were killed.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(super) fn make(top: &Path, prefix: &str) -> io::Result<Scratch> {
        sweep(top, prefix, YOUNG);
        let private = Permissions::from_mode(0o700);
        let folder =
            tempfile::Builder::new().prefix(prefix).permissions(private).tempdir_in(top)?;
        let lock = File::open(folder.path())?;
        // If it is not locked, another process may remove it in a minute at the earliest.
        let _ = file_lock::lock(&lock);
        Ok(Scratch { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes directories of this user that no process uses, unless they are `young`. Failures are ignored: the next process tries again.
fn sweep(top: &Path, prefix: &str, young: Duration) {
    for entry in std::fs::read_dir(top).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let open = File::options().read(true).custom_flags(flags).open(&path);
        let is_own = |folder: &File| -> io::Result<bool> {
            let facts = folder.metadata()?;
            let is_private =
                facts.uid() == nix::unistd::geteuid().as_raw() && facts.mode() & 0o077 == 0;
            let is_old = facts.modified()?.elapsed().is_ok_and(|age| age >= young);
            Ok(is_private && is_old)
        };
        if let Ok(folder) = open
            && is_own(&folder).unwrap_or(false)
            && file_lock::lock(&folder).is_ok()
        {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn directories_of_killed_processes_are_removed_and_those_in_use_stay() {
        let top = tempfile::tempdir().expect("a directory");
        let kept = Scratch::make(top.path(), "some-").expect("made");
        let left = Scratch::make(top.path(), "some-").expect("made");
        fs::write(left.path().join("file"), "content").expect("room");
        // As after SIGKILL: the lock ends, and the directory stays.
        let Scratch { folder, _lock: lock } = left;
        let left = folder.keep();
        drop(lock);
        let shared = top.path().join("some-shared");
        fs::create_dir(&shared).expect("made");
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).expect("its own");
        let link = top.path().join("some-link");
        std::os::unix::fs::symlink(&left, &link).expect("made");

        sweep(top.path(), "some-", YOUNG);
        assert!(left.exists(), "it may not be locked yet");
        sweep(top.path(), "other-", Duration::ZERO);
        assert!(left.exists(), "it has another name");
        sweep(top.path(), "some-", Duration::ZERO);
        assert!(!left.exists() && kept.path().exists() && shared.exists());
        assert!(link.is_symlink());
    }
}
