//! Source lines of stack frames, from files on this machine.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::convert::symbolize::Fetch;
use crate::debuginfod::Debuginfod;
use crate::file_worker::Files;
use crate::report::stacks::Line;

/// The time limit for all files together, including those that respond: each has its own limit, but their number is unlimited.
const MOST_TIME: Duration = Duration::from_secs(120);

/// The maximum size of the names in all answers, which are kept until the report is printed, in bytes.
const MOST_TEXT: usize = 64 << 20;

/// Finds source lines, and remembers which files did not respond.
#[derive(Debug, Default)]
pub(super) struct Sources {
    debug_folders: Vec<PathBuf>,
    servers: Option<Debuginfod>,
    files: Files,
    /// The build ids of files that did not respond; they are not read again.
    silent: HashSet<Vec<u8>>,
    spent: Duration,
    text: usize,
}

impl Sources {
    /// Files are also searched in `debug_folder`, and fetched from `servers`.
    pub(super) fn new(debug_folder: Option<PathBuf>, servers: Option<Debuginfod>) -> Sources {
        let cache = servers.as_ref().map(|servers| servers.folder().to_owned());
        let debug_folders = debug_folder.into_iter().chain(cache).collect();
        Sources { debug_folders, servers, ..Sources::default() }
    }

    /// The source lines of an address in the file that was at `path`; empty if no file of this build is found.
    pub(super) fn at(&mut self, path: &str, build_id: &[u8], address: u64) -> Vec<Line> {
        // Without a build id, a file of the same name may be a different one.
        if build_id.is_empty() || self.silent.contains(build_id) {
            return Vec::new();
        }
        let begun = Instant::now();
        let has_room = self.spent < MOST_TIME && self.text < MOST_TEXT;
        let ask = || self.files.lines(path, build_id, &self.debug_folders, address).ok();
        let mut lines = has_room.then(ask).flatten();
        self.spent += begun.elapsed();
        let is_missing = matches!(lines, Some(None)) && !path.starts_with('[');
        if is_missing && self.servers.as_mut().is_some_and(|servers| servers.fetch(build_id)) {
            let begun = Instant::now();
            let again = self.files.look_again(build_id);
            lines = again
                .and_then(|()| self.files.lines(path, build_id, &self.debug_folders, address))
                .ok();
            self.spent += begun.elapsed();
        }
        match lines.map(Option::unwrap_or_default) {
            Some(lines) => {
                let length =
                    |it: &Line| it.file.len() + it.function.as_ref().map_or(0, String::len);
                self.text += lines.iter().map(length).sum::<usize>();
                lines
            }
            None => {
                self.silent.insert(build_id.to_owned());
                Vec::new()
            }
        }
    }

    /// The outcomes of requests to servers.
    pub(super) fn fetched(&self) -> Vec<(&'static str, u64)> {
        self.servers.as_ref().map_or_else(Vec::new, Fetch::tell)
    }

    /// The number of files with missing lines, because they did not respond, or because the limits of time or space were reached.
    pub(super) fn silent(&self) -> usize {
        self.silent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_not_asked_any_more_when_time_or_room_is_used_up() {
        for (spent, text) in [(MOST_TIME, 0), (Duration::ZERO, MOST_TEXT)] {
            let mut sources = Sources { spent, text, ..Sources::default() };
            // No process is started for this question.
            assert!(sources.at("/bin/true", b"id", 1).is_empty());
            assert_eq!(sources.silent(), 1);
            assert!(sources.spent < spent + Duration::from_secs(1));
        }
    }
}
