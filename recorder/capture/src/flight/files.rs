//! Keeps the files of a series within a number and a budget of bytes: files that this run has written, and files that earlier runs left
//! under the same name.
//!
//! The oldest are removed first, but never the newest of this run. A file that has replaced one of them under the same name stays.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use fxtrec_kernel::directory::{Directory, Facts, FileId, Trusted, WalkError};
use fxtrec_kernel::user::Owner;

/// How much of a series may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub files: Option<usize>,
    /// The maximum number of bytes of all files together.
    pub bytes: Option<u64>,
}

/// A file of the series.
#[derive(Debug)]
struct There {
    path: PathBuf,
    id: FileId,
    bytes: u64,
    /// Whether this run has written it.
    is_ours: bool,
}

/// The files of a series.
#[derive(Debug, Default)]
pub struct Files {
    bounds: Bounds,
    /// The oldest first.
    there: VecDeque<There>,
    bytes: u64,
    written: u64,
    removed: Removed,
}

/// How many files were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files that this run has written.
    pub ours: u64,
    /// Files that earlier runs have left.
    pub earlier: u64,
}

/// A file that could not be removed. It is not counted any longer.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {} to stay within limits: {source}", .path.display())]
pub struct NotRemoved {
    pub path: PathBuf,
    pub source: io::Error,
}

impl Files {
    /// Starts with no files.
    pub fn new(bounds: Bounds) -> Files {
        Files { bounds, ..Files::default() }
    }

    /// Starts with the files of earlier runs, the oldest first: path, file and bytes of each.
    pub fn after(
        bounds: Bounds,
        earlier: impl IntoIterator<Item = (PathBuf, FileId, u64)>,
    ) -> Files {
        let earlier = earlier.into_iter();
        let there: VecDeque<There> =
            earlier.map(|(path, id, bytes)| There { path, id, bytes, is_ours: false }).collect();
        let bytes = there.iter().map(|file| file.bytes).sum();
        Files { bounds, there, bytes, ..Files::default() }
    }

    /// Adds a file that was written. Removes older files so that all are within limits, with `room` bytes of the budget left.
    ///
    /// # Errors
    /// Returns [`NotRemoved`] for the first file that could not be removed; the others were removed.
    pub fn add(
        &mut self,
        path: &Path,
        id: FileId,
        bytes: u64,
        room: u64,
    ) -> Result<(), NotRemoved> {
        self.there.push_back(There { path: path.to_owned(), id, bytes, is_ours: true });
        self.bytes += bytes;
        self.written += 1;
        self.trim(room)
    }

    /// Removes the oldest files until the rest is within bounds, with `room` more bytes left.
    ///
    /// # Errors
    /// Returns [`NotRemoved`] for the first file that could not be removed; the others were removed.
    pub fn trim(&mut self, room: u64) -> Result<(), NotRemoved> {
        self.trim_while(room, Files::may_remove)
    }

    /// Removes the oldest files until the rest and a newer file of `bytes`, which is not counted, are within bounds.
    ///
    /// # Errors
    /// As [`trim`](Files::trim).
    pub fn trim_beside(&mut self, bytes: u64) -> Result<(), NotRemoved> {
        self.trim_while(bytes, |_| true)
    }

    fn trim_while(&mut self, room: u64, may: fn(&Files) -> bool) -> Result<(), NotRemoved> {
        let mut result = Ok(());
        while self.is_over(room)
            && may(self)
            && let Some(removed) = self.remove_oldest()
        {
            result = result.and(removed.map(drop));
        }
        result
    }

    /// Removes the oldest file to free space on a full disk, if the user has set limits and so agreed to lose the oldest files. False if no
    /// file could be removed.
    pub fn free_oldest(&mut self) -> bool {
        if self.bounds == Bounds::default() {
            return false;
        }
        // A file that no longer exists or cannot be removed frees no space.
        while self.may_remove()
            && let Some(removed) = self.remove_oldest()
        {
            if matches!(removed, Ok(true)) {
                return true;
            }
        }
        false
    }

    /// Whether a file other than the newest one of this run is left.
    fn may_remove(&self) -> bool {
        self.there.len() > 1 || self.there.front().is_some_and(|file| !file.is_ours)
    }

    /// Removes the oldest file and forgets it; `None` if there is none. False if another process had removed it.
    fn remove_oldest(&mut self) -> Option<Result<bool, NotRemoved>> {
        let There { path, id, bytes, is_ours } = self.there.pop_front()?;
        self.bytes -= bytes;
        match remove(&path, id) {
            Ok(()) if is_ours => self.removed.ours += 1,
            Ok(()) => self.removed.earlier += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Ok(false)),
            Err(source) => return Some(Err(NotRemoved { path, source })),
        }
        Some(Ok(true))
    }

    fn is_over(&self, room: u64) -> bool {
        self.bounds.files.is_some_and(|most| self.there.len() > most)
            || self.bounds.bytes.is_some_and(|most| self.bytes.saturating_add(room) > most)
    }

    /// The files that this run has written and not removed: path, file and bytes of each.
    pub fn ours(&self) -> impl Iterator<Item = (&Path, FileId, u64)> {
        let ours = self.there.iter().filter(|file| file.is_ours);
        ours.map(|file| (&*file.path, file.id, file.bytes))
    }

    /// How many files this run has written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// How many files were removed.
    pub fn removed(&self) -> Removed {
        self.removed
    }
}

/// The file that is at `path` now; not a link.
///
/// # Errors
/// Returns an error if the file does not exist, or its directory cannot be trusted.
pub fn file_at(path: &Path) -> io::Result<FileId> {
    let (directory, name) = walk(path)?;
    let there: Option<Facts> = directory.look(name)?;
    Ok(there.ok_or(io::ErrorKind::NotFound)?.id)
}

/// Removes exactly this file, not another one that has replaced it under its name.
fn remove(path: &Path, id: FileId) -> io::Result<()> {
    let (directory, name) = walk(path)?;
    match directory.remove_file(name, id) {
        Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {
            Err(io::Error::other("another file has its name now"))
        }
        result => result,
    }
}

fn walk(path: &Path) -> io::Result<(Directory, &std::ffi::OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let trusted = Trusted::with(Owner::sudo_caller());
    let directory = Directory::open(parent, trusted).map_err(|error| match error {
        WalkError::System(error) => error,
        link @ WalkError::UnsafeLink(_) => io::Error::other(link.to_string()),
    })?;
    Ok((directory, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds files of these sizes, and returns the names of the remaining files.
    fn left(bounds: Bounds, room: u64, sizes: &[u64]) -> (Vec<String>, Files) {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        std::fs::write(folder.path().join("another's"), "").expect("room");
        let mut files = Files::new(bounds);
        for (number, size) in sizes.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, "").expect("room");
            let id = file_at(&path).expect("it is there");
            files.add(&path, id, *size, room).expect("it can be removed");
        }
        let there = std::fs::read_dir(folder.path()).expect("it is there");
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = there.map(name).collect();
        names.sort();
        assert_eq!(names.pop().as_deref(), Some("another's"), "it is not ours");
        (names, files)
    }

    #[test]
    fn the_oldest_go_first_until_the_rest_is_within_the_budget() {
        let bounds = Bounds { bytes: Some(100), files: None };
        assert_eq!(left(bounds, 0, &[40, 40, 20]).0, ["0", "1", "2"]);
        let (names, files) = left(bounds, 0, &[40, 40, 20, 50]);
        assert_eq!(names, ["2", "3"]);
        assert_eq!((files.written(), files.removed().ours), (4, 2));
        assert_eq!(left(bounds, 50, &[40, 40, 20]).0, ["2"], "room is kept for the next");
    }

    #[test]
    fn the_youngest_stays_though_it_is_larger_than_the_budget() {
        let bounds = Bounds { bytes: Some(100), files: None };
        assert_eq!(left(bounds, 0, &[40, 400]).0, ["1"]);
    }

    #[test]
    fn a_newer_file_that_is_not_counted_takes_the_place_of_all() {
        let bounds = Bounds { bytes: Some(100), files: None };
        for (last, kept) in [(20, 2), (60, 1), (400, 0)] {
            let (folder, mut files) = after(bounds);
            files.trim_beside(last).expect("removed");
            assert_eq!(names(&folder).len(), kept, "{last}");
        }
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("1");
        std::fs::write(&path, "").expect("room");
        let mut files = Files::new(bounds);
        files.add(&path, file_at(&path).expect("there"), 40, 0).expect("removed");
        files.trim_beside(400).expect("removed");
        assert!(names(&folder).is_empty(), "this run's too");
    }

    #[test]
    fn no_more_files_are_kept_than_wanted() {
        let bounds = Bounds { bytes: None, files: Some(2) };
        assert_eq!(left(bounds, 0, &[1, 1, 1, 1, 1]).0, ["3", "4"]);
    }

    #[test]
    fn a_file_that_is_gone_already_does_not_matter_and_one_that_stays_is_reported() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut files = Files::new(Bounds { bytes: None, files: Some(1) });
        let id = file_at(folder.path()).expect("a folder");
        files.add(&folder.path().join("never"), id, 1, 0).expect("nothing to remove");
        // A directory is not a file.
        files.add(folder.path(), id, 1, 0).expect("the first is gone");
        let error = files.add(&folder.path().join("last"), id, 1, 0).expect_err("not a file");
        assert_eq!(error.path, folder.path());
        assert_eq!((files.written(), files.removed()), (3, Removed::default()));
    }

    #[test]
    fn another_file_under_the_name_of_an_old_one_stays() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let mut files = Files::new(Bounds { bytes: None, files: Some(1) });
        for path in [&old, &new] {
            std::fs::write(path, "").expect("room");
        }
        files.add(&old, file_at(&old).expect("there"), 1, 0).expect("the first");
        std::fs::write(folder.path().join("precious"), "keep me").expect("room");
        std::fs::rename(folder.path().join("precious"), &old).expect("the same folder");
        let error = files.add(&new, file_at(&new).expect("there"), 1, 0).expect_err("another's");
        assert_eq!(error.source.to_string(), "another file has its name now");
        assert_eq!(std::fs::read_to_string(&old).expect("it stays"), "keep me");
        assert_eq!(files.removed(), Removed::default());
    }

    /// Three files of an earlier run, of 40 bytes each.
    fn after(bounds: Bounds) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let earlier = ["1", "2", "3"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("room");
            let id = file_at(&path).expect("there");
            (path, id, 40)
        });
        (folder, Files::after(bounds, earlier))
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(folder.path()).expect("there");
        let name = |entry: io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_of_earlier_runs_count_and_go_first() {
        let (folder, mut files) = after(Bounds { bytes: None, files: Some(2) });
        files.trim(0).expect("removed");
        assert_eq!(names(&folder), ["2", "3"]);
        let path = folder.path().join("4");
        std::fs::write(&path, "").expect("room");
        files.add(&path, file_at(&path).expect("there"), 40, 0).expect("removed");
        assert_eq!(names(&folder), ["3", "4"]);
        assert_eq!((files.written(), files.removed()), (1, Removed { ours: 0, earlier: 2 }));
        let (folder, mut files) = after(Bounds { bytes: Some(100), files: None });
        files.trim(50).expect("removed");
        assert_eq!(names(&folder), ["3"], "room is kept for what this run will write");
        let (folder, mut files) = after(Bounds { bytes: Some(10), files: None });
        files.trim(0).expect("removed");
        assert!(names(&folder).is_empty(), "the youngest of an earlier run may go");
    }

    #[test]
    fn a_full_disk_takes_the_oldest_of_a_series_that_is_bounded() {
        let (folder, mut files) = after(Bounds { bytes: None, files: Some(9) });
        std::fs::remove_file(folder.path().join("1")).expect("there");
        assert!(files.free_oldest(), "the first is gone, the second makes room");
        assert_eq!(names(&folder), ["3"]);
        assert!(files.free_oldest());
        assert!(!files.free_oldest(), "none is left");
        let (folder, mut files) = after(Bounds::default());
        assert!(!files.free_oldest(), "nobody agreed to that");
        assert_eq!(names(&folder).len(), 3);
    }
}
