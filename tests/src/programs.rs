//! The programs below `programs/`, built by the tests that need them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program or library in a directory of its own. Gone when dropped.
#[derive(Debug)]
pub struct Built {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Built {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path in the form that specs and commands have.
    ///
    /// # Panics
    /// When the path of the directory for temporary files is not UTF-8.
    pub fn text(&self) -> &str {
        self.path.to_str().expect("a plain path")
    }

    /// The directory, for files next to it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// The path of the source with this name.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

/// Builds `programs/SOURCE` with the compiler for its extension, with these flags at the end.
///
/// # Panics
/// When it does not compile.
pub fn build(source_name: &str, flags: &[&str]) -> Built {
    let (stem, ending) = source_name.split_once('.').expect("a source has an ending");
    let (compiler, fixed): (_, &[&str]) = match ending {
        "c" => ("gcc", &["-O1", "-g", "-pthread"]),
        "cpp" => ("g++", &["-O1"]),
        "rs" => ("rustc", &["-O", "--edition=2024"]),
        other => panic!("nothing builds .{other}"),
    };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join(stem);
    let mut command = Command::new(compiler);
    command.args(fixed).arg(source(source_name)).args(flags).arg("-o").arg(&path);
    succeed(&mut command);
    Built { folder, path }
}

/// Runs a command and returns its output.
///
/// # Panics
/// When it fails.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
