//! Code that is not in a file: code that a program compiles itself, and the vDSO, which the kernel maps into every program.
//!
//! For perf, runtimes list compiled functions in `/tmp/perf-PID.map`: a line for each function with its address, its size and its
//! name. PID is the process's own view of its id, and `/tmp` is its own. Any user may write there, so a file is accepted only if it is a
//! regular file of the process's user or of root with no other name, no link leads to it, nothing is mounted on it, and the process may
//! read it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::code::{ExecutableMapping, executable_mappings, mappings_in};
use crate::process_files::Folder;
use crate::procfs::{field, living};
use crate::regular::{self, Links, Regular};
use crate::rights::Rights;

/// The kernel's name for the vDSO among the mappings of a process.
pub const VDSO: &str = "[vdso]";

/// The vDSO has a few pages.
const MOST_VDSO: u64 = 64 << 10;

/// 32-bit programs have everything below this address.
const BEYOND_32_BITS: u64 = 1 << 32;

/// Holds the map of the functions that a process has compiled.
///
/// # Errors
/// Returns an error if the process has ended, or has no trustworthy map.
pub fn map(pid: u32) -> io::Result<Regular> {
    let process = Folder::of(pid)?;
    let status = process.read("status")?;
    let last = |name: &str| {
        let value = field(&status, name)?;
        value.split_whitespace().next_back()?.parse::<u32>().ok()
    };
    let own_pid = last("NStgid").unwrap_or(pid);
    let root = process.hold("root")?;
    map_in(root.as_fd(), own_pid, &Rights::of_status(&status))
}

/// The map below a process's root directory; the process's own view of its id is `pid`.
fn map_in(root: BorrowedFd<'_>, pid: u32, rights: &Rights) -> io::Result<Regular> {
    let tmp = regular::in_root(root, Path::new("tmp"), Links::NotLast)?;
    let name = format!("perf-{pid}.map");
    rights.with(|| {
        let map = Regular::hold_in(tmp.as_fd(), Path::new(&name), Links::None)?;
        let facts = map.facts()?;
        let is_whose = facts.st_uid == 0 || facts.st_uid == rights.uid;
        if !is_whose || facts.st_nlink != 1 {
            let why = "it belongs to another user, or has several names (hard links)";
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        // A file that the process is not allowed to read is not its map.
        map.open()?;
        Ok(map)
    })
}

/// The vDSO of a process as an ELF file; this process's own vDSO if the other is no longer readable and has a vDSO of the same size.
pub fn vdso(pid: u32, mapping: &ExecutableMapping) -> Option<Vec<u8>> {
    let length = mapping.end.checked_sub(mapping.start).filter(|it| *it <= MOST_VDSO)?;
    if let Ok(image) = memory(pid, mapping.start, length) {
        return Some(image);
    }
    let own = own_vdso()?;
    (own.len() as u64 == length && mapping.start >= BEYOND_32_BITS).then_some(own)
}

/// The vDSO of this process.
pub fn own_vdso() -> Option<Vec<u8>> {
    let own = std::process::id();
    let mappings = executable_mappings(own).ok()?;
    let own_one = mappings.iter().find(|it| it.path == Path::new(VDSO))?;
    let length = own_one.end.checked_sub(own_one.start).filter(|it| *it <= MOST_VDSO)?;
    memory(own, own_one.start, length).ok()
}

/// Opens the memory of a process for reading, if the process has this mapping. The file never becomes the memory of another program: it is
/// empty once the process has ended, or has executed another.
///
/// # Errors
/// Returns an error if the process has ended, cannot be inspected, or has no such mapping.
pub fn memory_of(pid: u32, mapping: &ExecutableMapping) -> io::Result<OwnedFd> {
    let process = Folder::of(pid)?;
    let memory = process.open("mem")?;
    let maps = process.read("maps")?;
    if !mappings_in(&maps).any(|it| it == *mapping) {
        return Err(io::Error::new(ErrorKind::NotFound, "the process has no such mapping"));
    }
    Ok(memory.into())
}

fn memory(pid: u32, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let file = File::open(format!("/proc/{}/mem", living(pid)))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use nix::sys::stat::Mode;

    use super::*;

    /// A root directory with an empty `/tmp`.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("tmp")).expect("room");
        root
    }

    fn rights(uid: u32) -> Rights {
        Rights { uid, gid: uid, groups: Vec::new() }
    }

    fn own() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    fn open(root: &tempfile::TempDir, user: u32) -> io::Result<String> {
        let folder = File::open(root.path()).expect("it is there");
        let map = map_in(folder.as_fd(), 7, &rights(user))?;
        io::read_to_string(map.open()?)
    }

    #[test]
    fn the_map_of_the_process_user_or_of_root_is_taken() {
        let root = root();
        let path = root.path().join("tmp/perf-7.map");
        assert_eq!(open(&root, own()).expect_err("none").kind(), ErrorKind::NotFound);
        std::fs::write(&path, "1000 10 f\n").expect("room");
        assert_eq!(open(&root, own()).expect("its own"), "1000 10 f\n");
        if own() == 0 {
            // A file that root may read but others may not was mounted there by another user.
            let mode =
                |mode| std::fs::set_permissions(root.path(), PermissionsExt::from_mode(mode));
            mode(0o755).expect("it is ours");
            assert!(open(&root, 65_533).is_ok(), "it is root's");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("it is ours");
            let error = open(&root, 65_533).expect_err("it may not be read");
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            chown(&path, Some(65_533), None).expect("root may");
            let error = open(&root, 65_532).expect_err("another user's");
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(open(&root, 65_533).is_ok());
        }
    }

    #[test]
    fn no_link_leads_to_a_map_and_nothing_else_is_taken_for_one() {
        let elsewhere = tempfile::tempdir().expect("a folder");
        let secret = elsewhere.path().join("perf-7.map");
        std::fs::write(&secret, "1000 10 secret\n").expect("room");
        let linked = root();
        let path = linked.path().join("tmp/perf-7.map");
        symlink(&secret, &path).expect("room");
        assert!(open(&linked, own()).is_err(), "a link to a file");
        std::fs::remove_file(&path).expect("there");
        std::fs::hard_link(&secret, &path).expect("one file system");
        assert!(open(&linked, own()).is_err(), "another file's second name");
        std::fs::remove_file(&path).expect("there");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("room");
        assert!(open(&linked, own()).is_err(), "a FIFO, and nobody waits");
        std::fs::remove_file(&path).expect("there");
        std::fs::remove_dir(linked.path().join("tmp")).expect("empty");
        symlink(elsewhere.path(), linked.path().join("tmp")).expect("room");
        assert!(open(&linked, own()).is_err(), "a link to a folder");
    }

    #[test]
    fn what_is_mounted_over_a_map_is_not_taken_for_it() {
        if own() != 0 {
            return;
        }
        let (root, secret) = (root(), tempfile::NamedTempFile::new().expect("room"));
        let path = root.path().join("tmp/perf-7.map");
        std::fs::write(&path, "1000 10 f\n").expect("room");
        let bind = MsFlags::MS_BIND;
        mount(Some(secret.path()), &path, None::<&str>, bind, None::<&str>).expect("root may");
        let found = open(&root, 0);
        umount2(&path, MntFlags::MNT_DETACH).expect("it is mounted");
        assert_eq!(found.expect_err("a mount").raw_os_error(), Some(libc::EXDEV));
        assert!(open(&root, 0).is_ok());
    }

    #[test]
    fn the_vdso_is_an_elf_file_and_there_also_for_processes_that_have_ended() {
        let own = std::process::id();
        let mappings = executable_mappings(own).expect("its own");
        let mapping = mappings.iter().find(|it| it.path == Path::new(VDSO)).expect("one");
        let image = vdso(own, mapping).expect("it can be read");
        assert!(image.starts_with(b"\x7fELF") && Some(&image) == own_vdso().as_ref());
        let no_process = u32::MAX >> 1;
        assert_eq!(vdso(no_process, mapping), Some(image));
        let longer = ExecutableMapping { end: mapping.end + (1 << 12), ..mapping.clone() };
        assert_eq!(vdso(no_process, &longer), None);
        let endless = ExecutableMapping { end: u64::MAX, ..mapping.clone() };
        assert_eq!(vdso(own, &endless), None);
        let old = ExecutableMapping { start: 0x1000, end: 0x3000, ..mapping.clone() };
        assert_eq!(vdso(no_process, &old), None, "32 bits");
    }

    #[test]
    fn a_process_that_is_gone_has_no_map() {
        assert!(map(u32::MAX >> 1).is_err());
    }
}
