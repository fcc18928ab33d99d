//! Names that are kept separately from the events, for a trace that keeps only its last part.
//!
//! Such a trace may still show threads that have ended. Their names are kept here until the trace contains no more of their events.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use fxt_writer::Koid;
use fxt_writer::lanes::Lanes;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Encoder;
use super::names::{process_object, thread_object};
use super::owner::Owner;
use crate::encode::threads::{IDLE, Naming, Slot};
use crate::encode::unrecorded;
use crate::event::Comm;
use fxtrec_units::{Nanos, Tid};

/// A thread that has ended, and its process.
#[derive(Clone, Debug)]
struct ExitedThread {
    ended: Nanos,
    koid: Koid,
    tid: Tid,
    comm: Comm,
    process: Koid,
    process_name: Vec<u8>,
    cgroup: Option<Arc<str>>,
    in_scope: bool,
}

fn thread_is_wanted(narrow: bool, in_scope: bool) -> bool {
    !narrow || in_scope
}

/// Threads that have ended, in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub(super) struct ExitedThreads {
    kept: bool,
    threads: VecDeque<ExitedThread>,
    /// How many were forgotten.
    forgotten: u64,
    /// For each id, the threads that had it: their numbers in `threads`, including those that were forgotten.
    of: FxHashMap<Tid, VecDeque<u64>>,
}

impl ExitedThreads {
    fn add(&mut self, thread: ExitedThread) {
        let number = self.forgotten + self.threads.len() as u64;
        self.of.entry(thread.tid).or_default().push_back(number);
        self.threads.push_back(thread);
    }

    fn forget_before(&mut self, time: Nanos) {
        while let Some(thread) = self.threads.front().filter(|thread| thread.ended < time) {
            let tid = thread.tid;
            self.threads.pop_front();
            self.forgotten += 1;
            if let Entry::Occupied(mut of) = self.of.entry(tid) {
                of.get_mut().pop_front();
                if of.get().is_empty() {
                    of.remove();
                }
            }
        }
    }

    /// Threads that had this id, in the order in which they ended.
    fn with(&self, tid: Tid) -> impl Iterator<Item = &ExitedThread> {
        let numbers = self.of.get(&tid).into_iter().flatten();
        numbers.filter_map(|number| {
            let at = usize::try_from(number.checked_sub(self.forgotten)?).ok()?;
            self.threads.get(at)
        })
    }
}

impl<L: Lanes> Encoder<L> {
    /// From now on, keeps the names of threads that end, until [`Encoder::forget_departed`].
    pub fn keep_departed(&mut self) {
        self.departed.kept = true;
    }

    /// Forgets the names of threads that ended before `time`.
    pub fn forget_departed(&mut self, time: Nanos) {
        self.departed.forget_before(time);
    }

    /// Remembers that a thread is switched out for the last time.
    pub(super) fn depart(&mut self, time: Nanos, slot: Slot) {
        if !self.departed.kept || slot == IDLE {
            return;
        }
        let thread = self.threads.thread(slot);
        let (koid, tid, comm, home) = (thread.koid, thread.tid, thread.comm, thread.process);
        let process = self.threads.process_koid(home);
        let home = self.threads.process(home);
        let (process_name, cgroup) = (home.name.clone(), home.cgroup.clone());
        let in_scope = thread_is_wanted(self.narrow, self.threads.thread(slot).in_scope);
        let ended = time;
        let obituary =
            ExitedThread { ended, koid, tid, comm, process, process_name, cgroup, in_scope };
        self.departed.add(obituary);
    }

    /// The thread that had the id at `time`, if it has ended since and is not forgotten.
    pub(super) fn departed_owner(&self, tid: Tid, time: Nanos) -> Option<Owner> {
        let ExitedThread { process, koid: thread, in_scope, .. } =
            *self.departed.with(tid).find(|thread| thread.ended >= time)?;
        Some(if in_scope { Owner::Recorded { process, thread } } else { Owner::Unwanted })
    }

    /// The records that name every thread in the trace: living ones, and ended ones that are not forgotten.
    pub fn names(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut named = FxHashSet::default();
        // Living threads first: their process may have had another name when one of its threads ended.
        for slot in self.threads.slots() {
            let thread = self.threads.thread(slot);
            // The idle task is always named, since a trace may begin with a switch from it.
            if thread.naming == Naming::Never && slot != IDLE {
                continue;
            }
            let (koid, tid, comm, home) = (thread.koid, thread.tid, thread.comm, thread.process);
            let process_koid = self.threads.process_koid(home);
            let home = self.threads.process(home);
            let process = (process_koid, home.name.as_slice(), home.cgroup.as_deref());
            put(&mut out, &mut named, (koid, tid, &comm), process);
        }
        for thread in &self.departed.threads {
            let process =
                (thread.process, thread.process_name.as_slice(), thread.cgroup.as_deref());
            put(&mut out, &mut named, (thread.koid, thread.tid, &thread.comm), process);
        }
        for (cpu, _) in self.chains.all().filter(|(_, chain)| chain.unrecorded) {
            let written = unrecorded::objects(&mut out, cpu);
            debug_assert!(written.is_ok(), "memory has room");
        }
        self.interrupt_names(&mut out);
        out
    }
}

fn put(
    out: &mut Vec<u8>,
    named: &mut FxHashSet<Koid>,
    (koid, tid, comm): (Koid, Tid, &Comm),
    (process, process_name, cgroup): (Koid, &[u8], Option<&str>),
) {
    // A main thread has the koid of its process, so the sets contain processes only.
    let name = if process_name.is_empty() { comm.as_bytes() } else { process_name };
    let written = match named.insert(process) {
        true => process_object(out, process, name, tid, cgroup),
        false => Ok(()),
    };
    // Cleaned names fit into a record, and memory always has room for it.
    let written = written.and_then(|()| thread_object(out, koid, comm, tid, process));
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, ended: u64) -> ExitedThread {
        let koid = Koid(ended << 32 | u64::from(tid));
        ExitedThread {
            ended: Nanos(ended),
            koid,
            tid: Tid(tid),
            comm: Comm::default(),
            process: koid,
            process_name: Vec::new(),
            cgroup: None,
            in_scope: true,
        }
    }

    #[test]
    fn who_had_an_id_is_found_among_those_that_are_not_forgotten() {
        let mut departed = ExitedThreads::default();
        // Three ids are reused repeatedly.
        for ended in 0..100 {
            departed.add(thread(ended as u32 % 3, ended));
            departed.forget_before(Nanos(ended.saturating_sub(9)));
            let ends: Vec<u64> =
                departed.with(Tid(ended as u32 % 3)).map(|thread| thread.ended.0).collect();
            let expected = (0..=ended).rev().step_by(3).take_while(|it| it + 9 >= ended);
            let mut expected: Vec<u64> = expected.collect();
            expected.reverse();
            assert_eq!(ends, expected);
        }
        departed.forget_before(Nanos(100));
        assert!(departed.threads.is_empty() && departed.of.is_empty());
    }
}
