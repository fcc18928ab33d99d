//! Scheduling records as slices on one track for each CPU, and as states on the threads' tracks.
//!
//! A slice on a CPU's track is the time in which a thread had the CPU. It is written as a begin and an end, since viewers that add begin
//! and length in floating point see neighbours overlap. It ends with a context switch. The field `switch` of the end holds all of the
//! switch, so that it can be read back:
//!
//! ```text
//! switches     a->b      b->idle          idle->a
//! CPU 0    ==a==|====b====|------idle-------|==a==
//!                         ^ this end's switch: thread=b, state=blocked, next=0, and the
//!                           arguments of the record b->idle
//! ```

use fxt_reader::record::{
    ContextSwitch, Event, EventKind, LegacyContextSwitch, Wakeup, is_not_recorded,
};
use fxt_reader::{Cpu, Koid, Nanos, Record, ThreadState};
use fxtrec_sched::{
    Held, Machine, Met, Occupant, Periods, State, Switch, SwitchArgs, Switched, WakeupFacts, cpu_of,
};

use super::args::Split;
use super::document::Document;
use super::json::{self, Object};
use super::names::Names;
use super::states::{self, States};
use crate::tef::{CPUS_PROCESS, marks};

/// The occupant of each CPU and the state of each thread, and when each began.
#[derive(Debug, Default)]
pub(super) struct Slices {
    machine: Machine<Koid>,
    states: States,
    /// The periods in which cgroups were throttled.
    periods: Periods,
    /// Whether there was a scheduling record: everything before it is unknown.
    begun: bool,
    /// Whether the process of the CPU tracks is named.
    announced: bool,
}

/// An interval on the track of a CPU.
#[derive(Clone, Copy, Debug)]
struct Slice {
    thread: Koid,
    since: Nanos,
    until: Nanos,
}

/// A switch, from either type of record.
#[derive(Clone, Copy, Debug)]
struct Sides {
    time: Nanos,
    cpu: Cpu,
    outgoing: Koid,
    incoming: Koid,
    state: ThreadState,
}

/// The occupant for a koid. Pseudo-threads for time that is not recorded keep separate tracks.
fn occupant(thread: Koid) -> Occupant<Koid> {
    if thread == Koid(0) { Occupant::Idle } else { Occupant::Thread(thread) }
}

impl Slices {
    /// The thread has its own durations, with which slices of its states would overlap.
    pub(super) fn has_durations(&mut self, thread: Koid) {
        self.states.has_durations(thread);
    }

    pub(super) fn take(&mut self, record: &Record<'_>, document: &mut Document<'_>, names: &Names) {
        match record {
            Record::ContextSwitch(switch) => self.context_switch(switch, document, names),
            Record::LegacyContextSwitch(switch) => self.legacy_switch(switch, document, names),
            Record::Wakeup(wakeup) => self.wakeup(wakeup, document, names),
            _ => {}
        }
    }

    fn context_switch(
        &mut self,
        record: &ContextSwitch<'_>,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let sides = Sides {
            time: record.time,
            cpu: record.cpu,
            outgoing: record.outgoing,
            incoming: record.incoming,
            state: record.outgoing_state,
        };
        let split = Split::of(record.args);
        let said = SwitchArgs::of(record.args);
        self.divide_wait(record, &said, document, names);
        let switched = self.switch(sides, &said, document);
        let mut end = cpu_slice(document, sides.cpu, sides.slice(&switched), names);
        end.string(marks::FIELD, marks::SWITCH);
        split.write_args_as(&mut end, marks::SWITCH_FIELD, false, |end| write_switch(end, sides));
        end.end();
        let stolen = Some(said.steal).filter(|nanos| *nanos > 0);
        self.states.write(&switched, stolen, document, names);
    }

    fn legacy_switch(
        &mut self,
        record: &LegacyContextSwitch,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let sides = Sides {
            time: record.time,
            cpu: record.cpu,
            outgoing: record.outgoing.thread,
            incoming: record.incoming.thread,
            state: record.outgoing_state,
        };
        let switched = self.switch(sides, &SwitchArgs::default(), document);
        let mut slice_end = cpu_slice(document, sides.cpu, sides.slice(&switched), names);
        slice_end.string(marks::FIELD, marks::LEGACY_SWITCH);
        let mut end = Object::begin(slice_end.key(marks::SWITCH_FIELD));
        write_switch(&mut end, sides);
        json::id(end.key("outgoing_process"), record.outgoing.process.0);
        json::id(end.key("incoming_process"), record.incoming.process.0);
        end.number("outgoing_priority", record.outgoing_priority.into());
        end.number("incoming_priority", record.incoming_priority.into());
        end.end();
        slice_end.end();
        self.states.write(&switched, None, document, names);
    }

    /// Takes a switch; its arguments have details about the next state of the outgoing thread.
    fn switch(
        &mut self,
        sides: Sides,
        said: &SwitchArgs<'_>,
        document: &mut Document<'_>,
    ) -> Switched<Koid> {
        let Sides { time, cpu, .. } = sides;
        self.begin(time);
        let (outgoing, incoming) = (occupant(sides.outgoing), occupant(sides.incoming));
        if !self.machine.cpu_state(cpu).is_seen() {
            announce_cpu(cpu, !std::mem::replace(&mut self.announced, true), document);
        }
        let next = states::after(sides.state, said.detail);
        let next = if said.throttled { next.held() } else { next };
        let switch = Switch { time, cpu, outgoing, next, incoming, inferred: false };
        self.machine.switch(&mut self.states, switch)
    }

    /// Takes a scheduler event other than a switch or a wakeup.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        if let ("migrate", EventKind::Instant) = (event.name, event.kind)
            && let Some(cpu) = cpu_of(event.args, "dest_cpu")
        {
            self.machine.migrate(&mut self.states, event.thread.thread, cpu);
        }
        self.periods.event(event);
    }

    /// Divides the wait of the incoming thread where a quota held it back.
    fn divide_wait(
        &mut self,
        record: &ContextSwitch<'_>,
        said: &SwitchArgs<'_>,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let thread = record.incoming;
        let (waited, reported) = (self.states.of(thread), (said.held, said.held_by));
        let Some(held) = Held::of(waited, record.time, reported) else { return };
        // If it is unknown when the thread was held back, the time is drawn as waiting.
        for interval in self.periods.place(held).into_iter().flatten() {
            for change in self.machine.held_back(&mut self.states, thread, interval) {
                self.states.write_change(change, document, names);
            }
        }
    }

    /// Sets the time of the first scheduling record; later calls have no effect.
    fn begin(&mut self, time: Nanos) {
        if !std::mem::replace(&mut self.begun, true) {
            self.machine.cut(time);
        }
    }

    fn wakeup(&mut self, record: &Wakeup<'_>, document: &mut Document<'_>, names: &Names) {
        self.begin(record.time);
        if record.koid != Koid(0) {
            let (koid, cpu) = (record.koid, record.cpu);
            let throttled = WakeupFacts::of(record.args).throttled;
            let state = if throttled { State::WokenThrottled } else { State::Woken };
            let woken = self.machine.wake_to(&mut self.states, koid, (cpu, state), record.time);
            self.states.write_change(woken, document, names);
        }
        let split = Split::of(record.args);
        let mut event = document.event();
        event.string("ph", "i");
        event.string("cat", "sched");
        event.string("name", "wakeup");
        names.write_id(event.key("pid"), names.process_of(record.koid));
        names.write_id(event.key("tid"), record.koid);
        json::micros(event.key("ts"), record.time.0);
        event.string("s", "t");
        event.string(marks::FIELD, marks::WAKEUP);
        split.write_args_behind(&mut event, false, |args| {
            args.number("cpu", record.cpu.0.into());
        });
        event.end();
    }

    /// Ends everything that is still open at the end of the trace.
    pub(super) fn end(&mut self, end: Nanos, document: &mut Document<'_>, names: &Names) {
        for tenure in self.machine.end(end) {
            // A thread that was switched in with the last record: viewers would take the end of this empty slice for that of an earlier one
            // with the same name.
            if tenure.since >= end {
                continue;
            }
            let thread = tenure.who.thread().unwrap_or_default();
            let slice = Slice { thread, since: tenure.since, until: end };
            let mut end = cpu_slice(document, tenure.cpu, slice, names);
            end.string(marks::FIELD, marks::DERIVED);
            end.end();
        }
        self.states.end(end, document, names);
    }
}

impl Sides {
    /// The slice to draw for the time before the switch.
    fn slice(&self, switched: &Switched<Koid>) -> Slice {
        let since = match switched.met {
            Met::Expected | Met::Vacant => switched.tenure.since,
            // When the thread was switched in is unknown.
            Met::Displaced => self.time,
        };
        Slice { thread: self.outgoing, since, until: self.time }
    }
}

/// Names the CPU's track and, before the first one, the process of all CPU tracks.
fn announce_cpu(cpu: Cpu, first: bool, document: &mut Document<'_>) {
    if first {
        write_name(document.event(), "process_name", None, "CPUs");
    }
    write_name(document.event(), "thread_name", Some(cpu), &format!("CPU {cpu}"));
}

fn write_name(mut event: Object<'_>, what: &str, cpu: Option<Cpu>, name: &str) {
    event.string("ph", "M");
    event.string("name", what);
    event.number("pid", CPUS_PROCESS);
    if let Some(cpu) = cpu {
        event.number("tid", cpu.0.into());
    }
    event.string(marks::FIELD, marks::DERIVED);
    let mut args = Object::begin(event.key("args"));
    args.string("name", name);
    args.end();
    event.end();
}

/// Writes the beginning of a slice, and its end without the additional fields.
fn cpu_slice<'d>(
    document: &'d mut Document<'_>,
    cpu: Cpu,
    Slice { thread, since, until }: Slice,
    names: &Names,
) -> Object<'d> {
    let mut begin = cpu_event(document, "B", cpu, thread, since, names);
    if thread == Koid(0) {
        begin.string("cname", "white");
    } else if is_not_recorded(thread) {
        begin.string("cname", "grey");
    }
    begin.string(marks::FIELD, marks::DERIVED);
    begin.end();
    cpu_event(document, "E", cpu, thread, until, names)
}

fn cpu_event<'d>(
    document: &'d mut Document<'_>,
    phase: &str,
    cpu: Cpu,
    thread: Koid,
    time: Nanos,
    names: &Names,
) -> Object<'d> {
    let mut event = document.event();
    event.string("ph", phase);
    event.string("cat", "sched");
    match thread {
        Koid(0) => event.string("name", "idle"),
        thread => event.string("name", &names.label(thread)),
    }
    event.number("pid", CPUS_PROCESS);
    event.number("tid", cpu.0.into());
    json::micros(event.key("ts"), time.0);
    if thread != Koid(0) {
        // Equal for all slices of a thread, so that viewers can sum them up; some also use it to match an end with its begin.
        let mut args = Object::begin(event.key("args"));
        json::id(args.key("thread"), thread.0);
        if let Some(process) = names.thread(thread).and_then(|name| name.process) {
            json::id(args.key("process"), process.0);
        }
        args.end();
    }
    event
}

fn write_switch(end: &mut Object<'_>, sides: Sides) {
    json::id(end.key("thread"), sides.outgoing.0);
    json::formatted(end.key("state"), format_args!("\"{}\"", sides.state));
    json::id(end.key("next"), sides.incoming.0);
}
