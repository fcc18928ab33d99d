//! The client side of the protocol between this process and the manager.
//!
//! A separate thread, `fxt-provider`, does all communication, so that the manager
//! cannot delay the application. Threads that record put messages for it into an
//! inbox and wake it.
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

/// The maximum number of alerts that wait to be sent; further ones are dropped.
const MAX_ALERTS: usize = 256;

/// The state that the threads of this process and the client's thread share.
/// There is one per process; it is never freed.
pub(super) struct Client {
    name: String,
    address: Option<String>,
    wake: EventFd,
    inbox: Mutex<Inbox>,
    current: Mutex<Option<Arc<Session>>>,
    /// The connection, once it is registered and nothing waits to be sent.
    direct: Mutex<Option<Arc<OwnSocket>>>,
    /// Records that trace points missed while the manager's answer was overdue, by category.
    missed: Mutex<HashMap<&'static str, u64>>,
    progress: Mutex<Progress>,
    progressed: Condvar,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the client's thread must send to the manager.
#[derive(Debug, Default)]
struct Inbox {
    /// All categories known so far, in the order in which they became known.
    categories: Vec<String>,
    alerts: VecDeque<String>,
    /// The number of alerts put here so far.
    raised: u64,
    /// Requests of engines to save a buffer, by their buffer's number.
    packets: VecDeque<(BufferNumber, Packet)>,
    /// The number of flushes requested so far.
    flushes: u64,
}

/// The state that other threads wait for.
#[derive(Debug, Default)]
struct Progress {
    /// Whether a session runs.
    recording: bool,
    /// Whether there may be something to save.
    unsaved: bool,
    /// The number of flushes completed so far.
    flushed: u64,
    /// The number of alerts from the inbox that were sent so far.
    announced: u64,
    /// Whether the last attempt to reach a manager failed.
    alone: bool,
    /// Whether it is known if a session runs: the manager has answered, there is no manager, or the
    /// wait timed out.
    answered: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Code that holds these locks never panics in the middle of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// A client that will register under `name` with the manager at `address`, or
    /// at the default address.
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

    /// Sends an alert to the manager: directly if possible, since it may be the
    /// last thing that the process does, otherwise by the client's thread.
    pub(super) fn alert(&self, name: &str) {
        let mut inbox = lock(&self.inbox);
        // Not before waiting alerts are sent.
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

    /// Waits until all alerts so far were sent, at most for `timeout`, and not at
    /// all without a manager.
    pub(super) fn flush_alerts(&self, timeout: Duration) {
        let inbox = lock(&self.inbox);
        let raised = inbox.raised;
        drop(inbox);
        self.wait(timeout, |progress| progress.alone || progress.announced >= raised);
    }

    /// Requests that a buffer is saved.
    fn request(&self, buffer: BufferNumber, packet: Packet) {
        lock(&self.inbox).packets.push_back((buffer, packet));
        self.wake();
    }

    fn wake(&self) {
        // Fails only if the counter is full, in which case the thread wakes anyway.
        let _ = self.wake.write(1);
    }

    /// Takes the wakeups so far.
    fn woken(&self) {
        // An empty FIFO is not an error here.
        let _ = self.wake.read();
    }

    fn waker(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Makes `session` the one that trace points record into.
    fn publish(&self, session: Arc<Session>) {
        let generation = session.generation().get();
        *lock(&self.current) = Some(session);
        // Release: a thread that sees the generation finds the session under the lock.
        sys::GENERATION.store(generation, std::sync::atomic::Ordering::Release);
        self.count_missed();
        // This precedes the moment when waiting threads continue.
        super::hook::changed();
        self.progress(|progress| {
            (progress.recording, progress.unsaved, progress.answered) = (true, true, true);
        });
    }

    /// There is no running session to which new records could belong.
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

    /// Ends all waits for an answer: no manager is expected.
    pub(super) fn expect_no_manager(&self) {
        self.progress(|progress| progress.answered = true);
    }

    /// Waits until it is known whether a session runs, at most for `timeout`. After
    /// that, records for a session that starts late are counted as dropped.
    pub(super) fn await_answer(&self, timeout: Duration) {
        if self.wait(timeout, |progress| progress.answered) {
            return;
        }
        let current = lock(&self.current);
        let mut progress = lock(&self.progress);
        // The answer may have just arrived.
        if !std::mem::replace(&mut progress.answered, true) && current.is_none() {
            sys::begin_overdue();
            drop((current, progress));
            super::hook::changed();
        }
    }

    /// Counts a trace point that was passed while the manager's answer was overdue.
    pub(super) fn miss(&self, category: &'static str) {
        let mut missed = lock(&self.missed);
        match self.session() {
            // The session has just begun.
            Some(session) if session.wants(category) => session.engine().count_dropped(1),
            Some(_) => {}
            None => *missed.entry(category).or_default() += 1,
        }
    }

    /// Adds the records missed before to the session that was just published.
    fn count_missed(&self) {
        let missed = std::mem::take(&mut *lock(&self.missed));
        let Some(session) = self.session().filter(|_| !missed.is_empty()) else { return };
        let wanted = missed.into_iter().filter(|(category, _)| session.wants(category));
        session.engine().count_dropped(wanted.map(|(_, count)| count).sum());
    }

    /// Makes trace points stop recording.
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

    /// Waits until a session runs; false on timeout.
    pub(super) fn wait_for_session(&self, timeout: Duration) -> bool {
        self.wait(timeout, |progress| progress.recording)
    }

    /// Requests that everything recorded so far be saved, and waits for that;
    /// false on timeout.
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
