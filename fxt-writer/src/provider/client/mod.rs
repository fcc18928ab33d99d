//! The client: this process's side of the talk with the manager.
//!
//! A thread of its own, `fxt-provider`, does all the talking, so that nothing the
//! manager does or fails to do holds the application up. Threads that record
//! leave messages for it in an inbox and wake it.
//!
//! ```text
//!  threads that record               fxt-provider                   manager
//!    | categories, alerts, full buffers    | control socket, FIFO       |
//!    |------------ inbox, wake ----------->|<-------------------------->|
//!    |<----- session, generation word -----|                            |
//! ```

mod connection;
mod recording;
mod run;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::session::{BufferNumber, Session};
use super::sys::{self, OwnSocket};
use super::wire::FromProvider;
use crate::packet::Packet;
pub(super) use run::{expects_manager, spawn};

/// Alerts that wait to be told, at most; further ones are left out.
const MAX_ALERTS: usize = 256;

/// What the threads of this process and the client's thread share. There is one
/// per process, and it stays for as long as the process runs.
pub(super) struct Client {
    name: String,
    address: Option<String>,
    wake: EventFd,
    inbox: Mutex<Inbox>,
    current: Mutex<Option<Arc<Session>>>,
    /// The connection, once it is registered and nothing waits to be sent.
    direct: Mutex<Option<Arc<OwnSocket>>>,
    /// Records that trace points could not make while the manager's answer was overdue,
    /// by category.
    missed: Mutex<HashMap<&'static str, u64>>,
    progress: Mutex<Progress>,
    progressed: Condvar,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the client's thread is to tell the manager.
#[derive(Debug, Default)]
struct Inbox {
    /// All categories known so far, in the order in which they became known.
    categories: Vec<String>,
    alerts: VecDeque<String>,
    /// How many alerts have been left here.
    raised: u64,
    /// Requests of engines to save a buffer, by their buffer's number.
    packets: VecDeque<(BufferNumber, Packet)>,
    /// How many times a flush was asked for.
    flushes: u64,
}

/// What others wait for.
#[derive(Debug, Default)]
struct Progress {
    /// Whether a session runs.
    recording: bool,
    /// Whether there may be something to save.
    unsaved: bool,
    /// Up to which request all flushes are through.
    flushed: u64,
    /// Up to which of those that were left in the inbox alerts were told.
    told: u64,
    /// Whether there was no manager to be reached when one was looked for last.
    alone: bool,
    /// Whether it is known if a session runs: the manager has said so, or there is none,
    /// or the wait for it is over.
    answered: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// A client that will register under `name` with the manager at `address`,
    /// or at the usual one.
    pub(super) fn new(
        name: String,
        categories: Vec<String>,
        address: Option<String>,
    ) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let inbox = Mutex::new(Inbox { categories, ..Inbox::default() });
        let (current, direct) = (Mutex::default(), Mutex::default());
        let (missed, progress, progressed) = (Mutex::default(), Mutex::default(), Condvar::new());
        Ok(Self { name, address, wake, inbox, current, direct, missed, progress, progressed })
    }

    /// The running session, if there is one.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        lock(&self.current).clone()
    }

    /// Makes a category known, once.
    pub(super) fn learn(&self, category: &str) {
        let mut inbox = lock(&self.inbox);
        if !inbox.categories.iter().any(|known| known == category) {
            inbox.categories.push(category.to_owned());
            drop(inbox);
            self.wake();
        }
    }

    /// Tells the manager an alert: at once where that is possible, since what is
    /// worth one may be the last thing that the process does, else by the client's
    /// thread.
    pub(super) fn alert(&self, name: &str) {
        let mut inbox = lock(&self.inbox);
        // Not before those that wait.
        if inbox.alerts.is_empty() && self.tell_directly(name) {
            return;
        }
        if inbox.alerts.len() < MAX_ALERTS {
            inbox.alerts.push_back(name.to_owned());
            inbox.raised += 1;
            drop(inbox);
            self.wake();
        }
    }

    fn tell_directly(&self, name: &str) -> bool {
        let direct = lock(&self.direct);
        let message = FromProvider::Alert(name.to_owned()).encode();
        match (&*direct, message) {
            (Some(control), Ok(message)) => {
                sys::send(control.as_fd(), &message).is_ok_and(|sent| sent)
            }
            _ => false,
        }
    }

    /// Waits until all alerts so far were told, at most for `timeout`, and not
    /// where there is nobody to tell.
    pub(super) fn tell_alerts(&self, timeout: Duration) {
        let inbox = lock(&self.inbox);
        let raised = inbox.raised;
        drop(inbox);
        self.wait(timeout, |progress| progress.alone || progress.told >= raised);
    }

    /// Has a buffer saved.
    fn request(&self, buffer: BufferNumber, packet: Packet) {
        lock(&self.inbox).packets.push_back((buffer, packet));
        self.wake();
    }

    fn wake(&self) {
        // Full only when it has been woken 2^64 times, which is enough.
        let _ = self.wake.write(1);
    }

    /// Takes the wake-ups so far.
    fn woken(&self) {
        // Nothing to read is as good.
        let _ = self.wake.read();
    }

    fn waker(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Makes `session` the one that trace points record into.
    fn publish(&self, session: Arc<Session>) {
        let generation = session.generation().get();
        *lock(&self.current) = Some(session);
        // Release: who sees the generation finds the session behind the lock.
        sys::GENERATION.store(generation, std::sync::atomic::Ordering::Release);
        self.count_missed();
        // Before anybody who waits goes on.
        super::hook::changed();
        self.progress(|progress| {
            (progress.recording, progress.unsaved, progress.answered) = (true, true, true);
        });
    }

    /// There is no session that what is recorded now could belong to.
    fn no_session(&self) {
        self.progress(|progress| progress.answered = true);
        if sys::end_overdue() {
            lock(&self.missed).clear();
            super::hook::changed();
        }
    }

    /// There is no manager.
    fn no_manager(&self) {
        self.progress(|progress| progress.alone = true);
        self.no_session();
    }

    /// Nobody is to wait for an answer.
    pub(super) fn expect_nobody(&self) {
        self.progress(|progress| progress.answered = true);
    }

    /// Waits until it is known whether a session runs, at most for `timeout`. After
    /// that, records that a late session wants are counted as dropped.
    pub(super) fn await_answer(&self, timeout: Duration) {
        if self.wait(timeout, |progress| progress.answered) {
            return;
        }
        let current = lock(&self.current);
        let mut progress = lock(&self.progress);
        // The answer may have come this moment.
        if !std::mem::replace(&mut progress.answered, true) && current.is_none() {
            sys::begin_overdue();
            drop((current, progress));
            super::hook::changed();
        }
    }

    /// A trace point was passed while the manager's answer was overdue.
    pub(super) fn miss(&self, category: &'static str) {
        let mut missed = lock(&self.missed);
        match self.session() {
            // It has just begun.
            Some(session) if session.wants(category) => session.engine().count_dropped(1),
            Some(_) => {}
            None => *missed.entry(category).or_default() += 1,
        }
    }

    /// Has the session that was just published count what was missed before it.
    fn count_missed(&self) {
        let missed = std::mem::take(&mut *lock(&self.missed));
        let Some(session) = self.session().filter(|_| !missed.is_empty()) else { return };
        let wanted = missed.into_iter().filter(|(category, _)| session.wants(category));
        session.engine().count_dropped(wanted.map(|(_, count)| count).sum());
    }

    /// Has trace points record no more.
    fn withdraw(&self) {
        sys::GENERATION.store(0, std::sync::atomic::Ordering::Release);
        *lock(&self.current) = None;
        super::hook::changed();
        self.progress(|progress| progress.recording = false);
    }

    fn progress(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
        self.progressed.notify_all();
    }

    /// Waits until a session runs; false when none does in time.
    pub(super) fn wait_for_session(&self, timeout: Duration) -> bool {
        self.wait(timeout, |progress| progress.recording)
    }

    /// Asks for everything recorded so far to be saved, and waits for that; false
    /// when it takes longer.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let request = {
            let mut inbox = lock(&self.inbox);
            inbox.flushes += 1;
            inbox.flushes
        };
        self.wake();
        // Without a session there is nothing to save.
        self.wait(timeout, |progress| !progress.unsaved || progress.flushed >= request)
    }

    fn wait(&self, timeout: Duration, done: impl Fn(&Progress) -> bool) -> bool {
        let until = Instant::now() + timeout;
        let mut progress = lock(&self.progress);
        loop {
            if done(&progress) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.progressed.wait_timeout(progress, left);
            progress = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
