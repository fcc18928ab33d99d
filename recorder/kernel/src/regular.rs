//! Opens files that must be regular ones: programs, libraries, policies.
//!
//! Opening a FIFO waits for its other end, opening a device may have any effect, and reading `/proc/kmsg` removes messages that other
//! readers wait for. A path from a command line or from another process's file system may be any of these. So a file is first held
//! (`O_PATH`), which has no effect on it, then examined, and opened only if it is regular:
//!
//! ```text
//!   path --O_PATH--> held --fstat, fstatfs--> a regular file --/proc/self/fd--> open
//!                                             anything else: refused, and never opened
//! ```
//!
//! A path below `/proc/PID/root` is followed as that process would: no link leads out of its root.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open as open_path, openat, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major, minor};
use nix::sys::statfs::{
    DEBUGFS_MAGIC, FUSE_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC,
    TRACEFS_MAGIC, fstatfs,
};

/// File systems that generate the contents of regular files when they are read; some of them block, or remove the data for other readers.
const MADE_BY_THE_KERNEL: [FsType; 4] =
    [PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC];

/// The maximum number of stacked overlays. The kernel allows two.
const MOST_STACKED: u32 = 2;

const MOUNTS_PATH: &str = "/proc/self/mountinfo";

/// How often to retry a path while other processes rename directories on it.
const WALKS: u32 = 32;

/// A flag of openat2(2), since Linux 5.12: fail rather than access a file system.
const RESOLVE_CACHED: u64 = 0x20;

const HOLD: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// Which links of a path are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All links that stay within the root.
    Followed,
    /// Links that stay within the root, except one at the end of the path.
    NotLast,
    /// No links, and no mount is crossed.
    None,
}

/// A regular file that is referred to without being opened for reading.
#[derive(Debug)]
pub struct Regular(OwnedFd);

impl Regular {
    /// Holds the file at `path`.
    ///
    /// # Errors
    /// Errors of open(2), and `InvalidInput` if it is not a regular file.
    pub fn hold(path: &Path) -> io::Result<Regular> {
        let held = match split_at_root(path) {
            Some((root, inside)) => {
                let root = openat(AT_FDCWD, &root, HOLD | OFlag::O_DIRECTORY, Mode::empty())?;
                in_root(root.as_fd(), inside, Links::Followed)?
            }
            None => openat(AT_FDCWD, path, HOLD, Mode::empty())?,
        };
        Regular::of(held)
    }

    /// Holds the file at `path`, as seen by a process with this root directory.
    ///
    /// # Errors
    /// The same as for [`Regular::hold`].
    pub fn hold_in(root: BorrowedFd<'_>, path: &Path, links: Links) -> io::Result<Regular> {
        Regular::of(in_root(root, path, links)?)
    }

    /// Wraps a file that is held by a descriptor.
    ///
    /// # Errors
    /// `InvalidInput` if it is not a regular file.
    pub fn of(held: OwnedFd) -> io::Result<Regular> {
        let kind = SFlag::from_bits_truncate(fstat(&held)?.st_mode & SFlag::S_IFMT.bits());
        let is_made =
            || Ok::<_, Errno>(MADE_BY_THE_KERNEL.contains(&fstatfs(&held)?.filesystem_type()));
        if kind != SFlag::S_IFREG || is_made()? {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Regular(held))
    }

    /// Opens this very file to read it.
    ///
    /// # Errors
    /// Errors of open(2).
    pub fn open(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        Ok(open_path(path.as_str(), flags, Mode::empty())?.into())
    }

    /// Whether a process of a user other than root may serve it: such a file may stop responding at any time. This applies to FUSE, and to
    /// overlays, whose layers may be FUSE.
    ///
    /// # Errors
    /// Errors of fstat(2), fstatfs(2), or of reading the table of mounts.
    pub fn is_served_by_others(&self) -> io::Result<bool> {
        is_served_by_others(self.as_fd(), MOST_STACKED)
    }

    /// The result of fstat(2).
    ///
    /// # Errors
    /// Errors of fstat(2).
    pub fn facts(&self) -> io::Result<FileStat> {
        Ok(fstat(&self.0)?)
    }
}

impl AsFd for Regular {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Regular> for OwnedFd {
    fn from(held: Regular) -> OwnedFd {
        held.0
    }
}

/// The same as [`Regular::is_served_by_others`], for a file or directory on at most this many stacked overlays.
fn is_served_by_others(held: BorrowedFd<'_>, overlays: u32) -> io::Result<bool> {
    let kind = fstatfs(held)?.filesystem_type();
    if kind != FUSE_SUPER_MAGIC && kind != OVERLAYFS_SUPER_MAGIC {
        return Ok(false);
    }
    let mounts = std::fs::read_to_string(MOUNTS_PATH)?;
    let mount = cached(held, libc::STATX_MNT_ID)
        .filter(|found| found.stx_mask & libc::STATX_MNT_ID != 0)
        .map(|found| found.stx_mnt_id);
    // A mount that exists only in other namespaces may belong to any user.
    let Some(mount) = find_mount(&mounts, mount, fstat(held)?.st_dev) else { return Ok(true) };
    if kind == FUSE_SUPER_MAGIC {
        return Ok(!mount.is_roots_fuse());
    }
    let Some(overlays) = overlays.checked_sub(1) else { return Ok(true) };
    for layer in mount.layers() {
        // The paths are those that root saw when it mounted the overlay; root may have had other mounts.
        let Ok(layer) = openat(AT_FDCWD, &layer, HOLD, Mode::empty()) else { continue };
        if is_served_by_others(layer.as_fd(), overlays)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A line of a table of mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mount<'a> {
    kind: &'a str,
    /// The options of the file system.
    options: &'a str,
}

/// The mount with this number, or else with this device. By device alone, files of an overlay might not be found.
fn find_mount(mounts: &str, number: Option<u64>, device: u64) -> Option<Mount<'_>> {
    let number = number.map(|number| number.to_string());
    let device = format!("{}:{}", major(device), minor(device));
    let has = |line: &&str, at: usize, word: &str| line.split(' ').nth(at) == Some(word);
    let by_number = number.and_then(|number| mounts.lines().find(|line| has(line, 0, &number)));
    let line = by_number.or_else(|| mounts.lines().find(|line| has(line, 2, &device)))?;
    let mut words = line.split_once(" - ")?.1.split(' ');
    Some(Mount { kind: words.next()?, options: words.nth(1)? })
}

impl Mount<'_> {
    /// Whether root has started the process that serves it. The host of a virtual machine does not count as a user here.
    fn is_roots_fuse(&self) -> bool {
        self.kind == "virtiofs" || self.options.split(',').any(|option| option == "user_id=0")
    }

    /// The directories that an overlay consists of.
    fn layers(&self) -> Vec<PathBuf> {
        let mut layers = Vec::new();
        for option in self.options.split(',') {
            let Some((name, paths)) = option.split_once('=') else { continue };
            if matches!(name, "upperdir" | "lowerdir" | "lowerdir+" | "datadir+") {
                let paths = paths.split(':').filter(|path| !path.is_empty());
                layers.extend(paths.map(|path| PathBuf::from(OsString::from_vec(unescaped(path)))));
            }
        }
        layers
    }
}

/// A path from a table of mounts, with its octal escapes decoded.
fn unescaped(path: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| first == b'\\');
        let number =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

/// Holds the file at `path`, as seen by a process with this root directory.
///
/// # Errors
/// Errors of openat2(2).
pub fn in_root(root: BorrowedFd<'_>, path: &Path, links: Links) -> io::Result<OwnedFd> {
    let within = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let (flags, resolve) = match links {
        Links::Followed => (HOLD, within),
        Links::NotLast => (HOLD | OFlag::O_NOFOLLOW, within),
        Links::None => {
            let closed = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV;
            (HOLD | OFlag::O_NOFOLLOW, within | closed)
        }
    };
    let how = OpenHow::new().flags(flags).resolve(resolve);
    let mut walks = 0;
    loop {
        match openat2(root, path, how) {
            // A directory was moved at the same time, so the kernel cannot tell whether the path stays within the root.
            Err(Errno::EAGAIN) if walks < WALKS => walks += 1,
            held => return Ok(held?),
        }
    }
}

/// Whether `path`, below `root`, is the file that the kernel's `link` leads to, according to what the kernel knows without a request to the
/// file system, which might never respond. The kernel knows this for a running program's file.
pub fn is_cached(link: &Path, root: &Path, path: &Path) -> bool {
    let hold = |path: &Path| openat(AT_FDCWD, path, HOLD, Mode::empty()).ok();
    let resolve = ResolveFlag::from_bits_retain(RESOLVE_CACHED)
        | ResolveFlag::RESOLVE_IN_ROOT
        | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(HOLD | OFlag::O_NOFOLLOW).resolve(resolve);
    let shown = || cached_id(&openat2(hold(root)?, path, how).ok()?);
    hold(link).and_then(|file| cached_id(&file)).is_some_and(|it| Some(it) == shown())
}

/// The device and inode of the held file, as the kernel knows them.
fn cached_id(held: &OwnedFd) -> Option<(u32, u32, u64)> {
    let found = cached(held.as_fd(), libc::STATX_INO)?;
    Some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}

/// Whether a held file no longer has a name, according to what the kernel knows without a request to the file system, which might never
/// respond.
pub fn is_deleted(held: BorrowedFd<'_>) -> bool {
    cached(held, libc::STATX_NLINK).is_some_and(|found| found.stx_nlink == 0)
}

/// The kernel's cached data about a held file.
fn cached(held: BorrowedFd<'_>, wanted: u32) -> Option<libc::statx> {
    // SAFETY: a structure in which all bytes may be 0.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
    // SAFETY: the path ends in a null byte, and the call writes to a live statx alone.
    let result =
        unsafe { libc::statx(held.as_raw_fd(), c"".as_ptr(), flags, wanted, &raw mut found) };
    (result == 0).then_some(found)
}

/// Splits a path below `/proc/PID/root` into that directory and the rest.
fn split_at_root(path: &Path) -> Option<(PathBuf, &Path)> {
    let mut components = path.components();
    let begins = components.next() == Some(Component::RootDir)
        && components.next() == Some(Component::Normal(OsStr::new("proc")));
    let Some(Component::Normal(pid)) = components.next().filter(|_| begins) else { return None };
    let is_root = components.next() == Some(Component::Normal(OsStr::new("root")));
    let inside = components.as_path();
    (is_root && inside != Path::new(""))
        .then(|| (Path::new("/proc").join(pid).join("root"), inside))
}

/// Opens a regular file for reading. Never waits for another process; blocks only as long as a file system may take.
///
/// # Errors
/// Errors of open(2), and `InvalidInput` if it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    Regular::hold(path)?.open()
}

/// The contents of a regular file.
///
/// # Errors
/// The same as for [`open`], and when it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_would_wait_or_is_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        for path in [
            fifo.as_path(),
            dir.path(),
            Path::new("/dev/null"),
            // Opening it creates a terminal.
            Path::new("/dev/ptmx"),
            // A regular file, but reading it waits for the kernel's next message, and removes the message for other readers.
            Path::new("/proc/kmsg"),
        ] {
            let error = open(path).expect_err("no regular file");
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
        std::fs::write(dir.path().join("file"), "content").expect("room");
        assert_eq!(read(&dir.path().join("file")).expect("a file"), b"content");
    }

    #[test]
    fn only_what_root_has_mounted_here_is_served_by_root() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw,user_id=0\n\
                      40 22 0:45 / /mnt/a\\040b rw shared:9 - fuse.sshfs host:/ rw,user_id=1000,group_id=0\n\
                      41 22 0:46 / /mnt/c rw - fuse /dev/fuse rw,user_id=0,group_id=0,allow_other\n\
                      42 22 0:47 / /mnt/d rw - virtiofs share rw\n";
        let device = |minor| nix::sys::stat::makedev(0, minor);
        let served = |minor| find_mount(mounts, None, device(minor)).map(|it| it.is_roots_fuse());
        assert_eq!([45, 46, 47, 48].map(served), [Some(false), Some(true), Some(true), None]);
        // Its files may have a device that no mount has.
        let numbered = find_mount(mounts, Some(41), device(99)).expect("it is there");
        assert!(numbered.is_roots_fuse());
        assert_eq!((find_mount("", None, 0), find_mount("0:0\n\n", Some(0), 0)), (None, None));
        let own = Regular::hold(Path::new("/proc/self/exe")).expect("this program");
        assert!(!own.is_served_by_others().expect("it can be looked at"));
    }

    #[test]
    fn the_layers_of_an_overlay_are_in_its_options() {
        let mounts = "50 22 0:50 / /merged rw - overlay overlay rw,lowerdir=/a\\040b:/c::/d,upperdir=/u,workdir=/w,\
                      lowerdir+=/e,datadir+=/f\n";
        let found = find_mount(mounts, Some(50), 0).expect("it is there");
        let expected = ["/a b", "/c", "/d", "/u", "/e", "/f"].map(PathBuf::from);
        assert_eq!(found.layers(), expected);
    }

    #[test]
    fn a_held_file_is_known_to_be_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        std::fs::write(&path, "content").expect("room");
        let held = Regular::hold(&path).expect("a file");
        std::fs::rename(&path, dir.path().join("other")).expect("room");
        assert!(!is_deleted(held.as_fd()));
        std::fs::remove_file(dir.path().join("other")).expect("it is there");
        assert!(is_deleted(held.as_fd()));
    }

    #[test]
    fn a_link_leads_to_a_file_and_none_out_of_a_root() {
        let dir = tempfile::tempdir().expect("a folder");
        let inside = dir.path().join("inside");
        std::fs::create_dir(&inside).expect("room");
        std::fs::write(dir.path().join("secret"), "outer").expect("room");
        std::fs::write(inside.join("secret"), "inner").expect("room");
        symlink("/secret", inside.join("absolute")).expect("room");
        symlink("../secret", inside.join("relative")).expect("room");
        assert_eq!(read(&inside.join("relative")).expect("a file"), b"outer");

        let root = openat(AT_FDCWD, &inside, HOLD | OFlag::O_DIRECTORY, Mode::empty());
        let root = root.expect("it is there");
        let all = |name: &str, links| {
            let held = Regular::hold_in(root.as_fd(), Path::new(name), links)?;
            io::read_to_string(held.open()?)
        };
        for name in ["/absolute", "/relative", "../../secret", "secret"] {
            assert_eq!(all(name, Links::Followed).expect(name), "inner", "{name}");
        }
        for name in ["/absolute", "relative"] {
            assert!(all(name, Links::NotLast).is_err(), "{name} is a link");
            assert!(all(name, Links::None).is_err(), "{name} is a link");
        }
        // A /proc link leads out of every root.
        let machine = openat(AT_FDCWD, "/", HOLD | OFlag::O_DIRECTORY, Mode::empty());
        let exe = Path::new("/proc/self/exe");
        let error = Regular::hold_in(machine.expect("it is there").as_fd(), exe, Links::Followed);
        assert_eq!(error.expect_err("magic").raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn the_root_of_a_process_is_known_by_its_path() {
        let split = |path: &'static str| {
            let (root, inside) = split_at_root(Path::new(path))?;
            Some((root.to_str()?.to_owned(), inside.to_str()?))
        };
        let expected = Some(("/proc/7/root".to_owned(), "usr/lib/x"));
        assert_eq!(split("/proc/7/root/usr/lib/x"), expected);
        assert_eq!(split("//proc/7//root/./usr/lib/x"), expected);
        for whole in ["/proc/7/root", "/proc/7/exe", "/usr/lib/x", "proc/7/root/x", "/proc"] {
            assert_eq!(split(whole), None, "{whole}");
        }
        let own = std::env::current_exe().expect("it has one");
        let below = Path::new("/proc/self/root").join(own.strip_prefix("/").expect("absolute"));
        assert!(open(&below).is_ok(), "{}", below.display());
    }
}
