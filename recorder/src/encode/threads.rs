//! Every thread and process of the recording: who it is, what it is called, what it does.
//!
//! A thread becomes known by the snapshot taken at the start, by its fork, or by
//! the first event that names it. It is forgotten when it has gone out for the
//! last time, so memory follows the number of living threads.
//!
//! Threads are found by the tid that tracepoints use. Forks, exits and names
//! come with the ids of the recorder's pid namespace, which [`super::ids`]
//! translates.

use fxt_writer::Koid;
use rustc_hash::FxHashMap;

use super::generations::Generations;
use super::ids::Ids;
use super::weight;
use crate::capture::event::{Comm, LocalId};
use crate::units::{Nanos, Tid};

/// Where a thread is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// The idle task, which is always known.
pub const IDLE: Slot = Slot(0);

/// Where a process is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessSlot(u32);

/// What a thread is known to be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Nothing is known, or what was known is from before a loss.
    Unknown,
    /// It waits for something.
    Blocked,
    /// It waits for a CPU.
    Runnable,
    /// It has a CPU.
    Running,
}

/// Whether the trace has the name of a thread or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It has none.
    Never,
    /// It has a name that is no longer right.
    Outdated,
    /// It has the present name.
    Done,
}

impl Naming {
    /// The name has changed.
    fn outdate(&mut self) {
        if *self == Naming::Done {
            *self = Naming::Outdated;
        }
    }
}

/// One thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its id in the initial pid namespace.
    pub tid: Tid,
    /// Its id in the trace.
    pub koid: Koid,
    /// The process it belongs to.
    pub process: ProcessSlot,
    /// Its name.
    pub comm: Comm,
    /// Whether the trace has its name.
    pub naming: Naming,
    /// Its weight when it was last seen.
    pub weight: i32,
    /// Whether its switches are wanted.
    pub in_scope: bool,
    /// Who was seen to begin waking it, until it is awake.
    pub waker: Option<Koid>,
    run: Run,
    /// How many losses there had been when `run` and `comm` were last confirmed.
    confirmed: u32,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// From the snapshot, and no event has named it yet.
    Snapshot,
    /// Its fork was seen, its first wake-up not yet.
    Fork,
    /// Anything later.
    Seen,
}

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id in the trace; given when it is first written.
    pub koid: Option<Koid>,
    /// What to call it.
    pub name: Vec<u8>,
    /// Whether the trace has its name.
    pub naming: Naming,
    local: Option<LocalId>,
    in_scope: bool,
    threads: u32,
}

impl Process {
    fn new(local: Option<LocalId>) -> Process {
        Process {
            koid: None,
            name: Vec::new(),
            naming: Naming::Never,
            local,
            in_scope: false,
            threads: 0,
        }
    }
}

/// Looks a process up in the running system; a test gives its own.
pub trait Lookup: std::fmt::Debug {
    /// The process that the thread belongs to, when it still lives.
    fn process_of(&self, tid: LocalId) -> Option<LocalId>;
    /// What to call the process, when it still lives.
    fn process_name(&self, pid: LocalId) -> Option<Vec<u8>>;
}

/// All threads and processes.
#[derive(Debug)]
pub struct Threads {
    slots: Vec<Thread>,
    free: Vec<Slot>,
    by_tid: FxHashMap<Tid, Slot>,
    processes: Vec<Process>,
    free_processes: Vec<ProcessSlot>,
    by_pid: FxHashMap<LocalId, ProcessSlot>,
    generations: Generations,
    ids: Ids,
    lookup: Box<dyn Lookup + Send>,
    /// Until when a fork may be that of a thread which the snapshot has already.
    snapshot_end: Nanos,
    losses: u32,
}

/// A koid for a process of whose main thread only the id in an inner pid namespace is known.
pub fn inner_process_koid(pid: LocalId) -> Koid {
    // Beyond every tid and its first generations, within the 32 bits that readers keep.
    Koid(0x8000_0000 + u64::from(pid.0))
}

impl Threads {
    /// No thread but the idle task.
    pub fn new(ids: Ids, lookup: Box<dyn Lookup + Send>) -> Threads {
        let idle = Process {
            koid: Some(Koid(0)),
            name: b"swapper".to_vec(),
            threads: 1,
            ..Process::new(None)
        };
        let swapper = Thread {
            tid: Tid::IDLE,
            koid: Koid(0),
            process: ProcessSlot(0),
            comm: Comm::from_bytes(b"swapper"),
            naming: Naming::Never,
            weight: weight::IDLE,
            in_scope: false,
            waker: None,
            run: Run::Unknown,
            confirmed: 0,
            origin: Origin::Seen,
        };
        Threads {
            slots: vec![swapper],
            free: Vec::new(),
            by_tid: FxHashMap::from_iter([(Tid::IDLE, IDLE)]),
            processes: vec![idle],
            free_processes: Vec::new(),
            by_pid: FxHashMap::default(),
            generations: Generations::default(),
            ids,
            lookup,
            snapshot_end: Nanos(0),
            losses: 0,
        }
    }

    /// The thread kept there.
    pub fn thread(&self, slot: Slot) -> &Thread {
        &self.slots[slot.0 as usize]
    }

    /// The thread kept there, to be changed.
    pub fn thread_mut(&mut self, slot: Slot) -> &mut Thread {
        &mut self.slots[slot.0 as usize]
    }

    /// The process kept there.
    pub fn process(&self, slot: ProcessSlot) -> &Process {
        &self.processes[slot.0 as usize]
    }

    /// The process kept there, to be changed.
    pub fn process_mut(&mut self, slot: ProcessSlot) -> &mut Process {
        &mut self.processes[slot.0 as usize]
    }

    /// How many threads are known now, the idle task included.
    pub fn living(&self) -> usize {
        self.by_tid.len()
    }

    /// What comes next is from a snapshot that was complete at `end`.
    pub fn begin_snapshot(&mut self, end: Nanos) {
        self.snapshot_end = end;
    }

    /// Adds a process of the snapshot.
    pub fn add_process(&mut self, pid: LocalId, name: &[u8]) -> ProcessSlot {
        let slot = self.process_by_id(pid);
        let process = self.process_mut(slot);
        process.name = name.to_vec();
        process.naming.outdate();
        slot
    }

    /// Adds a process of the snapshot that is not in the recorder's pid namespace.
    pub fn add_outer_process(&mut self, pid: Tid, name: &[u8]) -> ProcessSlot {
        let koid = Some(self.generations.current(pid));
        self.insert_process(Process { koid, name: name.to_vec(), ..Process::new(None) })
    }

    /// Adds a thread of the snapshot by those of its ids that are known.
    pub fn add_thread(
        &mut self,
        process: ProcessSlot,
        local: Option<LocalId>,
        tid: Option<Tid>,
        comm: Comm,
    ) {
        match (local, tid.or_else(|| local.and_then(|local| self.ids.tid(local)))) {
            (Some(local), None) => self.ids.wait_for(local, comm),
            (None, None) => {}
            (local, Some(tid)) => {
                if let Some(local) = local {
                    self.ids.bind(tid, local);
                }
                if self.find(tid).is_none() {
                    let koid = self.generations.current(tid);
                    let slot = self.insert(tid, koid, process, comm);
                    self.thread_mut(slot).origin = Origin::Snapshot;
                }
            }
        }
    }

    /// Puts every thread of the process in scope, and all that they will start.
    pub fn include(&mut self, pid: LocalId) {
        let process = self.process_by_id(pid);
        self.process_mut(process).in_scope = true;
        for thread in &mut self.slots {
            thread.in_scope |= thread.process == process;
        }
    }

    fn process_by_id(&mut self, pid: LocalId) -> ProcessSlot {
        if let Some(slot) = self.by_pid.get(&pid) {
            return *slot;
        }
        let slot = self.insert_process(Process::new(Some(pid)));
        self.by_pid.insert(pid, slot);
        slot
    }

    fn insert_process(&mut self, process: Process) -> ProcessSlot {
        match self.free_processes.pop() {
            Some(slot) => {
                *self.process_mut(slot) = process;
                slot
            }
            None => {
                self.processes.push(process);
                ProcessSlot((self.processes.len() - 1) as u32)
            }
        }
    }

    fn insert(&mut self, tid: Tid, koid: Koid, process: ProcessSlot, comm: Comm) -> Slot {
        let thread = Thread {
            tid,
            koid,
            process,
            comm,
            naming: Naming::Never,
            weight: weight::NICE_0,
            in_scope: self.process(process).in_scope,
            waker: None,
            run: Run::Unknown,
            confirmed: self.losses,
            origin: Origin::Seen,
        };
        self.process_mut(process).threads += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.thread_mut(slot) = thread;
                slot
            }
            None => {
                self.slots.push(thread);
                Slot((self.slots.len() - 1) as u32)
            }
        };
        self.by_tid.insert(tid, slot);
        slot
    }

    /// The tid of a thread that is known by its id in the recorder's pid namespace.
    pub fn tid_of(&self, local: LocalId) -> Option<Tid> {
        self.ids.tid(local)
    }

    /// The thread, if it is known.
    pub fn find(&self, tid: Tid) -> Option<Slot> {
        self.by_tid.get(&tid).copied()
    }

    /// The thread, known from now on. `comm` is its name where the event tells it.
    pub fn get(&mut self, tid: Tid, comm: Option<&Comm>) -> Slot {
        let slot = match self.by_tid.get(&tid) {
            Some(slot) => *slot,
            None => self.discover(tid, comm),
        };
        if slot != IDLE {
            self.confirm(slot, comm);
        }
        slot
    }

    fn confirm(&mut self, slot: Slot, comm: Option<&Comm>) {
        let losses = self.losses;
        let thread = self.thread_mut(slot);
        let doubtful = thread.confirmed != losses || thread.origin == Origin::Snapshot;
        let Some(comm) = comm.filter(|_| doubtful || thread.comm == Comm::default()) else {
            return;
        };
        if thread.confirmed != losses {
            thread.confirmed = losses;
            thread.run = Run::Unknown;
            thread.waker = None;
        }
        if thread.origin == Origin::Snapshot {
            thread.origin = Origin::Seen;
        }
        if thread.comm != *comm {
            thread.comm = *comm;
            thread.naming.outdate();
        }
    }

    /// A thread that no snapshot and no fork has announced.
    #[cold]
    fn discover(&mut self, tid: Tid, comm: Option<&Comm>) -> Slot {
        let comm = comm.copied().unwrap_or_default();
        let koid = self.generations.current(tid);
        let process = self.home_of(tid, &comm);
        self.insert(tid, koid, process, comm)
    }

    fn home_of(&mut self, tid: Tid, comm: &Comm) -> ProcessSlot {
        let Some(local) = self.ids.local(tid) else {
            // Outside of the recorder's pid namespace: nobody says which process it belongs to.
            return self.add_outer_process(tid, comm.as_bytes());
        };
        let pid = match self.by_pid.contains_key(&local) {
            true => local,
            false => self.lookup.process_of(local).unwrap_or(local),
        };
        let process = self.process_by_id(pid);
        if self.process(process).name.is_empty() {
            let name = self.lookup.process_name(pid).unwrap_or_else(|| comm.as_bytes().to_vec());
            self.process_mut(process).name = name;
        }
        process
    }

    /// The koid of a process, given now if it has none.
    pub fn process_koid(&mut self, slot: ProcessSlot) -> Koid {
        if let Some(koid) = self.process(slot).koid {
            return koid;
        }
        let local = self.process(slot).local.unwrap_or_default();
        let koid = match self.ids.tid(local) {
            Some(tid) => self.generations.current(tid),
            None => inner_process_koid(local),
        };
        self.process_mut(slot).koid = Some(koid);
        koid
    }

    /// A thread or process came into being.
    pub fn fork(&mut self, time: Nanos, child: (LocalId, LocalId), parent: (LocalId, LocalId)) {
        let ((pid, tid), (parent_pid, parent_tid)) = (child, parent);
        if pid == LocalId(0) {
            // Not in the recorder's pid namespace.
            return;
        }
        match self.ids.tid_of_fork(tid, parent_tid, pid) {
            Some(host) => {
                let as_process = (pid == tid).then_some(parent_pid);
                self.forked(time, host, pid, as_process, parent_tid);
            }
            // The snapshot was taken after the fork, and has the process already.
            None if time <= self.snapshot_end && self.by_pid.contains_key(&pid) => {}
            // Its id in the initial namespace comes with its first wake-up.
            None if pid == tid => self.fork_process(pid, parent_pid),
            None => {}
        }
    }

    fn fork_process(&mut self, pid: LocalId, parent_pid: LocalId) {
        let parent = self.by_pid.get(&parent_pid).map(|slot| self.process(*slot).clone());
        self.by_pid.remove(&pid);
        let slot = self.process_by_id(pid);
        if let Some(parent) = parent {
            let process = self.process_mut(slot);
            process.name = parent.name;
            process.in_scope = parent.in_scope;
        }
    }

    /// `as_process` is the parent's process when the new thread is the first of its own.
    fn forked(
        &mut self,
        time: Nanos,
        tid: Tid,
        pid: LocalId,
        as_process: Option<LocalId>,
        parent: LocalId,
    ) {
        if let Some(slot) = self.find(tid) {
            let known = self.thread_mut(slot);
            if known.origin == Origin::Snapshot && time <= self.snapshot_end {
                // The snapshot was taken after the fork, and has it already.
                self.thread_mut(slot).origin = Origin::Fork;
                return;
            }
            // An earlier owner of the tid, whose end was not seen.
            self.end(slot);
        }
        let koid = self.generations.next(tid);
        if let Some(parent_pid) = as_process {
            self.fork_process(pid, parent_pid);
        }
        let comm = self.ids.tid(parent).and_then(|parent| self.find(parent));
        let comm = comm.map(|slot| self.thread(slot).comm).unwrap_or_default();
        let process = self.process_by_id(pid);
        let slot = self.insert(tid, koid, process, comm);
        self.thread_mut(slot).origin = Origin::Fork;
    }

    /// A thread was woken for the first time; `parent` did it.
    pub fn woken_new(&mut self, time: Nanos, tid: Tid, parent: Tid, comm: &Comm) -> Slot {
        if let Some((local, pid)) = self.ids.fork_of(parent) {
            // Announced in a pid namespace by a fork that could not name this tid.
            self.ids.bind(tid, local);
            if let Some(known) = self.find(tid) {
                if self.thread(known).origin == Origin::Snapshot && time <= self.snapshot_end {
                    self.thread_mut(known).origin = Origin::Seen;
                    return known;
                }
                self.end(known);
            }
            let koid = self.generations.next(tid);
            let process = self.process_by_id(pid);
            return self.insert(tid, koid, process, *comm);
        }
        match self.find(tid) {
            Some(slot) => {
                let fresh = match self.thread(slot).origin {
                    Origin::Fork => true,
                    Origin::Snapshot => time <= self.snapshot_end,
                    Origin::Seen => false,
                };
                if fresh {
                    self.thread_mut(slot).origin = Origin::Seen;
                    return slot;
                }
                // Its fork was lost, and the tid belonged to another before.
                self.end(slot);
                self.reborn(tid, comm)
            }
            None => self.reborn(tid, comm),
        }
    }

    fn reborn(&mut self, tid: Tid, comm: &Comm) -> Slot {
        let koid = self.generations.next(tid);
        let process = self.home_of(tid, comm);
        self.insert(tid, koid, process, *comm)
    }

    /// A thread has a new name; with `exec`, its process is another program now.
    pub fn renamed(&mut self, pid: LocalId, tid: LocalId, comm: Comm, exec: bool) {
        if let Some(host) = self.ids.tid(tid) {
            let slot = self.get(host, Some(&comm));
            let thread = self.thread_mut(slot);
            if slot != IDLE && thread.comm != comm {
                thread.comm = comm;
                thread.naming.outdate();
            }
        } else {
            self.ids.wait_for(tid, comm);
        }
        if pid != tid || pid == LocalId(0) {
            return;
        }
        // A name as long as the kernel keeps may be the beginning of a longer one.
        let long = (exec && comm.as_bytes().len() == 15).then(|| self.lookup.process_name(pid));
        let name = long.flatten().filter(|name| name.starts_with(comm.as_bytes()));
        let slot = self.process_by_id(pid);
        let process = self.process_mut(slot);
        process.name = name.unwrap_or_else(|| comm.as_bytes().to_vec());
        process.naming.outdate();
    }

    /// Inside a pid namespace: the ids there of a thread.
    pub fn identify(&mut self, tid: Tid, local_pid: LocalId, local_tid: LocalId) {
        if local_tid == LocalId(0) || tid == Tid::IDLE || self.ids.local(tid) == Some(local_tid) {
            return;
        }
        let waiting = self.ids.bind(tid, local_tid);
        let process = self.process_by_id(local_pid);
        match self.find(tid) {
            None => {
                let comm = waiting.unwrap_or_default();
                let koid = self.generations.current(tid);
                self.insert(tid, koid, process, comm);
            }
            Some(slot) if self.thread(slot).process != process => {
                let old = self.thread(slot).process;
                self.leave(old);
                self.process_mut(process).threads += 1;
                let in_scope = self.process(process).in_scope;
                let thread = self.thread_mut(slot);
                thread.process = process;
                thread.naming.outdate();
                thread.in_scope = in_scope;
            }
            Some(_) => {}
        }
        if self.process(process).name.is_empty() {
            let comm = self.find(tid).map(|slot| self.thread(slot).comm).unwrap_or_default();
            let name = self.lookup.process_name(local_pid);
            self.process_mut(process).name = name.unwrap_or_else(|| comm.as_bytes().to_vec());
        }
    }

    /// A thread has gone out for the last time.
    pub fn end(&mut self, slot: Slot) {
        if slot == IDLE {
            return;
        }
        let Thread { tid, process, .. } = *self.thread(slot);
        self.by_tid.remove(&tid);
        self.ids.forget(tid);
        self.free.push(slot);
        self.leave(process);
    }

    fn leave(&mut self, slot: ProcessSlot) {
        let process = self.process_mut(slot);
        process.threads = process.threads.saturating_sub(1);
        if process.threads > 0 {
            return;
        }
        let local = std::mem::take(&mut process.local);
        if let Some(pid) = local
            && self.by_pid.get(&pid) == Some(&slot)
        {
            self.by_pid.remove(&pid);
        }
        self.free_processes.push(slot);
    }

    /// What the thread is doing, as far as that is known in spite of losses.
    pub fn run(&self, slot: Slot) -> Run {
        let thread = self.thread(slot);
        if thread.confirmed == self.losses { thread.run } else { Run::Unknown }
    }

    /// Says what the thread is doing now.
    pub fn set_run(&mut self, slot: Slot, run: Run) {
        let losses = self.losses;
        let thread = self.thread_mut(slot);
        thread.run = run;
        thread.confirmed = losses;
    }

    /// Events were lost: what was known about what threads do, and how they are called, is doubtful.
    pub fn doubt(&mut self) {
        self.losses += 1;
    }

    /// Whether both threads belong to one process and `to` is its main thread.
    ///
    /// Then `from` took over the main thread's id in an execve(2), if nothing else explains the change.
    pub fn is_takeover(&self, from: Slot, to: Slot) -> bool {
        let (from, to) = (self.thread(from), self.thread(to));
        from.tid != to.tid
            && from.process == to.process
            && self.process(to.process).local == self.ids.local(to.tid)
    }
}
