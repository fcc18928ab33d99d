//! The file of a recording: it has its name from the start, so that it can be followed and survives SIGKILL, and is
//! locked while it is written.
//!
//! Two recorders with one name, and an earlier file:
//!
//! ```text
//!  A  new file, locked | locks the earlier one | swaps the names | earlier one is NAME.old | records ...
//!  B  new file, locked |        learns that A has the earlier one, or else the new one: nothing has changed
//! ```
//!
//! The new file is locked before it has a name, so it never appears unused.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use nix::unistd::geteuid;

use super::{OutFileError, OutputLocation, shown};
use crate::OsError;
use fxtrec_kernel::directory::{Facts, FileId, Fresh};
use fxtrec_kernel::file_lock;
use fxtrec_kernel::user::Owner;

/// Only the user who records may read the activity of the machine.
const MODE: u32 = 0o600;

/// The most retries after races with another process.
const MOST_TRIES: u32 = 100;

/// A file that was created for a recording.
#[derive(Debug)]
pub struct Recording {
    /// The file, locked until the last copy of its descriptor is closed.
    pub file: File,
    /// The new path of the earlier file, if there was one.
    pub kept_old: Option<PathBuf>,
    /// The reason why the file could not be given to its owner, if so; it can be written nevertheless.
    pub owner_error: Option<io::Error>,
    place: OutputLocation,
    id: FileId,
    heir: Option<Owner>,
}

/// A recording's file beyond the end of its sink: locked, and known by its descriptor, whatever happens to its name.
///
/// COMMAND may rename, replace or remove the file when the directory belongs to its user. So recorded data is read back through the
/// descriptor that it was written by, never by name.
#[derive(Debug)]
pub struct Hold {
    file: File,
    /// The directory and name of the file; `None` for a file that was passed to fxtrec open.
    place: Option<OutputLocation>,
    id: FileId,
    /// The final owner of the file, set when nothing more is read from it.
    heir: Option<Owner>,
}

/// The state of the name of a recording's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameState {
    /// The path still refers to this file.
    InPlace,
    /// It no longer has a name.
    Removed,
    /// It was moved. Its destination, if known.
    Moved(Option<PathBuf>),
}

impl Hold {
    /// For an open regular file that was passed to fxtrec, such as standard output; `None` for anything else, and for a file without a
    /// name.
    pub fn given(file: &File) -> io::Result<Option<Hold>> {
        let facts = Facts::of_file(file)?;
        if facts.kind() != SFlag::S_IFREG || facts.has_no_name {
            return Ok(None);
        }
        Ok(Some(Hold { file: file.try_clone()?, place: None, id: facts.id, heir: None }))
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Whether fxtrec created it. An existing file may also have earlier content, from other programs.
    pub fn is_ours(&self) -> bool {
        self.place.is_some()
    }

    /// The file itself, to be read with [`FromStart`].
    ///
    /// # Errors
    /// Returns an error when there are too many open files.
    pub fn content(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Where its name leads at present.
    pub fn whereabouts(&self) -> NameState {
        let has_no_name = Facts::of_file(&self.file).is_ok_and(|facts| facts.has_no_name);
        if has_no_name {
            return NameState::Removed;
        }
        let Some(place) = &self.place else { return NameState::InPlace };
        if place.leads_to(self.id) {
            return NameState::InPlace;
        }
        let shown = shown(&self.file);
        // The path is not looked up: it may lead over other users' file systems.
        let deleted = |path: &PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
        NameState::Moved(shown.filter(|path| !deleted(path)))
    }

    /// Gives the file to its final owner.
    ///
    /// # Errors
    /// Errors of fchown(2); the file then still belongs to root.
    pub fn hand_over(&self) -> io::Result<()> {
        self.heir.map_or(Ok(()), |heir| heir.take(&self.file))
    }
}

/// The files of a series that earlier runs have left.
#[derive(Debug)]
pub struct Series {
    /// The number of the next file: one more than the highest existing one.
    pub next: u32,
    /// Path, file and bytes of each, by number.
    pub files: Vec<(PathBuf, FileId, u64)>,
}

/// Reads a file from its beginning, with a separate position: duplicated descriptors share theirs.
#[derive(Debug)]
pub struct FromStart {
    file: File,
    at: u64,
}

impl FromStart {
    /// At the beginning of `file`.
    pub fn of(file: File) -> FromStart {
        FromStart { file, at: 0 }
    }
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// When a recording's file is given to its owner. A recording may consist of several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    AtOnce,
    /// At the end of the recording, when it has been read back: until then only root can write to it.
    AtLast,
}

impl OutputLocation {
    /// Creates a file here for a recording. An existing file is renamed to end in `.old`, replacing an earlier `.old`. A
    /// link is moved like a file; nothing is ever written through it. A file of 0 bytes is replaced.
    ///
    /// # Errors
    /// Returns [`OutFileError`]: when another process records to it, or it cannot be created.
    pub fn record(self, given: Given) -> Result<Recording, OutFileError> {
        let mut fresh = Fresh::named(&self.directory, MODE)?;
        // No other process knows it yet.
        file_lock::lock(&fresh.file).map_err(OutFileError::InUse)?;
        let heir = self.owner.filter(|_| given == Given::AtLast);
        let owner = self.owner.filter(|_| given == Given::AtOnce);
        let owner_error = owner.and_then(|owner| owner.take(&fresh.file).err());
        for _ in 0..MOST_TRIES {
            let kept_old = match self.put(&mut fresh) {
                Ok(Some(kept)) => kept,
                Ok(None) => continue,
                Err(error) => return Err(error),
            };
            let file = fresh.file.try_clone()?;
            let id = Facts::of_file(&file)?.id;
            let kept_old = kept_old.map(|old| self.path.with_file_name(old));
            return Ok(Recording { file, kept_old, owner_error, place: self, id, heir });
        }
        Err(OutFileError::Changed)
    }

    /// Gives a new file this name, and returns the new name of the earlier one; `None` after a race with another
    /// process.
    fn put(&self, fresh: &mut Fresh) -> Result<Option<Option<OsString>>, OutFileError> {
        let taken = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
        let Some(there) = self.directory.look(&self.name)? else {
            return match fresh.put_new(&self.name) {
                Ok(()) => Ok(Some(None)),
                Err(error) if taken(&error) => Ok(None),
                Err(error) => Err(error.into()),
            };
        };
        if there.kind() == SFlag::S_IFDIR {
            return Err(OutFileError::of_errno(libc::EISDIR));
        }
        // Held until the file has another name.
        let earlier = self.lock_earlier(&self.name)?;
        let still = self.directory.look(&self.name)?;
        if still.is_none_or(|still| still.id != there.id) {
            return Ok(None);
        }
        // A file that was left by a full disk or a kill is worthless, and must not replace an earlier `.old` file.
        if there.kind() == SFlag::S_IFREG && there.bytes == 0 && earlier.is_some() {
            fresh.put_over(&self.name)?;
            return Ok(Some(None));
        }
        let mut old = self.name.clone();
        old.push(".old");
        self.must_be_free(&old)?;
        let moved = fresh.put_and_move_aside(&self.name, &old);
        drop(earlier);
        match moved {
            Ok(()) => Ok(Some(Some(old))),
            Err(error)
                if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) =>
            {
                Ok(None)
            }
            Err(error) => Err(OutFileError::KeepOld { old, source: OsError::of(&error) }),
        }
    }

    /// The files of a series that earlier runs have left here, found by `number_of` their names, and the next free number. Files of 0
    /// bytes, which a full disk or a kill has left, are removed.
    ///
    /// Only files of trusted owners count: files of other users with such a name are never removed.
    ///
    /// # Errors
    /// Returns an error when the directory cannot be read.
    pub fn series(
        &self,
        number_of: impl Fn(&OsStr) -> Option<u32>,
    ) -> Result<Series, OutFileError> {
        let numbered = |name: OsString| number_of(&name).map(|number| (number, name));
        let mut names: Vec<(u32, OsString)> =
            self.directory.names()?.into_iter().filter_map(numbered).collect();
        names.sort();
        let mut series = Series { next: 1, files: Vec::new() };
        for (number, name) in names {
            let Some(facts) = self.directory.look(&name)? else { continue };
            let is_ours = facts.kind() == SFlag::S_IFREG
                && facts.has_one_name
                && self.trusted().has(facts.uid);
            if is_ours && facts.bytes == 0 && self.remove_if_unused(&name, facts.id) {
                continue;
            }
            series.next = number.saturating_add(1);
            if is_ours {
                series.files.push((self.path.with_file_name(&name), facts.id, facts.bytes));
            }
        }
        Ok(series)
    }

    /// Removes a file that no process writes. False if it stays.
    fn remove_if_unused(&self, name: &OsString, id: FileId) -> bool {
        // Locked until it is removed: a writer holds the lock from the first byte on.
        let Ok(Some(unused)) = self.lock_earlier(name) else { return false };
        let is_empty = Facts::of_file(&unused).is_ok_and(|now| now.id == id && now.bytes == 0);
        is_empty && self.directory.remove_file(name, id).is_ok()
    }

    /// Gives a complete file, which belonged to root until now, to its final owner. False if the name leads to another file, or to one of
    /// another size: COMMAND's user, who may own the directory, has put it there. A file that is gone is no error.
    ///
    /// # Errors
    /// When the file cannot be opened, or its owner cannot be changed; it keeps its owner.
    pub fn hand_over(&self, id: FileId, bytes: u64) -> io::Result<bool> {
        let (Some(owner), Some(there)) = (self.owner, self.directory.look(&self.name)?) else {
            return Ok(true);
        };
        let is_it = |facts: Facts| {
            // The inode of a removed file is used again, but only for a file of the process that created it.
            facts.kind() == SFlag::S_IFREG
                && (facts.id, facts.bytes) == (id, bytes)
                && facts.has_one_name
                && facts.uid != owner.uid
        };
        if !is_it(there) {
            return Ok(false);
        }
        let file = self.directory.open_file(&self.name, OFlag::O_RDONLY)?;
        let facts = Facts::of_file(&file)?;
        match is_it(facts) {
            true if facts.uid == geteuid().as_raw() => owner.take(&file).map(|()| true),
            // The file system maps root to another user.
            true => Err(ErrorKind::PermissionDenied.into()),
            false => Ok(false),
        }
    }

    /// Fails if another process writes a file in this directory whose name `is_sibling` accepts. Such files may appear and disappear in
    /// the meantime, as long as one of them is always locked.
    ///
    /// # Errors
    /// Returns [`OutFileError::InUse`].
    pub fn siblings_must_be_free(
        &self,
        is_sibling: impl Fn(&OsStr) -> bool,
    ) -> Result<(), OutFileError> {
        let siblings = || -> Result<Vec<OsString>, OutFileError> {
            let mut names = self.directory.names()?;
            names.retain(|name| *name != self.name && is_sibling(name));
            names.sort();
            Ok(names)
        };
        let mut before = siblings()?;
        for _ in 0..MOST_TRIES {
            for name in &before {
                self.must_be_free(name)?;
            }
            // A process that released one of them had locked the next one before.
            let now = siblings()?;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }
}

impl Recording {
    /// Keeps the lock, and the file for reading back, after the file's own descriptor is closed.
    ///
    /// # Errors
    /// Returns an error when there are too many open files.
    pub fn hold(&self) -> io::Result<Hold> {
        let file = self.file.try_clone()?;
        Ok(Hold { file, place: Some(self.place.clone()), id: self.id, heir: self.heir })
    }

    /// The means to remove the file again.
    pub fn undo(&self) -> Undo {
        let old = self.kept_old.as_deref().and_then(Path::file_name).map(OsStr::to_owned);
        Undo { place: self.place.clone(), id: self.id, old }
    }
}

/// Removes a file again if nothing was recorded into it.
#[derive(Debug)]
pub struct Undo {
    place: OutputLocation,
    id: FileId,
    old: Option<OsString>,
}

impl Undo {
    /// Removes the file and restores the earlier one. Failures are ignored: the reason why nothing was recorded has been
    /// reported already.
    pub fn take_back(self) {
        let OutputLocation { directory, name, .. } = &self.place;
        let ours = directory.look(name).ok().flatten().is_some_and(|facts| facts.id == self.id);
        if !ours {
            return;
        }
        let result = match &self.old {
            Some(old) => directory.rename(old, name),
            None => directory.remove(name),
        };
        drop::<io::Result<()>>(result);
    }
}
