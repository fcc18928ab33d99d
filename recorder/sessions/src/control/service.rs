//! The methods of the interface: one session at a time, with answers according to the table of states.
//!
//! ```text
//!  client threads --requests--> Service --> Session --> the kernel's recorder (a process)
//!        ^                         |           +------> Output (a thread)
//!        +---- alerts, states -----+--> Manager (a thread) --> providers
//! ```
//!
//! The lock is held to read and change the state, never while waiting. Operations that take time have their own state, so that calls in the
//! meantime are answered at once. Two rules make it sound: a thread that starts the session notifies the manager with the lock held and the
//! state still `starting`; a thread that ends a session first changes the state, and then waits for threads that are starting or stopping
//! it.

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
use fxtrec_kernel::procfs;
use fxtrec_kernel::seqpacket::Listener;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::stream;

/// The number of outputs of one user that may be written at the same time, including those that no longer answer.
const WRITERS: usize = 8;

/// The settings of a service.
#[derive(Debug)]
pub struct Setup {
    pub providers: Listener,
    /// How process ids become koids.
    pub koids: Koids,
    pub policy: Policy,
    /// A directory that only the daemon can read.
    pub private_folder: PathBuf,
    /// The directory for unnamed files with data that waits to be sent.
    pub spool_folder: PathBuf,
    /// The most data that may wait to be sent, in bytes.
    pub spool_limit: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) client: ClientId,
    /// The peer's credentials.
    pub(super) credentials: Credentials,
}

/// A descriptor that a client has passed.
#[derive(Debug)]
pub(super) struct PassedOutput {
    /// The process that holds it.
    pub(super) writer: Writer,
    /// Its index among the descriptors that the process holds.
    pub(super) index: usize,
}

impl PassedOutput {
    /// The writer, and the description of its output.
    fn open(self) -> Result<(Writer, Destination), ControllerError> {
        let PassedOutput { mut writer, index } = self;
        let destination = writer.choose(index).map_err(|why| bad("output", why))?;
        Ok((writer, destination))
    }
}

/// The state under the lock.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) state: SessionState,
    pub(super) session: Option<Arc<Session>>,
    /// The reason why the session cannot continue.
    aborted: Option<String>,
    /// Stopped to cancel the start that is in progress.
    cancel: Option<StopToken>,
    /// The threads that are starting or stopping the session, without the lock.
    busy: u32,
    sessions: u64,
    pub(super) watchers: Watchers,
}

impl Inner {
    fn enter(&mut self, state: SessionState) {
        self.state = state;
        self.watchers.publish_state(state);
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

    /// Enters a state that cancels a start in progress.
    fn interrupt(&mut self, next: SessionState) {
        if let Some(cancel) = self.cancel.take() {
            cancel.stop();
        }
        self.enter(next);
    }

    /// Enters `stopping`; the caller counts as busy from now on.
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
    /// Notified when a thread has finished starting or stopping.
    settled: Condvar,
    pub(super) manager: Manager,
    /// The output that receives the pieces of providers.
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

/// Whether the chosen processes, and the data requested about them, are permitted. The kernel decides at each event; this check only
/// reports a refusal early.
fn may_choose(
    who: &Credentials,
    granted: &Granted,
    config: &Config,
) -> Result<(), ControllerError> {
    let Config { processes, cgroups, stacks, triggers, .. } = config;
    let fields = [
        ("processes", processes.is_empty()),
        ("cgroups", cgroups.is_empty()),
        ("stacks", stacks.is_empty()),
        ("triggers", triggers.is_empty()),
    ];
    if let Some((field, _)) = fields.into_iter().find(|(_, is_empty)| !is_empty)
        && !granted.kernel.has_scheduling()
    {
        return Err(bad(field, "needs the category sched or sched:own"));
    }
    if !stacks.is_empty() && who.uid != 0 && !granted.kernel.is_own() {
        let what = "recording stacks of all users".to_owned();
        let why = "only uid 0 may; others may record stacks of their own processes: use the category sched:own";
        return Err(ControllerError::NotPermitted { what, why: why.to_owned() });
    }
    for pid in processes {
        if !procfs::exists(*pid) {
            return Err(bad("processes", format!("process {pid} does not exist")));
        }
        if granted.kernel.is_own() && !procfs::is_of_user(*pid, who.uid) {
            let what = format!("recording process {pid}");
            let uid = who.uid;
            let why = format!(
                "it belongs to another user, and uid {uid} may record only its own processes; \
                 `[[allow]] users = [{uid}] kernel = [\"sched\"]` in the policy would permit it"
            );
            return Err(ControllerError::NotPermitted { what, why });
        }
    }
    Ok(())
}

fn denied(denied: Denied) -> ControllerError {
    match denied {
        Denied::NotPermitted { what, why } => ControllerError::NotPermitted { what, why },
        other => bad("categories", other.to_string()),
    }
}

impl Service {
    /// Starts the manager of providers, and the thread that receives its alerts.
    ///
    /// # Errors
    /// Returns an error when a thread cannot be created.
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
        // Every change is a single step, so a panic leaves the state valid.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until at most this many threads are starting or stopping the session.
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

    /// The part of the request that the caller is granted.
    fn grant(&self, who: &Credentials, wanted: &Selection) -> Result<Granted, ControllerError> {
        let granted = self.policy.permits(who, wanted).map_err(denied)?;
        if granted.kernel.is_own() && granted.kernel.has_more_than_scheduling() {
            let why = "sched:own cannot be combined with irq, syscall and uprobe, which cover the whole machine; \
                       use sched, or another session";
            return Err(bad("categories", why));
        }
        Ok(granted)
    }

    /// The users whose applications the caller may record.
    pub(super) fn users_of(&self, caller: &Caller) -> Result<Users, ControllerError> {
        self.grant(&caller.credentials, &Selection::default()).map(|granted| granted.users)
    }

    /// Has a process receive the next message of a connection with its descriptors. If no process can be started, the
    /// descriptors are dropped, and the reason is returned.
    pub(super) fn receive_output(
        &self,
        caller: &Caller,
        connection: &UnixStream,
        most: usize,
    ) -> io::Result<(Vec<u8>, Result<Writer, String>)> {
        let who = &caller.credentials;
        // Writers that have ended are removed to free space.
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
        output: PassedOutput,
    ) -> Result<(), ControllerError> {
        // An existing session takes precedence over errors in the request.
        machine::answer(self.lock().state, Request::Initialize)?;
        let config = Config::new(config)?;
        let who = &caller.credentials;
        let granted = self.grant(who, &config.selection)?;
        may_choose(who, &granted, &config)?;
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
