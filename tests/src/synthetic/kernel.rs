//! The simulated kernel of the synthetic machine, for everything that the source `bpf` requests.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fxtrec::commands::record::EventKernel;
use fxtrec::kernel::bell::Bell;
use fxtrec::kernel::bpf::lane::at;
use fxtrec::kernel::bpf::sys::{BpfSys, MapKind, MapSpec, ProgramSpec};
use fxtrec::kernel::perf::page_size;
use fxtrec::kernel::sys::{Linux, Mapping, PerfWords, Sys};
use nix::fcntl::{FallocateFlags, FcntlArg, FdFlag, fallocate, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use perf_event_open_sys::bindings::{perf_event_attr, perf_event_mmap_page};

use super::Wiring;

/// A machine with given lists of CPUs. Clones represent the same machine.
#[derive(Clone, Debug)]
pub struct SyntheticKernel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    online: String,
    possible: String,
    wiring_path: PathBuf,
    bell: Bell,
    /// Lanes and their sizes, before their CPUs are known.
    made: Mutex<Vec<(RawFd, usize)>>,
    /// The recorder's CPU time when the events began, in nanoseconds.
    begun: Mutex<u64>,
    /// Nothing is ever sent, but the sender's end must stay open.
    devices: (UnixDatagram, UnixDatagram),
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPU time of this process so far, in nanoseconds.
///
/// # Panics
/// Never on Linux.
pub fn cpu_time() -> u64 {
    let used: Usage = getrusage(UsageWho::RUSAGE_SELF).expect("it is this process");
    let nanos = (used.user_time() + used.system_time()).num_nanoseconds();
    u64::try_from(nanos).expect("time that was used")
}

/// What COMMAND inherits.
fn inherited(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).map(drop).map_err(io::Error::from)
}

/// A descriptor that poll(2) never reports as readable.
fn silent() -> io::Result<OwnedFd> {
    Ok(EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?.into())
}

impl SyntheticKernel {
    /// A kernel with these lists of CPUs, in the form of sysfs, which writes its [`Wiring`] to a file when it has lanes.
    ///
    /// # Errors
    /// Errors of the real kernel: descriptors.
    pub fn new(online: &str, possible: &str, wiring: &Path) -> io::Result<SyntheticKernel> {
        let bell = Bell::new()?;
        inherited(&bell)?;
        Ok(SyntheticKernel(Arc::new(Shared {
            online: online.to_owned(),
            possible: possible.to_owned(),
            wiring_path: wiring.to_owned(),
            bell,
            made: Mutex::default(),
            begun: Mutex::default(),
            devices: UnixDatagram::pair()?,
        })))
    }

    /// The recorder's CPU time since the events began, in nanoseconds.
    pub fn cpu_time(&self) -> u64 {
        cpu_time().saturating_sub(*lock(&self.0.begun))
    }

    /// The size of all lanes in bytes.
    pub fn lane_bytes(&self) -> usize {
        lock(&self.0.made).iter().map(|(_, bytes)| bytes).sum()
    }
}

impl EventKernel for SyntheticKernel {
    fn sys(&self) -> Box<dyn Sys + Send + Sync> {
        Box::new(self.clone())
    }

    fn bpf(&self) -> Box<dyn BpfSys + Send> {
        Box::new(self.clone())
    }
}

impl BpfSys for SyntheticKernel {
    fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
        let map = memfd_create(c"synthetic", MFdFlags::MFD_CLOEXEC)?;
        let bytes = spec.value_bytes as usize * spec.entries as usize;
        // As with BPF maps, all memory is there from the beginning.
        let bytes_of_pages = i64::try_from(bytes.next_multiple_of(page_size()));
        fallocate(&map, FallocateFlags::empty(), 0, bytes_of_pages.map_err(io::Error::other)?)?;
        // Only lanes are such large mappings.
        let is_lane = spec.mapped && spec.kind == MapKind::Array && bytes > at::RECORDS;
        if is_lane && spec.entries == 1 {
            lock(&self.0.made).push((map.as_raw_fd(), bytes));
        }
        Ok(map)
    }

    fn map_set_maps(&self, _: BorrowedFd<'_>, inner: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
        let made = lock(&self.0.made);
        let lanes = inner.iter().filter_map(|(cpu, map)| {
            let (fd, bytes) = made.iter().find(|(fd, _)| *fd == map.as_raw_fd())?;
            Some((*cpu, *fd, *bytes))
        });
        inner.iter().try_for_each(|(_, map)| inherited(map))?;
        let wiring = Wiring { bell: self.0.bell.as_fd().as_raw_fd(), lanes: lanes.collect() };
        wiring.write(&self.0.wiring_path)
    }

    fn program_load(&self, _: &ProgramSpec<'_>, _: Option<&mut [u8]>) -> io::Result<OwnedFd> {
        silent()
    }

    fn attach(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        *lock(&self.0.begun) = cpu_time();
        silent()
    }

    fn missed(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(0)
    }

    fn bell(&self) -> Option<Bell> {
        Some(self.0.bell.clone())
    }
}

impl Sys for SyntheticKernel {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let list = |text: &str| Ok(format!("{text}\n").into_bytes());
        match path.to_str() {
            Some("/sys/devices/system/cpu/online") => list(&self.0.online),
            Some("/sys/devices/system/cpu/possible") => list(&self.0.possible),
            _ => Linux.read(path),
        }
    }

    fn append(&self, path: &Path, text: &str) -> io::Result<()> {
        Linux.append(path, text)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Linux.list(path)
    }

    fn mount_tracefs(&self, at: &Path) -> io::Result<()> {
        Linux.mount_tracefs(at)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        Linux.make_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Linux.remove_dir(path)
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        Linux.write_file(path, content)
    }

    fn open_nonblocking(&self, path: &Path) -> io::Result<OwnedFd> {
        Linux.open_nonblocking(path)
    }

    fn perf_event_open(&self, _: &mut perf_event_attr, _: u32) -> io::Result<OwnedFd> {
        silent()
    }

    fn perf_mmap(&self, _: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        let mapping = Mapping::new(None, len)?;
        let page = mapping.base().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping is zeroed, writable, aligned to a page and larger than the structure, and nothing else uses it.
        unsafe {
            (*page).data_offset = page_size() as u64;
            (*page).data_size = (len - page_size()) as u64;
        }
        Ok(mapping)
    }

    fn perf_set_output(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn perf_give(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn perf_set_filter(&self, _: BorrowedFd<'_>, _: &CStr) -> io::Result<()> {
        Ok(())
    }

    fn perf_id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(u64::from(event.as_raw_fd().unsigned_abs()))
    }

    fn perf_enable(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn perf_disable(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn schedule(&self, thread: libc::pid_t, policy: i32, priority: i32) -> io::Result<()> {
        Linux.schedule(thread, policy, priority)
    }

    fn lock_memory(&self) -> io::Result<()> {
        Linux.lock_memory()
    }

    fn unlock_memory(&self) -> io::Result<()> {
        Linux.unlock_memory()
    }

    fn perf_read(&self, _: BorrowedFd<'_>) -> io::Result<PerfWords> {
        Ok(PerfWords::new(&[0, 0, 0]))
    }

    fn device_messages(&self) -> io::Result<OwnedFd> {
        Ok(self.0.devices.1.try_clone()?.into())
    }
}

/// Takes over an inherited descriptor by its number.
///
/// # Safety
/// It must be open, and nothing else may close it.
pub(super) unsafe fn inherited_fd(fd: RawFd) -> OwnedFd {
    // SAFETY: guaranteed by the caller.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
