//! The `fxtrec` binary that a test runs.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::with_usual_signals;

/// A command that runs `fxtrec`, with the usual signals.
///
/// # Panics
/// When cargo cannot build it.
pub fn command() -> Command {
    let mut command = Command::new(fxtrec());
    with_usual_signals(&mut command);
    command
}

/// The path of an up-to-date `fxtrec`, built with the same profile as the test that asks.
///
/// `cargo test` builds the binary of another package only by chance, so it is built here, once per
/// test program.
///
/// # Panics
/// When cargo cannot build it, or the test was not built by cargo.
pub fn fxtrec() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its own path");
    // target/<profile>/deps/<test>
    let profile = test.parent().and_then(Path::parent).expect("cargo puts tests into deps/");
    let target = profile.parent().expect("cargo puts profiles into its target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", "fxtrec", "--bin", "fxtrec"])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo can be run");
    assert!(status.success(), "cargo cannot build fxtrec: {status}");
    profile.join("fxtrec")
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
    /// When the folder for temporary files cannot be written to.
    pub fn new() -> PublicCopy {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let copy = PublicCopy { folder };
        copy_program(fxtrec(), &copy.path());
        for path in [copy.folder.path(), &copy.path()] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
        }
        copy
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("fxtrec")
    }
}

/// Copies a program that is to be executed.
///
/// It is another process that does this: one that a test starts meanwhile would inherit the descriptor that this process
/// writes to, and a file that somebody can write to is too busy to be executed.
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
