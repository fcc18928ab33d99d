//! Scheduling as slices on one track for each CPU, and as states on the threads.
//!
//! A slice on a CPU's track is the time that one thread had the CPU: a begin and an end, since viewers that add a
//! length to a begin in floating point see neighbours overlap. It ends with a context switch, all of which is in the
//! field `switch` of the end, so that it can be read back:
//!
//! ```text
//! switches     a->b      b->idle          idle->a
//! CPU 0    ==a==|====b====|------idle-------|==a==
//!                         ^ this end's switch: thread=b, state=blocked, next=0, and the
//!                           arguments of the record b->idle
//! ```

use fxt_reader::record::{ContextSwitch, LegacyContextSwitch, Wakeup, is_not_recorded};
use fxt_reader::{Cpu, Koid, Nanos, Record, ThreadState};
use rustc_hash::FxHashMap;

use super::args::Split;
use super::document::Document;
use super::json::{self, Object};
use super::names::Names;
use super::states::{State, States};
use crate::tef::{CPUS_PROCESS, marks};

/// Who has which CPU since when, and who is in which state.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// The time of the first scheduling record: what was before is unknown.
    start: Option<Nanos>,
    cpus: FxHashMap<Cpu, OnCpu>,
    states: States,
}

#[derive(Clone, Copy, Debug)]
struct OnCpu {
    thread: Koid,
    since: Nanos,
}

/// One switch, whichever record it is from.
#[derive(Clone, Copy, Debug)]
struct Switch {
    time: Nanos,
    cpu: Cpu,
    outgoing: Koid,
    incoming: Koid,
    state: ThreadState,
}

impl Slices {
    /// The thread has durations of its own, which slices of its states would overlap.
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
        let switch = Switch {
            time: record.time,
            cpu: record.cpu,
            outgoing: record.outgoing,
            incoming: record.incoming,
            state: record.outgoing_state,
        };
        let split = Split::of(record.args);
        let mut end = self.end_slice(switch, document, names);
        end.string(marks::FIELD, marks::SWITCH);
        split.write_args_as(&mut end, marks::SWITCH_FIELD, false, |end| write_switch(end, switch));
        end.end();
        let prev_state = record.args.str("prev_state").unwrap_or_default();
        self.change_states(switch, prev_state, document, names);
    }

    fn legacy_switch(
        &mut self,
        record: &LegacyContextSwitch,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let switch = Switch {
            time: record.time,
            cpu: record.cpu,
            outgoing: record.outgoing.thread,
            incoming: record.incoming.thread,
            state: record.outgoing_state,
        };
        let mut slice_end = self.end_slice(switch, document, names);
        slice_end.string(marks::FIELD, marks::LEGACY_SWITCH);
        let mut end = Object::begin(slice_end.key(marks::SWITCH_FIELD));
        write_switch(&mut end, switch);
        json::id(end.key("outgoing_process"), record.outgoing.process.0);
        json::id(end.key("incoming_process"), record.incoming.process.0);
        end.number("outgoing_priority", record.outgoing_priority.into());
        end.number("incoming_priority", record.incoming_priority.into());
        end.end();
        slice_end.end();
        self.change_states(switch, "", document, names);
    }

    /// Writes the slice that the switch ends, up to what its end says about it, and remembers the one that it begins.
    fn end_slice<'d>(
        &mut self,
        switch: Switch,
        document: &'d mut Document<'_>,
        names: &Names,
    ) -> Object<'d> {
        let start = *self.start.get_or_insert(switch.time);
        let now = OnCpu { thread: switch.incoming, since: switch.time };
        let since = match self.cpus.insert(switch.cpu, now) {
            None => {
                announce_cpu(switch.cpu, self.cpus.len() == 1, document);
                start
            }
            Some(before) if before.thread == switch.outgoing => before.since,
            // Nobody knows when the thread came in.
            Some(_) => switch.time,
        };
        let on_cpu = OnCpu { thread: switch.outgoing, since };
        cpu_slice(document, switch.cpu, on_cpu, switch.time, names)
    }

    fn change_states(
        &mut self,
        switch: Switch,
        prev_state: &str,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let Switch { time, outgoing, incoming, state, .. } = switch;
        let start = self.start.unwrap_or(time);
        self.states.began_before(outgoing, State::Running, start);
        self.states.change(outgoing, State::after(state, prev_state), time, document, names);
        self.states.change(incoming, State::Running, time, document, names);
    }

    fn wakeup(&mut self, record: &Wakeup<'_>, document: &mut Document<'_>, names: &Names) {
        self.start.get_or_insert(record.time);
        self.states.woken(record.koid, record.time, document, names);
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

    /// Ends what is still open with the trace.
    pub(super) fn end(&mut self, end: Nanos, document: &mut Document<'_>, names: &Names) {
        let mut open: Vec<_> = self.cpus.drain().collect();
        open.sort_unstable_by_key(|(cpu, _)| *cpu);
        for (cpu, on_cpu) in open {
            let mut end = cpu_slice(document, cpu, on_cpu, end, names);
            end.string(marks::FIELD, marks::DERIVED);
            end.end();
        }
        self.states.end(end, document, names);
    }
}

/// The names of the CPU's track, and before the first of the process of all.
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

/// Writes the begin of a slice, and its end up to what is said there beside the time.
fn cpu_slice<'d>(
    document: &'d mut Document<'_>,
    cpu: Cpu,
    on_cpu: OnCpu,
    end: Nanos,
    names: &Names,
) -> Object<'d> {
    let mut begin = cpu_event(document, "B", cpu, on_cpu.thread, on_cpu.since, names);
    if on_cpu.thread == Koid(0) {
        begin.string("cname", "white");
    } else if is_not_recorded(on_cpu.thread) {
        begin.string("cname", "grey");
    }
    begin.string(marks::FIELD, marks::DERIVED);
    begin.end();
    cpu_event(document, "E", cpu, on_cpu.thread, end, names)
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
        // The same for all slices of a thread, so that viewers can add them up; some also look by it for the begin that
        // an end belongs to.
        let mut args = Object::begin(event.key("args"));
        json::id(args.key("thread"), thread.0);
        if let Some(process) = names.thread(thread).and_then(|name| name.process) {
            json::id(args.key("process"), process.0);
        }
        args.end();
    }
    event
}

fn write_switch(end: &mut Object<'_>, switch: Switch) {
    json::id(end.key("thread"), switch.outgoing.0);
    json::formatted(end.key("state"), format_args!("\"{}\"", switch.state));
    json::id(end.key("next"), switch.incoming.0);
}
