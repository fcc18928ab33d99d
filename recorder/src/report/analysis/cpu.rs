//! What is known of a CPU while the trace goes on.

use fxt_reader::Cpu;

use super::history::{History, Tenant};
use crate::report::selection::Selection;
use crate::report::tally::Tally;

/// The slot of the idle task, which is no thread.
pub(super) const IDLE_SLOT: u32 = u32::MAX;

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupant {
    pub(super) koid: u64,
    /// Its slot; [`IDLE_SLOT`] for the idle task.
    pub(super) slot: u32,
}

/// How a CPU stands to the question whether work is conserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Burden {
    /// Neither.
    #[default]
    Even,
    /// It runs a thread and has others queued.
    Queued,
    /// It is idle and has nothing queued.
    Free,
}

/// A CPU.
#[derive(Debug)]
pub(super) struct CpuState {
    pub(super) occupant: Option<Occupant>,
    /// Since when.
    pub(super) since: u64,
    /// Whether that is the time of a switch that the kernel reported.
    pub(super) sound: bool,
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
    fn settle(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.since);
        self.area = self.area.saturating_add(self.length.saturating_mul(elapsed));
        self.since = now;
        // One that lasted no time is that of two things that happened at once.
        if elapsed > 0 {
            self.most = self.most.max(self.length);
        }
    }

    /// The mean length over `nanos` nanoseconds.
    pub(super) fn mean(&self, nanos: u64) -> f64 {
        if nanos == 0 { 0.0 } else { self.area as f64 / nanos as f64 }
    }
}

impl CpuState {
    fn new(begin: u64, counted: bool) -> CpuState {
        let mut history = History::default();
        history.push(begin, Tenant::Unknown);
        CpuState {
            occupant: None,
            since: begin,
            sound: false,
            cut: None,
            counted,
            history,
            tallies: Default::default(),
            switches: 0,
            inferred: 0,
            busy: 0,
            idle: 0,
            queue: Queue { since: begin, ..Queue::default() },
            burden: Burden::Even,
        }
    }

    fn burden(&self) -> Burden {
        match self.occupant {
            Some(occupant) if occupant.slot == IDLE_SLOT && self.queue.length == 0 => Burden::Free,
            Some(occupant) if occupant.slot != IDLE_SLOT && self.queue.length > 0 => Burden::Queued,
            _ => Burden::Even,
        }
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
    queued: u32,
    free: u32,
    unconserved_since: Option<u64>,
    unconserved: u64,
}

impl Cpus {
    /// The CPU of this number.
    #[inline]
    pub(super) fn get(&mut self, cpu: u16) -> &mut CpuState {
        let at = usize::from(cpu);
        if !self.states.get(at).is_some_and(Option::is_some) {
            self.add(cpu);
        }
        self.states[at].as_mut().expect("just made where it was missing")
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
        if self.unconserved_since.is_some() {
            self.unconserved_since = Some(now);
        }
        for (cpu, state) in self.iter() {
            state.counted = selection.has_cpu(cpu);
            state.since = now;
            state.sound = false;
            state.queue.area = 0;
            state.queue.since = now;
            state.queue.most = 0;
        }
    }

    /// A thread more waits for the CPU.
    #[inline]
    pub(super) fn enqueue(&mut self, cpu: u16, now: u64) {
        let queue = &mut self.get(cpu).queue;
        queue.settle(now);
        queue.length += 1;
    }

    /// A thread less waits for the CPU.
    #[inline]
    pub(super) fn dequeue(&mut self, cpu: u16, now: u64) {
        let queue = &mut self.get(cpu).queue;
        queue.settle(now);
        queue.length = queue.length.saturating_sub(1);
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
            self.weigh(cpu.0, now);
        }
    }

    /// Looks again whether one CPU has a queue while another is free, after something about `cpu` has changed.
    #[inline]
    pub(super) fn weigh(&mut self, cpu: u16, now: u64) {
        let state = self.get(cpu);
        let burden = state.burden();
        let before = std::mem::replace(&mut state.burden, burden);
        if burden == before {
            return;
        }
        match before {
            Burden::Queued => self.queued -= 1,
            Burden::Free => self.free -= 1,
            Burden::Even => {}
        }
        match burden {
            Burden::Queued => self.queued += 1,
            Burden::Free => self.free += 1,
            Burden::Even => {}
        }
        let violated = self.queued > 0 && self.free > 0;
        match (self.unconserved_since, violated) {
            (None, true) => self.unconserved_since = Some(now),
            (Some(since), false) => {
                if self.active {
                    self.unconserved += now.saturating_sub(since);
                }
                self.unconserved_since = None;
            }
            _ => {}
        }
    }

    /// The time in nanoseconds in which one CPU had a queue while another was free.
    pub(super) fn unconserved(&self, end: u64) -> u64 {
        let open = self.unconserved_since.map_or(0, |since| end.saturating_sub(since));
        self.unconserved + open
    }

    /// Takes account of the queues up to `end`.
    pub(super) fn settle_queues(&mut self, end: u64) {
        for (_, state) in self.iter() {
            state.queue.settle(end);
        }
    }
}
