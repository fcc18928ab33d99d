//! Connections of scrapers, all served concurrently by one thread, so that an idle or slow connection does not delay the others.
//!
//! ```text
//!   Asking: reads the request  -->  Answering: sends the response  -->  Ending: reads what follows the request
//! ```
//!
//! Their number is limited, in total and per address. A new connection beyond the limit replaces the one that has been idle for the longest
//! time or, if all have sent a request, the oldest. The newest is served first.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::commands::http::Request;

/// Maximum number of connections.
const MOST: usize = 64;

/// Maximum number of connections from one address, so that others can connect too.
const MOST_OF_ONE: usize = 32;

/// The time for a request to arrive and its response to be read.
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum number of bytes read after a request, which avoids a reset that would lose the response.
const MOST_BEHIND: usize = u16::MAX as usize;

#[derive(Debug)]
enum State {
    Asking(Vec<u8>),
    Answering { answer: Arc<[u8]>, sent: usize },
    Ending { read: usize },
}

#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    address: IpAddr,
    until: Instant,
    state: State,
}

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Peers {
    open: Vec<Peer>,
}

impl Peers {
    /// Adds a connection from this address.
    pub(super) fn add(
        &mut self,
        stream: TcpStream,
        address: IpAddr,
        now: Instant,
    ) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let of_one = |peer: &&Peer| peer.address == address;
        let is_too_many = self.open.iter().filter(of_one).count() >= MOST_OF_ONE;
        if is_too_many || self.open.len() >= MOST {
            let may_go = |peer: &Peer| !is_too_many || peer.address == address;
            let is_asking = |peer: &Peer| matches!(peer.state, State::Asking(_));
            let idle = self.open.iter().position(|peer| may_go(peer) && is_asking(peer));
            let oldest = || self.open.iter().position(may_go);
            if let Some(goes) = idle.or_else(oldest) {
                self.open.remove(goes);
            }
        }
        let (until, state) = (now + PATIENCE, State::Asking(Vec::new()));
        self.open.push(Peer { stream, address, until, state });
        Ok(())
    }

    /// Waits until a connection or one of `others` is ready, or `timeout` has passed.
    pub(super) fn wait(&self, others: [BorrowedFd<'_>; 2], timeout: Duration) {
        let wanted = |peer: &Peer| match peer.state {
            State::Answering { .. } => PollFlags::POLLOUT,
            State::Asking(_) | State::Ending { .. } => PollFlags::POLLIN,
        };
        let others = others.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let own = self.open.iter().map(|peer| PollFd::new(peer.stream.as_fd(), wanted(peer)));
        let mut polled: Vec<PollFd<'_>> = others.into_iter().chain(own).collect();
        let first = self.open.iter().map(|peer| peer.until).min();
        let left = first.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(timeout, |left| left.min(timeout));
        // poll counts milliseconds: rounding down would spend the last millisecond in a tight loop.
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        // A later read reports the error.
        let _ = poll(&mut polled, timeout);
    }

    /// Does all work that is possible without blocking. `respond` creates the response to a request or to invalid input.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        mut respond: impl FnMut(Option<Request>) -> Arc<[u8]>,
    ) {
        self.open.reverse();
        self.open.retain_mut(|peer| now < peer.until && peer.serve(&mut respond).is_ok());
        self.open.reverse();
    }
}

impl Peer {
    /// Continues until it would block; returns an error when the connection is done.
    fn serve(&mut self, respond: &mut impl FnMut(Option<Request>) -> Arc<[u8]>) -> io::Result<()> {
        match self.go_on(respond) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn go_on(&mut self, respond: &mut impl FnMut(Option<Request>) -> Arc<[u8]>) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match &mut self.state {
                State::Asking(asked) => {
                    let read = again(|| self.stream.read(&mut buffer))?;
                    asked.extend_from_slice(&buffer[..read]);
                    if read == 0 || Request::is_whole(asked) {
                        let request = Request::read(&mut &asked[..])?;
                        self.state = State::Answering { answer: respond(request), sent: 0 };
                    }
                }
                State::Answering { answer, sent } => {
                    while *sent < answer.len() {
                        *sent += again(|| self.stream.write(&answer[*sent..]))?;
                    }
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = State::Ending { read: 0 };
                }
                // Closing with unread bytes would reset the connection and lose the response.
                State::Ending { read } => match again(|| self.stream.read(&mut buffer))? {
                    0 => return Ok(()),
                    more => {
                        *read += more;
                        if *read > MOST_BEHIND {
                            return Ok(());
                        }
                    }
                },
            }
        }
    }
}

/// Retries after an interrupted call.
fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const ASKED: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    fn connect(listener: &TcpListener, peers: &mut Peers, now: Instant) -> TcpStream {
        let address = listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(address).expect("it listens");
        let (peer, address) = listener.accept().expect("it is there");
        peers.add(peer, address.ip(), now).expect("a socket");
        stream
    }

    /// The number of bytes of the response that a peer receives, while the others are served.
    fn answer_of(stream: &mut TcpStream, peers: &mut Peers, now: Instant, answer: &[u8]) -> usize {
        stream.set_nonblocking(true).expect("a socket");
        let (mut got, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        let until = Instant::now() + Duration::from_secs(20);
        while got.len() < answer.len() && Instant::now() < until {
            peers.serve(now, |request| {
                assert_eq!(request.expect("a request").path, "/metrics");
                answer.into()
            });
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => got.extend_from_slice(&buffer[..read]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(answer.starts_with(&got));
        got.len()
    }

    #[test]
    fn idle_connections_and_slow_readers_block_no_thread() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut peers, now) = (Peers::default(), Instant::now());
        let large: Arc<[u8]> = vec![b'x'; 16 << 20].into();
        let mut slow = connect(&listener, &mut peers, now);
        slow.write_all(ASKED).expect("sent");
        let until = Instant::now() + Duration::from_secs(20);
        while matches!(peers.open[0].state, State::Asking(_)) && Instant::now() < until {
            peers.serve(now, |_| large.clone());
        }
        // More connections than the limit, all idle.
        let _idle: Vec<_> = (0..100).map(|_| connect(&listener, &mut peers, now)).collect();
        let mut half = connect(&listener, &mut peers, now);
        half.write_all(&ASKED[..10]).expect("sent");
        let mut scraper = connect(&listener, &mut peers, now);
        scraper.write_all(ASKED).expect("sent");
        assert_eq!(answer_of(&mut scraper, &mut peers, now, b"answer"), 6);
        assert_eq!(peers.open.len(), MOST_OF_ONE);
        assert_eq!(answer_of(&mut slow, &mut peers, now, &large), large.len(), "it goes on");
    }

    #[test]
    fn one_address_leaves_room_for_others_and_the_newest_is_served_first() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut peers, now) = (Peers::default(), Instant::now());
        let from = |address: [u8; 4], peers: &mut Peers| {
            let target = listener.local_addr().expect("it is bound");
            let mut stream = TcpStream::connect(target).expect("it listens");
            stream.write_all(ASKED).expect("sent");
            let peer = listener.accept().expect("it is there").0;
            peers.add(peer, address.into(), now).expect("a socket");
            stream
        };
        let _kept = from([10, 0, 0, 1], &mut peers);
        let _many: Vec<_> = (0..200).map(|_| from([10, 0, 0, 2], &mut peers)).collect();
        let newest = from([10, 0, 0, 3], &mut peers);
        assert_eq!(peers.open.len(), MOST_OF_ONE + 2, "the first one is still there");
        // Wait until all have sent a request; the machine may be slow.
        let is_there = |peer: &Peer| peer.stream.peek(&mut [0]).is_ok();
        let until = Instant::now() + Duration::from_secs(20);
        while !peers.open.iter().all(is_there) && Instant::now() < until {
            std::thread::yield_now();
        }
        let mut answers = 0_u8;
        peers.serve(now, |_| {
            answers += 1;
            [answers].into()
        });
        newest.set_nonblocking(false).expect("a socket");
        let mut first = [0];
        (&newest).read_exact(&mut first).expect("an answer");
        assert_eq!((first[0], usize::from(answers)), (1, MOST_OF_ONE + 2));
    }

    #[test]
    fn anyone_who_takes_too_long_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut peers, now) = (Peers::default(), Instant::now());
        let _idle = connect(&listener, &mut peers, now);
        peers.serve(now, |_| unreachable!("it asks for nothing"));
        assert_eq!(peers.open.len(), 1);
        peers.serve(now + PATIENCE, |_| unreachable!("it asks for nothing"));
        assert!(peers.open.is_empty());
    }
}
