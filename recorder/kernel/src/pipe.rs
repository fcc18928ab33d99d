//! The state of a pipe between its writer and its reader.

use std::os::fd::{AsFd, AsRawFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The maximum number of bytes that a pipe holds; `None` if this is not a pipe.
pub fn capacity(pipe: &impl AsFd) -> Option<u64> {
    fcntl(pipe, FcntlArg::F_GETPIPE_SZ).ok().and_then(|bytes| u64::try_from(bytes).ok())
}

/// Whether there is no reader any more, for the writing end of a pipe.
pub fn reader_has_gone(pipe: &impl AsFd) -> bool {
    let mut wanted = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    let asked = poll(&mut wanted, PollTimeout::ZERO);
    asked.is_ok_and(|ready| ready > 0)
        && wanted[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Unread bytes in the pipe, even after the reader has exited; `None` if this is not a pipe.
pub fn waiting(pipe: &impl AsFd) -> Option<u64> {
    capacity(pipe)?;
    let mut bytes: libc::c_int = 0;
    // SAFETY: for a pipe, FIONREAD writes an int through the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    u64::try_from(bytes).ok().filter(|_| result == 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_a_reader_left_behind_is_counted_when_it_has_gone() {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(&[1; 1000]).expect("room");
        reader.read_exact(&mut [0; 300]).expect("it is there");
        assert_eq!((reader_has_gone(&writer), waiting(&writer)), (false, Some(700)));
        drop(reader);
        // A process that another test starts has a copy of the reader until it runs its program.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !reader_has_gone(&writer) {
            assert!(std::time::Instant::now() < until, "the reader is still there");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(waiting(&writer), Some(700));
        assert!(capacity(&writer).is_some_and(|bytes| bytes >= 4096));
    }

    #[test]
    fn what_is_no_pipe_holds_nothing() {
        let file = tempfile::tempfile().expect("a place for a file");
        assert_eq!((reader_has_gone(&file), waiting(&file), capacity(&file)), (false, None, None));
    }
}
