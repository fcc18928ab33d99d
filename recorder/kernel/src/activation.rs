//! Sockets that the parent of this process has created for it: the protocol of systemd's sd_listen_fds(3).
//!
//! Three variables describe them. The variables are meant for the process whose id is in `LISTEN_PID`, not for its children, which inherit
//! them.
//!
//! ```text
//!  LISTEN_PID=4711  LISTEN_FDS=2  LISTEN_FDNAMES=control:providers       descriptors 3 and 4
//! ```

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::socket::sockopt::{AcceptConn, SockType as TypeOf};
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt,
};

/// The first descriptor that is passed.
const FIRST: RawFd = 3;

/// No service manager passes more descriptors.
const MOST: RawFd = 64;

/// Whether the descriptors were already returned: each descriptor has one owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A socket that was passed.
#[derive(Debug)]
pub struct PassedSocket {
    /// Its name (`FileDescriptorName=`); empty if it has none.
    pub name: String,
    pub socket: OwnedFd,
}

/// The sockets that were passed to this process; empty on a second call. Must be called before anything else is opened.
///
/// # Errors
/// Returns an error when the variables are malformed, or a descriptor that they describe does not exist.
pub fn take() -> io::Result<Vec<PassedSocket>> {
    let variable = |name: &str| std::env::var(name).ok();
    let names = listed_names(variable, std::process::id())?;
    if names.is_empty() || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let take = |(raw, name): (RawFd, String)| {
        // Children must not inherit the descriptor.
        // SAFETY: the call takes numbers and no memory, and fails with EBADF if this number is not a descriptor.
        Errno::result(unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) })?;
        // SAFETY: the descriptor is open, as just checked. The parent opened it for this process, according to LISTEN_PID, and this process
        // has opened no file before, so nothing in this process owns it; `TAKEN` ensures that it is returned only once.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(PassedSocket { name, socket })
    };
    (FIRST..).zip(names).map(take).collect()
}

/// The names of the descriptors that the variables describe for this process, in order.
fn listed_names(variable: impl Fn(&str) -> Option<String>, own: u32) -> io::Result<Vec<String>> {
    if variable("LISTEN_PID").and_then(|pid| pid.parse().ok()) != Some(own) {
        return Ok(Vec::new());
    }
    let count = variable("LISTEN_FDS").unwrap_or_default();
    let count = count.parse().ok().filter(|count| (0..=MOST).contains(count)).ok_or_else(|| {
        let why = format!("LISTEN_FDS={count} is not a number from 0 to {MOST}");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').map(str::to_owned);
    Ok((0..count).map(|_| names.next().unwrap_or_default()).collect())
}

/// Checks that this is a Unix socket of this kind that accepts connections.
///
/// # Errors
/// Returns an error when it is of another kind; the error describes it.
pub fn check(socket: &OwnedFd, kind: SockType) -> io::Result<()> {
    let wrong = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let address: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    if address.family() != Some(AddressFamily::Unix) {
        return wrong("not a Unix socket".to_owned());
    }
    let found = getsockopt(socket, TypeOf)?;
    if found != kind {
        return wrong(format!("its type is {found:?}: expected {kind:?}"));
    }
    match getsockopt(socket, AcceptConn)? {
        true => Ok(()),
        false => wrong("it does not listen".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::*;

    fn names(variables: &[(&str, &str)]) -> io::Result<Vec<String>> {
        let find = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        listed_names(find, 4711)
    }

    #[test]
    fn only_the_process_that_is_meant_is_told_of_descriptors() {
        let ours = [("LISTEN_PID", "4711"), ("LISTEN_FDS", "2")];
        assert_eq!(names(&ours).expect("good"), ["", ""]);
        let named = [ours[0], ours[1], ("LISTEN_FDNAMES", "control:providers")];
        assert_eq!(names(&named).expect("good"), ["control", "providers"]);
        for none in [&[("LISTEN_PID", "4712"), ours[1]][..], &ours[1..], &[]] {
            assert!(names(none).expect("nothing is told").is_empty());
        }
    }

    #[test]
    fn a_count_that_is_none_is_quoted() {
        for count in ["", "-1", "two", "65"] {
            let error = names(&[("LISTEN_PID", "4711"), ("LISTEN_FDS", count)]);
            let error = error.expect_err(count).to_string();
            assert!(error.contains(&format!("LISTEN_FDS={count} ")), "{error}");
        }
    }

    #[test]
    fn what_is_no_listening_socket_of_the_kind_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("one")).expect("a socket").into();
        check(&listener, SockType::Stream).expect("it is one");
        let said =
            |socket: &OwnedFd, kind| check(socket, kind).expect_err("it is none").to_string();
        assert!(said(&listener, SockType::SeqPacket).contains("SeqPacket"));
        let (one, _other) = UnixStream::pair().expect("two sockets");
        assert!(said(&one.into(), SockType::Stream).contains("does not listen"));
        let datagram = UnixDatagram::unbound().expect("a socket").into();
        assert!(said(&datagram, SockType::Stream).contains("Datagram"));
        let network = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket").into();
        assert!(said(&network, SockType::Stream).contains("not a Unix socket"));
        let file = tempfile::tempfile().expect("a file").into();
        assert!(check(&file, SockType::Stream).is_err());
    }
}
