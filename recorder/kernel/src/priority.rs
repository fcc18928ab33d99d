//! Letting the threads that empty the rings go before others.

use std::io;

use nix::errno::Errno;

use super::sys::Sys;

/// As far as nice goes.
const HIGHEST: libc::c_int = -20;

/// The same of those that go after every other.
const LOWEST: libc::c_int = 19;

/// As others are.
const ORDINARY: libc::c_int = 0;

/// With a tenth of the share of others.
const PATIENT: libc::c_int = 10;

/// The lowest real-time priority: before every ordinary thread, after every other real-time one.
const REAL_TIME: libc::c_int = 1;

/// A thread of this process, for the calls that change another one's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(libc::pid_t);

impl ThreadId {
    pub fn current() -> ThreadId {
        ThreadId(nix::unistd::gettid().as_raw())
    }

    /// Makes it a real-time thread. Threads and processes that it starts are ordinary ones.
    ///
    /// # Errors
    /// What sched_setscheduler(2) returns: EPERM without CAP_SYS_NICE and without RLIMIT_RTPRIO, and in a cgroup
    /// (v1) that has no real-time runtime.
    pub fn make_real_time(self, sys: &dyn Sys) -> Result<(), Errno> {
        sys.schedule(self.0, libc::SCHED_FIFO, REAL_TIME).map_err(|error| errno(&error))
    }

    /// Makes it an ordinary thread again, as nice as it was.
    ///
    /// # Errors
    /// What sched_setscheduler(2) returns; ESRCH when it has ended.
    pub fn make_ordinary(self, sys: &dyn Sys) -> Result<(), Errno> {
        sys.schedule(self.0, libc::SCHED_OTHER, 0).map_err(|error| errno(&error))
    }

    /// Gives it the highest ordinary priority, and tells whether that was permitted; else it stays as it is.
    pub fn raise(self) -> bool {
        set_niceness(self.0, HIGHEST)
    }

    /// Gives it the priority that most threads have. To raise it again takes the right to do so.
    pub fn be_ordinary(self) {
        set_niceness(self.0, ORDINARY);
    }

    /// Gives it a tenth of the share that an ordinary thread has. To raise it again takes the right to do so.
    pub fn be_patient(self) {
        set_niceness(self.0, PATIENT);
    }
}

fn set_niceness(tid: libc::pid_t, niceness: libc::c_int) -> bool {
    // Linux has a niceness for each thread. It is never 0, which would be the calling one.
    let tid = tid.cast_unsigned();
    // SAFETY: setpriority takes three numbers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, niceness) == 0 }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

/// What the kernel did not grant to the thread that empties the rings, though it was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denied {
    pub real_time: Option<Errno>,
    /// Keeping its memory from being taken away.
    pub locked_memory: Option<Errno>,
}

impl Denied {
    /// Tries both, and gives them back.
    pub fn try_out(sys: &dyn Sys) -> Denied {
        let this = ThreadId::current();
        let real_time = this.make_real_time(sys).err();
        if real_time.is_none() {
            // What could be made a real-time thread can be made an ordinary one.
            let _ = this.make_ordinary(sys);
        }
        let locked_memory = lock_memory(sys).err();
        if locked_memory.is_none() {
            // It asks for no right.
            let _ = sys.unlock_memory();
        }
        Denied { real_time, locked_memory }
    }
}

/// Gives the calling thread the highest ordinary priority, where that is permitted.
///
/// Elsewhere it stays as it is: the rings take up what it is late for, and a loss would be counted.
pub fn raise() {
    ThreadId::current().raise();
}

/// Gives the main thread of another process the calling thread's ordinary priority, where that is permitted, but no higher one than most
/// threads have: what it works on is not limited.
pub fn lend_to(pid: u32) {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return };
    // SAFETY: getpriority takes two numbers; 0 is the calling thread. -1 is a niceness too, and the call does not fail for oneself.
    let own = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    set_niceness(pid, own.max(ORDINARY));
}

/// Gives the calling thread the lowest ordinary priority, which is always permitted.
pub fn lower() {
    set_niceness(ThreadId::current().0, LOWEST);
}

/// Keeps the pages of this process that are in memory now, and those of its present mappings that will be, from being
/// taken away: code above all, which a machine short of memory reads from the disk again and again. Nothing is read
/// ahead, so that no more memory is taken than is used anyway.
///
/// # Errors
/// What mlockall(2) returns: EPERM or ENOMEM without CAP_IPC_LOCK, unless RLIMIT_MEMLOCK permits all mappings.
pub fn lock_memory(sys: &dyn Sys) -> Result<(), Errno> {
    sys.lock_memory().map_err(|error| errno(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    /// The niceness of a process that a thread waits for.
    fn lent(be: impl FnOnce(ThreadId) + Send + 'static) -> libc::c_int {
        // A thread of its own: not everybody may take it back.
        let lent = std::thread::spawn(move || {
            be(ThreadId::current());
            let mut command = std::process::Command::new("cat");
            let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("it runs");
            let pid = child.id();
            lend_to(pid);
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
        assert_eq!(lent(ThreadId::be_patient), PATIENT);
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
