//! Files for verdicts: small, written as a whole, and given to whoever called sudo.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::kernel::user::Owner;
use crate::sink::outfile::{self, Derived, OutFileError};

/// Verdicts are for other programs to read, and hold nothing of the trace but figures and names of threads.
const MODE: u32 = 0o666;

/// A file for verdicts that are not known yet. One that never gets any leaves what was there.
#[derive(Debug)]
pub(super) struct Awaiting {
    path: PathBuf,
    derived: Derived,
}

impl Awaiting {
    /// Makes sure that the file can be created, and is none of `others`, which are read or written as well.
    pub(super) fn new(path: &Path, others: &[&Path]) -> Result<Awaiting, OutFileError> {
        outfile::refuse_same(path, others)?;
        let derived = Derived::create(path, MODE, &[], Owner::sudo_caller())?;
        Ok(Awaiting { path: path.to_owned(), derived })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets `write` fill it, and puts it in its place.
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

/// Opens a file to write at its end. The CI has usually created it.
pub(super) fn append(path: &Path) -> io::Result<File> {
    Ok(outfile::append(path, Owner::sudo_caller())?)
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
        fill(Path::new("/dev/null"), "a device is opened as it is");
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

    #[test]
    fn a_summary_grows_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("summary.md");
        for text in ["one\n", "two\n"] {
            append(&path).expect("opened").write_all(text.as_bytes()).expect("written");
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
            append(&other).expect_err("refused").to_string().contains("more than one hard link")
        );
        fs::remove_file(&other).expect("there");
        std::os::unix::fs::symlink(&precious, &other).expect("a link");
        append(&other).expect_err("refused");
        assert_eq!(fs::read_to_string(&precious).expect("there"), "keep me");
    }
}
