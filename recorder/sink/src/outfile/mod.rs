//! The creation of output files, for all commands.
//!
//! fxtrec often runs as root, in directories that others write to. So a name is resolved once, and no file is ever truncated, followed or
//! chowned by name: see [`fxtrec_kernel::directory`].
//!
//! ```text
//!  OutputLocation::find(path)   walks to the directory, holds it
//!    |
//!    +-- special()     a FIFO or device that the user named: opened as it is, if it is the user's or root's
//!    +-- record()      a recording: locked, has its name from the first byte on; an earlier file becomes NAME.old
//!    +-- Derived       made from other files: has its name when it is complete; until then the earlier file stays
//!    +-- make_folder() a directory, unless it is there
//!    +-- append()      a file that somebody else began, such as the summary page of a CI
//!    +-- leads_to()    afterwards: whether the path, looked up again, leads to the file that was written
//! ```
//!
//! While a file is written, the owner of the directory, such as the user of COMMAND, may replace the directory. So directories are opened
//! before COMMAND starts, all files are created in the open directories, and it is an error if the path does not lead to the file
//! afterwards.

mod derived;
mod error;
mod folder;
mod recording;
mod special;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

pub use derived::{Derived, Pending, mode_of};
pub use error::OutFileError;
pub use folder::make_folder;
pub use recording::{FromStart, Given, Hold, NameState, Recording, Series, Undo};

use fxtrec_kernel::directory::{Directory, Facts, FileId, Trusted};
use fxtrec_kernel::file_lock;
use fxtrec_kernel::user::Owner;

/// A name in an open directory.
#[derive(Clone, Debug)]
pub struct OutputLocation {
    directory: Directory,
    name: OsString,
    /// As the user gave it, for messages.
    path: PathBuf,
    owner: Option<Owner>,
    /// The directory's path in procfs when it was found.
    shown: Option<PathBuf>,
}

impl OutputLocation {
    /// Finds the directory and the name of `path`. Files created there will belong to `owner`.
    ///
    /// # Errors
    /// Returns an error when its directory does not exist or cannot be trusted, or the path names no file.
    pub fn find(path: &Path, owner: Option<Owner>) -> Result<OutputLocation, OutFileError> {
        let name =
            path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
        let name = name.ok_or(OutFileError::of_errno(libc::EISDIR))?.to_owned();
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = Directory::open(parent, Trusted::with(owner))?;
        let shown = shown(&directory);
        Ok(OutputLocation { directory, name, path: path.to_owned(), owner, shown })
    }

    /// Another name in the same directory, even if that was moved.
    pub fn beside(&self, name: &OsStr) -> OutputLocation {
        OutputLocation {
            name: name.to_owned(),
            path: self.path.with_file_name(name),
            ..self.clone()
        }
    }

    /// As the user gave it, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to the open directory.
    fn is_where_it_was(&self) -> bool {
        let id = |directory: &Directory| Facts::of_file(directory).ok().map(|facts| facts.id);
        let again = || OutputLocation::find(&self.path, self.owner).ok();
        shown(&self.directory) == self.shown
            && again().is_some_and(|again| id(&again.directory) == id(&self.directory))
    }

    /// Whether the path leads to this very file.
    pub fn leads_to(&self, file: FileId) -> bool {
        let there = self.directory.look(&self.name);
        there.is_ok_and(|there| there.is_some_and(|there| there.id == file))
            && self.is_where_it_was()
    }

    fn trusted(&self) -> Trusted {
        Trusted::with(self.owner)
    }

    /// Rejects a file that another process records to.
    fn must_be_free(&self, name: &OsString) -> Result<(), OutFileError> {
        self.lock_earlier(name).map(drop)
    }

    /// Locks the file at `name`, so that no other process considers it unused; `None` if it is not a file or cannot be opened.
    fn lock_earlier(&self, name: &OsString) -> Result<Option<File>, OutFileError> {
        let regular = |facts: Facts| facts.kind() == SFlag::S_IFREG;
        if !self.directory.look(name)?.is_some_and(regular) {
            return Ok(None);
        }
        // Without read permission, the process that writes it cannot be determined either.
        let Ok(file) = self.directory.open_file(name, OFlag::O_RDONLY) else { return Ok(None) };
        if !Facts::of_file(&file).is_ok_and(regular) {
            return Ok(None);
        }
        file_lock::lock(&file).map_err(OutFileError::InUse)?;
        Ok(Some(file))
    }
}

impl OutputLocation {
    /// Appends to the existing file. The CI system has usually created it.
    ///
    /// # Errors
    /// Returns an error if the name is a link, or the file has a second name and may thus be any file, or cannot be written, or the path
    /// does not lead to it.
    pub fn append(&self, text: &[u8]) -> Result<(), OutFileError> {
        if let Some(mut file) = self.special()? {
            return Ok(file.write_all(text)?);
        }
        if !self.is_where_it_was() {
            return Err(OutFileError::Moved);
        }
        let mut file = self.to_append()?;
        file.write_all(text)?;
        match self.leads_to(Facts::of_file(&file)?.id) {
            true => Ok(()),
            false => Err(OutFileError::Moved),
        }
    }

    fn to_append(&self) -> Result<File, OutFileError> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND;
        if self.directory.look(&self.name)?.is_none() {
            let file = self.directory.create(&self.name, flags, 0o666)?;
            if let Some(owner) = self.owner {
                // A file that remains root's can be read all the same.
                let _ = owner.take(&file);
            }
            return Ok(file);
        }
        let file = self.directory.open_file(&self.name, flags)?;
        let facts = Facts::of_file(&file)?;
        match (facts.kind(), facts.has_one_name) {
            (SFlag::S_IFREG, true) => Ok(file),
            (SFlag::S_IFREG, false) => Err(OutFileError::SeveralNames),
            _ => Err(OutFileError::Changed),
        }
    }
}

/// The target of the link in procfs for an open file.
fn shown(open: impl AsFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", open.as_fd().as_raw_fd())).ok()
}

/// Whether `output` is the same regular file as one of `inputs`, through whatever names and links; `-` is standard output or input.
///
/// # Errors
/// Returns [`OutFileError::IsInput`] with the input.
pub fn refuse_inputs(output: &Path, inputs: &[&Path]) -> Result<(), OutFileError> {
    let facts = |path: &Path, stdio: fn() -> std::io::Result<Facts>| {
        let facts = match path == Path::new("-") {
            true => stdio(),
            false => facts_of(path),
        };
        facts.ok().filter(|facts| facts.kind() == SFlag::S_IFREG)
    };
    let Some(output) = facts(output, || Facts::of_file(std::io::stdout())) else { return Ok(()) };
    for input in inputs {
        let input_facts = facts(input, || Facts::of_file(std::io::stdin()));
        if input_facts.is_some_and(|input| input.id == output.id) {
            return Err(OutFileError::IsInput);
        }
    }
    Ok(())
}

/// Checks `others` in the same way: outputs in addition to the main one, which need not exist yet.
///
/// # Errors
/// Returns [`OutFileError::IsInput`] for an existing file, [`OutFileError::Twice`] for one that will be created.
pub fn refuse_same(output: &Path, others: &[&Path]) -> Result<(), OutFileError> {
    refuse_inputs(output, others)?;
    let place = |path: &Path| {
        let place = OutputLocation::find(path, None).ok()?;
        Some((Facts::of_file(&place.directory).ok()?.id, place.name))
    };
    let of_output = place(output);
    match of_output.is_some() && others.iter().any(|other| place(other) == of_output) {
        true => Err(OutFileError::Twice),
        false => Ok(()),
    }
}

/// The target of a path.
fn facts_of(path: &Path) -> std::io::Result<Facts> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let held = nix::fcntl::open(path, flags, nix::sys::stat::Mode::empty())?;
    Facts::of_file(held.as_fd())
}

#[cfg(test)]
mod tests;
