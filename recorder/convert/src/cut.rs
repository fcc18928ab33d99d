//! Cuts a window out of a trace, as a separate trace.
//!
//! State from before the window is written again at its beginning: names, when first used; the occupants of CPUs; threads that wait for a
//! CPU; open durations and async operations; the last values of counters; the modules and mappings of its backtraces. Everything that is
//! open at the end of the window is closed there:
//!
//! ```text
//! trace     ===a====|======b=======|==a==        a: blocked at first
//! window         [               ]
//! piece          |=a|======b=====|               |: written by the cut, with `inferred` or `cut`
//! ```
//!
//! A piece that is restricted to some threads shows no more of the others than a recording with a narrow scope: a thread that takes the CPU
//! from a selected thread, until it is switched out. The rest of the time is "not recorded", not idle.
//!
//! Scheduling records that the cut adds have the boolean argument `inferred`, like those that fxtrec infers while recording; events that it
//! adds have `cut`.

mod code;
mod filter;
mod open;
mod section;

use std::io::Write;

use fxt_reader::record::{
    Arg as ReadArg, Blob, ContextSwitch, Event, EventKind, Value as ReadValue, WEIGHT_INFO,
};
use fxt_reader::{Cpu, Error, Koid, Nanos, Reader, Record, ThreadState};
use fxt_writer::space::Output;
use fxt_writer::{Arg, Text, Ticks, Value, WriteError, Writer, record as write};

use super::copy::{Arguments, AsItIs, Translate, arguments, copy};
use super::error::ConvertError;
use super::report::Report;
use code::Code;
pub use filter::Filter;
use filter::Names;
use fxtrec_capture::encode::chain::{View, view};
use fxtrec_capture::encode::unrecorded;
use fxtrec_capture::encode::weight::NICE_0;
use fxtrec_capture::stacks::perfetto;
use fxtrec_sched::{cpu_of, unsigned};
use fxtrec_units::convention::HOST_CPUS;
use open::Open;
use rustc_hash::FxHashSet;

/// Records that are valid for a part of the trace as well as for the whole trace, in addition to `trace_info`.
const KEPT_ABOUT: [&str; 4] = ["clock_info", HOST_CPUS, "stack_info", WEIGHT_INFO];
pub use section::{Owner, cut_section};

/// The piece that is being written.
type Target<'o> = Writer<Output<&'o mut dyn Write>>;

#[derive(Clone, Debug)]
pub struct Window {
    /// Records before this time are left out.
    pub from: Nanos,
    /// Records after this time are left out.
    pub to: Nanos,
    pub filter: Filter,
}

/// The origin of a rotated file, which determines the file's statements about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A cut of a whole trace. The counts of the recording do not apply to the part, and are left out.
    Cut,
    /// The recording itself. The counts so far are written at the end of the part.
    Recording,
    /// The recording, for the records of a provider, which contain nothing about the trace.
    Provider,
}

impl Maker {
    fn provider(self) -> &'static str {
        match self {
            Maker::Cut => "fxtrec cut",
            Maker::Recording | Maker::Provider => "fxtrec",
        }
    }
}

/// Writes the part of `reader`'s trace in `window` to `out`.
///
/// # Errors
///
/// Returns an error if the trace cannot be read, or the output cannot be written.
pub fn cut(
    reader: &mut Reader<'_>,
    window: &Window,
    out: &mut dyn Write,
) -> Result<Report, ConvertError> {
    cut_by(Maker::Cut, &[], reader, window, out)
}

/// Like [`cut`], for any `maker`. `sections` are whole records that come after those of the window and before the counts of the recording;
/// the last one switches back to the section of `maker`.
///
/// # Errors
///
/// Returns an error if the trace cannot be read, or the output cannot be written.
pub fn cut_by(
    maker: Maker,
    sections: &[u8],
    reader: &mut Reader<'_>,
    window: &Window,
    out: &mut dyn Write,
) -> Result<Report, ConvertError> {
    let mut target = Writer::new(Output::new(out)).with_long_strings();
    target.start(maker.provider(), 1_000_000_000)?;
    let mut cutter = Cutter { sections, ..Cutter::new(maker, window, target) };
    cutter.read(reader)?;
    cutter.end()
}

/// The scope of a part that contains some threads of a recording of all threads.
const SCOPE: &str = "cut";

/// Replaces the scope of the recording with that of the piece.
struct NarrowScope;

impl Translate for NarrowScope {
    fn argument(&self, _: &Event<'_>, arg: &ReadArg<'_>) -> Option<Value<'static>> {
        (arg.name == "scope").then_some(Value::Str(Text::Inline(SCOPE)))
    }
}

struct Cutter<'w, 'o> {
    maker: Maker,
    window: &'w Window,
    target: Target<'o>,
    /// Records to write after those of the window.
    sections: &'w [u8],
    names: Names,
    code: Code,
    open: Open,
    /// Whether the window's beginning was written.
    begun: bool,
    /// Whether everything that was open at the window's end was closed.
    ended: bool,
    /// CPUs with a switch or a reported loss after the window: later losses began after the window.
    seen_after: FxHashSet<Cpu>,
    lost_after: FxHashSet<Cpu>,
    /// The earliest time in the trace.
    first: Option<Nanos>,
    /// The latest time in the trace.
    last: Nanos,
    report: Report,
}

impl<'w, 'o> Cutter<'w, 'o> {
    fn new(maker: Maker, window: &'w Window, target: Target<'o>) -> Self {
        Cutter {
            maker,
            window,
            target,
            sections: &[],
            names: Names::default(),
            code: Code::default(),
            open: Open::default(),
            begun: false,
            ended: false,
            seen_after: FxHashSet::default(),
            lost_after: FxHashSet::default(),
            first: None,
            last: Nanos(0),
            report: Report::default(),
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), ConvertError> {
        loop {
            match reader.next() {
                Ok(Some(item)) => self.take(&item.record)?,
                Ok(None) => return Ok(()),
                Err(Error::Damaged(_)) => self.report.count("damaged records, skipped"),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take(&mut self, record: &Record<'_>) -> Result<(), ConvertError> {
        if let Record::KernelObject(object) = record {
            self.names.learn(object, &mut self.target)?;
            return Ok(());
        }
        match record {
            Record::Module(module) => {
                self.code.module(module);
                return Ok(());
            }
            // Wherever it is in the trace, it may explain backtraces of the window.
            Record::Mapping(mapping) => {
                return self.code.mapping(mapping, self.window, &mut self.target);
            }
            _ => {}
        }
        let Some(time) = record.time() else {
            // The meaning of pointers does not depend on the time. Bulk data may belong to a time, but its record has none.
            return match record {
                Record::UserspaceObject(_) => self.write(record),
                Record::Blob(blob) if blob.name == perfetto::BLOB => self.stacks_for_perfetto(blob),
                Record::Blob(_) | Record::LargeBlob(_) => {
                    self.report.count("blobs without a time, left out");
                    Ok(())
                }
                _ => Ok(()),
            };
        };
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(time);
        if self.is_about_the_trace(record)? {
            return Ok(());
        }
        let is_overlapping = matches!(record, Record::Event(event)
            if matches!(event.kind, EventKind::DurationComplete { end } if end >= self.window.from));
        if time < self.window.from && !is_overlapping {
            self.open.follow(record);
            return Ok(());
        }
        if time > self.window.to {
            return self.loss_until(record);
        }
        self.begin()?;
        match record {
            Record::ContextSwitch(switch) => self.context_switch(switch)?,
            _ if self.window.filter.admits(record, &self.names) => {
                self.names.need_all(record, &mut self.target)?;
                self.open.follow(record);
                if let Record::Backtrace(backtrace) = record {
                    self.code.explain(backtrace, self.window, &mut self.target)?;
                }
                self.write(record)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a record from after the window. A loss is reported when it has ended. A loss that began in the window is reported at the
    /// window's end with all its events, since it is unknown when they were lost.
    fn loss_until(&mut self, record: &Record<'_>) -> Result<(), ConvertError> {
        let event = match record {
            Record::ContextSwitch(switch) => {
                self.seen_after.insert(switch.cpu);
                return Ok(());
            }
            Record::Event(event) if event.category == "fxtrec" => event,
            _ => return Ok(()),
        };
        let to = self.window.to;
        let is_since_window = match event.name {
            "lost" | "lost_others" | "lost_lives" => match cpu_of(event.args, "cpu") {
                Some(cpu) => {
                    let is_next = event.name != "lost" || self.lost_after.insert(cpu);
                    self.window.filter.admits_cpu(cpu) && !self.seen_after.contains(&cpu) && is_next
                }
                None => true,
            },
            "lost_records" => {
                let during = event.args.get("during_ns").and_then(unsigned);
                during.is_none_or(|during| event.time.0.saturating_sub(during) <= to.0)
            }
            _ => false,
        };
        if !is_since_window {
            return Ok(());
        }
        self.begin()?;
        let moved = Record::Event(Event { time: to, ..*event });
        self.names.need_all(&moved, &mut self.target)?;
        self.write(&moved)
    }

    /// The recording's statements about itself: the head applies to the part, the counts do not.
    fn is_about_the_trace(&mut self, record: &Record<'_>) -> Result<bool, ConvertError> {
        let Record::Event(event) = record else { return Ok(false) };
        if self.maker == Maker::Provider {
            return Ok(false);
        }
        match (event.category, event.name) {
            ("fxtrec", "trace_info") => {
                self.trace_info(event)?;
                Ok(true)
            }
            ("fxtrec", name) if KEPT_ABOUT.contains(&name) => {
                // Without these, readers cannot know which waits have stacks, or what a missing weight means.
                let time = event.time.max(self.window.from).min(self.window.to);
                let moved = Record::Event(Event { time, ..*event });
                self.names.need_all(&moved, &mut self.target)?;
                self.write(&moved)?;
                Ok(true)
            }
            (
                "fxtrec",
                "trace_stats"
                | "probe_stats"
                | "stack_stats"
                | "stacks_not_in_perfetto"
                | "stacks_unanswered"
                | "stacks_unnamed"
                | "explanation_cut",
            ) if self.maker == Maker::Recording => {
                // They come last in the piece, too.
                self.close()?;
                let time = event.time.max(self.window.from).min(self.window.to);
                let moved = Record::Event(Event { time, ..*event });
                self.write(&moved)?;
                Ok(true)
            }
            ("fxtrec", "host_steal") if self.maker == Maker::Cut => {
                self.report.count("steal of the whole recording (host_steal), left out");
                Ok(true)
            }
            ("fxtrec", "quota_stat") if self.maker == Maker::Cut => {
                self.report.count("throttling of the whole recording (quota_stat), left out");
                Ok(true)
            }
            (
                "fxtrec",
                "stack_stats"
                | "stacks_not_in_perfetto"
                | "stacks_unanswered"
                | "stacks_unnamed"
                | "explanation_cut",
            ) if self.maker == Maker::Cut => {
                self.report.count("stack counts of the whole recording (stack_stats), left out");
                Ok(true)
            }
            ("fxtrec", "trace_stats") => {
                self.report.count("counts of the whole recording (trace_stats), left out");
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Writes a switch if it is in the piece, as a recording with a narrow scope does.
    fn context_switch(&mut self, switch: &ContextSwitch<'_>) -> Result<(), ConvertError> {
        let filter = &self.window.filter;
        if !filter.admits_cpu(switch.cpu) {
            return Ok(());
        }
        let admits = |koid| filter.admits_thread(koid, &self.names);
        let shown = self.open.shown(switch.cpu);
        let whole = View { outgoing: true, incoming: true };
        let view = match filter.chooses_threads() {
            true => view(
                admits(switch.outgoing),
                admits(switch.incoming),
                shown == Some(switch.outgoing),
            ),
            false => Some(whole),
        };
        let Some(view) = view else { return Ok(()) };
        let not_shown = filter.not_shown(switch.cpu);
        let outgoing = if view.outgoing { switch.outgoing } else { not_shown };
        let incoming = if view.incoming { switch.incoming } else { not_shown };
        // The thread has the CPU at the end.
        self.names.need_occupant(not_shown, &mut self.target)?;
        self.names.need_occupant(outgoing, &mut self.target)?;
        self.names.need_occupant(incoming, &mut self.target)?;
        if shown.is_some_and(|shown| shown != outgoing) {
            // The thread's switch in was not recorded.
            self.open.put_on(switch.cpu, outgoing, switch, &mut self.target)?;
        }
        self.open.show(switch.cpu, incoming);
        self.report.count("context switches");
        let held = self.open.held_in_window(switch, self.window.from);
        let reported = switch.args.get("throttled_ns").and_then(unsigned);
        if view == whole && (held.is_none() || held == reported) {
            return self.write(&Record::ContextSwitch(*switch));
        }
        self.report.read += 1;
        self.write_part(switch, view, (outgoing, incoming), held)
    }

    /// Writes a switch if one side is not in the part, or only some of the wait that it ends. `held` is how long a quota held the thread
    /// back in that part.
    fn write_part(
        &mut self,
        switch: &ContextSwitch<'_>,
        view: View,
        (outgoing, incoming): (Koid, Koid),
        held: Option<u64>,
    ) -> Result<(), ConvertError> {
        let target = &mut self.target;
        let weight = |shown: bool, weight: Option<i32>| match shown {
            true => Value::Int32(weight.unwrap_or(NICE_0)),
            false => Value::Int32(unrecorded::WEIGHT),
        };
        let mut args = Arguments::new();
        let incoming_weight = weight(view.incoming, switch.incoming_weight());
        args.push(Arg::new(target.text("incoming_weight")?, incoming_weight));
        let outgoing_weight = weight(view.outgoing, switch.outgoing_weight());
        args.push(Arg::new(target.text("outgoing_weight")?, outgoing_weight));
        if let Some(letters) = switch.args.str("prev_state").filter(|_| view.outgoing) {
            let letters = Value::Str(target.text(letters)?);
            args.push(Arg::new(target.text("prev_state")?, letters));
        }
        if switch.args.get("inferred").is_some() {
            args.push(Arg::new(target.text("inferred")?, Value::Bool(true)));
        }
        for arg in &switch.args {
            let number = |value| unsigned(value).map(Value::uint);
            let value = match arg.name {
                "steal_ns" | "irq_ns" | "irqs" | "need_resched_ns" | "syscall" if view.outgoing => {
                    number(arg.value)
                }
                "futex" | "futex_owner" | "futex_end_of" | "kernel_lock" if view.outgoing => {
                    match arg.value {
                        ReadValue::Pointer(address) => Some(Value::Pointer(address)),
                        ReadValue::Koid(owner) => Some(Value::Koid(fxt_writer::Koid(owner.0))),
                        _ => None,
                    }
                }
                "kernel_lock_kind" | "kernel_lock_name" if view.outgoing => match arg.value {
                    ReadValue::Str(kind) => Some(Value::Str(target.text(kind)?)),
                    _ => None,
                },
                "throttled" if view.outgoing => {
                    Some(Value::Bool(arg.value == ReadValue::Bool(true)))
                }
                "throttled_ns" if view.incoming => held.map(Value::uint).or(number(arg.value)),
                "throttled_by" if view.incoming => match arg.value {
                    ReadValue::Str(cgroup) => Some(Value::Str(target.text(cgroup)?)),
                    _ => None,
                },
                _ => None,
            };
            if let Some(value) = value {
                args.push(Arg::new(target.text(arg.name)?, value));
            }
        }
        // A thread that is able to run would be shown as waiting for a CPU.
        let unseen = ThreadState::Blocked;
        Ok(target.write(&write::ContextSwitch {
            cpu: switch.cpu.0,
            time: Ticks(switch.time.0),
            outgoing,
            incoming,
            outgoing_state: if view.outgoing { switch.outgoing_state } else { unseen },
            args: args.as_slice(),
        })?)
    }

    /// Copies the recording's `trace_info`. A piece of some threads gets the scope of a recording of these threads, so that no figures are
    /// computed that need the rest of the machine.
    fn trace_info(&mut self, event: &Event<'_>) -> Result<(), ConvertError> {
        let time = event.time.max(self.window.from).min(self.window.to);
        let moved = Event { time, ..*event };
        self.names.need_all(&Record::Event(moved), &mut self.target)?;
        let scope = event.args.str("scope").unwrap_or_default();
        if !self.window.filter.chooses_threads() || !["", "all"].contains(&scope) {
            return self.write(&Record::Event(moved));
        }
        self.report.read += 1;
        let target = &mut self.target;
        let mut args = arguments(event.args, Some(event), target, &NarrowScope)?;
        if scope.is_empty() {
            let scope = Value::Str(target.text(SCOPE)?);
            args.push(Arg::new(target.text("scope")?, scope));
        }
        let thread = target.thread((event.thread.process, event.thread.thread))?;
        let (category, name) = (target.text(event.category)?, target.text(event.name)?);
        let (kind, time) = (write::EventKind::Instant, Ticks(time.0));
        let args = args.as_slice();
        Ok(target.write(&write::Event { kind, time, thread, category, name, args })?)
    }

    /// Writes the stacks for Perfetto, restricted to the window.
    fn stacks_for_perfetto(&mut self, blob: &Blob<'_>) -> Result<(), ConvertError> {
        let Window { from, to, filter } = self.window;
        let (names, within) = (&self.names, from.0..=to.0);
        let kept = perfetto::rewrite(blob.payload, |about| {
            let is_kept =
                within.contains(&about.time) && filter.admits_thread(Koid(about.thread), names);
            is_kept.then_some(about)
        });
        match kept {
            Some(payload) if payload.is_empty() => Ok(()),
            Some(payload) => self.write(&Record::Blob(Blob { payload: &payload, ..*blob })),
            None => {
                self.report.count("damaged stacks for Perfetto, left out");
                Ok(())
            }
        }
    }

    fn begin(&mut self) -> Result<(), ConvertError> {
        if !self.begun {
            self.begun = true;
            self.open.begin(self.window, &mut self.names, &mut self.target)?;
        }
        Ok(())
    }

    fn write(&mut self, record: &Record<'_>) -> Result<(), ConvertError> {
        self.report.read += 1;
        match copy(record, &mut self.target, &AsItIs) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.report.count("records that FXT does not define, left out");
                Ok(())
            }
            // A snapshot of the same recording does not contain such a record.
            Err(WriteError::Encode(_)) if self.maker != Maker::Cut => {
                self.report.count("records that became too large for FXT, left out");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Closes what is open at the window's end.
    fn close(&mut self) -> Result<(), ConvertError> {
        self.begin()?;
        if !self.ended {
            self.ended = true;
            let end = self.window.to.min(self.last.max(self.window.from));
            self.open.end(end, &self.window.filter, &mut self.target)?;
            section::put(self.sections, &mut self.target)?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<Report, ConvertError> {
        let Window { from, to, .. } = *self.window;
        if let Some(begin) = self.first.filter(|_| self.maker == Maker::Cut)
            && (from > self.last || to < begin)
        {
            return Err(ConvertError::Outside { begin, end: self.last });
        }
        self.close()?;
        self.target.into_inner().finish().map_err(ConvertError::Write)?;
        Ok(self.report)
    }
}
