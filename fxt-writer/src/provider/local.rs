//! Thread-local state, so that recording takes no lock: the running session, the
//! thread's name in it, and duration ends that found no room.
//!
//! If an end were lost, the ends after it would close the wrong spans. So an end is not dropped: the thread keeps it, with its time, and
//! writes it before the next record. Until there is room for it, the thread's other records are dropped and counted. Ends that are still
//! pending when the session ends count as dropped.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::plain::Plain;
use super::session::Session;
use super::site::{Armed, Name};
use super::sys::{self, Generation};
use crate::engine::{Full, Lease};
use crate::error::WriteError;
use crate::record::{Event, EventKind, Record};
use crate::{ThreadName, Ticks, Value};

/// One thread's state in one session.
struct Local {
    session: Arc<Session>,
    thread: ThreadName,
    /// The thread's index, or 0.
    index: u64,
    /// Where its records go.
    lease: Lease,
    /// Whether `owed` is not empty; checked on every record.
    owes: Cell<bool>,
    /// Ends to be written before anything else.
    owed: RefCell<Vec<(Armed, Ticks)>>,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

/// Where a thread's records go.
pub(super) struct Recorder<'a> {
    local: &'a Local,
}

impl Recorder<'_> {
    /// The event in plain form, if it has one.
    #[inline(always)]
    pub(super) fn plain<const N: usize>(
        &self,
        armed: &Armed,
        (kind, time): (EventKind, Ticks),
        names: &'static [Name; N],
        values: &[Value<'_>; N],
    ) -> Option<Plain<N>> {
        let [category, name] = armed.indices();
        let generation = armed.generation();
        let names = std::array::from_fn(|at| names[at].index(generation));
        Plain::new(kind, time, [self.local.index, category, name], names, values)
    }

    #[inline]
    pub(super) fn session(&self) -> &Session {
        &self.local.session
    }

    #[inline]
    pub(super) fn thread(&self) -> ThreadName {
        self.local.thread
    }

    /// Writes a record, unless the thread has pending ends that must precede it and find
    /// no room; returns whether it is in the buffer. A dropped record is counted.
    #[inline]
    pub(super) fn write(&self, record: &impl Record) -> Result<(), WriteError<Full>> {
        if self.local.owes.get() && !self.pay() {
            self.session().engine().count_dropped(1);
            return Err(WriteError::Full(Full::Dropped));
        }
        self.local.lease.write(record)
    }

    /// Writes the end of a duration that began at `armed`, now or later.
    #[inline]
    pub(super) fn end(&self, armed: Armed, time: Ticks) {
        let paid = !self.local.owes.get() || self.pay();
        if !paid || !self.write_end(armed, time) {
            self.owe(armed, time);
        }
    }

    #[inline(always)]
    fn write_end(&self, armed: Armed, time: Ticks) -> bool {
        let written = match self.plain(&armed, (EventKind::DurationEnd, time), &[], &[]) {
            Some(plain) => self.local.lease.write_uncounted(&plain),
            None => self.write_long_end(armed, time),
        };
        // A stopped engine will not accept the end later either, and no longer counts drops.
        matches!(written, Ok(()) | Err(WriteError::Full(Full::Stopped)))
    }

    /// Writes the end of a duration with an unregistered string or thread.
    #[cold]
    #[inline(never)]
    fn write_long_end(&self, armed: Armed, time: Ticks) -> Result<(), WriteError<Full>> {
        let event = Event {
            kind: EventKind::DurationEnd,
            time,
            thread: self.thread(),
            category: armed.category(),
            name: armed.name(),
            args: &[],
        };
        self.local.lease.write_uncounted(&event)
    }

    #[cold]
    fn owe(&self, armed: Armed, time: Ticks) {
        self.local.owed.borrow_mut().push((armed, time));
        self.local.owes.set(true);
        self.session().owe_end();
    }

    /// Writes the pending ends; true when none is left.
    #[cold]
    fn pay(&self) -> bool {
        let mut owed = self.local.owed.borrow_mut();
        if sys::generation() != self.session().generation().get() {
            // They were counted when their session ended.
            owed.clear();
        }
        let paid = owed.iter().take_while(|(armed, time)| self.write_end(*armed, *time)).count();
        owed.drain(..paid);
        self.session().pay_ends(paid);
        self.local.owes.set(!owed.is_empty());
        owed.is_empty()
    }
}

/// The thread's last opportunity to write its pending ends and to release space.
impl Drop for Local {
    fn drop(&mut self) {
        if self.owes.get() {
            Recorder { local: self }.pay();
        }
        // Otherwise the session is over, or this is a child of fork, in which the
        // buffer is not mapped.
        if sys::generation() == self.session.generation().get() {
            self.lease.give_back();
        }
    }
}

/// Passes a recorder for the session with that generation to `record`; `None` if the session is over.
#[inline]
pub(super) fn with_recorder<R>(
    generation: Generation,
    record: impl FnOnce(&Recorder<'_>) -> R,
) -> Option<R> {
    let mut record = Some(record);
    // A shared borrow, so that a record within a record can borrow, too. This crate does not do this, but formatting in a layer may.
    let done = LOCAL.try_with(|cell| {
        let local = cell.try_borrow().ok()?;
        let local = local.as_ref().filter(|local| local.session.generation() == generation)?;
        record.take().map(|record| record(&Recorder { local }))
    });
    match done {
        Ok(Some(result)) => Some(result),
        _ => with_new_recorder(generation, record?),
    }
}

/// Records the thread's first record in this session, or one after its
/// thread-local memory has been freed.
#[cold]
#[inline(never)]
fn with_new_recorder<R>(
    generation: Generation,
    record: impl FnOnce(&Recorder<'_>) -> R,
) -> Option<R> {
    let session = sys::client()?.session()?;
    if session.generation() != generation {
        return None;
    }
    let thread = session.thread();
    let lease = session.lease();
    let (index, owed) = (thread.encoded(), RefCell::default());
    let local = Local { session, thread, index, lease, owes: Cell::new(false), owed };
    let result = record(&Recorder { local: &local });
    let kept = LOCAL.try_with(|cell| {
        // It is already borrowed only in the middle of a record; the next record tries again.
        cell.try_borrow_mut().ok().map(|mut kept| kept.replace(local))
    });
    drop(kept);
    Some(result)
}
