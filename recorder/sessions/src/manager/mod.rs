//! The manager of trace providers, applications that record their own events.
//!
//! A provider is a process that records its own spans, by fxt-writer's `provider` module or by another client of the protocol in
//! `docs/reference/providers.md`. It connects to the manager's socket and registers its name. When a session starts, it gets a buffer that
//! it shares with the manager, and a FIFO on which it requests that full parts be saved. The saved records are written to the same archive
//! as everything else.
//!
//! ```text
//!   provider 1 --socket, FIFO--+
//!              == buffer ==    |
//!   provider 2 --socket, FIFO--+--> fxtrec-manager --pieces--> archive
//!              == buffer ==    |         ^
//!                 ...          |         | start, stop, terminate, providers ...
//!                                     Manager
//! ```
//!
//! One thread, `fxtrec-manager`, does all the work, so no data here is locked. It trusts no provider: messages are checked
//! ([`fxt_writer::provider::wire`]), buffers are read as hostile memory ([`fxt_writer::engine::Remote`]), records about others are left out
//! (`admit`), and a provider that floods the manager is served no more often than the others. When a provider dies, the manager, which
//! still has its buffer, saves the committed part of it.

mod acceptor;
mod admit;
mod ahead;
mod command;
mod config;
mod core;
mod event;
mod fault;
mod follower;
mod inner;
mod known;
mod loss;
mod names;
mod open;
mod output;
mod provider;
mod ready;
mod recording;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

pub use command::{ManagerError, Started, Stopped};
pub use config::{
    DEFAULT_BUFFER_BYTES, Koids, MAX_PROVIDERS, MIN_BUFFER_BYTES, Options, ProviderOverride,
    SessionConfig, StartOptions,
};
pub use follower::{LongSpan, SpanLimit};
pub use loss::RecordLoss;
pub use output::{Archive, LeftOut, Section};
pub use status::{Alert, ProviderState, ProviderStats, ProviderStatus, Refusals};

use self::core::Core;
use command::{Between, Command};
use output::Output;

use fxtrec_kernel::bell::Bell;
use fxtrec_kernel::seqpacket::{Address, Listener};
use fxtrec_units::Nanos;

/// The environment variable with the manager's address: a path, or `@` and an abstract name.
pub const SOCKET_VARIABLE: &str = "FXTREC_PROVIDER_SOCKET";

/// Maximum number of alerts waiting to be received; further ones are only counted.
const ALERTS: usize = 1024;

/// A handle to the manager's thread. Dropping it releases all providers and ends the thread.
#[derive(Debug)]
pub struct Manager {
    commands: Sender<Command>,
    bell: Bell,
    alerts: Receiver<Alert>,
    spans: Receiver<LongSpan>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Starts the thread. Providers may connect at once and record when a session is started.
    ///
    /// # Errors
    /// Returns an error when no eventfd or thread can be created.
    pub fn spawn(listener: Listener, options: Options, archive: Archive) -> io::Result<Manager> {
        let (commands, requests) = crossbeam_channel::unbounded();
        let ((raised, alerts), (ended, spans)) = (bounded(ALERTS), bounded(ALERTS));
        let bell = Bell::new()?;
        let output = {
            let Options { held_bytes, divided, archive_bytes, .. } = options;
            Output::new(archive, held_bytes, divided, archive_bytes)
        };
        let mut core =
            Core::new(listener, options, output, requests, bell.clone(), (raised, ended));
        let thread = std::thread::Builder::new()
            .name("fxtrec-manager".to_owned())
            .spawn(move || core.run())?;
        Ok(Manager { commands, bell, alerts, spans, thread: Some(thread) })
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, ManagerError> {
        self.tell(command)?.recv().map_err(|_| ManagerError::Gone)
    }

    fn tell<T>(
        &self,
        command: impl FnOnce(Sender<T>) -> Command,
    ) -> Result<Receiver<T>, ManagerError> {
        let (reply, answer) = bounded(1);
        self.commands.send(command(reply)).map_err(|_| ManagerError::Gone)?;
        self.bell.ring();
        Ok(answer)
    }

    /// Starts a session, and waits until all connected providers record, at most for the time in the options. Providers that connect later
    /// record as soon as they have registered.
    ///
    /// # Errors
    /// Returns an error when a session is running or being stopped.
    pub fn start(
        &self,
        config: SessionConfig,
        options: StartOptions,
    ) -> Result<Started, ManagerError> {
        let how = Box::new((config, options));
        self.ask(|reply| Command::Start(how, reply))?
    }

    /// The same as [`Manager::start`], without waiting: a later stop or end applies to this session.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only; other errors are part of the answer.
    pub fn begin_start(
        &self,
        config: SessionConfig,
        options: StartOptions,
    ) -> Result<Receiver<Result<Started, ManagerError>>, ManagerError> {
        let how = Box::new((config, options));
        self.tell(|reply| Command::Start(how, reply))
    }

    /// Stops the session and waits until all providers have handed over their records, at most for `timeout`. For providers that do not
    /// answer, the committed part is saved. Without `write`, unwritten data is kept until the next start, which may retain it.
    ///
    /// # Errors
    /// Returns an error when none runs.
    pub fn stop(&self, write: bool, timeout: Duration) -> Result<Stopped, ManagerError> {
        self.ask(|reply| Command::Stop { write, timeout, reply })?
    }

    /// Ends the session at once. Unwritten data is discarded, and all buffers are released.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn terminate(&self) -> Result<(), ManagerError> {
        self.ask(Command::Terminate)
    }

    /// The providers that are connected.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn providers(&self) -> Result<Vec<ProviderStatus>, ManagerError> {
        self.ask(Command::Providers)
    }

    /// All categories that connected providers are known to have, in order.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn known_categories(&self) -> Result<BTreeSet<String>, ManagerError> {
        let providers = self.providers()?;
        Ok(providers.into_iter().flat_map(|provider| provider.categories).collect())
    }

    /// Connections that were rejected so far.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn refusals(&self) -> Result<Refusals, ManagerError> {
        self.ask(Command::Refusals)
    }

    /// For each user, how often a provider was rejected because there was no space.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn turned_away(&self) -> Result<BTreeMap<u32, u64>, ManagerError> {
        self.ask(Command::TurnedAway)
    }

    /// A copy of the current records of all providers, to be appended to an archive without any of them: held records, and the committed
    /// part of the buffers of recording providers. Nothing is consumed. In streaming mode, these are the records that have not been written
    /// yet, with the names that they refer to.
    ///
    /// Providers continue to record during this. Providers with an invalid buffer are left out. While buffers are copied, which takes some
    /// milliseconds for each 10 MiB, none is saved.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn snapshot(&self) -> Result<Vec<u8>, ManagerError> {
        let mut snapshot = Vec::new();
        self.sections()?.iter().for_each(|section| section.put(&mut snapshot));
        Ok(snapshot)
    }

    /// [`Self::snapshot`], provider by provider.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn sections(&self) -> Result<Vec<Section>, ManagerError> {
        self.ask(Command::Sections)
    }

    /// Waits until all messages that providers have sent so far are processed, including those of providers that have connected and
    /// disconnected since. It does not wait for providers that never finish.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only.
    pub fn settle(&self) -> Result<(), ManagerError> {
        self.ask(Command::Settle)
    }

    /// Ends one archive and continues in another: writes the records of providers so far, ends their open spans at `time`, calls `between`,
    /// which redirects further output to the other archive, and begins the spans again there. Only for a [divided](Options::divided)
    /// archive, in streaming mode. Does not wait for the result.
    ///
    /// # Errors
    /// Returns [`ManagerError::Gone`] only; then `between` is dropped.
    pub fn begin_rotate(
        &self,
        time: Nanos,
        between: impl FnOnce() + Send + 'static,
    ) -> Result<(), ManagerError> {
        let between = Between(Box::new(between));
        self.commands.send(Command::Rotate { time, between }).map_err(|_| ManagerError::Gone)?;
        self.bell.ring();
        Ok(())
    }

    /// The alerts of providers, in order, including those raised right before their provider ends.
    pub fn alerts(&self) -> &Receiver<Alert> {
        &self.alerts
    }

    /// The spans that [`Options::spans`] watch for, as they are found: at most a tenth of a second after their end.
    pub fn spans(&self) -> &Receiver<LongSpan> {
        &self.spans
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Fails only if the thread has ended on its own.
        let _ = self.commands.send(Command::End);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listener at an unguessable abstract address, for COMMAND and its children.
///
/// # Errors
/// Errors of getrandom(2), socket(2), bind(2) or listen(2).
pub fn listen_privately() -> io::Result<Listener> {
    Listener::bind(Address::unguessable("fxtrec-providers")?)
}

#[cfg(test)]
mod tests;
