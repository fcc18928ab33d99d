//! Gives threads and processes the dense numbers that tables use.

use std::collections::VecDeque;

use fxt_reader::record::KernelObject;
use fxt_reader::{Koid, ObjectType};
use rustc_hash::FxHashMap;

/// In fxtrec's traces, the low bits of a koid are the thread id.
const ID_BITS: u32 = 22;

/// Ended threads that are remembered: others may have waited for them, or may be woken by them.
const EXITED_RETENTION: usize = 4096;

/// The number of the idle tasks of all CPUs.
pub(crate) const IDLE: u32 = 0;

/// The data of a thread, to be written as a row.
#[derive(Debug, Default)]
pub(crate) struct Person {
    pub(crate) utid: u32,
    pub(crate) name: Option<Box<str>>,
    pub(crate) process: Option<u64>,
    pub(crate) end: Option<u64>,
    /// The thread that woke it last, for the wait that follows.
    pub(crate) waker: Option<u32>,
    pub(crate) by_interrupt: bool,
    /// The system call that it is blocked in.
    pub(crate) syscall: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) upid: u32,
    pub(crate) name: Option<Box<str>>,
    /// The path of the cgroup that it was in last, if known.
    pub(crate) cgroup: Option<Box<str>>,
}

/// A thread without any further events.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) koid: u64,
    pub(crate) person: Person,
}

#[derive(Debug, Default)]
pub(crate) struct ThreadTable {
    /// Whether koids are fxtrec's: thread ids with a generation.
    pub(crate) by_fxtrec: bool,
    threads: FxHashMap<u64, Person>,
    processes: FxHashMap<u64, Process>,
    ended: VecDeque<u64>,
    made: u32,
}

impl ThreadTable {
    /// The thread; it gets a number if it is new.
    #[inline]
    pub(crate) fn thread(&mut self, koid: u64) -> &mut Person {
        let made = &mut self.made;
        self.threads.entry(koid).or_insert_with(|| {
            // There are fewer threads than bytes of trace; 0 is the idle tasks.
            *made = made.saturating_add(1);
            Person { utid: *made, ..Person::default() }
        })
    }

    #[inline]
    pub(crate) fn utid(&mut self, koid: Koid) -> u32 {
        self.thread(koid.0).utid
    }

    pub(crate) fn upid(&mut self, koid: u64) -> u32 {
        self.process(koid).upid
    }

    fn process(&mut self, koid: u64) -> &mut Process {
        let made = self.processes.len() as u32;
        self.processes.entry(koid).or_insert(Process { upid: made + 1, name: None, cgroup: None })
    }

    /// The id that the kernel gave it.
    pub(crate) fn number(&self, koid: u64) -> u64 {
        if self.by_fxtrec { koid & ((1 << ID_BITS) - 1) } else { koid }
    }

    pub(crate) fn name(&mut self, object: &KernelObject<'_>) {
        match object.object_type {
            ObjectType::Process => {
                let process = self.process(object.koid.0);
                process.name = Some(object.name.into());
                // Programs that name themselves do not know their cgroup.
                if let Some(cgroup) = object.args.str("cgroup") {
                    process.cgroup = Some(cgroup.into());
                }
            }
            ObjectType::Thread => {
                let process = object.process().map(|process| process.0);
                // All idle tasks of fxtrec share one row, which already has its name.
                if self.by_fxtrec && object.koid.0 == 0 {
                    return;
                }
                let person = self.thread(object.koid.0);
                person.name = Some(object.name.into());
                person.process = process.or(person.process);
            }
            _ => {}
        }
    }

    /// A thread has ended. Returns a thread that ended long ago, which is then forgotten.
    pub(crate) fn end(&mut self, koid: u64, time: u64) -> Option<Gone> {
        let person = self.thread(koid);
        if person.end.is_none() {
            self.ended.push_back(koid);
        }
        self.thread(koid).end = Some(time);
        let koid = (self.ended.len() > EXITED_RETENTION).then(|| self.ended.pop_front())??;
        self.threads.remove(&koid).map(|person| Gone { koid, person })
    }

    /// All remaining threads, in the order of their numbers.
    pub(crate) fn finish_threads(&mut self) -> Vec<Gone> {
        let threads = std::mem::take(&mut self.threads).into_iter();
        let mut threads: Vec<Gone> = threads.map(|(koid, person)| Gone { koid, person }).collect();
        threads.sort_by_key(|gone| gone.person.utid);
        threads
    }

    /// All processes, in the order of their numbers.
    pub(crate) fn finish_processes(&mut self) -> Vec<(u64, Process)> {
        let processes = std::mem::take(&mut self.processes).into_iter();
        let mut processes: Vec<(u64, Process)> = processes.collect();
        processes.sort_by_key(|(_, process)| process.upid);
        processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_forgotten_long_after_its_end_and_its_id_may_be_anothers() {
        let mut people = ThreadTable::default();
        let first = people.utid(Koid(7));
        assert_ne!(first, IDLE);
        assert!(people.end(7, 100).is_none());
        assert_eq!(people.utid(Koid(7)), first, "it may still be named");
        let mut gone = Vec::new();
        for koid in 1000..1000 + EXITED_RETENTION as u64 {
            gone.extend(people.end(koid, 200));
        }
        assert_eq!(gone.len(), 1);
        assert_eq!((gone[0].koid, gone[0].person.end), (7, Some(100)));
        assert_ne!(people.utid(Koid(7)), first);
        assert_eq!(people.finish_threads().len(), EXITED_RETENTION + 1);
    }
}
