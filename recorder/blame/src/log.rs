//! What threads and CPUs did lately, so that it can be followed backwards.
//!
//! ```text
//!   time   entry                 prev: the thread's last one     link
//!    10    A runs on CPU 0                                       who had CPU 0 before
//!    20    A sleeps              10
//!    20    B runs on CPU 0                                       10
//!    90    A is woken by B       20                              20: what B did then
//!    95    A runs on CPU 1       90                              who had CPU 1 before
//! ```
//!
//! Entries of one thread follow each other without holes, so an entry ends where the thread's next one begins. The log keeps
//! so many entries; of what is older, nothing is known ([`Reason::NotKept`]).

use std::collections::VecDeque;

use fxt_reader::Cpu;
use fxtrec_sched::State;
use rustc_hash::FxHashMap;

use crate::threads::Index;
use crate::track::{About, Begin, By, Lock, Reason, Tenant};

/// So many entries are kept, of 32 bytes each. A switch takes two or three, a wake-up one.
pub const MOST: usize = 6_000_000;

/// The number of an entry. They go around, after more entries than are ever kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

impl Id {
    pub const NONE: Id = Id(u32::MAX);
}

/// In place of a thread.
const IDLE: Index = Index::MAX;
const OUT_OF_SCOPE: Index = Index::MAX - 1;
const NOBODY: Index = Index::MAX - 2;

/// What the details of an entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// Who has a CPU. The link is the CPU's entry before; the detail, what was taken of the slice, if anything.
    Slice,
    WokenBy,
    WokenByInterrupt,
    Woken,
    Syscall,
    NoSyscall,
    /// It goes on waiting. The link is who had the CPU in whose queue it was until then.
    Queue,
    Unknown(Reason),
}

/// The beginning of a stretch.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub time: u64,
    detail: u64,
    /// The thread's entry before.
    pub prev: Id,
    link: Id,
    pub thread: Index,
    pub cpu: Cpu,
    pub state: State,
    kind: Kind,
}

/// What was taken of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub steal: u64,
    pub irq: u64,
}

impl Entry {
    fn tenant(&self) -> Tenant {
        match self.thread {
            IDLE => Tenant::Idle,
            OUT_OF_SCOPE => Tenant::OutOfScope,
            NOBODY => Tenant::Unknown,
            thread => Tenant::Thread(thread),
        }
    }

    /// Who woke the thread, and what that one did then; `None` unless it begins with a wake-up.
    pub fn woken(&self) -> Option<(By, Id)> {
        match self.kind {
            Kind::WokenBy => Some((By::Thread(self.detail as Index), self.link)),
            Kind::WokenByInterrupt => Some((By::Interrupt, Id::NONE)),
            Kind::Woken => Some((By::Unknown, Id::NONE)),
            _ => None,
        }
    }

    pub fn syscall(&self) -> Option<u64> {
        (self.kind == Kind::Syscall).then_some(self.detail)
    }

    pub fn reason(&self) -> Reason {
        match self.kind {
            Kind::Unknown(reason) => reason,
            _ => Reason::NotSeen,
        }
    }

    /// Who had a CPU until the entry began: which entry to look back from.
    pub fn anchor(&self) -> Option<Id> {
        matches!(self.kind, Kind::Slice | Kind::Queue).then_some(self.link)
    }
}

/// The last entries.
#[derive(Debug)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The numbers of the oldest entry, and of the next one.
    oldest: u32,
    next: u32,
    /// Whether some have been left out.
    is_rolling: bool,
    most: usize,
    /// Whether entries are kept already, beyond the last one of each thread and CPU.
    on: bool,
    /// The last entry of each thread; while nothing is kept, the entry itself.
    last: Vec<Id>,
    before: Vec<Option<Entry>>,
    on_cpu: Vec<Id>,
    cpu_before: Vec<Option<Entry>>,
    /// What does not fit into the detail of a slice.
    large: FxHashMap<u32, Taken>,
    /// Whose quota it was, of stretches in which one held the thread back.
    quotas: FxHashMap<u32, u32>,
    /// Which lock it was, of stretches in which the thread was blocked on one.
    locks: FxHashMap<u32, Lock>,
    /// While nothing is kept: the last one of each thread, and since when it waits for that.
    locks_before: FxHashMap<Index, (u64, Lock)>,
}

/// The number after this one. [`Id::NONE`] is left out.
#[inline]
fn next_of(number: u32) -> u32 {
    if number >= u32::MAX - 1 { 0 } else { number + 1 }
}

fn at<T: Clone>(list: &mut Vec<T>, index: usize, empty: T) -> &mut T {
    if index >= list.len() {
        list.resize(index + 1, empty);
    }
    &mut list[index]
}

impl Log {
    pub fn new(most: usize) -> Log {
        Log {
            entries: VecDeque::new(),
            oldest: 0,
            next: 0,
            is_rolling: false,
            most: most.max(1),
            on: false,
            last: Vec::new(),
            before: Vec::new(),
            on_cpu: Vec::new(),
            cpu_before: Vec::new(),
            large: FxHashMap::default(),
            quotas: FxHashMap::default(),
            locks: FxHashMap::default(),
            locks_before: FxHashMap::default(),
        }
    }

    /// From now on, entries are kept.
    pub fn switch_on(&mut self) {
        if self.on {
            return;
        }
        self.on = true;
        // Room that is not used costs nothing; growing would copy what is there. Without it, it grows as it must.
        let _ = self.entries.try_reserve_exact(self.most);
        // Who has which CPU first: slices are entries of threads too.
        for entry in std::mem::take(&mut self.cpu_before).into_iter().flatten() {
            let id = self.push(Entry { prev: Id::NONE, link: Id::NONE, ..entry });
            *at(&mut self.on_cpu, usize::from(entry.cpu.0), Id::NONE) = id;
            if let Tenant::Thread(thread) = entry.tenant() {
                *at(&mut self.last, thread as usize, Id::NONE) = id;
            }
        }
        for entry in std::mem::take(&mut self.before).into_iter().flatten() {
            let thread = entry.thread as usize;
            let known = self.last(entry.thread).and_then(|id| self.get(id));
            if entry.state == State::Running && known.is_some_and(|it| it.time == entry.time) {
                continue;
            }
            let id = self.push(Entry { prev: Id::NONE, link: Id::NONE, ..entry });
            *at(&mut self.last, thread, Id::NONE) = id;
            if let Some((since, lock)) = self.locks_before.get(&entry.thread)
                && *since == entry.time
            {
                self.locks.insert(id.0, *lock);
            }
        }
    }

    /// Since when all is kept, if it has left out something since it was switched on.
    pub fn is_rolling_since(&self) -> Option<u64> {
        self.entries.front().filter(|_| self.is_rolling).map(|oldest| oldest.time)
    }

    /// Whether entries are kept.
    pub fn is_on(&self) -> bool {
        self.on
    }

    #[inline]
    fn push(&mut self, entry: Entry) -> Id {
        if self.entries.len() >= self.most {
            self.forget_oldest();
        }
        let id = Id(self.next);
        self.next = next_of(self.next);
        self.entries.push_back(entry);
        id
    }

    #[cold]
    fn forget_oldest(&mut self) {
        self.is_rolling = true;
        self.entries.pop_front();
        self.large.remove(&self.oldest);
        self.quotas.remove(&self.oldest);
        self.locks.remove(&self.oldest);
        self.oldest = next_of(self.oldest);
    }

    #[inline]
    fn place(&self, id: Id) -> Option<usize> {
        if id == Id::NONE {
            return None;
        }
        let place = match id.0.checked_sub(self.oldest) {
            Some(place) => place,
            // They went around since.
            None => id.0 + (u32::MAX - self.oldest),
        };
        Some(place as usize).filter(|place| *place < self.entries.len())
    }

    /// The entry, unless there is none or it is not kept any more.
    pub fn get(&self, id: Id) -> Option<&Entry> {
        self.entries.get(self.place(id)?)
    }

    /// The thread's last entry.
    pub fn last(&self, thread: Index) -> Option<Id> {
        self.last.get(thread as usize).copied().filter(|id| *id != Id::NONE)
    }

    /// A thread begins to do something.
    #[inline]
    pub fn begin(&mut self, thread: Index, begin: Begin) {
        let Begin { time, state, cpu, about } = begin;
        let (kind, detail, link) = match about {
            _ if state == State::Running => (Kind::Slice, 0, self.on_cpu(cpu)),
            About::Nothing => (Kind::Nothing, 0, Id::NONE),
            About::Woken(By::Thread(by)) => {
                (Kind::WokenBy, u64::from(by), self.last(by).unwrap_or(Id::NONE))
            }
            About::Woken(By::Interrupt) => (Kind::WokenByInterrupt, 0, Id::NONE),
            About::Woken(By::Unknown) => (Kind::Woken, 0, Id::NONE),
            About::Syscall(Some(number)) => (Kind::Syscall, number, Id::NONE),
            About::Syscall(None) => (Kind::NoSyscall, 0, Id::NONE),
            About::Queue(cpu) => (Kind::Queue, 0, self.on_cpu(cpu)),
            About::Unknown(reason) => (Kind::Unknown(reason), 0, Id::NONE),
        };
        let prev = self.last(thread).unwrap_or(Id::NONE);
        let entry = Entry { time, detail, prev, link, thread, cpu, state, kind };
        if !self.on {
            *at(&mut self.before, thread as usize, None) = Some(entry);
            if state == State::Running {
                *at(&mut self.cpu_before, usize::from(cpu.0), None) = Some(entry);
            }
            return;
        }
        let id = self.push(entry);
        *at(&mut self.last, thread as usize, Id::NONE) = id;
        if state == State::Running {
            *at(&mut self.on_cpu, usize::from(cpu.0), Id::NONE) = id;
        }
    }

    fn on_cpu(&self, cpu: Cpu) -> Id {
        self.on_cpu.get(usize::from(cpu.0)).copied().unwrap_or(Id::NONE)
    }

    /// A CPU goes to another than a thread.
    #[inline]
    pub fn tenant(&mut self, cpu: Cpu, time: u64, tenant: Tenant) {
        let thread = match tenant {
            Tenant::Idle => IDLE,
            Tenant::OutOfScope => OUT_OF_SCOPE,
            Tenant::Unknown | Tenant::Thread(_) => NOBODY,
        };
        let (state, kind, link) = (State::Unknown, Kind::Slice, self.on_cpu(cpu));
        let entry = Entry { time, detail: 0, prev: Id::NONE, link, thread, cpu, state, kind };
        if self.on {
            let id = self.push(entry);
            *at(&mut self.on_cpu, usize::from(cpu.0), Id::NONE) = id;
        } else {
            *at(&mut self.cpu_before, usize::from(cpu.0), None) = Some(entry);
        }
    }

    /// Something was taken of the slice that the thread is in.
    pub fn taken(&mut self, thread: Index, taken: Taken) {
        let Some(id) = self.last(thread).filter(|_| self.on) else { return };
        let Some(place) = self.place(id) else { return };
        let entry = &mut self.entries[place];
        if entry.state != State::Running {
            return;
        }
        match (u32::try_from(taken.steal), u32::try_from(taken.irq)) {
            (Ok(steal), Ok(irq)) => entry.detail = u64::from(steal) << 32 | u64::from(irq),
            _ => {
                self.large.insert(id.0, taken);
            }
        }
    }

    /// What was taken of a slice.
    pub fn taken_of(&self, id: Id) -> Taken {
        if let Some(taken) = self.large.get(&id.0) {
            return *taken;
        }
        match self.get(id) {
            Some(entry) if entry.state == State::Running => {
                let irq = entry.detail & u64::from(u32::MAX);
                Taken { steal: entry.detail >> 32, irq }
            }
            _ => Taken::default(),
        }
    }

    /// Whose quota held the thread back in the wait that is over.
    pub fn quota(&mut self, thread: Index, cgroup: u32) {
        let mut next = self.last(thread).filter(|_| self.on);
        while let Some((id, entry)) = next.and_then(|id| Some((id, self.get(id)?))) {
            if !entry.state.is_waiting() {
                return;
            }
            let (prev, throttled) = (entry.prev, entry.state.is_throttled());
            if throttled {
                self.quotas.insert(id.0, cgroup);
            }
            next = Some(prev);
        }
    }

    /// Whose quota held the thread back in this stretch, if that was told.
    pub fn quota_of(&self, id: Id) -> Option<u32> {
        self.quotas.get(&id.0).copied()
    }

    /// Which lock the thread waits for that has begun to be blocked.
    pub fn lock(&mut self, thread: Index, time: u64, lock: Lock) {
        match self.last(thread).filter(|_| self.on) {
            Some(id) => self.locks.insert(id.0, lock).map(|_| ()),
            None => self.locks_before.insert(thread, (time, lock)).map(|_| ()),
        };
    }

    /// Which lock the thread waited for in this stretch, if that was told.
    pub fn lock_of(&self, id: Id) -> Option<Lock> {
        self.locks.get(&id.0).copied()
    }

    /// Who had a CPU from one time to another, looking back from what came after. How long each, and how many entries that
    /// took; what is missing is unknown.
    pub fn tenants(
        &self,
        cpu: Cpu,
        anchor: Option<Id>,
        (from, to): (u64, u64),
        mut found: impl FnMut(Tenant, u64),
    ) -> u64 {
        let (mut until, mut steps) = (u64::MAX, 0);
        let mut left = to.saturating_sub(from);
        let mut next = anchor.unwrap_or(Id::NONE);
        while left > 0 {
            let Some(entry) = self.get(next).filter(|entry| entry.cpu == cpu) else { break };
            steps += 1;
            let (begin, end) = (entry.time.max(from), until.min(to));
            if begin < end {
                let length = (end - begin).min(left);
                found(entry.tenant(), length);
                left -= length;
            }
            until = until.min(entry.time);
            next = entry.link;
        }
        if left > 0 {
            found(Tenant::Unknown, left);
        }
        steps
    }

    /// Where to look back from for who has the CPU now.
    pub fn anchor_of_cpu(&self, cpu: Cpu) -> Option<Id> {
        Some(self.on_cpu(cpu))
    }
}
