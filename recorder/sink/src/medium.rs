//! The final destination of the bytes: a file that can be truncated, or a stream.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use fxtrec_kernel::pipe;

/// A destination of bytes.
pub(super) trait Medium: Send + Debug {
    /// Writes some of the bytes, at least one, and returns how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Truncates to `length`. `false` if this is impossible.
    fn cut_back(&mut self, length: u64) -> io::Result<bool>;

    /// How many of the last bytes written might not have been read yet.
    fn capacity(&self) -> u64 {
        0
    }

    /// How many of the last bytes written will not be read, since the reader has exited.
    fn unread(&self) -> u64 {
        0
    }
}

/// Frees space on a full disk.
pub trait MakeRoom: Send + Sync + Debug {
    /// Whether something was removed, so that another attempt is worthwhile.
    fn make_room(&self) -> bool;
}

/// Retries an operation that fails because the disk or a quota is full, as long as there is something to remove.
pub(super) fn with_room<T, E>(
    room: Option<&dyn MakeRoom>,
    errno: impl Fn(&E) -> Option<i32>,
    mut act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        let result = act();
        let Err(error) = &result else { return result };
        let is_full = matches!(errno(error), Some(libc::ENOSPC | libc::EDQUOT));
        if !is_full || !room.is_some_and(MakeRoom::make_room) {
            return result;
        }
    }
}

/// A regular file that was just created.
#[derive(Debug)]
pub(super) struct RegularFile {
    pub(super) file: File,
    pub(super) room: Option<Arc<dyn MakeRoom>>,
}

impl Medium for RegularFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        with_room(self.room.as_deref(), io::Error::raw_os_error, || self.file.write(bytes))
    }

    fn cut_back(&mut self, length: u64) -> io::Result<bool> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
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
                // The process that passed the pipe may have made it non-blocking.
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
        // While the pipe has a reader, it may still read them.
        if pipe::reader_has_gone(&self.0) { pipe::waiting(&self.0).unwrap_or(0) } else { 0 }
    }
}

/// Writes all of the bytes. On an error, returns how many were written before it.
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
