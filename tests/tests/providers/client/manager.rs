//! The smallest manager that does everything a provider can request: it listens, starts and stops sessions, and saves buffers by reading
//! the shared file.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fxt_writer::engine::{self, BufferDisposition, HEADER_WORDS, Header, Mode};
use fxt_writer::packet::{self, PACKET_BYTES, Packet};
use fxt_writer::provider::wire::{FromManager, FromProvider, MAX_MESSAGE_BYTES, Session, Start};
use fxtrec_tests::wait;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    listen, recv, send, sendmsg, socket, socketpair,
};

use super::archive::Archive;

/// Longer than anything here takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(30);
const WORD: usize = 8;

#[derive(Debug)]
pub(crate) struct Manager {
    listener: OwnedFd,
    address: String,
}

impl Manager {
    /// A manager at a new address.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::at(&format!("@fxtrec-test-{}-{number}", std::process::id()))
    }

    /// A manager at the address that another one had.
    pub(crate) fn at(address: &str) -> Self {
        let name = address.strip_prefix('@').expect("an abstract address");
        let listener =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
        let listener = listener.expect("a socket");
        let own = UnixAddr::new_abstract(name.as_bytes()).expect("a short name");
        // A child of another test also has the previous socket, until it executes its program.
        wait::until("a free address", || bind(listener.as_raw_fd(), &own).is_ok());
        listen(&listener, Backlog::new(8).expect("a small number"))
            .expect("a socket that is bound");
        Self { listener, address: address.to_owned() }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether a provider connects within that time.
    pub(crate) fn has_caller(&self, within: Duration) -> bool {
        readable(&self.listener, within)
    }

    /// The next provider that connects, registered.
    pub(crate) fn accept(&self) -> Peer {
        assert!(self.has_caller(PATIENCE), "no provider connects");
        let control = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).expect("a caller");
        // SAFETY: just created by the kernel for us.
        let control = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(control) };
        let mut peer =
            Peer { control, name: String::new(), categories: Vec::new(), alerts: Vec::new() };
        match peer.receive().expect("a registration") {
            FromProvider::Register { name, categories } => {
                (peer.name, peer.categories) = (name, categories);
            }
            other => panic!("{other:?} before REGISTER"),
        }
        peer
    }
}

/// A provider that has registered.
#[derive(Debug)]
pub(crate) struct Peer {
    control: OwnedFd,
    pub(crate) name: String,
    pub(crate) categories: Vec<String>,
    pub(crate) alerts: Vec<String>,
}

/// A request to a provider.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) mode: Mode,
    pub(crate) bytes: u64,
    pub(crate) categories: Vec<String>,
}

impl Default for Ask {
    fn default() -> Self {
        Self { mode: Mode::Streaming, bytes: 1 << 20, categories: Vec::new() }
    }
}

/// A buffer as managers create them: a memory file that cannot change its size.
pub(crate) fn buffer(bytes: u64) -> std::fs::File {
    let file = unsealed_buffer(bytes);
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("a file that can be sealed");
    file
}

pub(crate) fn unsealed_buffer(bytes: u64) -> std::fs::File {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = std::fs::File::from(memfd_create(c"buffer", flags).expect("a memory file"));
    file.set_len(bytes).expect("memory enough");
    file
}

impl Peer {
    /// The next message; `None` when the provider has closed the connection, or has ended.
    pub(crate) fn receive(&self) -> Option<FromProvider> {
        assert!(readable(&self.control, PATIENCE), "the provider says nothing");
        let mut bytes = vec![0; MAX_MESSAGE_BYTES];
        match recv(self.control.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(0) | Err(Errno::ECONNRESET) => None,
            Ok(length) => Some(FromProvider::decode(&bytes[..length]).expect("a message")),
            Err(error) => panic!("receiving fails: {error}"),
        }
    }

    /// Sends arbitrary bytes with descriptors.
    pub(crate) fn send_raw(&self, bytes: &[u8], descriptors: &[i32]) {
        let rights = [ControlMessage::ScmRights(descriptors)];
        let rights = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
        let sent = sendmsg::<()>(
            self.control.as_raw_fd(),
            &[IoSlice::new(bytes)],
            rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        assert_eq!(sent, Ok(bytes.len()));
    }

    /// Ends the provider's wait for a session.
    pub(crate) fn say_that_no_session_runs(&self) {
        self.terminate(Session::new(1).expect("not zero"));
    }

    /// Starts a session with a new buffer.
    pub(crate) fn start(&self, ask: Ask) -> Recording {
        self.start_in(buffer(ask.bytes), ask, BufferDisposition::ClearEntire)
    }

    /// Starts a session in this buffer.
    pub(crate) fn start_in(
        &self,
        file: std::fs::File,
        ask: Ask,
        disposition: BufferDisposition,
    ) -> Recording {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = Session::new(NEXT.fetch_add(1, Ordering::Relaxed)).expect("not zero");
        let flags = SockFlag::SOCK_CLOEXEC;
        let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
        let (fifo, theirs) = pair.expect("two sockets");
        let process = fxt_writer::Koid(4242);
        let Ask { mode, bytes, categories } = ask;
        let start = Start { mode, disposition, buffer_bytes: bytes, process, categories };
        let message = FromManager::Start { session: id, start }.encode().expect("a message");
        self.send_raw(&message, &[file.as_raw_fd(), theirs.as_raw_fd()]);
        let mut recording = Recording {
            id,
            mode,
            file,
            fifo,
            archive: Vec::new(),
            saves: 0,
            last: None,
            over: false,
        };
        drop(theirs);
        assert_eq!(recording.packet(PATIENCE), Some(Packet::started()), "STARTED comes first");
        recording
    }

    /// Saves until the provider has ended, and then saves the rest.
    pub(crate) fn save_to_death(&mut self, mut recording: Recording) -> Archive {
        while self.step(&mut recording) {}
        recording.recover()
    }

    /// Stops the session, and saves until the provider sends STOPPED.
    pub(crate) fn stop(&mut self, recording: Recording) -> Archive {
        self.stop_and_keep(recording).0
    }

    /// The same as [`stop`](Self::stop), keeping the buffer for another session.
    pub(crate) fn stop_and_keep(&mut self, mut recording: Recording) -> (Archive, std::fs::File) {
        self.send_raw(&FromManager::Stop(recording.id).encode().expect("a message"), &[]);
        while !recording.over {
            assert!(self.step(&mut recording), "the provider is gone before STOPPED");
        }
        let file = recording.file.try_clone().expect("a descriptor more");
        (recording.recover(), file)
    }

    /// Ends the session permanently.
    pub(crate) fn terminate(&self, id: Session) {
        self.send_raw(&FromManager::Terminate(id).encode().expect("a message"), &[]);
    }

    /// Processes one message or packet; returns false when the provider has ended.
    fn step(&mut self, recording: &mut Recording) -> bool {
        let mut fds =
            [&self.control, &recording.fifo].map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        assert_ne!(poll(&mut fds, timeout(PATIENCE)), Ok(0), "the provider says nothing");
        let [control, fifo] = fds.map(|fd| fd.any().unwrap_or(false));
        if fifo && recording.answer() {
            return true;
        }
        if !control {
            return true;
        }
        match self.receive() {
            None => return false,
            Some(FromProvider::Stopped(id)) => {
                assert_eq!(id, recording.id);
                recording.over = true;
            }
            Some(FromProvider::Categories(new)) => self.categories.extend(new),
            Some(FromProvider::Alert(name)) => self.alerts.push(name),
            Some(other @ FromProvider::Register { .. }) => panic!("{other:?} once more"),
        }
        true
    }
}

/// A session from the manager's point of view.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: Session,
    mode: Mode,
    file: std::fs::File,
    fifo: OwnedFd,
    archive: Vec<u8>,
    /// How many buffers have been saved, and the last request.
    pub(crate) saves: u64,
    last: Option<Packet>,
    over: bool,
}

impl Recording {
    /// The next packet, if one arrives within that time.
    pub(crate) fn packet(&mut self, within: Duration) -> Option<Packet> {
        if !readable(&self.fifo, within) {
            return None;
        }
        let mut bytes = [0; PACKET_BYTES];
        let length = recv(self.fifo.as_raw_fd(), &mut bytes, MsgFlags::empty()).expect("a packet");
        (length == PACKET_BYTES).then(|| Packet::from_bytes(bytes))
    }

    /// Saves the requested data, if any; returns false when the provider's end is closed.
    fn answer(&mut self) -> bool {
        match self.packet(Duration::ZERO) {
            None => false,
            Some(request) => {
                self.save(request);
                true
            }
        }
    }

    /// Saves the data that a request names, and confirms it.
    pub(crate) fn save(&mut self, request: Packet) {
        assert_eq!(request.request, packet::SAVE_BUFFER);
        let another = self.packet(Duration::ZERO);
        assert_eq!(another, None, "one request at a time");
        let header = self.header();
        let part = (request.data32 & 1) as usize;
        assert_eq!(header.mode, 2);
        let ring = (HEADER_WORDS * WORD) as u64;
        for at in (header.durable_saved..request.data64).step_by(WORD) {
            self.copy(ring + at % header.durable_bytes, WORD as u64);
        }
        let base = ring + header.durable_bytes + part as u64 * header.rolling_bytes;
        let (start, end) = (header.rolling_start[part], header.rolling_end[part]);
        self.copy(base + start, end - start);
        self.saves += 1;
        self.last = Some(request);
        let answer = request.buffer_saved().to_bytes();
        // A provider that has ended needs no answer.
        let _ = send(self.fifo.as_raw_fd(), &answer, MsgFlags::MSG_NOSIGNAL);
    }

    /// Sends arbitrary bytes as a packet.
    pub(crate) fn send_raw(&self, bytes: &[u8]) {
        assert_eq!(send(self.fifo.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL), Ok(bytes.len()));
    }

    /// Closes the manager's end of the FIFO.
    pub(crate) fn refuse(self) {
        drop(self.fifo);
    }

    fn copy(&mut self, at: u64, length: u64) {
        let start = self.archive.len();
        self.archive.resize(start + usize::try_from(length).expect("a small buffer"), 0);
        self.file.read_exact_at(&mut self.archive[start..], at).expect("within the buffer");
    }

    pub(crate) fn header(&self) -> Header {
        let words = self.words(HEADER_WORDS);
        Header::read(words.first_chunk().expect("a header's words")).expect("an engine's header")
    }

    fn words(&self, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * WORD];
        self.file.read_exact_at(&mut bytes, 0).expect("within the buffer");
        bytes.as_chunks::<WORD>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    /// The saved records, and those still in the buffer.
    fn recover(mut self) -> Archive {
        let bytes = self.file.metadata().expect("a file").len();
        let mut memory = self.words(usize::try_from(bytes).expect("a small buffer") / WORD);
        let mut saved_durable = 0;
        if let Some(last) = self.last {
            // A provider that ended before it took the last answer left what was saved in place.
            let header = self.header();
            saved_durable = last.data64.saturating_sub(header.durable_saved) as usize / WORD;
            if header.wrapped_count.wrapping_sub(last.data32) <= 1 {
                let part = (last.data32 & 1) as usize;
                let base = header.durable_bytes + part as u64 * header.rolling_bytes;
                let word = |at: u64| HEADER_WORDS + (base + at) as usize / WORD;
                let span = word(header.rolling_start[part])..word(header.rolling_end[part]);
                if let Some(saved) = memory.get_mut(span) {
                    saved.fill(0);
                }
            }
        }
        let mut rest = engine::recover(&memory).expect("an engine's memory");
        rest.durable.drain(..saved_durable);
        if self.over && self.mode == Mode::Streaming {
            assert_eq!(
                (rest.durable.len(), rest.rolling.len()),
                (0, 0),
                "all was saved before STOPPED"
            );
        }
        let words = rest.durable.iter().chain(&rest.rolling);
        self.archive.extend(words.flat_map(|word| word.to_ne_bytes()));
        Archive::read(&self.archive, rest.dropped)
    }
}

/// Whether there is something to read within that time.
fn readable(fd: &OwnedFd, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout(until.saturating_duration_since(Instant::now()))) {
            Err(Errno::EINTR) => {}
            other => return other.expect("a descriptor that can be polled") > 0,
        }
    }
}

fn timeout(time: Duration) -> PollTimeout {
    PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX)
}
