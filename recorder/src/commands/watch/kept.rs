//! Keeps the recordings of the worst incidents.

use std::io;
use std::path::{Path, PathBuf};

/// The recordings that are kept, each with the excess of its worst incident.
#[derive(Debug)]
pub(super) struct Kept {
    most: usize,
    files: Vec<(u64, PathBuf)>,
}

impl Kept {
    /// Keeps at most this many.
    pub(super) fn new(most: usize) -> Kept {
        Kept { most, files: Vec::new() }
    }

    /// Keeps the recording at `path` if its worst incident, of `excess` nanoseconds, is among the worst. Otherwise removes it; also removes
    /// the recording of a lesser incident if there are too many. Returns whether it is kept, and which files could not be removed.
    pub(super) fn consider(&mut self, path: &Path, worst: Option<u64>) -> (bool, Vec<String>) {
        let Some(worst) = worst else { return (false, remove(path).into_iter().collect()) };
        let at = self.files.partition_point(|(of, _)| *of >= worst);
        self.files.insert(at, (worst, path.to_owned()));
        let removed = self.files.drain(self.most.min(self.files.len())..);
        let failures = removed.filter_map(|(_, path)| remove(&path)).collect();
        (at < self.most, failures)
    }
}

fn remove(path: &Path) -> Option<String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Some(format!("cannot remove {}: {error}", path.display()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_of_the_worst_incidents_are_kept_and_all_others_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut kept = Kept::new(2);
        let mut consider = |name: &str, worst| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).expect("written");
            kept.consider(&path, worst)
        };
        assert_eq!(consider("none", None), (false, vec![]));
        assert_eq!(consider("five", Some(5)), (true, vec![]));
        assert_eq!(consider("nine", Some(9)), (true, vec![]));
        assert_eq!(consider("four", Some(4)), (false, vec![]));
        assert_eq!(consider("seven", Some(7)), (true, vec![]));
        let mut left: Vec<String> = std::fs::read_dir(folder.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        left.sort();
        assert_eq!(left, ["nine", "seven"]);
    }
}
