//! Which threads the programs report, when not all: one bit for each possible thread id.
//!
//! Half a megabyte that both sides map. The programs look a bit up in a few
//! instructions, without a call; a program on `task_newtask` gives a child its
//! parent's bit, set or clear, before the child runs. Nothing clears the bit of
//! a thread that ends: its id may be another's by then, and who gets it next
//! gets a bit of its own. An execve(2) of another than the main thread needs
//! nothing: it takes over an id whose bit is set.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::sys::{BpfSys, Memory};
use crate::procfs;
use crate::units::{Pid, Tid};

/// Thread ids stay below the kernel's `PID_MAX_LIMIT`, 2^22.
pub const TIDS: usize = 4 * 1024 * 1024;

pub const WORD_BITS: usize = 64;

/// How many times the threads of a process are listed at most, until no new one turns up.
const LISTINGS: usize = 100;

/// Bytes of the whole set.
pub const SCOPE_BYTES: usize = TIDS / 8;

/// By what the programs tell which threads matter, when not all do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeBy {
    /// By a set of threads and what these start.
    Thread,
    /// By the cgroup that each thread's process is in at the moment: see [`super::groups`].
    Cgroup,
}

/// The set of threads in scope.
#[derive(Debug)]
pub struct ScopeMap(Memory);

impl ScopeMap {
    /// A set without threads.
    ///
    /// # Errors
    /// What bpf(2) or mmap(2) returns.
    pub fn new(sys: &dyn BpfSys) -> io::Result<ScopeMap> {
        Memory::new(sys, SCOPE_BYTES).map(ScopeMap)
    }

    /// The map, for the programs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// Puts a thread in scope; false when it was already.
    pub fn insert(&self, tid: Tid) -> bool {
        let tid = tid.0 as usize % TIDS;
        let word = self.0.word(tid / WORD_BITS * size_of::<u64>());
        let bit = 1_u64.rotate_left((tid % WORD_BITS) as u32);
        word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Puts every thread of the process in scope. One that is made while they are listed by one not yet in scope is in the next list.
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
