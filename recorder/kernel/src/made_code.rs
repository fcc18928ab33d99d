//! Code that is in no file: what a program compiles itself, and the vDSO, which the kernel maps into every program.
//!
//! Runtimes tell perf what they have compiled in `/tmp/perf-PID.map`: a line for each function with its address, its size and its name.
//! PID is what the process itself takes for its id, and `/tmp` is its own. Anybody may write there, so a file is taken only if it
//! is a regular one of the process's user or of root with no other name, and no link leads to it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use crate::code::{ExecutableMapping, executable_mappings};
use crate::procfs::field;

/// What the kernel calls the vDSO among the mappings of a process.
pub const VDSO: &str = "[vdso]";

/// The vDSO has a few pages.
const MOST_VDSO: u64 = 64 << 10;

/// Programs of 32 bits have everything below this.
const BEYOND_32_BITS: u64 = 1 << 32;

/// Opens the map of the functions that a process has compiled.
///
/// # Errors
/// When the process is gone, or has none that can be trusted.
pub fn open_map(pid: u32) -> io::Result<File> {
    let status = std::fs::read(format!("/proc/{pid}/status"))?;
    let last = |name: &str| {
        let value = field(&status, name)?;
        value.split_whitespace().next_back()?.parse::<u32>().ok()
    };
    let own_pid = last("NSpid").unwrap_or(pid);
    let users = field(&status, "Uid").unwrap_or_default();
    let users: Vec<u32> = users.split_whitespace().filter_map(|user| user.parse().ok()).collect();
    // This one is a link of the kernel's.
    let root = look(AT_FDCWD, Path::new(&format!("/proc/{pid}/root")), OFlag::empty())?;
    map_in(root, own_pid, &users)
}

fn look(folder: impl std::os::fd::AsFd, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let always = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(folder, path, always | flags, Mode::empty())?)
}

/// The map below a root directory of a process that takes `pid` for its id, and runs as one of `users`.
fn map_in(root: OwnedFd, pid: u32, users: &[u32]) -> io::Result<File> {
    let tmp = look(root, Path::new("tmp"), OFlag::O_NOFOLLOW)?;
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    let name = format!("perf-{pid}.map");
    let file = File::from(openat(tmp, Path::new(&name), flags, Mode::empty())?);
    let facts = file.metadata()?;
    let is_whose = facts.uid() == 0 || users.contains(&facts.uid());
    if !facts.is_file() || !is_whose || facts.nlink() != 1 {
        let why = "not a regular file of the process's user with one name";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// The vDSO of a process as an ELF file; that of this one if the process cannot be asked any more and has one of the same size.
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

fn memory(pid: u32, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let file = File::open(format!("/proc/{pid}/mem"))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// A root directory with an empty `/tmp`.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("tmp")).expect("room");
        root
    }

    fn open(root: &tempfile::TempDir, users: &[u32]) -> io::Result<String> {
        let folder = look(AT_FDCWD, root.path(), OFlag::empty()).expect("it is there");
        map_in(folder, 7, users).map(|file| io::read_to_string(file).expect("text"))
    }

    #[test]
    fn the_map_of_the_process_user_or_of_root_is_taken() {
        let root = root();
        let path = root.path().join("tmp/perf-7.map");
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(open(&root, &[own]).expect_err("none").kind(), ErrorKind::NotFound);
        std::fs::write(&path, "1000 10 f\n").expect("room");
        assert_eq!(open(&root, &[own]).expect("its own"), "1000 10 f\n");
        if own == 0 {
            assert!(open(&root, &[]).is_ok(), "it is root's");
            chown(&path, Some(65_533), None).expect("root may");
            let error = open(&root, &[0, 65_532]).expect_err("another user's");
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(open(&root, &[65_533]).is_ok());
        }
    }

    #[test]
    fn no_link_leads_to_a_map_and_nothing_else_is_taken_for_one() {
        let own = [nix::unistd::geteuid().as_raw()];
        let elsewhere = tempfile::tempdir().expect("a folder");
        let secret = elsewhere.path().join("perf-7.map");
        std::fs::write(&secret, "1000 10 secret\n").expect("room");
        let linked = root();
        let path = linked.path().join("tmp/perf-7.map");
        symlink(&secret, &path).expect("room");
        assert!(open(&linked, &own).is_err(), "a link to a file");
        std::fs::remove_file(&path).expect("there");
        std::fs::hard_link(&secret, &path).expect("one file system");
        assert!(open(&linked, &own).is_err(), "another file's second name");
        std::fs::remove_file(&path).expect("there");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("room");
        assert!(open(&linked, &own).is_err(), "a FIFO, and nobody waits");
        std::fs::remove_file(&path).expect("there");
        std::fs::remove_dir(linked.path().join("tmp")).expect("empty");
        symlink(elsewhere.path(), linked.path().join("tmp")).expect("room");
        assert!(open(&linked, &own).is_err(), "a link to a folder");
    }

    #[test]
    fn the_vdso_is_an_elf_file_and_there_also_for_processes_that_have_ended() {
        let own = std::process::id();
        let mappings = executable_mappings(own).expect("its own");
        let mapping = mappings.iter().find(|it| it.path == Path::new(VDSO)).expect("one");
        let image = vdso(own, mapping).expect("it can be read");
        assert!(image.starts_with(b"\x7fELF") && Some(&image) == own_vdso().as_ref());
        let nobody = u32::MAX >> 1;
        assert_eq!(vdso(nobody, mapping), Some(image));
        let longer = ExecutableMapping { end: mapping.end + (1 << 12), ..mapping.clone() };
        assert_eq!(vdso(nobody, &longer), None);
        let endless = ExecutableMapping { end: u64::MAX, ..mapping.clone() };
        assert_eq!(vdso(own, &endless), None);
        let old = ExecutableMapping { start: 0x1000, end: 0x3000, ..mapping.clone() };
        assert_eq!(vdso(nobody, &old), None, "32 bits");
    }

    #[test]
    fn a_process_that_is_gone_has_no_map() {
        assert!(open_map(u32::MAX >> 1).is_err());
    }
}
