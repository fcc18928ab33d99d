//! Locks on files that are being written, and the processes that hold them.
//!
//! The locks are those of flock(2): a lock belongs to the open file; it ends with the last descriptor of that open file, however the
//! process ends, and stays when a separately opened descriptor of the same file is closed.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

use super::directory::{Facts, FileId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process, if procfs reports it.
    pub pid: Option<u32>,
    /// Its name, as long as it runs.
    pub comm: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.comm) {
            (Some(pid), Some(comm)) => write!(f, "process {pid} ({comm})"),
            // The process that locks a file may pass it on, as ctl does to the daemon.
            (Some(pid), None) => {
                write!(f, "another process, which inherited it from process {pid},")
            }
            (None, _) => f.write_str("another process"),
        }
    }
}

/// How often to check for the holder of a lock.
const LOOKS: usize = 20;

/// How long to wait between two checks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Locks a file until its last descriptor is closed. Does nothing if the file system has no locks.
///
/// # Errors
/// Returns the process that has already locked it.
pub fn lock(file: &File) -> Result<(), Holder> {
    for look in 0..LOOKS {
        if look > 0 {
            // The holder released it before the list was read, or the list changed while it was read.
            thread::sleep(BETWEEN_LOOKS);
        }
        // SAFETY: the descriptor is open for the time of the call.
        let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
            return Ok(());
        }
        let holder = Facts::of_file(file.as_fd()).map(|facts| holder(facts.id));
        match holder {
            Ok(holder) if holder.pid.is_none() => {}
            found => return Err(found.unwrap_or_default()),
        }
    }
    Err(Holder::default())
}

/// The holder of this file's lock, by the kernel's list of locks.
fn holder(file: FileId) -> Holder {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let Some(pid) = find(&locks, file) else { return Holder::default() };
    let comm = fs::read(format!("/proc/{pid}/comm")).ok();
    // Any user may choose the name of a process, and this name is written to a terminal.
    let comm = comm.map(|comm| comm.trim_ascii_end().escape_ascii().to_string());
    Holder { pid: Some(pid), comm }
}

/// The process that has the lock, from lines like `1: FLOCK  ADVISORY  WRITE 4711 fe:01:13 0 EOF`.
fn find(locks: &str, file: FileId) -> Option<u32> {
    let device = format!("{:02x}:{:02x}", libc::major(file.device), libc::minor(file.device));
    let mut by_inode = None;
    for line in locks.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        // Lines of waiting processes have an arrow first.
        if words.next() != Some("FLOCK") {
            continue;
        }
        let mut words = words.skip(2);
        let (Some(pid), Some(place)) = (words.next(), words.next()) else { continue };
        let (Ok(pid), Some((on, inode))) = (pid.parse::<u32>(), place.rsplit_once(':')) else {
            continue;
        };
        if inode.parse() != Ok(file.inode) || pid == 0 {
            continue;
        }
        if on == device {
            return Some(pid);
        }
        // Some file systems show a different device here than in stat(2).
        by_inode = Some(pid);
    }
    by_inode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_anothers_until_its_last_descriptor_is_closed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let first = file.reopen().expect("it is there");
        let second = file.reopen().expect("it is there");
        lock(&first).expect("free");
        let holder = lock(&second).expect_err("locked");
        assert_eq!(holder.pid, Some(std::process::id()));
        assert!(holder.to_string().starts_with("process "), "{holder}");
        let copy = first.try_clone().expect("a copy");
        drop(first);
        // Closing another descriptor of the same file changes nothing.
        drop(file.reopen().expect("it is there"));
        lock(&second).expect_err("the copy still has it");
        drop(copy);
        // Another test may be starting a process, which has copies of all descriptors until it runs its program.
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while let Err(holder) = lock(&second) {
            assert!(std::time::Instant::now() < until, "free again: {holder}");
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    #[test]
    fn the_list_of_locks_is_searched_by_device_and_inode() {
        let device = libc::makedev(0xfe, 1);
        let locks = "1: POSIX  ADVISORY  WRITE 1 fe:01:13 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 2 fe:02:13 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 3 fe:01:13 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 4 fe:01:13 0 EOF\n";
        let of = |device, inode| find(locks, FileId { device, inode });
        assert_eq!(of(device, 13), Some(3));
        assert_eq!(of(libc::makedev(9, 9), 13), Some(3), "the last by inode alone");
        assert_eq!(of(device, 14), None);
        let gone = Holder { pid: Some(7), comm: None };
        assert_eq!(gone.to_string(), "another process, which inherited it from process 7,");
    }
}
