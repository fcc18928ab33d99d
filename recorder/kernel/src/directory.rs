//! Open directories, and operations on the names in them.
//!
//! Root writes into directories that belong to other users, who can rename entries and place links there at any time. A path that is looked
//! up twice may lead to two different places. So a path is walked once; from then on, every call uses an open directory and one name in it,
//! never a path, and never follows a link at that name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Component, Path};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, AtFlags, OFlag, RenameFlags, open, openat, readlinkat, renameat, renameat2,
};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

use super::user::Owner;

/// The maximum number of links that the kernel follows in one path.
const MOST_LINKS: u32 = 40;

/// How many names are tried for a temporary file.
const MOST_NAMES: u32 = 100;

/// The users whose links and special files are trusted: root, this process's user, and the user who called sudo.
#[derive(Clone, Copy, Debug)]
pub struct Trusted {
    user: u32,
    caller: Option<u32>,
}

impl Trusted {
    /// For this process, whose output will belong to `owner`.
    pub fn with(owner: Option<Owner>) -> Trusted {
        Trusted { user: geteuid().as_raw(), caller: owner.map(|owner| owner.uid) }
    }

    /// Whether `uid` is trusted.
    pub fn has(self, uid: u32) -> bool {
        uid == 0 || uid == self.user || Some(uid) == self.caller
    }
}

/// The reason why a path could not be walked.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    #[error(transparent)]
    System(#[from] io::Error),
    /// A link that an untrusted user may have placed there.
    #[error("{} is a symbolic link in a directory that others can write to", .0.display())]
    UnsafeLink(OsString),
}

impl From<Errno> for WalkError {
    fn from(errno: Errno) -> WalkError {
        WalkError::System(errno.into())
    }
}

/// The identity of a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// Facts about the file at a name, or of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub id: FileId,
    pub uid: u32,
    /// Whether it has a single name, with no other hard link.
    pub has_one_name: bool,
    /// Whether it was removed, or never had a name.
    pub has_no_name: bool,
    /// The device that it represents, if it is one.
    pub device: u64,
    /// Its length in bytes.
    pub bytes: u64,
    mode: u32,
}

impl Facts {
    fn of(stat: &FileStat) -> Facts {
        Facts {
            id: FileId { device: stat.st_dev, inode: stat.st_ino },
            uid: stat.st_uid,
            has_one_name: stat.st_nlink == 1,
            has_no_name: stat.st_nlink == 0,
            device: stat.st_rdev,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode,
        }
    }

    /// Facts about an open file.
    ///
    /// # Errors
    /// Errors of fstat(2).
    pub fn of_file(file: impl AsFd) -> io::Result<Facts> {
        Ok(Facts::of(&fstat(file)?))
    }

    pub fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.mode & SFlag::S_IFMT.bits())
    }

    /// Its permissions.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o777
    }
}

/// An open directory.
#[derive(Clone, Debug)]
pub struct Directory(Arc<OwnedFd>);

const LOOK: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

impl Directory {
    /// Walks to the directory `path`. Follows links on the way only if no untrusted user can have created them.
    ///
    /// # Errors
    /// Returns [`WalkError`].
    pub fn open(path: &Path, trusted: Trusted) -> Result<Directory, WalkError> {
        let here = openat(AT_FDCWD, ".", LOOK | OFlag::O_DIRECTORY, Mode::empty())?;
        let mut links = 0;
        Directory(Arc::new(here)).walk(path, trusted, &mut links)
    }

    /// Continues the walk from here, after `links` links were followed.
    ///
    /// # Errors
    /// The same as for [`Directory::open`].
    pub fn walk(
        &self,
        path: &Path,
        trusted: Trusted,
        links: &mut u32,
    ) -> Result<Directory, WalkError> {
        let mut at = self.clone();
        for component in path.components() {
            let name = match component {
                Component::RootDir => {
                    let root = open("/", LOOK | OFlag::O_DIRECTORY, Mode::empty())?;
                    at = Directory(Arc::new(root));
                    continue;
                }
                Component::CurDir | Component::Prefix(_) => continue,
                Component::ParentDir => OsStr::new(".."),
                Component::Normal(name) => name,
            };
            let flags = LOOK | OFlag::O_DIRECTORY;
            at = match openat(&at, name, flags | OFlag::O_NOFOLLOW, Mode::empty()) {
                Ok(next) => Directory(Arc::new(next)),
                // Links of procfs lead to files, not to names.
                Err(_) if at.is_proc() => {
                    Directory(Arc::new(openat(&at, name, flags, Mode::empty())?))
                }
                Err(errno) => match at.link(name)? {
                    None => return Err(errno.into()),
                    Some(link) => {
                        if !trusted.has(link.uid) && !at.is_private(trusted)? {
                            return Err(WalkError::UnsafeLink(name.to_owned()));
                        }
                        count(links)?;
                        at.walk(Path::new(&link.target), trusted, links)?
                    }
                },
            };
        }
        Ok(at)
    }

    /// The link at `name`, if there is one.
    ///
    /// # Errors
    /// Errors of the system calls; `None` if the name does not exist.
    pub fn link(&self, name: &OsStr) -> io::Result<Option<Link>> {
        // The link is held open, so that the link that is read is the one that was checked.
        let held = match openat(self, name, LOOK | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(held) => held,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let facts = Facts::of_file(&held)?;
        if facts.kind() != SFlag::S_IFLNK {
            return Ok(None);
        }
        Ok(Some(Link { target: readlinkat(&held, "")?, uid: facts.uid }))
    }

    /// Whether only `trusted` users can create names in it.
    ///
    /// # Errors
    /// Errors of fstat(2).
    pub fn is_private(&self, trusted: Trusted) -> io::Result<bool> {
        let facts = Facts::of_file(self)?;
        Ok(trusted.has(facts.uid) && facts.permissions() & 0o022 == 0)
    }

    /// Whether it is in procfs.
    pub fn is_proc(&self) -> bool {
        fstatfs(self).is_ok_and(|system| system.filesystem_type() == PROC_SUPER_MAGIC)
    }

    /// Facts about the file at `name`; for a link, about the link itself.
    ///
    /// # Errors
    /// Errors of fstatat(2); `None` if the name does not exist.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<Facts>> {
        match fstatat(self, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Facts::of(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Holds the file at `name` without opening it, which has no effect on devices and FIFOs. A link is followed in procfs only.
    ///
    /// # Errors
    /// Errors of openat(2).
    pub fn hold(&self, name: &OsStr) -> io::Result<Held> {
        let follow = if self.is_proc() { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        Ok(Held(openat(self, name, LOOK | follow, Mode::empty())?))
    }

    /// Opens the file at `name`, which is never a link.
    ///
    /// # Errors
    /// Errors of openat(2).
    pub fn open_file(&self, name: &OsStr, flags: OFlag) -> io::Result<File> {
        let always = OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
        Ok(openat(self, name, flags | always, Mode::empty())?.into())
    }

    /// Creates a file at `name`; fails if the name exists.
    ///
    /// # Errors
    /// Errors of openat(2).
    pub fn create(&self, name: &OsStr, flags: OFlag, mode: u32) -> io::Result<File> {
        let always = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(self, name, flags | always, Mode::from_bits_truncate(mode))?.into())
    }

    /// Creates a directory at `name`; fails if the name exists.
    ///
    /// # Errors
    /// Errors of mkdirat(2).
    pub fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(self, name, Mode::from_bits_truncate(0o777))?)
    }

    /// Renames an entry, and replaces an existing entry with the new name.
    ///
    /// # Errors
    /// Errors of renameat(2).
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(self, from, self, to)?)
    }

    /// Swaps two names atomically. `false` if the file system cannot do that.
    ///
    /// # Errors
    /// Errors of renameat2(2).
    pub fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<bool> {
        match renameat2(self, one, self, other, RenameFlags::RENAME_EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::EINVAL | Errno::ENOSYS) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a name.
    ///
    /// # Errors
    /// Errors of unlinkat(2).
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(self, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes a name if it belongs to this very file.
    ///
    /// # Errors
    /// Errors of the system calls; ESTALE if the name belongs to another file.
    pub fn remove_file(&self, name: &OsStr, id: FileId) -> io::Result<()> {
        match self.look(name)? {
            None => Err(Errno::ENOENT.into()),
            Some(there) if there.id == id => self.remove(name),
            Some(_) => Err(Errno::ESTALE.into()),
        }
    }

    /// The names in it.
    ///
    /// # Errors
    /// Errors of opening and reading it; it is read through `/proc`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(by_number(self.as_fd().as_raw_fd()))?;
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// Makes its entries survive a power failure, if the file system guarantees that.
    pub fn sync(&self) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        if let Ok(readable) = openat(self, ".", flags, Mode::empty()) {
            // Not every file system supports this call for directories.
            let _ = nix::unistd::fsync(readable);
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Counts one more followed link.
///
/// # Errors
/// ELOOP if there were too many.
pub fn count(links: &mut u32) -> io::Result<()> {
    *links += 1;
    if *links > MOST_LINKS { Err(Errno::ELOOP.into()) } else { Ok(()) }
}

#[derive(Debug)]
pub struct Link {
    pub target: OsString,
    pub uid: u32,
}

/// A file that is referred to without being opened for reading or writing.
#[derive(Debug)]
pub struct Held(OwnedFd);

impl Held {
    /// Facts about the file.
    ///
    /// # Errors
    /// Errors of fstat(2).
    pub fn facts(&self) -> io::Result<Facts> {
        Facts::of_file(&self.0)
    }

    /// Opens this very file for writing.
    ///
    /// # Errors
    /// Errors of open(2).
    pub fn open_to_write(&self, flags: OFlag) -> io::Result<File> {
        let path = by_number(self.0.as_raw_fd());
        let always = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        Ok(open(path.as_str(), flags | always, Mode::empty())?.into())
    }
}

/// A descriptor that this process inherited, by its number: a duplicate for the same open file.
///
/// # Errors
/// EBADF if there is no such descriptor, or if fxtrec opened it for itself.
pub fn inherited(number: RawFd) -> io::Result<File> {
    // SAFETY: fcntl takes any number and only looks at the table of descriptors.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // All descriptors that fxtrec opens are close-on-exec.
    if number > 2 && (flags < 0 || flags & libc::FD_CLOEXEC != 0) {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: it is open, and no code of this process owns or closes inherited descriptors; if it were closed nevertheless, the call would
    // fail.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(inherited.try_clone_to_owned()?.into())
}

/// A new file that has no final name until it is moved into place. If it is dropped before that, no file remains; on file systems that
/// support unnamed files, not even after SIGKILL.
#[derive(Debug)]
pub struct Fresh {
    directory: Directory,
    pub file: File,
    /// Its temporary name, if it has one.
    temporary: Option<OsString>,
}

impl Fresh {
    /// Creates a file in `directory`.
    ///
    /// # Errors
    /// Errors of openat(2).
    pub fn new(directory: &Directory, mode: u32) -> io::Result<Fresh> {
        let unnamed = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let directory = directory.clone();
        match openat(&directory, ".", unnamed, Mode::from_bits_truncate(mode)) {
            Ok(file) => Ok(Fresh { directory, file: file.into(), temporary: None }),
            // Some file systems do not support this, and some kernels interpret the flag differently.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {
                Fresh::named(&directory, mode)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Creates a file that has a temporary name at once. procfs shows a file that never had a name as deleted while it is open, and other
    /// programs look up its name there.
    ///
    /// # Errors
    /// Errors of openat(2).
    pub fn named(directory: &Directory, mode: u32) -> io::Result<Fresh> {
        let directory = directory.clone();
        let mut file = None;
        let name = try_names(|name| {
            file = Some(directory.create(name, OFlag::O_RDWR, mode)?);
            Ok(())
        })?;
        let file = file.ok_or(Errno::EEXIST)?;
        Ok(Fresh { directory, file, temporary: Some(name) })
    }

    /// Names it `name`; fails if the name exists.
    ///
    /// # Errors
    /// Errors of the system calls; EEXIST if the name exists.
    pub fn put_new(&mut self, name: &OsStr) -> io::Result<()> {
        let Some(temporary) = &self.temporary else {
            return link_unnamed(&self.file, &self.directory, name);
        };
        let at = &self.directory;
        match renameat2(at, temporary.as_os_str(), at, name, RenameFlags::RENAME_NOREPLACE) {
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                linkat(at, temporary.as_os_str(), at, name, AtFlags::empty())?;
                // The file now has its final name; a leftover temporary name does no harm.
                let _ = at.remove(temporary);
            }
            result => result?,
        }
        self.temporary = None;
        Ok(())
    }

    /// Moves it to `name`, and replaces any existing file. At any time, the name refers to either the old or the new file.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub fn put_over(&mut self, name: &OsStr) -> io::Result<()> {
        let temporary = self.give_temporary_name()?;
        self.directory.rename(&temporary, name)?;
        self.temporary = None;
        Ok(())
    }

    /// Moves it to `name`, and the earlier file to `aside`, where it replaces any existing file.
    ///
    /// # Errors
    /// Errors of the system calls. In that case nothing has changed, unless another file has appeared at `name`: EEXIST.
    pub fn put_and_move_aside(&mut self, name: &OsStr, aside: &OsStr) -> io::Result<()> {
        let temporary = self.give_temporary_name()?;
        let at = self.directory.clone();
        if at.exchange(&temporary, name)? {
            // The temporary name now belongs to the earlier file, which must not be removed with this value.
            self.temporary = None;
            let moved = at.rename(&temporary, aside);
            if moved.is_err() && matches!(at.exchange(&temporary, name), Ok(true)) {
                self.temporary = Some(temporary);
            }
            return moved;
        }
        at.rename(name, aside)?;
        self.put_new(name).inspect_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                // The earlier file still exists under its other name, so a failure here must not hide the error.
                let _ = at.rename(aside, name);
            }
        })
    }

    fn give_temporary_name(&mut self) -> io::Result<OsString> {
        if let Some(name) = &self.temporary {
            return Ok(name.clone());
        }
        let name = try_names(|name| link_unnamed(&self.file, &self.directory, name))?;
        Ok(self.temporary.insert(name).clone())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Its contents are not needed.
            let _ = self.directory.remove(temporary);
        }
    }
}

fn by_number(descriptor: RawFd) -> String {
    format!("/proc/self/fd/{descriptor}")
}

fn link_unnamed(file: &File, directory: &Directory, name: &OsStr) -> io::Result<()> {
    let path = by_number(file.as_raw_fd());
    linkat(AT_FDCWD, path.as_str(), directory, name, AtFlags::AT_SYMLINK_FOLLOW)?;
    Ok(())
}

/// Tries names until `make` finds one that is unused.
fn try_names(mut make: impl FnMut(&OsStr) -> io::Result<()>) -> io::Result<OsString> {
    for _ in 0..MOST_NAMES {
        // Each hasher has its own keys.
        let name = format!(".fxtrec-{:016x}", RandomState::new().hash_one(0_u8));
        let name = OsString::from(name);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|()| name),
        }
    }
    Err(Errno::EEXIST.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn trusted() -> Trusted {
        Trusted::with(None)
    }

    fn folder() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path(), trusted()).expect("it is there");
        (folder, directory)
    }

    fn names(directory: &Directory) -> Vec<String> {
        let mut names = directory.names().expect("it can be read");
        names.sort();
        names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    fn content(folder: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(folder.path().join(name)).expect("it is there")
    }

    /// With and without a temporary name: file systems differ.
    fn both_ways(directory: &Directory) -> [Fresh; 2] {
        let unnamed = Fresh::new(directory, 0o600).expect("created");
        let named = Fresh::named(directory, 0o600).expect("created");
        assert!(named.temporary.is_some());
        [unnamed, named]
    }

    #[test]
    fn a_fresh_file_that_gets_no_name_leaves_nothing() {
        let (_folder, directory) = folder();
        let fresh = both_ways(&directory);
        drop(fresh);
        assert_eq!(names(&directory), [""; 0]);
    }

    #[test]
    fn a_fresh_file_takes_no_name_that_is_taken() {
        let (folder, directory) = folder();
        std::fs::write(folder.path().join("taken"), "earlier").expect("room");
        for mut fresh in both_ways(&directory) {
            let error = fresh.put_new("taken".as_ref()).expect_err("taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            fresh.put_new("free".as_ref()).expect("free");
            drop(fresh);
            directory.remove("free".as_ref()).expect("it has its name");
        }
        assert_eq!(names(&directory), ["taken"]);
        assert_eq!(content(&folder, "taken"), "earlier");
    }

    #[test]
    fn what_a_fresh_file_replaces_is_moved_aside_or_gone() {
        let (folder, directory) = folder();
        for mut fresh in both_ways(&directory) {
            std::fs::write(folder.path().join("t"), "earlier").expect("room");
            fresh.file.write_all(b"new").expect("room");
            fresh.put_and_move_aside("t".as_ref(), "t.old".as_ref()).expect("moved");
            assert_eq!(
                (content(&folder, "t"), content(&folder, "t.old")),
                ("new".into(), "earlier".into())
            );
        }
        for mut fresh in both_ways(&directory) {
            fresh.file.write_all(b"newer").expect("room");
            fresh.put_over("t".as_ref()).expect("replaced");
            assert_eq!(content(&folder, "t"), "newer");
        }
        assert_eq!(names(&directory), ["t", "t.old"]);
    }

    #[test]
    fn nothing_changes_when_what_is_there_cannot_be_moved_aside() {
        let (folder, directory) = folder();
        std::fs::write(folder.path().join("t"), "earlier").expect("room");
        std::fs::create_dir(folder.path().join("t.old")).expect("room");
        for mut fresh in both_ways(&directory) {
            fresh.put_and_move_aside("t".as_ref(), "t.old".as_ref()).expect_err("a directory");
        }
        assert_eq!(names(&directory), ["t", "t.old"]);
        assert_eq!(content(&folder, "t"), "earlier");
    }

    #[test]
    fn links_on_the_way_are_followed_unless_another_user_may_have_made_them() {
        let (folder, _) = folder();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("real/deep")).expect("room");
        std::fs::create_dir(at("open")).expect("room");
        std::fs::set_permissions(at("open"), PermissionsExt::from_mode(0o1777)).expect("ours");
        symlink("real", at("mine")).expect("room");
        symlink("../real", at("open/link")).expect("room");
        let open = |name: &str| Directory::open(&at(name), trusted());
        let id = |directory: &Directory| Facts::of_file(directory).expect("open").id;
        let real = id(&open("real/deep").expect("there"));
        assert_eq!(id(&open("mine/../mine/deep").expect("ours")), real);
        assert_eq!(id(&open("open/link/deep").expect("our own link")), real);
        if geteuid().is_root() {
            std::os::unix::fs::lchown(at("open/link"), Some(65_533), None).expect("root may");
            let error = open("open/link/deep").expect_err("another's link");
            assert!(matches!(error, WalkError::UnsafeLink(name) if name == "link"));
            let theirs = Trusted::with(Some(Owner { uid: 65_533, gid: 65_533 }));
            Directory::open(&at("open/link/deep"), theirs).expect("the caller's own link");
        }
        symlink("round", at("round")).expect("room");
        let WalkError::System(error) = open("round").expect_err("a loop") else { panic!() };
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn descriptors_of_our_own_are_not_taken_for_inherited_ones() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let error = inherited(writer.as_raw_fd()).expect_err("it is closed on exec");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
            .expect("it is open");
        inherited(writer.as_raw_fd()).expect("inherited").write_all(b"x").expect("room");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert_eq!(text, "x");
    }
}
