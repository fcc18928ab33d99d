//! The threads that the programs report, if not all: one bit for each possible thread id.
//!
//! Half a megabyte that both sides map. The programs look up a bit in a few instructions, without a call; a program on `task_newtask` gives
//! a child its parent's bit, set or clear, before the child runs. The bit of a thread that ends is not cleared: its id may already belong
//! to another thread, and the next owner gets its own bit anyway. An execve(2) of a thread other than the main thread needs no action: the
//! thread takes over an id whose bit is set.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::sys::{BpfSys, Memory};
use crate::procfs;
use crate::units::{Pid, Tid};

/// Thread ids stay below the kernel's `PID_MAX_LIMIT`, 2^22.
pub const TIDS: usize = 4 * 1024 * 1024;

pub const WORD_BITS: usize = 64;

/// The most listings of a process's threads; listing ends earlier if no new thread appears.
const LISTINGS: usize = 100;

/// Bytes of the whole set.
pub const SCOPE_BYTES: usize = TIDS / 8;

/// How the programs decide which threads are in scope, if not all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeBy {
    /// By a set of threads and everything that these start.
    Thread,
    /// By the current cgroup of each thread's process: see [`super::groups`].
    Cgroup,
    /// By the user that each thread belongs to at the event: see `owner.h`.
    Owner,
}

/// The set of threads in scope.
#[derive(Debug)]
pub struct ScopeMap(Memory);

impl ScopeMap {
    /// Makes an empty set.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub fn new(sys: &dyn BpfSys) -> io::Result<ScopeMap> {
        Memory::new(sys, SCOPE_BYTES).map(ScopeMap)
    }

    /// The map, for the programs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// Puts a thread in scope; false if it already was.
    pub fn insert(&self, tid: Tid) -> bool {
        let tid = tid.0 as usize % TIDS;
        let word = self.0.word(tid / WORD_BITS * size_of::<u64>());
        let bit = 1_u64.rotate_left((tid % WORD_BITS) as u32);
        word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Puts every thread of the process in scope. A thread that is created during a listing by a thread not yet in scope is in the next
    /// listing.
    pub fn insert_process(&self, pid: Pid) {
        for _ in 0..LISTINGS {
            let tids = procfs::thread_ids(pid.0);
            let new = tids.into_iter().filter(|tid| self.insert(Tid(*tid))).count();
            if new == 0 {
                return;
            }
        }
    }
}
