//! Samples of probes, tracepoints, system calls and interrupts, made events of the trace.

use std::sync::Arc;

use fxt_writer::record::{Event as EventRecord, EventKind, KernelObject, ObjectType};
use fxt_writer::{Arg, Koid, Text, ThreadName, Value};

use super::{Encoder, ticks};
use crate::capture::event::Sample;
use crate::encode::lanes::{Closed, Lanes};
use crate::encode::probes::catalog::{Act, Catalog, Class, Entry};
use crate::encode::probes::fields::with_args;
use crate::encode::probes::interrupts::{self, Interrupts, Line, Name};
use crate::encode::probes::spans::{Frame, Open, SpanId, Spans};
use crate::encode::strings;
use crate::encode::threads::Slot;
use crate::kernel::format::Field;
use crate::units::{Cpu, Nanos};

/// What the encoder remembers of probes.
#[derive(Debug, Default)]
pub(super) struct Probes {
    catalog: Arc<Catalog>,
    spans: Spans,
    interrupts: Interrupts,
    /// Room for texts, used again for each sample.
    scratch: String,
}

/// Where an event is put in the trace.
#[derive(Clone, Copy, Debug)]
struct Place {
    time: Nanos,
    thread: ThreadName,
}

/// Why something is ended though its end was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unseen {
    /// What was seen later shows that it had ended.
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

impl<L: Lanes> Encoder<L> {
    /// Says what may arrive beside the scheduler's events.
    pub fn expect(&mut self, catalog: Catalog) {
        self.probes.catalog = Arc::new(catalog);
    }

    pub(super) fn sample(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        sample: &Sample,
        raw: &[u8],
    ) -> Result<(), Closed> {
        let slot = self.threads.get(sample.current, None);
        self.has_cpu(time, cpu, slot)?;
        let catalog = Arc::clone(&self.probes.catalog);
        match catalog.entry(sample.extra) {
            Some(entry) if !entry.in_scope_only || self.threads.thread(slot).in_scope => {
                self.hit(time, cpu, slot, &catalog, entry, sample, raw)
            }
            _ => Ok(()),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all of it belongs to one sample")]
    fn hit(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        slot: Slot,
        catalog: &Catalog,
        entry: &Entry,
        sample: &Sample,
        raw: &[u8],
    ) -> Result<(), Closed> {
        let stack = sample.user.map(|user| user.stack);
        let is_32_bit = sample.user.is_some_and(|user| user.is_32_bit);
        let Some(()) = (match &entry.act {
            Act::Instant => {
                let place = self.place(time, slot)?;
                self.count(entry.class);
                return self.write(place, EventKind::Instant, entry, raw);
            }
            Act::Call(id) => {
                let place = self.place(time, slot)?;
                self.count(entry.class);
                return self.call(place, slot, *id, stack, entry, raw);
            }
            Act::Return(id) => {
                return self.returned(time, slot, (*id, stack, is_32_bit), entry, raw);
            }
            Act::SyscallEnter(number) => number
                .integer(raw)
                .map(|number| self.syscall(time, slot, catalog, entry, number, is_32_bit)),
            Act::SyscallExit(number, ret) => {
                let fields = number.integer(raw).zip(ret.integer(raw));
                fields.map(|(number, ret)| {
                    let wanted = catalog.syscall(number, is_32_bit).is_some();
                    self.syscall_ended(time, slot, number, ret, wanted)
                })
            }
            Act::HardEnter(number, name) => number.integer(raw).map(|number| {
                let name = copied_name(name, raw, &mut self.probes.scratch);
                self.interrupt(time, cpu, entry, Line::Hard(number), name)
            }),
            Act::HardExit(number) => self.line_ended(time, cpu, number, raw, Line::Hard),
            Act::SoftEnter(vector) => vector.integer(raw).map(|vector| {
                let name = Name::Known(catalog.softirq(vector));
                self.interrupt(time, cpu, entry, Line::Soft(vector), name)
            }),
            Act::SoftExit(vector) => self.line_ended(time, cpu, vector, raw, Line::Soft),
            Act::VectorEnter(vector) => {
                let name = Name::Known(entry.name);
                Some(self.interrupt(time, cpu, entry, Line::Vector(*vector), name))
            }
            Act::VectorExit(vector) => Some(self.interrupt_ended(time, cpu, Line::Vector(*vector))),
        })
        .transpose()?
        else {
            self.stats.probes.undecoded += 1;
            return Ok(());
        };
        Ok(())
    }

    fn line_ended(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        number: &Field,
        raw: &[u8],
        line: fn(i64) -> Line,
    ) -> Option<Result<(), Closed>> {
        Some(self.interrupt_ended(time, cpu, line(number.integer(raw)?)))
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

    /// The thread as events name it, once it has a name itself.
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
    fn write(
        &mut self,
        place: Place,
        kind: EventKind,
        entry: &Entry,
        raw: &[u8],
    ) -> Result<(), Closed> {
        let lanes = &mut self.lanes;
        let written = with_args(&entry.args, raw, &mut self.probes.scratch, |args| {
            let (category, name) = (entry.category, entry.name);
            put(lanes, place, kind, category, name, args)
        });
        written.unwrap_or_else(|| {
            self.stats.probes.undecoded += 1;
            put(&mut self.lanes, place, kind, entry.category, entry.name, &[])
        })
    }

    fn call(
        &mut self,
        place: Place,
        slot: Slot,
        id: SpanId,
        stack: Option<u64>,
        entry: &Entry,
        raw: &[u8],
    ) -> Result<(), Closed> {
        let koid = self.koid(slot);
        let ended = self.probes.spans.of(koid).map_or(0, |open| open.ended_by_call(id, stack));
        self.end_unseen(place, koid, ended, Unseen::Inferred)?;
        let (category, name) = (entry.category, entry.name);
        let open = Open { frame: Frame::Function(id, stack), category, name, gone: false };
        self.probes.spans.deepen(koid).push(open);
        self.write(place, EventKind::DurationBegin, entry, raw)
    }

    fn returned(
        &mut self,
        time: Nanos,
        slot: Slot,
        (id, stack, is_32_bit): (SpanId, Option<u64>, bool),
        entry: &Entry,
        raw: &[u8],
    ) -> Result<(), Closed> {
        let koid = self.koid(slot);
        let open = self.probes.spans.of(koid);
        let Some(inside) = open.and_then(|open| open.inside_of_return(id, stack, is_32_bit)) else {
            self.stats.probes.unmatched_ends += 1;
            return Ok(());
        };
        let place = self.place(time, slot)?;
        self.end_unseen(place, koid, inside, Unseen::Inferred)?;
        self.probes.spans.deepen(koid).pop();
        self.probes.spans.tidy(koid);
        self.write(place, EventKind::DurationEnd, entry, raw)
    }

    fn syscall(
        &mut self,
        time: Nanos,
        slot: Slot,
        catalog: &Catalog,
        entry: &Entry,
        number: i64,
        is_32_bit: bool,
    ) -> Result<(), Closed> {
        let Some(known) = catalog.syscall(number, is_32_bit) else { return Ok(()) };
        self.count(Class::Syscall);
        let place = self.place(time, slot)?;
        let koid = self.koid(slot);
        let ended = self.probes.spans.of(koid).map_or(0, |open| open.ended_by_syscall());
        self.end_unseen(place, koid, ended, Unseen::Inferred)?;
        let name = known.unwrap_or(strings::SYSCALL);
        let (frame, category) = (Frame::Syscall(number), entry.category);
        self.probes.spans.deepen(koid).push(Open { frame, category, name, gone: false });
        let number = [Arg::new(strings::NUMBER, Value::int(number))];
        let args = if known.is_some() { &[][..] } else { &number[..] };
        put(&mut self.lanes, place, EventKind::DurationBegin, category, name, args)
    }

    fn syscall_ended(
        &mut self,
        time: Nanos,
        slot: Slot,
        number: i64,
        ret: i64,
        wanted: bool,
    ) -> Result<(), Closed> {
        let koid = self.koid(slot);
        let open = self.probes.spans.of(koid);
        let Some(inside) = open.and_then(|open| open.inside_of_syscall(number)) else {
            // It may be one that is not wanted, and then was not begun either.
            self.stats.probes.unmatched_ends += u64::from(wanted);
            return Ok(());
        };
        let place = self.place(time, slot)?;
        self.end_unseen(place, koid, inside, Unseen::Inferred)?;
        if let Some(open) = self.probes.spans.deepen(koid).pop() {
            let ret = [Arg::new(strings::RET, Value::int(ret))];
            let (category, name) = (open.category, open.name);
            put(&mut self.lanes, place, EventKind::DurationEnd, category, name, &ret)?;
        }
        while let Some(gone) = self.probes.spans.deepen(koid).pop_gone() {
            self.end(place, gone.category, gone.name, Unseen::Unfinished)?;
        }
        self.probes.spans.tidy(koid);
        Ok(())
    }

    /// Ends the `count` innermost of what a thread is inside of.
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

    /// A thread goes out for the last time: nothing that it is inside of will end.
    pub(super) fn end_thread_spans(&mut self, time: Nanos, slot: Slot) -> Result<(), Closed> {
        let koid = self.koid(slot);
        if self.probes.spans.of(koid).is_none() {
            return Ok(());
        }
        let place = self.place(time, slot)?;
        self.end_unseen(place, koid, usize::MAX, Unseen::Unfinished)?;
        self.probes.spans.tidy(koid);
        Ok(())
    }

    /// A thread executes another program: what it was inside of in the old one will not end.
    pub(super) fn end_program_spans(&mut self, time: Nanos, slot: Slot) -> Result<(), Closed> {
        let koid = self.koid(slot);
        let Some(stack) = self.probes.spans.of(koid) else { return Ok(()) };
        stack.lose_program();
        let place = self.place(time, slot)?;
        while let Some(gone) = self.probes.spans.deepen(koid).pop_gone() {
            self.end(place, gone.category, gone.name, Unseen::Unfinished)?;
        }
        self.probes.spans.tidy(koid);
        Ok(())
    }

    /// Ends everything that has begun, at the end of a recording.
    ///
    /// # Errors
    /// [`Closed`] when the trace takes no more records.
    pub fn end_all_spans(&mut self, time: Nanos) -> Result<(), Closed> {
        for koid in self.probes.spans.threads() {
            let known = self.threads.slots().into_iter().find(|slot| self.koid(*slot) == koid);
            let thread = match known {
                Some(slot) => self.place(time, slot)?.thread,
                // Its end was not seen, and its tid is another's by now.
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

    fn interrupt(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        entry: &Entry,
        line: Line,
        name: Name,
    ) -> Result<(), Closed> {
        self.count(Class::Interrupt);
        let interrupts = self.probes.interrupts.of(cpu);
        if !interrupts.named {
            interrupts.named = true;
            interrupt_objects(&mut self.lanes, cpu)?;
        }
        let ended = interrupts.ended_by(line);
        self.end_interrupts(time, cpu, ended, Unseen::Inferred)?;
        let category = entry.category;
        let open = interrupts::Open { line, category, name };
        self.probes.interrupts.of(cpu).open.push(open);
        let place = interrupt_place(time, cpu);
        put(&mut self.lanes, place, EventKind::DurationBegin, category, name.text(), &[])
    }

    fn interrupt_ended(&mut self, time: Nanos, cpu: Cpu, line: Line) -> Result<(), Closed> {
        let Some(inside) = self.probes.interrupts.of(cpu).inside_of(line) else {
            self.stats.probes.unmatched_ends += 1;
            return Ok(());
        };
        self.end_interrupts(time, cpu, inside, Unseen::Inferred)?;
        let Some(open) = self.probes.interrupts.of(cpu).open.pop() else { return Ok(()) };
        let (place, name) = (interrupt_place(time, cpu), open.name.text());
        put(&mut self.lanes, place, EventKind::DurationEnd, open.category, name, &[])
    }

    fn end_interrupts(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        count: usize,
        why: Unseen,
    ) -> Result<(), Closed> {
        for _ in 0..count {
            let Some(open) = self.probes.interrupts.of(cpu).open.pop() else { break };
            self.end(interrupt_place(time, cpu), open.category, open.name.text(), why)?;
        }
        Ok(())
    }

    /// Events of `cpu` were lost, the ends of interrupts perhaps among them.
    pub(super) fn doubt_interrupts(&mut self, time: Nanos, cpu: Cpu) -> Result<(), Closed> {
        self.end_interrupts(time, cpu, usize::MAX, Unseen::Inferred)
    }

    /// Names the pseudo-threads of interrupts that are in the trace.
    pub(super) fn interrupt_names(&self, out: &mut Vec<u8>) {
        for cpu in self.probes.interrupts.named() {
            let written = interrupt_objects(out, cpu);
            debug_assert!(written.is_ok(), "memory has room");
        }
    }
}

fn interrupt_place(time: Nanos, cpu: Cpu) -> Place {
    let (process, thread) = (interrupts::PROCESS, interrupts::thread_of(cpu));
    Place { time, thread: ThreadName::Inline { process, thread } }
}

/// Names the pseudo-thread of a CPU, and its process.
fn interrupt_objects(lanes: &mut impl Lanes, cpu: Cpu) -> Result<(), Closed> {
    let koid = interrupts::PROCESS;
    let name = Text::Inline("interrupts");
    lanes.durable(&KernelObject { kind: ObjectType::Process, koid, name, args: &[] })?;
    let name = format!("CPU {}", cpu.0);
    lanes.durable(&KernelObject {
        kind: ObjectType::Thread,
        koid: interrupts::thread_of(cpu),
        name: Text::Inline(&name),
        args: &[Arg::new(strings::PROCESS, Value::Koid(koid))],
    })
}

/// The handler's name that a sample carries.
fn copied_name(
    name: &crate::encode::probes::fields::FieldArg,
    raw: &[u8],
    scratch: &mut String,
) -> Name {
    let copied = with_args(std::slice::from_ref(name), raw, scratch, |args| match args {
        [Arg { value: Value::Str(Text::Inline(name)), .. }] if !name.is_empty() => {
            Some(Name::copied(name))
        }
        _ => None,
    });
    copied.flatten().unwrap_or(Name::Known(strings::UNKNOWN))
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
    lanes.rolling(&EventRecord { kind, time: ticks(time), thread, category, name, args })
}
