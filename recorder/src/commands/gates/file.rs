//! Files for verdicts: small, written in one piece, and owned by the user who called sudo.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::kernel::user::Owner;
use crate::sink::outfile::{self, Derived, OutFileError, OutputLocation};

/// Verdicts contain only figures and thread names, and other programs read them.
const MODE: u32 = 0o666;

/// A file for verdicts that are not known yet. If no verdicts are written, an existing file is kept.
#[derive(Debug)]
pub(super) struct Awaiting {
    path: PathBuf,
    derived: Derived,
}

impl Awaiting {
    /// Checks that the file can be created and is not one of `others`, which are also read or written.
    pub(super) fn new(path: &Path, others: &[&Path]) -> Result<Awaiting, OutFileError> {
        outfile::refuse_same(path, others)?;
        let derived = Derived::create(path, MODE, &[], Owner::sudo_caller())?;
        Ok(Awaiting { path: path.to_owned(), derived })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `write` to fill the file, then moves it into place.
    pub(super) fn fill(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let Derived { file, pending } = self.derived;
        let mut buffered = BufWriter::new(file);
        write(&mut buffered)?;
        buffered.flush()?;
        Ok(pending.commit()?)
    }
}

/// A file to append to, opened before the verdicts are known. Usually the CI system has created it.
#[derive(Debug)]
pub(super) struct Summary {
    path: PathBuf,
    place: Result<OutputLocation, OutFileError>,
}

impl Summary {
    pub(super) fn new(path: OsString) -> Summary {
        let path = PathBuf::from(path);
        let place = OutputLocation::find(&path, Owner::sudo_caller());
        Summary { path, place }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn append(self, text: &[u8]) -> Result<(), OutFileError> {
        self.place?.append(text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn fill(path: &Path, text: &str) {
        let awaiting = Awaiting::new(path, &[]).expect("created");
        awaiting.fill(|out| out.write_all(text.as_bytes())).expect("written");
    }

    #[test]
    fn an_earlier_file_is_replaced_and_a_link_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (precious, link) = (folder.path().join("precious"), folder.path().join("junit.xml"));
        fs::write(&precious, "keep me").expect("a file");
        std::os::unix::fs::symlink(&precious, &link).expect("a link");
        fill(&link, "<x/>");
        assert_eq!(fs::read_to_string(&precious).expect("there"), "keep me");
        assert_eq!(fs::read_to_string(&link).expect("there"), "<x/>");
        fill(&link, "<y/>");
        assert_eq!(fs::read_to_string(&link).expect("there"), "<y/>");
        let refused = |path: &Path, others: &[&Path]| {
            io::Error::from(Awaiting::new(path, others).expect_err("refused"))
        };
        assert_eq!(refused(folder.path(), &[]).kind(), io::ErrorKind::IsADirectory);
        let (new, roundabout) = (folder.path().join("t"), folder.path().join("./t"));
        assert!(refused(&new, &[&roundabout]).to_string().contains("used for two outputs"));
        fill(Path::new("/dev/null"), "a device is opened directly");
    }

    #[test]
    fn a_file_that_gets_no_verdicts_does_not_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("junit.xml");
        drop(Awaiting::new(&path, &[]).expect("created"));
        assert!(!path.exists());
        fill(&path, "<x/>");
        drop(Awaiting::new(&path, &[]).expect("created"));
        assert_eq!(fs::read_to_string(&path).expect("there"), "<x/>");
        drop(Awaiting::new(Path::new("/dev/null"), &[]).expect("opened"));
        assert!(Path::new("/dev/null").exists());
    }

    fn append(path: &Path, text: &str) -> Result<(), OutFileError> {
        Summary::new(path.into()).append(text.as_bytes())
    }

    #[test]
    fn verdicts_do_not_go_where_their_folder_was_moved_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).expect("room");
        fs::create_dir(at("e")).expect("room");
        std::os::unix::fs::symlink("d", at("link")).expect("room");
        let waiting = ["d/j", "link/j"].map(|name| Awaiting::new(&at(name), &[]).expect("created"));
        let summary = Summary::new(at("d/s").into());
        fs::rename(at("d"), at("moved")).expect("room");
        fs::rename(at("e"), at("d")).expect("room");
        for waiting in waiting {
            let error = waiting.fill(|out| out.write_all(b"<x/>")).expect_err("elsewhere");
            assert!(error.to_string().contains("moved or replaced"), "{error}");
        }
        assert_eq!(summary.append(b"text"), Err(OutFileError::Moved));
        assert!(!at("d/j").exists() && !at("moved/j").exists() && !at("d/s").exists());
        // Opens the directory itself, since a link to it may change.
        let link = Awaiting::new(&at("link/j"), &[]).expect("created");
        fs::remove_file(at("link")).expect("there");
        std::os::unix::fs::symlink("moved", at("link")).expect("room");
        link.fill(|out| out.write_all(b"<x/>")).expect_err("elsewhere");
    }

    #[test]
    fn a_summary_grows_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("summary.md");
        for text in ["one\n", "two\n"] {
            append(&path, text).expect("written");
        }
        assert_eq!(fs::read_to_string(&path).expect("there"), "one\ntwo\n");
    }

    #[test]
    fn a_summary_is_not_written_through_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let (precious, other) = (folder.path().join("precious"), folder.path().join("summary.md"));
        fs::write(&precious, "keep me").expect("a file");
        fs::hard_link(&precious, &other).expect("a second name");
        assert!(
            append(&other, "x")
                .expect_err("refused")
                .to_string()
                .contains("more than one hard link")
        );
        fs::remove_file(&other).expect("there");
        std::os::unix::fs::symlink(&precious, &other).expect("a link");
        append(&other, "x").expect_err("refused");
        assert_eq!(fs::read_to_string(&precious).expect("there"), "keep me");
    }
}
