//! A tracing instance with its own rings, clock and enabled events.
//!
//! [`Instance::create`] creates the directory, and dropping the value removes it. A process that is killed leaves its instance behind; the
//! next start of fxtrec then removes it, after it has recognized it by its name and its lock. The creator of an instance holds a lock on
//! the directory while it lives, so that a process that is not visible, because it is in another pid namespace, is not mistaken for a dead
//! one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use super::error::FtraceError;
use super::owner::Owner;
use super::pipe::RawPipe;
use super::stats::CpuStats;
use crate::sys::Sys;
use crate::tracefs::Tracefs;
use crate::units::Cpu;

/// The directory of instances in tracefs.
const INSTANCES: &str = "instances";

/// How often to try to remove an instance: it is busy while another process reads from it.
const REMOVE_TRIES: u32 = 20;

/// The time between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// An instance of this process, removed on drop.
///
/// Its pipes must be closed before it is dropped; the kernel keeps an instance that is being read.
#[derive(Debug)]
pub struct Instance {
    sys: Box<dyn Sys + Send + Sync>,
    path: PathBuf,
    /// The lock is held until the process ends, however it ends, if the file system supports locks.
    _lock: Option<Flock<File>>,
}

impl Instance {
    /// Creates an instance that records nothing yet, and removes those that dead processes left behind.
    ///
    /// # Errors
    /// Returns [`FtraceError::Create`].
    pub fn create(
        sys: Box<dyn Sys + Send + Sync>,
        tracefs: &Tracefs,
    ) -> Result<Instance, FtraceError> {
        remove_stale(&*sys, tracefs);
        let path = tracefs.path().join(INSTANCES).join(Owner::current(&*sys).new_name());
        sys.make_dir(&path).map_err(|source| FtraceError::Create { path: path.clone(), source })?;
        // The lock is not needed while the owner is visible.
        let _lock = lock(&path).ok();
        Ok(Instance { sys, path, _lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes a setting, or switches an event: `name` is the path of a file in the instance.
    ///
    /// # Errors
    /// Returns [`FtraceError::Write`].
    pub fn write(&self, name: &str, value: &str) -> Result<(), FtraceError> {
        let path = self.path.join(name);
        self.sys.write_file(&path, value.as_bytes()).map_err(|source| FtraceError::Write {
            path,
            value: value.to_owned(),
            source,
        })
    }

    /// The content of a file of the instance.
    ///
    /// # Errors
    /// Returns [`FtraceError::Read`].
    pub fn read(&self, name: &str) -> Result<String, FtraceError> {
        let path = self.path.join(name);
        match self.sys.read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(source) => Err(FtraceError::Read { path, source }),
        }
    }

    /// Opens the ring of a CPU for reading.
    ///
    /// # Errors
    /// Returns [`FtraceError::Read`].
    pub fn open_pipe(&self, cpu: Cpu) -> Result<RawPipe, FtraceError> {
        let path = self.path.join(format!("per_cpu/cpu{}/trace_pipe_raw", cpu.0));
        match self.sys.open_nonblocking(&path) {
            Ok(fd) => Ok(RawPipe::new(fd)),
            Err(source) => Err(FtraceError::Read { path, source }),
        }
    }

    /// The kernel's counts for a CPU so far.
    ///
    /// # Errors
    /// Returns [`FtraceError::Read`].
    pub fn stats(&self, cpu: Cpu) -> Result<CpuStats, FtraceError> {
        Ok(CpuStats::parse(&self.read(&format!("per_cpu/cpu{}/stats", cpu.0))?))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for attempt in 1..=REMOVE_TRIES {
            match self.sys.remove_dir(&self.path) {
                Err(error)
                    if error.raw_os_error() == Some(libc::EBUSY) && attempt < REMOVE_TRIES =>
                {
                    std::thread::sleep(REMOVE_PAUSE);
                }
                // If it cannot be removed now, the next start removes it.
                _ => return,
            }
        }
    }
}

fn lock(path: &Path) -> io::Result<Flock<File>> {
    Flock::lock(File::open(path)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno.into())
}

/// Removes the instances of processes that no longer exist. Returns their names.
pub fn remove_stale(sys: &dyn Sys, tracefs: &Tracefs) -> Vec<String> {
    let folder = tracefs.path().join(INSTANCES);
    let names = sys.list(&folder).unwrap_or_default();
    let stale = |name: &String| {
        let dead = Owner::of_name(name).is_some_and(|owner| !owner.is_alive(sys));
        // A new instance is not locked yet, but its owner is visible; an instance whose owner is not visible is locked.
        dead && lock(&folder.join(name)).is_ok()
    };
    // A busy instance is removed at a later start.
    names
        .into_iter()
        .filter(stale)
        .filter(|name| sys.remove_dir(&folder.join(name)).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Linux;

    /// A directory that looks like tracefs to code that creates and removes directories in it.
    fn folder() -> (tempfile::TempDir, Tracefs) {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        std::fs::create_dir(folder.path().join(INSTANCES)).expect("it is ours");
        let tracefs = Tracefs::at(folder.path());
        (folder, tracefs)
    }

    fn instances(folder: &tempfile::TempDir) -> Vec<String> {
        Linux.list(&folder.path().join(INSTANCES)).expect("it is ours")
    }

    #[test]
    fn an_instance_goes_with_its_value() {
        let (folder, tracefs) = folder();
        let instance = Instance::create(Box::new(Linux), &tracefs).expect("made");
        assert_eq!(instances(&folder).len(), 1);
        drop(instance);
        assert!(instances(&folder).is_empty());
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_those_of_others_are_not() {
        let (folder, tracefs) = folder();
        let living = Instance::create(Box::new(Linux), &tracefs).expect("made");
        // Process ids are smaller than this.
        for name in ["fxtrec-4294967295-1-0", "fxtrec-bench-4294967295", "somebody-else"] {
            std::fs::create_dir(folder.path().join(INSTANCES).join(name)).expect("it is ours");
        }
        assert_eq!(remove_stale(&Linux, &tracefs), ["fxtrec-4294967295-1-0"]);
        let mine = living.path().file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(
            instances(&folder),
            [mine, "fxtrec-bench-4294967295".into(), "somebody-else".into()]
        );
    }

    #[test]
    fn an_instance_whose_owner_is_not_seen_but_holds_its_lock_stays() {
        let (folder, tracefs) = folder();
        let path = folder.path().join(INSTANCES).join("fxtrec-4294967295-1-0");
        std::fs::create_dir(&path).expect("it is ours");
        let held = lock(&path).expect("nobody has it");
        assert!(remove_stale(&Linux, &tracefs).is_empty());
        drop(held);
        assert_eq!(remove_stale(&Linux, &tracefs).len(), 1);
    }
}
