//! The sockets: control messages with descriptors, and packets.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recv, recvmsg,
    socket,
};

use crate::packet::{PACKET_BYTES, Packet};
use crate::provider::wire::{MAX_MESSAGE_BYTES, START_DESCRIPTORS};

/// Connects to a manager's control socket: a path, or `@name` for an abstract
/// address. Never waits.
pub(in crate::provider) fn connect(address: &str) -> io::Result<OwnedFd> {
    let address = match address.strip_prefix('@') {
        Some(name) => UnixAddr::new_abstract(name.as_bytes())?,
        None => UnixAddr::new(address)?,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    nix::sys::socket::connect(fd.as_raw_fd(), &address)?;
    Ok(fd)
}

/// The result of a read from the control socket.
#[derive(Debug)]
pub(in crate::provider) enum Received {
    /// One datagram, and the descriptors that came with it.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// No more data for now.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// One datagram of the control socket. A message that is too long, or that
/// carries too many descriptors, counts as [`Received::Closed`].
pub(in crate::provider) fn receive(socket: BorrowedFd<'_>) -> Received {
    let mut bytes = vec![0; MAX_MESSAGE_BYTES + 1];
    let mut room = nix::cmsg_space!([i32; START_DESCRIPTORS]);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut slices, Some(&mut room), flags);
    let message = match message {
        Ok(message) => message,
        Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Received::Nothing,
        Err(_) => return Received::Closed,
    };
    let mut descriptors = Vec::new();
    for control in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: the kernel has just made these descriptors for us.
            descriptors.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let cut = message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
    let length = message.bytes;
    if length == 0 || cut {
        return Received::Closed;
    }
    bytes.truncate(length);
    Received::Message(bytes, descriptors)
}

/// One packet from the FIFO; `None` if there is none at the moment.
///
/// # Errors
///
/// Returns an error if the other end is closed, or the datagram is not a packet.
pub(in crate::provider) fn receive_packet(fifo: BorrowedFd<'_>) -> io::Result<Option<Packet>> {
    let mut bytes = [0; PACKET_BYTES + 1];
    match recv(fifo.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
        Ok(PACKET_BYTES) => {
            let packet = bytes.first_chunk().map(|bytes| Packet::from_bytes(*bytes));
            Ok(packet)
        }
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends one datagram, without waiting and without a SIGPIPE; false when there
/// is no room for it now.
pub(in crate::provider) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<bool> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    match nix::sys::socket::send(socket.as_raw_fd(), bytes, flags) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EINTR | nix::Error::ENOBUFS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
