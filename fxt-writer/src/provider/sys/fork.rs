//! State that a forked child must not inherit: the running session, the manager's client, and the client's sockets.
//!
//! The first two are in a separate page that is all zeros in every child, however
//! it was forked (MADV_WIPEONFORK). So in a child no session runs, nothing is
//! written, and the child may become a provider itself. The buffer is not mapped
//! in a child ([`Mapping`](super::Mapping)). The sockets are closed when `fork`
//! returns in the child: while a copy is open, the manager does not notice that
//! the parent is gone.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::provider::client::Client;

/// The memory that the kernel wipes in a child. Aligned so that nothing else
/// shares its pages, for any page size.
#[repr(C)]
#[cfg_attr(any(target_arch = "x86", target_arch = "x86_64"), repr(align(4096)))]
#[cfg_attr(not(any(target_arch = "x86", target_arch = "x86_64")), repr(align(65536)))]
struct ForkPage {
    /// The running session's generation; 0 while none runs.
    generation: AtomicU32,
    /// The process that this page belongs to; 0 before it has a client.
    owner: AtomicU32,
    /// The client that talks to the manager; it is never freed.
    client: AtomicPtr<Client>,
}

static PAGE: ForkPage = ForkPage {
    generation: AtomicU32::new(0),
    owner: AtomicU32::new(0),
    client: AtomicPtr::new(std::ptr::null_mut()),
};

/// The running session's generation; 0 while none runs.
pub static GENERATION: &AtomicU32 = &PAGE.generation;

/// Distinguishes the sessions of this process.
pub(in crate::provider) type Generation = NonZeroU32;

/// The running session's generation, or 0.
#[inline(always)]
pub(in crate::provider) fn generation() -> u32 {
    // Relaxed: the session that it publishes is behind the client's lock.
    PAGE.generation.load(Ordering::Relaxed)
}

/// Stored in place of a generation if the manager has not answered in time whether a session runs. Trace points count what they would have
/// recorded.
pub(in crate::provider) const OVERDUE: u32 = u32::MAX;

/// Makes trace points count records that they cannot write. Call only when no session can be published at the same time.
pub(in crate::provider) fn begin_overdue() {
    // Release, here and below: as for a session's generation.
    let _ = PAGE.generation.compare_exchange(0, OVERDUE, Ordering::Release, Ordering::Relaxed);
}

/// Makes trace points stop counting; returns whether they counted.
pub(in crate::provider) fn end_overdue() -> bool {
    PAGE.generation.compare_exchange(OVERDUE, 0, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// This process's client, if it has one.
pub(in crate::provider) fn client() -> Option<&'static Client> {
    let client = PAGE.client.load(Ordering::Acquire);
    // SAFETY: null, or what `publish_client` leaked: valid forever. A child sees
    // null, the page having been wiped.
    unsafe { client.as_ref() }
}

/// Makes `client` this process's client unless it has one; returns the client
/// that it has now.
pub(in crate::provider) fn publish_client(
    client: Client,
) -> Result<&'static Client, &'static Client> {
    let ours = Box::into_raw(Box::new(client));
    let swap = PAGE.client.compare_exchange(
        std::ptr::null_mut(),
        ours,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match swap {
        // SAFETY: made just above, and never freed from here on.
        Ok(_) => Ok(unsafe { &*ours }),
        Err(theirs) => {
            // SAFETY: made just above, and not yet shared.
            drop(unsafe { Box::from_raw(ours) });
            // SAFETY: the pointer is not null, so another call leaked it.
            Err(unsafe { &*theirs })
        }
    }
}

/// Makes this process the page's owner, and the page empty in children.
pub(in crate::provider) fn claim_process() -> io::Result<()> {
    static AT_FORK: Once = Once::new();

    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(0);
    let page = &raw const PAGE;
    let whole = usize::try_from(size).is_ok_and(|size| {
        size > 0 && size_of::<ForkPage>().is_multiple_of(size) && page.addr().is_multiple_of(size)
    });
    if !whole {
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("pages of {size} bytes")));
    }
    let address = page.cast_mut().cast();
    // SAFETY: the range is the static above, which starts and ends at page
    // boundaries, so nothing else is wiped; this process keeps its content.
    let wiped = unsafe { libc::madvise(address, size_of::<ForkPage>(), libc::MADV_WIPEONFORK) };
    nix::errno::Errno::result(wiped)?;
    // SAFETY: the handler only stores to atomics and closes descriptors, which is
    // allowed in a child of a process with many threads.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(after_fork_in_child));
    });
    PAGE.owner.store(std::process::id(), Ordering::Release);
    Ok(())
}

/// Registers `last_words` to be called once when the process exits.
pub(in crate::provider) fn at_exit(last_words: extern "C" fn()) {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // SAFETY: the function takes no arguments and exists for as long as the process runs. If there is no memory for it, no handler is
        // called.
        unsafe { libc::atexit(last_words) };
    });
}

/// Whether this process is `owner`, and not a child with a copy of its parent's
/// data.
pub(super) fn owned_here(owner: u32) -> bool {
    PAGE.owner.load(Ordering::Acquire) == owner
}

/// The process that owns the page.
pub(super) fn owner() -> u32 {
    PAGE.owner.load(Ordering::Acquire)
}

/// Sockets to close in a child; -1 for none.
static SOCKETS: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// A socket that is closed in children: one of the connection, or one of the
/// session.
#[derive(Debug)]
pub(in crate::provider) struct OwnSocket {
    fd: OwnedFd,
    place: &'static AtomicI32,
}

impl OwnSocket {
    /// The control socket; at most one exists at a time.
    pub(in crate::provider) fn control(fd: OwnedFd) -> Self {
        Self::at(fd, &SOCKETS[0])
    }

    /// The FIFO of a session; at most one exists at a time.
    pub(in crate::provider) fn fifo(fd: OwnedFd) -> Self {
        Self::at(fd, &SOCKETS[1])
    }

    fn at(fd: OwnedFd, place: &'static AtomicI32) -> Self {
        place.store(fd.as_raw_fd(), Ordering::Release);
        Self { fd, place }
    }
}

impl AsFd for OwnSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Removes the descriptor from the list before its number can be reused for a
/// file that a child must keep.
impl Drop for OwnSocket {
    fn drop(&mut self) {
        let own = self.fd.as_raw_fd();
        // Another socket may already have its number.
        let _ = self.place.compare_exchange(own, -1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

extern "C" fn after_fork_in_child() {
    for socket in &SOCKETS {
        let fd: RawFd = socket.swap(-1, Ordering::AcqRel);
        if fd >= 0 {
            // SAFETY: the child's copy of a socket whose owner, the client's
            // thread, does not exist in the child.
            unsafe { libc::close(fd) };
        }
    }
}
