//! Waits for rings to fill, until another thread requests a stop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Asks other threads to stop, and wakes threads that wait on it.
#[derive(Clone, Debug)]
pub struct StopToken(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: EventFd,
    stopped: AtomicBool,
}

impl StopToken {
    /// A token that has not been stopped.
    ///
    /// # Errors
    /// Errors of eventfd(2).
    pub fn new() -> io::Result<StopToken> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(StopToken(Arc::new(Inner { event, stopped: AtomicBool::new(false) })))
    }

    /// Requests a stop: the current wait and every later one return.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        // The write can only fail because the counter is full; then waiting threads are already awake.
        let _ = self.0.event.write(1);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// The descriptor that becomes readable on [`StopToken::stop`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    /// Waits until one of `fds` is readable, [`StopToken::stop`] is called or `timeout` has passed.
    ///
    /// # Errors
    /// Errors of poll(2); an interruption by a signal is not an error.
    pub fn wait<'a>(
        &'a self,
        fds: impl Iterator<Item = BorrowedFd<'a>>,
        timeout: Duration,
    ) -> io::Result<()> {
        let waiting = std::iter::once(self.fd()).chain(fds);
        let mut polled: Vec<PollFd<'_>> =
            waiting.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // poll takes milliseconds: rounding down would spend the last one before a deadline in a tight loop.
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopping_ends_a_wait_that_would_never_end() {
        let token = StopToken::new().expect("an eventfd");
        let other = token.clone();
        let waiting = std::thread::spawn(move || {
            while !other.is_stopped() {
                other.wait(std::iter::empty(), Duration::from_secs(3600)).expect("poll");
            }
        });
        token.stop();
        waiting.join().expect("the waiting thread ends");
    }

    #[test]
    fn a_wait_of_less_than_a_millisecond_is_a_wait() {
        let token = StopToken::new().expect("an eventfd");
        let before = std::time::Instant::now();
        let wanted = Duration::from_micros(300);
        token.wait(std::iter::empty(), wanted).expect("poll");
        assert!(before.elapsed() >= wanted);
    }
}
