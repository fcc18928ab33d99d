//! A CPU: its occupant, when it got the CPU, and how that is known.

use fxt_reader::{Cpu, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occupant<K> {
    Idle,
    /// Some thread outside the scope of the recording.
    NotRecorded,
    Thread(K),
}

impl<K> Occupant<K> {
    /// The thread, if a thread has the CPU.
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
    /// Cut by the beginning of the recording, or of the window: it began then or earlier.
    #[default]
    Start,
    Recorded,
    /// No event reported it; it happened at this time or earlier.
    Inferred,
    /// Cut by a gap: events are missing.
    Gap,
    /// Cut because the CPU was offline.
    Offline,
    /// Cut by the end of the recording: it had not ended.
    End,
}

/// How the time of a switch is known.
#[inline(always)]
pub(crate) fn edge(inferred: bool) -> Edge {
    if inferred { Edge::Inferred } else { Edge::Recorded }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState<K> {
    /// The occupant of the CPU; `None` if unknown, or if the CPU is offline.
    pub occupant: Option<Occupant<K>>,
    /// The occupant of the CPU before the gaps since its last switch, if it was known when the first of them began.
    pub last: Option<Occupant<K>>,
    /// Start of this state; 0 if it began before the trace.
    pub since: Nanos,
    /// How `since` is known. After a gap it stays [`Edge::Gap`] until the next switch, even if the occupant of the CPU becomes known.
    pub begin: Edge,
}

impl<K> Default for CpuState<K> {
    fn default() -> CpuState<K> {
        CpuState::unseen(Nanos(0))
    }
}

/// Events of one CPU. The [`Machine`](crate::Machine) changes its threads as well.
impl<K: Copy> CpuState<K> {
    /// A switch puts `incoming` on the CPU.
    #[inline(always)]
    pub fn enter(&mut self, incoming: Occupant<K>, time: Nanos, inferred: bool) {
        *self =
            CpuState { occupant: Some(incoming), last: None, since: time, begin: edge(inferred) };
    }

    /// The occupant of the CPU, which was unknown, becomes known. The beginning stays unknown.
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

    /// The occupant becomes unknown, although no event is missing.
    #[inline]
    pub fn forget(&mut self, time: Nanos) {
        let begin = if self.begin == Edge::Gap { Edge::Gap } else { Edge::Inferred };
        *self = CpuState { occupant: None, last: None, since: time, begin };
    }

    /// The occupant, assuming that no switch away from it was lost.
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

    /// Whether anything has happened on this CPU.
    pub fn is_seen(&self) -> bool {
        self.occupant.is_some() || self.begin != Edge::Start
    }

    /// The interval up to `until`, if the occupant is known.
    #[inline]
    pub(crate) fn tenure(self, cpu: Cpu, until: Nanos, end: Edge) -> Option<CpuInterval<K>> {
        let CpuState { occupant, since, begin, .. } = self;
        occupant.map(|who| CpuInterval { cpu, who, since, until, begin, end })
    }
}

/// An interval in which a CPU had one occupant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInterval<K> {
    pub cpu: Cpu,
    pub who: Occupant<K>,
    /// Its beginning; 0 if it began before the trace.
    pub since: Nanos,
    pub until: Nanos,
    /// How the beginning is known.
    pub begin: Edge,
    /// How the end is known.
    pub end: Edge,
}

impl<K> CpuInterval<K> {
    /// Its length in nanoseconds, if events reported both ends. Each CPU reports its own switches, so events missing on other CPUs do not
    /// make the length uncertain.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        let whole = self.begin == Edge::Recorded && self.end == Edge::Recorded;
        whole.then_some(self.until.0.saturating_sub(self.since.0))
    }
}
