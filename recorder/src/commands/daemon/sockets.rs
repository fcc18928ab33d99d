//! The two sockets, and the lock that marks their owner.
//!
//! A killed daemon leaves its sockets behind. The holder of the lock may replace them: the kernel releases the lock when its process ends
//! for any reason.
//!
//! systemd may already have created one or both, and start the daemon on the first connection (`systemd/fxtrec.socket`). Such a socket is
//! used with its owner and mode, and is not removed.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::SockType;
use nix::unistd::Group;

use super::error::DaemonError;
use crate::control::{control_socket, providers_socket};
use crate::kernel::activation::{self, PassedSocket};
use crate::kernel::seqpacket::{Address, Listener};

/// The default group whose users may connect, if it exists.
const GROUP: &str = "fxtrec";

const NO_GROUP: &str = "the group fxtrec does not exist, so only root can connect; run groupadd -r fxtrec and restart the daemon to permit its members";

/// The name of a passed control socket.
const CONTROL: &str = "control";

/// The name of a passed applications' socket.
const PROVIDERS: &str = "providers";

/// The sockets' files and the lock. Files that were created here are removed on drop.
#[derive(Debug)]
pub(super) struct Sockets {
    control: PathBuf,
    providers: Address,
    made: Vec<PathBuf>,
    _lock: Flock<File>,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) sockets: Sockets,
    pub(super) providers: Listener,
    pub(super) control: UnixListener,
    /// The message if only root can use the socket.
    pub(super) remark: Option<&'static str>,
}

/// The known sockets among those that were passed.
#[derive(Debug, Default)]
struct Given {
    providers: Option<OwnedFd>,
    control: Option<OwnedFd>,
}

impl Given {
    /// Assigns them by their names.
    fn of(passed: Vec<PassedSocket>) -> Result<Given, DaemonError> {
        let mut given = Given::default();
        for PassedSocket { name, socket } in passed {
            let place = match name.as_str() {
                CONTROL => &mut given.control,
                PROVIDERS => &mut given.providers,
                _ => return Err(DaemonError::UnknownSocket(name)),
            };
            *place = Some(socket);
        }
        Ok(given)
    }
}

impl Sockets {
    /// Creates the sockets that were not `passed`.
    ///
    /// # Errors
    /// Returns [`DaemonError`]; `Running` when another daemon owns the sockets.
    pub(super) fn open(
        folder: &Path,
        group: Option<&str>,
        passed: Vec<PassedSocket>,
    ) -> Result<Opened, DaemonError> {
        let given = Given::of(passed)?;
        let group = find(group)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .map_err(with("create the directory", folder))?;
        let lock = lock(folder)?;
        let mut made = Vec::new();
        let providers = match given.providers {
            Some(socket) => Listener::from_passed(socket).map_err(refuse(PROVIDERS))?,
            None => bind_providers(providers_socket(folder), &mut made)?,
        };
        let (control, path) = match given.control {
            Some(socket) => take_control(socket).map_err(refuse(CONTROL))?,
            None => bind_control(control_socket(folder), group, &mut made)?,
        };
        let address = providers.address().clone();
        let sockets = Sockets { control: path, providers: address, made, _lock: lock };
        let for_root = group.is_none() && sockets.made.contains(&sockets.control);
        Ok(Opened { sockets, providers, control, remark: for_root.then_some(NO_GROUP) })
    }

    pub(super) fn control(&self) -> &Path {
        &self.control
    }

    pub(super) fn providers(&self) -> &Address {
        &self.providers
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.made {
            // If this fails, the next daemon replaces the file.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn with(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DaemonError {
    let path = path.to_owned();
    move |source| DaemonError::File { doing, path, source }
}

fn allow(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Removes the socket of a daemon that no longer runs.
fn make_room(path: &Path) -> Result<(), DaemonError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(with("replace", path)(error)),
        _ => Ok(()),
    }
}

/// Every application may register; each session decides which users' applications it records.
fn bind_providers(path: PathBuf, made: &mut Vec<PathBuf>) -> Result<Listener, DaemonError> {
    make_room(&path)?;
    let listener = Listener::bind(Address::Path(path.clone())).map_err(with("listen on", &path))?;
    allow(&path, 0o666).map_err(with("change the mode of", &path))?;
    made.push(path);
    Ok(listener)
}

/// Creates the control socket, which only root can open at first.
fn bind_control(
    path: PathBuf,
    group: Option<u32>,
    made: &mut Vec<PathBuf>,
) -> Result<(UnixListener, PathBuf), DaemonError> {
    make_room(&path)?;
    let listener = UnixListener::bind(&path)
        .and_then(|listener| allow(&path, 0o600).map(|()| listener))
        .map_err(with("listen on", &path))?;
    if let Some(gid) = group {
        chown(&path, None, Some(gid)).map_err(with("change the group of", &path))?;
        allow(&path, 0o660).map_err(with("change the mode of", &path))?;
    }
    made.push(path.clone());
    Ok((listener, path))
}

/// A control socket that was passed, and its path.
fn take_control(socket: OwnedFd) -> io::Result<(UnixListener, PathBuf)> {
    activation::check(&socket, SockType::Stream)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(false)?;
    let address = listener.local_addr()?;
    let nowhere = || io::Error::new(io::ErrorKind::InvalidInput, "it has no path");
    let path = address.as_pathname().ok_or_else(nowhere)?.to_owned();
    Ok((listener, path))
}

fn refuse(name: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |source| DaemonError::PassedSocket { name, source }
}

/// The id of the requested group, or of the default one.
fn find(group: Option<&str>) -> Result<Option<u32>, DaemonError> {
    let name = group.unwrap_or(GROUP);
    if let Some(number) = group.and_then(|text| text.parse().ok()) {
        return Ok(Some(number));
    }
    let found = Group::from_name(name)
        .map_err(|errno| DaemonError::while_doing("look up the group")(errno.into()))?;
    match found {
        Some(found) => Ok(Some(found.gid.as_raw())),
        None if group.is_none() => Ok(None),
        None => Err(DaemonError::NoGroup(name.to_owned())),
    }
}

/// Takes the lock of this directory and writes its owner's process id to it.
fn lock(folder: &Path) -> Result<Flock<File>, DaemonError> {
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(with("open", &path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            let pid = std::process::id();
            lock.set_len(0)
                .and_then(|()| lock.rewind())
                .and_then(|()| write!(lock, "{pid}"))
                .map_err(with("write", &path))?;
            Ok(lock)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut pid = String::new();
            // If this fails, the message does not contain the process id.
            let _ = file.read_to_string(&mut pid);
            Err(DaemonError::Running { folder: folder.to_owned(), pid: pid.trim().to_owned() })
        }
        Err((_, errno)) => Err(with("lock", &path)(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn sockets_of_the_dead_are_replaced_and_those_of_the_living_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, control) = (folder.path(), control_socket(folder.path()));
        // Leaves the files as a killed daemon would.
        drop(UnixListener::bind(&control).expect("bound"));
        assert!(control.exists());
        let group = nix::unistd::getegid().to_string();
        let open = || Sockets::open(path, Some(&group), Vec::new());
        let opened = open().expect("they are replaced");
        assert_eq!(mode(opened.sockets.control()), 0o660);
        assert_eq!(mode(&providers_socket(path)), 0o666);
        let error = open().expect_err("one is running").to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        assert!(control.exists(), "whoever is refused leaves them alone");
        drop(opened);
        assert!(!control.exists() && !providers_socket(path).exists());
        open().expect("there is nobody any more");
    }

    #[test]
    fn that_only_root_may_connect_is_reported_where_nobody_chose_that() {
        let folder = tempfile::tempdir().expect("a folder");
        let remark = |group: Option<&str>, passed| {
            let opened = Sockets::open(folder.path(), group, passed);
            opened.map(|opened| opened.remark).expect("nobody else is there")
        };
        let own = nix::unistd::getegid().to_string();
        assert_eq!(remark(Some(&own), Vec::new()), None);
        let there_is_none = Group::from_name(GROUP).is_ok_and(|group| group.is_none());
        assert_eq!(remark(None, Vec::new()), there_is_none.then_some(NO_GROUP));
        let socket = UnixListener::bind(folder.path().join("elsewhere")).expect("bound").into();
        let passed = vec![PassedSocket { name: CONTROL.to_owned(), socket }];
        assert_eq!(remark(None, passed), None, "the service manager decides that");
    }

    #[test]
    fn sockets_that_were_passed_are_used_as_they_are_and_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("elsewhere");
        let passed = |name: &str, path: &Path| PassedSocket {
            name: name.to_owned(),
            socket: UnixListener::bind(path).expect("bound").into(),
        };
        let group = nix::unistd::getegid().to_string();
        let open = |passed| Sockets::open(folder.path(), Some(&group), passed);
        let opened = open(vec![passed(CONTROL, &path)]).expect("it is taken");
        assert_eq!(opened.sockets.control(), path);
        assert!(!control_socket(folder.path()).exists(), "no other was made");
        let Address::Path(made) = opened.sockets.providers().clone() else { panic!("{opened:?}") };
        assert_eq!(made, providers_socket(folder.path()), "which was not passed");
        drop(opened);
        assert!(path.exists() && !made.exists());
        let error = open(vec![passed("cotrol", &folder.path().join("other"))]);
        assert!(error.expect_err("refused").to_string().contains("'cotrol'"));
        let error = open(vec![passed(PROVIDERS, &folder.path().join("stream"))]);
        let error = error.expect_err("refused").to_string();
        assert!(error.contains("'providers'") && error.contains("SeqPacket"), "{error}");
    }

    #[test]
    fn a_group_that_there_is_not_is_named() {
        let error = find(Some("no such group")).expect_err("refused").to_string();
        assert!(error.contains("--group no such group: unknown group"), "{error}");
    }
}
