//! Opens a file with the rights of the process for which it is opened.
//!
//! A program chooses the references of its files to other files (`.gnu_debuglink`) and the content of its own `/tmp`. Root's recorder may
//! read everything, so it opens such files with that program's rights: then the kernel decides, by all its rules, whether they may be read.
//!
//! On Linux, each thread has its own user for file access (fsuid), groups and capabilities. So only the calling thread changes, and only
//! temporarily.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, geteuid, getgroups, setfsgid, setfsuid};

use super::procfs::field;
use super::regular::{self, Regular};

/// A user that owns no files.
const NOBODY: u32 = 65_534;

/// Not a valid user or group: calls that try to set it change nothing, and return the current one.
const NO_CHANGE: u32 = u32::MAX;

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits, in two words.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which permit reading everything.
const READ_EVERYTHING: u32 = 1 << 1 | 1 << 2;

/// The user and the groups of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl Rights {
    /// The rights of an unknown process, which may read only files that all users may read.
    pub fn none() -> Rights {
        Rights { uid: NOBODY, gid: NOBODY, groups: Vec::new() }
    }

    /// The rights of the process with this `status` file. If it runs with the rights of two users, as a set-user-id program does, it is
    /// unknown which of the two it acts for, so it gets the rights of neither.
    pub fn of_status(status: &[u8]) -> Rights {
        let numbers = |name: &str| -> Option<Vec<u32>> {
            field(status, name)?.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let only = |name: &str| {
            let ids = numbers(name)?;
            let first = *ids.first()?;
            ids.iter().all(|id| *id == first).then_some(first)
        };
        let rights = || {
            let groups = numbers("Groups")?;
            Some(Rights { uid: only("Uid")?, gid: only("Gid")?, groups })
        };
        rights().unwrap_or_else(Rights::none)
    }

    /// Runs `what` with the calling thread's file access reduced to these rights. A recorder that may not change users runs it with its own
    /// user's rights.
    ///
    /// # Errors
    /// EPERM if this is not possible and the recorder's own user is root, and the errors of `what`.
    pub fn with<T>(&self, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let changed = Changed::to(self)?;
        let result = what();
        drop(changed);
        result
    }

    /// Opens a regular file as [`regular::open`] does, with these rights.
    ///
    /// # Errors
    /// The same as for [`regular::open`] and [`Rights::with`], and EACCES if it is unknown whose rights these are and not all users may
    /// read the file.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.open_by(|| regular::open(path))
    }

    /// Whether a user with these rights may read a file.
    pub fn may_read(&self, file: &Regular) -> bool {
        self.open_by(|| file.open()).is_ok()
    }

    fn open_by(&self, open: impl FnOnce() -> io::Result<File>) -> io::Result<File> {
        let file = self.with(open)?;
        // An unknown user might not have permission to read the file.
        match *self != Rights::none() || is_for_everybody(&file)? {
            true => Ok(file),
            false => Err(Errno::EACCES.into()),
        }
    }
}

/// Runs `what` without the capabilities to read every file. The program's own file may grant them to every user who runs it, and that
/// user chooses which file `what` reads. Root keeps them.
///
/// # Errors
/// Errors of capget(2) and capset(2).
pub fn without_file_capabilities<T>(what: impl FnOnce() -> T) -> io::Result<T> {
    if geteuid().is_root() {
        return Ok(what());
    }
    let sets = Sets::get()?;
    sets.without(READ_EVERYTHING).set()?;
    let result = what();
    sets.set()?;
    Ok(result)
}

/// Whether all users may read a file: its owner, its group and all others, without an access list that changes this.
fn is_for_everybody(file: &File) -> io::Result<bool> {
    const READ_BY_ALL: u32 = 0o444;
    let has_list = || {
        let name = c"system.posix_acl_access".as_ptr();
        // SAFETY: the name is a string that lives as long as the program; with a size of zero nothing is written.
        let size = unsafe { libc::fgetxattr(file.as_raw_fd(), name, std::ptr::null_mut(), 0) };
        // A file system without access lists returns this error, and so does a file without one.
        !matches!(Errno::result(size), Err(Errno::ENODATA | Errno::EOPNOTSUPP))
    };
    Ok(file.metadata()?.mode() & READ_BY_ALL == READ_BY_ALL && !has_list())
}

/// The former rights of the thread, which are restored on drop.
struct Changed {
    uid: Uid,
    gid: Gid,
    groups: Option<Vec<u32>>,
    capabilities: Sets,
}

impl Changed {
    fn to(rights: &Rights) -> io::Result<Changed> {
        let groups: Vec<u32> = getgroups()?.into_iter().map(Gid::as_raw).collect();
        let capabilities = Sets::get()?;
        // Groups are changed first: changing groups needs a capability that changing the user may remove.
        let groups = set_groups(&rights.groups).is_ok().then_some(groups);
        let gid = setfsgid(Gid::from_raw(rights.gid));
        let uid = setfsuid(Uid::from_raw(rights.uid));
        let changed = Changed { uid, gid, groups, capabilities };
        changed.capabilities.without(READ_EVERYTHING).set()?;
        let now = setfsuid(Uid::from_raw(NO_CHANGE));
        if now.as_raw() != rights.uid && now.is_root() {
            return Err(Errno::EPERM.into());
        }
        Ok(changed)
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        setfsuid(self.uid);
        setfsgid(self.gid);
        // The thread may regain its former rights; if not, it has fewer rights than before, and operations that need them fail.
        if let Some(groups) = &self.groups {
            let _ = set_groups(groups);
        }
        let _ = self.capabilities.set();
    }
}

/// Sets the groups of this thread only; libc's call would set the groups of all threads.
fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the call reads the given number of groups from a live slice of that length.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    Errno::result(result).map(drop)
}

/// The first argument of capget(2) and capset(2).
#[repr(C)]
struct Header {
    version: u32,
    /// 0 for the calling thread.
    pid: i32,
}

/// One word of each set of capabilities.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The capabilities of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sets([Set; 2]);

impl Sets {
    fn get() -> io::Result<Sets> {
        let mut header = Header { version: CAPABILITY_VERSION, pid: 0 };
        let mut sets = [Set::default(); 2];
        // SAFETY: for this version the call writes two words of each set, and at most the version into the header; both are live.
        let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
        Errno::result(result)?;
        Ok(Sets(sets))
    }

    fn without(mut self, capabilities: u32) -> Sets {
        self.0[0].effective &= !capabilities;
        self
    }

    fn set(&self) -> io::Result<()> {
        let mut header = Header { version: CAPABILITY_VERSION, pid: 0 };
        // SAFETY: for this version the call reads two words of each set, and the header; both are live.
        let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, self.0.as_ptr()) };
        Errno::result(result)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn rights_are_those_of_the_one_user_that_a_process_works_for() {
        let status =
            |uid: &str| format!("Name:\tx\nUid:\t{uid}\nGid:\t8\t8\t8\t8\nGroups:\t8 27 \n");
        let user = Rights { uid: 7, gid: 8, groups: vec![8, 27] };
        assert_eq!(Rights::of_status(status("7\t7\t7\t7").as_bytes()), user);
        assert_eq!(Rights::of_status(status("7\t0\t0\t0").as_bytes()), Rights::none());
        assert_eq!(Rights::of_status(b""), Rights::none());
        let own = std::fs::read("/proc/self/status").expect("it is there");
        assert_eq!(Rights::of_status(&own).uid, nix::unistd::geteuid().as_raw());
    }

    #[test]
    fn a_file_is_opened_as_the_process_could_and_the_thread_is_as_before() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
        };
        set(folder.path(), 0o711);
        let [secret, shared, hidden] =
            ["secret", "shared", "closed/hidden"].map(|name| folder.path().join(name));
        std::fs::create_dir(folder.path().join("closed")).expect("room");
        for path in [&secret, &shared, &hidden] {
            std::fs::write(path, "content").expect("room");
        }
        set(&secret, 0o600);
        set(&shared, 0o640);
        chown(&shared, None, Some(4711)).expect("root may");
        set(&hidden, 0o644);
        set(&folder.path().join("closed"), 0o700);
        let user = |groups: &[u32]| Rights { uid: 4710, gid: 4710, groups: groups.to_vec() };
        let before =
            (Sets::get().expect("they can be read"), getgroups().expect("they can be read"));
        for (rights, path, expected) in [
            (user(&[]), &secret, false),
            (user(&[0]), &secret, false),
            (user(&[]), &shared, false),
            (user(&[4711]), &shared, true),
            // All users may read the file, but not its directory.
            (user(&[4711]), &hidden, false),
            (Rights::none(), &hidden, false),
            (Rights { uid: 0, gid: 0, groups: vec![] }, &hidden, true),
        ] {
            let opened = rights.open(path);
            assert_eq!(opened.is_ok(), expected, "{} {rights:?}: {opened:?}", path.display());
        }
        let after =
            (Sets::get().expect("they can be read"), getgroups().expect("they can be read"));
        assert_eq!(after, before);
        assert_eq!(std::fs::read(&hidden).expect("root may"), b"content");
    }
}
