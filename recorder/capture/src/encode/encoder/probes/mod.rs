//! Turns samples of probes, tracepoints, system calls and interrupts into events of the trace.

mod functions;
mod interrupts;
mod syscalls;

use std::sync::Arc;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Event as EventRecord, EventKind};
use fxt_writer::{Arg, Koid, Text, ThreadName, Value};

use super::{Encoder, ticks};
use crate::encode::Closed;
use crate::encode::probes::catalog::{Act, Catalog, Class, Entry};
use crate::encode::probes::fields::with_args;
use crate::encode::probes::interrupts::{Interrupts, Line, Name};
use crate::encode::probes::spans::Spans;
use crate::encode::strings;
use crate::encode::threads::Slot;
use crate::event::{Sample, UserState};
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_units::{Cpu, Nanos};

/// The encoder's state for probes.
#[derive(Debug, Default)]
pub(super) struct Probes {
    catalog: Arc<Catalog>,
    spans: Spans,
    interrupts: Interrupts,
    /// A buffer for strings, reused for each sample.
    scratch: String,
}

/// A sample, and the event that it belongs to.
#[derive(Clone, Copy, Debug)]
struct Hit<'a> {
    time: Nanos,
    cpu: Cpu,
    /// The thread that had the CPU.
    slot: Slot,
    catalog: &'a Catalog,
    entry: &'a Entry,
    user: Option<UserState>,
    raw: &'a [u8],
}

/// Time and thread of an event in the trace.
#[derive(Clone, Copy, Debug)]
struct Place {
    time: Nanos,
    thread: ThreadName,
}

/// The reason why something is ended although its end was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unseen {
    /// A later event shows that it had ended.
    Inferred,
    /// Its thread or the recording ended first.
    Unfinished,
}

impl Unseen {
    fn mark(self) -> [Arg<'static>; 1] {
        let name = match self {
            Unseen::Inferred => strings::INFERRED,
            Unseen::Unfinished => strings::UNFINISHED,
        };
        [Arg::new(name, Value::Bool(true))]
    }
}

impl Probes {
    /// The open functions and system calls of threads.
    pub(super) fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The open interrupts of CPUs.
    pub(super) fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }
}

impl<L: Lanes> Encoder<L> {
    /// Sets the non-scheduler events that may arrive.
    pub fn expect(&mut self, catalog: Catalog) {
        self.probes.catalog = Arc::new(catalog);
    }

    /// The non-scheduler events that may arrive.
    pub fn catalog(&self) -> &Catalog {
        &self.probes.catalog
    }

    /// Writes the event of a sample, if the sample becomes an event. Like a wakeup, a sample shows which thread is on the CPU. A
    /// tracepoint's sample does not: it may be from `sched_switch` itself, and can come after the switch that it reports.
    pub(super) fn sample(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        sample: &Sample,
        raw: &[u8],
    ) -> Result<(), Closed> {
        let slot = self.threads.get(sample.current, None);
        let catalog = Arc::clone(&self.probes.catalog);
        let Some(entry) = catalog.entry(sample.extra) else { return Ok(()) };
        let user = sample.user;
        let hit = Hit { time, cpu, slot, catalog: &catalog, entry, user, raw };
        if !self.is_wanted(&hit, sample.extra)? {
            return Ok(());
        }
        self.act(&hit, sample.extra).unwrap_or_else(|| {
            self.stats.probes.undecoded += 1;
            Ok(())
        })
    }

    /// Remembers that the thread is on the CPU, except for tracepoints, and returns whether the event is to be written.
    fn is_wanted(&mut self, hit: &Hit<'_>, extra: ExtraIndex) -> Result<bool, Closed> {
        let Hit { time, cpu, slot, entry, .. } = *hit;
        if entry.class != Class::Tracepoint {
            self.has_cpu(time, cpu, slot)?;
        }
        if entry.in_scope_only && !self.threads.thread(slot).in_scope {
            return Ok(false);
        }
        self.watch_probe(time, cpu, slot, extra)?;
        Ok(true)
    }

    /// `None` if the sample is too short for the fields that determine this.
    fn act(&mut self, hit: &Hit<'_>, extra: ExtraIndex) -> Option<Result<(), Closed>> {
        let raw = hit.raw;
        Some(match &hit.entry.act {
            Act::Instant => self.moment(hit),
            Act::Call(id) => self.call(hit, *id),
            Act::Return(id) => self.returned(hit, extra, *id),
            Act::SyscallEnter(number) => self.syscall(hit, number.integer(raw)?),
            Act::SyscallExit(number, ret) => {
                self.syscall_ended(hit, number.integer(raw)?, ret.integer(raw)?)
            }
            Act::HardEnter(number, name) => {
                let line = Line::Hard(number.integer(raw)?);
                let name = interrupts::copied_name(name, raw, &mut self.probes.scratch);
                self.interrupt(hit, line, name)
            }
            Act::HardExit(number) => self.interrupt_ended(hit, Line::Hard(number.integer(raw)?)),
            Act::SoftEnter(vector) => {
                let vector = vector.integer(raw)?;
                self.interrupt(hit, Line::Soft(vector), Name::Known(hit.catalog.softirq(vector)))
            }
            Act::SoftExit(vector) => self.interrupt_ended(hit, Line::Soft(vector.integer(raw)?)),
            Act::VectorEnter(vector) => {
                self.interrupt(hit, Line::Vector(*vector), Name::Known(hit.entry.name))
            }
            Act::VectorExit(vector) => self.interrupt_ended(hit, Line::Vector(*vector)),
        })
    }

    fn count(&mut self, class: Class) {
        let counts = &mut self.stats.probes;
        let count = match class {
            Class::Probe => &mut counts.probe_hits,
            Class::Tracepoint => &mut counts.tracepoints,
            Class::Syscall => &mut counts.syscalls,
            Class::Interrupt => &mut counts.interrupts,
        };
        *count += 1;
    }

    fn moment(&mut self, hit: &Hit<'_>) -> Result<(), Closed> {
        self.count(hit.entry.class);
        let place = self.place(hit.time, hit.slot)?;
        self.write(place, EventKind::Instant, hit)
    }

    /// The thread in the form that events refer to. Names it first.
    fn place(&mut self, time: Nanos, slot: Slot) -> Result<Place, Closed> {
        self.name(slot)?;
        let thread = self.threads.thread(slot);
        let (koid, process) = (thread.koid, thread.process);
        let process = self.threads.process_koid(process);
        Ok(Place { time, thread: ThreadName::Inline { process, thread: koid } })
    }

    fn koid(&self, slot: Slot) -> Koid {
        self.threads.thread(slot).koid
    }

    /// Writes an event with the arguments that the sample carries.
    fn write(&mut self, place: Place, kind: EventKind, hit: &Hit<'_>) -> Result<(), Closed> {
        let Entry { category, name, args, .. } = hit.entry;
        let lanes = &mut self.lanes;
        let written = with_args(args, hit.raw, &mut self.probes.scratch, |args| {
            put(lanes, place, kind, *category, *name, args)
        });
        written.unwrap_or_else(|| {
            self.stats.probes.undecoded += 1;
            put(&mut self.lanes, place, kind, *category, *name, &[])
        })
    }

    /// Ends the `count` innermost spans of a thread.
    fn end_unseen(
        &mut self,
        place: Place,
        koid: Koid,
        count: usize,
        why: Unseen,
    ) -> Result<(), Closed> {
        for _ in 0..count {
            let Some(open) = self.probes.spans.of(koid).and_then(|stack| stack.pop()) else {
                break;
            };
            self.end(place, open.category, open.name, why)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        place: Place,
        category: Text<'_>,
        name: Text<'_>,
        why: Unseen,
    ) -> Result<(), Closed> {
        match why {
            Unseen::Inferred => self.stats.probes.inferred_ends += 1,
            Unseen::Unfinished => self.stats.probes.unfinished += 1,
        }
        put(&mut self.lanes, place, EventKind::DurationEnd, category, name, &why.mark())
    }

    /// Ends everything that is open, at the end of a recording.
    ///
    /// # Errors
    /// Returns [`Closed`] if the trace accepts no more records.
    pub fn end_all_spans(&mut self, time: Nanos) -> Result<(), Closed> {
        for koid in self.probes.spans.threads() {
            let known = self.threads.slots().into_iter().find(|slot| self.koid(*slot) == koid);
            let thread = match known {
                Some(slot) => self.place(time, slot)?.thread,
                // The thread's end was not recorded, and its tid belongs to another thread now.
                None => ThreadName::Inline { process: koid, thread: koid },
            };
            self.end_unseen(Place { time, thread }, koid, usize::MAX, Unseen::Unfinished)?;
            self.probes.spans.tidy(koid);
        }
        for cpu in self.probes.interrupts.open() {
            self.end_interrupts(time, cpu, usize::MAX, Unseen::Unfinished)?;
        }
        Ok(())
    }
}

fn put(
    lanes: &mut impl Lanes,
    place: Place,
    kind: EventKind,
    category: Text<'_>,
    name: Text<'_>,
    args: &[Arg<'_>],
) -> Result<(), Closed> {
    let Place { time, thread } = place;
    lanes.rolling(&EventRecord { kind, time: ticks(time), thread, category, name, args })?;
    Ok(())
}
