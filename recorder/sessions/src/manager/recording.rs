//! One provider between START and STOPPED: its buffer, and the FIFO on which it requests that buffers be saved.
//!
//! ```text
//!              STARTED             STOP sent             STOPPED, or its end
//!  Starting ------------> Started ----------> Stopping -----------------------> Stopped
//!                          |    ^
//!              SAVE_BUFFER v    | BUFFER_SAVED
//!                        copied, checked, written
//! ```

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use fxt_writer::engine::{Mode, Piece, Remote};
use fxt_writer::packet::{self, Packet};
use fxt_writer::provider::wire::{self, FromManager};
use fxt_writer::{Koid, ProviderId};

use super::admit::admit;
use super::ahead::Ahead;
use super::fault::Fault;
use super::follower::Follower;
use super::inner::InnerThreads;
use super::loss::LossLog;
use super::output::{Output, Owned};
use super::status::ProviderStats;
use fxtrec_kernel::clock;
use fxtrec_kernel::seqpacket::{Received, Seqpacket};
use fxtrec_kernel::shared_memory::{SharedMemory, SharedView};

/// Maximum number of packets read after a provider has exited: it can have sent STARTED and one request.
const LAST_PACKETS: usize = 4;

/// The phase of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Started,
    Stopping,
    Stopped,
}

#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) id: ProviderId,
    pub(super) name: Arc<str>,
    pub(super) process: Koid,
}

/// One recording of one provider.
#[derive(Debug)]
pub(super) struct Recording {
    session: wire::Session,
    owner: Owner,
    /// `None` if the provider has closed it or violated the protocol.
    fifo: Option<Seqpacket>,
    remote: Remote<SharedView>,
    /// Whether STARTED has arrived: before that, the content of the buffer is not valid.
    has_started: bool,
    phase: Phase,
    /// The provider's count of dropped records at the last read.
    dropped: u64,
    losses: LossLog,
    /// How many of the next records are in the archive already.
    ahead: Ahead,
    /// The size of its buffer, in words.
    buffer_words: usize,
    /// Its threads, if it uses its own thread ids.
    inner: Option<InnerThreads>,
    /// Follows its spans, if triggers wait for some.
    follower: Option<Follower>,
    pid: u32,
}

impl Recording {
    /// Sends START with a buffer to the provider at `connection`.
    pub(super) fn start(
        connection: &Seqpacket,
        session: wire::Session,
        start: wire::Start,
        owner: Owner,
        pid: u32,
        follower: Option<Follower>,
    ) -> Result<Recording, Fault> {
        let bytes = usize::try_from(start.buffer_bytes).unwrap_or(usize::MAX);
        let memory = SharedMemory::new("fxt-provider", bytes);
        let memory = memory.map_err(Fault::while_doing("create a buffer for it"))?;
        let (fifo, theirs) =
            Seqpacket::pair().map_err(Fault::while_doing("create a FIFO for it"))?;
        let mode = start.mode;
        let message = FromManager::Start { session, start }.encode()?;
        Fault::of_send(connection.send(&message, &[memory.file(), theirs.as_fd()]))?;
        let remote = Remote::new(memory.into_words(), mode);
        let remote = remote.map_err(|error| Fault::System {
            doing: "create a buffer for it",
            source: std::io::Error::other(error),
        })?;
        let inner = InnerThreads::of(owner.id, pid);
        Ok(Recording {
            session,
            owner,
            fifo: Some(fifo),
            remote,
            has_started: false,
            phase: Phase::Starting,
            dropped: 0,
            losses: LossLog::new(clock::now()),
            ahead: Ahead::default(),
            buffer_words: bytes / size_of::<u64>(),
            inner,
            follower: follower.filter(|_| mode == Mode::Circular),
            pid,
        })
    }

    /// The size of its buffer.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_words * size_of::<u64>()
    }

    /// Whether the provider has confirmed the start.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The manager's end of the FIFO, as long as it is open.
    pub(super) fn fifo(&self) -> Option<BorrowedFd<'_>> {
        self.fifo.as_ref().map(AsFd::as_fd)
    }

    /// When to read its threads, or check its spans, next, if needed.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        if !matches!(self.phase, Phase::Starting | Phase::Started) {
            return None;
        }
        let threads = self.inner.as_ref().map(InnerThreads::next);
        threads.into_iter().chain(self.follower.as_ref().map(Follower::next)).min()
    }

    /// Reads its threads and checks its spans, if it is time to do so.
    pub(super) fn poll_if_due(&mut self, now: Instant) {
        if self.inner.as_ref().is_some_and(|inner| inner.next() <= now) {
            self.look_at_threads();
        }
        if self.follower.as_ref().is_some_and(|follower| follower.next() <= now) {
            self.look_at_spans(false);
        }
    }

    /// Reads its current threads.
    fn look_at_threads(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.look();
        }
    }

    /// Reads the spans that have ended since the last call; with `last`, no more spans will end.
    pub(super) fn look_at_spans(&mut self, last: bool) {
        let Some(follower) = self.follower.as_mut().filter(|_| self.has_started) else { return };
        let process = self.owner.process;
        let cursor = &mut follower.cursor;
        let piece = self.remote.follow(cursor, last, &mut |record| admit(record, process));
        // Invalid content is detected when it is saved.
        let mut piece = piece.unwrap_or_default();
        if let Some(inner) = &self.inner {
            inner.translate(&mut piece);
        }
        follower.take(&piece, &self.owner.name, self.pid);
    }

    /// Sends STOP to the provider.
    pub(super) fn stop(&mut self, connection: &Seqpacket) -> Result<(), Fault> {
        if matches!(self.phase, Phase::Starting | Phase::Started) {
            self.phase = Phase::Stopping;
            Fault::of_send(connection.send(&FromManager::Stop(self.session).encode()?, &[]))?;
        }
        Ok(())
    }

    /// Sends TERMINATE to the provider.
    pub(super) fn terminate(&self, connection: &Seqpacket) -> Result<(), Fault> {
        Fault::of_send(connection.send(&FromManager::Terminate(self.session).encode()?, &[]))
    }

    /// Whether a STOPPED of this session is for this recording, and expected.
    pub(super) fn awaits_stopped(&self, session: wire::Session) -> bool {
        self.session == session && self.phase != Phase::Stopped
    }

    /// Takes the next packet from the FIFO; returns whether there was one.
    pub(super) fn take_packet(
        &mut self,
        output: &mut Output,
        stats: &mut ProviderStats,
    ) -> Result<bool, Fault> {
        let Some(fifo) = &self.fifo else { return Ok(false) };
        let mut buffer = [0; 2 * packet::PACKET_BYTES];
        let received =
            fifo.receive(&mut buffer).map_err(Fault::while_doing("read from its FIFO"))?;
        match received {
            Received::Nothing => return Ok(false),
            Received::End => {
                self.fifo = None;
                return Ok(false);
            }
            Received::Message(bytes) => {
                let packet = buffer.first_chunk().filter(|_| bytes == packet::PACKET_BYTES);
                let packet = packet.copied().ok_or(Fault::PacketSize { bytes })?;
                self.obey(Packet::from_bytes(packet), output, stats)?;
            }
        }
        Ok(true)
    }

    fn obey(
        &mut self,
        packet: Packet,
        output: &mut Output,
        stats: &mut ProviderStats,
    ) -> Result<(), Fault> {
        let Packet { request, reserved, data32, .. } = packet;
        match request {
            _ if reserved != 0 => Err(Fault::Request { request }),
            packet::STARTED if data32 != packet::PROTOCOL_VERSION => {
                Err(Fault::FifoVersion { found: data32 })
            }
            packet::STARTED if !self.has_started => {
                self.has_started = true;
                if self.phase == Phase::Starting {
                    self.phase = Phase::Started;
                }
                Ok(())
            }
            packet::SAVE_BUFFER if self.has_started => self.save(packet, output, stats),
            _ => Err(Fault::Request { request }),
        }
    }

    fn save(
        &mut self,
        request: Packet,
        output: &mut Output,
        stats: &mut ProviderStats,
    ) -> Result<(), Fault> {
        let process = self.owner.process;
        let piece = self.remote.save(request, &mut |record| admit(record, process))?;
        self.put(piece, output, stats);
        let answer = request.buffer_saved().to_bytes();
        self.fifo.as_ref().map_or(Ok(()), |fifo| Fault::of_send(fifo.send(&answer, &[])))
    }

    /// Saves the records without a request, and ends the recording: the provider has stopped, has disconnected, or does not answer.
    pub(super) fn finish(
        &mut self,
        output: &mut Output,
        stats: &mut ProviderStats,
    ) -> Result<(), Fault> {
        if self.phase == Phase::Stopped {
            return Ok(());
        }
        let last = (0..LAST_PACKETS).try_for_each(|_| match self.take_packet(output, stats) {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(fault) => Err(Some(fault)),
        });
        self.phase = Phase::Stopped;
        self.fifo = None;
        if let Err(Some(fault)) = last {
            return Err(fault);
        }
        self.look_at_spans(true);
        if self.has_started {
            let process = self.owner.process;
            let piece = self.remote.rest(&mut |record| admit(record, process))?;
            self.put(piece, output, stats);
        }
        Ok(())
    }

    /// Drops a provider that violates the protocol: records since the last save are ignored.
    pub(super) fn give_up(&mut self) {
        self.phase = Phase::Stopped;
        self.fifo = None;
    }

    /// The memory for recognizing records that were written before they are saved, in bytes.
    pub(super) fn ahead_bytes(&self) -> usize {
        self.ahead.bytes()
    }

    /// Writes the part of its buffer that is committed but not saved yet, without waiting until the buffer is full, because another archive
    /// begins. Maximum number of bytes to keep; beyond that, the records are left to the other archive.
    pub(super) fn hand_over(
        &mut self,
        output: &mut Output,
        stats: &mut ProviderStats,
        room: usize,
    ) -> Result<(), Fault> {
        let mut packets = 0;
        while packets < LAST_PACKETS && self.take_packet(output, stats)? {
            packets += 1;
        }
        self.look_at_threads();
        // Invalid content is detected when it is saved.
        let Some(owned) = self.view(stats) else { return Ok(()) };
        if self.ahead.bytes_with(&owned.piece) > room {
            return Ok(());
        }
        self.ahead.add(&owned.piece, self.buffer_words)?;
        self.losses.take();
        output.take(owned);
        Ok(())
    }

    /// A copy of the part of its buffer that is committed but not saved; `None` if the part is empty or invalid.
    pub(super) fn view(&mut self, stats: &mut ProviderStats) -> Option<Owned> {
        if !self.has_started || self.phase == Phase::Stopped {
            return None;
        }
        self.note_dropped(stats);
        let Owner { id, name, process } = self.owner.clone();
        let mut piece = self.remote.view(&mut |record| admit(record, process)).ok()?;
        self.ahead.without(&mut piece);
        if let Some(inner) = &self.inner {
            inner.translate(&mut piece);
        }
        if piece.held {
            // Drops during the copy are counted here.
            self.note_dropped(stats);
        }
        self.note_torn(&piece);
        Some(Owned { id, name, process, piece, losses: self.losses.all() })
    }

    /// A piece without records that reports the buffer's content as missing.
    pub(super) fn pass_over(&self) -> Option<Owned> {
        if !self.has_started || self.phase == Phase::Stopped {
            return None;
        }
        let Owner { id, name, process } = self.owner.clone();
        let losses = vec![self.losses.everything(clock::now())];
        Some(Owned { id, name, process, piece: Piece::default(), losses })
    }

    fn put(&mut self, mut piece: Piece, output: &mut Output, stats: &mut ProviderStats) {
        stats.tally += piece.tally;
        stats.buffers += u64::from(!piece.is_empty());
        stats.durable_bytes += size_of_val(&*piece.durable) as u64;
        stats.rolling_bytes += size_of_val(&*piece.rolling) as u64;
        stats.durable_used = stats.durable_used.max(self.remote.durable_used());
        self.ahead.settle(&mut piece);
        self.look_at_threads();
        if let Some(inner) = &self.inner {
            inner.translate(&mut piece);
        }
        self.note_dropped(stats);
        self.note_torn(&piece);
        let Owner { id, name, process } = self.owner.clone();
        output.take(Owned { id, name, process, piece, losses: self.losses.take() });
    }

    /// Counts the records that the provider has dropped since the last call.
    fn note_dropped(&mut self, stats: &mut ProviderStats) {
        let dropped = self.remote.header().map_or(self.dropped, |header| header.dropped);
        let more = dropped.saturating_sub(self.dropped);
        self.dropped = self.dropped.max(dropped);
        stats.dropped = stats.dropped.saturating_add(more);
        self.losses.look(clock::now(), Some(more));
    }

    /// Counts buffers that could not be copied: how many records were in them is unknown.
    fn note_torn(&mut self, piece: &Piece) {
        if piece.tally.torn > 0 {
            self.losses.look(clock::now(), None);
        }
    }
}
