//! The buffer shared with the manager, mapped into this process.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use nix::sys::stat::fstat;

use super::fork;
use crate::engine::{Config, Engine, Mode, OnFull};
use crate::packet::Packet;

/// The maximum memory populated in advance, which takes the client's thread about 20 ms.
const MAX_POPULATED_BYTES: usize = 64 << 20;

/// The reason why a descriptor is not accepted as a buffer.
#[derive(Debug, thiserror::Error)]
pub(in crate::provider) enum BufferError {
    /// It can shrink, and touching memory beyond its end would kill the process.
    #[error("the buffer is not sealed against shrinking (F_SEAL_SHRINK)")]
    NotSealed,
    /// Its size is not the announced one.
    #[error("the buffer has {found} bytes instead of {announced}")]
    Size {
        /// Bytes that START announced.
        announced: u64,
        /// Bytes that the file has.
        found: i64,
    },
    /// A system call failed.
    #[error("cannot use the buffer: {0}")]
    Io(#[from] io::Error),
}

impl From<nix::Error> for BufferError {
    fn from(error: nix::Error) -> Self {
        Self::Io(error.into())
    }
}

/// A mapped buffer. The memory stays mapped until this value is dropped, although after [`let_go`](Self::let_go) it is no longer the
/// manager's file.
#[derive(Debug)]
pub(in crate::provider) struct Mapping {
    address: NonNull<libc::c_void>,
    bytes: NonZeroUsize,
    /// The process that mapped it. Children do not inherit it.
    owner: u32,
    /// Device and inode, which identify the buffer.
    file: (u64, u64),
}

// SAFETY: the mapping is plain memory; users of its address are responsible for its use from several threads.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; methods of `&Mapping` only make system calls.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `announced` bytes of `file`, which must be sealed so that its size cannot shrink.
    pub(in crate::provider) fn share(
        file: BorrowedFd<'_>,
        announced: u64,
    ) -> Result<Self, BufferError> {
        let seals = SealFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GET_SEALS)?);
        if !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(BufferError::NotSealed);
        }
        let stat = fstat(file)?;
        let size = usize::try_from(announced).ok().and_then(NonZeroUsize::new);
        let size = size.filter(|_| u64::try_from(stat.st_size) == Ok(announced));
        let Some(bytes) = size else {
            return Err(BufferError::Size { announced, found: stat.st_size });
        };
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses affects no existing memory. The file cannot shrink; this was just
        // checked.
        let address = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, file, 0) }?;
        let file = (stat.st_dev, stat.st_ino);
        let mapping = Self { address, bytes, owner: fork::owner(), file };
        // SAFETY: the range is the mapping just made. Children do not get it, so
        // they cannot write to it.
        unsafe { madvise(address, bytes.get(), MmapAdvise::MADV_DONTFORK) }?;
        Ok(mapping)
    }

    /// Whether this mapping is of `file`.
    pub(in crate::provider) fn is_of(&self, file: BorrowedFd<'_>) -> bool {
        fstat(file).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file)
    }

    /// Makes an engine of this mode in the memory, which is zeroed first.
    ///
    /// # Errors
    ///
    /// Returns an error when the memory cannot be cleared, or its size does not suit an engine.
    pub(in crate::provider) fn into_engine(
        self,
        mode: Mode,
        grace: Duration,
        notify: impl Fn(Packet) + Send + Sync + 'static,
    ) -> io::Result<(Arc<Engine>, Arc<Self>)> {
        // SAFETY: the range is the whole mapping of a shared memory file; nothing else in this process uses it yet. Pages that were never
        // written cost almost nothing.
        unsafe { madvise(self.address, self.bytes.get(), MmapAdvise::MADV_REMOVE) }?;
        let config = Config { mode, bytes: self.bytes.get(), on_full: OnFull::Drop, grace };
        let mapping = Arc::new(self);
        let keep = Arc::clone(&mapping);
        // SAFETY: the mapping is valid for that many bytes until it is dropped, which
        // `keep` puts off. This function took the mapping, which nothing else used, and afterwards only the engine has its address: the
        // methods of `Mapping` make system calls that leave it valid.
        let engine = unsafe { Engine::with_memory(config, mapping.address.cast(), keep, notify) };
        let engine = engine.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok((engine, mapping))
    }

    /// Populates pages in advance, so that recording takes no page faults; all of
    /// them, unless that would take a long time. A failure has no other effect.
    pub(in crate::provider) fn populate(&self) {
        let bytes = self.bytes.get().min(MAX_POPULATED_BYTES);
        // SAFETY: the advice changes no content, even if the memory is in use.
        unsafe {
            libc::madvise(self.address.as_ptr(), bytes, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Releases the manager's memory. Since late writers may still have its
    /// address, private memory replaces it atomically, where their stores do no
    /// harm.
    pub(in crate::provider) fn let_go(&self) {
        let address = NonZeroUsize::new(self.address.as_ptr().addr());
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED | MapFlags::MAP_NORESERVE;
        // SAFETY: the range is this mapping, which stays valid for reads and writes
        // throughout: the kernel replaces one with the other under its lock.
        // Only the engine's atomics access it, and they read zeros from then on.
        // If there is no memory for the change, the old mapping stays until the drop.
        let _ = unsafe { mmap_anonymous(address, self.bytes, access, flags) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if fork::owned_here(self.owner) {
            // SAFETY: mapped by `share` in this process, and nothing has its address any more: the engine that used it kept this value
            // alive.
            let unmapped = unsafe { munmap(self.address, self.bytes.get()) };
            debug_assert_eq!(unmapped, Ok(()));
        }
    }
}
