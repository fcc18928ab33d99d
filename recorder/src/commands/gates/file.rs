//! Files for verdicts: small, written as a whole, and given to whoever called sudo.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::kernel::user::Owner;

/// A file for verdicts that are not known yet. One that never gets any is removed again.
#[derive(Debug)]
pub(super) struct Awaiting {
    path: PathBuf,
    file: File,
    written: bool,
}

impl Awaiting {
    /// Creates the file.
    pub(super) fn new(path: &Path) -> io::Result<Awaiting> {
        Ok(Awaiting { path: path.to_owned(), file: create(path)?, written: false })
    }

    /// Its name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets `write` fill it.
    pub(super) fn fill(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.written = true;
        let mut buffered = BufWriter::new(&self.file);
        write(&mut buffered)?;
        buffered.flush()
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        if !self.written && self.path.is_file() {
            // It holds nothing: that it stays when it cannot be removed does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates a file, or opens what is no regular file (`/dev/stderr`, a pipe).
///
/// An earlier file is removed rather than written over, so that in a folder of somebody else root writes to no file
/// that was put there for it to follow.
fn create(path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => return OpenOptions::new().write(true).open(path),
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    give_away(&file);
    Ok(file)
}

/// Opens a file to write at its end. The CI has usually created it.
pub(super) fn append(path: &Path) -> io::Result<File> {
    let is_new = !path.exists();
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        give_away(&file);
    }
    Ok(file)
}

fn give_away(file: &File) {
    if let Some(owner) = Owner::sudo_caller() {
        // A file that stays root's can be read all the same.
        let _ = owner.take(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_file_is_replaced_and_a_link_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (precious, link) = (folder.path().join("precious"), folder.path().join("junit.xml"));
        fs::write(&precious, "keep me").expect("a file");
        std::os::unix::fs::symlink(&precious, &link).expect("a link");
        create(&link).expect("a new file").write_all(b"<x/>").expect("written");
        assert_eq!(fs::read_to_string(&precious).expect("there"), "keep me");
        assert_eq!(fs::read_to_string(&link).expect("there"), "<x/>");
        create(&link).expect("again").write_all(b"<y/>").expect("written");
        assert_eq!(fs::read_to_string(&link).expect("there"), "<y/>");
        assert_eq!(create(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        create(Path::new("/dev/null")).expect("a device is opened as it is");
    }

    #[test]
    fn a_file_that_gets_no_verdicts_does_not_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("junit.xml");
        drop(Awaiting::new(&path).expect("created"));
        assert!(!path.exists());
        let mut awaiting = Awaiting::new(&path).expect("created");
        awaiting.fill(|out| out.write_all(b"<x/>")).expect("written");
        drop(awaiting);
        assert_eq!(fs::read_to_string(&path).expect("there"), "<x/>");
        drop(Awaiting::new(Path::new("/dev/null")).expect("opened"));
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
}
