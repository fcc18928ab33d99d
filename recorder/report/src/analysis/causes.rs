//! Facts: the information about switches and wakeups that a recording has in addition to threads and times, and how it is counted.

use std::time::Duration;

use fxt_reader::Nanos;
use fxt_reader::record::{Args, Event, EventKind};
use fxtrec_sched::{SwitchArgs, Threads, WakeupFacts, cpu_of};

use super::cpu::CpuState;
use super::earlier_queues::EarlierQueues;
use super::records::number;
use super::thread::{BY_INTERRUPT, Live};
use super::{Analysis, Moved, Observer};
use crate::facts::{FactTallies, HostSteal, Quota};
use fxtrec_gates::Metric;

/// The maximum number of cgroups with quotas; a file may name any number.
const MOST_QUOTAS: usize = 1 << 10;

/// The maximum number of CPUs from which the host took time; a file may name any number.
const MOST_CPUS: usize = 1 << 16;

/// The additional data of a wakeup: the waker, as threads store it, and whether a quota holds the woken thread back.
pub(super) fn about_wakeup(args: Args<'_>) -> (u64, bool) {
    let WakeupFacts { waker, interrupt, throttled, .. } = WakeupFacts::of(args);
    let named = waker.filter(|koid| koid.0 != BY_INTERRUPT).map_or(0, |koid| koid.0);
    (if interrupt { BY_INTERRUPT } else { named }, throttled)
}

/// Counts a sample of a fact of a thread on a CPU; a sample of unknown length (not `whole`) is counted as censored.
fn sample(live: &mut Live, on: &mut CpuState, metric: Metric, nanos: u64, whole: bool, now: u64) {
    let take = |facts: &mut FactTallies| match whole {
        true => facts.tally(metric).record(nanos, Nanos(now)),
        false => facts.tally(metric).censor(),
    };
    if on.counted {
        take(live.facts.get_or_insert_default());
        take(on.facts.get_or_insert_default());
    }
}

/// Counts the facts that a switch contains about the slice that it ends. The slice is `whole` if its begin was recorded.
#[cold]
pub(super) fn note_slice(
    live: &mut Live,
    on: &mut CpuState,
    said: &SwitchArgs<'_>,
    whole: bool,
    now: u64,
) {
    if !said.has_slice_facts() {
        return;
    }
    for (metric, nanos) in [(Metric::Steal, said.steal), (Metric::Irq, said.irq)] {
        if nanos > 0 {
            sample(live, on, metric, nanos, whole, now);
        }
    }
    if let Some(nanos) = said.need_resched {
        // Its length is known even if the slice's is not, since it began within the slice.
        sample(live, on, Metric::NeedResched, nanos, true, now);
    }
    if on.counted && whole {
        live.facts.get_or_insert_default().irqs += said.irqs;
        on.facts.get_or_insert_default().irqs += said.irqs;
    }
}

/// Counts how long a thread was blocked in a system call.
#[cold]
pub(super) fn note_call(live: &mut Live, on: &CpuState, number: u16, nanos: u64) {
    if on.counted {
        live.facts.get_or_insert_default().calls.record(number, nanos);
    }
}

/// Counts how long a quota held a thread back in a wait that ends.
#[cold]
pub(super) fn note_held(live: &mut Live, on: &mut CpuState, nanos: u64, whole: bool, now: u64) {
    sample(live, on, Metric::Throttled, nanos, whole, now);
    if whole {
        live.facts.get_or_insert_default().held = nanos;
    }
}

impl<O: Observer> Analysis<O> {
    /// Processes a scheduler event without a separate record type. Returns false after the end of the selected part.
    #[cold]
    pub(super) fn sched_event(&mut self, event: &Event<'_>) -> bool {
        if let ("migrate", EventKind::Instant) = (event.name, event.kind)
            && self.span.is_some()
        {
            return self.migrated(event);
        }
        if let Some((cpu, time)) = self.periods.event(event) {
            self.cpus.get(cpu.0).mark(time.0);
        }
        true
    }

    /// A thread moves to the queue of another CPU.
    fn migrated(&mut self, event: &Event<'_>) -> bool {
        if !self.advance(event.time) {
            return false;
        }
        let (now, koid) = (self.now, event.thread.thread.0);
        let Some(to) = cpu_of(event.args, "dest_cpu") else { return true };
        if koid == 0 {
            return true;
        }
        if let Some(from) = cpu_of(event.args, "orig_cpu") {
            let (time, thread) = (Nanos(now), event.thread.thread);
            self.observer.moved(&Moved { time, thread, from, to });
        }
        let key = self.thread_figures.key(koid, &self.selection.threads);
        let before = *self.thread_figures.thread(key);
        let Some(from) = self.cpus.machine.migrate(&mut self.thread_figures, key, to) else {
            return true;
        };
        let live = self.thread_figures.live(key.slot);
        if self.cpus.get(to.0).counted {
            live.facts.get_or_insert_default().moved += 1;
        }
        if !self.cpus.machine.knows(&before) {
            return true;
        }
        let mut earlier_queues = live
            .earlier_queues
            .take()
            .filter(|earlier_queues| earlier_queues.begin == before.since.0);
        earlier_queues.get_or_insert_with(|| Box::new(EarlierQueues::new(before.since.0))).pass(
            (from, to),
            now,
            before.state.is_throttled(),
            &self.cpus.get(from.0).history,
        );
        live.earlier_queues = earlier_queues;
        if !before.state.is_throttled() {
            self.cpus.dequeue(from.0, now);
            self.cpus.enqueue(to.0, now);
        }
        true
    }

    /// The time that the host took from a CPU in the whole recording.
    pub(super) fn host_steal(&mut self, event: &Event<'_>) {
        let nanos = |name| number(event, name).map(Duration::from_nanos);
        let (Some(cpu), Some(stolen), Some(during)) =
            (cpu_of(event.args, "cpu"), nanos("steal_ns"), nanos("during_ns"))
        else {
            return;
        };
        if let Some(known) = self.host.iter_mut().find(|known| known.cpu == cpu) {
            known.stolen = known.stolen.saturating_add(stolen);
            known.during = known.during.saturating_add(during);
        } else if self.host.len() < MOST_CPUS {
            self.host.push(HostSteal { cpu, stolen, during });
        }
    }
}

impl<O> Analysis<O> {
    /// The time for which a quota stopped a cgroup in the whole recording.
    pub(super) fn quota_stat(&mut self, event: &Event<'_>) {
        let count = |name| number(event, name);
        let (Some(cgroup), Some(throttled), Some(throttled_periods)) =
            (event.args.str("cgroup"), count("throttled_ns"), count("throttled_periods"))
        else {
            return;
        };
        if self.quotas.len() < MOST_QUOTAS {
            self.quotas.push(Quota {
                cgroup: cgroup.to_owned(),
                throttled: Duration::from_nanos(throttled),
                throttled_periods,
                periods: count("periods").unwrap_or(throttled_periods),
                during: Duration::from_nanos(count("during_ns").unwrap_or(0)),
            });
        }
    }
}
