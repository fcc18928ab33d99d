//! An asymmetric fence between two threads: one executes it often, at no cost; the other executes it rarely, at the cost of a system call.
//!
//! ```text
//!   often                        seldom
//!   store A                      store B
//!   light()                      heavy()
//!   load B                       load A      at least one of the loads sees the other's store
//! ```
//!
//! The effect is the same as that of two sequentially consistent fences. Here `light` only keeps the compiler from reordering, and `heavy`
//! has the kernel run a full fence on every CPU that runs a thread of this process (`membarrier`, Linux 4.14).

pub(super) use sides::{heavy, light, ready};

#[cfg(any(loom, not(all(feature = "provider", target_os = "linux"))))]
mod sides {
    use super::super::sync::{Ordering, fence};

    pub(in super::super) fn ready() -> bool {
        true
    }

    #[inline(always)]
    pub(in super::super) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(in super::super) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

#[cfg(all(not(loom), feature = "provider", target_os = "linux"))]
mod sides {
    use std::sync::atomic::{Ordering, compiler_fence};

    /// Prepares this process for [`heavy`]; returns whether the kernel supports
    /// it. Takes milliseconds the first time.
    pub(in super::super) fn ready() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    /// The frequent side.
    #[inline(always)]
    pub(in super::super) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// The rare side. Returns false if the kernel refuses the call; then there is no ordering.
    pub(in super::super) fn heavy() -> bool {
        let fence = || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        // A child of fork may have to prepare again.
        fence() || (ready() && fence())
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only, and changes no memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}
