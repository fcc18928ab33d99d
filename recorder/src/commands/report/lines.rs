//! The lines of source code that stacks are in, from files on this machine.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::apart::Files;
use crate::report::stacks::Line;

/// Finds lines, and knows which files did not answer.
#[derive(Debug, Default)]
pub(super) struct Sources {
    debug_folder: Option<PathBuf>,
    files: Files,
    /// By their build id: they are not asked again.
    silent: HashSet<Vec<u8>>,
}

impl Sources {
    pub(super) fn new(debug_folder: Option<PathBuf>) -> Sources {
        Sources { debug_folder, ..Sources::default() }
    }

    /// The lines of an address in the file that was at `path`; none if no file of this build is found.
    pub(super) fn at(&mut self, path: &str, build_id: &[u8], address: u64) -> Vec<Line> {
        // A file that is only called the same may be another.
        if build_id.is_empty() || self.silent.contains(build_id) {
            return Vec::new();
        }
        let lines = self.files.lines(path, build_id, self.debug_folder.as_deref(), address);
        lines.unwrap_or_else(|_| {
            self.silent.insert(build_id.to_owned());
            Vec::new()
        })
    }

    /// How many files have no lines, since they did not answer.
    pub(super) fn silent(&self) -> usize {
        self.silent.len()
    }
}
