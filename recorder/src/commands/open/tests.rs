use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use super::*;

const TOKEN: &str = "0123456789abcdef";

/// A server for a few bytes, and a handle to stop it.
struct Server {
    address: SocketAddr,
    path: String,
    thread: thread::JoinHandle<Result<(), OpenError>>,
}

fn serve(name: &str, content: &[u8]) -> Server {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(content).expect("room");
    let served = Served::new(name, TOKEN, file).expect("a file");
    let path = format!("/{}", served.path);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let thread = thread::spawn(move || serve::until_fetched(&listener, address.port(), served));
    Server { address, path, thread }
}

impl Server {
    /// The server's response to a request.
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
    assert_eq!(server.path, format!("/{TOKEN}/my_trace.fxt"));
    let preflight = server.request("OPTIONS", &server.path);
    assert!(preflight.starts_with("HTTP/1.1 204"), "{preflight}");
    assert!(preflight.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"));
    assert!(preflight.contains("Access-Control-Allow-Private-Network: true\r\n"));
    let head = server.request("HEAD", &server.path);
    assert!(head.contains("Content-Length: 9\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let whole = server.request("GET", &format!("{}?cache=no", server.path));
    assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\nall of it"));
    server.thread.join().expect("no panic").expect("it ended by itself");
}

#[test]
fn nothing_else_is_served() {
    let server = serve("t.fxt", b"secret");
    let path = &server.path;
    let guesses = ["/", "/t.fxt", "/../t.fxt", "/etc/passwd", "//t.fxt", "/0123456789abcdee/t.fxt"];
    for guess in guesses.into_iter().map(str::to_owned).chain([format!("{path}/")]) {
        for method in ["GET", "HEAD", "OPTIONS"] {
            let answer = server.request(method, &guess);
            assert!(answer.starts_with("HTTP/1.1 404"), "{guess}: {answer}");
            assert!(answer.contains("Content-Length: 0\r\n"), "{guess}: {answer}");
            assert!(!answer.contains("Access-Control-"), "{guess}: {answer}");
        }
    }
    let host = server.address;
    for request in [
        format!("GET {path} HTTP/1.1\r\nHost: evil.example:9001\r\n\r\n"),
        format!("GET {path} HTTP/1.1\r\n\r\n"),
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: https://evil.example\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        "nonsense\r\n\r\n".to_owned(),
        String::new(),
    ] {
        // The request may be incomplete, so the peer closes its sending side.
        let mut peer = TcpStream::connect(server.address).expect("it listens");
        peer.write_all(request.as_bytes()).expect("sent");
        peer.shutdown(std::net::Shutdown::Write).expect("open");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 4") && !answer.contains("secret"), "{answer}");
    }
    assert!(server.request("GET", path).ends_with("secret"));
    server.thread.join().expect("no panic").expect("it ended by itself");
}

#[test]
fn connections_that_say_nothing_block_no_thread() {
    let server = serve("t.fxt", b"all of it");
    // A browser opens connections in advance; one starts a request and stops.
    let connect = || TcpStream::connect(server.address).expect("it listens");
    let mut silent: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    silent[0].write_all(b"GET /").expect("sent");
    assert!(server.request("GET", &server.path).ends_with("all of it"));
    server.thread.join().expect("no panic").expect("it ended by itself");
}

#[test]
fn it_ends_only_when_the_whole_file_was_taken() {
    // More than socket buffers hold.
    let content = vec![b'x'; 32 << 20];
    let server = serve("t.fxt", &content);
    let mut hasty = TcpStream::connect(server.address).expect("it listens");
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", server.path, server.address);
    hasty.write_all(request.as_bytes()).expect("sent");
    let mut some = [0; 1000];
    hasty.read_exact(&mut some).expect("the beginning");
    drop(hasty);
    // The server does not know yet that this connection is closed; both are served.
    let whole = server.ask(&request);
    assert!(whole.ends_with("xxxx") && whole.len() > content.len(), "{}", whole.len());
    server.thread.join().expect("no panic").expect("it ended by itself");
    assert!(TcpStream::connect(server.address).is_err(), "nobody listens any more");
}

#[test]
fn each_link_is_another() {
    let link = || {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("t.fxt");
        std::fs::write(&file, 0x0016_5478_4604_0010_u64.to_le_bytes()).expect("room");
        prepare(&OpenArgs { file, port: 0, no_browser: true }).expect("a trace").path
    };
    let (one, other) = (link(), link());
    assert!(one.len() > 32 && one.ends_with("/t.fxt"), "{one}");
    assert_ne!(one, other);
}

#[test]
fn a_taken_port_is_reported_as_taken() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.json");
    std::fs::write(&file, b"[]").expect("room");
    let args = OpenArgs { file, port, no_browser: true };
    let error = run(&args, &mut Vec::new()).expect_err("taken");
    assert!(error.to_string().contains(&format!("cannot serve on port {port}")), "{error}");
}

#[test]
fn another_user_who_knows_the_link_gets_nothing() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let server = serve("t.fxt", b"secret");
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{} && printf 'GET {} HTTP/1.1\\r\\nHost: {}\\r\\n\\r\\n' >&3; cat <&3",
        server.address.port(),
        server.path,
        server.address
    );
    let nobody = 65534;
    let ask = |uid| {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("bash");
        let done = command.args(["-c", &script]).uid(uid).current_dir("/").output().expect("bash");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    assert_eq!(ask(nobody), "");
    assert!(ask(0).ends_with("secret"));
    server.thread.join().expect("no panic").expect("it ended by itself");
}
