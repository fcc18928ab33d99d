//! Whom a quota kept from running, and who was moved between queues.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Event as EventRecord, EventKind};
use fxt_writer::{Arg, ThreadName, Value, text};

use super::{Encoder, Waited, ticks};
use crate::encode::Closed;
use crate::encode::strings;
use crate::encode::threads::{Slot, Threads};
use crate::encode::throttles::{CgroupNames, Throttled};
use crate::event::Throttle;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The path of a cgroup is cut to this many bytes.
const PATH_BYTES: usize = 1024;

/// The path of a cgroup.
pub(super) fn path<'n>(
    names: &'n mut CgroupNames,
    threads: &Threads,
    cgroup: u64,
) -> Option<&'n str> {
    names.get(cgroup, || {
        let path = text::clean(threads.cgroup_path(cgroup)?.as_bytes()).into_owned();
        let end = (0..=PATH_BYTES.min(path.len())).rev().find(|end| path.is_char_boundary(*end));
        Some(path[..end.unwrap_or(0)].to_owned())
    })
}

impl<L: Lanes> Encoder<L> {
    /// A thread goes out since a quota is used up.
    #[cold]
    pub(super) fn throttled(&mut self, since: Nanos, cpu: Cpu, slot: Slot, throttle: Throttle) {
        let throttled = Throttled { since, cpu, throttle, length: None };
        self.threads.thread_mut(slot).throttled = Some(throttled);
    }

    /// A thread comes in, or is moved; its queue was throttled for `kept` so far.
    #[cold]
    pub(super) fn kept(&mut self, tid: Tid, kept: Nanos, cpu: Cpu, own: u32) {
        if let Some(slot) = self.threads.find(tid)
            && let Some(throttled) = &mut self.threads.thread_mut(slot).throttled
        {
            throttled.learn(cpu, own, kept);
        }
    }

    /// For how long of its wait a thread was throttled that comes in.
    #[cold]
    pub(super) fn waited(&mut self, time: Nanos, slot: Slot) -> Option<Waited> {
        let throttled = self.threads.thread_mut(slot).throttled.take()?;
        Some(Waited { throttled: throttled.until(time), by: throttled.throttle.cgroup })
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
        if self.narrow && !self.threads.thread(slot).in_scope {
            return Ok(());
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
