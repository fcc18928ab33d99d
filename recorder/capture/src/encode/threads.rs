//! Every thread and process of the recording: its identity, name and state.
//!
//! A thread becomes known by the snapshot taken at the start, by its fork, or by the first event that names it. It is forgotten after it is
//! switched out for the last time, so memory use depends on the number of living threads.
//!
//! This module also translates Linux's state and priority of an outgoing thread to the states and weights of the format.
//!
//! Threads are found by the tid that tracepoints use. Forks, exits and names have ids of the recorder's pid namespace, which [`super::ids`]
//! translates.

mod births;
mod names;
mod processes;

use std::sync::Arc;

use fxt_writer::Koid;
use fxt_writer::record::ThreadState;
use rustc_hash::FxHashMap;

use super::generations::Generations;
use super::ids::Ids;
use super::throttles::Throttled;
use crate::event::{Comm, LocalId};
use fxtrec_kernel::prev_state::PrevState;
use fxtrec_units::glob::{self, Pattern};
use fxtrec_units::{Cpu, Nanos, Tid};

use processes::Processes;
pub use processes::{Process, ProcessSlot};

/// Index of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// The index with this number.
    #[cfg(test)]
    pub fn at(number: u32) -> Slot {
        Slot(number)
    }

    /// The index. Indices are assigned in ascending order and reused.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The idle task, which is always known.
pub const IDLE: Slot = Slot(0);

/// Size of the cache that finds threads without a search; a power of two.
const NEAR: usize = 4096;

/// Marks an unused entry. The idle task is only looked up at index 0, where this entry is correct.
const NOBODY: (Tid, Slot) = (Tid::IDLE, IDLE);

/// The cache index of a thread.
#[inline(always)]
fn near(tid: Tid) -> usize {
    tid.0 as usize % NEAR
}

/// The known state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Unknown, or known only from before a loss.
    Unknown,
    Blocked,
    /// It waits for a CPU.
    Runnable,
    Running,
}

/// Whether the trace has the name of a thread or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    Never,
    /// The trace has an outdated name.
    Outdated,
    /// The trace has the current name.
    Done,
}

impl Naming {
    fn outdate(&mut self) {
        if *self == Naming::Done {
            *self = Naming::Outdated;
        }
    }
}

/// The waker of a thread, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    Unknown,
    Task(Koid),
    Interrupt,
}

#[derive(Clone, Debug)]
pub struct Thread {
    /// Its id in the initial pid namespace.
    pub tid: Tid,
    /// Its id in the trace.
    pub koid: Koid,
    /// The process it belongs to.
    pub process: ProcessSlot,
    pub comm: Comm,
    /// Whether the trace has its name.
    pub naming: Naming,
    /// Its weight when it was last seen.
    pub weight: i32,
    /// Whether its switches are recorded.
    pub in_scope: bool,
    /// The thread that began to wake it, until it is awake.
    pub waker: Option<Announced>,
    /// The time since which a quota keeps the thread from running, until it is switched in again.
    pub throttled: Option<Throttled>,
    /// The CPU that counts it as waiting: see [`Chain::waiting`](super::chain::Chain::waiting).
    pub waits_for: Option<Cpu>,
    pub(super) run: Run,
    /// How many losses there had been when `run` was last confirmed.
    run_confirmed: u32,
    /// How many losses there had been when `comm` was last confirmed.
    comm_confirmed: u32,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The name is from the snapshot, or was held back until the tid was known; no event has contained it yet.
    Snapshot,
    /// Its fork was recorded, but not its first wakeup.
    Fork,
    Seen,
}

/// Looks up processes in the running system; tests provide their own.
pub trait Lookup: std::fmt::Debug {
    /// The process that the thread belongs to, if it still lives.
    fn process_of(&self, tid: LocalId) -> Option<LocalId>;
    /// The name of the process, if it still lives.
    fn process_name(&self, pid: LocalId) -> Option<Vec<u8>>;
    /// The path of the cgroup of the process, if it still lives.
    fn cgroup_of(&self, _pid: LocalId) -> Option<String> {
        None
    }
    /// The path of the cgroup of this number, if it exists.
    fn cgroup_path(&self, _number: u64) -> Option<String> {
        None
    }
}

#[derive(Debug)]
pub struct Threads {
    slots: Vec<Thread>,
    free: Vec<Slot>,
    by_tid: FxHashMap<Tid, Slot>,
    /// Cache of recently found threads, by the lower bits of the id: much faster than a lookup in `by_tid`.
    near: Box<[(Tid, Slot)]>,
    processes: Processes,
    generations: Generations,
    ids: Ids,
    lookup: Box<dyn Lookup + Send>,
    /// Forks up to this time may be of threads that are already in the snapshot.
    snapshot_end: Nanos,
    /// The cgroups whose processes are in scope, if the scope consists of cgroups and the source does not filter by it.
    globs: Option<Vec<Pattern>>,
    /// The globs of the scope that have not matched any process so far.
    unseen_globs: Vec<Pattern>,
    /// The processes that were put in scope by id.
    included: Vec<LocalId>,
    /// Threads that executed a program and now have their main thread's id, and that were not seen on a CPU since.
    takeovers: Vec<Takeover>,
    losses: u32,
}

/// A main thread whose id another thread of its process took over by execve(2). Both are identified by their ids in the trace.
#[derive(Clone, Copy, Debug)]
struct Takeover {
    main: Koid,
    before: Slot,
    before_koid: Koid,
}

impl Threads {
    /// Contains only the idle task.
    pub fn new(ids: Ids, lookup: Box<dyn Lookup + Send>) -> Threads {
        let idle = Process::outer(Some(Koid(0)), b"swapper".to_vec());
        let swapper = Thread {
            tid: Tid::IDLE,
            koid: Koid(0),
            process: Processes::IDLE,
            comm: Comm::from_bytes(b"swapper"),
            naming: Naming::Never,
            weight: weight::IDLE,
            in_scope: false,
            waker: None,
            throttled: None,
            waits_for: None,
            run: Run::Unknown,
            run_confirmed: 0,
            comm_confirmed: 0,
            origin: Origin::Seen,
        };
        Threads {
            slots: vec![swapper],
            free: Vec::new(),
            by_tid: FxHashMap::from_iter([(Tid::IDLE, IDLE)]),
            near: vec![NOBODY; NEAR].into_boxed_slice(),
            processes: Processes::new(idle),
            generations: Generations::default(),
            ids,
            lookup,
            snapshot_end: Nanos(0),
            globs: None,
            unseen_globs: Vec::new(),
            included: Vec::new(),
            takeovers: Vec::new(),
            losses: 0,
        }
    }

    #[inline]
    pub fn thread(&self, slot: Slot) -> &Thread {
        &self.slots[slot.0 as usize]
    }

    /// The thread at this index, mutable.
    #[inline]
    pub fn thread_mut(&mut self, slot: Slot) -> &mut Thread {
        &mut self.slots[slot.0 as usize]
    }

    pub fn process(&self, slot: ProcessSlot) -> &Process {
        self.processes.get(slot)
    }

    /// The process at this index, mutable.
    pub fn process_mut(&mut self, slot: ProcessSlot) -> &mut Process {
        self.processes.get_mut(slot)
    }

    /// The indices of all known threads, including the idle task, in no particular order.
    pub fn slots(&self) -> Vec<Slot> {
        self.by_tid.values().copied().collect()
    }

    /// Number of known threads, including the idle task.
    pub fn living(&self) -> usize {
        self.by_tid.len()
    }

    /// The maximum numbers of threads and of processes that were kept at the same time.
    #[cfg(test)]
    pub fn places(&self) -> (usize, usize) {
        (self.slots.len(), self.processes.places())
    }

    /// Puts every thread of the process in scope, and everything that they will start.
    ///
    /// `pid` is the process that has this id at the end of the snapshot. If it is COMMAND, the events begin before its fork, so they may
    /// still report the end of an earlier owner of the id.
    pub fn include(&mut self, pid: LocalId) {
        self.included.push(pid);
        self.put_in_scope(pid);
    }

    /// Puts processes in scope while they are in a cgroup whose path matches one of the globs. Must be called before any process is known.
    pub fn include_cgroups(&mut self, globs: Vec<Pattern>) {
        self.globs = Some(globs);
    }

    /// Checks whether processes are in cgroups that match these globs. Must be called before any process is known.
    pub fn look_for_cgroups(&mut self, globs: &[Pattern]) {
        self.unseen_globs = globs.to_vec();
    }

    /// The globs among them that have not matched any process so far.
    pub fn unseen_globs(&self) -> &[Pattern] {
        &self.unseen_globs
    }

    /// Remembers that a process is in this cgroup.
    fn see_cgroup(&mut self, path: Option<&str>) {
        if let Some(path) = path.filter(|_| !self.unseen_globs.is_empty()) {
            self.unseen_globs.retain(|glob| !glob::chooses_cgroup([glob], path));
        }
    }

    /// Whether a process in this cgroup is in scope; `None` if cgroups do not determine the scope.
    fn wants_cgroup(&self, path: Option<&str>) -> Option<bool> {
        let globs = self.globs.as_ref()?;
        Some(path.is_some_and(|path| glob::chooses_cgroup(globs, path)))
    }

    /// Sets whether the thread is in scope from now on, as the kernel reports it.
    pub fn choose(&mut self, tid: Tid, wanted: bool) {
        // A late event may be about a thread that has already ended.
        if tid != Tid::IDLE && !self.has_ended(tid) {
            let slot = self.get(tid, None);
            self.thread_mut(slot).in_scope = wanted;
        }
    }

    fn put_in_scope(&mut self, pid: LocalId) {
        let process = self.processes.by_id(pid);
        self.process_mut(process).in_scope = true;
        for thread in &mut self.slots {
            thread.in_scope |= thread.process == process;
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
            throttled: None,
            waits_for: None,
            run: Run::Unknown,
            run_confirmed: self.losses,
            comm_confirmed: self.losses,
            origin: Origin::Seen,
        };
        self.processes.join(process);
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
        self.near[near(tid)] = (tid, slot);
        slot
    }

    /// The tid of a thread that is known by its id in the recorder's pid namespace.
    pub fn tid_of(&self, local: LocalId) -> Option<Tid> {
        self.ids.tid(local)
    }

    /// The thread, if it is known.
    pub fn find(&self, tid: Tid) -> Option<Slot> {
        match self.near[near(tid)] {
            (found, slot) if found == tid => Some(slot),
            _ => self.by_tid.get(&tid).copied(),
        }
    }

    /// The same as [`Threads::find`], and remembers the thread in the cache.
    #[inline(always)]
    pub(super) fn recall(&mut self, tid: Tid) -> Option<Slot> {
        match self.near[near(tid)] {
            (found, slot) if found == tid => Some(slot),
            _ => self.look_up(tid),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, tid: Tid) -> Option<Slot> {
        let slot = *self.by_tid.get(&tid)?;
        self.near[near(tid)] = (tid, slot);
        Some(slot)
    }

    /// Whether an event that names this thread (with the name `comm`, if it has one) changes nothing: the trace has the thread's name, and
    /// neither the name nor the state is uncertain.
    #[inline(always)]
    pub(super) fn is_settled(&self, slot: Slot, comm: &Comm) -> bool {
        let thread = self.thread(slot);
        let named = slot == IDLE
            || *comm == Comm::default()
            || thread.comm_confirmed == self.losses
                && thread.origin != Origin::Snapshot
                && thread.comm != Comm::default();
        thread.run_confirmed == self.losses && thread.naming == Naming::Done && named
    }

    /// The thread, which is added if it is unknown. `comm` is its name, if the event has it.
    pub fn get(&mut self, tid: Tid, comm: Option<&Comm>) -> Slot {
        let slot = match self.recall(tid) {
            Some(slot) => slot,
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
        if thread.run_confirmed != losses {
            thread.run_confirmed = losses;
            thread.run = Run::Unknown;
            thread.waker = None;
            thread.throttled = None;
        }
        let nameless = thread.comm == Comm::default();
        let lost = thread.comm_confirmed != losses;
        let doubtful = lost || thread.origin == Origin::Snapshot;
        let Some(comm) = comm.filter(|_| doubtful || nameless) else {
            return;
        };
        thread.comm_confirmed = losses;
        if thread.origin == Origin::Snapshot {
            thread.origin = Origin::Seen;
        }
        if thread.comm == *comm {
            return;
        }
        thread.comm = *comm;
        thread.naming.outdate();
        let (tid, home) = (thread.tid, thread.process);
        let is_main = self.process(home).local.is_some_and(|id| self.ids.tid(id) == Some(tid));
        let process = self.process_mut(home);
        if lost && is_main {
            // Its execve(2) was lost. A process has the name of its main thread.
            process.name = comm.as_bytes().to_vec();
            process.naming.outdate();
        }
        if process.name.is_empty() {
            // Until now it was named by its id.
            process.naming.outdate();
        }
    }

    /// Adds a thread that no snapshot and no fork has announced.
    #[cold]
    fn discover(&mut self, tid: Tid, comm: Option<&Comm>) -> Slot {
        let comm = comm.copied().unwrap_or_default();
        let koid = self.generations.current(tid);
        let process = self.home_of(tid, &comm);
        let slot = self.insert(tid, koid, process, comm);
        self.note_takeover(slot);
        slot
    }

    /// The id of a main thread that has ended is in use again, in the same process: another thread took over the id in execve(2), which no
    /// other thread survives. If the ends of several threads were not recorded, this is the only one that can have run.
    fn note_takeover(&mut self, main: Slot) {
        let Thread { koid, tid, process, .. } = *self.thread(main);
        let home = self.process(process);
        if home.main_ended != Some(self.losses) || self.ids.local(tid) != home.local {
            return;
        }
        self.process_mut(process).main_ended = None;
        let mut others = self.slots();
        others.retain(|slot| *slot != main && self.thread(*slot).process == process);
        if others.len() > 1 {
            others.retain(|slot| self.run(*slot) != Run::Blocked);
        }
        if let [before] = others[..] {
            let before_koid = self.thread(before).koid;
            self.takeovers.push(Takeover { main: koid, before, before_koid });
        }
    }

    /// Whether [`Threads::take_thread_before_exec`] has a thread to return.
    pub fn has_thread_before_exec(&self, main: Slot) -> bool {
        let koid = self.thread(main).koid;
        self.takeovers.iter().any(|takeover| takeover.main == koid)
    }

    /// The thread that this main thread was before its execve(2), if it has not been seen on a CPU since; returned only once.
    pub fn take_thread_before_exec(&mut self, main: Slot) -> Option<Slot> {
        let koid = self.thread(main).koid;
        let at = self.takeovers.iter().position(|takeover| takeover.main == koid)?;
        let Takeover { before, before_koid, .. } = self.takeovers.swap_remove(at);
        Some(before).filter(|before| self.thread(*before).koid == before_koid)
    }

    fn home_of(&mut self, tid: Tid, comm: &Comm) -> ProcessSlot {
        let Some(local) = self.ids.local(tid) else {
            // Outside of the recorder's pid namespace: its process is unknown.
            return self.add_outer_process(tid, comm.as_bytes());
        };
        let pid = match self.processes.find(local) {
            Some(slot) => {
                let ended = self.process(slot).main_ended;
                if ended.is_some_and(|losses| losses != self.losses) {
                    // As far as can be known, the id of a main thread that has ended belongs to another process now. If nothing was lost
                    // since, another thread took it over in an execve(2).
                    self.processes.replace(local);
                }
                local
            }
            None => self.lookup.process_of(local).unwrap_or(local),
        };
        let process = self.processes.by_id(pid);
        if self.process(process).name.is_empty() {
            let name = self.lookup.process_name(pid).unwrap_or_else(|| comm.as_bytes().to_vec());
            let cgroup = self.lookup.cgroup_of(pid);
            let wanted = self.wants_cgroup(cgroup.as_deref());
            self.see_cgroup(cgroup.as_deref());
            let process = self.process_mut(process);
            process.name = name;
            process.cgroup = cgroup.map(Arc::from);
            process.in_scope = wanted.unwrap_or(process.in_scope);
        }
        process
    }

    /// A thread has been switched out for the last time.
    pub fn end(&mut self, slot: Slot) {
        if slot == IDLE {
            return;
        }
        let Thread { tid, process, .. } = *self.thread(slot);
        self.by_tid.remove(&tid);
        self.near[near(tid)] = NOBODY;
        self.generations.end(tid);
        let local = self.ids.local(tid);
        if local.is_some() && local == self.process(process).local {
            let losses = self.losses;
            self.process_mut(process).main_ended = Some(losses);
            let koid = self.thread(slot).koid;
            self.takeovers.retain(|takeover| takeover.main != koid);
        }
        self.ids.forget(tid);
        self.free.push(slot);
        self.processes.leave(process);
    }

    /// The path of the cgroup of this number, if it exists.
    pub fn cgroup_path(&self, number: u64) -> Option<String> {
        self.lookup.cgroup_path(number)
    }

    /// The koid of the last owner of the id, which may have ended.
    pub fn last_owner(&mut self, tid: Tid) -> Koid {
        self.generations.latest(tid)
    }

    /// Whether the id is known to have no owner: its last owner was switched out for the last time.
    pub fn has_ended(&mut self, tid: Tid) -> bool {
        self.find(tid).is_none() && self.generations.has_ended(tid)
    }

    /// The state of the thread, unless losses make that uncertain.
    pub fn run(&self, slot: Slot) -> Run {
        let thread = self.thread(slot);
        if thread.run_confirmed == self.losses { thread.run } else { Run::Unknown }
    }

    /// Sets the current state of the thread.
    pub fn set_run(&mut self, slot: Slot, run: Run) {
        let losses = self.losses;
        let thread = self.thread_mut(slot);
        if thread.run_confirmed != losses {
            thread.run_confirmed = losses;
            thread.waker = None;
            thread.throttled = None;
        }
        thread.run = run;
    }

    /// Events were lost: the states and names of threads become uncertain.
    pub fn invalidate(&mut self) {
        self.losses += 1;
    }

    /// Forks and names were lost, but no switch: only the names of threads become uncertain.
    pub fn doubt_names(&mut self) {
        for slot in self.slots() {
            self.thread_mut(slot).comm_confirmed = self.losses.wrapping_sub(1);
        }
    }

    /// Whether both threads belong to one process and `to` is its main thread.
    ///
    /// Then `from` took over the main thread's id in an execve(2), if nothing else explains the change.
    pub fn is_takeover(&self, from: Slot, to: Slot) -> bool {
        let (from, to) = (self.thread(from), self.thread(to));
        let main = self.process(to.process).local;
        from.tid != to.tid
            && from.process == to.process
            && main.is_some()
            && main == self.ids.local(to.tid)
    }
}

/// The representation of an outgoing thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingState {
    pub fxt: ThreadState,
    /// The kernel's own state, if the format's state does not imply it.
    pub detail: Option<Detail>,
}

/// The kernel's states that share an FXT state with a more common one, in the order of their strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Preempted,
    /// `D`: uninterruptible sleep.
    Uninterruptible,
    /// `I`: idle kernel thread, uninterruptible but not counted as load.
    IdleSleep,
    /// `P`: parked kernel thread.
    Parked,
    /// `t`: stopped by a tracer.
    Traced,
    /// A state that has no letter on the running kernel, or that is not in this table.
    Other,
}

/// Translates the state in which a thread was switched out.
#[inline]
pub fn outgoing_state(state: PrevState) -> OutgoingState {
    // A preempted thread stays runnable, whatever sleep it was about to begin.
    let (fxt, detail) = match state.letter {
        _ if state.preempted => (ThreadState::Running, Some(Detail::Preempted)),
        'R' => (ThreadState::Running, None),
        'S' => (ThreadState::Blocked, None),
        'D' => (ThreadState::Blocked, Some(Detail::Uninterruptible)),
        'I' => (ThreadState::Blocked, Some(Detail::IdleSleep)),
        'P' => (ThreadState::Blocked, Some(Detail::Parked)),
        'T' => (ThreadState::Suspended, None),
        't' => (ThreadState::Suspended, Some(Detail::Traced)),
        'Z' => (ThreadState::Dying, None),
        'X' | 'x' => (ThreadState::Dead, None),
        _ => (ThreadState::Blocked, Some(Detail::Other)),
    };
    OutgoingState { fxt, detail }
}

pub mod weight {
    //! The `weight` arguments of scheduling records.
    //!
    //! Readers show weights as a thread's priority, and recognize the idle task by the lowest value.

    use fxtrec_units::Tid;

    /// The weight that marks the idle task.
    pub const IDLE: i32 = i32::MIN;

    /// The weight of threads that always take precedence: real-time and deadline.
    pub const REAL_TIME: i32 = i32::MAX;

    /// The weight of a thread with nice 0.
    pub const NICE_0: i32 = 1024;

    /// Kernel priority of nice -20; everything below is real-time or deadline.
    const FIRST_NICE_PRIO: i32 = 100;

    /// Load weights of the fair scheduler for nice -20 to 19: each step is about 25 %, nice 0 is 1024.
    const NICE_WEIGHTS: [i32; 40] = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, //
        9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, //
        1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, //
        110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
    ];

    /// The weight of a thread with the kernel priority `prio`: 100 to 139 correspond to nice -20 to 19.
    #[inline]
    pub fn weight(tid: Tid, prio: i32) -> i32 {
        if tid == Tid::IDLE {
            return IDLE;
        }
        if prio < FIRST_NICE_PRIO {
            return REAL_TIME;
        }
        let step = (prio - FIRST_NICE_PRIO) as usize;
        NICE_WEIGHTS[step.min(NICE_WEIGHTS.len() - 1)]
    }

    /// The kernel priority that has this weight. A weight between two nice levels counts as the lower one; real-time threads get the
    /// highest of their priorities; the idle task gets that of nice 0.
    pub fn priority(weight: i32) -> i32 {
        match weight {
            IDLE => FIRST_NICE_PRIO + 20,
            REAL_TIME => FIRST_NICE_PRIO - 1,
            weight => {
                let step = NICE_WEIGHTS.partition_point(|level| *level > weight);
                FIRST_NICE_PRIO + step.min(NICE_WEIGHTS.len() - 1) as i32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::weight::{IDLE, REAL_TIME, priority, weight};
    use super::{Detail, PrevState, ThreadState, Tid, outgoing_state};

    fn of(letter: char, preempted: bool) -> (ThreadState, Option<Detail>) {
        let state = outgoing_state(PrevState { letter, preempted });
        (state.fxt, state.detail)
    }

    #[test]
    fn states_are_those_of_the_table() {
        assert_eq!(of('R', false), (ThreadState::Running, None));
        assert_eq!(of('R', true), (ThreadState::Running, Some(Detail::Preempted)));
        assert_eq!(of('S', false), (ThreadState::Blocked, None));
        assert_eq!(of('D', false), (ThreadState::Blocked, Some(Detail::Uninterruptible)));
        assert_eq!(of('I', false), (ThreadState::Blocked, Some(Detail::IdleSleep)));
        assert_eq!(of('P', false), (ThreadState::Blocked, Some(Detail::Parked)));
        assert_eq!(of('T', false), (ThreadState::Suspended, None));
        assert_eq!(of('t', false), (ThreadState::Suspended, Some(Detail::Traced)));
        assert_eq!(of('Z', false), (ThreadState::Dying, None));
        assert_eq!(of('X', false), (ThreadState::Dead, None));
        assert_eq!(of('?', false), (ThreadState::Blocked, Some(Detail::Other)));
    }

    #[test]
    fn a_preempted_thread_stays_runnable_even_when_it_was_about_to_sleep() {
        assert_eq!(of('S', true), (ThreadState::Running, Some(Detail::Preempted)));
    }

    #[test]
    fn nice_levels_have_the_kernels_load_weights() {
        assert_eq!(weight(Tid(1), 120), 1024);
        assert_eq!(weight(Tid(1), 100), 88761);
        assert_eq!(weight(Tid(1), 139), 15);
        let weights: Vec<i32> = (100..140).map(|prio| weight(Tid(1), prio)).collect();
        assert!(weights.is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn real_time_deadline_and_idle_have_their_marks() {
        assert_eq!(weight(Tid(1), 99), REAL_TIME);
        assert_eq!(weight(Tid(1), -1), REAL_TIME);
        assert_eq!(weight(Tid(0), 120), IDLE);
        assert_eq!(weight(Tid(1), 140), 15);
    }

    #[test]
    fn a_weight_leads_back_to_its_priority() {
        for prio in 100..140 {
            assert_eq!(priority(weight(Tid(1), prio)), prio);
        }
        assert_eq!((priority(REAL_TIME), priority(IDLE), priority(1000)), (99, 120, 121));
    }
}
