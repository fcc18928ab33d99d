//! The threads of a trace: their indexes and names.

use std::fmt;

use fxt_reader::Koid;
use rustc_hash::FxHashMap;

/// The number of a thread in the page's blocks; 0 is the idle task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadIndex(pub(super) u32);

impl ThreadIndex {
    /// The idle task of every CPU.
    pub(super) const IDLE: Self = Self(0);

    /// Whether it is the idle task.
    pub(super) const fn is_idle(self) -> bool {
        self.0 == Self::IDLE.0
    }

    /// The thread at this index in a list of all threads.
    pub(super) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Its index in a list of all threads.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ThreadIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The known facts about a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) koid: u64,
    /// Its process's koid, if the trace has it.
    pub(super) process: Option<u64>,
    /// Its last name, if it had one.
    pub(super) name: Option<String>,
}

/// All threads, in the order in which they were first used.
#[derive(Debug)]
pub(super) struct Threads {
    list: Vec<Thread>,
    by_koid: FxHashMap<Koid, ThreadIndex>,
    processes: FxHashMap<Koid, String>,
    /// Names of threads that are not in the list yet.
    names: FxHashMap<Koid, (String, Option<u64>)>,
}

impl Default for Threads {
    fn default() -> Self {
        let idle = Thread { koid: 0, process: None, name: Some("idle".to_owned()) };
        Self {
            list: vec![idle],
            by_koid: FxHashMap::from_iter([(Koid(0), ThreadIndex::IDLE)]),
            processes: FxHashMap::default(),
            names: FxHashMap::default(),
        }
    }
}

impl Threads {
    /// The index of a thread, which is assigned if the thread is new.
    pub(super) fn index(&mut self, koid: Koid) -> ThreadIndex {
        if let Some(&index) = self.by_koid.get(&koid) {
            return index;
        }
        let index = ThreadIndex::at(self.list.len());
        let (name, process) =
            self.names.remove(&koid).map_or((None, None), |(name, process)| (Some(name), process));
        self.list.push(Thread { koid: koid.0, process, name });
        self.by_koid.insert(koid, index);
        index
    }

    /// The index of a thread, if it has one.
    pub(super) fn known(&self, koid: Koid) -> Option<ThreadIndex> {
        self.by_koid.get(&koid).copied()
    }

    /// The index of a thread whose process this record names too.
    pub(super) fn index_in(&mut self, thread: fxt_reader::Thread) -> ThreadIndex {
        let index = self.index(thread.thread);
        let known = &mut self.list[index.index()];
        if known.process.is_none() && !index.is_idle() {
            known.process = Some(thread.process.0);
        }
        index
    }

    /// Sets a thread's name.
    pub(super) fn name(&mut self, koid: Koid, name: &str, process: Option<Koid>) {
        let process = process.map(|process| process.0);
        match self.by_koid.get(&koid) {
            Some(&ThreadIndex::IDLE) => {}
            Some(index) => {
                let thread = &mut self.list[index.index()];
                thread.name = Some(name.to_owned());
                thread.process = process.or(thread.process);
            }
            None => {
                self.names.insert(koid, (name.to_owned(), process));
            }
        }
    }

    /// Sets a process's name.
    pub(super) fn name_process(&mut self, koid: Koid, name: &str) {
        self.processes.insert(koid, name.to_owned());
    }

    /// All threads in the list, by index.
    pub(super) fn list(&self) -> &[Thread] {
        &self.list
    }

    /// The last name of a process.
    pub(super) fn process_name(&self, koid: u64) -> Option<&str> {
        self.processes.get(&Koid(koid)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_were_used_are_listed_under_their_last_name() {
        let mut threads = Threads::default();
        threads.name(Koid(7), "before", Some(Koid(5)));
        threads.name(Koid(8), "unused", None);
        let index = threads.index(Koid(7));
        threads.name(Koid(7), "after", None);
        threads.name(Koid(0), "swapper", None);
        assert_eq!(index, ThreadIndex(1));
        assert_eq!(threads.index(Koid(0)), ThreadIndex::IDLE);
        let names: Vec<_> = threads.list().iter().map(|thread| thread.name.as_deref()).collect();
        assert_eq!(names, [Some("idle"), Some("after")]);
        assert_eq!(threads.list()[1].process, Some(5));
    }
}
