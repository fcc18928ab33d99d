//! A CPU: who has it, since when, and how that is known.

use fxt_reader::{Cpu, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occupant<K> {
    Idle,
    /// Whoever it is, it is outside the scope of the recording.
    NotRecorded,
    Thread(K),
}

impl<K> Occupant<K> {
    /// The thread, if it is one.
    #[inline]
    pub fn thread(self) -> Option<K> {
        match self {
            Occupant::Thread(key) => Some(key),
            Occupant::Idle | Occupant::NotRecorded => None,
        }
    }
}

/// How the beginning or the end of something is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Cut by the beginning of the recording, or of the window: it began then or before.
    #[default]
    Start,
    Recorded,
    /// No event reported it; it was then at the latest.
    Inferred,
    /// Cut by a gap: events are missing.
    Gap,
    /// Cut by the time in which the CPU was offline.
    Offline,
    /// Cut by the end of the recording: it goes on.
    End,
}

/// How the time of a switch is known.
#[inline(always)]
pub(crate) fn edge(inferred: bool) -> Edge {
    if inferred { Edge::Inferred } else { Edge::Recorded }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState<K> {
    /// Who has it; `None` when that is not known, or nobody has.
    pub occupant: Option<Occupant<K>>,
    /// Who had it before the gaps since its last switch, of which one began while it had the CPU.
    pub last: Option<Occupant<K>>,
    /// Since when it is so; 0 for before the trace.
    pub since: Nanos,
    /// How that is known. It is [`Edge::Gap`] from a gap on until the next switch, even if it turns out who has the CPU.
    pub begin: Edge,
}

impl<K> Default for CpuState<K> {
    fn default() -> CpuState<K> {
        CpuState::unseen(Nanos(0))
    }
}

/// What happens to one CPU. The [`Machine`](crate::Machine) changes its threads as well.
impl<K: Copy> CpuState<K> {
    /// A switch brings in another.
    #[inline(always)]
    pub fn enter(&mut self, incoming: Occupant<K>, time: Nanos, inferred: bool) {
        *self =
            CpuState { occupant: Some(incoming), last: None, since: time, begin: edge(inferred) };
    }

    /// It turns out who has it, of whom that was not known. Nobody knows since when.
    #[inline]
    pub fn claim(&mut self, who: Occupant<K>) {
        self.occupant = Some(who);
    }

    /// Events are missing up to `time`.
    #[inline]
    pub fn lose(&mut self, time: Nanos) {
        let last = self.presumed();
        *self = CpuState { occupant: None, last, since: time, begin: Edge::Gap };
    }

    /// Who has it is not known any more, though nothing is missing.
    #[inline]
    pub fn forget(&mut self, time: Nanos) {
        let begin = if self.begin == Edge::Gap { Edge::Gap } else { Edge::Inferred };
        *self = CpuState { occupant: None, last: None, since: time, begin };
    }

    /// Who has it, unless a switch away from that one is among what was lost.
    #[inline(always)]
    pub fn presumed(&self) -> Option<Occupant<K>> {
        self.occupant.or(self.last)
    }

    /// Whether events were lost since its last switch.
    #[inline(always)]
    pub fn has_gap(&self) -> bool {
        self.begin == Edge::Gap
    }
}

impl<K> CpuState<K> {
    pub(crate) const fn unseen(since: Nanos) -> CpuState<K> {
        CpuState { occupant: None, last: None, since, begin: Edge::Start }
    }

    /// Whether anything has happened on it.
    pub fn is_seen(&self) -> bool {
        self.occupant.is_some() || self.begin != Edge::Start
    }

    /// What it is used for, if that is known, up to `until`.
    #[inline]
    pub(crate) fn tenure(self, cpu: Cpu, until: Nanos, end: Edge) -> Option<CpuInterval<K>> {
        let CpuState { occupant, since, begin, .. } = self;
        occupant.map(|who| CpuInterval { cpu, who, since, until, begin, end })
    }
}

/// A stretch of time in which one had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInterval<K> {
    pub cpu: Cpu,
    pub who: Occupant<K>,
    /// Since when; 0 for before the trace.
    pub since: Nanos,
    pub until: Nanos,
    /// How the beginning is known.
    pub begin: Edge,
    /// How the end is known.
    pub end: Edge,
}

impl<K> CpuInterval<K> {
    /// Its length in nanoseconds, if events reported both ends. All switches of a CPU are reported by that CPU, so that
    /// nothing that is missing elsewhere makes it doubtful.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        let whole = self.begin == Edge::Recorded && self.end == Edge::Recorded;
        whole.then_some(self.until.0.saturating_sub(self.since.0))
    }
}
