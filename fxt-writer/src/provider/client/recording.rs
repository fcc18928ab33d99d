//! One session of a connection, from START to TERMINATE.
//!
//! ```text
//!            STOP: engine finished        all saved: STOPPED is sent
//!  Running ------------------> Stopping ----------------------------> Stopped
//!     |   FIFO closed: nothing more is taken                             ^
//!     +------------------------------------------------------------------+
//! ```
//!
//! In streaming mode, the engine's requests to save a buffer are queued here, and one at a time is in flight.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Client, lock};
use crate::engine::{BufferDisposition, Mode};
use crate::packet::Packet;
use crate::provider::Categories;
use crate::provider::session::{Buffer, BufferNumber, Session};
use crate::provider::sys::{self, BufferError, Generation, Mapping, OwnSocket};
use crate::provider::wire::{self, Start};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Trace points record.
    Running,
    /// Trace points no longer record; the remaining data is being saved.
    Stopping,
    /// Everything is saved, or never will be.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Recording {
    id: wire::Session,
    session: Arc<Session>,
    mode: Mode,
    phase: Phase,
    /// The provider's end of the FIFO; `None` when the manager has closed its own end.
    fifo: Option<OwnSocket>,
    /// Requests to be sent, one after the other.
    waiting: VecDeque<Packet>,
    /// The request that has been sent and not answered.
    in_flight: Option<Packet>,
    /// Answers so far.
    saves: u64,
    /// The flush that is under way, and the number of answers before it.
    flushing: Option<(u64, u64)>,
}

/// A number that no other session of this process has had.
fn next_generation() -> Generation {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    loop {
        // Relaxed: a counter, which orders nothing. After 2^32 sessions it reaches 0, and right before that the value that stands for an
        // overdue answer.
        let next = NonZeroU32::new(NEXT.fetch_add(1, Ordering::Relaxed));
        if let Some(generation) = next.filter(|next| next.get() != sys::OVERDUE) {
            return generation;
        }
    }
}

impl Recording {
    /// Handles START: from here on, trace points record. The previous session's content is kept if the buffer is the same and START
    /// requests it.
    ///
    /// # Errors
    ///
    /// Returns an error when the buffer cannot be used or the FIFO is closed already.
    pub(super) fn start(
        client: &'static Client,
        (id, start): (wire::Session, Start),
        (file, fifo): (&OwnedFd, OwnedFd),
        previous: Option<Self>,
    ) -> Result<Self, BufferError> {
        let generation = next_generation();
        let kept = previous.and_then(|previous| previous.hand_on(client, file, &start));
        let buffer = match kept {
            Some(buffer) => {
                buffer.restart(start.disposition)?;
                buffer
            }
            None => {
                let number = BufferNumber(generation.get());
                let mapping = Mapping::share(file.as_fd(), start.buffer_bytes)?;
                let notify = move |packet| client.request(number, packet);
                Buffer::new(number, mapping, start.mode, notify)?
            }
        };
        let categories = Categories::new(start.categories);
        let learn = |category: &'static str| client.learn(category);
        let session = Session::new(generation, start.process, categories, buffer, learn);
        let session = Arc::new(session);
        if !sys::send(fifo.as_fd(), &Packet::started().to_bytes())? {
            return Err(std::io::Error::from(std::io::ErrorKind::WouldBlock).into());
        }
        client.publish(Arc::clone(&session));
        session.buffer().mapping().populate();
        Ok(Self {
            id,
            session,
            mode: start.mode,
            phase: Phase::Running,
            fifo: Some(OwnSocket::fifo(fifo)),
            waiting: VecDeque::new(),
            in_flight: None,
            saves: 0,
            flushing: None,
        })
    }

    pub(super) fn id(&self) -> wire::Session {
        self.id
    }

    pub(super) fn fifo(&self) -> Option<BorrowedFd<'_>> {
        self.fifo.as_ref().map(AsFd::as_fd)
    }

    /// Whether a packet waits for room in the FIFO.
    pub(super) fn has_unsent(&self) -> bool {
        self.in_flight.is_none() && !self.waiting.is_empty()
    }

    /// Sends pending packets; returns the number of the session when STOPPED must be sent.
    pub(super) fn advance(&mut self, client: &Client) -> Option<wire::Session> {
        self.take_requests(client);
        if self.phase == Phase::Running {
            self.flush(client);
        }
        self.send_next(client);
        let done = self.in_flight.is_none() && self.waiting.is_empty();
        if self.phase == Phase::Stopping && done {
            self.phase = Phase::Stopped;
            client.progress(|progress| progress.unsaved = false);
            return Some(self.id);
        }
        None
    }

    /// Takes the engine's requests from the inbox.
    fn take_requests(&mut self, client: &Client) {
        let number = self.session.buffer().number();
        let mut inbox = lock(&client.inbox);
        let packets = inbox.packets.drain(..).filter(|(buffer, _)| *buffer == number);
        self.waiting.extend(packets.map(|(_, packet)| packet));
    }

    /// Hands over the current buffer if the application has requested a flush,
    /// and reports when it is saved.
    fn flush(&mut self, client: &Client) {
        if self.in_flight.is_some() || !self.waiting.is_empty() {
            return;
        }
        let done = match self.flushing {
            Some((request, saves)) if self.saves > saves => {
                self.flushing = None;
                request
            }
            // The buffer is sealed, but its last writer has not finished.
            Some(_) => return,
            None => 0,
        };
        let wanted = lock(&client.inbox).flushes;
        if wanted > done && self.session.engine().flush() {
            self.flushing = Some((wanted, self.saves));
            client.progress(|progress| progress.flushed = progress.flushed.max(done));
            self.take_requests(client);
        } else {
            client.progress(|progress| progress.flushed = wanted);
        }
    }

    fn send_next(&mut self, client: &Client) {
        let (None, Some(fifo)) = (self.in_flight, &self.fifo) else { return };
        let Some(packet) = self.waiting.front().copied() else { return };
        match sys::send(fifo.as_fd(), &packet.to_bytes()) {
            Ok(true) => self.in_flight = self.waiting.pop_front(),
            Ok(false) => {}
            Err(_) => self.refused(client),
        }
    }

    /// Takes the manager's answers.
    ///
    /// # Errors
    ///
    /// Returns an error when the FIFO is closed, or an answer does not match a request.
    pub(super) fn receive(&mut self) -> std::io::Result<()> {
        let Some(fifo) = &self.fifo else { return Ok(()) };
        while let Some(answer) = sys::receive_packet(fifo.as_fd())? {
            if self.in_flight.map(Packet::buffer_saved) != Some(answer) {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            self.session.engine().saved(answer).map_err(std::io::Error::other)?;
            self.in_flight = None;
            self.saves += 1;
        }
        Ok(())
    }

    /// The manager accepts no more data, so tracing ends.
    pub(super) fn refused(&mut self, client: &Client) {
        self.close(client);
        (self.fifo, self.in_flight) = (None, None);
        self.waiting.clear();
        self.phase = Phase::Stopped;
        client.progress(|progress| progress.unsaved = false);
    }

    /// Handles STOP: finishes the buffer and requests that the rest be saved.
    pub(super) fn stop(&mut self, client: &Client) {
        if self.phase == Phase::Running {
            self.close(client);
            let rest = self.session.engine().finish();
            self.take_requests(client);
            // In the other modes, the manager finds the data through the header.
            if self.mode == Mode::Streaming {
                self.waiting.extend(rest);
            }
        }
        self.phase = Phase::Stopping;
    }

    /// Makes trace points stop recording.
    fn close(&mut self, client: &Client) {
        if self.phase == Phase::Running {
            client.withdraw();
            self.session.close();
        }
    }

    /// Ends the session, saved or not, and releases its buffer.
    pub(super) fn abandon(mut self, client: &Client) {
        self.close(client);
        client.progress(|progress| progress.unsaved = false);
        self.session.buffer().mapping().let_go();
    }

    /// Ends this session and returns its buffer to the next one if that uses
    /// `file` again; its registrations stay valid. Otherwise the next session has a new engine, even in the same memory: a late writer can
    /// reach only this engine, which is stopped.
    fn hand_on(mut self, client: &Client, file: &OwnedFd, next: &Start) -> Option<Arc<Buffer>> {
        let buffer = Arc::clone(self.session.buffer());
        let kept = self.mode == next.mode && next.disposition != BufferDisposition::ClearEntire;
        if kept && buffer.mapping().is_of(file.as_fd()) {
            self.close(client);
            return Some(buffer);
        }
        self.abandon(client);
        None
    }
}
