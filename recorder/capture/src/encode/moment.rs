//! The state of the machine at one point in time, written so that a trace can begin there.
//!
//! ```text
//! recording  ===a====|======b=====|==a==     a has the CPU, c waits for it, b is inside of f
//! piece              |=a|===b=====|==a==     |: a switch to a, a wakeup of c, the beginning of f
//! ```
//!
//! Switches and wakeups that are generated for this carry the argument `inferred`, and beginnings of durations carry `cut`, like those of
//! `fxtrec cut`. A thread that neither has a CPU nor is in a queue either waits for something else or is unknown.

mod filter_relevant;
pub mod rewind;

use std::collections::BTreeMap;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{
    ContextSwitch, Event as EventRecord, EventKind, ThreadState, Wakeup as WakeupRecord,
};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value};

use super::Closed;
use super::{strings, weight};
use fxtrec_units::Nanos;
use fxtrec_units::convention::CUT;

/// A thread that is on a CPU or waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnableThread {
    /// Its id in the trace.
    pub koid: Koid,
    pub weight: i32,
}

/// The category or name of a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A string that the head of the trace registers.
    Known(Text<'static>),
    Own(String),
}

impl Label {
    fn text(&self) -> Text<'_> {
        match self {
            Label::Known(text) => *text,
            Label::Own(text) => Text::Inline(text),
        }
    }
}

/// An open duration of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub category: Label,
    pub name: Label,
}

/// A process and one of its threads.
pub type Track = (Koid, Koid);

/// The current state of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// The thread on each CPU, as the trace shows it. Idle CPUs may be missing.
    pub cpus: BTreeMap<u16, RunnableThread>,
    /// The threads that wait for a CPU: queue and weight of each.
    pub waiting: BTreeMap<Koid, (u16, i32)>,
    /// The spans that threads are in, the outermost first.
    pub spans: BTreeMap<Track, Vec<Span>>,
}

impl MachineState {
    /// Writes the records with which a trace that begins at `time`, in this state, must begin. All names must already be in it.
    ///
    /// # Errors
    /// Returns [`Closed`] if the trace accepts no more records.
    pub fn begin(&self, time: Nanos, out: &mut impl Lanes) -> Result<(), Closed> {
        let time = Ticks(time.0);
        for (cpu, contender) in self.cpus.iter().filter(|(_, contender)| contender.koid != Koid(0))
        {
            out.rolling(&ContextSwitch {
                cpu: *cpu,
                time,
                outgoing: Koid(0),
                incoming: contender.koid,
                outgoing_state: ThreadState::Running,
                args: &[
                    Arg::new(strings::INCOMING_WEIGHT, Value::Int32(contender.weight)),
                    Arg::new(strings::OUTGOING_WEIGHT, Value::Int32(weight::IDLE)),
                    Arg::new(strings::INFERRED, Value::Bool(true)),
                ],
            })?;
        }
        for (koid, (cpu, weight)) in &self.waiting {
            out.rolling(&WakeupRecord {
                cpu: *cpu,
                time,
                thread: *koid,
                args: &[
                    Arg::new(strings::WEIGHT, Value::Int32(*weight)),
                    Arg::new(strings::INFERRED, Value::Bool(true)),
                ],
            })?;
        }
        for (track, spans) in &self.spans {
            for span in spans {
                put(out, time, EventKind::DurationBegin, *track, span)?;
            }
        }
        Ok(())
    }

    /// Ends all durations, in a trace that ends at `time` while the recording continues.
    ///
    /// # Errors
    /// Returns [`Closed`] if the trace accepts no more records.
    pub fn end(&self, time: Nanos, out: &mut impl Lanes) -> Result<(), Closed> {
        for (track, spans) in &self.spans {
            for span in spans.iter().rev() {
                put(out, Ticks(time.0), EventKind::DurationEnd, *track, span)?;
            }
        }
        Ok(())
    }
}

fn put(
    out: &mut impl Lanes,
    time: Ticks,
    kind: EventKind,
    (process, thread): Track,
    span: &Span,
) -> Result<(), Closed> {
    out.rolling(&EventRecord {
        kind,
        time,
        thread: ThreadName::Inline { process, thread },
        category: span.category.text(),
        name: span.name.text(),
        args: &[Arg::new(Text::Inline(CUT), Value::Bool(true))],
    })?;
    Ok(())
}
