//! Unix sockets that carry whole messages in order (SOCK_SEQPACKET), with descriptors.
//!
//! No call here blocks: callers that need to wait poll the descriptors.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, getsockname, getsockopt, listen, recv, recvmsg, sendmsg,
    socket, socketpair,
};

use super::linger::{BriefClose, interrupted, refuse_descriptors};
use super::random;

/// The maximum number of descriptors that are accepted with one message.
const FEW_DESCRIPTORS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A name that is not in a file system, and disappears with the socket.
    Abstract(String),
    /// A file, which remains after the socket is closed.
    Path(PathBuf),
}

impl Address {
    /// An abstract name that begins with `prefix` and cannot be guessed.
    ///
    /// # Errors
    /// Errors of getrandom(2).
    pub fn unguessable(prefix: &str) -> io::Result<Address> {
        Ok(Address::Abstract(format!("{prefix}-{}", random::hex_token()?)))
    }

    /// Parses an address in the form in which [`Address`] is displayed.
    pub fn parse(text: &str) -> Address {
        match text.strip_prefix('@') {
            Some(name) => Address::Abstract(name.to_owned()),
            None => Address::Path(text.into()),
        }
    }

    fn unix(&self) -> nix::Result<UnixAddr> {
        match self {
            Address::Abstract(name) => UnixAddr::new_abstract(name.as_bytes()),
            Address::Path(path) => UnixAddr::new(path),
        }
    }
}

/// In the form of environment variables: a path, or `@` and an abstract name.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Abstract(name) => write!(f, "@{name}"),
            Address::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The process at the other end, at the time when the connection was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process id in this pid namespace; 0 if it is not visible here.
    pub pid: u32,
    pub uid: u32,
}

/// A socket that accepts connections.
#[derive(Debug)]
pub struct Listener {
    socket: BriefClose,
    address: Address,
}

fn new_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

impl Listener {
    /// Listens at an unused address.
    ///
    /// # Errors
    /// Errors of socket(2), bind(2) or listen(2).
    pub fn bind(address: Address) -> io::Result<Listener> {
        let socket = new_socket()?;
        bind(socket.as_raw_fd(), &address.unix()?)?;
        refuse_descriptors(socket.as_fd());
        listen(&socket, Backlog::new(128)?)?;
        Ok(Listener { socket: socket.into(), address })
    }

    /// Takes ownership of a socket that is already listening.
    ///
    /// # Errors
    /// Returns an error when it is not a listening socket of this kind, or has no address.
    pub fn from_passed(socket: OwnedFd) -> io::Result<Listener> {
        super::activation::check(&socket, SockType::SeqPacket)?;
        let address: UnixAddr = getsockname(socket.as_raw_fd())?;
        let path = address.path().map(|path| Address::Path(path.to_owned()));
        let name = || {
            let name = std::str::from_utf8(address.as_abstract()?).ok()?;
            Some(Address::Abstract(name.to_owned()))
        };
        let nowhere = || io::Error::new(io::ErrorKind::InvalidInput, "it has no address");
        let address = path.or_else(name).ok_or_else(nowhere)?;
        // No call here blocks.
        let flags = OFlag::from_bits_retain(fcntl(&socket, FcntlArg::F_GETFL)?);
        fcntl(&socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        refuse_descriptors(socket.as_fd());
        Ok(Listener { socket: socket.into(), address })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next waiting connection, if any.
    ///
    /// # Errors
    /// Errors of accept4(2) or getsockopt(2); a connection that was closed before it was accepted does not count.
    pub fn accept(&self) -> io::Result<Option<(Seqpacket, Peer)>> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let raw = match accept4(self.socket.as_fd().as_raw_fd(), flags) {
            Ok(raw) => raw,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // SAFETY: the call returned a new descriptor that nothing else owns.
        let socket = BriefClose::from(unsafe { OwnedFd::from_raw_fd(raw) });
        let credentials = getsockopt(&socket, PeerCredentials)?;
        let pid = u32::try_from(credentials.pid()).unwrap_or(0);
        Ok(Some((Seqpacket(socket), Peer { pid, uid: credentials.uid() })))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes.
    Message(usize),
    Nothing,
    /// The other side has closed its end, or has ended. An empty message looks the same, but no protocol here has such messages.
    End,
}

/// One end of a connection. Dropping it also closes descriptors that were sent but not read.
#[derive(Debug)]
pub struct Seqpacket(BriefClose);

impl Seqpacket {
    /// Two ends of one connection: one for this process, which accepts no descriptors, and one for another process, whose calls may block.
    ///
    /// # Errors
    /// Errors of socketpair(2).
    pub fn pair() -> io::Result<(Seqpacket, Seqpacket)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (one, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        refuse_descriptors(one.as_fd());
        Ok((Seqpacket(one.into()), Seqpacket(other.into())))
    }

    /// Connects to a listener.
    ///
    /// # Errors
    /// Errors of socket(2) or connect(2); EAGAIN if too many connections wait there.
    pub fn connect(address: &Address) -> io::Result<Seqpacket> {
        let socket = new_socket()?;
        connect(socket.as_raw_fd(), &address.unix()?)?;
        Ok(Seqpacket(socket.into()))
    }

    /// Sends a message, with descriptors.
    ///
    /// # Errors
    /// Errors of sendmsg(2): EAGAIN if the other side leaves too many messages unread, EPIPE if it has ended (no signal is raised).
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &control[..0] } else { &control[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let message = [IoSlice::new(message)];
        loop {
            match sendmsg::<UnixAddr>(self.as_fd().as_raw_fd(), &message, control, flags, None) {
                Err(Errno::EINTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives a message; bytes that do not fit into `buffer` are cut off. Descriptors that come with it are closed.
    ///
    /// # Errors
    /// Errors of recv(2), except for the cases of [`Received`].
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let fd = self.as_fd().as_raw_fd();
        let mut receive = || interrupted(|| recv(fd, buffer, MsgFlags::MSG_DONTWAIT));
        let received = match receive() {
            // The other side closed with unread messages. Its earlier messages are still queued, and are received now.
            Err(Errno::ECONNRESET) => receive(),
            received => received,
        };
        match received {
            Ok(0) | Err(Errno::ECONNRESET) => Ok(Received::End),
            Ok(bytes) => Ok(Received::Message(bytes)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Received::Nothing),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Receives a message, and appends the descriptors that come with it, close-on-exec; descriptors beyond the maximum are closed.
    ///
    /// # Errors
    /// Errors of recvmsg(2), except for the cases of [`Received`].
    pub fn receive_with(
        &self,
        buffer: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
    ) -> io::Result<Received> {
        let mut control = nix::cmsg_space!([RawFd; FEW_DESCRIPTORS]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(buffer)];
        let fd = self.as_fd().as_raw_fd();
        let received = match recvmsg::<UnixAddr>(fd, &mut parts, Some(&mut control), flags) {
            Err(Errno::ECONNRESET) => return Ok(Received::End),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Received::Nothing),
            received => received?,
        };
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just created these descriptors for this process, and no other code knows them.
                descriptors.extend(raw.iter().map(|&raw| unsafe { OwnedFd::from_raw_fd(raw) }));
            }
        }
        Ok(if received.bytes == 0 { Received::End } else { Received::Message(received.bytes) })
    }
}

impl From<OwnedFd> for Seqpacket {
    fn from(socket: OwnedFd) -> Seqpacket {
        Seqpacket(socket.into())
    }
}

impl AsFd for Seqpacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
