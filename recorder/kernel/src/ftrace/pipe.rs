//! Reads the pages of one CPU's ring.
//!
//! A full page is removed from the ring as a whole. The kernel copies the current content of the page that is being written, so on a quiet
//! CPU no event stays unread for long.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

/// An open `trace_pipe_raw` that never blocks.
#[derive(Debug)]
pub struct RawPipe {
    fd: OwnedFd,
}

impl RawPipe {
    /// Takes ownership of the open file.
    pub fn new(fd: OwnedFd) -> RawPipe {
        RawPipe { fd }
    }

    /// Reads the oldest unread page into `page`, which has the size of a page of the ring. Returns false if there is no data.
    ///
    /// # Errors
    /// Errors of read(2).
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
