//! A handmade provider: it implements the protocol as `docs/reference/providers.md` describes it, without fxt-writer's client or engine, so
//! that it can also violate it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fxt_writer::engine::{MAGIC, Mode};
use fxt_writer::packet::{PACKET_BYTES, Packet};
use fxt_writer::provider::wire::{FromManager, FromProvider, Session, Start};
use fxt_writer::record::{Event, EventKind, Initialization, Record};
use fxt_writer::{Koid, Text, ThreadName, Ticks};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::uio::pwrite;

use super::{Address, Received, Seqpacket};

/// No answer of a manager takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

const HEADER_WORDS: usize = 16;

/// How a buffer is divided, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    pub(super) total: usize,
    pub(super) durable: usize,
    pub(super) rolling: usize,
}

impl Division {
    pub(super) fn new(mode: Mode, bytes: usize) -> Division {
        let total = bytes / 8;
        let available = total - HEADER_WORDS;
        if mode == Mode::Oneshot {
            return Division { total, durable: 0, rolling: available };
        }
        let share = (available / 16).min((1 << 20) / 8);
        let durable = share + (available - share) % 2;
        Division { total, durable, rolling: (available - durable) / 2 }
    }
}

/// One end of the control socket.
#[derive(Debug)]
pub(super) struct ByHand {
    pub(super) connection: Seqpacket,
}

/// The parameters of START, and the content of the buffer so far.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) session: Session,
    pub(super) start: Start,
    pub(super) buffer: OwnedFd,
    pub(super) fifo: Seqpacket,
    pub(super) division: Division,
    pub(super) durable_end: u64,
    /// The position in the open rolling buffer, in words.
    pub(super) rolling_end: usize,
    pub(super) wrapped: u32,
}

/// Waits until there is data to read, or the other side has closed.
fn wait(socket: &Seqpacket) {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).expect("seconds");
        match poll(&mut polled, timeout) {
            Ok(0) => panic!("the manager says nothing"),
            Ok(_) => return,
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
    }
}

impl ByHand {
    pub(super) fn register(address: &Address, name: &str, categories: &[&str]) -> ByHand {
        let provider = ByHand::connect(address);
        let categories = categories.iter().map(|&category| category.to_owned()).collect();
        provider.say(&FromProvider::Register { name: name.to_owned(), categories });
        provider
    }

    pub(super) fn connect(address: &Address) -> ByHand {
        let until = Instant::now() + PATIENCE;
        loop {
            match Seqpacket::connect(address) {
                Ok(connection) => return ByHand { connection },
                // Too many connections wait to be accepted.
                Err(error) if error.raw_os_error() == Some(nix::libc::EAGAIN) => {
                    assert!(Instant::now() < until, "the manager lets nobody in");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{address}: {error}"),
            }
        }
    }

    pub(super) fn say(&self, message: &FromProvider) {
        self.say_bytes(&message.encode().expect("a message"));
    }

    pub(super) fn say_bytes(&self, bytes: &[u8]) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = self.connection.send(bytes, &[]) {
            // There is no space for it yet.
            assert_eq!(error.raw_os_error(), Some(nix::libc::EAGAIN), "the manager listens");
            assert!(Instant::now() < until, "the manager takes nothing");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// The next message, with descriptors; `None` when the manager has closed the connection.
    pub(super) fn hear(&self) -> Option<(FromManager, Vec<OwnedFd>)> {
        let mut buffer = [0; 4096];
        let mut descriptors = Vec::new();
        wait(&self.connection);
        match self.connection.receive_with(&mut buffer, &mut descriptors) {
            Ok(Received::Message(bytes)) => {
                let message = FromManager::decode(&buffer[..bytes]).expect("the manager's word");
                Some((message, descriptors))
            }
            Ok(Received::End) => None,
            // Unread messages are lost with the connection.
            Err(error) if error.raw_os_error() == Some(nix::libc::ECONNRESET) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for START, without answering.
    pub(super) fn await_start(&self) -> Running {
        let (mut message, mut descriptors) = self.hear().expect("START");
        if matches!(message, FromManager::Terminate(_)) {
            // No session was running when it registered.
            (message, descriptors) = self.hear().expect("START");
        }
        let FromManager::Start { session, start } = message else { panic!("{message:?}") };
        let fifo = Seqpacket::from(descriptors.pop().expect("two descriptors"));
        let buffer = descriptors.pop().expect("two descriptors");
        let division = Division::new(start.mode, start.buffer_bytes as usize);
        Running {
            session,
            start,
            buffer,
            fifo,
            division,
            durable_end: 0,
            rolling_end: 0,
            wrapped: 0,
        }
    }

    /// Waits for START, and starts.
    pub(super) fn start(&self) -> Running {
        let mut session = self.await_start();
        session.write_header();
        if session.start.mode == Mode::Oneshot {
            session.put(&Initialization { ticks_per_second: 1_000_000_000 });
        } else {
            session.put_durable(&Initialization { ticks_per_second: 1_000_000_000 });
        }
        session.send(Packet::started());
        session
    }

    pub(super) fn await_stop(&self) -> Session {
        match self.hear().expect("STOP").0 {
            FromManager::Stop(session) => session,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn await_terminate(&self) -> Session {
        match self.hear().expect("TERMINATE").0 {
            FromManager::Terminate(session) => session,
            other => panic!("{other:?}"),
        }
    }
}

impl Running {
    /// Stores a word of the header or of the buffer.
    pub(super) fn store(&self, index: usize, word: u64) {
        let written = pwrite(&self.buffer, &word.to_ne_bytes(), index as i64 * 8);
        assert_eq!(written.expect("memory"), 8);
    }

    pub(super) fn write_header(&self) {
        let Division { total, durable, rolling } = self.division;
        let mode = self.start.mode as u64;
        for (index, bytes) in [(2, total), (3, durable), (4, rolling)] {
            self.store(index, bytes as u64 * 8);
        }
        self.store(1, 1 | mode << 16 | u64::from(self.wrapped) << 32);
        self.store(0, MAGIC);
    }

    fn base(&self) -> usize {
        HEADER_WORDS + self.division.durable + (self.wrapped & 1) as usize * self.division.rolling
    }

    /// Appends a durable record; in these tests the ring never overflows.
    pub(super) fn put_durable(&mut self, record: &impl Record) {
        let mut words: Vec<u64> = Vec::new();
        record.write(&mut words).expect("a vector");
        for (at, word) in words.iter().enumerate() {
            self.store(HEADER_WORDS + self.durable_end as usize + at, *word);
        }
        self.durable_end += words.len() as u64;
        assert!(self.durable_end <= self.division.durable as u64);
        self.store(5, self.durable_end * 8);
    }

    /// Appends a record to the open rolling buffer.
    pub(super) fn put(&mut self, record: &impl Record) {
        let mut words: Vec<u64> = Vec::new();
        record.write(&mut words).expect("a vector");
        self.put_words(&words);
    }

    pub(super) fn put_words(&mut self, words: &[u64]) {
        assert!(self.rolling_end + words.len() <= self.division.rolling);
        for (at, word) in words.iter().enumerate() {
            self.store(self.base() + self.rolling_end + at, *word);
        }
        self.rolling_end += words.len();
    }

    /// Appends an instant event with this name.
    pub(super) fn event(&mut self, name: &str, time: u64) {
        let process = self.start.process;
        self.put(&Event {
            kind: EventKind::Instant,
            time: Ticks(time),
            thread: ThreadName::Inline { process, thread: Koid(process.0) },
            category: Text::Inline("test"),
            name: Text::Inline(name),
            args: &[],
        });
    }

    pub(super) fn drop_records(&self, count: u64) {
        self.store(8, count);
    }

    /// Continues in the other buffer, and requests that this one be saved.
    pub(super) fn ask_to_save(&mut self) -> Packet {
        let part = (self.wrapped & 1) as usize;
        self.store(10 + part, 0);
        self.store(6 + part, self.rolling_end as u64 * 8);
        let packet = Packet::save_buffer(self.wrapped, self.durable_end * 8);
        self.wrapped += 1;
        self.rolling_end = 0;
        self.write_header();
        self.send(packet);
        packet
    }

    /// Requests that the open buffer be saved, waits until it is, and clears it.
    pub(super) fn save(&mut self) {
        let before = self.base();
        let words = self.rolling_end;
        let packet = self.ask_to_save();
        assert_eq!(self.receive(), Some(packet.buffer_saved()));
        let part = (packet.data32 & 1) as usize;
        self.store(6 + part, 0);
        (before..before + words).for_each(|index| self.store(index, 0));
    }

    pub(super) fn send(&self, packet: Packet) {
        self.send_bytes(&packet.to_bytes());
    }

    pub(super) fn send_bytes(&self, bytes: &[u8]) {
        self.fifo.send(bytes, &[]).expect("the manager listens");
    }

    /// The next packet; `None` when the manager has closed the FIFO.
    pub(super) fn receive(&self) -> Option<Packet> {
        let mut buffer = [0; PACKET_BYTES];
        wait(&self.fifo);
        match self.fifo.receive(&mut buffer).expect("a socket") {
            Received::Message(bytes) => {
                assert_eq!(bytes, PACKET_BYTES);
                Some(Packet::from_bytes(buffer))
            }
            Received::End => None,
            Received::Nothing => panic!("there was something to read"),
        }
    }
}
