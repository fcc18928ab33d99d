//! The seam between the recorder and the kernel.
//!
//! Every system call that can be refused because of the user or the environment of the recorder goes through [`Sys`]. [`Linux`] makes the
//! real calls; tests use another implementation that records the arguments and answers with the errors of a real kernel, so that messages
//! and fallbacks can be tested on any machine.

use std::ffi::CStr;
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings::perf_event_attr;

/// The system calls that a machine may refuse.
pub trait Sys: Debug {
    /// Reads a whole file of procfs, sysfs or tracefs.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Writes `text` in one call to a file that accepts commands, such as tracefs's list of user probes.
    fn append(&self, path: &Path, text: &str) -> io::Result<()>;

    /// The names in a directory, in order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Mounts tracefs on an existing directory.
    fn mount_tracefs(&self, at: &Path) -> io::Result<()>;

    /// Makes a directory, of mode 700.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory, or a directory that the kernel removes as a whole, such as a tracing instance.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Writes `content` in one call to an existing file.
    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Opens a file for non-blocking reads, close-on-exec.
    fn open_nonblocking(&self, path: &Path) -> io::Result<OwnedFd>;

    /// Opens a perf event that counts on `cpu` for every process (`pid` -1), close-on-exec.
    fn perf_event_open(&self, attr: &mut perf_event_attr, cpu: u32) -> io::Result<OwnedFd>;

    /// Maps `len` bytes of a perf event's ring, readable and writable, shared.
    fn perf_mmap(&self, event: BorrowedFd<'_>, len: usize) -> io::Result<Mapping>;

    /// `PERF_EVENT_IOC_SET_OUTPUT`: makes `event` write into the ring of `ring`.
    fn perf_set_output(&self, event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()>;

    /// `BPF_MAP_UPDATE_ELEM`: lets BPF programs, which look up `event` in `map`, write its samples on its CPU.
    fn perf_give(&self, event: BorrowedFd<'_>, map: BorrowedFd<'_>, cpu: u32) -> io::Result<()>;

    /// `PERF_EVENT_IOC_SET_FILTER`: makes the kernel check each sample of a tracepoint first.
    fn perf_set_filter(&self, event: BorrowedFd<'_>, filter: &CStr) -> io::Result<()>;

    /// `PERF_EVENT_IOC_ID`: the number that identifies records of `event`.
    fn perf_id(&self, event: BorrowedFd<'_>) -> io::Result<u64>;

    /// `PERF_EVENT_IOC_ENABLE`.
    fn perf_enable(&self, event: BorrowedFd<'_>) -> io::Result<()>;

    /// `PERF_EVENT_IOC_DISABLE`.
    fn perf_disable(&self, event: BorrowedFd<'_>) -> io::Result<()>;

    /// sched_setscheduler(2) for a thread of this process. Its children do not inherit this.
    fn schedule(&self, thread: libc::pid_t, policy: i32, priority: i32) -> io::Result<()>;

    /// mlockall(2): keeps the pages of the present mappings in memory once they are used.
    fn lock_memory(&self) -> io::Result<()>;

    /// munlockall(2).
    fn unlock_memory(&self) -> io::Result<()>;

    /// Reads what the event's `read_format` selects: its count first, then up to two more words.
    fn perf_read(&self, event: BorrowedFd<'_>) -> io::Result<PerfWords>;

    /// A socket that receives messages about devices, including CPUs, that come online or go offline.
    fn device_messages(&self) -> io::Result<OwnedFd>;
}

/// The result of reading a perf event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfWords {
    words: [u64; 3],
    len: usize,
}

impl PerfWords {
    /// These words; words after the third are cut off.
    pub fn new(words: &[u64]) -> PerfWords {
        let mut read = PerfWords::default();
        read.len = words.len().min(read.words.len());
        read.words[..read.len].copy_from_slice(&words[..read.len]);
        read
    }

    /// The word at that index, if the kernel returned that many.
    pub fn get(&self, at: usize) -> Option<u64> {
        self.words[..self.len].get(at).copied()
    }
}

/// A shared memory mapping that ends with its owner.
#[derive(Debug)]
pub struct Mapping {
    base: std::ptr::NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes: of `fd` if given, or else anonymous zeroed memory.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn new(fd: Option<BorrowedFd<'_>>, len: usize) -> io::Result<Mapping> {
        let (flags, raw) = match fd {
            Some(fd) => (libc::MAP_SHARED, fd.as_raw_fd()),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, raw, 0)
        };
        Mapping::owned(base, len)
    }

    /// Maps `len` bytes of `fd` from `offset` on, read-only.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn of_part(fd: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset,
            )
        };
        Mapping::owned(base, len)
    }

    /// Maps `len` bytes of private zeroed memory.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn private(len: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        Mapping::owned(base, len)
    }

    /// Releases the memory that a mapping of a file takes in this process, until it is accessed again.
    pub fn forget_pages(&self) {
        // SAFETY: base and len are what mmap returned. The pages of a shared mapping stay in the file.
        let result =
            unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
        // If the kernel does not do this, the memory stays in use for longer.
        let _ = result;
    }

    /// Faults in the pages of `bytes` from `offset` on, as huge pages if possible, and excludes the whole mapping from children: a fork
    /// would make each of its pages cost another fault. If the kernel refuses the memory, it does so when a page is first written to.
    pub fn populate(&self, offset: usize, bytes: usize) {
        let Some(most) = self.len.checked_sub(offset) else { return };
        let (base, bytes) = (self.base().wrapping_add(offset).cast(), bytes.min(most));
        // SAFETY: both ranges are within the mapping, and these kinds of advice do not change its contents.
        unsafe {
            libc::madvise(self.base().cast(), self.len, libc::MADV_DONTFORK);
            libc::madvise(base, bytes, libc::MADV_HUGEPAGE);
            libc::madvise(base, bytes, libc::MADV_POPULATE_WRITE);
        }
    }

    fn owned(base: *mut libc::c_void, len: usize) -> io::Result<Mapping> {
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = std::ptr::NonNull::new(base.cast())
            .ok_or_else(|| io::Error::other("mmap gave the null address"))?;
        Ok(Mapping { base, len })
    }

    /// The first byte; valid for [`Mapping::len`] bytes as long as the mapping lives.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "mmap refuses empty mappings")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len are the result of mmap, and a value that is being dropped is not borrowed.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the mapping is plain memory of the process; which thread holds the owner does not matter.
unsafe impl Send for Mapping {}
// SAFETY: sharing the owner only reveals the address and length of the memory; any access is unsafe and documents why it is sound.
unsafe impl Sync for Mapping {}

#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

/// The size of the first read of a file, in bytes.
const FIRST_READ: usize = 16 * 1024;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Sys for Linux {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        // Some files of tracefs, such as `header_page`, return as much as the first read has space for, and then nothing.
        let mut content = vec![0; FIRST_READ];
        let first = file.read(&mut content)?;
        content.truncate(first);
        file.read_to_end(&mut content)?;
        Ok(content)
    }

    fn append(&self, path: &Path, text: &str) -> io::Result<()> {
        // Without O_APPEND, opening would clear the list.
        std::fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let mut names = std::fs::read_dir(path)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn mount_tracefs(&self, at: &Path) -> io::Result<()> {
        let name = Some("tracefs");
        nix::mount::mount(name, at, name, nix::mount::MsFlags::empty(), None::<&str>)
            .map_err(io::Error::from)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        std::fs::OpenOptions::new().write(true).open(path)?.write_all(content)
    }

    fn open_nonblocking(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut options = std::fs::OpenOptions::new();
        Ok(options.read(true).custom_flags(libc::O_NONBLOCK).open(path)?.into())
    }

    fn perf_event_open(&self, attr: &mut perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
        let cpu = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = libc::c_ulong::from(perf::bindings::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: attr is a live perf_event_attr whose size field contains its length.
        let fd = check(unsafe { perf::perf_event_open(attr, -1, cpu, -1, flags) })?;
        // SAFETY: the call returned a new descriptor that nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn perf_mmap(&self, event: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        Mapping::new(Some(event), len)
    }

    fn perf_set_output(&self, event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both descriptors are open for the time of the call.
        check(unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd() as _) })
            .map(drop)
    }

    fn perf_give(&self, event: BorrowedFd<'_>, map: BorrowedFd<'_>, cpu: u32) -> io::Result<()> {
        crate::bpf::sys::set(map, cpu, event)
    }

    fn perf_set_filter(&self, event: BorrowedFd<'_>, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is open for the time of the call; the kernel only reads the text, which ends with a NUL.
        check(unsafe { perf::ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })
            .map(drop)
    }

    fn perf_id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the descriptor is open during the call, and the kernel writes one u64 to memory that it may write to.
        check(unsafe { perf::ioctls::ID(event.as_raw_fd(), &raw mut id) }).map(|_| id)
    }

    fn perf_enable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: the descriptor is open for the time of the call.
        check(unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) }).map(drop)
    }

    fn perf_disable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: the descriptor is open for the time of the call.
        check(unsafe { perf::ioctls::DISABLE(event.as_raw_fd(), 0) }).map(drop)
    }

    fn schedule(&self, thread: libc::pid_t, policy: i32, priority: i32) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: priority };
        let policy = policy | libc::SCHED_RESET_ON_FORK;
        // SAFETY: the parameters are read through a pointer to a live sched_param; if the thread id was reused by another process, the call
        // is refused or changes that thread's priority.
        check(unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) }).map(drop)
    }

    fn lock_memory(&self) -> io::Result<()> {
        // SAFETY: mlockall takes flags only, and changes no content.
        check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) }).map(drop)
    }

    fn unlock_memory(&self) -> io::Result<()> {
        // SAFETY: munlockall takes no arguments, and changes no memory.
        check(unsafe { libc::munlockall() }).map(drop)
    }

    fn perf_read(&self, event: BorrowedFd<'_>) -> io::Result<PerfWords> {
        let mut words = [0u64; 3];
        // SAFETY: the buffer is writable for the length given, and any bytes make valid integers.
        let got = unsafe {
            libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words))
        };
        match usize::try_from(got) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => Ok(PerfWords::new(&words[..bytes / size_of::<u64>()])),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    fn device_messages(&self) -> io::Result<OwnedFd> {
        super::hotplug::device_messages()
    }
}
