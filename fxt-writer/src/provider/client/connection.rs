//! One connection to a manager, from REGISTER until one side closes it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::recording::Recording;
use super::{Client, lock};
use crate::provider::sys::{self, OwnSocket, Received};
use crate::provider::wire::{self, FromManager, FromProvider, MAX_ITEM_BYTES, MAX_MESSAGE_BYTES};

/// Categories in one message, so that even the longest fit.
const CATEGORIES_AT_ONCE: usize = MAX_MESSAGE_BYTES / (MAX_ITEM_BYTES + 1) - 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The manager speaks another version of the protocol.
    Incompatible,
    /// The manager is gone, or sent an invalid message.
    Gone {
        /// Whether a session was started over it.
        of_use: bool,
    },
}

/// The reason why a connection has to end.
#[derive(Debug)]
struct Over(End);

/// A connection and the session on it.
#[derive(Debug)]
pub(super) struct Connection {
    client: &'static Client,
    control: Arc<OwnSocket>,
    /// Messages that the socket had no room for yet.
    outbox: VecDeque<Vec<u8>>,
    recording: Option<Recording>,
    /// The number of the client's categories that the manager knows.
    announced: usize,
    /// How many of the client's alerts have been put into messages.
    alerts: u64,
    registered: bool,
    of_use: bool,
}

impl Connection {
    pub(super) fn new(client: &'static Client, control: OwnedFd) -> Self {
        let control = Arc::new(OwnSocket::control(control));
        let (outbox, recording) = (VecDeque::new(), None);
        let (announced, alerts, registered, of_use) = (0, 0, false, false);
        Self { client, control, outbox, recording, announced, alerts, registered, of_use }
    }

    /// Runs the connection until it ends; afterwards nothing is recorded.
    pub(super) fn run(mut self) -> End {
        let end = loop {
            if let Err(Over(end)) = self.step() {
                break end;
            }
        };
        *lock(&self.client.direct) = None;
        if let Some(recording) = self.recording.take() {
            recording.abandon(self.client);
        }
        end
    }

    fn gone(&self) -> Over {
        Over(End::Gone { of_use: self.of_use })
    }

    /// Handles everything that is pending, then waits for more.
    fn step(&mut self) -> Result<(), Over> {
        self.tell()?;
        self.advance()?;
        self.send_waiting()?;
        let (packets, messages) = self.wait()?;
        self.client.woken();
        if packets {
            self.receive_packets();
        }
        if messages {
            self.receive_messages()?;
        }
        Ok(())
    }

    /// Waits for the manager or the application; returns whether packets and
    /// whether messages may have arrived.
    fn wait(&self) -> Result<(bool, bool), Over> {
        let wanted = |sending: bool| {
            if sending { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN }
        };
        let mut fds = vec![
            PollFd::new(self.client.waker(), PollFlags::POLLIN),
            PollFd::new(self.control.as_fd(), wanted(!self.outbox.is_empty())),
        ];
        let fifo = self.recording.as_ref().and_then(|recording| {
            recording.fifo().map(|fifo| PollFd::new(fifo, wanted(recording.has_unsent())))
        });
        fds.extend(fifo);
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(_) => return Err(self.gone()),
        }
        let ready = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
        Ok((ready(2), ready(1)))
    }

    /// Registers, or sends the categories and alerts that have been added since.
    fn tell(&mut self) -> Result<(), Over> {
        // While the manager does not read, all messages stay in the inbox, which is bounded.
        if !self.outbox.is_empty() {
            return Ok(());
        }
        let (new, alerts) = {
            let mut inbox = lock(&self.client.inbox);
            self.alerts = inbox.raised;
            (inbox.categories[self.announced..].to_vec(), std::mem::take(&mut inbox.alerts))
        };
        self.announced += new.len();
        let mut messages = Vec::new();
        let mut untold = new.chunks(CATEGORIES_AT_ONCE);
        if !std::mem::replace(&mut self.registered, true) {
            let name = self.client.name.clone();
            let categories = untold.next().unwrap_or_default().to_vec();
            messages.push(FromProvider::Register { name, categories });
        }
        messages.extend(untold.map(|new| FromProvider::Categories(new.to_vec())));
        messages.extend(alerts.into_iter().map(FromProvider::Alert));
        messages.iter().try_for_each(|message| self.post(message))
    }

    fn post(&mut self, message: &FromProvider) -> Result<(), Over> {
        // Strings were checked on entry.
        let bytes = message.encode().map_err(|_| self.gone())?;
        self.outbox.push_back(bytes);
        Ok(())
    }

    fn send_waiting(&mut self) -> Result<(), Over> {
        while let Some(bytes) = self.outbox.front() {
            match sys::send(self.control.as_fd(), bytes) {
                Ok(true) => drop(self.outbox.pop_front()),
                Ok(false) => return Ok(()),
                Err(_) => return Err(self.gone()),
            }
        }
        if self.registered {
            let announced = self.alerts;
            *lock(&self.client.direct) = Some(Arc::clone(&self.control));
            self.client.progress(|progress| progress.announced = announced);
        }
        Ok(())
    }

    /// Advances the session as far as possible without the manager.
    fn advance(&mut self) -> Result<(), Over> {
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        let stopped = recording.advance(self.client);
        if let Some(session) = stopped {
            self.post(&FromProvider::Stopped(session))?;
        }
        Ok(())
    }

    fn receive_packets(&mut self) {
        let Some(recording) = &mut self.recording else { return };
        if recording.receive().is_err() {
            // The manager accepts no more data for this session.
            recording.refused(self.client);
        }
    }

    fn receive_messages(&mut self) -> Result<(), Over> {
        loop {
            let (bytes, descriptors) = match sys::receive(self.control.as_fd()) {
                Received::Message(bytes, descriptors) => (bytes, descriptors),
                Received::Nothing => return Ok(()),
                Received::Closed => return Err(self.gone()),
            };
            match FromManager::decode(&bytes) {
                Ok(message) => self.obey(message, descriptors)?,
                Err(wire::WireError::Version { .. }) => return Err(Over(End::Incompatible)),
                Err(_) => return Err(self.gone()),
            }
        }
    }

    fn obey(&mut self, message: FromManager, descriptors: Vec<OwnedFd>) -> Result<(), Over> {
        match message {
            FromManager::Start { session, start } => {
                let Ok([buffer, fifo]) = <[OwnedFd; 2]>::try_from(descriptors) else {
                    return Err(self.gone());
                };
                let previous = self.recording.take();
                let recording =
                    Recording::start(self.client, (session, start), (&buffer, fifo), previous);
                self.recording = Some(recording.map_err(|_| self.gone())?);
                self.of_use = true;
            }
            // An answer to a session that has ended may have crossed its end.
            FromManager::Stop(session) => {
                let client = self.client;
                if let Some(recording) = self.recording_of(session) {
                    recording.stop(client);
                }
            }
            FromManager::Terminate(session) => {
                // Before any START, the message means that no session runs.
                self.client.no_session();
                if self.recording_of(session).is_some()
                    && let Some(recording) = self.recording.take()
                {
                    recording.abandon(self.client);
                }
            }
        }
        Ok(())
    }

    fn recording_of(&mut self, session: wire::Session) -> Option<&mut Recording> {
        self.recording.as_mut().filter(|recording| recording.id() == session)
    }
}
