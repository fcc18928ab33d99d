//! What a thread waits for while it is blocked, by the system call that it is in.

use fxtrec_sched::State;

/// What a blocked thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A lock, a condition, perhaps the end of a thread: all of them are futexes.
    Lock,
    /// The end of a thread, where the recording tells such futexes from others.
    Join,
    /// A lock of the kernel, where the recording tells such waits from others in the same system call.
    KernelLock,
    Sleep,
    /// Any of several files to be ready, or a time.
    Poll,
    /// A file, a pipe, a socket, a disk.
    Io,
    /// The end of another process.
    Child,
    Signal,
    /// A message or semaphore of System V or POSIX.
    Message,
    Other,
    /// None that is recorded: a page of memory, a kernel thread's work, or one of a 32-bit program.
    NoSyscall,
    /// It was stopped, by a signal or a tracer.
    Stopped,
    Ended,
    /// The recording does not say.
    Unknown,
}

impl Class {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Lock => "lock",
            Class::Join => "join",
            Class::KernelLock => "kernel_lock",
            Class::Sleep => "sleep",
            Class::Poll => "poll",
            Class::Io => "io",
            Class::Child => "child",
            Class::Signal => "signal",
            Class::Message => "message",
            Class::Other => "other",
            Class::NoSyscall => "no_syscall",
            Class::Stopped => "stopped",
            Class::Ended => "ended",
            Class::Unknown => "unknown",
        }
    }

    /// That of a system call by its name.
    pub fn of_syscall(name: &str) -> Class {
        match name {
            "futex" | "futex_wait" | "futex_waitv" | "futex_time64" => Class::Lock,
            "nanosleep" | "clock_nanosleep" | "clock_nanosleep_time64" => Class::Sleep,
            "poll" | "ppoll" | "ppoll_time64" | "select" | "_newselect" | "pselect6"
            | "pselect6_time64" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Class::Poll,
            "wait4" | "waitid" | "waitpid" | "vfork" => Class::Child,
            "pause"
            | "rt_sigtimedwait"
            | "rt_sigtimedwait_time64"
            | "rt_sigsuspend"
            | "sigsuspend" => Class::Signal,
            "msgrcv" | "msgsnd" | "semop" | "semtimedop" | "semtimedop_time64"
            | "mq_timedreceive" | "mq_timedsend" => Class::Message,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" | "write" | "pwrite64"
            | "writev" | "pwritev" | "pwritev2" | "sendfile" | "splice" | "tee"
            | "copy_file_range" | "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range"
            | "msync" | "open" | "openat" | "openat2" | "creat" | "close" | "stat" | "lstat"
            | "fstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2"
            | "getdents" | "getdents64" | "rename" | "renameat" | "renameat2" | "unlink"
            | "unlinkat" | "mkdir" | "mkdirat" | "rmdir" | "truncate" | "ftruncate"
            | "fallocate" | "flock" | "fcntl" | "ioctl" | "io_getevents" | "io_pgetevents"
            | "io_submit" | "io_uring_enter" | "accept" | "accept4" | "connect" | "recvfrom"
            | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" | "execve"
            | "execveat" | "swapon" | "mount" | "umount2" => Class::Io,
            _ => Class::Other,
        }
    }

    /// That of a thread in this state. `syscall` is the name of the system call that it is in; the outer `None` where the
    /// recording does not tell, the inner one where it is in none.
    pub fn of(state: State, syscall: Option<Option<&str>>) -> Class {
        match (state, syscall) {
            (state, _) if state.is_stopped() => Class::Stopped,
            (state, _) if state.is_over() => Class::Ended,
            (_, None) => Class::Unknown,
            (_, Some(None)) => Class::NoSyscall,
            (_, Some(Some(name))) => Class::of_syscall(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_waits_for_what_its_system_call_is_for() {
        let of = |name| Class::of(State::Sleeping, Some(Some(name)));
        let classes = ["futex", "clock_nanosleep", "epoll_wait", "fsync", "wait4", "membarrier"];
        let expected =
            [Class::Lock, Class::Sleep, Class::Poll, Class::Io, Class::Child, Class::Other];
        assert_eq!(classes.map(of), expected);
        assert_eq!(Class::of(State::Sleeping, None), Class::Unknown);
        assert_eq!(Class::of(State::Uninterruptible, Some(None)), Class::NoSyscall);
        assert_eq!(Class::of(State::Traced, Some(Some("futex"))), Class::Stopped);
    }
}
