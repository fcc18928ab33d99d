//! What is known of a CPU while the trace goes on.

use fxt_reader::Cpu;

use super::history::{History, Tenant};
use crate::selection::Selection;
use crate::tally::Tally;

/// The slot of the idle task, which is no thread.
pub(super) const IDLE_SLOT: u32 = u32::MAX;

/// The slot of what is not recorded, which is no thread either.
pub(super) const UNRECORDED_SLOT: u32 = u32::MAX - 1;

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupant {
    pub(super) koid: u64,
    /// Its slot; [`IDLE_SLOT`] for the idle task, [`UNRECORDED_SLOT`] for what is not recorded.
    pub(super) slot: u32,
}

/// How CPUs stand to the question whether work is conserved, as counts that are added up together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Burden(u64);

impl Burden {
    /// One CPU runs a thread and has others queued. As many CPUs as there may be fit below one that is free.
    const QUEUED: Burden = Burden(1);
    /// One CPU is idle and has nothing queued.
    const FREE: Burden = Burden(0x1_0000_0000);

    /// Whether one CPU has a queue while another is free.
    #[inline(always)]
    fn is_violation(self) -> bool {
        self.0 >= Burden::FREE.0 && !self.0.is_multiple_of(Burden::FREE.0)
    }
}

/// A CPU.
#[derive(Debug)]
pub(super) struct CpuState {
    pub(super) occupant: Option<Occupant>,
    /// Since when.
    pub(super) since: u64,
    /// Whether that is the time of a switch that the kernel reported.
    pub(super) sound: bool,
    /// Whether it went offline, and no switch on it was seen since.
    pub(super) away: bool,
    /// A thread whose slice was already counted as censored.
    pub(super) cut: Option<u64>,
    /// Whether samples of this CPU count.
    pub(super) counted: bool,
    pub(super) history: History,
    pub(super) tallies: [Tally; 6],
    pub(super) switches: u64,
    pub(super) inferred: u64,
    pub(super) busy: u64,
    pub(super) idle: u64,
    pub(super) queue: Queue,
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
    /// A thread more waits, if `one` does. Whether one does, nobody can foretell: this goes without branches.
    #[inline(always)]
    pub(super) fn lengthen(&mut self, one: bool, now: u64) {
        self.pass(if one { now.saturating_sub(self.since) } else { 0 });
        self.length += u64::from(one);
    }

    /// A thread less waits.
    #[inline(always)]
    pub(super) fn shorten(&mut self, now: u64) {
        self.settle(now);
        self.length = self.length.saturating_sub(1);
    }

    #[inline(always)]
    fn settle(&mut self, now: u64) {
        self.pass(now.saturating_sub(self.since));
    }

    /// So much time passes.
    #[inline(always)]
    fn pass(&mut self, elapsed: u64) {
        self.area = self.area.saturating_add(self.length.saturating_mul(elapsed));
        self.since += elapsed;
        // One that lasted no time is that of two things that happened at once.
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
        // There is room for the first.
        let _ = history.push(begin, Tenant::Unknown);
        CpuState {
            occupant: None,
            since: begin,
            sound: false,
            away: false,
            cut: None,
            counted,
            history,
            tallies: Default::default(),
            switches: 0,
            inferred: 0,
            busy: 0,
            idle: 0,
            queue: Queue { since: begin, ..Queue::default() },
            burden: Burden::default(),
        }
    }

    /// How long its occupant has had it; nothing without, since then it is not known who had it until now.
    #[inline(always)]
    pub(super) fn ran(&self, now: u64) -> u64 {
        if self.occupant.is_some() { now.saturating_sub(self.since) } else { 0 }
    }

    #[inline(always)]
    fn burden(&self) -> Burden {
        let Some(occupant) = self.occupant else { return Burden::default() };
        let is_idle = occupant.slot == IDLE_SLOT;
        let weight = if is_idle { Burden::FREE } else { Burden::QUEUED };
        let waited_for = self.queue.length > 0;
        Burden(weight.0 * u64::from(waited_for != is_idle))
    }
}

/// How CPUs stand to each other: whether one has a queue while another is free.
///
/// This goes without branches, since on a busy machine it changes all the time and nobody can foretell how.
#[derive(Debug, Default)]
struct Balance {
    burden: Burden,
    violated: bool,
    /// Since when that is so.
    since: u64,
    /// How long it was violated before, in nanoseconds.
    unconserved: u64,
}

impl Balance {
    /// Looks again, after something about a CPU has changed.
    #[inline(always)]
    fn weigh(&mut self, state: &mut CpuState, now: u64) {
        let burden = state.burden();
        let before = std::mem::replace(&mut state.burden, burden);
        self.burden = Burden(self.burden.0 + burden.0 - before.0);
        self.unconserved += self.open(now);
        self.since = now;
        self.violated = self.burden.is_violation();
    }

    /// How long it is violated without interruption.
    #[inline(always)]
    fn open(&self, now: u64) -> u64 {
        u64::from(self.violated) * now.saturating_sub(self.since)
    }

    /// Figures count from `now` on.
    fn begin(&mut self, now: u64) {
        (self.since, self.unconserved) = (now, 0);
    }
}

/// All CPUs, and what can only be said of all together.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    /// By number. Boxed, since a number may be as great as it likes.
    states: Vec<Option<Box<CpuState>>>,
    /// Where the part that counts begins, once it has.
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

    /// The CPU of this number, and how all stand to each other.
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

    #[cold]
    fn add(&mut self, cpu: u16) {
        let at = usize::from(cpu);
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        let chosen = self.chosen.is_empty() || self.chosen.contains(&Cpu(cpu));
        self.states[at] = Some(Box::new(CpuState::new(self.begin, self.active && chosen)));
    }

    /// How many CPUs were seen.
    pub(super) fn count(&self) -> usize {
        self.states.iter().flatten().count()
    }

    /// The CPUs that were seen.
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
        for (cpu, state) in self.iter() {
            state.counted = selection.has_cpu(cpu);
            state.since = now;
            state.sound = false;
            state.queue.area = 0;
            state.queue.since = now;
            state.queue.most = 0;
        }
    }

    /// Nobody has the CPU any more.
    pub(super) fn vacate(&mut self, cpu: u16, now: u64) -> Option<Occupant> {
        let (state, balance) = self.get_with_balance(cpu);
        let occupant = state.occupant.take();
        balance.weigh(state, now);
        occupant
    }

    /// A thread more waits for the CPU.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, cpu: u16, now: u64) {
        let (state, balance) = self.get_with_balance(cpu);
        state.queue.lengthen(true, now);
        balance.weigh(state, now);
    }

    /// A thread less waits for the CPU, and it is not that CPU that it came in on.
    pub(super) fn dequeue(&mut self, cpu: u16, now: u64) {
        let (state, balance) = self.get_with_balance(cpu);
        state.queue.shorten(now);
        balance.weigh(state, now);
    }

    /// The CPU goes over to another occupant. True when it is time to tidy its history.
    #[inline(always)]
    #[must_use]
    pub(super) fn change(
        &mut self,
        cpu: u16,
        now: u64,
        occupant: Occupant,
        inferred: bool,
    ) -> bool {
        let (state, balance) = self.get_with_balance(cpu);
        if state.counted {
            state.switches += u64::from(!inferred);
            state.inferred += u64::from(inferred);
        }
        state.occupant = Some(occupant);
        state.since = now;
        state.sound = !inferred;
        state.cut = None;
        let tenant = match occupant.slot {
            IDLE_SLOT => Tenant::Idle,
            UNRECORDED_SLOT => Tenant::Unknown,
            _ => Tenant::Thread(occupant.koid),
        };
        let full = state.history.push(now, tenant);
        balance.weigh(state, now);
        full
    }

    /// It is no longer known who waits. On `gap`, the time since the last change is not known either.
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
            let (state, balance) = self.get_with_balance(cpu.0);
            balance.weigh(state, now);
        }
    }

    /// The time in nanoseconds in which one CPU had a queue while another was free, since figures count.
    pub(super) fn unconserved(&self, end: u64) -> u64 {
        if self.active { self.balance.unconserved + self.balance.open(end) } else { 0 }
    }

    /// Takes account of the queues up to `end`.
    pub(super) fn settle_queues(&mut self, end: u64) {
        for (_, state) in self.iter() {
            state.queue.settle(end);
        }
    }
}
