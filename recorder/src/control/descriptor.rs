//! The descriptor that a client passes: what it may be, and writing to it without being held up for ever.
//!
//! A regular file takes what it is given. A pipe or socket takes it when its reader does: it is written to without
//! waiting, and waited for with poll(2), so that whoever waits can be woken.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::SockType as SocketType;
use nix::sys::socket::{MsgFlags, SockType, getsockopt, send};

/// What was passed.
#[derive(Debug)]
pub(super) enum Descriptor {
    /// A regular file.
    File(File),
    /// A pipe, by a description of our own that does not wait.
    Pipe(File),
    /// A stream socket.
    Socket(OwnedFd),
}

/// Why a descriptor is no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Unfit {
    /// It cannot be written to.
    #[error("it is not open for writing")]
    ReadOnly,
    /// It is of a kind that can be anything.
    #[error("it is neither a regular file, nor a pipe, nor a stream socket")]
    Kind,
    /// Nobody reads the pipe, which has a name. Of one without the first write tells.
    #[error("it is a pipe that nobody reads")]
    NoReader,
    /// A system call failed.
    #[error("it cannot be examined: {0}")]
    System(#[from] io::Error),
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// So many bytes were taken.
    Bytes(usize),
    /// None were: the reader is not ready.
    Nothing,
}

impl Descriptor {
    /// Takes a descriptor for output.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(super) fn new(passed: OwnedFd) -> Result<Descriptor, Unfit> {
        let flags = fcntl(&passed, FcntlArg::F_GETFL).map_err(io::Error::from)?;
        let access = OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE;
        if access != OFlag::O_WRONLY && access != OFlag::O_RDWR {
            return Err(Unfit::ReadOnly);
        }
        let file = File::from(passed);
        let kind = file.metadata()?.file_type();
        if kind.is_file() {
            return Ok(Descriptor::File(file));
        }
        if kind.is_fifo() {
            // Whether a write waits is a property of what the client has open, too. So it is opened anew.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let own = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
            return match own {
                Ok(pipe) => Ok(Descriptor::Pipe(pipe)),
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Err(Unfit::NoReader),
                Err(error) => Err(error.into()),
            };
        }
        let is_stream = |fd: &File| getsockopt(fd, SocketType) == Ok(SockType::Stream);
        if kind.is_socket() && is_stream(&file) {
            return Ok(Descriptor::Socket(file.into()));
        }
        Err(Unfit::Kind)
    }

    /// Whether all that is written is there at once, for others to see.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Descriptor::File(_))
    }

    /// What a regular file is called now; `None` for others, and for a file without a name.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let Descriptor::File(file) = self else { return None };
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        // One that was deleted has a remark behind its name, and so nothing is there by that.
        path.exists().then_some(path)
    }

    /// Writes as much as is taken without waiting.
    ///
    /// # Errors
    /// What the system call returns: `BrokenPipe` when the reader is gone.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<Wrote> {
        let wrote = match self {
            Descriptor::File(file) | Descriptor::Pipe(file) => file.write(bytes),
            Descriptor::Socket(socket) => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                send(socket.as_raw_fd(), bytes, flags).map_err(io::Error::from)
            }
        };
        match wrote {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            Ok(bytes) => Ok(Wrote::Bytes(bytes)),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(Wrote::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until it takes something, its reader goes, or the time is over.
    ///
    /// # Errors
    /// What poll(2) returns.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let mut polled = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Descriptor::File(file) | Descriptor::Pipe(file) => file.as_fd(),
            Descriptor::Socket(socket) => socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::pipe;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    fn unfit(descriptor: impl Into<OwnedFd>) -> String {
        Descriptor::new(descriptor.into()).expect_err("unfit").to_string()
    }

    #[test]
    fn what_cannot_be_written_to_and_what_is_no_stream_is_refused() {
        let (reader, _writer) = pipe().expect("a pipe");
        assert!(unfit(reader).contains("not open for writing"));
        assert!(unfit(File::open("/proc/self/stat").expect("there")).contains("not open"));
        let null = OpenOptions::new().write(true).open("/dev/null").expect("there");
        assert!(unfit(null).contains("neither"));
        assert!(unfit(UnixDatagram::unbound().expect("a socket")).contains("neither"));
    }

    #[test]
    fn a_full_pipe_takes_nothing_and_leaves_the_clients_end_as_it_was() {
        let (reader, writer) = pipe().expect("a pipe");
        let theirs = writer.try_clone().expect("a copy");
        let mut output = Descriptor::new(writer.into()).expect("a pipe is fine");
        assert!(!output.is_file());
        let bytes = [0; 65536];
        while output.write(&bytes).expect("it goes on") != Wrote::Nothing {}
        let flags = fcntl(&theirs, FcntlArg::F_GETFL).expect("flags");
        assert!(!OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK));
        drop(reader);
        output.wait(Duration::from_secs(60)).expect("the end wakes it");
        assert_eq!(output.write(&bytes).expect_err("gone").kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_socket_and_a_file_take_what_is_written() {
        let (one, mut other) = UnixStream::pair().expect("a pair");
        let mut output = Descriptor::new(one.into()).expect("a stream is fine");
        assert_eq!(output.write(b"text").expect("room"), Wrote::Bytes(4));
        drop(output);
        let mut text = String::new();
        io::Read::read_to_string(&mut other, &mut text).expect("text");
        assert_eq!(text, "text");
        let file = tempfile::tempfile().expect("a file");
        let mut output = Descriptor::new(file.into()).expect("a file is fine");
        assert!(output.is_file());
        assert_eq!(output.path(), None, "it has no name");
        assert_eq!(output.write(b"text").expect("room"), Wrote::Bytes(4));
    }

    #[test]
    fn a_file_is_known_by_its_name_while_it_has_one() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let output = Descriptor::new(file.reopen().expect("it is there").into()).expect("fine");
        assert_eq!(output.path().as_deref(), Some(file.path()));
        drop(file);
        assert_eq!(output.path(), None);
    }
}
