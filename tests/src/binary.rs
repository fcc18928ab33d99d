//! The `fxtrec` binary that a test runs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::with_usual_signals;

/// A command that runs `fxtrec`, with the usual signals.
///
/// # Panics
/// As for [`fxtrec()`].
pub fn command() -> Command {
    let mut command = Command::new(fxtrec());
    with_usual_signals(&mut command);
    command
}

/// The path of the `fxtrec` that cargo built with the calling test.
///
/// It is a program of this package, under another name: two packages cannot build programs with the same name. A link to it is called
/// `fxtrec`, which is the name in recordings and messages.
///
/// # Panics
/// When the link cannot be created, or the test was not built by cargo.
pub fn fxtrec() -> &'static Path {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    LINK.get_or_init(link)
}

fn link() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its own path");
    // target/<profile>/deps/<test>
    let profile = test.parent().and_then(Path::parent).expect("cargo puts tests into deps/");
    let folder = profile.join("tested");
    std::fs::create_dir_all(&folder).expect("the target folder can be written to");
    // Test programs that run at the same time create the same link.
    let own = folder.join(format!("fxtrec.{}", std::process::id()));
    let link = folder.join("fxtrec");
    // A process with the same id may have been killed here earlier.
    let _ = std::fs::remove_file(&own);
    std::fs::hard_link(profile.join("fxtrec-tested"), &own).expect("cargo built fxtrec-tested");
    std::fs::rename(&own, &link).expect("the target folder can be written to");
    // Renaming does nothing if both are the same file.
    let _ = std::fs::remove_file(&own);
    link
}

/// A copy of `fxtrec` that every user can run, wherever the repository is. Gone when dropped.
#[derive(Debug)]
pub struct PublicCopy {
    folder: tempfile::TempDir,
}

impl PublicCopy {
    /// Makes a copy.
    ///
    /// # Panics
    /// When the directory for temporary files cannot be written to.
    pub fn new() -> PublicCopy {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let copy = PublicCopy { folder };
        copy_program(fxtrec(), &copy.path());
        for path in [copy.folder.path(), &copy.path()] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
        }
        copy
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("fxtrec")
    }
}

/// Copies a program that will be executed.
///
/// Another process creates it: a process that a test starts at the same time would inherit the descriptor that this process writes to, and
/// a file that is open for writing cannot be executed (ETXTBSY).
///
/// # Panics
/// When it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().expect("cp");
    assert!(copied.success(), "{} cannot be copied to {}", from.display(), to.display());
}

impl Default for PublicCopy {
    fn default() -> PublicCopy {
        PublicCopy::new()
    }
}
