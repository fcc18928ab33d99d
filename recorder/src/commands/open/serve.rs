//! Serving one file to one page.
//!
//! Own code, since it is a hundred lines: the HTTP crates that are small enough are not kept up,
//! and the others bring a runtime along.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::request::Request;
use super::{OpenError, PERFETTO};

/// A peer that is silent for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file and the name that it is served by.
#[derive(Debug)]
pub(super) struct Served {
    /// Letters and digits of the file's name, which need no escapes in a link.
    pub(super) name: String,
    file: File,
    length: u64,
}

impl Served {
    pub(super) fn new(name: &str, file: File) -> io::Result<Self> {
        let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name = name.chars().map(|c| if keep(c) { c } else { '_' }).collect();
        let length = file.metadata()?.len();
        Ok(Self { name, file, length })
    }
}

/// Answers requests until the whole file has been fetched.
pub(super) fn until_fetched(
    listener: &TcpListener,
    port: u16,
    served: &mut Served,
) -> Result<(), OpenError> {
    loop {
        let (peer, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => return Err(OpenError::Accept(error)),
        };
        // What goes wrong with one connection is no reason not to wait for the next.
        if let Ok(true) = answer(&peer, port, served) {
            return Ok(());
        }
    }
}

/// Whether accept(2) failed because of the peer, and not for good.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::Interrupted | Kind::ConnectionReset)
}

/// Answers one request; true when the whole file went out.
fn answer(mut peer: &TcpStream, port: u16, served: &mut Served) -> io::Result<bool> {
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = Request::read(&mut BufReader::new(peer))? else {
        respond(peer, "400 Bad Request", 0)?;
        return Ok(false);
    };
    // A page elsewhere may point a name of its own at this machine.
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !request.host.is_some_and(|host| hosts.contains(&host)) {
        respond(peer, "421 Misdirected Request", 0)?;
        return Ok(false);
    }
    let found = request.path.strip_prefix('/') == Some(&served.name);
    match request.method.as_str() {
        // Browsers ask first whether a page of the web may load from this machine.
        "OPTIONS" => respond(peer, "204 No Content", 0)?,
        "GET" | "HEAD" if !found => respond(peer, "404 Not Found", 0)?,
        "HEAD" => respond(peer, "200 OK", served.length)?,
        "GET" => {
            respond(peer, "200 OK", served.length)?;
            served.file.seek(SeekFrom::Start(0))?;
            let sent = io::copy(&mut served.file, &mut peer)?;
            peer.flush()?;
            return Ok(sent >= served.length);
        }
        _ => respond(peer, "405 Method Not Allowed", 0)?,
    }
    Ok(false)
}

fn respond(mut peer: &TcpStream, status: &str, length: u64) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\n\
         Content-Length: {length}\r\n\
         Content-Type: application/octet-stream\r\n\
         Access-Control-Allow-Origin: {PERFETTO}\r\n\
         Access-Control-Allow-Methods: GET, HEAD\r\n\
         Access-Control-Allow-Private-Network: true\r\n\
         Vary: Origin\r\n\
         Cache-Control: no-store\r\n\
         Connection: close\r\n\r\n"
    );
    peer.write_all(head.as_bytes())
}
