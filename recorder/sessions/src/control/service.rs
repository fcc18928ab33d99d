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

mod end;
mod snapshot;
mod start;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::categories::Selection;
use super::config::{Config, bad};
use super::machine::{self, Request};
use super::output::Output;
use super::policy::{Denied, Granted, Policy, Users};
use super::records;
use super::server::seats::{Seat, Users as Seats};
use super::session::{Beginning, ClientId, Session};
use super::spool::Spool;
use super::watch::Watchers;
use super::wire::{self, ControllerError, SessionState};
use super::writer::{self, Destination, Writer};
use crate::manager::{Koids, Manager, Options};
use fxtrec_kernel::helper::Launcher;
use fxtrec_kernel::peer::Credentials;
use fxtrec_kernel::seqpacket::Listener;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::stream;

/// Outputs of one user that may be written at the same time, those included that do not answer any more.
const WRITERS: usize = 8;

/// What a service is started with.
#[derive(Debug)]
pub struct Setup {
    pub providers: Listener,
    /// How process ids become koids.
    pub koids: Koids,
    pub policy: Policy,
    /// A folder of the daemon's own, that nobody else may look into.
    pub private_folder: PathBuf,
    /// Where what waits to be sent is kept, in files without a name.
    pub spool_folder: PathBuf,
    /// The most that may wait to be sent, in bytes.
    pub spool_limit: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) client: ClientId,
    /// Who is at its other end.
    pub(super) credentials: Credentials,
}

/// A descriptor that a client has passed.
#[derive(Debug)]
pub(super) struct Passed {
    /// The process that has it.
    pub(super) writer: Writer,
    /// Which of those it has is meant.
    pub(super) index: usize,
}

impl Passed {
    /// What is to be written to, and by whom.
    fn open(self) -> Result<(Writer, Destination), ControllerError> {
        let Passed { mut writer, index } = self;
        let destination = writer.choose(index).map_err(|why| bad("output", why))?;
        Ok((writer, destination))
    }
}

/// What is behind the lock.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) state: SessionState,
    pub(super) session: Option<Arc<Session>>,
    /// Why the session cannot go on.
    aborted: Option<String>,
    /// Stopped when the start that is under way is not wanted any more.
    cancel: Option<StopToken>,
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

#[derive(Debug)]
pub struct Service {
    inner: Mutex<Inner>,
    /// Notified when somebody is done starting or stopping.
    settled: Condvar,
    pub(super) manager: Manager,
    /// The output that pieces of providers go to.
    archive: Arc<Mutex<Option<Output>>>,
    launcher: Launcher,
    /// How many processes that write outputs each user has.
    writers: Seats,
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
            writers: Seats::default(),
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

    /// Has a process receive the next message of a connection, and the descriptors that come with it. Where there is none
    /// to do so, the descriptors are let go of, and why is told instead.
    pub(super) fn receive_output(
        &self,
        caller: &Caller,
        connection: &UnixStream,
        most: usize,
    ) -> io::Result<(Vec<u8>, Result<Writer, String>)> {
        let who = &caller.credentials;
        // Those that have ended meanwhile make room.
        writer::reap();
        if let Some(seat) = Seat::take(&self.writers, who.uid, WRITERS) {
            let (writer, message) = Writer::receive(connection, who, most, seat, &self.launcher)?;
            return Ok((message, Ok(writer)));
        }
        let mut message = vec![0; most];
        let count = stream::receive_without_descriptors(connection, &mut message)?;
        message.truncate(count);
        let why = format!(
            "{WRITERS} outputs of this user are already being written, or no longer answer"
        );
        Ok((message, Err(why)))
    }

    pub(super) fn initialize(
        &self,
        caller: &Caller,
        config: wire::TraceConfig,
        output: Passed,
    ) -> Result<(), ControllerError> {
        // A session that is there goes before what is wrong with the request.
        machine::answer(self.lock().state, Request::Initialize)?;
        let config = Config::new(config)?;
        let who = &caller.credentials;
        let granted = self.grant(who, &config.selection)?;
        self.policy.permits_buffer(who, config.largest_buffer_bytes).map_err(denied)?;
        let (writer, destination) = output.open()?;

        let mut inner = self.lock();
        let next = machine::answer(inner.state, Request::Initialize)?;
        let number = inner.sessions + 1;
        let me = self.me.clone();
        let on_failure = Box::new(move |reason| {
            if let Some(service) = me.upgrade() {
                service.abort(number, reason);
            }
        });
        let output = Output::start(writer, destination, self.spool(), config.deferred, on_failure)
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
}
