//! One session: its owner, the recorded data, and how it is started and stopped.
//!
//! States are handled in [`machine`](super::machine) and [`service`](super::service).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::config::{Config, wire_mode};
use super::kernel_recorder::{
    Deliver, KernelError, KernelRecorder, NOTHING_FIRED, Progress, Settings,
};
use super::output::Output;
use super::policy::{Granted, Users};
use super::spool::Spool;
use super::wire::{BufferDisposition, BufferingMode, ControllerError, ProviderStats};
use crate::manager::{ProviderStatus, SessionConfig};
use fxtrec_kernel::clock;
use fxtrec_kernel::helper::Launcher;
use fxtrec_kernel::peer::Credentials;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_units::Nanos;

/// How long a regular file may take to be written before StopTracing and TerminateTracing are answered.
pub(super) const WRITING: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientId(pub(super) u64);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) since: Nanos,
    pub(super) owner: Credentials,
    /// The connection that initialized it.
    pub(super) client: ClientId,
    pub(super) config: Config,
    /// The part of the configuration that its owner may record.
    pub(super) granted: Granted,
    pub(super) output: Output,
    /// The progress of the kernel's recorder.
    pub(super) kernel: Arc<Progress>,
    recorder: Mutex<Option<KernelRecorder>>,
    /// Output of the kernel's recorder that has not been requested yet.
    held: Arc<Mutex<Spool>>,
    /// Whether data from the kernel's recorder is still wanted.
    wanted: Arc<AtomicBool>,
    /// Whether the previous stop kept its results.
    wrote: AtomicBool,
}

/// The initial values of [`Session`].
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) number: u64,
    pub(super) owner: Credentials,
    pub(super) client: ClientId,
    pub(super) config: Config,
    pub(super) granted: Granted,
    pub(super) output: Output,
    pub(super) held: Spool,
}

impl Session {
    /// A session that has not been started.
    pub(super) fn new(beginning: Beginning) -> Session {
        let Beginning { number, owner, client, config, granted, output, held } = beginning;
        Session {
            number,
            since: clock::now(),
            owner,
            client,
            config,
            granted,
            output,
            kernel: Arc::new(Progress::default()),
            recorder: Mutex::new(None),
            held: Arc::new(Mutex::new(held)),
            wanted: Arc::new(AtomicBool::new(true)),
            wrote: AtomicBool::new(false),
        }
    }

    /// Whether this client may start, stop and end it: the connection that initialized it, root, and, when the session is detached, every
    /// connection of the same user.
    ///
    /// # Errors
    /// Returns [`ControllerError::NotPermitted`].
    pub(super) fn controlled_by(
        &self,
        client: ClientId,
        caller: &Credentials,
    ) -> Result<(), ControllerError> {
        let same_user = self.config.detached && caller.uid == self.owner.uid;
        if client == self.client || same_user || caller.uid == 0 {
            return Ok(());
        }
        let why = match caller.uid == self.owner.uid {
            true => "only the connection that initialized it may, because it is not detached",
            false => "only its owner and root may",
        };
        let what = format!("the session of uid {}", self.owner.uid);
        Err(ControllerError::NotPermitted { what, why: why.to_owned() })
    }

    /// The treatment of earlier data at a start: data that was already written is discarded, since it would be written twice.
    pub(super) fn disposition(&self, asked: Option<BufferDisposition>) -> BufferDisposition {
        match self.wrote.load(Ordering::Relaxed) {
            true => BufferDisposition::ClearEntire,
            false => asked.unwrap_or_default(),
        }
    }

    pub(super) fn manager_config(&self, granted: &Granted) -> SessionConfig {
        SessionConfig {
            mode: super::config::engine_mode(self.config.mode),
            buffer_bytes: usize::try_from(self.config.buffer_bytes).unwrap_or(usize::MAX),
            categories: granted.applications.clone(),
            overrides: self.config.overrides.clone(),
            // Deferred data waits in the output, which stores it outside of memory.
            hold: false,
            only_uid: match granted.users {
                Users::Every => None,
                Users::Only(uid) => Some(uid),
            },
        }
    }

    fn recorder(&self) -> MutexGuard<'_, Option<KernelRecorder>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Spool> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the kernel's recorder, if the kernel is recorded.
    ///
    /// # Errors
    /// Returns [`KernelError`].
    pub(super) fn start_kernel(
        &self,
        granted: &Granted,
        disposition: BufferDisposition,
        launcher: &Launcher,
        folder: &std::path::Path,
        cancel: &StopToken,
    ) -> Result<(), KernelError> {
        if disposition != BufferDisposition::Retain {
            self.held().clear();
        }
        if granted.kernel.is_empty() {
            return Ok(());
        }
        let settings = Settings {
            plan: &granted.kernel,
            only_user: granted.kernel.is_own().then_some(self.owner.uid),
            processes: &self.config.processes,
            cgroups: &self.config.cgroups,
            stacks: &self.config.stacks,
            triggers: &self.config.triggers,
            mode: self.config.mode,
            buffer_bytes: self.config.buffer_bytes,
            folder,
        };
        let progress = self.kernel.clone();
        let started = KernelRecorder::start(&settings, launcher, cancel, progress, self.deliver());
        *self.recorder() = Some(started.inspect_err(|error| self.kernel.blame(error.to_string()))?);
        Ok(())
    }

    /// The destination of the kernel's records: directly to the output if the session streams, otherwise to the held data.
    fn deliver(&self) -> Deliver {
        let (output, held) = (self.output.clone(), self.held.clone());
        let (wanted, progress) = (self.wanted.clone(), self.kernel.clone());
        let streams = self.config.mode == BufferingMode::Streaming;
        Arc::new(move |records| {
            if !wanted.load(Ordering::Relaxed) {
                return;
            }
            if streams {
                return output.push(records);
            }
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = held.push(records) {
                progress.blame(format!("some of its data is lost: {error}"));
            }
        })
    }

    /// Stops the kernel's recorder. When this returns, all its data has arrived.
    pub(super) fn stop_kernel(&self) {
        let recorder = self.recorder().take();
        if let Some(recorder) = recorder {
            recorder.stop();
        }
    }

    /// Writes the collected data, if `write`. Returns why the output is incomplete, if it is.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn write(&self, write: bool) -> Result<Option<String>, String> {
        self.wrote.store(write, Ordering::Relaxed);
        if !write {
            return Ok(None);
        }
        loop {
            // The lock is not held during the push, since the callback for a failure may take it.
            let piece = self.held().pop().map_err(|error| {
                format!("cannot read back the data of the kernel's recorder: {error}")
            })?;
            match piece {
                Some(piece) => self.output.push(piece),
                None => break,
            }
        }
        if self.config.deferred {
            self.output.release();
        }
        let incomplete = self.output.settle(WRITING);
        match self.output.failure() {
            Some(reason) => Err(reason),
            None => Ok(incomplete),
        }
    }

    /// How many snapshots of triggers wait to be fetched; 0 if the recorder is busy.
    pub(super) fn fired(&self) -> u64 {
        let recorder = self.recorder.try_lock();
        recorder.ok().and_then(|mut it| Some(it.as_mut()?.fired())).unwrap_or(0)
    }

    /// The kernel's data that a circular session holds, or the data of the oldest trigger that fired. Stops waiting when the session ends.
    ///
    /// # Errors
    /// Returns [`KernelError`].
    pub(super) fn kernel_snapshot(&self, fired: bool) -> Result<Vec<u8>, KernelError> {
        match self.recorder().as_mut() {
            Some(recorder) if fired => recorder.take_fired(),
            None if fired => Err(KernelError::NoSnapshot(NOTHING_FIRED.to_owned())),
            Some(recorder) => recorder.snapshot(&self.wanted),
            None => Ok(Vec::new()),
        }
    }

    /// Ends everything: data not yet written is discarded, written data is still sent. Returns why the data is incomplete, if it is.
    pub(super) fn end(&self) -> Option<String> {
        self.wanted.store(false, Ordering::Relaxed);
        // It ends when it is dropped; the rest of its output is discarded.
        drop(self.recorder().take());
        self.held().clear();
        self.output.close();
        let incomplete = self.output.settle(WRITING);
        self.output.failure().or(incomplete)
    }

    /// The statistics of the providers that this session recorded.
    pub(super) fn stats(&self, providers: &[ProviderStatus]) -> Vec<ProviderStats> {
        let ours = providers.iter().filter(|provider| self.granted.users.include(provider.uid));
        ours.filter_map(|provider| {
            let stats = &provider.stats;
            Some(ProviderStats {
                name: provider.name.clone(),
                pid: provider.pid,
                buffering_mode: wire_mode(stats.mode?),
                buffer_wrapped_count: stats.buffers.saturating_sub(1),
                records_dropped: stats.dropped,
                percentage_durable_buffer_used: stats.durable_used * 100.0,
                non_durable_bytes_written: stats.rolling_bytes,
                records_written: stats.tally.records,
            })
        })
        .collect()
    }
}
