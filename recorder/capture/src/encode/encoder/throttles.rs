//! Which threads quotas kept from running, in which periods, and which threads were moved between queues.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Event as EventRecord, EventKind};
use fxt_writer::{Arg, Text, ThreadName, Value};

use super::{Encoder, Waited, cpu_arg, ticks};
use crate::encode::Closed;
use crate::encode::periods::Over;
use crate::encode::strings;
use crate::encode::threads::{Run, Slot, Threads};
use crate::encode::throttles::{CgroupNames, Throttled, path_text};
use crate::event::{Kept, Throttle};
use fxtrec_units::{Cpu, Nanos, Tid};

/// The path of a cgroup.
pub(super) fn path<'n>(
    names: &'n mut CgroupNames,
    threads: &Threads,
    cgroup: u64,
) -> Option<&'n str> {
    names.get(cgroup, || Some(path_text(&threads.cgroup_path(cgroup)?)))
}

impl<L: Lanes> Encoder<L> {
    /// The process of this thread may have changed its cgroup. If its main thread was moved, it is the cgroup with this id, though the
    /// process may have moved again since. If no cgroup can be found, it becomes unknown.
    pub(super) fn look_for_home(&mut self, tid: Tid, number: Option<u64>) {
        let mut by_number = || path(&mut self.cgroups, &self.threads, number?).map(str::to_owned);
        let path = match self.threads.is_main(tid) {
            true => by_number().or_else(|| self.threads.cgroup_now(tid)),
            false => self.threads.cgroup_now(tid).or_else(by_number),
        };
        self.threads.put_thread_in_cgroup(tid, path.as_deref());
    }

    /// A thread is switched out because a quota is used up, or while runnable in a queue that a quota may hold back.
    #[cold]
    pub(super) fn throttled(
        &mut self,
        since: Nanos,
        cpu: Cpu,
        slot: Slot,
        throttle: Throttle,
    ) -> Result<(), Closed> {
        let wanted = throttle.now && (!self.narrow || self.threads.thread(slot).in_scope);
        let period = match wanted {
            true => self.period_of(since, cpu, throttle)?,
            false => None,
        };
        let (length, before) = (None, Nanos(0));
        let throttled = Throttled { since, cpu, throttle, length, period, before };
        self.threads.thread_mut(slot).throttled = Some(throttled);
        Ok(())
    }

    /// The throttled period that an outgoing thread belongs to; it may begin with this thread.
    fn period_of(
        &mut self,
        since: Nanos,
        cpu: Cpu,
        throttle: Throttle,
    ) -> Result<Option<u64>, Closed> {
        let Throttle { kept, cgroup, own, .. } = throttle;
        let Some(path) = path(&mut self.cgroups, &self.threads, cgroup).map(str::to_owned) else {
            return Ok(None);
        };
        let out = self.periods.goes_out(since, cpu, cgroup, own, kept);
        if let Some(over) = out.over {
            self.end_period(since, over)?;
        }
        if out.begins {
            let cgroup = Arg::new(strings::CGROUP, Value::Str(Text::Inline(&path)));
            let kind = EventKind::AsyncBegin { id: out.id };
            self.period(since, kind, &[cgroup, cpu_arg(cpu)])?;
        }
        Ok(Some(out.id))
    }

    /// A throttled period has ended; this became known at `time`.
    fn end_period(&mut self, time: Nanos, over: Over) -> Result<(), Closed> {
        let kind = EventKind::AsyncEnd { id: over.id };
        let cpu = cpu_arg(over.cpu);
        match over.end {
            Some(end) if end == time => self.period(time, kind, &[cpu]),
            Some(end) => {
                let late = Value::uint(time.0.saturating_sub(end.0));
                self.period(time, kind, &[cpu, Arg::new(strings::LATE_NS, late)])
            }
            None => self.period(time, kind, &[cpu, Arg::new(strings::INFERRED, Value::Bool(true))]),
        }
    }

    fn period(&mut self, time: Nanos, kind: EventKind, args: &[Arg<'_>]) -> Result<(), Closed> {
        self.lanes.rolling(&EventRecord {
            kind,
            time: ticks(time),
            thread: self.recorder,
            category: strings::SCHED,
            name: strings::THROTTLED,
            args,
        })?;
        Ok(())
    }

    /// Events were lost: it is unknown which throttled periods have ended.
    #[cold]
    pub(super) fn doubt_periods(&mut self, time: Nanos) -> Result<(), Closed> {
        let open = self.periods.lose();
        open.into_iter().try_for_each(|over| self.end_period(time, over))
    }

    /// A thread is woken in a queue that a quota holds back, or has held back before.
    #[cold]
    pub(super) fn queued(&mut self, since: Nanos, cpu: Cpu, slot: Slot, throttle: Throttle) {
        let (length, period, before) = (None, None, Nanos(0));
        let throttled = Throttled { since, cpu, throttle, length, period, before };
        self.threads.thread_mut(slot).throttled = Some(throttled);
    }

    /// The report of a queue, when a thread is switched in or moved.
    #[cold]
    pub(super) fn kept(&mut self, time: Nanos, said: Kept) -> Result<(), Closed> {
        let Kept { tid, kept, cpu, own, of_queues, begins, goes_on } = said;
        if let Some(slot) = self.threads.find(tid) {
            let waits = of_queues && self.threads.run(slot) == Run::Runnable;
            let throttled = &mut self.threads.thread_mut(slot).throttled;
            if waits && throttled.is_none() {
                // When the thread began to wait, its queue had never been throttled.
                let kept = if begins { kept } else { Nanos(0) };
                let throttle = Throttle { kept, cgroup: 0, own, now: false, of_queues };
                let (since, length, period, before) = (Nanos(0), None, None, Nanos(0));
                *throttled = Some(Throttled { since, cpu, throttle, length, period, before });
            }
            match throttled {
                Some(throttled) if begins => throttled.goes_over(cpu, kept),
                Some(throttled) => throttled.learn(cpu, own, kept),
                None => {}
            }
        }
        if begins || goes_on {
            return Ok(());
        }
        match self.periods.learn(time, cpu, own, kept) {
            Some(over) => self.end_period(time, over),
            None => Ok(()),
        }
    }

    /// How long an incoming thread was throttled during its wait.
    #[cold]
    pub(super) fn waited(&mut self, time: Nanos, slot: Slot) -> Result<Option<Waited>, Closed> {
        let Some(throttled) = self.threads.thread_mut(slot).throttled.take() else {
            return Ok(None);
        };
        if let Some(over) = throttled.period.and_then(|id| self.periods.comes_in(id)) {
            self.end_period(time, over)?;
        }
        let Throttled { cpu, throttle: Throttle { cgroup, own, now, .. }, .. } = throttled;
        let length = throttled.until(time);
        if !now && length == Nanos(0) {
            return Ok(None);
        }
        let by = match cgroup {
            0 => self.periods.quota(cpu, own).unwrap_or(0),
            by => by,
        };
        Ok(Some(Waited { throttled: length, by }))
    }

    /// A thread is moved between queues.
    pub(super) fn moved(
        &mut self,
        time: Nanos,
        tid: Tid,
        from: Cpu,
        to: Cpu,
    ) -> Result<(), Closed> {
        self.stats.moves += 1;
        if self.threads.has_ended(tid) {
            return Ok(());
        }
        let slot = self.threads.get(tid, None);
        if let Some(throttled) = &mut self.threads.thread_mut(slot).throttled
            && throttled.throttle.of_queues
        {
            // If the queue there was ever throttled, the next event reports it.
            throttled.goes_over(to, Nanos(0));
        }
        if self.narrow && !self.threads.thread(slot).in_scope {
            return Ok(());
        }
        if self.threads.thread(slot).waits_for.is_some() {
            self.begin_wait(time, to, slot)?;
        }
        self.name(slot)?;
        let thread = self.threads.thread(slot);
        let (koid, home) = (thread.koid, thread.process);
        let process = self.threads.process_koid(home);
        self.lanes.rolling(&EventRecord {
            kind: EventKind::Instant,
            time: ticks(time),
            thread: ThreadName::Inline { process, thread: koid },
            category: strings::SCHED,
            name: strings::MIGRATE,
            args: &[
                Arg::new(strings::ORIG_CPU, Value::Uint32(from.0)),
                Arg::new(strings::DEST_CPU, Value::Uint32(to.0)),
            ],
        })?;
        Ok(())
    }
}
