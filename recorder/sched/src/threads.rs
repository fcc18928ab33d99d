//! The caller stores the states of threads; the machine accesses them through this trait.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use fxt_reader::{Cpu, Nanos};

use crate::cpu_state::Edge;
use crate::periods::TimeInterval;
use crate::state::State;

/// The known facts about a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Start of its state; 0 before its first event.
    pub since: Nanos,
    /// How often states of the machine had become doubtful when this state began.
    pub(crate) epoch: u32,
    /// The CPU that it has, waits for, or had last.
    pub cpu: Cpu,
    pub state: State,
    /// How `since` is known.
    pub begin: Edge,
}

impl Thread {
    /// Records that a quota held the thread back for a part of its wait, and that it has waited for a CPU since. Returns its state before
    /// that part, and during it; `None` if it does not wait, or has not waited that long.
    pub fn held_back(&mut self, (from, until): TimeInterval) -> Option<[Thread; 2]> {
        let waited = *self;
        if !waited.state.is_waiting() || from < waited.since || until < from {
            return None;
        }
        let begin = if from > waited.since { Edge::Recorded } else { waited.begin };
        let held = Thread { since: from, begin, state: waited.state.held(), ..waited };
        let released = held.state.released();
        *self = Thread { since: until, begin: Edge::Recorded, state: released, ..held };
        Some([waited, held])
    }
}

/// All threads, each with the facts that the machine keeps about it.
///
/// A thread that no event has mentioned yet is `Thread::default()`. Ended threads may be dropped at any time.
pub trait Threads {
    /// The key by which a thread is found.
    type Key: Copy + PartialEq;

    /// The thread; it is created if it is new.
    fn thread(&mut self, key: Self::Key) -> &mut Thread;

    /// Whether the key belongs to a thread that has not been dropped. A CPU may still refer to a thread that no longer exists, whose slot
    /// may have been reused.
    #[inline]
    fn is_kept(&self, _: Self::Key) -> bool {
        true
    }
}

impl AsMut<Thread> for Thread {
    fn as_mut(&mut self) -> &mut Thread {
        self
    }
}

impl<K: Copy + Eq + Hash, V: Default + AsMut<Thread>, S: BuildHasher> Threads for HashMap<K, V, S> {
    type Key = K;

    fn thread(&mut self, key: K) -> &mut Thread {
        self.entry(key).or_default().as_mut()
    }
}

impl<K: Copy + Ord, V: Default + AsMut<Thread>> Threads for BTreeMap<K, V> {
    type Key = K;

    fn thread(&mut self, key: K) -> &mut Thread {
        self.entry(key).or_default().as_mut()
    }
}

/// Threads by a small number.
impl<V: Default + AsMut<Thread>> Threads for Vec<V> {
    type Key = usize;

    #[inline]
    fn thread(&mut self, key: usize) -> &mut Thread {
        if key >= self.len() {
            self.resize_with(key + 1, V::default);
        }
        self[key].as_mut()
    }
}
