//! Reports the state of this process to its parent: the protocol of systemd's sd_notify(3).
//!
//! systemd needs to know when a service is ready. `fxtrec daemon` needs to know more about the recorder that it starts. These are sent in
//! fxtrec's own variables, which begin with `X_` as that page requires, one in each message.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::stat::SFlag;

use super::directory::Facts;

/// The environment variable with the destination: a path, or `@` and an abstract name.
pub const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// The destination for a recorder that another fxtrec has started: the number of a descriptor that it inherits, and the inode of its
/// socket. It takes precedence over [`NOTIFY_VARIABLE`], which a COMMAND can then use. COMMAND has the variable, too, but not the socket.
const OWN_NOTIFY_VARIABLE: &str = "FXTREC_NOTIFY_DESCRIPTOR";

/// The socket that this process inherited for its messages.
static OWN: OnceLock<Option<UnixDatagram>> = OnceLock::new();

/// Takes the socket that [`OWN_NOTIFY_VARIABLE`] describes, so that no child inherits it. Must be called before one is started.
pub fn adopt() {
    own();
}

/// Whether another fxtrec listens.
pub fn is_for_fxtrec() -> bool {
    own().is_some()
}

fn own() -> Option<&'static UnixDatagram> {
    let adopt = || inherited(&std::env::var(OWN_NOTIFY_VARIABLE).ok()?);
    OWN.get_or_init(adopt).as_ref()
}

/// The end of a pair of sockets for a recorder that this process starts. It has no name: nothing is left if this process is killed, and no
/// other process can send to it or fill its queue.
#[derive(Debug)]
pub struct OwnNotify(UnixDatagram);

impl OwnNotify {
    /// The socket that receives the recorder's messages, and its other end.
    ///
    /// # Errors
    /// Errors of socketpair(2).
    pub fn pair() -> io::Result<(UnixDatagram, OwnNotify)> {
        let (ours, theirs) = UnixDatagram::pair()?;
        Ok((ours, OwnNotify(theirs)))
    }

    /// The variable that describes it to a process that inherits it.
    ///
    /// # Errors
    /// Errors of fstat(2).
    pub fn variable(&self) -> io::Result<(&'static str, String)> {
        let inode = Facts::of_file(&self.0)?.id.inode;
        Ok((OWN_NOTIFY_VARIABLE, format!("{}:{inode}", self.0.as_raw_fd())))
    }

    /// Lets the process that is about to be executed inherit it; called between fork and exec.
    pub(crate) fn pass_on(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the call takes numbers and no memory.
        Errno::result(unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETFD, 0) })?;
        Ok(())
    }
}

/// The socket of this inode, if this process inherited it under that number.
fn inherited(description: &str) -> Option<UnixDatagram> {
    let (number, inode) = description.split_once(':')?;
    let (number, inode): (RawFd, u64) = (number.parse().ok()?, inode.parse().ok()?);
    // SAFETY: the call takes numbers and no memory, and fails if there is no such descriptor.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // All descriptors that fxtrec opens are close-on-exec.
    if number <= 2 || flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return None;
    }
    // SAFETY: it is open, as just checked, and no code of this process closes it.
    let facts = Facts::of_file(unsafe { BorrowedFd::borrow_raw(number) }).ok()?;
    if facts.kind() != SFlag::S_IFSOCK || facts.id.inode != inode {
        return None;
    }
    // SAFETY: the call takes numbers and no memory.
    Errno::result(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }).ok()?;
    // SAFETY: the parent opened it for this process, so nothing in this process owns it, and since it is close-on-exec now, it is not taken
    // a second time.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    Some(socket.into())
}

/// The longest message, in bytes: a path and the name of a variable. Longer strings are truncated.
pub const MOST_BYTES: usize = libc::PATH_MAX as usize + 64;

/// The variables by which systemd requests watchdog messages: how often, in microseconds, and from which process.
const WATCHDOG_VARIABLES: [&str; 2] = ["WATCHDOG_USEC", "WATCHDOG_PID"];

const READY: &[u8] = b"READY=1";
const ALIVE: &[u8] = b"WATCHDOG=1";
const SNAPSHOT: &[u8] = b"X_FXTREC_SNAPSHOT=";
const FIRED: &[u8] = b"X_FXTREC_FIRED=";
const NO_SNAPSHOT: &[u8] = b"X_FXTREC_NO_SNAPSHOT=";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Ready,
    /// A watchdog message.
    Alive,
    /// A requested snapshot was written to this file.
    Snapshot(PathBuf),
    /// A trigger's snapshot was written to this file.
    Fired(PathBuf),
    /// A requested snapshot was not written, and the reason.
    NoSnapshot(String),
}

impl Notice {
    /// The message as sent. systemd treats each line as a variable, so line breaks become spaces.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut message = match self {
            Notice::Ready => READY.to_vec(),
            Notice::Alive => ALIVE.to_vec(),
            Notice::Snapshot(path) => [SNAPSHOT, path.as_os_str().as_bytes()].concat(),
            Notice::Fired(path) => [FIRED, path.as_os_str().as_bytes()].concat(),
            Notice::NoSnapshot(why) => [NO_SNAPSHOT, why.as_bytes()].concat(),
        };
        message.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        message.truncate(MOST_BYTES);
        message
    }

    /// The reverse; `None` for messages that fxtrec does not send.
    pub fn from_bytes(message: &[u8]) -> Option<Notice> {
        if message == READY {
            return Some(Notice::Ready);
        }
        if message == ALIVE {
            return Some(Notice::Alive);
        }
        let to_path = |path| Path::new(OsStr::from_bytes(path)).to_owned();
        if let Some(path) = message.strip_prefix(SNAPSHOT) {
            return Some(Notice::Snapshot(to_path(path)));
        }
        if let Some(path) = message.strip_prefix(FIRED) {
            return Some(Notice::Fired(to_path(path)));
        }
        let why = message.strip_prefix(NO_SNAPSHOT)?;
        Some(Notice::NoSnapshot(String::from_utf8_lossy(why).into_owned()))
    }
}

/// How often to send a watchdog message: three times as often as systemd's `WatchdogSec=` requires.
pub fn watchdog() -> Option<Duration> {
    let [micros, pid] = WATCHDOG_VARIABLES.map(std::env::var);
    let pid = pid.ok();
    watchdog_of(&micros.ok()?, pid.as_deref())
}

/// Without a process id, it is meant for any process that has the variable.
fn watchdog_of(micros: &str, pid: Option<&str>) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid == std::process::id().to_string());
    let every = Duration::from_micros(micros.parse::<u64>().ok()?) / 3;
    (is_meant && !every.is_zero()).then_some(every)
}

/// Sends the message if a receiver is configured. Does not wait for a listener that does not read.
///
/// # Errors
/// Errors of socket(2) or sendto(2).
pub fn tell(notice: &Notice) -> io::Result<()> {
    match (own(), std::env::var_os(NOTIFY_VARIABLE)) {
        (Some(socket), _) => {
            socket.set_nonblocking(*notice != Notice::Ready)?;
            socket.send(&notice.to_bytes()).map(drop)
        }
        (None, Some(address)) => send(&address, notice),
        (None, None) => Ok(()),
    }
}

fn send(address: &OsStr, notice: &Notice) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    // fxtrec waits for systemd only when it reports that a service is ready, not for other messages.
    socket.set_nonblocking(*notice != Notice::Ready)?;
    socket.send_to_addr(&notice.to_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anyone_who_listens_at_a_path_or_name_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ready");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str(), &Notice::Ready).expect("told");
        let name = format!("fxtrec-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("an address");
        let other = UnixDatagram::bind_addr(&address).expect("a socket");
        send(OsStr::new(&format!("@{name}")), &Notice::Ready).expect("told");
        for listener in [listener, other] {
            let mut buffer = [0; 32];
            let bytes = listener.recv(&mut buffer).expect("a message");
            assert_eq!(&buffer[..bytes], b"READY=1");
        }
    }

    #[test]
    fn the_socket_of_a_recorder_is_the_one_that_it_was_started_with() {
        let (ours, theirs) = OwnNotify::pair().expect("a pair");
        let (_, description) = theirs.variable().expect("a socket");
        assert!(inherited(&description).is_none(), "it is not inherited yet");
        theirs.pass_on().expect("open");
        let (number, inode) = description.split_once(':').expect("two numbers");
        let inode: u64 = inode.parse().expect("a number");
        for other in [format!("{number}:{}", inode + 1), format!("2:{inode}"), number.to_owned()] {
            assert!(inherited(&other).is_none(), "{other} is something else");
        }
        // As if the other owner were the parent.
        std::mem::forget(theirs);
        let socket = inherited(&description).expect("inherited");
        assert!(inherited(&description).is_none(), "no child inherits it");
        socket.send(&Notice::Ready.to_bytes()).expect("sent");
        let mut buffer = [0; 32];
        let bytes = ours.recv(&mut buffer).expect("a message");
        assert_eq!(&buffer[..bytes], READY);
    }

    #[test]
    fn a_notice_that_was_sent_is_what_was_meant() {
        for notice in [
            Notice::Ready,
            Notice::Alive,
            Notice::Snapshot(PathBuf::from(OsStr::from_bytes(b"/run/\xff/kernel.1.fxt"))),
            Notice::NoSnapshot("writing it: No space left on device".to_owned()),
        ] {
            assert_eq!(Notice::from_bytes(&notice.to_bytes()), Some(notice));
        }
        let two = Notice::NoSnapshot("a\nREADY=1".to_owned()).to_bytes();
        assert_eq!(two, b"X_FXTREC_NO_SNAPSHOT=a READY=1", "one variable in a message");
        let long = Notice::NoSnapshot("a".repeat(MOST_BYTES)).to_bytes();
        assert_eq!(long.len(), MOST_BYTES);
        for other in [b"READY=2".as_slice(), b"", b"STATUS=x", b"X_FXTREC_SNAPSHOT"] {
            assert_eq!(Notice::from_bytes(other), None);
        }
    }

    #[test]
    fn a_sign_of_life_is_for_the_process_that_is_asked_for_it() {
        let own = std::process::id().to_string();
        let third = Some(Duration::from_secs(10));
        assert_eq!(watchdog_of("30000000", Some(&own)), third);
        assert_eq!(watchdog_of("30000000", None), third);
        assert_eq!(watchdog_of("30000000", Some("1")), None, "the daemon's, which started this");
        for micros in ["", "0", "-1", "soon"] {
            assert_eq!(watchdog_of(micros, None), None);
        }
    }

    #[test]
    fn nobody_is_waited_for_who_does_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deaf");
        let _deaf = UnixDatagram::bind(&path).expect("a socket");
        let notice = Notice::NoSnapshot(String::new());
        let full = (0..100_000).find_map(|_| send(path.as_os_str(), &notice).err());
        assert_eq!(full.expect("its queue is full").kind(), io::ErrorKind::WouldBlock);
    }
}
