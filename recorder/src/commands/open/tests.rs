use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use super::*;

/// A server of some bytes, and what ends it.
struct Server {
    address: SocketAddr,
    name: String,
    thread: thread::JoinHandle<Result<(), OpenError>>,
}

fn serve(name: &str, content: &[u8]) -> Server {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(content).expect("room");
    let mut served = Served::new(name, file).expect("a file");
    let name = served.name.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let thread =
        thread::spawn(move || serve::until_fetched(&listener, address.port(), &mut served));
    Server { address, name, thread }
}

impl Server {
    /// What the server answers to a request.
    fn ask(&self, request: &str) -> String {
        let mut peer = TcpStream::connect(self.address).expect("it listens");
        peer.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("answered");
        answer
    }

    fn request(&self, method: &str, path: &str) -> String {
        let host = self.address;
        self.ask(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {PERFETTO}\r\n\r\n"))
    }
}

#[test]
fn the_file_is_served_once_to_the_page_that_may_have_it() {
    let server = serve("my trace.fxt", b"all of it");
    assert_eq!(server.name, "my_trace.fxt");
    let preflight = server.request("OPTIONS", "/my_trace.fxt");
    assert!(preflight.starts_with("HTTP/1.1 204"), "{preflight}");
    assert!(preflight.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"));
    assert!(preflight.contains("Access-Control-Allow-Private-Network: true\r\n"));
    let head = server.request("HEAD", "/my_trace.fxt");
    assert!(head.contains("Content-Length: 9\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let whole = server.request("GET", "/my_trace.fxt?cache=no");
    assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\nall of it"));
    server.thread.join().expect("no panic").expect("it ended by itself");
}

#[test]
fn nothing_else_is_served() {
    let server = serve("t.fxt", b"secret");
    for path in ["/", "/../t.fxt", "/etc/passwd", "//t.fxt", "/t.fxt/"] {
        let answer = server.request("GET", path);
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    for request in [
        "GET /t.fxt HTTP/1.1\r\nHost: evil.example:9001\r\n\r\n",
        "GET /t.fxt HTTP/1.1\r\n\r\n",
        "POST /t.fxt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "nonsense\r\n\r\n",
        "",
    ] {
        // Half of it may be missing: then the peer has to say that no more comes.
        let mut peer = TcpStream::connect(server.address).expect("it listens");
        peer.write_all(request.as_bytes()).expect("sent");
        peer.shutdown(std::net::Shutdown::Write).expect("open");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 4") && !answer.contains("secret"), "{answer}");
    }
    assert!(server.request("GET", "/t.fxt").ends_with("secret"));
    server.thread.join().expect("no panic").expect("it ended by itself");
}

#[test]
fn a_taken_port_is_said_to_be_taken() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.json");
    std::fs::write(&file, b"[]").expect("room");
    let args = OpenArgs { file, port, no_browser: true };
    let error = run(&args, &mut Vec::new()).expect_err("taken");
    assert!(error.to_string().contains(&format!("cannot serve on port {port}")), "{error}");
}
