//! Gives the threads that empty the rings precedence over other threads.

use std::io;

use nix::errno::Errno;

use super::sys::Sys;

/// The highest priority in terms of nice.
const HIGHEST: libc::c_int = -20;

/// The lowest priority in terms of nice.
const LOWEST: libc::c_int = 19;

/// The default niceness.
const ORDINARY: libc::c_int = 0;

/// A tenth of the CPU share of ordinary threads.
const PATIENT: libc::c_int = 10;

/// The lowest real-time priority: above every ordinary thread, below every other real-time thread.
const REAL_TIME: libc::c_int = 1;

/// A thread of this process, for the calls that change the priority of another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(libc::pid_t);

impl ThreadId {
    pub fn current() -> ThreadId {
        ThreadId(nix::unistd::gettid().as_raw())
    }

    /// Makes it a real-time thread. Threads and processes that it starts are ordinary.
    ///
    /// # Errors
    /// Errors of sched_setscheduler(2): EPERM without CAP_SYS_NICE and without RLIMIT_RTPRIO, and in a cgroup (v1) that has no real-time
    /// runtime.
    pub fn make_real_time(self, sys: &dyn Sys) -> Result<(), Errno> {
        sys.schedule(self.0, libc::SCHED_FIFO, REAL_TIME).map_err(|error| errno(&error))
    }

    /// Makes it an ordinary thread again, with its former niceness.
    ///
    /// # Errors
    /// Errors of sched_setscheduler(2); ESRCH if the thread has ended.
    pub fn make_ordinary(self, sys: &dyn Sys) -> Result<(), Errno> {
        sys.schedule(self.0, libc::SCHED_OTHER, 0).map_err(|error| errno(&error))
    }

    /// Gives the thread the highest ordinary priority, and returns whether that was permitted; otherwise nothing changes.
    pub fn raise(self) -> bool {
        set_niceness(self.0, HIGHEST)
    }

    /// Gives it the default priority. Raising it again needs the right to do so.
    pub fn be_ordinary(self) {
        set_niceness(self.0, ORDINARY);
    }

    /// Gives it a tenth of an ordinary thread's CPU share. Raising it again needs the right to do so.
    pub fn be_background(self) {
        set_niceness(self.0, PATIENT);
    }
}

fn set_niceness(tid: libc::pid_t, niceness: libc::c_int) -> bool {
    // On Linux each thread has its own niceness. The id is never 0, which would mean the calling thread.
    let tid = tid.cast_unsigned();
    // SAFETY: setpriority takes three numbers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, niceness) == 0 }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

/// The rights that the kernel did not grant to the thread that empties the rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denied {
    pub real_time: Option<Errno>,
    /// Locking its memory.
    pub locked_memory: Option<Errno>,
}

impl Denied {
    /// Tries both, and reverts them.
    pub fn try_out(sys: &dyn Sys) -> Denied {
        let this = ThreadId::current();
        let real_time = this.make_real_time(sys).err();
        if real_time.is_none() {
            // A thread that could become a real-time one can become ordinary again.
            let _ = this.make_ordinary(sys);
        }
        let locked_memory = lock_memory(sys).err();
        if locked_memory.is_none() {
            // This needs no right.
            let _ = sys.unlock_memory();
        }
        Denied { real_time, locked_memory }
    }
}

/// Gives the calling thread the highest ordinary priority, if permitted.
///
/// Otherwise nothing changes: the rings hold the delayed events, and a loss would be counted.
pub fn raise() {
    ThreadId::current().raise();
}

/// Gives the main thread of another process the calling thread's ordinary priority, if permitted, but no higher than the default, because
/// the amount of its work is not limited.
pub fn lend_priority_to(pid: u32) {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return };
    // SAFETY: getpriority takes two numbers; 0 is the calling thread. -1 is a valid niceness too, and for the calling thread, the call
    // cannot fail.
    let own = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    set_niceness(pid, own.max(ORDINARY));
}

/// Gives the calling thread the lowest ordinary priority, which is always permitted.
pub fn lower() {
    set_niceness(ThreadId::current().0, LOWEST);
}

/// Locks the pages of this process that are in memory now, and the pages that its present mappings will get. This is mainly for code, which
/// a machine short of memory would read from the disk repeatedly. Nothing is read ahead, so this takes no more memory than is used anyway.
///
/// # Errors
/// Errors of mlockall(2): EPERM or ENOMEM without CAP_IPC_LOCK, unless RLIMIT_MEMLOCK permits all mappings.
pub fn lock_memory(sys: &dyn Sys) -> Result<(), Errno> {
    sys.lock_memory().map_err(|error| errno(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    /// The niceness of a process that a thread waits for.
    fn lent(be: impl FnOnce(ThreadId) + Send + 'static) -> libc::c_int {
        // In a separate thread, because not every user may raise the niceness again.
        let lent = std::thread::spawn(move || {
            be(ThreadId::current());
            let mut command = std::process::Command::new("cat");
            let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("it runs");
            let pid = child.id();
            lend_priority_to(pid);
            // SAFETY: getpriority takes two numbers.
            let lent = unsafe { libc::getpriority(libc::PRIO_PROCESS, pid) };
            drop(child.stdin.take());
            child.wait().expect("it ends with its input");
            lent
        });
        lent.join().expect("it ends well")
    }

    #[test]
    fn another_process_is_as_patient_as_who_waits_for_it() {
        assert_eq!(lent(ThreadId::be_background), PATIENT);
    }

    #[test]
    fn another_process_does_not_go_before_others() {
        let ordinary = lent(|thread| {
            thread.raise();
        });
        assert!(ordinary >= ORDINARY, "{ordinary}");
    }

    #[test]
    fn what_is_granted_to_a_try_is_given_back() {
        let machine = Fake::default();
        assert_eq!(Denied::try_out(&machine), Denied::default());
        let asked = ["schedule 1 1", "schedule 0 0", "lock_memory", "unlock_memory"];
        assert_eq!(machine.asked(), asked);
    }

    #[test]
    fn each_refusal_is_kept_with_its_errno() {
        let machine =
            Fake::default().fail("schedule", libc::EPERM).fail("lock_memory", libc::ENOMEM);
        let denied = Denied { real_time: Some(Errno::EPERM), locked_memory: Some(Errno::ENOMEM) };
        assert_eq!(Denied::try_out(&machine), denied);
        assert_eq!(machine.asked(), ["schedule 1 1", "lock_memory"]);
    }
}
