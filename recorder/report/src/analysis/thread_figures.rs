//! All threads: live threads in slots, ended threads as reports, and the names of all.

use std::collections::VecDeque;
use std::sync::Arc;

use fxt_reader::{Cpu, Koid};
use fxtrec_blame::threads::{CommandThreads, EarlierNames, Known, NameBudget};
use fxtrec_sched::{Machine, Thread, Threads};
use rustc_hash::{FxHashMap, FxHashSet};

use super::delays::Delays;
use super::recent::Recent;
use super::thread::Live;
use crate::distribution::Distribution;
use crate::facts::{FactTallies, Facts};
use crate::groups::Groups;
use crate::model::{Stats, ThreadInfo, ThreadReport};
use crate::selection::{ThreadFilter, Who};
use crate::tally::Tally;
use fxtrec_gates::Metric;
use fxtrec_units::convention::stand_in;

/// The maximum number of waits of ended threads that are kept with the objects they were for.
const MOST_WAITED: usize = 4096;

/// Maximum number of ended threads that are kept individually.
pub(super) const MAX_ENDED: usize = if cfg!(test) { 4_096 } else { 65_536 };

/// Maximum number of names kept for threads that were merged: other threads may have waited for them.
const EXITED_RETENTION: usize = 4096;

/// In fxtrec's traces, the bits of a koid below this are the thread id.
const ID_BITS: u32 = 22;

#[derive(Clone, Debug)]
struct Process {
    name: Arc<str>,
    cgroup: Option<Arc<str>>,
    /// The machine that it ran on, in a merged trace.
    host: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Named {
    comm: Arc<str>,
    earlier: EarlierNames,
    process: Option<u64>,
}

/// A thread that has not ended, by its slot, which is reused after the thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) koid: u64,
    pub(super) slot: u32,
}

impl Threads for ThreadFigures {
    type Key = Key;

    #[inline(always)]
    fn thread(&mut self, key: Key) -> &mut Thread {
        &mut self.live(key.slot).doing
    }

    #[inline]
    fn is_kept(&self, key: Key) -> bool {
        self.lives.get(key.slot as usize).is_some_and(|live| live.koid == key.koid)
    }
}

impl Known for ThreadFigures {
    fn comm(&self, koid: u64) -> Option<&str> {
        self.named.get(&koid).map(|named| &*named.comm)
    }

    fn earlier_names(&self, koid: u64) -> Option<&EarlierNames> {
        self.named.get(&koid).map(|named| &named.earlier)
    }

    fn process(&self, koid: u64) -> Option<u64> {
        self.named.get(&koid)?.process
    }

    fn tid(&self, koid: u64) -> u64 {
        ThreadFigures::tid(self, koid)
    }
}

#[derive(Debug, Default)]
pub(super) struct ThreadFigures {
    /// Whether koids are fxtrec's: thread ids with a generation, where only 0 is idle.
    pub(super) by_fxtrec: bool,
    slots: FxHashMap<u64, u32>,
    recent: Recent,
    lives: Vec<Live>,
    /// How many threads have received a slot so far.
    pub(super) made: u64,
    vacant: Vec<u32>,
    named: FxHashMap<u64, Named>,
    processes: FxHashMap<u64, Process>,
    texts: FxHashSet<Arc<str>>,
    /// Space for names that programs register.
    pub(super) name_budget: NameBudget,
    ended: Vec<ThreadReport>,
    groups: Groups,
    /// Processes with a thread that was woken: in a trace of narrow scope, these are in scope.
    woken: FxHashSet<u64>,
    /// How many were merged.
    pub(super) folded: u64,
    pub(super) delays: Delays,
    /// The merged threads whose names are still known.
    fading: VecDeque<u64>,
    /// The objects that threads waited for, by thread and beginning of the wait: for the longest waits of threads that have not ended, and
    /// for some of the others.
    waited: FxHashMap<(u64, u64), String>,
}

impl ThreadFigures {
    /// The key of a thread; a slot is created if it has none.
    #[inline]
    pub(super) fn key(&mut self, koid: u64, filter: &ThreadFilter) -> Key {
        Key { koid, slot: self.slot(koid, filter) }
    }

    #[inline]
    fn slot(&mut self, koid: u64, filter: &ThreadFilter) -> u32 {
        let recent = self.recent.guess(koid);
        // A vacant slot has no koid.
        match self.lives.get(recent as usize) {
            Some(live) if live.koid == koid && koid != 0 => recent,
            _ => self.look_up(koid, filter),
        }
    }

    fn look_up(&mut self, koid: u64, filter: &ThreadFilter) -> u32 {
        let slot = match self.slots.get(&koid) {
            Some(&slot) => slot,
            None => self.add(koid, filter),
        };
        self.recent.note(koid, slot);
        slot
    }

    #[cold]
    fn add(&mut self, koid: u64, filter: &ThreadFilter) -> u32 {
        self.made += 1;
        let chosen = filter.is_everything() || self.fits(koid, filter);
        let live = Live { koid, chosen, ..Live::default() };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.lives[slot as usize] = live;
                slot
            }
            None => {
                self.lives.push(live);
                // There are fewer threads than bytes of trace.
                u32::try_from(self.lives.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.slots.insert(koid, slot);
        slot
    }

    /// The thread in a slot.
    #[inline]
    pub(super) fn live(&mut self, slot: u32) -> &mut Live {
        &mut self.lives[slot as usize]
    }

    /// All threads that have not ended.
    pub(super) fn living(&mut self) -> impl Iterator<Item = &mut Live> {
        let slots = self.slots.values();
        let mut taken: Vec<u32> = slots.copied().collect();
        taken.sort_unstable();
        let mut taken = taken.into_iter().peekable();
        let numbered = (0_u32..).zip(&mut self.lives);
        numbered.filter_map(move |(slot, live)| taken.next_if_eq(&slot).map(|_| live))
    }

    /// The number of slots: for all threads that have not ended, plus free ones.
    pub(super) fn places(&self) -> usize {
        self.lives.len()
    }

    /// When each wait for a CPU whose length can still be determined began.
    pub(super) fn waits_for(&self, cpu: Cpu, machine: &Machine<Key>) -> Vec<u64> {
        let begin = |live: &Live| {
            let doing = &live.doing;
            let waits = doing.state.is_waiting() && doing.cpu == cpu && machine.knows(doing);
            let since = doing.since.0;
            // Before that, it was in another queue, which is not part of this CPU's history.
            let earlier_queues =
                live.earlier_queues.as_ref().filter(|earlier_queues| earlier_queues.begin == since);
            waits.then(|| earlier_queues.map_or(since, |earlier_queues| earlier_queues.at))
        };
        self.lives.iter().filter_map(begin).collect()
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }

    /// Whether there is space for a name that a program registers.
    fn has_room(&mut self, name: &str, is_new: bool) -> bool {
        let is_new_name = !self.texts.contains(name);
        self.name_budget.has_room(name, is_new_name, is_new)
    }

    /// Sets the name of a process, and its cgroup and host if known; `is_reported` if a program registered the name.
    pub(super) fn name_process(
        &mut self,
        koid: u64,
        (name, cgroup, host): (&str, Option<&str>, Option<&str>),
        is_reported: bool,
    ) {
        let is_new = !self.processes.contains_key(&koid);
        if is_reported
            && !(self.has_room(name, is_new)
                && cgroup.is_none_or(|path| self.has_room(path, false))
                && host.is_none_or(|host| self.has_room(host, false)))
        {
            return;
        }
        let (name, cgroup) = (self.text(name), cgroup.map(|path| self.text(path)));
        let host = host.map(|host| self.text(host));
        let known = self.processes.remove(&koid);
        let (known_cgroup, known_host) = known.map_or((None, None), |it| (it.cgroup, it.host));
        // Programs know only their names.
        let (cgroup, host) = match is_reported {
            true => (known_cgroup.or(cgroup), known_host.or(host)),
            false => (cgroup.or(known_cgroup), host.or(known_host)),
        };
        self.processes.insert(koid, Process { name, cgroup, host });
    }

    /// The path of the cgroup of the thread's process, if known.
    pub(super) fn cgroup(&self, koid: u64) -> Option<&Arc<str>> {
        self.process_of(koid)?.cgroup.as_ref()
    }

    /// The host of the thread's process, in a merged trace.
    pub(super) fn host(&self, koid: u64) -> Option<&Arc<str>> {
        self.process_of(koid)?.host.as_ref()
    }

    fn process_of(&self, koid: u64) -> Option<&Process> {
        let process = self.named.get(&koid)?.process?;
        self.processes.get(&process)
    }

    /// Sets the name of a thread; `is_reported` if a program registered it.
    pub(super) fn name_thread(
        &mut self,
        koid: u64,
        (comm, process): (&str, Option<u64>),
        is_reported: bool,
    ) {
        if is_reported && !self.has_room(comm, !self.named.contains_key(&koid)) {
            return;
        }
        let comm = self.text(comm);
        let named = self.named.entry(koid).or_insert_with(|| Named {
            comm: comm.clone(),
            earlier: EarlierNames::default(),
            process,
        });
        if named.comm != comm {
            named.earlier.add(&named.comm);
        }
        (named.comm, named.process) = (comm, process);
    }

    /// Sets the process of a thread.
    pub(super) fn belongs(&mut self, koid: u64, process: u64) {
        if !self.named.contains_key(&koid) {
            let comm = self.text(&format!("[{koid}]"));
            self.named.insert(
                koid,
                Named { comm, earlier: EarlierNames::default(), process: Some(process) },
            );
        }
    }

    /// Checks again which threads the filter selects, after this thread was named.
    pub(super) fn choose(&mut self, koid: u64, filter: &ThreadFilter) {
        if !filter.is_everything()
            && self.fits(koid, filter)
            && let Some(&slot) = self.slots.get(&koid)
        {
            self.live(slot).chosen = true;
        }
    }

    fn fits(&self, koid: u64, filter: &ThreadFilter) -> bool {
        let (comm, pid) = self.comm_and_pid(koid);
        let (comm, tid) = (comm.unwrap_or_default(), Some(self.tid(koid)));
        filter.admits(Who { comm, pid, tid, cgroup: self.cgroup(koid).map(|path| &**path) })
    }

    /// The thread's name and its process's id, if known.
    pub(super) fn comm_and_pid(&self, koid: u64) -> (Option<&str>, Option<u64>) {
        let Some(named) = self.named.get(&koid) else { return (None, None) };
        (Some(&named.comm), named.process.map(|process| self.tid(process)))
    }

    /// Remembers that a thread was woken; in a narrow scope, wakeups of threads outside the scope are not recorded.
    pub(super) fn was_woken(&mut self, koid: u64) {
        let process = self.named.get(&koid).and_then(|named| named.process);
        self.woken.insert(process.unwrap_or(koid));
    }

    /// Whether a thread of the same process was woken.
    pub(super) fn is_in_scope(&self, koid: u64) -> bool {
        let process = self.named.get(&koid).and_then(|named| named.process);
        self.woken.contains(&process.unwrap_or(koid))
    }

    /// The thread id in a koid.
    pub(super) fn tid(&self, koid: u64) -> u64 {
        if self.by_fxtrec { koid & (u64::MAX >> (u64::BITS - ID_BITS)) } else { koid }
    }

    /// The name of a thread, for output.
    pub(super) fn thread_info(&mut self, koid: u64) -> ThreadInfo {
        let tid = self.tid(koid);
        let (comm, pid) = match self.named.get(&koid) {
            Some(named) => (named.comm.clone(), named.process.map(|process| self.tid(process))),
            None => (self.text(&format!("[{tid}]")), None),
        };
        let (cgroup, host) = (self.cgroup(koid).cloned(), self.host(koid).cloned());
        ThreadInfo { koid: Koid(koid), comm, pid, tid, cgroup, host }
    }

    /// The thread in the slot has ended.
    pub(super) fn end(&mut self, slot: u32, family: &CommandThreads) {
        let live = std::mem::take(self.live(slot));
        self.slots.remove(&live.koid);
        self.vacant.push(slot);
        self.delays.add(&live);
        if self.ended.len() < MAX_ENDED {
            let report = self.report(live, family);
            self.ended.extend(report);
        } else {
            self.fold(live, family);
        }
    }

    #[cold]
    fn fold(&mut self, live: Live, family: &CommandThreads) {
        self.folded += 1;
        self.fading.push_back(live.koid);
        if self.fading.len() > EXITED_RETENTION
            && let Some(koid) = self.fading.pop_front()
        {
            self.named.remove(&koid);
            self.processes.remove(&koid);
        }
        let Some(report) = self.report(live, family) else { return };
        self.groups.add(report);
    }

    /// The report of a thread; `None` if there is no data to report.
    fn report(&mut self, mut live: Live, family: &CommandThreads) -> Option<ThreadReport> {
        let stats = Stats {
            metrics: freeze(std::mem::take(&mut live.tallies)),
            cpu_time: std::time::Duration::from_nanos(live.cpu_time),
            voluntary: live.voluntary,
            involuntary: live.involuntary,
            migrations: live.migrations,
            inferred: live.inferred,
            facts: freeze_facts(live.facts.take()),
        };
        if stats == Stats::default() {
            return None;
        }
        let process = self.named.get(&live.koid).and_then(|named| named.process);
        let ThreadInfo { koid, comm, pid, tid, cgroup, host } = self.thread_info(live.koid);
        if stand_in(&comm, tid).is_some() {
            return None;
        }
        let home = process.and_then(|process| self.processes.get(&process));
        let process_name = home.map(|home| home.name.clone());
        let sleeps = live.sleeps.take().map(|sleeps| sleeps.reported(live.koid, self));
        Some(ThreadReport {
            koid: Some(koid),
            pid,
            tid: Some(tid),
            process: process.map(Koid),
            process_name: process_name.unwrap_or_else(|| comm.clone()),
            comm,
            cgroup,
            host,
            threads: 1,
            in_command: family.has(self, live.koid),
            is_recorded: self.is_in_scope(live.koid),
            is_recorder: family.is_recorder(self, live.koid),
            stats,
            worst: live.worst,
            sleeps: sleeps.unwrap_or_default(),
        })
    }

    /// At the end of the trace, takes the delays of all threads that have not ended.
    pub(super) fn add_delays(&mut self) {
        for &slot in self.slots.values() {
            self.delays.add(&self.lives[slot as usize]);
        }
    }

    /// Removes and returns the object that a thread waited for in the wait that began at that time.
    pub(super) fn waited_for(&mut self, koid: u64, begin: u64, what: impl FnOnce() -> String) {
        let is_listed = match self.slots.get(&koid) {
            Some(slot) => {
                let sleeps = self.lives[*slot as usize].sleeps.as_ref();
                sleeps.is_some_and(|sleeps| sleeps.has(begin))
            }
            None => self.waited.len() < MOST_WAITED,
        };
        if is_listed {
            self.waited.insert((koid, begin), what());
        }
    }

    /// The reports of all threads.
    pub(super) fn finish(mut self, family: &CommandThreads) -> Vec<ThreadReport> {
        let mut slots: Vec<u32> = self.slots.values().copied().collect();
        slots.sort_unstable();
        let mut reports = std::mem::take(&mut self.ended);
        for slot in slots {
            let live = std::mem::take(self.live(slot));
            reports.extend(self.report(live, family));
        }
        reports.extend(self.groups.finish());
        for report in reports.iter_mut().filter(|_| !self.waited.is_empty()) {
            for sleep in &mut report.sleeps {
                let wait = (sleep.thread.koid.0, sleep.span.begin.0);
                sleep.waited_for = self.waited.get(&wait).cloned();
            }
        }
        reports
    }
}

pub(super) fn freeze_facts(facts: Option<Box<FactTallies>>) -> Option<Box<Facts>> {
    facts.map(|facts| Box::new(facts.freeze()))
}

/// The distributions of all metrics. The tally of the run-queue wait contains waits of unknown kind.
pub(super) fn freeze(tallies: [Tally; 6]) -> [Distribution; 6] {
    let mut metrics = tallies.map(Tally::freeze);
    let parts = [Metric::Wakeup, Metric::Preemption, Metric::RunQueue];
    let run_queue = Distribution::merge(parts.map(|part| &metrics[part.index()]));
    metrics[Metric::RunQueue.index()] = run_queue;
    metrics
}
