//! A machine with any number of CPUs, whose lanes are filled by a process instead of the kernel.
//!
//! ```text
//!   recorder   fxtrec's own record::run_on, with a SyntheticKernel: maps are memfds, perf's rings stay empty
//!                |  COMMAND inherits the memfds and the bell; a file says which lane is whose
//!   player     writes switches, wakeups and names into the lanes, as the programs of kernel::bpf do
//! ```
//!
//! No part of fxtrec is replaced: from the lanes on, the recording is that of `fxtrec -a --source bpf`. The differences from real CPUs: one
//! process writes all lanes, so it shares a memory cache with one CPU only, and writing does not slow down the events.

pub mod kernel;
pub mod lane;
pub mod player;
pub mod verdict;

use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// The data about a recorder's lanes that a player needs: inherited descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiring {
    /// The descriptor that wakes the reader.
    pub bell: RawFd,
    /// The lane of each CPU: its number, its descriptor, and its size in bytes.
    pub lanes: Vec<(u32, RawFd, usize)>,
}

impl Wiring {
    /// Writes it to a file.
    ///
    /// # Errors
    /// Errors of writing the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let lanes = self.lanes.iter().map(|(cpu, fd, bytes)| format!("{cpu} {fd} {bytes}\n"));
        std::fs::write(path, format!("{}\n{}", self.bell, lanes.collect::<String>()))
    }

    /// Reads it back.
    ///
    /// # Errors
    /// Errors of reading the file, or that it contains something else.
    pub fn read(path: &Path) -> io::Result<Wiring> {
        let text = std::fs::read_to_string(path)?;
        let parse = || -> Option<Wiring> {
            let mut lines = text.lines();
            let bell = lines.next()?.parse().ok()?;
            let lane = |line: &str| {
                let mut words = line.split(' ');
                let (cpu, fd) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                Some((cpu, fd, words.next()?.parse().ok()?))
            };
            Some(Wiring { bell, lanes: lines.map(lane).collect::<Option<_>>()? })
        };
        parse().ok_or_else(|| io::Error::other(format!("{}: no wiring", path.display())))
    }
}
