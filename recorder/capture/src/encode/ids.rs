//! Translates the ids of a pid namespace: one thread has several ids.
//!
//! Tracepoints carry the ids of the initial pid namespace; perf's records of
//! forks, exits and names carry those of the namespace in which the recorder
//! runs. In the initial namespace these are the same. Elsewhere the pairs are
//! learned: each sample carries both ids of the thread that left it, and a
//! thread's fork is followed by its first wakeup, done by the same parent, which
//! carries the new thread's id in the initial namespace.

use rustc_hash::FxHashMap;

use crate::event::{Comm, LocalId};
use fxtrec_units::Tid;

/// Translates ids of the recorder's pid namespace to those of the initial one.
#[derive(Debug, Default)]
pub enum Ids {
    /// The recorder runs in the initial namespace.
    #[default]
    Initial,
    Inner(Box<Inner>),
}

/// Facts about another pid namespace.
#[derive(Debug, Default)]
pub struct Inner {
    tids: FxHashMap<LocalId, Tid>,
    locals: FxHashMap<Tid, LocalId>,
    /// Threads whose name is known before their tid.
    waiting: FxHashMap<LocalId, Comm>,
    /// By parent: the thread and process it forked last, until the new thread is first woken.
    forks: FxHashMap<LocalId, (LocalId, LocalId)>,
}

impl Ids {
    /// For a recorder in a pid namespace other than the initial one.
    pub fn inner() -> Ids {
        Ids::Inner(Box::default())
    }

    /// The id in the initial namespace, when it is known.
    pub fn tid(&self, local: LocalId) -> Option<Tid> {
        match self {
            Ids::Initial => Some(Tid(local.0)),
            Ids::Inner(inner) => inner.tids.get(&local).copied(),
        }
    }

    /// The id in the recorder's namespace; `None` if it is unknown or the thread is not in the namespace.
    pub fn local(&self, tid: Tid) -> Option<LocalId> {
        match self {
            Ids::Initial => Some(LocalId(tid.0)),
            Ids::Inner(inner) => inner.locals.get(&tid).copied(),
        }
    }

    /// Learns a pair of ids, and returns the name that was waiting for it.
    pub fn bind(&mut self, tid: Tid, local: LocalId) -> Option<Comm> {
        let Ids::Inner(inner) = self else { return None };
        inner.tids.insert(local, tid);
        inner.locals.insert(tid, local);
        inner.waiting.remove(&local)
    }

    /// Keeps the name of a thread whose tid is not known yet.
    pub fn wait_for(&mut self, local: LocalId, comm: Comm) {
        if let Ids::Inner(inner) = self {
            inner.waiting.insert(local, comm);
        }
    }

    /// The tid of a forked thread; `None` if only its first wakeup will reveal it.
    pub fn tid_of_fork(&mut self, child: LocalId, parent: LocalId, pid: LocalId) -> Option<Tid> {
        match self {
            Ids::Initial => Some(Tid(child.0)),
            Ids::Inner(inner) => {
                inner.forks.insert(parent, (child, pid));
                None
            }
        }
    }

    /// The thread and process that `parent` forked, whose tid is not known yet.
    pub fn fork_of(&mut self, parent: Tid) -> Option<(LocalId, LocalId)> {
        let Ids::Inner(inner) = self else { return None };
        let parent = inner.locals.get(&parent)?;
        inner.forks.remove(parent)
    }

    /// Forgets a thread that has ended.
    pub fn forget(&mut self, tid: Tid) {
        let Ids::Inner(inner) = self else { return };
        if let Some(local) = inner.locals.remove(&tid) {
            inner.forks.remove(&local);
            // The id may already belong to a new thread.
            if inner.tids.get(&local) == Some(&tid) {
                inner.tids.remove(&local);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_initial_namespace_ids_are_what_they_are() {
        let mut ids = Ids::Initial;
        assert_eq!(ids.tid(LocalId(7)), Some(Tid(7)));
        assert_eq!(ids.local(Tid(7)), Some(LocalId(7)));
        assert_eq!(ids.tid_of_fork(LocalId(8), LocalId(7), LocalId(8)), Some(Tid(8)));
        assert_eq!(ids.fork_of(Tid(7)), None);
    }

    #[test]
    fn elsewhere_a_pair_is_learned_from_a_sample() {
        let mut ids = Ids::inner();
        assert_eq!(ids.tid(LocalId(2)), None);
        ids.wait_for(LocalId(2), Comm::from_bytes(b"name"));
        assert_eq!(ids.bind(Tid(500), LocalId(2)), Some(Comm::from_bytes(b"name")));
        assert_eq!((ids.tid(LocalId(2)), ids.local(Tid(500))), (Some(Tid(500)), Some(LocalId(2))));
        ids.forget(Tid(500));
        assert_eq!((ids.tid(LocalId(2)), ids.local(Tid(500))), (None, None));
    }

    #[test]
    fn elsewhere_a_fork_meets_its_tid_at_the_first_wake_up_by_the_parent() {
        let mut ids = Ids::inner();
        ids.bind(Tid(500), LocalId(2));
        assert_eq!(ids.tid_of_fork(LocalId(3), LocalId(2), LocalId(3)), None);
        assert_eq!(ids.fork_of(Tid(501)), None);
        assert_eq!(ids.fork_of(Tid(500)), Some((LocalId(3), LocalId(3))));
        assert_eq!(ids.fork_of(Tid(500)), None);
    }

    #[test]
    fn forgetting_an_old_thread_spares_the_new_owner_of_its_id() {
        let mut ids = Ids::inner();
        ids.bind(Tid(500), LocalId(2));
        ids.bind(Tid(600), LocalId(2));
        ids.forget(Tid(500));
        assert_eq!(ids.tid(LocalId(2)), Some(Tid(600)));
    }

    #[test]
    fn a_thread_that_was_born_named_and_forgotten_leaves_nothing_behind() {
        let mut ids = Ids::inner();
        ids.bind(Tid(500), LocalId(2));
        ids.tid_of_fork(LocalId(3), LocalId(2), LocalId(3));
        ids.wait_for(LocalId(3), Comm::from_bytes(b"name"));
        ids.fork_of(Tid(500));
        ids.bind(Tid(600), LocalId(3));
        ids.tid_of_fork(LocalId(4), LocalId(3), LocalId(4));
        ids.forget(Tid(600));
        ids.forget(Tid(500));
        let Ids::Inner(inner) = ids else { panic!("still inner") };
        let left = [inner.tids.len(), inner.locals.len(), inner.waiting.len(), inner.forks.len()];
        assert_eq!(left, [0; 4]);
    }
}
