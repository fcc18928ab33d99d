//! The two sockets, and the lock that says whose they are.
//!
//! A daemon that was killed leaves its sockets behind. Who holds the lock may replace them: the kernel lets go of a
//! lock when its process ends, however it ends.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Group;

use super::error::DaemonError;
use crate::control::{control_socket, providers_socket};
use crate::kernel::seqpacket::{Address, Listener};

/// The group whose users may connect, where there is one of this name and no other is asked for.
const GROUP: &str = "fxtrec";

/// The sockets' files, removed when dropped, and the lock.
#[derive(Debug)]
pub(super) struct Sockets {
    control: PathBuf,
    providers: PathBuf,
    _lock: Flock<File>,
}

impl Sockets {
    /// Makes both.
    ///
    /// # Errors
    /// [`DaemonError`]; `Running` when another daemon has them.
    pub(super) fn open(
        folder: &Path,
        group: Option<&str>,
    ) -> Result<(Sockets, Listener, UnixListener), DaemonError> {
        let group = find(group)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .map_err(with("make the folder", folder))?;
        let lock = lock(folder)?;
        let control = control_socket(folder);
        let providers = providers_socket(folder);
        for path in [&control, &providers] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(with("replace", path)(error));
                }
                _ => {}
            }
        }
        let sockets =
            Sockets { control: control.clone(), providers: providers.clone(), _lock: lock };
        // Every application may register: whose are recorded is decided for each session.
        let to_providers = Listener::bind(Address::Path(providers.clone()))
            .map_err(with("listen at", &providers))?;
        allow(&providers, 0o666).map_err(with("open to everybody", &providers))?;
        let to_control = bind_control(&control).map_err(with("listen at", &control))?;
        if let Some(gid) = group {
            chown(&control, None, Some(gid)).map_err(with("give to the group", &control))?;
            allow(&control, 0o660).map_err(with("open to the group", &control))?;
        }
        Ok((sockets, to_providers, to_control))
    }

    /// Where clients connect.
    pub(super) fn control(&self) -> &Path {
        &self.control
    }

    /// Where applications connect.
    pub(super) fn providers(&self) -> &Path {
        &self.providers
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in [&self.control, &self.providers] {
            // What cannot be removed is replaced by the next daemon.
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

/// The control socket, which is root's alone from its first moment on.
fn bind_control(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    allow(path, 0o600)?;
    Ok(listener)
}

/// The number of the group that was asked for, or of the usual one.
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

/// Takes the lock of this folder, and writes down who has it.
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
            // Without it the message has less to say.
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
        // As a daemon leaves them that was killed.
        drop(UnixListener::bind(&control).expect("bound"));
        assert!(control.exists());
        let group = nix::unistd::getegid().to_string();
        let (sockets, _listener, _control) =
            Sockets::open(path, Some(&group)).expect("they are replaced");
        assert_eq!(mode(sockets.control()), 0o660);
        assert_eq!(mode(sockets.providers()), 0o666);
        let error = Sockets::open(path, Some(&group)).expect_err("one is running").to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        assert!(control.exists(), "whoever is refused leaves them alone");
        drop(sockets);
        assert!(!control.exists() && !providers_socket(path).exists());
        Sockets::open(path, Some(&group)).expect("there is nobody any more");
    }

    #[test]
    fn a_group_that_there_is_not_is_named() {
        let error = find(Some("no such group")).expect_err("refused").to_string();
        assert!(error.contains("--group no such group"), "{error}");
    }
}
