//! Telling whoever started this process that it is ready: the protocol of systemd's sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that says where to: a path, or `@` and an abstract name.
pub const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// What is told.
pub const READY: &[u8] = b"READY=1";

/// Says that everything is set up, where somebody wants to know.
///
/// # Errors
/// What socket(2) or sendto(2) return.
pub fn ready() -> io::Result<()> {
    match std::env::var_os(NOTIFY_VARIABLE) {
        Some(address) => tell(&address),
        None => Ok(()),
    }
}

fn tell(address: &OsStr) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(READY, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_at_a_path_or_name_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ready");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        tell(path.as_os_str()).expect("told");
        let name = format!("fxtrec-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("an address");
        let other = UnixDatagram::bind_addr(&address).expect("a socket");
        tell(OsStr::new(&format!("@{name}"))).expect("told");
        for listener in [listener, other] {
            let mut buffer = [0; 32];
            let bytes = listener.recv(&mut buffer).expect("a message");
            assert_eq!(&buffer[..bytes], READY);
        }
    }
}
