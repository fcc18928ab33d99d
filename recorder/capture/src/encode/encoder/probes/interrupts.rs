//! The open interrupts of CPUs.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{EventKind, KernelObject, ObjectType};
use fxt_writer::{Arg, Text, ThreadName, Value};

use super::{Hit, Place, Unseen, put};
use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use crate::encode::probes::fields::{FieldArg, with_args};
use crate::encode::probes::interrupts::{Line, Name, Open, PROCESS, thread_of};
use crate::encode::strings;
use fxtrec_units::{Cpu, Nanos};

impl<L: Lanes> Encoder<L> {
    pub(super) fn interrupt(
        &mut self,
        hit: &Hit<'_>,
        line: Line,
        name: Name,
    ) -> Result<(), Closed> {
        self.count(hit.entry.class);
        let (time, cpu, category) = (hit.time, hit.cpu, hit.entry.category);
        let interrupts = self.probes.interrupts.of(cpu);
        if !interrupts.named {
            interrupts.named = true;
            objects(&mut self.lanes, cpu)?;
        }
        let ended = interrupts.ended_by(line);
        self.end_interrupts(time, cpu, ended, Unseen::Inferred)?;
        self.probes.interrupts.of(cpu).open.push(Open { line, category, name });
        let place = track(time, cpu);
        put(&mut self.lanes, place, EventKind::DurationBegin, category, name.text(), &[])
    }

    pub(super) fn interrupt_ended(&mut self, hit: &Hit<'_>, line: Line) -> Result<(), Closed> {
        let (time, cpu) = (hit.time, hit.cpu);
        let Some(inside) = self.probes.interrupts.of(cpu).inside_of(line) else {
            self.stats.probes.unmatched_ends += 1;
            return Ok(());
        };
        self.end_interrupts(time, cpu, inside, Unseen::Inferred)?;
        let Some(open) = self.probes.interrupts.of(cpu).open.pop() else { return Ok(()) };
        let (place, name) = (track(time, cpu), open.name.text());
        put(&mut self.lanes, place, EventKind::DurationEnd, open.category, name, &[])
    }

    /// Ends the `count` innermost interrupts of a CPU.
    pub(super) fn end_interrupts(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        count: usize,
        why: Unseen,
    ) -> Result<(), Closed> {
        for _ in 0..count {
            let Some(open) = self.probes.interrupts.of(cpu).open.pop() else { break };
            self.end(track(time, cpu), open.category, open.name.text(), why)?;
        }
        Ok(())
    }

    /// Events were lost, perhaps including beginnings and ends of functions and system calls.
    pub(in crate::encode::encoder) fn doubt_spans(&mut self) {
        self.probes.spans.lose();
    }

    /// Events of `cpu` were lost, perhaps including ends of interrupts.
    pub(in crate::encode::encoder) fn doubt_interrupts(
        &mut self,
        time: Nanos,
        cpu: Cpu,
    ) -> Result<(), Closed> {
        self.end_interrupts(time, cpu, usize::MAX, Unseen::Inferred)
    }

    /// Names the interrupt tracks that are in the trace.
    pub(in crate::encode::encoder) fn interrupt_names(&self, out: &mut Vec<u8>) {
        for cpu in self.probes.interrupts.named() {
            let written = objects(out, cpu);
            debug_assert!(written.is_ok(), "memory has room");
        }
    }
}

/// The track of the interrupts of a CPU.
fn track(time: Nanos, cpu: Cpu) -> Place {
    let (process, thread) = (PROCESS, thread_of(cpu));
    Place { time, thread: ThreadName::Inline { process, thread } }
}

/// Names the track of a CPU, and the process of all of them.
fn objects(lanes: &mut impl Lanes, cpu: Cpu) -> Result<(), Closed> {
    let name = Text::Inline("interrupts");
    lanes.durable(&KernelObject {
        object_type: ObjectType::Process,
        koid: PROCESS,
        name,
        args: &[],
    })?;
    let name = format!("CPU {}", cpu.0);
    lanes.durable(&KernelObject {
        object_type: ObjectType::Thread,
        koid: thread_of(cpu),
        name: Text::Inline(&name),
        args: &[Arg::new(strings::PROCESS, Value::Koid(PROCESS))],
    })?;
    Ok(())
}

/// The handler's name that a sample carries.
pub(super) fn copied_name(name: &FieldArg, raw: &[u8], scratch: &mut String) -> Name {
    let copied = with_args(std::slice::from_ref(name), raw, scratch, |args| match args {
        [Arg { value: Value::Str(Text::Inline(name)), .. }] if !name.is_empty() => {
            Some(Name::copied(name))
        }
        _ => None,
    });
    copied.flatten().unwrap_or(Name::Known(strings::UNKNOWN))
}
