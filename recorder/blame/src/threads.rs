//! The threads of a trace: their numbers and names.

use fxt_reader::record::KernelObject;
use fxt_reader::{Koid, ProviderId};
use rustc_hash::{FxHashMap, FxHashSet};

/// In fxtrec's traces, the low bits of a koid are the thread id.
const ID_BITS: u32 = 22;

/// The maximum number of merged recordings that are distinguished; a file may name any number.
pub const MOST_RECORDERS: usize = 64;

/// Names of threads that every recorder has: `fxtrec record`, the daemon, and the process that writes a session's trace.
const RECORDERS_THREADS: [&str; 4] =
    ["fxtrec-capture", "fxtrec-drain", "fxtrec-control", "fxtrec-output"];

/// Threads of a trace by number, in the order in which something first happened to them.
pub type Index = u32;

/// Names that are kept for each thread in addition to the last one.
const MOST_NAMES: usize = 8;

/// The providers of a trace that record the scheduler as fxtrec does. Other providers are programs that record their own events; their
/// events about scheduling or about the recording are ignored.
#[derive(Clone, Debug, Default)]
pub struct Recorders(Vec<ProviderId>);

impl Recorders {
    pub fn introduce(&mut self, id: ProviderId) {
        if !self.0.contains(&id) && self.0.len() < MOST_RECORDERS {
            self.0.push(id);
        }
    }

    /// Whether a record belongs to one of these threads. If no such thread is known, any record may belong to one.
    pub fn have(&self, provider: Option<ProviderId>) -> bool {
        self.0.is_empty() || provider.is_some_and(|id| self.0.contains(&id))
    }
}

/// The limit, in bytes, for names that programs gave their threads and processes, with the overhead of each.
pub const MOST_NAME_BYTES: usize = 32 << 20;

/// The overhead of a thread or process with a name, in bytes: slots in a half-full map.
const NAMED_BYTES: usize = 160;

/// The overhead of a name, in bytes.
const NAME_BYTES: usize = 64;

/// The memory for names that programs gave their threads and processes. A scheduler recorder names each once or twice; a program may name
/// any number, any number of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameBudget {
    bytes: usize,
    /// The number of names that exceeded the limit.
    pub left_out: u64,
}

impl NameBudget {
    /// Reserves memory for a name, which may be new, of a thread or process, which may be new too. Returns false if the limit is reached:
    /// the thread or process then keeps its previous name.
    pub fn has_room(&mut self, name: &str, is_new_name: bool, is_new: bool) -> bool {
        // It may also be kept as an earlier name.
        let for_name = if is_new_name { NAME_BYTES + 2 * name.len() } else { 0 };
        let bytes = for_name + if is_new { NAMED_BYTES } else { 0 };
        let has_room = self.bytes + bytes <= MOST_NAME_BYTES;
        match has_room {
            true => self.bytes += bytes,
            false => self.left_out = self.left_out.saturating_add(1),
        }
        has_room
    }
}

/// Earlier names of a thread. Records of names precede the scheduling records of the same time, so when a thread is woken for the first
/// time, its last name is often not yet its name.
#[derive(Clone, Debug, Default)]
pub struct EarlierNames(Vec<Box<str>>);

impl EarlierNames {
    /// The thread is not called `name` any more.
    pub fn add(&mut self, name: &str) {
        if !name.is_empty() && self.0.len() < MOST_NAMES && !self.has(name) {
            self.0.push(name.into());
        }
    }

    /// The first name; `None` if the name has never changed.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(|name| &**name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| **it == *name)
    }
}

#[derive(Debug, Default)]
struct Named {
    comm: Box<str>,
    earlier: EarlierNames,
    process: Option<u64>,
}

/// All threads of a trace.
#[derive(Debug, Default)]
pub struct KnownThreads {
    /// Whether koids are fxtrec's: thread ids with a generation, and 0 alone is idle.
    pub by_fxtrec: bool,
    indices: FxHashMap<u64, Index>,
    koids: Vec<u64>,
    named: FxHashMap<u64, Named>,
    processes: FxHashMap<u64, Process>,
    name_budget: NameBudget,
}

#[derive(Debug)]
struct Process {
    name: Box<str>,
    cgroup: Option<Box<str>>,
    /// Whether it was in another cgroup before.
    moved: bool,
    host: Option<Box<str>>,
}

impl KnownThreads {
    /// The number of a thread, which is assigned if the thread is new.
    #[inline]
    pub fn index(&mut self, koid: u64) -> Index {
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

    /// The number of a thread, if it had events.
    pub fn find(&self, koid: u64) -> Option<Index> {
        self.indices.get(&koid).copied()
    }

    pub fn koid(&self, index: Index) -> u64 {
        self.koids.get(index as usize).copied().unwrap_or(0)
    }

    /// The koids of all threads with events.
    pub fn koids(&self) -> impl Iterator<Item = u64> + '_ {
        self.koids.iter().copied()
    }

    /// Names a process; `is_reported` if a program reported the name.
    pub fn name_process(&mut self, object: &KernelObject<'_>, is_reported: bool) {
        let known = self.processes.get(&object.koid.0);
        let is_new_name = known.is_none_or(|known| *known.name != *object.name);
        let cgroup = object.args.str("cgroup");
        let is_new_cgroup =
            cgroup.is_some() && known.is_none_or(|it| it.cgroup.as_deref() != cgroup);
        let host = object.args.str("host");
        let is_new_host = host.is_some() && known.is_none_or(|it| it.host.as_deref() != host);
        let is_new = known.is_none();
        if is_reported
            && !(self.name_budget.has_room(object.name, is_new_name, is_new)
                && self.name_budget.has_room(cgroup.unwrap_or_default(), is_new_cgroup, false)
                && self.name_budget.has_room(host.unwrap_or_default(), is_new_host, false))
        {
            return;
        }
        let (cgroup, host): (Option<Box<str>>, Option<Box<str>>) =
            (cgroup.map(Into::into), host.map(Into::into));
        let known = self.processes.remove(&object.koid.0);
        let (known_cgroup, known_host, moved) =
            known.map_or((None, None, false), |it| (it.cgroup, it.host, it.moved));
        let moved = moved || !is_reported && is_new_cgroup && known_cgroup.is_some();
        // Programs know only their names.
        let (cgroup, host) = match is_reported {
            true => (known_cgroup.or(cgroup), known_host.or(host)),
            false => (cgroup.or(known_cgroup), host.or(known_host)),
        };
        let name = object.name.into();
        self.processes.insert(object.koid.0, Process { name, cgroup, moved, host });
    }

    /// Names a thread; `is_reported` if a program reported the name.
    pub fn name_thread(&mut self, object: &KernelObject<'_>, is_reported: bool) {
        let known = self.named.get(&object.koid.0);
        let is_new_name = known.is_none_or(|known| *known.comm != *object.name);
        let is_new = known.is_none();
        if is_reported && !self.name_budget.has_room(object.name, is_new_name, is_new) {
            return;
        }
        let process = object.process().map(|Koid(process)| process);
        let named = self.named.entry(object.koid.0).or_default();
        if *named.comm != *object.name {
            named.earlier.add(&named.comm);
            named.comm = object.name.into();
        }
        named.process = process.or(named.process);
    }

    /// The thread's last name.
    pub fn comm(&self, koid: u64) -> Option<&str> {
        self.named.get(&koid).map(|named| &*named.comm)
    }

    /// The koid of the thread's process.
    pub fn process(&self, koid: u64) -> Option<u64> {
        self.named.get(&koid)?.process
    }

    /// The process's name.
    pub fn process_name(&self, koid: u64) -> Option<&str> {
        self.processes.get(&koid).map(|process| &*process.name)
    }

    /// The path of the cgroup that the process was in all the time, if known.
    pub fn only_cgroup(&self, koid: u64) -> Option<&str> {
        self.processes.get(&koid).filter(|it| !it.moved)?.cgroup.as_deref()
    }

    /// The path of the process's last cgroup, if known.
    pub fn cgroup(&self, koid: u64) -> Option<&str> {
        self.processes.get(&koid)?.cgroup.as_deref()
    }

    /// The host of the process, in a merged trace.
    pub fn host(&self, koid: u64) -> Option<&str> {
        self.processes.get(&koid)?.host.as_deref()
    }

    pub fn tid(&self, koid: u64) -> u64 {
        if self.by_fxtrec { koid & ((1 << ID_BITS) - 1) } else { koid }
    }

    /// Moves the names to another pass over the same trace.
    pub fn with_names_of(&mut self, other: KnownThreads) {
        self.named = other.named;
        self.processes = other.processes;
    }
}

/// Names and processes of threads.
pub trait Known {
    /// The thread's last name.
    fn comm(&self, koid: u64) -> Option<&str>;
    fn earlier_names(&self, koid: u64) -> Option<&EarlierNames>;
    /// The koid of the thread's process.
    fn process(&self, koid: u64) -> Option<u64>;
    fn tid(&self, koid: u64) -> u64;
}

impl Known for KnownThreads {
    fn comm(&self, koid: u64) -> Option<&str> {
        KnownThreads::comm(self, koid)
    }

    fn earlier_names(&self, koid: u64) -> Option<&EarlierNames> {
        self.named.get(&koid).map(|named| &named.earlier)
    }

    fn process(&self, koid: u64) -> Option<u64> {
        KnownThreads::process(self, koid)
    }

    fn tid(&self, koid: u64) -> u64 {
        KnownThreads::tid(self, koid)
    }
}

/// The threads of COMMAND and its descendants.
///
/// The thread that wakes another for the first time has created it, unless the woken thread existed before. Only if the waker is known and
/// certainly not COMMAND's is the woken thread certainly not COMMAND's.
#[derive(Debug, Default)]
pub struct CommandThreads {
    /// COMMAND's process.
    pub process: Option<u64>,
    /// The processes that made the recording: one, or one for each merged recording.
    pub recorders: Vec<u64>,
    /// Threads that one of them woke for the first time, without any earlier record.
    born: FxHashSet<u64>,
    /// COMMAND's processes in all merged recordings.
    commands: FxHashSet<u64>,
    /// Processes with a thread whose name is that of a recorder's thread.
    like_recorders: FxHashSet<u64>,
    /// Processes that a recorder created for its own work: all its children except COMMAND's process.
    made: FxHashSet<u64>,
    /// Threads whose creator is unknown.
    doubtful: FxHashSet<u64>,
}

impl CommandThreads {
    /// Whether the thread belongs to a recorder.
    pub fn has(&self, known_threads: &impl Known, koid: u64) -> bool {
        let Some(command) = self.process else { return false };
        let process = known_threads.process(koid);
        let born = |koid| self.born.contains(&koid);
        koid == command || process == Some(command) || born(koid) || process.is_some_and(born)
    }

    /// The trace names COMMAND's process.
    pub fn has_command(&mut self, process: u64) {
        self.process = Some(process);
        self.commands.insert(process);
    }

    /// Whether this is COMMAND's process or, in merged recordings, one of the COMMAND processes.
    pub fn is_command(&self, process: u64) -> bool {
        self.commands.contains(&process)
    }

    /// The trace names the process that recorded it; 0 means none.
    pub fn is_recorded_by(&mut self, process: u64) {
        if process != 0
            && !self.recorders.contains(&process)
            && self.recorders.len() < MOST_RECORDERS
        {
            self.recorders.push(process);
        }
    }

    /// Whether the thread belongs to a process that made the recording.
    pub fn is_recorder(&self, known_threads: &impl Known, koid: u64) -> bool {
        let process = known_threads.process(koid);
        let is_own = |koid| self.recorders.contains(&koid) || self.made.contains(&koid);
        is_own(koid) || process.is_some_and(|it| is_own(it) || self.is_another(known_threads, it))
    }

    /// A recording names a thread.
    pub fn is_named(&mut self, comm: &str, process: Option<u64>) {
        if RECORDERS_THREADS.contains(&comm) && self.like_recorders.len() < MOST_RECORDERS {
            self.like_recorders.extend(process);
        }
    }

    /// Whether the process is another recorder, such as the daemon, according to the names of its threads.
    fn is_another(&self, known_threads: &impl Known, process: u64) -> bool {
        self.like_recorders.contains(&process)
            && !self.commands.contains(&process)
            && matches!(known_threads.comm(process), Some("fxtrec" | "fxtrec-output"))
    }

    /// Whether the thread certainly belongs to none of these. Always false if COMMAND is unknown.
    pub fn is_without(&self, known_threads: &impl Known, koid: u64) -> bool {
        let doubtful = |koid| self.doubtful.contains(&koid);
        self.process.is_some()
            && !self.has(known_threads, koid)
            && !doubtful(koid)
            && !known_threads.process(koid).is_some_and(doubtful)
    }

    /// A thread without earlier records is woken. A new thread has the name of the thread that created it, which is also the one that wakes
    /// it; kernel threads have their own names. Ids ascend, so a thread that existed before COMMAND has a smaller id, unless ids wrapped
    /// around in between.
    pub fn first_woken(
        &mut self,
        known_threads: &impl Known,
        koid: u64,
        (waker, interrupt): (Option<Koid>, bool),
    ) {
        let inherits_from = |waker: u64| inherits(known_threads, koid, waker);
        if let (Some(Koid(waker)), false) = (waker, interrupt)
            && !self.commands.contains(&koid)
            && self.is_recorder(known_threads, waker)
            && inherits_from(waker)
        {
            self.made.insert(koid);
            return;
        }
        let Some(command) = self.process else { return };
        match waker {
            // Interrupts do not create threads.
            _ if interrupt => {}
            None | Some(Koid(0)) => {
                self.doubtful.insert(koid);
            }
            Some(Koid(waker)) if self.has(known_threads, waker) => {
                match inherits_from(waker) && known_threads.tid(koid) > known_threads.tid(command) {
                    true => self.born.insert(koid),
                    false => self.doubtful.insert(koid),
                };
            }
            Some(Koid(waker)) => {
                if !self.is_without(known_threads, waker) {
                    self.doubtful.insert(koid);
                }
            }
        }
    }
}

/// Whether `creator` may have created the thread: a new thread has the name of its creator.
pub fn inherits(known_threads: &impl Known, koid: u64, creator: u64) -> bool {
    let first = known_threads.earlier_names(koid).and_then(EarlierNames::first);
    first.or(known_threads.comm(koid)).is_some_and(|name| {
        known_threads.comm(creator) == Some(name)
            || known_threads.earlier_names(creator).is_some_and(|names| names.has(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: u64 = 500;

    /// Threads of fxtrec's traces, whose koids are their ids: COMMAND, a thread that existed before, and others by name.
    fn family() -> (KnownThreads, CommandThreads) {
        let mut known_threads = KnownThreads { by_fxtrec: true, ..KnownThreads::default() };
        for (koid, comm) in
            [(COMMAND, "app"), (400, "shell"), (510, "app"), (520, "shell"), (530, "x")]
        {
            known_threads
                .named
                .insert(koid, Named { comm: comm.into(), process: Some(koid), ..Named::default() });
            known_threads.index(koid);
        }
        (known_threads, CommandThreads { process: Some(COMMAND), ..CommandThreads::default() })
    }

    #[test]
    fn who_is_made_by_commands_threads_is_one_of_them_and_by_others_a_stranger() {
        let (known_threads, mut family) = family();
        family.first_woken(&known_threads, 510, (Some(Koid(COMMAND)), false));
        family.first_woken(&known_threads, 520, (Some(Koid(400)), false));
        let is = |koid| (family.has(&known_threads, koid), family.is_without(&known_threads, koid));
        assert_eq!(
            [COMMAND, 510, 520, 400].map(is),
            [(true, false), (true, false), (false, true), (false, true)]
        );
    }

    #[test]
    fn a_process_that_the_recorder_made_for_itself_is_the_recorders_and_command_is_not() {
        let (mut known_threads, mut family) = family();
        family.is_recorded_by(400);
        // COMMAND of another recording, after a merge.
        family.has_command(520);
        family.has_command(COMMAND);
        // All of them begin with the name of their creator.
        for (koid, before) in [(COMMAND, "shell"), (520, "shell"), (530, "shell"), (510, "other")] {
            known_threads.named.get_mut(&koid).expect("it has a name").earlier.add(before);
        }
        for koid in [COMMAND, 520, 530, 510] {
            family.first_woken(&known_threads, koid, (Some(Koid(400)), false));
        }
        let is = |koid| family.is_recorder(&known_threads, koid);
        assert_eq!([400, 530, COMMAND, 520, 510].map(is), [true, true, false, false, false]);
    }

    #[test]
    fn another_recorder_is_known_by_the_names_of_its_threads() {
        let (mut known_threads, mut family) = family();
        // `fxtrec report` has no such thread, and a program with such a thread may be anything.
        for (koid, process, comm) in [
            (600, 600, "fxtrec"),
            (601, 600, "fxtrec-drain"),
            (700, 700, "fxtrec"),
            (701, 700, "fxtrec-report"),
            (800, 800, "app"),
            (801, 800, "fxtrec-drain"),
        ] {
            let process = Some(process);
            known_threads
                .named
                .insert(koid, Named { comm: comm.into(), process, ..Named::default() });
            family.is_named(comm, process);
        }
        let is = |koid| family.is_recorder(&known_threads, koid);
        assert_eq!([600, 601, 700, 701, 801].map(is), [true, true, false, false, false]);
        family.has_command(600);
        assert!(!family.is_recorder(&known_threads, 601), "it is what was recorded");
    }

    #[test]
    fn who_was_made_by_command_under_a_name_that_it_had_then_is_one_of_them() {
        let (mut known_threads, mut family) = family();
        // The shell that created it has become another program, and so have its children, before the first record of the scheduler.
        for (koid, before) in [(COMMAND, "sh"), (530, "sh"), (400, "sh")] {
            known_threads.named.get_mut(&koid).expect("it has a name").earlier.add(before);
        }
        family.first_woken(&known_threads, 530, (Some(Koid(COMMAND)), false));
        assert!(family.has(&known_threads, 530));
        // A stranger that existed earlier is not among them, whatever its name.
        family.first_woken(&known_threads, 400, (Some(Koid(COMMAND)), false));
        assert!(!family.has(&known_threads, 400));
    }

    #[test]
    fn of_whom_it_is_not_known_who_made_them_nobody_says_anything() {
        for waker in [None, Some(Koid(0)), Some(Koid(COMMAND))] {
            let (known_threads, mut family) = family();
            // Not even if COMMAND woke it, because its name differs.
            family.first_woken(&known_threads, 530, (waker, false));
            assert!(
                !family.has(&known_threads, 530) && !family.is_without(&known_threads, 530),
                "{waker:?}"
            );
            // The same holds for threads that it creates.
            family.first_woken(&known_threads, 520, (Some(Koid(530)), false));
            assert!(
                !family.has(&known_threads, 520) && !family.is_without(&known_threads, 520),
                "{waker:?}"
            );
        }
        let (known_threads, mut family) = family();
        family.first_woken(&known_threads, 530, (None, true));
        assert!(family.is_without(&known_threads, 530), "an interrupt makes nobody");
        family.process = None;
        assert!(!family.is_without(&known_threads, 530), "without COMMAND nobody is a stranger");
    }
}
