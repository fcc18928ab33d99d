//! Says why a long wait is not an incident.

use fxtrec_blame::Class;
use fxtrec_blame::threads::Index;

use super::{
    Divided, Known, LEAST_SINGLE, LEAST_UNITS, LEAST_WAITS, Processes, StackIds, Unit, Waits,
    compare,
};

/// The reason why a long wait is not an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Normal {
    /// Its thread always wants a CPU: for how long it had one or waited for one, and its life.
    Busy { wanted: u64, life: u64 },
    /// Its thread waits in no system call.
    NoCalls,
    /// Its thread is idle there.
    Idle { call: Option<u64> },
    /// It is in this unit of work, or is this wait, which are not unusual.
    Usual(Unit),
    /// Its thread has too few units of work, or too few waits in this system call, to know the usual length.
    Few { is_wait: bool, count: u64 },
    /// It waits for the end of a child process.
    Child,
    /// The recorder had the CPU most of the time.
    Recorder,
    /// Most of it is unknown.
    Unknown,
}

impl Waits {
    /// The reason why a delay of a thread, which begins when the thread blocks or becomes runnable, is not an incident; `None` if it may be
    /// one.
    pub(crate) fn normal(
        &self,
        index: Index,
        (from, to): (u64, u64),
        known: &Known<'_>,
    ) -> Option<Normal> {
        if self.is_cut() {
            return None;
        }
        let thread = self.threads.get(index as usize)?;
        let few = |is_wait, count: usize| Some(Normal::Few { is_wait, count: count as u64 });
        let at = thread.waits.iter().position(|wait| !wait.is_gap() && wait.from == from);
        if at.is_some_and(|at| (known.class)(thread.waits[at].call()) == Class::Child) {
            return Some(Normal::Child);
        }
        if thread.waits.len() < LEAST_UNITS {
            let call = thread.waits[at?].call;
            let like = thread.waits.iter().filter(|wait| !wait.is_gap() && wait.call == call);
            return few(true, like.count());
        }
        let koid = (known.koid)(index);
        let stacks = known.stacks.map(StackIds::of).unwrap_or_default();
        let processes = Processes::of(self, known);
        let places = self.places(thread, koid, known, &stacks);
        let others = processes.others(koid, known);
        let idle = self.idle_places(thread, &places, known, (others, &stacks, koid));
        let usual = |is_wait, call: u32, (_, from, to): (u64, u64, u64), units| {
            let like = *compare(is_wait, koid, call, units).first()?;
            let unit = Unit { from, to, ..like };
            (!unit.is_unusual()).then_some(Normal::Usual(unit))
        };
        let is_here = |&&(_, begin, end): &&(u64, u64, u64)| begin <= from && to <= end;
        let Some(main) = idle.iter().max_by_key(|it| (*it.1, *it.0)).map(|it| *it.0) else {
            let wait = &thread.waits[at?];
            let list = self.comparable(thread, &places, known).remove(&wait.call)?;
            let this = *list.iter().find(|it| it.1 == from)?;
            return match list.len() < LEAST_SINGLE + LEAST_WAITS {
                true => few(true, list.len()),
                false => usual(true, wait.call, this, list),
            };
        };
        let Divided { units, is_idle, .. } = self.units(thread, &places, main, &idle);
        if let Some(at) = at.filter(|at| is_idle[*at]) {
            return Some(Normal::Idle { call: thread.waits[at].call() });
        }
        if units.len() < LEAST_UNITS {
            return few(false, units.len());
        }
        let this = *units.iter().find(is_here)?;
        usual(false, main.0, this, units)
    }
}
