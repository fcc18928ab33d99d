//! Wakes a thread that waits for descriptors, each time there is work for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Stays readable until it is answered. All clones refer to the same bell.
#[derive(Clone, Debug)]
pub struct Bell(Arc<EventFd>);

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// Errors of eventfd(2).
    pub fn new() -> io::Result<Bell> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Bell(Arc::new(event)))
    }

    pub fn ring(&self) {
        // The write can only fail because the counter is full; in that case it is already readable.
        let _ = self.0.write(1);
    }

    /// Makes the descriptor unreadable until the bell is rung again. Call this before checking for the work.
    pub fn answer(&self) {
        // An error means that the bell was not rung.
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn rings(bell: &Bell) -> bool {
        let mut polled = [PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).expect("poll") == 1
    }

    #[test]
    fn a_bell_rings_until_it_is_answered_and_can_be_rung_again() {
        let bell = Bell::new().expect("an eventfd");
        assert!(!rings(&bell));
        for _ in 0..2 {
            bell.clone().ring();
            bell.ring();
            assert!(rings(&bell));
            bell.answer();
            assert!(!rings(&bell));
        }
    }
}
