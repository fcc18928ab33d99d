//! Names apart from the events, for a trace of which only the last part is kept.
//!
//! Such a trace may still show threads that have ended, so their names outlive
//! them here: until the trace has forgotten their last event.

use std::collections::VecDeque;
use std::sync::Arc;

use fxt_writer::Koid;
use fxt_writer::lanes::Lanes;
use rustc_hash::FxHashSet;

use super::Encoder;
use super::names::{process_object, thread_object};
use super::owner::Owner;
use crate::encode::threads::{IDLE, Naming, Slot};
use crate::encode::unrecorded;
use crate::event::Comm;
use fxtrec_units::{Nanos, Tid};

/// A thread that has ended, and the process it was of.
#[derive(Clone, Debug)]
struct Obituary {
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

/// Threads that have ended, the longest dead first.
#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    kept: bool,
    threads: VecDeque<Obituary>,
}

impl<L: Lanes> Encoder<L> {
    /// From now on, keeps the names of threads that end, until [`Encoder::forget_departed`].
    pub fn keep_departed(&mut self) {
        self.departed.kept = true;
    }

    /// Forgets the names of threads that ended before `time`.
    pub fn forget_departed(&mut self, time: Nanos) {
        while self.departed.threads.front().is_some_and(|thread| thread.ended < time) {
            self.departed.threads.pop_front();
        }
    }

    /// Notes that a thread goes out for the last time.
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
        let obituary = Obituary { ended, koid, tid, comm, process, process_name, cgroup, in_scope };
        self.departed.threads.push_back(obituary);
    }

    /// Who had the id at `time`, if it has ended since and is not forgotten.
    pub(super) fn departed_owner(&self, tid: Tid, time: Nanos) -> Option<Owner> {
        let mut owners = self.departed.threads.iter().filter(|thread| thread.tid == tid);
        let Obituary { process, koid: thread, in_scope, .. } =
            *owners.find(|thread| thread.ended >= time)?;
        Some(if in_scope { Owner::Recorded { process, thread } } else { Owner::Unwanted })
    }

    /// The records that name every thread which is in the trace: those that live, and those that are not forgotten.
    pub fn names(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut named = FxHashSet::default();
        // The living first: their process may have had another name when a thread of it ended.
        for slot in self.threads.slots() {
            let thread = self.threads.thread(slot);
            // The idle task is named even so: what a trace begins with leaves it.
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
    // A main thread has the koid of its process, so the sets are of processes only.
    let name = if process_name.is_empty() { comm.as_bytes() } else { process_name };
    let written = match named.insert(process) {
        true => process_object(out, process, name, tid, cgroup),
        false => Ok(()),
    };
    // Names that were cleaned fit a record, and memory has room for it.
    let written = written.and_then(|()| thread_object(out, koid, comm, tid, process));
    debug_assert!(written.is_ok());
}
