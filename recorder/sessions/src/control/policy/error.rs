//! What can be wrong with a policy, and what a policy says no with.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read the policy {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the policy {} is not a regular file", .0.display())]
    NoFile(PathBuf),
    /// Others than root may have written it.
    #[error(
        "the policy {} belongs to uid {uid}, who could change it: use chown root",
        .path.display()
    )]
    Owner { path: PathBuf, uid: u32 },
    /// Others than its owner may write it.
    #[error(
        "the policy {} is writable by others than its owner (mode {mode:04o}), who could change it: use chmod go-w",
        .path.display()
    )]
    Mode {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is longer than can be meant.
    #[error("the policy {} has more than {most} bytes", .path.display())]
    TooLong {
        path: PathBuf,
        /// The most that is read, in bytes.
        most: u64,
    },
    #[error("{}:{line}:{column}: {problem}", .path.display())]
    Bad {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// What is wrong, and what was expected.
        problem: String,
    },
}

impl PolicyError {
    /// Whether there just is no file.
    pub fn is_missing(&self) -> bool {
        matches!(self, PolicyError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// What is wrong at one place of a text.
#[derive(Debug)]
pub(super) struct Problem {
    /// Bytes before it.
    pub(super) offset: usize,
    /// What is wrong, and what was expected.
    pub(super) text: String,
}

impl Problem {
    pub(super) fn in_file(self, path: &Path, text: &str) -> PolicyError {
        let before = text.get(..self.offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        PolicyError::Bad {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: self.text,
        }
    }
}

/// What somebody is not given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The policy does not allow it.
    #[error("{what}: {why}")]
    NotPermitted {
        what: String,
        /// Why not, and what would allow it.
        why: String,
    },
    /// The policy has no user probe of this name.
    #[error("{} has no user probe '{name}'{}", .path.display(), .meant.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    NoSuchProbe {
        name: String,
        path: PathBuf,
        /// What may have been meant.
        meant: Option<String>,
    },
}
