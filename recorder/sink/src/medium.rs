//! What bytes are written to in the end: something with a length that can be
//! cut back, or something that only flows.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use fxtrec_kernel::pipe;

/// The end of the way.
pub(super) trait Medium: Send + Debug {
    /// Writes some of the bytes, at least one, and says how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts everything behind `length` off. `false` where nothing can be taken back.
    fn cut_back(&mut self, length: u64) -> io::Result<bool>;

    /// How many of the bytes written last may still wait to be read.
    fn capacity(&self) -> u64 {
        0
    }

    /// How many of the bytes written last nobody is going to read, since the reader has gone.
    fn unread(&self) -> u64 {
        0
    }
}

/// A regular file that was just created.
#[derive(Debug)]
pub(super) struct RegularFile(pub(super) File);

impl Medium for RegularFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn cut_back(&mut self, length: u64) -> io::Result<bool> {
        self.0.set_len(length)?;
        self.0.seek(SeekFrom::Start(length))?;
        Ok(true)
    }
}

/// A pipe, a fifo, a device.
#[derive(Debug)]
pub(super) struct Stream(pub(super) File);

impl Medium for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                // Whoever gave us the pipe may have made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut wanted = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
                    match poll(&mut wanted, PollTimeout::NONE) {
                        Ok(_) | Err(nix::Error::EINTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                result => return result,
            }
        }
    }

    fn cut_back(&mut self, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn capacity(&self) -> u64 {
        pipe::capacity(&self.0).unwrap_or(0)
    }

    fn unread(&self) -> u64 {
        // As long as there is a reader, it may still take them.
        if pipe::reader_has_gone(&self.0) { pipe::waiting(&self.0).unwrap_or(0) } else { 0 }
    }
}

/// Writes all of the bytes. On an error, says how many were written before it.
pub(super) fn write_all(medium: &mut dyn Medium, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match medium.write(&bytes[done..]) {
            Ok(0) => return Err((done, ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}
