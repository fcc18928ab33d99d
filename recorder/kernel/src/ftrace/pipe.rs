//! Reading the pages of one CPU's ring.
//!
//! A page that is full is taken out of the ring whole; of the one that is being
//! written, the kernel copies what it holds by now, so that nothing stays behind
//! for long on a quiet CPU.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

/// An open `trace_pipe_raw`, which never waits.
#[derive(Debug)]
pub struct RawPipe {
    fd: OwnedFd,
}

impl RawPipe {
    /// Takes over the open file.
    pub fn new(fd: OwnedFd) -> RawPipe {
        RawPipe { fd }
    }

    /// Puts the oldest unread page into `page`, which is as long as a page of the ring. False when there is nothing.
    ///
    /// # Errors
    /// What read(2) returns.
    pub fn read(&self, page: &mut [u8]) -> io::Result<bool> {
        match nix::unistd::read(&self.fd, page) {
            Ok(read) => Ok(read == page.len()),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The descriptor that poll(2) reports readable when the ring is as full as the instance's `buffer_percent`.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
