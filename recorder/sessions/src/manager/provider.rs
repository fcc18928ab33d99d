//! One connection: its peer and its messages.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fxt_writer::provider::wire::{self, FromManager, FromProvider};
use fxt_writer::{Koid, ProviderId};

use super::config::{MAX_CATEGORY_BYTES, MIN_BUFFER_BYTES};
use super::fault::Fault;
use super::follower::Follower;
use super::output::{Output, Owned};
use super::recording::{Owner, Phase, Recording};
use super::status::{ProviderState, ProviderStats, ProviderStatus};
use fxtrec_kernel::seqpacket::{Peer, Received, Seqpacket};

/// Categories that one provider may have.
const MAX_CATEGORIES: usize = 4096;

/// The name by which a trace introduces the provider that records the scheduler.
const RESERVED_NAME: &str = "fxtrec";

/// The result of reading from a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionEvent {
    Nothing,
    Registered,
    /// It raised an alert with this name.
    Alert(String),
    /// A problem that concerns only the provider itself.
    Other,
}

/// A provider, or a connection that has not registered yet.
#[derive(Debug)]
pub(super) struct Provider {
    id: ProviderId,
    peer: Peer,
    process: Koid,
    connection: Seqpacket,
    since: Instant,
    /// Its name, once it has registered.
    name: Option<Arc<str>>,
    categories: BTreeSet<String>,
    /// Their size in bytes.
    category_bytes: usize,
    recording: Option<Recording>,
    stats: ProviderStats,
    fault: Option<String>,
    is_open: bool,
}

impl Provider {
    pub(super) fn new(
        id: ProviderId,
        connection: Seqpacket,
        peer: Peer,
        process: Koid,
    ) -> Provider {
        Provider {
            id,
            peer,
            process,
            connection,
            since: Instant::now(),
            name: None,
            categories: BTreeSet::new(),
            category_bytes: 0,
            recording: None,
            stats: ProviderStats::default(),
            fault: None,
            is_open: true,
        }
    }

    /// Whether its connection is still open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn is_registered(&self) -> bool {
        self.name.is_some()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(super) fn id(&self) -> ProviderId {
        self.id
    }

    pub(super) fn uid(&self) -> u32 {
        self.peer.uid
    }

    pub(super) fn reset_stats(&mut self) {
        self.stats = ProviderStats::default();
    }

    /// The id of its process in this pid namespace.
    pub(super) fn pid(&self) -> u32 {
        self.peer.pid
    }

    /// A copy of its unsaved records, if it is recording and its buffer is valid.
    pub(super) fn view(&mut self) -> Option<Owned> {
        self.recording.as_mut().and_then(|recording| recording.view(&mut self.stats))
    }

    /// A placeholder for its records when there is no time to copy them.
    pub(super) fn pass_over(&mut self) -> Option<Owned> {
        self.recording.as_ref().and_then(Recording::pass_over)
    }

    /// How much larger its buffer is than the smallest, in bytes.
    pub(super) fn bytes_beyond_the_least(&self) -> usize {
        let bytes = self.recording.as_ref().map_or(0, Recording::buffer_bytes);
        bytes.saturating_sub(MIN_BUFFER_BYTES)
    }

    /// The size of its categories' names in bytes.
    pub(super) fn category_bytes(&self) -> usize {
        self.category_bytes
    }

    /// The phase of its recording.
    pub(super) fn phase(&self) -> Option<Phase> {
        self.recording.as_ref().map(Recording::phase)
    }

    pub(super) fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    pub(super) fn fifo(&self) -> Option<BorrowedFd<'_>> {
        self.recording.as_ref().and_then(Recording::fifo)
    }

    /// When it must have registered.
    pub(super) fn deadline(&self, patience: Duration) -> Option<Instant> {
        (self.is_open && self.name.is_none()).then(|| self.since + patience)
    }

    /// When to read its threads or its spans next, if needed.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        self.recording.as_ref()?.next_poll()
    }

    /// Reads its threads and its spans, if it is time to do so.
    pub(super) fn poll_if_due(&mut self, now: Instant) {
        if let Some(recording) = &mut self.recording
            && recording.next_poll().is_some_and(|next| next <= now)
        {
            recording.poll_if_due(now);
        }
    }

    /// Reads the spans that have ended so far, if triggers wait for spans.
    pub(super) fn look_at_spans(&mut self) {
        if let Some(recording) = &mut self.recording
            && recording.phase() == Phase::Started
        {
            recording.look_at_spans(false);
        }
    }

    /// Starts it with a requested buffer of `wanted` bytes.
    pub(super) fn start(
        &mut self,
        session: wire::Session,
        start: wire::Start,
        wanted: usize,
        follower: Option<Follower>,
    ) {
        let Some(name) = self.name.clone() else { return };
        self.stats.buffer_short = (wanted as u64).saturating_sub(start.buffer_bytes);
        let owner = Owner { id: self.id, name, process: self.process };
        self.fault = None;
        self.stats.mode = Some(start.mode);
        let pid = self.peer.pid;
        match Recording::start(&self.connection, session, start, owner, pid, follower) {
            Ok(recording) => self.recording = Some(recording),
            Err(fault) => self.blame(&fault),
        }
    }

    /// Informs it that no session is running: otherwise a program that has just started waits for START.
    pub(super) fn send_idle(&mut self, number: wire::Session) {
        let reported = FromManager::Terminate(number)
            .encode()
            .map_err(Fault::from)
            .and_then(|message| Fault::of_send(self.connection.send(&message, &[])));
        if let Err(fault) = reported {
            self.blame(&fault);
        }
    }

    /// The koid of its process in the trace.
    pub(super) fn process(&self) -> Koid {
        self.process
    }

    /// Sends STOP, if it is recording.
    pub(super) fn stop(&mut self) {
        let stopped = self.recording.as_mut().map(|recording| recording.stop(&self.connection));
        if let Some(Err(fault)) = stopped {
            self.blame(&fault);
        }
    }

    /// Ends its recording without waiting any longer.
    pub(super) fn finish(&mut self, output: &mut Output) {
        let Some(recording) = &mut self.recording else { return };
        if let Err(fault) = recording.finish(output, &mut self.stats) {
            self.blame(&fault);
        }
    }

    /// The memory for recognizing records that were written before they are saved, in bytes.
    pub(super) fn ahead_bytes(&self) -> usize {
        self.recording.as_ref().map_or(0, Recording::ahead_bytes)
    }

    /// Writes its unsaved records ahead of its request, if the memory needed to recognize them later is within the limit.
    pub(super) fn hand_over(&mut self, output: &mut Output, room: usize) {
        let Some(recording) = &mut self.recording else { return };
        if let Err(fault) = recording.hand_over(output, &mut self.stats, room) {
            recording.give_up();
            self.blame(&fault);
        }
    }

    /// Sends TERMINATE and releases its buffer.
    pub(super) fn terminate(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        if let Err(fault) = recording.terminate(&self.connection) {
            self.blame(&fault);
        }
    }

    /// Closes its connection and saves its committed records.
    pub(super) fn hang_up(&mut self, output: &mut Output) {
        self.finish(output);
        self.is_open = false;
    }

    /// Closes its connection, since it did not register in time.
    pub(super) fn time_out(&mut self) {
        self.blame(&Fault::Silent);
        self.is_open = false;
    }

    /// Processes a packet from its FIFO.
    pub(super) fn read_fifo(&mut self, output: &mut Output) {
        let Some(recording) = &mut self.recording else { return };
        if let Err(fault) = recording.take_packet(output, &mut self.stats) {
            recording.give_up();
            self.blame(&fault);
        }
    }

    /// Processes a message from its connection; `buffer` has space for any valid message. The number of bytes that the categories of other
    /// providers use.
    pub(super) fn read_connection(
        &mut self,
        buffer: &mut [u8],
        output: &mut Output,
        others: usize,
    ) -> ConnectionEvent {
        let said = match self.connection.receive(buffer) {
            Ok(Received::Nothing) => return ConnectionEvent::Nothing,
            Ok(Received::End) => {
                self.hang_up(output);
                return ConnectionEvent::Nothing;
            }
            Ok(Received::Message(bytes)) => self.listen(&buffer[..bytes], output, others),
            Err(error) => Err(Fault::while_doing("read from its socket")(error)),
        };
        said.unwrap_or_else(|fault| {
            if let Some(recording) = &mut self.recording {
                recording.give_up();
            }
            self.blame(&fault);
            self.is_open = false;
            ConnectionEvent::Nothing
        })
    }

    fn listen(
        &mut self,
        message: &[u8],
        output: &mut Output,
        others: usize,
    ) -> Result<ConnectionEvent, Fault> {
        match FromProvider::decode(message)? {
            FromProvider::Register { .. } if self.name.is_some() => Err(Fault::RegisteredAgain),
            FromProvider::Register { name, .. } if name == RESERVED_NAME => {
                Err(Fault::ReservedName)
            }
            FromProvider::Register { name, categories } => {
                self.learn(categories, others)?;
                self.name = Some(name.into());
                Ok(ConnectionEvent::Registered)
            }
            _ if self.name.is_none() => Err(Fault::NotRegistered),
            FromProvider::Categories(categories) => {
                self.learn(categories, others)?;
                Ok(ConnectionEvent::Other)
            }
            FromProvider::Alert(name) => {
                self.stats.alerts += 1;
                Ok(ConnectionEvent::Alert(name))
            }
            FromProvider::Stopped(session) => {
                // A packet of an earlier session may be late.
                if self.recording.as_ref().is_some_and(|ours| ours.awaits_stopped(session)) {
                    self.finish(output);
                }
                Ok(ConnectionEvent::Other)
            }
        }
    }

    /// Stores categories while there is space: they are only displayed.
    fn learn(&mut self, categories: Vec<String>, others: usize) -> Result<(), Fault> {
        for category in categories {
            let bytes = size_of::<String>() * 2 + category.len();
            if self.categories.contains(&category) {
                continue;
            }
            if others + self.category_bytes + bytes > MAX_CATEGORY_BYTES {
                self.stats.categories_left_out = self.stats.categories_left_out.saturating_add(1);
                continue;
            }
            self.category_bytes += bytes;
            self.categories.insert(category);
        }
        match self.categories.len() {
            0..=MAX_CATEGORIES => Ok(()),
            _ => Err(Fault::TooManyCategories { max: MAX_CATEGORIES }),
        }
    }

    fn blame(&mut self, fault: &Fault) {
        // The first error is the most useful.
        self.fault.get_or_insert_with(|| fault.to_string());
    }

    /// Its status.
    pub(super) fn status(&self) -> ProviderStatus {
        let state = match self.phase() {
            _ if !self.is_open => ProviderState::Gone,
            _ if self.fault.is_some() => ProviderState::Failed,
            None => ProviderState::Registered,
            Some(Phase::Starting) => ProviderState::Starting,
            Some(Phase::Started) => ProviderState::Started,
            Some(Phase::Stopping) => ProviderState::Stopping,
            Some(Phase::Stopped) => ProviderState::Stopped,
        };
        ProviderStatus {
            id: self.id,
            name: self.name().to_owned(),
            pid: self.peer.pid,
            uid: self.peer.uid,
            koid: self.process,
            categories: self.categories.iter().cloned().collect(),
            state,
            stats: self.stats,
            missed_start: !self.is_open
                && self.recording.as_ref().is_some_and(|recording| !recording.has_started()),
            fault: self.fault.clone(),
        }
    }
}
