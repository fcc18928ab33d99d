//! A workload with known senders and receivers: pairs of threads, `client-N` and `server-N`, each of which waits only for packets of the
//! other.
//!
//! `packets lo|veth tcp|udp PAIRS ROUNDS`, in a network namespace of its own (`unshare -n`). With `veth`, the servers are in another
//! one, behind a pair of devices.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;

const BYTES: usize = 100;

/// One end of a pair.
enum End {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl End {
    fn send(&mut self) -> io::Result<()> {
        match self {
            End::Tcp(stream) => stream.write_all(&[1; BYTES]),
            End::Udp(socket) => socket.send(&[1; BYTES]).map(|_| ()),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        match self {
            End::Tcp(stream) => stream.read_exact(&mut [0; BYTES]),
            End::Udp(socket) => socket.recv(&mut [0; BYTES]).map(|_| ()),
        }
    }
}

fn run(arguments: &[&str]) -> io::Result<()> {
    let status = Command::new("ip").args(arguments).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(arguments.join(" "))) }
}

fn spawn(name: String, run: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Ended> {
    thread::Builder::new().name(name).spawn(run)
}

type Ended = JoinHandle<io::Result<()>>;

/// The server of each pair, on threads in the caller's namespace, which wait for their clients.
fn serve(
    address: IpAddr,
    is_tcp: bool,
    pairs: usize,
    rounds: usize,
    places: &Sender<SocketAddr>,
) -> io::Result<Vec<Ended>> {
    let any = SocketAddr::new(address, 0);
    let mut servers = Vec::new();
    for pair in 0..pairs {
        let name = format!("server-{pair}");
        let (place, server) = if is_tcp {
            let listener = TcpListener::bind(any)?;
            let place = listener.local_addr()?;
            let server = spawn(name, move || {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                answer(&mut End::Tcp(stream), rounds)
            })?;
            (place, server)
        } else {
            let socket = UdpSocket::bind(any)?;
            let place = socket.local_addr()?;
            let server = spawn(name, move || {
                let (_, client) = socket.recv_from(&mut [0; BYTES])?;
                socket.connect(client)?;
                let mut end = End::Udp(socket);
                end.send()?;
                answer(&mut end, rounds - 1)
            })?;
            (place, server)
        };
        servers.push(server);
        places.send(place).map_err(io::Error::other)?;
    }
    Ok(servers)
}

fn answer(end: &mut End, rounds: usize) -> io::Result<()> {
    for _ in 0..rounds {
        end.receive()?;
        end.send()?;
    }
    Ok(())
}

fn ask(place: SocketAddr, is_tcp: bool, rounds: usize) -> io::Result<()> {
    let mut end = if is_tcp {
        let stream = TcpStream::connect(place)?;
        stream.set_nodelay(true)?;
        End::Tcp(stream)
    } else {
        let any: IpAddr = if place.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(place)?;
        End::Udp(socket)
    };
    for _ in 0..rounds {
        end.send()?;
        end.receive()?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    // The process that started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let arguments: Vec<String> = std::env::args().collect();
    let [_, way, protocol, pairs, rounds] = &arguments[..] else {
        return Err(io::Error::other("lo|veth tcp|udp PAIRS ROUNDS"));
    };
    let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
    let (is_tcp, pairs, rounds) = (protocol == "tcp", number(pairs)?, number(rounds)?);
    let (to_clients, places) = channel();
    let servers = match way.as_str() {
        "lo" => serve([127, 0, 0, 1].into(), is_tcp, pairs, rounds, &to_clients)?,
        _ => elsewhere(is_tcp, pairs, rounds, to_clients)?,
    };
    let clients = (0..pairs).map(|pair| {
        let place = places.recv().map_err(io::Error::other)?;
        spawn(format!("client-{pair}"), move || ask(place, is_tcp, rounds))
    });
    let clients = clients.collect::<io::Result<Vec<Ended>>>()?;
    for thread in clients.into_iter().chain(servers) {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

/// The servers in their own network namespace, behind a pair of devices.
fn elsewhere(
    is_tcp: bool,
    pairs: usize,
    rounds: usize,
    places: Sender<SocketAddr>,
) -> io::Result<Vec<Ended>> {
    let (reported, there): (Sender<i32>, Receiver<i32>) = channel();
    let (linked, is_linked) = channel();
    let servers = thread::spawn(move || -> io::Result<Vec<Ended>> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        reported.send(nix::unistd::gettid().as_raw()).map_err(io::Error::other)?;
        is_linked.recv().map_err(io::Error::other)?;
        run(&["addr", "add", "10.99.0.2/24", "dev", "vb"])?;
        run(&["link", "set", "vb", "up"])?;
        serve([10, 99, 0, 2].into(), is_tcp, pairs, rounds, &places)
    });
    let there = there.recv().map_err(io::Error::other)?.to_string();
    run(&["link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", &there])?;
    run(&["addr", "add", "10.99.0.1/24", "dev", "va"])?;
    run(&["link", "set", "va", "up"])?;
    linked.send(()).map_err(io::Error::other)?;
    servers.join().map_err(|_| io::Error::other("a thread panicked"))?
}
