//! The state of a CPU during the pass.

use std::collections::VecDeque;

use fxt_reader::{Cpu, Nanos};
use fxtrec_sched::Machine;

use super::history::{History, OnCpu};
use super::thread_figures::Key;
use crate::facts::FactTallies;
use crate::selection::Selection;
use crate::tally::Tally;

/// The maximum number of remembered times at which waits may have to be split.
const MOST_MARKS: usize = 256;

pub(super) type Occupant = fxtrec_sched::Occupant<Key>;

/// The occupant of a CPU, as its history stores it.
pub(super) fn on_cpu(occupant: Occupant) -> OnCpu {
    match occupant {
        Occupant::Idle => OnCpu::Idle,
        Occupant::NotRecorded => OnCpu::Unknown,
        Occupant::Thread(key) => OnCpu::Thread(key.koid),
    }
}

/// A CPU's contribution to the check for work conservation, as counts that can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Burden(u64);

impl Burden {
    /// One CPU runs a thread and has others queued. The lower 32 bits count these CPUs; the upper 32 bits count the free CPUs.
    const QUEUED: Burden = Burden(1);
    /// One CPU is idle and has nothing queued.
    const FREE: Burden = Burden(0x1_0000_0000);

    /// Whether one CPU has a queue while another is free.
    #[inline(always)]
    fn is_violation(self) -> bool {
        self.0 >= Burden::FREE.0 && !self.0.is_multiple_of(Burden::FREE.0)
    }
}

/// The figures of a CPU.
#[derive(Debug)]
pub(super) struct CpuState {
    /// The koid of the thread that was switched in last, even if it is the idle task.
    pub(super) koid: u64,
    /// A thread whose slice was already counted as censored.
    pub(super) cut: Option<u64>,
    /// Whether samples of this CPU count.
    pub(super) counted: bool,
    pub(super) history: History,
    pub(super) tallies: [Tally; 6],
    pub(super) facts: Option<Box<FactTallies>>,
    pub(super) switches: u64,
    pub(super) inferred: u64,
    pub(super) busy: u64,
    pub(super) idle: u64,
    pub(super) queue: Queue,
    /// The last times at which the throttling of cgroups began or ended here.
    marks: VecDeque<u64>,
    burden: Burden,
}

/// How many threads wait for a CPU.
#[derive(Debug, Default)]
pub(super) struct Queue {
    length: u64,
    since: u64,
    /// Threads times nanoseconds.
    area: u64,
    pub(super) most: u64,
}

impl Queue {
    /// One more thread waits if `one` is set. Whether it does is unpredictable, so this code is branch-free.
    #[inline(always)]
    pub(super) fn lengthen(&mut self, one: bool, now: u64) {
        self.pass(if one { now.saturating_sub(self.since) } else { 0 });
        self.length += u64::from(one);
    }

    #[inline(always)]
    pub(super) fn shorten(&mut self, now: u64) {
        self.settle(now);
        self.length = self.length.saturating_sub(1);
    }

    /// Corrects the sum of waiting times: a thread waited for `more`, or was counted as waiting for `less` too long.
    #[cold]
    pub(super) fn correct(&mut self, more: u64, less: u64, now: u64) {
        self.settle(now);
        self.area = self.area.saturating_add(more).saturating_sub(less);
    }

    #[inline(always)]
    fn settle(&mut self, now: u64) {
        self.pass(now.saturating_sub(self.since));
    }

    #[inline(always)]
    fn pass(&mut self, elapsed: u64) {
        self.area = self.area.saturating_add(self.length.saturating_mul(elapsed));
        self.since += elapsed;
        // A length of zero results from two events at the same time.
        let lasting = if elapsed > 0 { self.length } else { 0 };
        self.most = self.most.max(lasting);
    }

    /// The mean length over `nanos` nanoseconds.
    pub(super) fn mean(&self, nanos: u64) -> f64 {
        if nanos == 0 { 0.0 } else { self.area as f64 / nanos as f64 }
    }
}

impl CpuState {
    fn new(begin: u64, counted: bool) -> CpuState {
        let mut history = History::default();
        // An empty history has free capacity.
        let _ = history.push(begin, OnCpu::Unknown);
        CpuState {
            koid: 0,
            cut: None,
            counted,
            history,
            tallies: Default::default(),
            facts: None,
            switches: 0,
            inferred: 0,
            busy: 0,
            idle: 0,
            queue: Queue { since: begin, ..Queue::default() },
            marks: VecDeque::new(),
            burden: Burden::default(),
        }
    }

    /// A wait may have to be split at this time.
    pub(super) fn mark(&mut self, time: u64) {
        if self.marks.len() == MOST_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(time);
    }

    /// Adds the times at which waits that began at `begins` may have to be split.
    pub(super) fn add_marks(&self, begins: &mut Vec<u64>) {
        if let Some(oldest) = begins.iter().min().copied() {
            begins.extend(self.marks.iter().copied().filter(|&mark| mark > oldest));
        }
    }

    #[inline(always)]
    fn burden(&self, occupant: Option<Occupant>) -> Burden {
        let Some(occupant) = occupant else { return Burden::default() };
        let is_idle = occupant == Occupant::Idle;
        let weight = if is_idle { Burden::FREE } else { Burden::QUEUED };
        let waited_for = self.queue.length > 0;
        Burden(weight.0 * u64::from(waited_for != is_idle))
    }
}

/// The relation between all CPUs: whether one has a queue while another is free.
///
/// This is branch-free, since on a busy machine it changes all the time and is unpredictable.
#[derive(Debug, Default)]
struct Balance {
    burden: Burden,
    violated: bool,
    /// When `violated` got its value.
    since: u64,
    /// How long it was violated before that, in nanoseconds.
    unconserved: u64,
}

impl Balance {
    /// Updates the balance after a change of a CPU.
    #[inline(always)]
    fn weigh(&mut self, state: &mut CpuState, occupant: Option<Occupant>, now: u64) {
        let burden = state.burden(occupant);
        let before = std::mem::replace(&mut state.burden, burden);
        self.burden = Burden(self.burden.0 + burden.0 - before.0);
        self.unconserved += self.open(now);
        self.since = now;
        self.violated = self.burden.is_violation();
    }

    /// How long the current violation has lasted.
    #[inline(always)]
    fn open(&self, now: u64) -> u64 {
        u64::from(self.violated) * now.saturating_sub(self.since)
    }

    /// Figures count from `now` on.
    fn begin(&mut self, now: u64) {
        (self.since, self.unconserved) = (now, 0);
    }
}

/// All CPUs, and the figures that concern all of them together.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    pub(super) machine: Machine<Key>,
    /// By number. Boxed, since CPU numbers may be large.
    states: Vec<Option<Box<CpuState>>>,
    /// The beginning of the selected part, once it has begun.
    begin: u64,
    active: bool,
    chosen: Vec<Cpu>,
    balance: Balance,
}

impl Cpus {
    /// The CPU of this number.
    #[inline(always)]
    pub(super) fn get(&mut self, cpu: u16) -> &mut CpuState {
        self.get_with_balance(cpu).0
    }

    /// The CPU with this number, and the balance of all CPUs.
    #[inline(always)]
    fn get_with_balance(&mut self, cpu: u16) -> (&mut CpuState, &mut Balance) {
        let at = usize::from(cpu);
        if !matches!(self.states.get(at), Some(Some(_))) {
            self.add(cpu);
        }
        let Some(Some(state)) = self.states.get_mut(at) else {
            unreachable!("just made where it was missing")
        };
        (state, &mut self.balance)
    }

    /// Changes the CPU with this number, and updates the balance of all CPUs.
    #[inline(always)]
    fn change<R>(&mut self, cpu: u16, now: u64, change: impl FnOnce(&mut CpuState) -> R) -> R {
        let occupant = self.machine.cpu_state(Cpu(cpu)).occupant;
        let (state, balance) = self.get_with_balance(cpu);
        let result = change(state);
        balance.weigh(state, occupant, now);
        result
    }

    #[cold]
    fn add(&mut self, cpu: u16) {
        let at = usize::from(cpu);
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        let chosen = self.chosen.is_empty() || self.chosen.contains(&Cpu(cpu));
        self.states[at] = Some(Box::new(CpuState::new(self.begin, self.active && chosen)));
    }

    /// The CPU with this number, if it had events.
    pub(super) fn seen(&mut self, cpu: Cpu) -> Option<&mut CpuState> {
        self.states.get_mut(usize::from(cpu.0))?.as_deref_mut()
    }

    /// The number of CPUs with events.
    pub(super) fn count(&self) -> usize {
        self.states.iter().flatten().count()
    }

    /// The CPUs with events.
    pub(super) fn iter(&mut self) -> impl Iterator<Item = (Cpu, &mut CpuState)> {
        let numbered = (0..=u16::MAX).zip(&mut self.states);
        numbered
            .filter_map(|(number, state)| state.as_deref_mut().map(|state| (Cpu(number), state)))
    }

    /// Figures count from `now` on.
    pub(super) fn activate(&mut self, now: u64, selection: &Selection) {
        self.begin = now;
        self.active = true;
        self.chosen.clone_from(&selection.cpus);
        self.balance.begin(now);
        self.machine.cut(Nanos(now));
        for (cpu, state) in self.iter() {
            state.counted = selection.has_cpu(cpu);
            state.queue.area = 0;
            state.queue.since = now;
            state.queue.most = 0;
        }
    }

    /// The occupant of the CPU has changed.
    pub(super) fn weigh(&mut self, cpu: u16, now: u64) {
        self.change(cpu, now, |_| ());
    }

    /// One more thread waits for the CPU.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, cpu: u16, now: u64) {
        self.change(cpu, now, |state| state.queue.lengthen(true, now));
    }

    /// The number of threads that wait for the CPU decreases by one, without a switch to one of them.
    pub(super) fn dequeue(&mut self, cpu: u16, now: u64) {
        self.change(cpu, now, |state| state.queue.shorten(now));
    }

    /// The CPU has a new occupant. Returns true when it is time to tidy its history.
    #[inline(always)]
    #[must_use]
    pub(super) fn switched(
        &mut self,
        cpu: u16,
        now: u64,
        (occupant, koid): (Occupant, u64),
        inferred: bool,
    ) -> bool {
        self.change(cpu, now, |state| {
            state.koid = koid;
            if state.counted {
                state.switches += u64::from(!inferred);
                state.inferred += u64::from(inferred);
            }
            state.cut = None;
            state.history.push(now, on_cpu(occupant))
        })
    }

    /// From now on it is unknown which threads wait. With `gap`, the time since the last change is unknown too.
    pub(super) fn forget_queues(&mut self, gap: Option<Cpu>, now: u64) {
        let mut numbers = Vec::new();
        for (cpu, state) in self.iter() {
            if gap.is_none_or(|gap| gap == cpu) {
                state.queue.since = now;
            }
            state.queue.settle(now);
            state.queue.length = 0;
            numbers.push(cpu);
        }
        for cpu in numbers {
            self.weigh(cpu.0, now);
        }
    }

    /// The time in nanoseconds, within the selected part, in which one CPU had a queue while another was free.
    pub(super) fn unconserved(&self, end: u64) -> u64 {
        if self.active { self.balance.unconserved + self.balance.open(end) } else { 0 }
    }

    /// Accounts for the queues up to `end`.
    pub(super) fn settle_queues(&mut self, end: u64) {
        for (_, state) in self.iter() {
            state.queue.settle(end);
        }
    }
}
