//! Determines what a blocked thread waits for, from its system call and the kernel functions on its stack.

use fxtrec_sched::State;

/// The object for which a blocked thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A lock, a condition variable, or perhaps a join: all of them are futexes.
    Lock,
    /// The end of a thread, if the recording distinguishes such futexes.
    Join,
    /// A kernel lock, if the recording distinguishes such waits from others in the same system call.
    KernelLock,
    Sleep,
    /// Readiness of one of several files, or a timeout.
    Poll,
    /// Data that is being written to a disk or read from it.
    Disk,
    /// A network socket.
    Network,
    /// A socket: of the network, or of another process on the machine.
    Socket,
    /// A file, which may be any of these, or a pipe or a terminal.
    Io,
    /// The end of another process.
    Child,
    Signal,
    /// A message or semaphore of System V or POSIX.
    Message,
    Other,
    /// No recorded system call: a page fault, a kernel thread's work, or a system call of a 32-bit program.
    NoSyscall,
    /// It was stopped, by a signal or a tracer.
    Stopped,
    Ended,
    /// The recording does not contain it.
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
            Class::Disk => "disk",
            Class::Network => "network",
            Class::Socket => "socket",
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

    /// The class of a system call, by its name.
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
            "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => Class::Disk,
            "accept" | "accept4" | "connect" | "recvfrom" | "recvmsg" | "recvmmsg"
            | "recvmmsg_time64" | "sendto" | "sendmsg" | "sendmmsg" => Class::Socket,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" | "write" | "pwrite64"
            | "writev" | "pwritev" | "pwritev2" | "sendfile" | "splice" | "tee"
            | "copy_file_range" | "open" | "openat" | "openat2" | "creat" | "close" | "stat"
            | "lstat" | "fstat" | "newfstatat" | "statx" | "access" | "faccessat"
            | "faccessat2" | "getdents" | "getdents64" | "rename" | "renameat" | "renameat2"
            | "unlink" | "unlinkat" | "mkdir" | "mkdirat" | "rmdir" | "truncate" | "ftruncate"
            | "fallocate" | "flock" | "fcntl" | "ioctl" | "io_getevents" | "io_pgetevents"
            | "io_submit" | "io_uring_enter" | "execve" | "execveat" | "swapon" | "mount"
            | "umount2" => Class::Io,
            _ => Class::Other,
        }
    }

    /// The class according to the kernel functions in which the thread waits, the innermost first. A wait for a page of a file does not
    /// identify its cause: a disk, a network or a process may provide the page. `None` if the first conclusive function belongs to
    /// something else, such as a pipe.
    pub fn of_kernel_stack<'a>(functions: impl IntoIterator<Item = &'a str>) -> Option<Class> {
        for function in functions {
            let begins = |list: &[&str]| list.iter().any(|it| function.starts_with(it));
            if begins(LOCAL) {
                return None;
            }
            if begins(DISK) {
                return Some(Class::Disk);
            }
            if begins(NETWORK) {
                return Some(Class::Network);
            }
        }
        None
    }

    /// Whether a stack can determine the class more precisely.
    pub fn is_vague(self) -> bool {
        matches!(self, Class::Disk | Class::Socket | Class::Io | Class::NoSyscall | Class::Unknown)
    }

    /// The class for a thread in this state. `syscall` is the name of the system call; the outer `None` means that it is not recorded, the
    /// inner `None` that the thread is in no system call.
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

/// Prefixes of functions that wait for something on this machine other than a disk: pipes, sockets of processes, terminals, locks, and file
/// systems served by a process.
const LOCAL: &[&str] = &[
    "pipe_",
    "anon_pipe_",
    "fifo_",
    "unix_",
    "n_tty_",
    "tty_",
    "fuse_",
    "__fuse_",
    "mutex_",
    "__mutex_",
    "rwsem_",
    "down_",
    "handle_userfault",
];

/// Prefixes of functions of block devices, of the file systems on them, and of their journals.
const DISK: &[&str] = &[
    "blk_",
    "__blk_",
    "blkdev_",
    "submit_bio",
    "bio_",
    "__bio_",
    "wbt_",
    "rq_qos_",
    "__wait_on_buffer",
    "jbd2_",
    "xlog_",
    "xfs_",
    "ext4_",
    "btrfs_",
    "f2fs_",
    "nvme_",
    "scsi_",
];

/// Prefixes of functions that wait for a network, or for a file on the network.
const NETWORK: &[&str] = &[
    "inet_",
    "inet6_",
    "inet_csk_",
    "tcp_",
    "__tcp_",
    "udp_",
    "__udp_",
    "udpv6_",
    "raw_recvmsg",
    "ping_",
    "sctp_",
    "mptcp_",
    "packet_recvmsg",
    "rpc_",
    "nfs_",
    "nfs4_",
    "cifs_",
    "SMB2_",
    "ceph_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_waits_for_what_its_system_call_is_for() {
        let of = |name| Class::of(State::Sleeping, Some(Some(name)));
        let classes = ["futex", "clock_nanosleep", "epoll_wait", "fsync", "wait4", "membarrier"];
        let expected =
            [Class::Lock, Class::Sleep, Class::Poll, Class::Disk, Class::Child, Class::Other];
        assert_eq!(classes.map(of), expected);
        assert_eq!(Class::of(State::Sleeping, None), Class::Unknown);
        assert_eq!(Class::of(State::Uninterruptible, Some(None)), Class::NoSyscall);
        assert_eq!(Class::of(State::Traced, Some(Some("futex"))), Class::Stopped);
    }

    #[test]
    fn the_innermost_function_that_tells_anything_says_what_is_waited_for() {
        let of = |list: &str| Class::of_kernel_stack(list.split(' '));
        let read = "schedule io_schedule folio_wait_bit_common filemap_read ext4_file_read_iter";
        assert_eq!(of(read), Some(Class::Disk));
        let received = "schedule schedule_timeout wait_woken sk_wait_data tcp_recvmsg_locked";
        assert_eq!(of(received), Some(Class::Network));
        // A page of a file that a process serves, and a lock within a file system.
        for local in [
            "schedule anon_pipe_read vfs_read",
            "schedule schedule_timeout unix_stream_read_generic sock_recvmsg",
            "schedule io_schedule folio_wait_bit_common filemap_read fuse_file_read_iter vfs_read",
            "schedule io_schedule folio_wait_bit_common filemap_fault __do_fault",
            "schedule rwsem_down_write_slowpath ext4_file_write_iter",
            "schedule do_nanosleep",
        ] {
            assert_eq!(of(local), None, "{local}");
        }
    }
}
