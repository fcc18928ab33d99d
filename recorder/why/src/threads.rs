//! The threads of a trace: a number for each, and what it is called.

use fxt_reader::Koid;
use fxt_reader::record::KernelObject;
use rustc_hash::{FxHashMap, FxHashSet};

/// In fxtrec's traces the bits of a koid below this are the thread id.
const ID_BITS: u32 = 22;

/// Threads of a trace by number, in the order in which something first happened to them.
pub(crate) type Index = u32;

#[derive(Debug, Default)]
struct Named {
    comm: Box<str>,
    process: Option<u64>,
}

/// All threads of a trace.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// Whether koids are fxtrec's: thread ids with a generation, and 0 alone is idle.
    pub(crate) by_fxtrec: bool,
    indices: FxHashMap<u64, Index>,
    koids: Vec<u64>,
    named: FxHashMap<u64, Named>,
    processes: FxHashMap<u64, Box<str>>,
}

impl Roster {
    /// The number of a thread, which has one from now on.
    #[inline]
    pub(crate) fn index(&mut self, koid: u64) -> Index {
        match self.indices.get(&koid) {
            Some(&index) => index,
            None => self.add(koid),
        }
    }

    #[cold]
    fn add(&mut self, koid: u64) -> Index {
        // There are fewer threads than bytes of trace.
        let index = Index::try_from(self.koids.len()).unwrap_or(Index::MAX);
        self.koids.push(koid);
        self.indices.insert(koid, index);
        index
    }

    /// The number of a thread, if anything happened to it.
    pub(crate) fn find(&self, koid: u64) -> Option<Index> {
        self.indices.get(&koid).copied()
    }

    pub(crate) fn koid(&self, index: Index) -> u64 {
        self.koids.get(index as usize).copied().unwrap_or(0)
    }

    /// The koids of all threads that something happened to.
    pub(crate) fn koids(&self) -> impl Iterator<Item = u64> + '_ {
        self.koids.iter().copied()
    }

    pub(crate) fn name_process(&mut self, object: &KernelObject<'_>) {
        self.processes.insert(object.koid.0, object.name.into());
    }

    pub(crate) fn name_thread(&mut self, object: &KernelObject<'_>) {
        let process = object.process().map(|Koid(process)| process);
        let named = self.named.entry(object.koid.0).or_default();
        if *named.comm != *object.name {
            named.comm = object.name.into();
        }
        named.process = process.or(named.process);
    }

    /// The thread's name, as it was last called.
    pub(crate) fn comm(&self, koid: u64) -> Option<&str> {
        self.named.get(&koid).map(|named| &*named.comm)
    }

    /// The koid of the thread's process.
    pub(crate) fn process(&self, koid: u64) -> Option<u64> {
        self.named.get(&koid)?.process
    }

    /// The thread id.
    pub(crate) fn tid(&self, koid: u64) -> u64 {
        if self.by_fxtrec { koid & ((1 << ID_BITS) - 1) } else { koid }
    }

    /// Takes over the names, for another pass over the same trace.
    pub(crate) fn with_names_of(&mut self, other: Roster) {
        self.named = other.named;
        self.processes = other.processes;
    }
}

/// The threads of COMMAND and of what it started.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// COMMAND's process.
    pub(crate) process: Option<u64>,
    /// Threads that one of them woke for the first time, and which no earlier record has.
    born: FxHashSet<u64>,
}

impl Family {
    /// Whether the thread is one of them.
    pub(crate) fn has(&self, roster: &Roster, koid: u64) -> bool {
        let Some(command) = self.process else { return false };
        koid == command || roster.process(koid) == Some(command) || self.born.contains(&koid)
    }

    /// A thread is woken of which there was no record so far. A new one still has the name of the thread that made it, which
    /// wakes it; kernel threads have names of their own. Ids are given in turn, so that one which was there before COMMAND has a
    /// smaller one, unless they began anew in between.
    pub(crate) fn first_woken(&mut self, roster: &Roster, koid: u64, waker: Option<Koid>) {
        let Some(command) = self.process else { return };
        let Some(Koid(waker)) = waker.filter(|waker| self.has(roster, waker.0)) else { return };
        let inherits = roster.comm(koid).is_some_and(|comm| roster.comm(waker) == Some(comm));
        if inherits && roster.tid(koid) > roster.tid(command) {
            self.born.insert(koid);
        }
    }
}
