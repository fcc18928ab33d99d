//! Serves one file to one page.
//!
//! ```text
//!  accept --> whose connection? --> a thread each --> request --> host, path, origin --> the file
//!     ^                                                                                    |
//!     +-------------------- ends when the whole file was taken once -----------------------+
//! ```
//!
//! Each connection has a thread, since browsers open connections that they never use. Other users of the machine can also connect to the
//! loopback address. So the path contains a token that they cannot guess, and if the kernel reports the owner of a connection, connections
//! of other users are closed.
//!
//! Hand-written in two hundred lines: the small HTTP crates are unmaintained, and the others need an async runtime.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{OpenError, PERFETTO};
use crate::commands::http::Request;
use crate::kernel::stop_token::StopToken;
use crate::kernel::user::Owner;

/// A peer that sends nothing for this long is dropped.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest single wait for a connection.
const LONG: Duration = Duration::from_secs(3600);

/// How long to stop accepting connections when descriptors or threads have run out.
const DEAF: Duration = Duration::from_millis(200);

/// Maximum number of connections; browsers open about six.
const CONNECTIONS: usize = 64;

/// The size of one read from the file, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// A file and its path in the link.
#[derive(Debug)]
pub(super) struct Served {
    /// The path in the link: the token, and letters and digits of the file's name, which need no escapes.
    pub(super) path: String,
    file: File,
    length: u64,
}

impl Served {
    pub(super) fn new(name: &str, token: &str, file: File) -> io::Result<Self> {
        let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name: String = name.chars().map(|c| if keep(c) { c } else { '_' }).collect();
        let length = file.metadata()?.len();
        Ok(Self { path: format!("{token}/{name}"), file, length })
    }

    /// Sends the file; returns whether all of it was sent.
    fn send(&self, mut peer: &TcpStream) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < self.length {
            let most = usize::try_from(self.length - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let bytes = self.file.read_at(&mut chunk[..most], at)?;
            if bytes == 0 {
                // The file has been truncated.
                return Ok(false);
            }
            peer.write_all(&chunk[..bytes])?;
            at += bytes as u64;
        }
        Ok(true)
    }
}

/// Answers requests until the whole file has been fetched once.
pub(super) fn until_fetched(
    listener: &TcpListener,
    port: u16,
    served: Served,
) -> Result<(), OpenError> {
    listener.set_nonblocking(true).map_err(OpenError::Accept)?;
    let fetched = StopToken::new().map_err(OpenError::Accept)?;
    // Shared with the threads of the connections.
    let served = Arc::new(served);
    while !fetched.is_stopped() {
        let (peer, address) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    let wait = fetched.wait(std::iter::once(listener.as_fd()), LONG);
                    wait.map_err(OpenError::Accept)?;
                    continue;
                }
                io::ErrorKind::ConnectionAborted
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionReset => continue,
                _ => return Err(OpenError::Accept(error)),
            },
        };
        if is_of_somebody_else(address, port) || Arc::strong_count(&served) > CONNECTIONS {
            continue;
        }
        let (served, fetched) = (served.clone(), fetched.clone());
        let started = thread::Builder::new().name("fxtrec-open".to_owned()).spawn(move || {
            // An error on one connection does not affect the next.
            if let Ok(true) = answer(&peer, port, &served) {
                fetched.stop();
            }
        });
        if started.is_err() {
            thread::sleep(DEAF);
        }
    }
    Ok(())
}

/// Whether another user's process has connected, according to the kernel. Root and the user who called sudo are
/// allowed.
fn is_of_somebody_else(peer: SocketAddr, port: u16) -> bool {
    let connections = [procfs::net::tcp(), procfs::net::tcp6()].into_iter().flatten().flatten();
    let is_it = |it: &procfs::net::TcpNetEntry| {
        // A socket of IPv6 can connect to an address of IPv4.
        let local = (it.local_address.ip().to_canonical(), it.local_address.port());
        local == (peer.ip(), peer.port()) && it.remote_address.port() == port
    };
    // A closed connection has no owner, and gets no response either.
    let uid = connections.filter(is_it).map(|it| it.uid).next();
    let own = nix::unistd::geteuid().as_raw();
    let caller = Owner::sudo_caller().map(|caller| caller.uid);
    uid.is_some_and(|uid| uid != 0 && uid != own && Some(uid) != caller)
}

/// Answers one request; returns true if the whole file was sent and the peer has read it.
fn answer(peer: &TcpStream, port: u16, served: &Served) -> io::Result<bool> {
    peer.set_nonblocking(false)?;
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = Request::read(&mut BufReader::new(peer))? else {
        respond(peer, "400 Bad Request", None)?;
        return Ok(false);
    };
    // Another site may resolve its own name to this machine (DNS rebinding).
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !request.host.is_some_and(|host| hosts.contains(&host)) {
        respond(peer, "421 Misdirected Request", None)?;
        return Ok(false);
    }
    if request.path.strip_prefix('/') != Some(&served.path) {
        respond(peer, "404 Not Found", None)?;
        return Ok(false);
    }
    if request.origin.is_some_and(|origin| origin != PERFETTO) {
        respond(peer, "403 Forbidden", None)?;
        return Ok(false);
    }
    match request.method.as_str() {
        // A browser first sends a preflight request: may a web page load from this machine?
        "OPTIONS" => respond(peer, "204 No Content", Some(0))?,
        "HEAD" => respond(peer, "200 OK", Some(served.length))?,
        "GET" => {
            respond(peer, "200 OK", Some(served.length))?;
            return Ok(served.send(peer)? && is_taken(peer));
        }
        _ => respond(peer, "405 Method Not Allowed", None)?,
    }
    // Unread requests after this one would reset the connection and lose the response.
    peer.shutdown(Shutdown::Write)?;
    io::copy(&mut peer.take(u64::from(u16::MAX)), &mut io::sink())?;
    Ok(false)
}

/// Waits until the peer closes its end, which it does after receiving everything. Data in flight could be lost when this process ends.
fn is_taken(mut peer: &TcpStream) -> bool {
    peer.shutdown(Shutdown::Write).is_ok() && {
        let mut rest = [0; 1024];
        loop {
            match peer.read(&mut rest) {
                Ok(0) => return true,
                Ok(_) => {}
                // The peer is silent because it has received everything or was reset.
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}

/// Sends the head of a response. Without a length there is no body.
fn respond(mut peer: &TcpStream, status: &str, length: Option<u64>) -> io::Result<()> {
    let allow = match length {
        None => String::new(),
        Some(_) => format!(
            "Access-Control-Allow-Origin: {PERFETTO}\r\n\
             Access-Control-Allow-Methods: GET, HEAD\r\n\
             Access-Control-Allow-Private-Network: true\r\n\
             Vary: Origin\r\n"
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n\
         Content-Length: {}\r\n\
         Content-Type: application/octet-stream\r\n\
         {allow}\
         X-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        length.unwrap_or(0)
    );
    peer.write_all(head.as_bytes())
}
