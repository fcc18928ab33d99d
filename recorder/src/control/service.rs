//! What the methods of the interface do: one session at a time, and everybody who asks gets the answer of the table.
//!
//! ```text
//!  client threads --requests--> Service --> Session --> the kernel's recorder (a process)
//!        ^                         |           +------> Output (a thread)
//!        +---- alerts, states -----+--> Manager (a thread) --> providers
//! ```
//!
//! The lock is held to look at the state and to change it, never while something is waited for. What takes time has a
//! state of its own, so that whoever asks meanwhile is answered at once. Two rules make it sound: whoever begins to
//! start tells the manager so with the lock held and the state still `starting`; whoever ends a session first takes
//! the state away, and then waits for those who are starting or stopping it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::categories::Selection;
use super::config::{Config, bad, engine_disposition, select};
use super::descriptor::Descriptor;
use super::kernel_recorder::KernelError;
use super::machine::{self, Request};
use super::output::Output;
use super::policy::{Denied, Granted, Policy, Users};
use super::records;
use super::session::{Beginning, ClientId, Session, WRITING};
use super::spool::Spool;
use super::watch::Watchers;
use super::wire::{self, ControllerError, SessionState};
use crate::kernel::helper::Launcher;
use crate::kernel::peer::Credentials;
use crate::kernel::seqpacket::Listener;
use crate::kernel::waker::Waker;
use crate::manager::{Koids, Manager, ManagerError, Options, StartOptions, Started, Stopped};

/// How long providers may take to hand over what is left.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a service is started with.
#[derive(Debug)]
pub struct Setup {
    /// Where applications connect.
    pub providers: Listener,
    /// How process ids become koids.
    pub koids: Koids,
    /// Who may record what.
    pub policy: Policy,
    /// A folder of the daemon's own, that nobody else may look into.
    pub private_folder: PathBuf,
    /// Where what waits to be sent is kept, in files without a name.
    pub spool_folder: PathBuf,
    /// The most that may wait to be sent, in bytes.
    pub spool_limit: u64,
}

/// Whoever calls.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The connection.
    pub(super) client: ClientId,
    /// Who is at its other end.
    pub(super) credentials: Credentials,
}

/// What is behind the lock.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) state: SessionState,
    pub(super) session: Option<Arc<Session>>,
    /// Why the session cannot go on.
    aborted: Option<String>,
    /// Stopped when the start that is under way is not wanted any more.
    cancel: Option<Waker>,
    /// Who is starting or stopping the session, without the lock.
    busy: u32,
    sessions: u64,
    pub(super) watchers: Watchers,
}

impl Inner {
    fn enter(&mut self, state: SessionState) {
        self.state = state;
        self.watchers.tell_state(state);
    }

    /// The session, if the caller may control it.
    fn controlled_by(&self, caller: &Caller) -> Result<Arc<Session>, ControllerError> {
        let session = self.session.as_ref().ok_or(ControllerError::NotInitialized)?;
        session.controlled_by(caller.client, &caller.credentials)?;
        Ok(session.clone())
    }

    fn not_aborted(&self) -> Result<(), ControllerError> {
        match &self.aborted {
            Some(reason) => Err(ControllerError::Aborted { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Enters a state that whoever starts the session has to see.
    fn interrupt(&mut self, next: SessionState) {
        if let Some(cancel) = self.cancel.take() {
            cancel.stop();
        }
        self.enter(next);
    }

    /// Enters `stopping`, which whoever does it is busy with from now on.
    fn begin_stop(&mut self, next: SessionState) {
        self.busy += 1;
        self.interrupt(next);
    }

    fn is(&self, session: &Session) -> bool {
        self.session.as_ref().is_some_and(|now| now.number == session.number)
    }
}

/// The service.
#[derive(Debug)]
pub struct Service {
    inner: Mutex<Inner>,
    /// Notified when somebody is done starting or stopping.
    settled: Condvar,
    pub(super) manager: Manager,
    /// The output that pieces of providers go to.
    archive: Arc<Mutex<Option<Output>>>,
    launcher: Launcher,
    pub(super) policy: Policy,
    private_folder: PathBuf,
    spool_folder: PathBuf,
    spool_limit: u64,
    me: Weak<Service>,
}

fn denied(denied: Denied) -> ControllerError {
    match denied {
        Denied::NotPermitted { what, why } => ControllerError::NotPermitted { what, why },
        other => bad("categories", other.to_string()),
    }
}

impl Service {
    /// Starts the manager of providers, and what listens to it.
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub fn start(setup: Setup) -> io::Result<Arc<Service>> {
        let archive = Arc::new(Mutex::new(None));
        let goes_to = archive.clone();
        let options = Options {
            everybody: true,
            per_user: setup.policy.providers_per_user(),
            koids: setup.koids,
            ..Options::default()
        };
        let pass = move |records| {
            let output: MutexGuard<'_, Option<Output>> =
                goes_to.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(output) = &*output {
                output.push(records);
            }
        };
        let manager = Manager::spawn(setup.providers, options, Box::new(pass))?;
        let launcher = Launcher::new()?;
        let service = Arc::new_cyclic(|me| Service {
            inner: Mutex::default(),
            settled: Condvar::new(),
            manager,
            archive,
            launcher,
            policy: setup.policy,
            private_folder: setup.private_folder,
            spool_folder: setup.spool_folder,
            spool_limit: setup.spool_limit,
            me: me.clone(),
        });
        service.listen_to_alerts()?;
        Ok(service)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change of it is made at once, so it is whole whatever became of whoever made it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no more than this many are starting or stopping the session.
    fn wait_until_busy_are(&self, most: u32) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        while inner.busy > most {
            inner = self.settled.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner
    }

    fn set_archive(&self, output: Option<Output>) {
        *self.archive.lock().unwrap_or_else(PoisonError::into_inner) = output;
    }

    fn spool(&self) -> Spool {
        Spool::new(self.spool_folder.clone(), self.spool_limit)
    }

    /// What the caller is given of what is asked for.
    fn grant(&self, who: &Credentials, wanted: &Selection) -> Result<Granted, ControllerError> {
        self.policy.permits(who, wanted).map_err(denied)
    }

    /// Whose applications the caller may record.
    pub(super) fn users_of(&self, caller: &Caller) -> Result<Users, ControllerError> {
        self.grant(&caller.credentials, &Selection::default()).map(|granted| granted.users)
    }

    /// InitializeTracing.
    pub(super) fn initialize(
        &self,
        caller: &Caller,
        config: wire::TraceConfig,
        output: std::os::fd::OwnedFd,
    ) -> Result<(), ControllerError> {
        // A session that is there goes before what is wrong with the request.
        machine::answer(self.lock().state, Request::Initialize)?;
        let config = Config::new(config)?;
        let who = &caller.credentials;
        let granted = self.grant(who, &config.selection)?;
        self.policy.permits_buffer(who, config.largest_buffer_bytes).map_err(denied)?;
        let descriptor =
            Descriptor::new(output).map_err(|error| bad("output", error.to_string()))?;

        let mut inner = self.lock();
        let next = machine::answer(inner.state, Request::Initialize)?;
        let number = inner.sessions + 1;
        let me = self.me.clone();
        let on_failure = Box::new(move |reason| {
            if let Some(service) = me.upgrade() {
                service.abort(number, reason);
            }
        });
        let output = Output::start(descriptor, self.spool(), config.deferred, on_failure)
            .map_err(|error| ControllerError::Aborted { reason: error.to_string() })?;
        output.push(records::head());
        self.set_archive(Some(output.clone()));
        inner.sessions = number;
        inner.session = Some(Arc::new(Session::new(Beginning {
            number,
            owner: who.clone(),
            client: caller.client,
            config,
            granted,
            output,
            held: self.spool(),
        })));
        inner.aborted = None;
        inner.enter(next);
        Ok(())
    }

    /// StartTracing.
    pub(super) fn start_tracing(
        &self,
        caller: &Caller,
        options: wire::StartOptions,
    ) -> Result<wire::Started, ControllerError> {
        let additional = options.additional_categories.unwrap_or_default();
        let more = match additional.is_empty() {
            true => None,
            false => Some(select("additional_categories", &additional)?),
        };
        let (session, granted, cancel) = {
            let mut inner = self.lock();
            let session = inner.controlled_by(caller)?;
            let next = machine::answer(inner.state, Request::Start)?;
            inner.not_aborted()?;
            let granted = match more {
                Some(more) => {
                    let wanted = session.config.selection.clone().with(more);
                    self.grant(&session.owner, &wanted)?
                }
                None => session.granted.clone(),
            };
            let cancel = Waker::new()
                .map_err(|error| ControllerError::Aborted { reason: error.to_string() })?;
            inner.cancel = Some(cancel.clone());
            inner.busy += 1;
            inner.enter(next);
            (session, granted, cancel)
        };
        let disposition = session.disposition(options.buffer_disposition);
        let started = self.record(&session, &granted, disposition, &cancel);

        let mut inner = self.lock();
        inner.busy -= 1;
        let interrupted = !inner.is(&session) || inner.state != SessionState::Starting;
        let answer = match started {
            Ok(started) if !interrupted => {
                inner.enter(SessionState::Started);
                Ok(started)
            }
            Err(reason) if !interrupted => {
                inner.aborted = Some(reason.clone());
                inner.enter(SessionState::Stopped);
                Err(ControllerError::Aborted { reason })
            }
            _ if inner.state == SessionState::Terminating => Err(ControllerError::Terminating),
            // Somebody stopped it meanwhile: what had started by then is what there is to tell.
            started => inner.not_aborted().map(|()| started.unwrap_or_default()),
        };
        self.settled.notify_all();
        answer.map(|Started { started, late }| wire::Started {
            started: u32::try_from(started).unwrap_or(u32::MAX),
            late,
        })
    }

    /// Starts the recorder of the kernel, and then applications.
    fn record(
        &self,
        session: &Session,
        granted: &Granted,
        disposition: wire::BufferDisposition,
        cancel: &Waker,
    ) -> Result<Started, String> {
        let folder = &self.private_folder;
        session
            .start_kernel(granted, disposition, &self.launcher, folder, cancel)
            .map_err(|error| error.to_string())?;
        let options = StartOptions {
            disposition: engine_disposition(disposition),
            // They are among those that were granted.
            additional_categories: Vec::new(),
            timeout: session.config.start_timeout,
        };
        let answer = {
            let inner = self.lock();
            if !inner.is(session) || inner.state != SessionState::Starting {
                return Ok(Started::default());
            }
            self.manager.begin_start(session.manager_config(granted), options)
        };
        match answer.and_then(|answer| answer.recv().unwrap_or(Err(ManagerError::Gone))) {
            Ok(started) => Ok(started),
            // It was ended before they had started.
            Err(ManagerError::NotStarted) => Ok(Started::default()),
            Err(error) => {
                session.stop_kernel();
                Err(error.to_string())
            }
        }
    }

    /// StopTracing.
    pub(super) fn stop_tracing(
        &self,
        caller: &Caller,
        options: wire::StopOptions,
    ) -> Result<wire::Stopped, ControllerError> {
        let session = {
            let mut inner = self.lock();
            let session = inner.controlled_by(caller)?;
            inner.not_aborted()?;
            let next = machine::answer(inner.state, Request::Stop)?;
            inner.begin_stop(next);
            session
        };
        let write = options.write_results.unwrap_or(false);
        let (stopped, written) = self.stop(&session, write);
        let mut inner = self.lock();
        if let Err(reason) = written
            && inner.is(&session)
        {
            inner.aborted.get_or_insert(reason);
        }
        let answer = match inner.is(&session) {
            true => inner.not_aborted(),
            false => Ok(()),
        };
        self.end_stop(inner, &session);
        answer.map(|()| wire::Stopped { provider_stats: session.stats(&stopped.providers) })
    }

    /// Stops applications, then the kernel's recorder, so that the last of the ones is within what the other knows.
    fn stop(&self, session: &Session, write: bool) -> (Stopped, Result<(), String>) {
        // Whoever is starting it is told so by this, and is done soon.
        let stopped = self.manager.stop(write, LAST_WORDS).unwrap_or_default();
        drop(self.wait_until_busy_are(1));
        session.stop_kernel();
        (stopped, session.write(write))
    }

    fn end_stop(&self, mut inner: MutexGuard<'_, Inner>, session: &Session) {
        inner.busy -= 1;
        if inner.is(session) && inner.state == SessionState::Stopping {
            inner.enter(SessionState::Stopped);
        }
        self.settled.notify_all();
    }

    /// Stops a session that cannot go on.
    fn abort(&self, number: u64, reason: String) {
        let session = {
            let mut inner = self.lock();
            let Some(session) = inner.session.clone().filter(|now| now.number == number) else {
                return;
            };
            inner.aborted.get_or_insert(reason);
            let Ok(next) = machine::answer(inner.state, Request::Stop) else { return };
            inner.begin_stop(next);
            session
        };
        // What was recorded has nowhere to go.
        let _ = self.stop(&session, false);
        self.end_stop(self.lock(), &session);
    }

    /// TerminateTracing.
    pub(super) fn terminate_tracing(&self, caller: &Caller) -> Result<(), ControllerError> {
        let session = {
            let mut inner = self.lock();
            let session = inner.controlled_by(caller)?;
            let next = machine::answer(inner.state, Request::Terminate)?;
            inner.interrupt(next);
            session
        };
        self.end(&session);
        Ok(())
    }

    /// Ends a session whose state is `terminating` already.
    fn end(&self, session: &Session) {
        // Whoever is starting or stopping it is told so by this, and is done soon.
        let _ = self.manager.terminate();
        drop(self.wait_until_busy_are(0));
        session.end();
        self.set_archive(None);
        let mut inner = self.lock();
        inner.session = None;
        inner.aborted = None;
        inner.watchers.forget_alerts();
        inner.enter(SessionState::Ready);
    }

    /// A connection is closed: with it goes its session, unless that is detached.
    pub(super) fn client_gone(&self, client: ClientId) {
        let session = {
            let mut inner = self.lock();
            let ours =
                |session: &&Arc<Session>| session.client == client && !session.config.detached;
            let Some(session) = inner.session.as_ref().filter(ours).cloned() else { return };
            let Ok(next) = machine::answer(inner.state, Request::Terminate) else { return };
            inner.interrupt(next);
            session
        };
        self.end(&session);
    }

    /// Stops the session, if there is one, with its results, and ends it.
    pub fn shut_down(&self) {
        if let Some(session) = self.take_over(Request::Stop) {
            // Where that fails there is nobody left to tell.
            let _ = self.stop(&session, true);
            self.end_stop(self.lock(), &session);
        }
        drop(self.wait_until_busy_are(0));
        if let Some(session) = self.take_over(Request::Terminate) {
            self.end(&session);
        }
    }

    /// Makes this request of whatever session there is; `None` when it is refused.
    fn take_over(&self, request: Request) -> Option<Arc<Session>> {
        let mut inner = self.lock();
        let session = inner.session.clone()?;
        let next = machine::answer(inner.state, request).ok()?;
        match request {
            Request::Stop => inner.begin_stop(next),
            _ => inner.interrupt(next),
        }
        Some(session)
    }

    /// Snapshot.
    pub(super) fn snapshot(
        &self,
        caller: &Caller,
        output: std::os::fd::OwnedFd,
    ) -> Result<u64, ControllerError> {
        let session = {
            let inner = self.lock();
            let session = inner.controlled_by(caller)?;
            inner.not_aborted()?;
            machine::answer(inner.state, Request::Snapshot)?;
            session
        };
        if session.config.mode != wire::BufferingMode::Circular {
            return Err(bad("buffering_mode", "only of a circular session there are snapshots"));
        }
        let aborted = |reason: String| ControllerError::Aborted { reason };
        let descriptor =
            Descriptor::new(output).map_err(|error| bad("output", error.to_string()))?;
        let output = Output::start(descriptor, self.spool(), false, Box::new(|_| {}))
            .map_err(|error| aborted(error.to_string()))?;
        let kernel = session.kernel_snapshot().map_err(|error| match error {
            KernelError::Ended => ControllerError::Terminating,
            error => aborted(error.to_string()),
        })?;
        let applications = self.manager.snapshot().map_err(|error| aborted(error.to_string()))?;
        output.push(records::head());
        output.push(kernel);
        output.push(applications);
        output.close();
        output.settle(WRITING);
        match output.failure() {
            Some(reason) => Err(bad("output", reason)),
            None => Ok(output.total()),
        }
    }
}
