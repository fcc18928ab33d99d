//! The files of a running process: its executable, its mapped files, its root directory.
//!
//! A process in another mount namespace (a container) sees other files under the same names. They can be reached through `/proc/PID/root`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::stat::{major, minor};

use crate::code::{self, ExecutableMapping};
use crate::procfs::living;
use crate::regular::{Links, Regular};
use crate::rights::Rights;

/// A file whose code a process can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedCode {
    /// Its path as the process sees it.
    pub path: PathBuf,
    /// Whether the path no longer leads to the file, because it was deleted or replaced.
    pub deleted: bool,
}

/// The directory of a process in `/proc`. It never becomes the directory of a later process with the same number.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens it by `O_PATH`.
    ///
    /// # Errors
    /// Returns an error if there is no such process.
    pub fn of(pid: u32) -> io::Result<Folder> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let path = format!("/proc/{}", living(pid));
        Ok(Folder(openat(AT_FDCWD, path.as_str(), flags, Mode::empty())?))
    }

    /// Reads one of its files.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or cannot be inspected.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.open(name)?.read_to_end(&mut content)?;
        Ok(content)
    }

    /// Opens one of its files for reading.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or cannot be inspected.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Holds the target of one of its links. These links are the kernel's: they lead to a file, not to a path.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or cannot be inspected.
    pub fn hold(&self, link: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.0, link, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
    }

    /// The rights with which it opens files.
    pub fn rights(&self) -> Rights {
        self.read("status").map_or_else(|_| Rights::none(), |status| Rights::of_status(&status))
    }

    /// Calls a function that examines the process, and returns the rights that it had during this: no rights if they have changed, for
    /// example because it executed a program as root.
    fn look<T>(&self, look: impl FnOnce(&Folder) -> T) -> (T, Rights) {
        let before = self.rights();
        let seen = look(self);
        let is_same = self.rights() == before;
        (seen, if is_same { before } else { Rights::none() })
    }
}

/// The file of a mapping.
#[derive(Debug)]
pub struct Mapped {
    pub file: Regular,
    /// The rights of the process that has mapped it; no rights if that has ended.
    pub rights: Rights,
    /// Whether the process may read it: a file can be executable but not readable.
    pub is_readable: bool,
}

impl Mapped {
    /// A file that a process with these rights has mapped.
    fn by(rights: Rights, file: Regular) -> Mapped {
        // Root may read the programs that it runs, even if that needs a capability.
        let is_readable = rights.uid == 0 || rights.may_read(&file);
        Mapped { file, rights, is_readable }
    }
}

/// Holds the file that a process has mapped: through the mapping itself, which may be of a deleted file, or by its path in the root of the
/// process or, because the process may have ended, in ours. The mapping may no longer exist, and another file may have replaced the mapped
/// one. So the file is used only if its device and inode are those of the mapping.
///
/// # Errors
/// Returns an error if the file no longer exists, or cannot be inspected.
pub fn mapped(pid: u32, mapping: &ExecutableMapping) -> io::Result<Mapped> {
    let process = Folder::of(pid);
    if let Ok(process) = &process {
        let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        let (by_mapping, rights) = process.look(|it| it.hold(&link).and_then(Regular::of));
        if let Some(file) = by_mapping.ok().filter(|file| is_of(file, mapping)) {
            return Ok(Mapped::by(rights, file));
        }
    }
    let below = |root: OwnedFd| Regular::hold_in(root.as_fd(), &mapping.path, Links::NotLast);
    let right = |file: io::Result<Regular>| file.ok().filter(|file| is_of(file, mapping));
    let in_its_root =
        process.as_ref().ok().and_then(|process| right(process.hold("root").and_then(below)));
    let in_ours = || {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        right(openat(AT_FDCWD, "/", flags, Mode::empty()).map_err(io::Error::from).and_then(below))
    };
    let file = in_its_root.or_else(in_ours).ok_or(io::ErrorKind::NotFound)?;
    // The number may belong to another process by now, or the process may run another program for another user.
    let has_it = |process: &Folder| {
        let maps = process.read("maps").unwrap_or_default();
        code::mappings_in(&maps).any(|other| other.file == mapping.file)
    };
    let looked = process.ok().map(|process| process.look(has_it));
    let rights = looked.and_then(|(has_it, rights)| has_it.then_some(rights));
    Ok(Mapped::by(rights.unwrap_or_else(Rights::none), file))
}

/// Whether this is the file that was mapped.
fn is_of(file: &Regular, mapping: &ExecutableMapping) -> bool {
    let Some(wanted) = &mapping.file else { return false };
    let named = |device, inode| (format!("{:02x}:{:02x}", major(device), minor(device)), inode);
    let is_it = file.facts().is_ok_and(|facts| named(facts.st_dev, facts.st_ino) == *wanted);
    // Some file systems (btrfs, overlayfs) report a device that differs from the one in the kernel's list of mappings. So this checks how
    // the kernel lists this file.
    is_it || file.open().and_then(|file| code::listed_as(&file)).is_ok_and(|it| it == *wanted)
}

/// The directory below which the paths of a process must be looked up: `/` unless it is in another mount namespace or has another root.
///
/// # Errors
/// Returns an error if there is no such process, or it cannot be inspected.
pub fn root_of(pid: u32) -> io::Result<PathBuf> {
    let base = PathBuf::from(format!("/proc/{}", living(pid)));
    let inode = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.ino());
    let shares_mounts = inode(&base.join("ns/mnt"))? == inode(Path::new("/proc/self/ns/mnt"))?;
    let own_root = std::fs::read_link("/proc/self/root")?;
    let shares_root = std::fs::read_link(base.join("root"))? == own_root;
    Ok(if shares_mounts && shares_root { PathBuf::from("/") } else { base.join("root") })
}

/// A path that opens the executable of a process even if it was deleted.
pub fn executable(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{}/exe", living(pid)))
}

/// The files that a process has mapped as executable, each once, in the order of their addresses.
///
/// # Errors
/// Returns an error if there is no such process, or it cannot be inspected.
pub fn mapped_code(pid: u32) -> io::Result<Vec<MappedCode>> {
    Ok(parse_maps(&std::fs::read(format!("/proc/{}/maps", living(pid)))?))
}

fn parse_maps(maps: &[u8]) -> Vec<MappedCode> {
    let mut files: Vec<MappedCode> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // address perms offset dev inode path
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let executable = fields.nth(1).is_some_and(|permissions| permissions.get(2) == Some(&b'x'));
        let Some(path) = fields.nth(3).map(<[u8]>::trim_ascii_start) else { continue };
        if !executable || !path.starts_with(b"/") {
            continue;
        }
        let stripped = path.strip_suffix(b" (deleted)");
        let path = PathBuf::from(OsStr::from_bytes(stripped.unwrap_or(path)));
        let file = MappedCode { path, deleted: stripped.is_some() };
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A mapping that is no longer in any list, as after mprotect(2) has split it.
    fn gone(path: &Path) -> ExecutableMapping {
        let facts = std::fs::metadata(path).expect("it is there");
        let device = format!("{:02x}:{:02x}", major(facts.dev()), minor(facts.dev()));
        ExecutableMapping {
            start: 0x1000,
            end: 0x2000,
            flags: 0b101,
            offset: 0,
            file: Some((device, facts.ino())),
            path: path.to_owned(),
        }
    }

    fn content(pid: u32, mapping: &ExecutableMapping) -> io::Result<String> {
        io::read_to_string(mapped(pid, mapping)?.file.open()?)
    }

    #[test]
    fn what_took_the_place_of_a_mapped_file_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let [library, secret, other] =
            ["library.so", "secret.so", "other.so"].map(|name| folder.path().join(name));
        for path in [&library, &secret, &other] {
            std::fs::write(path, path.to_str().expect("text")).expect("room");
        }
        let (own, ended) = (std::process::id(), u32::MAX >> 1);
        let mapping = gone(&library);
        for pid in [own, ended] {
            assert_eq!(
                content(pid, &mapping).expect("it is still there"),
                library.to_str().expect("text")
            );
        }
        let put = |there: &dyn Fn()| {
            std::fs::remove_file(&library).expect("it is there");
            there();
            for pid in [own, ended] {
                let found = content(pid, &mapping);
                assert_eq!(found.expect_err("another file").kind(), io::ErrorKind::NotFound);
            }
        };
        let kept = folder.path().join("kept.so");
        std::fs::hard_link(&library, &kept).expect("one file system");
        put(&|| symlink(&secret, &library).expect("room"));
        put(&|| std::fs::hard_link(&secret, &library).expect("one file system"));
        put(&|| nix::unistd::mkfifo(&library, Mode::S_IRWXU).expect("room"));
        put(&|| symlink("/dev/ptmx", &library).expect("room"));
        // A link to the file is not accepted either: the path of a mapping has no links.
        put(&|| symlink(&kept, &library).expect("room"));
        std::fs::remove_file(&library).expect("it is there");
        std::fs::rename(&kept, &library).expect("room");
        assert_eq!(content(own, &mapping).expect("it is back"), library.to_str().expect("text"));
    }

    #[test]
    fn the_rights_are_those_of_the_process_that_has_the_file() {
        let own = std::process::id();
        let all = code::executable_mappings(own).expect("its own");
        let exe = std::env::current_exe().expect("it has one");
        let mapping = all.iter().find(|it| it.path == exe).expect("this test is in one");
        let uid = nix::unistd::geteuid().as_raw();
        assert_eq!(mapped(own, mapping).expect("its own").rights.uid, uid);
        let divided = ExecutableMapping { end: mapping.end - 1, ..mapping.clone() };
        assert_eq!(mapped(own, &divided).expect("its own").rights.uid, uid);
        // If this process has not mapped the file, another file may be meant.
        let library = tempfile::NamedTempFile::new().expect("room");
        assert_eq!(mapped(own, &gone(library.path())).expect("there").rights, Rights::none());
    }

    #[test]
    fn a_file_that_can_be_run_is_not_always_one_that_can_be_read() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let file = tempfile::NamedTempFile::new().expect("room");
        let is_readable = |rights: &Rights, owner, mode| {
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).expect("ours");
            chown(file.path(), Some(owner), Some(owner)).expect("root may");
            let file = Regular::hold(file.path()).expect("there");
            Mapped::by(rights.clone(), file).is_readable
        };
        let user = Rights { uid: 4710, gid: 4710, groups: Vec::new() };
        let root = Rights { uid: 0, gid: 0, groups: Vec::new() };
        let none = Rights::none();
        for (rights, owner, mode, expected) in [
            (&user, 0, 0o711, false),
            (&user, 0, 0o755, true),
            (&user, 4710, 0o700, true),
            (&user, 4711, 0o700, false),
            (&root, 4711, 0o700, true),
            // Rights of a process that has ended, or that has ids of two users.
            (&none, 0, 0o755, true),
            (&none, 0, 0o711, false),
            (&none, 4711, 0o700, false),
            (&none, 4711, 0o711, false),
            (&none, 4711, 0o750, false),
            // The process may have been in this group, or may have owned the file.
            (&none, 4711, 0o705, false),
            (&none, 4711, 0o745, true),
            (&none, 4711, 0o355, false),
        ] {
            let found = is_readable(rights, owner, mode);
            assert_eq!(found, expected, "{rights:?} {owner} {mode:o}");
        }
        // An access list that denies one user access to the file, and permits all others.
        let entry = |tag: u16, rights: u16, id: u32| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let no_id = u32::MAX;
        let entries =
            [(1, 7, no_id), (2, 1, user.uid), (4, 5, no_id), (16, 5, no_id), (32, 5, no_id)];
        let entries = entries.map(|(tag, rights, id)| entry(tag, rights, id)).concat();
        let list = [&2_u32.to_le_bytes()[..], &entries].concat();
        let path = std::ffi::CString::new(file.path().as_os_str().as_bytes()).expect("no zero");
        let (name, value) = (c"system.posix_acl_access".as_ptr(), list.as_ptr().cast());
        // SAFETY: both strings and the value, which has this size, live during the call.
        let set = unsafe { libc::setxattr(path.as_ptr(), name, value, list.len(), 0) };
        if set != 0 {
            // Not every file system supports such lists.
            return;
        }
        let other = Rights { uid: 4712, ..user.clone() };
        for (rights, expected) in [(&user, false), (&other, true), (&none, false)] {
            let file = Regular::hold(file.path()).expect("there");
            assert_eq!(Mapped::by(rights.clone(), file).is_readable, expected, "{rights:?}");
        }
    }

    #[test]
    fn only_files_whose_code_can_run_count_and_each_once() {
        let maps = b"\
55a0-55b0 r--p 00000000 fe:00 12                         /usr/bin/my app\n\
55b0-55c0 r-xp 00001000 fe:00 12                         /usr/bin/my app\n\
7f00-7f10 r-xp 00000000 fe:00 14                         /usr/lib/libx.so (deleted)\n\
7f10-7f20 r-xp 00002000 fe:00 14                         /usr/lib/libx.so (deleted)\n\
7f20-7f30 rw-p 00000000 00:00 0                          [heap]\n\
7f30-7f40 r-xp 00000000 00:00 0                          [vdso]\n\
7f40-7f50 r-xp 00000000 00:00 0 \n";
        let files: Vec<_> = parse_maps(maps)
            .into_iter()
            .map(|file| (file.path.to_str().expect("plain").to_owned(), file.deleted))
            .collect();
        assert_eq!(files, [("/usr/bin/my app".into(), false), ("/usr/lib/libx.so".into(), true)]);
        assert!(parse_maps(b"\n \n55a0-55b0 r-xp").is_empty());
    }

    #[test]
    fn this_process_has_its_own_executable_mapped_below_the_same_root() {
        let own = std::process::id();
        assert_eq!(root_of(own).expect("it runs"), Path::new("/"));
        let executable = std::env::current_exe().expect("it has one");
        let mapped = mapped_code(own).expect("it runs");
        assert!(mapped.iter().any(|file| file.path == executable && !file.deleted), "{mapped:?}");
    }
}
