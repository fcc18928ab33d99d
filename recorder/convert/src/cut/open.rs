//! What is open at some point of a trace: CPUs that are taken, threads that wait, operations that
//! have not ended, counters that have a value.

use std::collections::BTreeMap;

use fxt_reader::record::{
    ContextSwitch, Event, EventKind, NOT_RECORDED_WEIGHT, Value as ReadValue, is_not_recorded,
};
use fxt_reader::{Cpu, Koid, Nanos, Record, Thread, ThreadState};
use fxt_writer::record as write;
use fxt_writer::{Arg, Ticks, Value};

use super::filter::{Filter, Names};
use super::{Target, Window};
use crate::error::ConvertError;
use crate::retype;
use fxtrec_capture::encode::weight::{IDLE, NICE_0};

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Open {
    cpus: BTreeMap<Cpu, OnCpu>,
    waiting: BTreeMap<Koid, Waiting>,
    /// Durations by thread, the outermost first.
    durations: BTreeMap<(Koid, Koid), Vec<Operation>>,
    /// Async operations by category and id, the outermost first.
    asyncs: BTreeMap<(String, u64), Vec<Operation>>,
    counters: BTreeMap<(Koid, String, u64), Counter>,
}

#[derive(Clone, Copy, Debug)]
struct OnCpu {
    thread: Koid,
    weight: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    cpu: Cpu,
    weight: Option<i32>,
}

#[derive(Clone, Debug)]
struct Operation {
    thread: Thread,
    category: String,
    name: String,
    began: Nanos,
}

#[derive(Clone, Debug)]
struct Counter {
    thread: Thread,
    category: String,
    series: Vec<(String, Value<'static>)>,
}

impl Open {
    /// Takes note of a record.
    pub(super) fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::ContextSwitch(switch) => self.switch(switch),
            // It has a CPU, and waits for none.
            Record::Wakeup(wakeup) if self.has_cpu(wakeup.koid) => {}
            Record::Wakeup(wakeup) => {
                let weight = wakeup.weight();
                self.waiting.insert(wakeup.koid, Waiting { cpu: wakeup.cpu, weight });
            }
            Record::Event(event) => self.event(event),
            _ => {}
        }
    }

    fn has_cpu(&self, thread: Koid) -> bool {
        thread == Koid(0) || self.cpus.values().any(|on_cpu| on_cpu.thread == thread)
    }

    fn switch(&mut self, switch: &ContextSwitch<'_>) {
        let weight = switch.outgoing_weight();
        if switch.outgoing_state == ThreadState::Running && switch.outgoing != Koid(0) {
            self.waiting.insert(switch.outgoing, Waiting { cpu: switch.cpu, weight });
        } else {
            self.waiting.remove(&switch.outgoing);
        }
        self.waiting.remove(&switch.incoming);
        let (thread, weight) = (switch.incoming, switch.incoming_weight());
        self.cpus.insert(switch.cpu, OnCpu { thread, weight });
    }

    fn event(&mut self, event: &Event<'_>) {
        let thread = (event.thread.process, event.thread.thread);
        let operation = || Operation {
            thread: event.thread,
            category: event.category.to_owned(),
            name: event.name.to_owned(),
            began: event.time,
        };
        match event.kind {
            EventKind::DurationBegin => self.durations.entry(thread).or_default().push(operation()),
            EventKind::DurationEnd => {
                self.durations.entry(thread).or_default().pop();
            }
            EventKind::AsyncBegin { id } => {
                let key = (event.category.to_owned(), id);
                self.asyncs.entry(key).or_default().push(operation());
            }
            EventKind::AsyncEnd { id } => self.end_async(event, id),
            EventKind::Counter { id } => {
                let series = event.args.iter().filter_map(|arg| {
                    let number = !matches!(arg.value, ReadValue::Str(_));
                    let value = number.then(|| without_text(arg.value)).flatten()?;
                    Some((arg.name.to_owned(), value))
                });
                let (thread, category) = (event.thread, event.category.to_owned());
                let counter = Counter { thread, category, series: series.collect() };
                let key = (event.thread.process, event.name.to_owned(), id);
                self.counters.insert(key, counter);
            }
            _ => {}
        }
    }

    /// Ends the innermost operation of that name, or the innermost of all.
    fn end_async(&mut self, event: &Event<'_>, id: u64) {
        let key = (event.category.to_owned(), id);
        if let Some(open) = self.asyncs.get_mut(&key) {
            match open.iter().rposition(|operation| operation.name == event.name) {
                Some(at) => drop(open.remove(at)),
                None => drop(open.pop()),
            }
            if open.is_empty() {
                self.asyncs.remove(&key);
            }
        }
    }

    /// Whether some durations or operations are open.
    pub(super) fn has_operations(&self) -> bool {
        self.durations.values().chain(self.asyncs.values()).any(|open| !open.is_empty())
    }

    /// The thread that the piece shows on a CPU; `None` before it shows any.
    pub(super) fn shown(&self, cpu: Cpu) -> Option<Koid> {
        self.cpus.get(&cpu).map(|on_cpu| on_cpu.thread)
    }

    pub(super) fn show(&mut self, cpu: Cpu, thread: Koid) {
        let weight = None;
        self.cpus.insert(cpu, OnCpu { thread, weight });
    }

    /// Writes what is open at the beginning of the window.
    pub(super) fn begin(
        &mut self,
        window: &Window,
        names: &mut Names,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let (from, filter) = (window.from, &window.filter);
        for (cpu, on_cpu) in &mut self.cpus {
            let nobody = filter.nobody(*cpu);
            let wanted = filter.admits_cpu(*cpu) && filter.admits_thread(on_cpu.thread, names);
            if !wanted {
                on_cpu.thread = nobody;
            }
            if on_cpu.thread != nobody {
                names.need_occupant(nobody, target)?;
                names.need_occupant(on_cpu.thread, target)?;
                write_switch(*cpu, from, nobody, (on_cpu.thread, on_cpu.weight), target)?;
            }
        }
        for (thread, waiting) in &self.waiting {
            if filter.admits_cpu(waiting.cpu) && filter.admits_thread(*thread, names) {
                names.need(*thread, target)?;
                let weight = waiting.weight.unwrap_or(NICE_0);
                let args = [
                    Arg::new(target.text("weight")?, Value::Int32(weight)),
                    Arg::new(target.text("inferred")?, Value::Bool(true)),
                ];
                let (cpu, time) = (waiting.cpu.0, Ticks(from.0));
                let thread = *thread;
                target.write(&write::Wakeup { cpu, time, thread, args: &args })?;
            }
        }
        // What is not in the piece is not to be closed in it either.
        self.durations.retain(|(_, thread), _| filter.admits_thread(*thread, names));
        for open in self.asyncs.values_mut() {
            open.retain(|operation| filter.admits_thread(operation.thread.thread, names));
        }
        let asyncs = self.asyncs.iter().flat_map(|((_, id), open)| {
            open.iter().map(|one| (write::EventKind::AsyncBegin { id: *id }, one))
        });
        let durations = self.durations.values().flatten();
        let durations = durations.map(|one| (write::EventKind::DurationBegin, one));
        for (kind, operation) in durations.chain(asyncs) {
            names.need(operation.thread.process, target)?;
            names.need(operation.thread.thread, target)?;
            let began = ("began_ns", Value::uint(operation.began.0));
            operation.write(kind, from, &[("cut", Value::Bool(true)), began], target)?;
        }
        for ((_, name, id), counter) in &self.counters {
            if filter.admits_thread(counter.thread.thread, names) {
                names.need(counter.thread.process, target)?;
                let series: Vec<(&str, Value<'_>)> =
                    counter.series.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                let (kind, thread) =
                    (write::EventKind::Counter { id: *id }, retype::thread(counter.thread));
                target.event(kind, Ticks(from.0), thread, &counter.category, name, &series)?;
            }
        }
        Ok(())
    }

    /// Closes what is open at the end of the piece.
    pub(super) fn end(
        &mut self,
        to: Nanos,
        filter: &Filter,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        for (cpu, on_cpu) in &mut self.cpus {
            let nobody = filter.nobody(*cpu);
            if on_cpu.thread != Koid(0) && on_cpu.thread != nobody {
                let thread = std::mem::replace(&mut on_cpu.thread, nobody);
                write_switch(*cpu, to, thread, (nobody, None), target)?;
            }
        }
        let cut = [("cut", Value::Bool(true))];
        for operation in self.durations.values().flat_map(|open| open.iter().rev()) {
            operation.write(write::EventKind::DurationEnd, to, &cut, target)?;
        }
        for ((_, id), open) in &self.asyncs {
            for operation in open.iter().rev() {
                operation.write(write::EventKind::AsyncEnd { id: *id }, to, &cut, target)?;
            }
        }
        Ok(())
    }

    /// Shows the thread on the CPU just before it leaves it.
    pub(super) fn put_on(
        &mut self,
        cpu: Cpu,
        thread: Koid,
        switch: &ContextSwitch<'_>,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let shown = self.shown(cpu).unwrap_or_default();
        let weight = switch.outgoing_weight();
        write_switch(cpu, switch.time, shown, (thread, weight), target)
    }
}

impl Operation {
    fn write(
        &self,
        kind: write::EventKind,
        time: Nanos,
        args: &[(&str, Value<'_>)],
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let thread = retype::thread(self.thread);
        Ok(target.event(kind, Ticks(time.0), thread, &self.category, &self.name, args)?)
    }
}

/// A switch that the cut makes up.
fn write_switch(
    cpu: Cpu,
    time: Nanos,
    outgoing: Koid,
    (incoming, weight): (Koid, Option<i32>),
    target: &mut Target<'_>,
) -> Result<(), ConvertError> {
    let weight_of = |koid, known: Option<i32>| {
        Value::Int32(match koid {
            Koid(0) => IDLE,
            koid if is_not_recorded(koid) => NOT_RECORDED_WEIGHT,
            _ => known.unwrap_or(NICE_0),
        })
    };
    let outgoing_state = match is_not_recorded(outgoing) {
        // Readers show what is able to run as waiting for a CPU.
        true => write::ThreadState::Blocked,
        false => write::ThreadState::Running,
    };
    let args = [
        Arg::new(target.text("incoming_weight")?, weight_of(incoming, weight)),
        Arg::new(target.text("outgoing_weight")?, weight_of(outgoing, None)),
        Arg::new(target.text("inferred")?, Value::Bool(true)),
    ];
    Ok(target.write(&write::ContextSwitch {
        cpu: cpu.0,
        time: Ticks(time.0),
        outgoing,
        incoming,
        outgoing_state,
        args: &args,
    })?)
}

/// A value that does not borrow.
fn without_text(value: ReadValue<'_>) -> Option<Value<'static>> {
    Some(match value {
        ReadValue::Int32(value) => Value::Int32(value),
        ReadValue::UInt32(value) => Value::Uint32(value),
        ReadValue::Int64(value) => Value::Int64(value),
        ReadValue::UInt64(value) => Value::Uint64(value),
        ReadValue::Double(value) => Value::Double(value),
        _ => return None,
    })
}
