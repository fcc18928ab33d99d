//! The process at the other end of a Unix socket, as the kernel reports it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

/// Initial room for groups; few processes have more.
const USUAL_GROUPS: usize = 64;

/// A process at the other end of a socket, at the time when the connection was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its process id in this pid namespace; 0 if it is not visible here.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl Credentials {
    /// The credentials of the process at the other end of this stream or seqpacket socket.
    ///
    /// # Errors
    /// Errors of getsockopt(2).
    pub fn of(socket: &impl AsFd) -> io::Result<Credentials> {
        let peer = getsockopt(&socket.as_fd(), PeerCredentials)?;
        Ok(Credentials {
            pid: u32::try_from(peer.pid()).unwrap_or(0),
            uid: peer.uid(),
            gid: peer.gid(),
            groups: groups(socket)?,
        })
    }
}

/// The supplementary groups of the process at the other end of a Unix socket (SO_PEERGROUPS).
///
/// # Errors
/// Errors of getsockopt(2).
pub fn groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; USUAL_GROUPS];
    loop {
        let mut bytes = libc::socklen_t::try_from(size_of_val(&groups[..])).unwrap_or(0);
        // SAFETY: the buffer is writable for the `bytes` given, which the kernel uses as its size, and any bytes are valid integers. Both
        // pointers are only used during the call.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The buffer is too small: `bytes` now has the required size.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (here, _there) = UnixStream::pair().expect("socketpair");
        let peer = Credentials::of(&here).expect("credentials");
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        assert_eq!(peer.gid, nix::unistd::getegid().as_raw());
        let own = nix::unistd::getgroups().expect("getgroups");
        assert_eq!(peer.groups, own.into_iter().map(nix::unistd::Gid::as_raw).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(groups(&file).expect_err("refused").raw_os_error(), Some(libc::ENOTSOCK));
    }
}
