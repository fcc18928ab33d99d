//! `waiter` waits for files and sockets of each kind, and says which.

use std::fs::File;
use std::io::{Read, Write, pipe};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::eventfd::EventFd;
use nix::unistd::gettid;

use super::be;

/// How long it waits each time, at least.
const WAIT: Duration = Duration::from_millis(5);

/// Lets `wait` wait this often until the other thread has run `end`, and prints the descriptor, how often, and what it was.
fn wait_for(
    (ends, count): (&Sender<Box<dyn FnOnce() + Send>>, usize),
    (descriptor, what): (RawFd, &str),
    mut end: impl FnMut() -> Box<dyn FnOnce() + Send>,
    mut wait: impl FnMut(),
) {
    for _ in 0..count {
        ends.send(end()).expect("the other thread runs");
        wait();
    }
    println!("{} {descriptor} {count} {what}", gettid());
}

fn stream(address: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).expect("a port");
    let client =
        TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
    (client, listener.accept().expect("a client").0)
}

/// Waits `count` times for each of them.
pub(super) fn wait(count: usize) {
    let (ends, to_end) = channel::<Box<dyn FnOnce() + Send>>();
    let other = std::thread::spawn(move || {
        be("other", 20);
        for end in to_end {
            std::thread::sleep(WAIT);
            end();
        }
    });
    be("waiter", 10);
    let waits = (&ends, count);
    for (kind, address) in [
        ("TCP", SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        ("TCP", (Ipv6Addr::LOCALHOST, 0).into()),
    ] {
        let (mut client, server) = stream(address);
        let what = format!("{kind} {}", client.peer_addr().expect("it is connected"));
        let send = || {
            let mut server = server.try_clone().expect("a descriptor");
            Box::new(move || server.write_all(&[1]).expect("sent")) as Box<dyn FnOnce() + Send>
        };
        let descriptor = client.as_raw_fd();
        wait_for(waits, (descriptor, &what), send, || client.read_exact(&mut [0]).expect("read"));
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = socket.local_addr().expect("it has one");
    let send = || {
        let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        Box::new(move || assert_eq!(from.send_to(&[1], address).expect("sent"), 1))
            as Box<dyn FnOnce() + Send>
    };
    let receive = || assert_eq!(socket.recv(&mut [0]).expect("received"), 1);
    wait_for(waits, (socket.as_raw_fd(), &format!("UDP {address}")), send, receive);

    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let send = || {
        let mut theirs = theirs.try_clone().expect("a descriptor");
        Box::new(move || theirs.write_all(&[1]).expect("sent")) as Box<dyn FnOnce() + Send>
    };
    let descriptor = ours.as_raw_fd();
    wait_for(waits, (descriptor, "a Unix socket"), send, || {
        ours.read_exact(&mut [0]).expect("read");
    });

    let (mut from, to) = pipe().expect("a pipe");
    let send = || {
        let mut to = to.try_clone().expect("a descriptor");
        Box::new(move || to.write_all(&[1]).expect("sent")) as Box<dyn FnOnce() + Send>
    };
    let descriptor = from.as_raw_fd();
    wait_for(waits, (descriptor, "a pipe"), send, || from.read_exact(&mut [0]).expect("read"));

    let event = std::sync::Arc::new(EventFd::new().expect("an eventfd"));
    let send = || {
        let event = event.clone();
        Box::new(move || assert_eq!(event.write(1), Ok(8))) as Box<dyn FnOnce() + Send>
    };
    let take = || assert_eq!(event.read().expect("read"), 1);
    wait_for(waits, (event.as_raw_fd(), "an eventfd"), send, take);

    let folder = tempfile::tempdir().expect("a place for a file");
    let path = folder.path().join("lock");
    let file = File::create(&path).expect("a file");
    let descriptor = file.as_raw_fd();
    let name = folder.path().file_name().expect("it has one").to_string_lossy().into_owned();
    let mut file = Some(file);
    let lock = || {
        let other = File::open(&path).expect("it is there");
        let lock = Flock::lock(other, FlockArg::LockExclusive).expect("it is free");
        Box::new(move || drop(lock)) as Box<dyn FnOnce() + Send>
    };
    let take = || {
        let lock = Flock::lock(file.take().expect("given back"), FlockArg::LockExclusive);
        file = Some(lock.expect("it becomes free").unlock().expect("it was locked"));
    };
    wait_for(waits, (descriptor, &format!("{name}/lock")), lock, take);
    drop(ends);
    other.join().expect("it ends");
}
