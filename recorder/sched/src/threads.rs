//! Where the states of threads are kept: with the caller.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use fxt_reader::{Cpu, Nanos};

use crate::cpu_state::Edge;
use crate::periods::Stretch;
use crate::state::State;

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Since when it is in its state; 0 before it was seen.
    pub since: Nanos,
    /// How many doubts there had been by then.
    pub(crate) epoch: u32,
    /// The CPU that it has, waits for, or had last.
    pub cpu: Cpu,
    pub state: State,
    /// How `since` is known.
    pub begin: Edge,
}

impl Thread {
    /// It turns out that a quota held it back for some stretch of its wait, and that it waits for a CPU since. What it was
    /// before, and during the stretch; `None` if it does not wait, or not so long.
    pub fn held_back(&mut self, (from, until): Stretch) -> Option<[Thread; 2]> {
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

/// The threads, each with what the machine knows of it.
///
/// Threads that nobody has mentioned yet are `Thread::default()`. What has ended may be dropped at any time.
pub trait Threads {
    /// What a thread is found by.
    type Key: Copy + PartialEq;

    /// The thread, which is known from now on.
    fn thread(&mut self, key: Self::Key) -> &mut Thread;

    /// Whether the key is that of a thread which has not been dropped. A CPU may outlive the thread that it was thought to
    /// run, and the place of that thread may be another's.
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
