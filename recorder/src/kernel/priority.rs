//! Letting the threads that empty the rings go before others.

use std::io;

/// As far as nice goes.
const HIGHEST: libc::c_int = -20;

/// The lowest real-time priority: before every ordinary thread, after every other real-time one.
const REAL_TIME: libc::c_int = 1;

/// A thread of this process, for the calls that change another one's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The calling thread.
    pub fn current() -> ThreadId {
        ThreadId(nix::unistd::gettid().as_raw())
    }

    /// Makes it a real-time thread. Threads and processes that it starts are ordinary ones.
    ///
    /// # Errors
    /// What sched_setscheduler(2) returns: EPERM without CAP_SYS_NICE and without RLIMIT_RTPRIO, and in a cgroup
    /// (v1) that has no real-time runtime.
    pub fn make_real_time(self) -> io::Result<()> {
        self.schedule(libc::SCHED_FIFO, REAL_TIME)
    }

    /// Makes it an ordinary thread again, as nice as it was.
    ///
    /// # Errors
    /// What sched_setscheduler(2) returns; ESRCH when it has ended.
    pub fn make_ordinary(self) -> io::Result<()> {
        self.schedule(libc::SCHED_OTHER, 0)
    }

    fn schedule(self, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: priority };
        let policy = policy | libc::SCHED_RESET_ON_FORK;
        // SAFETY: the parameters are read through a pointer to a live sched_param; a thread id of another process,
        // should this one have been used again, is at worst refused or given a priority.
        let result = unsafe { libc::sched_setscheduler(self.0, policy, &raw const parameters) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Gives the calling thread the highest ordinary priority, where that is permitted.
///
/// Elsewhere it stays as it is: the rings take up what it is late for, and a loss would be counted.
pub fn raise() {
    // SAFETY: setpriority takes three numbers; process 0 means the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
}

/// Keeps the pages of this process that are in memory now, and those of its present mappings that will be, from being
/// taken away: code above all, which a machine short of memory reads from the disk again and again. Nothing is read
/// ahead, so that no more memory is taken than is used anyway.
///
/// # Errors
/// What mlockall(2) returns: EPERM or ENOMEM without CAP_IPC_LOCK, unless RLIMIT_MEMLOCK permits all mappings.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: mlockall takes flags only, and changes no content.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
