//! Unix sockets that carry a stream of bytes (SOCK_STREAM), with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

/// The maximum number of descriptors that are accepted with one read; further ones are closed.
const FEW_DESCRIPTORS: usize = 8;

/// The maximum number of descriptors that the kernel passes in one message (SCM_MAX_FD).
const MOST_DESCRIPTORS: usize = 253;

/// Receives available data, or waits for some; 0 bytes mean the end. Appends the descriptors that come with it, close-on-exec.
///
/// # Errors
/// Errors of recvmsg(2); an interruption is not an error.
pub fn receive(
    socket: &UnixStream,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    // Without space for all of them, nix would not report which descriptors this process has received.
    let mut control = nix::cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = loop {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
            Err(Errno::EINTR) => {}
            received => break received?,
        }
    };
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            // SAFETY: the kernel has just created these descriptors for this process, and nothing else knows them.
            let owned = raw.iter().map(|&raw| unsafe { OwnedFd::from_raw_fd(raw) });
            // Descriptors that the caller does not take are dropped, which closes them.
            for (index, descriptor) in owned.enumerate() {
                if index < FEW_DESCRIPTORS {
                    descriptors.push(descriptor);
                }
            }
        }
    }
    Ok(received.bytes)
}

/// Reads available data without consuming it, or waits for some. Also returns whether descriptors come with it; none is received.
///
/// # Errors
/// Errors of recvmsg(2); an interruption is not an error.
pub fn peek(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    let received = receive_without_room(socket, buffer, MsgFlags::MSG_PEEK)?;
    Ok((received.0, received.1.contains(MsgFlags::MSG_CTRUNC)))
}

/// The same as [`receive`], without descriptors: the kernel closes them, which may take as long as [`super::linger`] describes.
///
/// # Errors
/// Errors of recvmsg(2); an interruption is not an error.
pub fn receive_without_descriptors(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    receive_without_room(socket, buffer, MsgFlags::empty()).map(|(bytes, _)| bytes)
}

fn receive_without_room(
    socket: &UnixStream,
    buffer: &mut [u8],
    flags: MsgFlags,
) -> io::Result<(usize, MsgFlags)> {
    let mut parts = [IoSliceMut::new(buffer)];
    loop {
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, None, flags) {
            Err(Errno::EINTR) => {}
            received => return Ok(received.map(|received| (received.bytes, received.flags))?),
        }
    }
}

/// Sends all of `bytes`, and waits if the socket has no space. The descriptors are sent with the first byte.
///
/// # Errors
/// Errors of sendmsg(2); EPIPE if the other side has ended (no signal is raised).
pub fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut rest = bytes;
    let mut with = &raw[..];
    while !rest.is_empty() {
        let control = [ControlMessage::ScmRights(with)];
        let control = if with.is_empty() { &control[..0] } else { &control[..] };
        let parts = [IoSlice::new(rest)];
        let fd = socket.as_fd().as_raw_fd();
        match sendmsg::<UnixAddr>(fd, &parts, control, MsgFlags::MSG_NOSIGNAL, None) {
            Err(Errno::EINTR) => {}
            sent => {
                rest = &rest[sent?..];
                with = &[];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_the_bytes_that_it_was_sent_with() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut reader, writer) = pipe().expect("a pipe");
        send(&one, b"here", &[writer.as_fd()]).expect("sent");
        drop(writer);
        let (mut buffer, mut descriptors) = ([0; 16], Vec::new());
        let bytes = receive(&other, &mut buffer, &mut descriptors).expect("received");
        assert_eq!(&buffer[..bytes], b"here");
        let mut received = io::PipeWriter::from(descriptors.pop().expect("one"));
        assert!(descriptors.is_empty());
        received.write_all(b"through").expect("room");
        drop(received);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert_eq!(text, "through");
    }

    #[test]
    fn descriptors_are_seen_before_they_are_taken_and_need_not_be() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut reader, writer) = pipe().expect("a pipe");
        send(&one, b"without", &[]).expect("sent");
        let mut buffer = [0; 16];
        assert_eq!(peek(&other, &mut buffer).expect("there"), (7, false));
        assert_eq!(receive_without_descriptors(&other, &mut buffer).expect("there"), 7);
        send(&one, b"with", &[writer.as_fd()]).expect("sent");
        drop(writer);
        assert_eq!(peek(&other, &mut buffer).expect("there"), (4, true));
        assert_eq!(peek(&other, &mut buffer).expect("still"), (4, true));
        assert_eq!(receive_without_descriptors(&other, &mut buffer).expect("there"), 4);
        // The other end is closed everywhere.
        assert_eq!(reader.read(&mut buffer).expect("the end"), 0);
    }

    #[test]
    fn too_many_descriptors_are_closed_and_not_kept() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let many: Vec<_> = (0..20).map(|_| one.as_fd()).collect();
        send(&one, b"x", &many).expect("sent");
        let mut descriptors = Vec::new();
        assert_eq!(receive(&other, &mut [0; 4], &mut descriptors).expect("received"), 1);
        assert!(descriptors.len() <= FEW_DESCRIPTORS, "{}", descriptors.len());
    }

    #[test]
    fn a_closed_connection_is_the_end_and_cannot_be_sent_to() {
        let (one, other) = UnixStream::pair().expect("a pair");
        drop(other);
        assert_eq!(receive(&one, &mut [0; 4], &mut Vec::new()).expect("the end"), 0);
        let error = send(&one, b"x", &[]).expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
