//! The recent activity of threads and CPUs, so that it can be followed backwards.
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
//! Entries of one thread follow each other without gaps, so an entry ends where the thread's next entry begins. The log keeps a limited
//! number of entries; earlier times are unknown ([`Reason::NotKept`]). A caller that knows the start of its interval can have older entries
//! dropped, except for the state of each thread and CPU at that time:
//!
//! ```text
//!   A sleeps | B runs | B sleeps, C runs | C wakes B | ...          before:  kept by place
//!                               ^ from here on                      after:   held: A sleeps; by place: C wakes B | ...
//! ```
//!
//! The main cost of keeping entries is touching memory for the first time, so the two entries of most switches share a slot:
//!
//! ```text
//!   A, which had CPU 0, is blocked        its entry before is the one that had the CPU before,
//!   B runs on CPU 0                       at the same time, on the same CPU: one place with two numbers
//! ```

use fxt_reader::Cpu;
use fxtrec_sched::State;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::origins::Origin;
use crate::threads::Index;
use crate::track::{About, Begin, By, Lock, OnCpu, Reason, Request};

/// Number of slots of 32 bytes that are kept. A wakeup takes one; a switch usually one, at most three.
pub const MOST: usize = 6_000_000;

/// Number of slots filled before the first search for entries that can be forgotten.
const ROOM: usize = 1 << 20;

/// The number of an entry: twice the number of its slot, plus one for the thread switched in if it shares the slot with the thread switched
/// out. Numbers wrap around after more slots than are ever kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

impl Id {
    pub const NONE: Id = Id(u32::MAX);

    fn place(self) -> u32 {
        self.0 >> 1
    }

    fn is_second(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Special values of the thread field.
const IDLE: Index = Index::MAX;
const OUT_OF_SCOPE: Index = Index::MAX - 1;
const NOBODY: Index = Index::MAX - 2;

/// The kind of details of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// A thread has a CPU. The link is the CPU's previous entry; the detail is the time taken from the slice, if any.
    Slice,
    /// The detail is the waker. For a wakeup by a packet, its upper half is the time from the sending of the packet to the wakeup.
    WokenBy,
    WokenByPacket,
    WokenByInterrupt,
    Woken,
    Syscall,
    NoSyscall,
    /// It continues to wait. The link is the entry of the thread that had the CPU in whose queue it was until then.
    Queue,
    Unknown(Reason),
    /// Both threads of a switch. All fields but the state belong to the thread that is switched in; the lower half of the detail is the
    /// time of interrupts, if nothing else was taken from the slice. The upper half is the system call of the thread that is switched out,
    /// the state is its state, and the link is its previous entry.
    SwitchInSyscall,
    SwitchInNoSyscall,
}

/// The beginning of an interval.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub time: u64,
    detail: u64,
    /// The thread's previous entry.
    pub prev: Id,
    link: Id,
    pub thread: Index,
    pub cpu: Cpu,
    pub state: State,
    kind: Kind,
}

// The unit in which the kept data is measured.
const _: () = assert!(size_of::<Entry>() == 32);

/// The time that the host, interrupts and quotas took from a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub steal: u64,
    pub irq: u64,
}

impl Entry {
    fn is_both(&self) -> bool {
        matches!(self.kind, Kind::SwitchInSyscall | Kind::SwitchInNoSyscall)
    }

    /// One of the two entries that share a slot.
    fn part(self, is_second: bool) -> Entry {
        let kind = match self.kind {
            Kind::SwitchInSyscall => Kind::Syscall,
            Kind::SwitchInNoSyscall => Kind::NoSyscall,
            _ => return self,
        };
        if is_second {
            let is_thread = self.thread < NOBODY;
            let state = if is_thread { State::Running } else { State::Unknown };
            let detail = self.detail & u64::from(u32::MAX);
            return Entry { detail, state, kind: Kind::Slice, ..self };
        }
        // The thread is not needed: the entry was found through it.
        let (detail, thread) = (self.detail >> 32, NOBODY);
        Entry { detail, prev: self.link, link: Id::NONE, thread, kind, ..self }
    }

    fn on_cpu(&self) -> OnCpu {
        match self.thread {
            IDLE => OnCpu::Idle,
            OUT_OF_SCOPE => OnCpu::OutOfScope,
            NOBODY => OnCpu::Unknown,
            thread => OnCpu::Thread(thread),
        }
    }

    /// The thread that woke it, and the activity of that thread at that time; `None` unless the interval begins with a wakeup.
    pub fn woken(&self) -> Option<(By, Id)> {
        match self.kind {
            Kind::WokenBy | Kind::WokenByPacket => {
                Some((By::Thread(self.detail as Index), self.link))
            }
            Kind::WokenByInterrupt => {
                Some((By::Interrupt(Origin::of_number(self.detail)), Id::NONE))
            }
            Kind::Woken => Some((By::Unknown, Id::NONE)),
            _ => None,
        }
    }

    /// When the waker sent the packet by which it woke the thread, if it did so by a packet.
    pub fn sent(&self) -> Option<u64> {
        let is_packet = self.kind == Kind::WokenByPacket;
        is_packet.then(|| self.time.saturating_sub(self.detail >> 32))
    }

    /// Whether it is known in which system call the interval began, or that it began outside of system calls.
    pub fn is_call_known(&self) -> bool {
        self.kind != Kind::Nothing
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

    /// The entry from which to search backwards for the thread that had a CPU until the entry began.
    pub fn anchor(&self) -> Option<Id> {
        matches!(self.kind, Kind::Slice | Kind::Queue).then_some(self.link)
    }
}

/// The last entries.
#[derive(Debug)]
pub struct Log {
    /// In order; when the maximum number is reached, each new entry replaces the oldest, which is at `head`.
    entries: Vec<Entry>,
    head: usize,
    /// Number of slots that are filled before it is [crowded](Log::is_crowded).
    room: usize,
    /// For threads and CPUs whose last entry is older than the oldest kept slot: that entry, by its number.
    held: FxHashMap<u32, Entry>,
    /// The numbers of the oldest slot, and of the next one.
    oldest: u32,
    next: u32,
    /// Whether some have been left out.
    is_rolling: bool,
    most: usize,
    /// Whether entries are kept already, beyond the last one of each thread and CPU.
    on: bool,
    /// The last entry of each thread; while no entries are kept, the entry itself.
    last: Vec<Id>,
    before: Vec<Option<Entry>>,
    on_cpu: Vec<Id>,
    cpu_before: Vec<Option<Entry>>,
    /// Details of a slice that do not fit into its entry.
    large: FxHashMap<u32, Taken>,
    /// The cgroup whose quota held the thread back, for such intervals.
    quotas: FxHashMap<u32, u32>,
    /// The lock, for intervals in which the thread was blocked on a lock.
    locks: FxHashMap<u32, Lock>,
    /// The request, for intervals that begin with a wakeup by its completion, and the activity at that time of the thread that made the
    /// request.
    requests: FxHashMap<u32, (Request, Id)>,
    /// Threads whose first event was a wakeup, and that existed before.
    existed: FxHashSet<Index>,
    /// While no entries are kept: the last lock of each thread, and when the thread began to wait for it.
    locks_before: FxHashMap<Index, (u64, Lock)>,
}

/// The number of slot numbers, without that of [`Id::NONE`].
const NUMBERS: u32 = u32::MAX >> 1;

/// The next number.
#[inline]
fn next_of(number: u32) -> u32 {
    if number >= NUMBERS - 1 { 0 } else { number + 1 }
}

#[inline]
fn at<T: Clone>(list: &mut Vec<T>, index: usize, empty: T) -> &mut T {
    if index >= list.len() {
        list.resize(index + 1, empty);
    }
    &mut list[index]
}

impl Log {
    pub fn new(most: usize) -> Log {
        Log {
            entries: Vec::new(),
            head: 0,
            room: ROOM,
            held: FxHashMap::default(),
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
            requests: FxHashMap::default(),
            existed: FxHashSet::default(),
            locks_before: FxHashMap::default(),
        }
    }

    /// From now on, entries are kept.
    pub fn switch_on(&mut self) {
        if self.on {
            return;
        }
        self.on = true;
        // Unused capacity costs nothing; growing would copy the existing entries.
        self.entries.reserve_exact(self.most);
        // Which thread has which CPU is recorded first: slices are entries of threads, too.
        for entry in std::mem::take(&mut self.cpu_before).into_iter().flatten() {
            let id = self.push(Entry { prev: Id::NONE, link: Id::NONE, ..entry });
            *at(&mut self.on_cpu, usize::from(entry.cpu.0), Id::NONE) = id;
            if let OnCpu::Thread(thread) = entry.on_cpu() {
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

    /// The time from which all entries are kept, if some have been left out since the log was switched on.
    pub fn is_rolling_since(&self) -> Option<u64> {
        self.entries.get(self.head).filter(|_| self.is_rolling).map(|oldest| oldest.time)
    }

    /// Whether entries are kept.
    pub fn is_on(&self) -> bool {
        self.on
    }

    #[inline(always)]
    fn push(&mut self, entry: Entry) -> Id {
        let id = Id(self.next << 1);
        self.next = next_of(self.next);
        if self.entries.len() < self.most {
            self.entries.push(entry);
        } else {
            self.replace_oldest(entry);
        }
        id
    }

    #[cold]
    fn replace_oldest(&mut self, entry: Entry) {
        self.is_rolling = true;
        self.entries[self.head] = entry;
        self.head = if self.head + 1 == self.most { 0 } else { self.head + 1 };
        for id in [self.oldest << 1, self.oldest << 1 | 1] {
            self.large.remove(&id);
            self.quotas.remove(&id);
            self.locks.remove(&id);
            self.requests.remove(&id);
        }
        self.oldest = next_of(self.oldest);
    }

    #[inline]
    fn place(&self, id: Id) -> Option<usize> {
        if id == Id::NONE {
            return None;
        }
        let back = match id.place().checked_sub(self.oldest) {
            Some(back) => back,
            // The numbers have wrapped around since.
            None => id.place() + (NUMBERS - self.oldest),
        } as usize;
        let len = self.entries.len();
        if back >= len {
            return None;
        }
        let to_the_end = len - self.head;
        Some(if back < to_the_end { self.head + back } else { back - to_the_end })
    }

    /// The entry, if there is one and it is still kept.
    #[inline]
    pub fn get(&self, id: Id) -> Option<Entry> {
        Some(self.whole(id)?.part(id.is_second()))
    }

    /// Both of the entries that may share its slot.
    #[inline]
    fn whole(&self, id: Id) -> Option<&Entry> {
        match self.place(id) {
            Some(place) => self.entries.get(place),
            None => self.held.get(&id.place()),
        }
    }

    /// Whether it is time to forget something.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.entries.len() >= self.room
    }

    /// Forgets everything before `time`, except the state of each thread and CPU at that time. If this is less than half of all entries,
    /// the log grows instead.
    #[cold]
    pub fn forget_before(&mut self, time: u64) {
        let count = self.entries.iter().take_while(|entry| entry.time <= time).count();
        if count < self.room / 2 || self.is_rolling {
            // When the maximum number is reached, the oldest are dropped one by one.
            self.room = if self.room < self.most { 2 * self.room } else { usize::MAX };
            return;
        }
        // Held entries are collected again: some may no longer describe the current state of a thread or CPU.
        let is_left = |id: Id| self.place(id).is_some_and(|place| place >= count);
        let mut held = FxHashMap::default();
        let mut hold = |first: Id, before: fn(&Entry) -> Id| {
            let mut next = first;
            while let Some(entry) = self.get(next) {
                if entry.time <= time {
                    if !is_left(next)
                        && let Some(whole) = self.whole(next)
                    {
                        held.insert(next.place(), *whole);
                    }
                    return;
                }
                next = before(&entry);
            }
        };
        self.last.iter().for_each(|id| hold(*id, |entry| entry.prev));
        self.on_cpu.iter().for_each(|id| hold(*id, |entry| entry.link));
        let is_kept = |id: u32| is_left(Id(id)) || held.contains_key(&Id(id).place());
        let large = self.large.iter().filter(|(id, _)| is_kept(**id));
        let large = large.map(|(id, taken)| (*id, *taken)).collect();
        let quotas = self.quotas.iter().filter(|(id, _)| is_kept(**id));
        let quotas = quotas.map(|(id, quota)| (*id, *quota)).collect();
        let locks = self.locks.iter().filter(|(id, _)| is_kept(**id));
        let locks = locks.map(|(id, lock)| (*id, *lock)).collect();
        let requests = self.requests.iter().filter(|(id, _)| is_kept(**id));
        let requests = requests.map(|(id, request)| (*id, *request)).collect();
        (self.large, self.quotas, self.locks, self.requests) = (large, quotas, locks, requests);
        self.entries.drain(..count);
        self.held = held;
        self.oldest = ((u64::from(self.oldest) + count as u64) % u64::from(NUMBERS)) as u32;
    }

    /// The thread that has just been switched out of this CPU shares its slot with the thread that is switched in. `None` if the last entry
    /// is a different one.
    #[inline]
    fn share(&mut self, cpu: Cpu, time: u64, thread: Index, prev: Id) -> Option<Id> {
        let link = self.on_cpu(cpu);
        let newest = if self.head == 0 { self.entries.len() } else { self.head }.checked_sub(1)?;
        let out = &mut self.entries[newest];
        let detail = match out.kind {
            Kind::Syscall => out.detail.checked_mul(1 << 32)?,
            Kind::NoSyscall => 0,
            _ => return None,
        };
        if out.time != time || out.cpu != cpu || out.prev != link || link == Id::NONE {
            return None;
        }
        out.kind = match out.kind {
            Kind::Syscall => Kind::SwitchInSyscall,
            _ => Kind::SwitchInNoSyscall,
        };
        (out.detail, out.thread, out.prev, out.link) = (detail, thread, prev, link);
        let number = if self.next == 0 { NUMBERS } else { self.next } - 1;
        Some(Id(number << 1 | 1))
    }

    /// The thread's last entry.
    #[inline]
    pub fn last(&self, thread: Index) -> Option<Id> {
        self.last.get(thread as usize).copied().filter(|id| *id != Id::NONE)
    }

    /// The time at which the thread got its CPU, if it has one.
    pub fn has_cpu_since(&self, thread: Index) -> Option<u64> {
        let last = self.last(thread).and_then(|id| self.get(id));
        last.filter(|last| last.state == State::Running).map(|last| last.time)
    }

    /// A thread changes its state.
    #[inline]
    pub fn begin(&mut self, thread: Index, begin: Begin) {
        let Begin { time, state, cpu, about } = begin;
        let (kind, detail, link) = match about {
            _ if state == State::Running => (Kind::Slice, 0, self.on_cpu(cpu)),
            About::Nothing => (Kind::Nothing, 0, Id::NONE),
            About::Woken(By::Thread(by)) => {
                (Kind::WokenBy, u64::from(by), self.last(by).unwrap_or(Id::NONE))
            }
            About::Woken(By::Interrupt(origin)) => {
                (Kind::WokenByInterrupt, origin.number(), Id::NONE)
            }
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
        let id = match state {
            State::Running => self.share(cpu, time, thread, prev),
            _ => None,
        };
        let id = id.unwrap_or_else(|| self.push(entry));
        *at(&mut self.last, thread as usize, Id::NONE) = id;
        if state == State::Running {
            *at(&mut self.on_cpu, usize::from(cpu.0), Id::NONE) = id;
        }
    }

    #[inline]
    fn on_cpu(&self, cpu: Cpu) -> Id {
        self.on_cpu.get(usize::from(cpu.0)).copied().unwrap_or(Id::NONE)
    }

    /// The thread's first entry follows, in which it is woken; before, it was blocked.
    #[cold]
    pub fn was_blocked(&mut self, thread: Index) {
        self.existed.insert(thread);
    }

    /// What a thread without an earlier entry did before it was woken at `until`, if that is known. Its system call is not.
    pub fn before_first(&self, thread: Index, first: &Entry) -> Option<Entry> {
        let is_first = self.existed.contains(&thread) && first.woken().is_some();
        is_first.then_some(Entry {
            time: 0,
            detail: 0,
            prev: Id::NONE,
            link: Id::NONE,
            thread,
            cpu: first.cpu,
            state: State::Sleeping,
            kind: Kind::Nothing,
        })
    }

    /// A thread was woken just now by a packet, which its waker sent `ago` nanoseconds before. A value that does not fit is not stored; the
    /// waker then counts as the sender itself.
    pub fn sent(&mut self, thread: Index, ago: u64) {
        let entry = match self.last(thread).filter(|_| self.on) {
            Some(id) => match self.place(id) {
                Some(place) => self.entries.get_mut(place),
                None => self.held.get_mut(&id.place()),
            },
            None => self.before.get_mut(thread as usize).and_then(Option::as_mut),
        };
        if let Some(entry) = entry.filter(|entry| entry.kind == Kind::WokenBy)
            && let Ok(ago) = u32::try_from(ago)
        {
            entry.kind = Kind::WokenByPacket;
            entry.detail |= u64::from(ago) << 32;
        }
    }

    /// The completion of this request has woken the thread just now.
    pub fn request(&mut self, thread: Index, request: Request) {
        if let Some(id) = self.last(thread).filter(|_| self.on) {
            let issuer = request.by.and_then(|by| self.last(by)).unwrap_or(Id::NONE);
            self.requests.insert(id.0, (request, issuer));
        }
    }

    /// The request whose completion began this interval, and the activity at that time of the thread that made the request.
    pub fn request_of(&self, id: Id) -> Option<(Request, Id)> {
        self.requests.get(&id.0).copied()
    }

    /// A CPU switches to something other than a thread.
    #[inline]
    pub fn set_on_cpu(&mut self, cpu: Cpu, time: u64, on_cpu: OnCpu) {
        let thread = match on_cpu {
            OnCpu::Idle => IDLE,
            OnCpu::OutOfScope => OUT_OF_SCOPE,
            OnCpu::Unknown | OnCpu::Thread(_) => NOBODY,
        };
        let (state, kind, link) = (State::Unknown, Kind::Slice, self.on_cpu(cpu));
        let entry = Entry { time, detail: 0, prev: Id::NONE, link, thread, cpu, state, kind };
        if self.on {
            let id = self.share(cpu, time, thread, Id::NONE);
            let id = id.unwrap_or_else(|| self.push(entry));
            *at(&mut self.on_cpu, usize::from(cpu.0), Id::NONE) = id;
        } else {
            *at(&mut self.cpu_before, usize::from(cpu.0), None) = Some(entry);
        }
    }

    /// Some time was taken from the slice that the thread is in.
    pub fn taken(&mut self, thread: Index, taken: Taken) {
        let Some(id) = self.last(thread).filter(|_| self.on) else { return };
        let entry = match self.place(id) {
            Some(place) => self.entries.get_mut(place),
            None => self.held.get_mut(&id.place()),
        };
        let Some(entry) = entry else { return };
        let detail = match (u32::try_from(taken.steal), u32::try_from(taken.irq)) {
            _ if entry.part(id.is_second()).state != State::Running => return,
            (Ok(0), Ok(irq)) if entry.is_both() => Some(entry.detail >> 32 << 32 | u64::from(irq)),
            (Ok(steal), Ok(irq)) if !entry.is_both() => {
                Some(u64::from(steal) << 32 | u64::from(irq))
            }
            _ => None,
        };
        match detail {
            Some(detail) => entry.detail = detail,
            None => {
                self.large.insert(id.0, taken);
            }
        }
    }

    /// The time that was taken from a slice.
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

    /// The cgroup whose quota held the thread back in the wait that has ended.
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

    /// The cgroup whose quota held the thread back in this interval, if recorded.
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

    /// The lock for which the thread waited in this interval, if recorded.
    pub fn lock_of(&self, id: Id) -> Option<Lock> {
        self.locks.get(&id.0).copied()
    }

    /// The threads that had a CPU during an interval, searched backwards from the entry that follows it. How long each of them had the CPU,
    /// and how many entries the search read; the rest of the time is unknown.
    pub fn occupants(
        &self,
        cpu: Cpu,
        anchor: Option<Id>,
        (from, to): (u64, u64),
        mut found: impl FnMut(OnCpu, u64),
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
                found(entry.on_cpu(), length);
                left -= length;
            }
            until = until.min(entry.time);
            next = entry.link;
        }
        if left > 0 {
            found(OnCpu::Unknown, left);
        }
        steps
    }

    /// Where a backward search for the thread that has the CPU now begins.
    pub fn anchor_of_cpu(&self, cpu: Cpu) -> Option<Id> {
        Some(self.on_cpu(cpu))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::chain::{Wakers, follow};

    const CPU: Cpu = Cpu(0);

    fn begin(time: u64, state: State, about: About) -> Begin {
        Begin { time, state, cpu: CPU, about }
    }

    /// Threads 0 and 1 alternate on the CPU, and each is in a system call whose number is the time at which it leaves the CPU.
    fn in_turn(log: &mut Log, times: Range<u64>) {
        for time in times {
            let (out, inn) = ((time % 2) as Index, ((time + 1) % 2) as Index);
            log.begin(out, begin(time, State::Sleeping, About::Syscall(Some(time))));
            log.begin(inn, begin(time, State::Running, About::Nothing));
            log.taken(inn, Taken { steal: time % 3, irq: 5 });
        }
    }

    /// From the last entry of a thread backwards: time, state, system call and the time that was taken.
    fn reported(log: &Log, thread: Index) -> Vec<(u64, State, Option<u64>, Taken)> {
        let (mut found, mut next) = (Vec::new(), log.last(thread));
        while let Some((id, entry)) = next.and_then(|id| Some((id, log.get(id)?))) {
            found.push((entry.time, entry.state, entry.syscall(), log.taken_of(id)));
            next = Some(entry.prev);
        }
        found
    }

    fn expected(thread: Index, times: Range<u64>) -> Vec<(u64, State, Option<u64>, Taken)> {
        let tell = |time| match (time + 1) % 2 == u64::from(thread) {
            true => (time, State::Running, None, Taken { steal: time % 3, irq: 5 }),
            false => (time, State::Sleeping, Some(time), Taken::default()),
        };
        times.rev().map(tell).collect()
    }

    #[test]
    fn who_goes_out_and_who_comes_in_share_a_place_and_are_distinguished() {
        let mut log = Log::new(100);
        log.switch_on();
        in_turn(&mut log, 1..21);
        // Before the first switch, the thread on the CPU is unknown.
        assert_eq!(log.entries.len(), 21);
        for thread in [0, 1] {
            assert_eq!(reported(&log, thread), expected(thread, 1..21));
        }
        let mut occupants = Vec::new();
        log.occupants(CPU, log.anchor_of_cpu(CPU), (1, 21), |on_cpu, ns| {
            occupants.push((on_cpu, ns));
        });
        let in_turn = (1..21).rev().map(|time| (OnCpu::Thread(((time + 1) % 2) as Index), 1));
        assert_eq!(occupants, in_turn.collect::<Vec<_>>());
    }

    #[test]
    fn another_time_another_cpu_and_a_wake_up_in_between_take_places_of_their_own() {
        let out = |log: &mut Log| {
            log.begin(0, begin(1, State::Running, About::Nothing));
            log.begin(0, begin(5, State::Preempted, About::Syscall(None)));
        };
        let came_in: [fn(&mut Log); 4] = [
            |log| log.begin(1, begin(5, State::Running, About::Nothing)),
            |log| log.begin(1, begin(6, State::Running, About::Nothing)),
            |log| log.begin(1, Begin { cpu: Cpu(1), ..begin(5, State::Running, About::Nothing) }),
            |log| {
                log.begin(2, begin(5, State::Woken, About::Woken(By::Unknown)));
                log.begin(1, begin(5, State::Running, About::Nothing));
            },
        ];
        let places = came_in.map(|come_in| {
            let mut log = Log::new(100);
            log.switch_on();
            out(&mut log);
            come_in(&mut log);
            log.entries.len()
        });
        assert_eq!(places, [2, 3, 3, 4]);
    }

    #[test]
    fn what_is_forgotten_was_before_and_each_thread_and_cpu_is_at_what_it_was() {
        let mut log = Log::new(1000);
        log.switch_on();
        log.room = 10;
        (log.oldest, log.next) = (NUMBERS - 5, NUMBERS - 5);
        // Two threads that stay in one state throughout: one sleeps and waits for a lock, the other has another CPU.
        log.begin(2, begin(1, State::Sleeping, About::Syscall(Some(202))));
        let lock = Lock { address: 7, kernel: None, owner: None, is_end: false };
        log.lock(2, 1, lock);
        log.begin(3, Begin { cpu: Cpu(1), ..begin(1, State::Running, About::Nothing) });
        in_turn(&mut log, 2..42);
        assert!(log.is_crowded());
        for from in [20, 30] {
            log.forget_before(from);
            assert_eq!(log.entries.len() as u64, 41 - from, "those after it");
            for thread in [0, 1] {
                assert_eq!(reported(&log, thread), expected(thread, from..42), "and one before");
            }
            log.taken(3, Taken { steal: 0, irq: from });
            let irq = Taken { steal: 0, irq: from };
            assert_eq!(reported(&log, 3), [(1, State::Running, None, irq)]);
            assert_eq!(reported(&log, 2), [(1, State::Sleeping, Some(202), Taken::default())]);
            assert_eq!(log.last(2).and_then(|id| log.lock_of(id)), Some(lock));
            let mut occupants = 0;
            let anchor = log.anchor_of_cpu(CPU);
            log.occupants(CPU, anchor, (from, 42), |on_cpu, ns| {
                assert!(matches!(on_cpu, OnCpu::Thread(0 | 1)), "{on_cpu:?}");
                occupants += ns;
            });
            assert_eq!(occupants, 42 - from);
        }
        // No entry is old enough to forget, so the log grows up to the maximum.
        for room in [20, 40] {
            log.forget_before(30);
            assert_eq!(log.room, room);
        }
        assert!(!log.is_crowded());
        log.room = 1000;
        log.forget_before(30);
        assert_eq!(log.room, usize::MAX, "from then on the oldest make room");
    }

    /// In every case, intervals that begin later are followed as if nothing had been forgotten.
    #[test]
    fn who_forgets_reports_the_same_of_what_comes_after() {
        for seed in 1..300_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut pick = |most: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % most
            };
            let (mut all, mut some) = (Log::new(10_000), Log::new(10_000));
            some.room = 8;
            let (mut time, mut since, mut forgot) = (1, 0, 0);
            all.switch_on();
            some.switch_on();
            for _ in 0..150 {
                time += pick(3);
                let (thread, cpu, what) = (pick(5) as Index, Cpu(pick(2) as u16), pick(9));
                let by = By::Thread(pick(5) as Index);
                let begins = match what {
                    0 | 1 => Some((State::Running, About::Nothing)),
                    2 => Some((State::Sleeping, About::Syscall(Some(time)))),
                    3 => Some((State::Preempted, About::Syscall(None))),
                    4 => Some((State::Woken, About::Woken(by))),
                    5 => Some((State::Woken, About::Queue(cpu))),
                    _ => None,
                };
                let taken = Taken { steal: pick(2) << 40, irq: pick(3) };
                let lock = Lock { address: time, kernel: None, owner: None, is_end: false };
                for log in [&mut all, &mut some] {
                    match (begins, what) {
                        (Some((state, about)), _) => {
                            log.begin(thread, Begin { time, state, cpu, about });
                        }
                        (None, 6) => log.set_on_cpu(cpu, time, OnCpu::Idle),
                        (None, 7) => log.taken(thread, taken),
                        (None, _) => log.lock(thread, time, lock),
                    }
                }
                if some.is_crowded() {
                    since = (since + pick(20)).min(time);
                    let before = some.entries.len();
                    some.forget_before(since);
                    forgot += before - some.entries.len();
                }
                let from = since + pick(time - since + 1);
                let to = from + pick(time - from + 1);
                for wakers in [Wakers::OnlyNamed, Wakers::Followed] {
                    let follow = |log: &Log| follow(log, thread, (from, to), wakers);
                    let [all, some] = [&all, &some].map(|log| format!("{:?}", follow(log)));
                    assert_eq!(all, some, "{seed}: {from} to {to}");
                }
            }
            assert!(forgot > 20 || some.room > 16, "{seed}: {forgot}");
        }
    }

    #[test]
    fn numbers_go_around_and_the_oldest_places_are_used_again() {
        let mut log = Log::new(10);
        log.switch_on();
        (log.oldest, log.next) = (NUMBERS - 15, NUMBERS - 15);
        in_turn(&mut log, 1..41);
        assert_eq!((log.entries.len(), log.next), (10, 26));
        assert_eq!(log.is_rolling_since(), Some(31));
        for thread in [0, 1] {
            assert_eq!(reported(&log, thread), expected(thread, 31..41));
        }
        // For only some of these, more time was taken than the field can hold.
        assert_eq!(log.large.len(), 7);
    }
}
