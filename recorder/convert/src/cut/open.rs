//! The open state at some point of a trace: occupied CPUs, waiting threads, operations that have not ended, counters with values.

use std::collections::BTreeMap;

use fxt_reader::record::{
    ContextSwitch, Event, EventKind, NOT_RECORDED_WEIGHT, Value as ReadValue, Wakeup,
    is_not_recorded,
};
use fxt_reader::{Cpu, Koid, Nanos, Record, Thread, ThreadState};
use fxt_writer::record as write;
use fxt_writer::{Arg, Text, Ticks, Value};
use fxtrec_sched::{
    Held, Machine, Occupant, Periods, State, Switch, SwitchArgs, Thread as Does, WakeupFacts,
    is_period, period_of, unsigned,
};
use rustc_hash::FxHashMap;

use super::filter::{Filter, Names};
use super::{Target, Window};
use crate::error::ConvertError;
use crate::retype;
use fxtrec_capture::encode::weight::{IDLE, NICE_0};

#[derive(Debug, Default)]
pub(super) struct Open {
    /// The occupants of CPUs and the waiting threads, up to the window.
    machine: Machine<Koid>,
    threads: FxHashMap<Koid, Known>,
    /// The thread that the output shows on each CPU.
    shown: BTreeMap<Cpu, Koid>,
    /// Durations by thread, the outermost first.
    durations: BTreeMap<(Koid, Koid), Vec<Operation>>,
    /// Async operations by process, category and id, the outermost first.
    asyncs: BTreeMap<(Koid, String, u64), Vec<Operation>>,
    counters: BTreeMap<(Koid, String, u64), Counter>,
    /// When cgroups were throttled.
    periods: Periods,
    /// The waits that the beginning of the window cuts: when they began, and whether they began throttled.
    cut: FxHashMap<Koid, Does>,
}

/// The known facts about a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    does: Does,
    /// Its weight, if its last record had one.
    weight: Option<i32>,
}

impl AsMut<Does> for Known {
    fn as_mut(&mut self) -> &mut Does {
        &mut self.does
    }
}

#[derive(Clone, Debug)]
struct Operation {
    thread: Thread,
    category: String,
    name: String,
    began: Nanos,
    /// The cgroup that is throttled, and the CPU.
    period: Option<(String, Cpu)>,
}

#[derive(Clone, Debug)]
struct Counter {
    thread: Thread,
    category: String,
    series: Vec<(String, Value<'static>)>,
}

impl Open {
    /// Updates what is open with the next record.
    pub(super) fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::ContextSwitch(switch) => self.switch(switch),
            Record::Wakeup(wakeup) if wakeup.koid != Koid(0) => self.wakeup(wakeup),
            Record::Event(event) => self.event(event),
            _ => {}
        }
    }

    fn wakeup(&mut self, wakeup: &Wakeup<'_>) {
        let throttled = WakeupFacts::of(wakeup.args).throttled;
        let state = if throttled { State::WokenThrottled } else { State::Woken };
        let after = (wakeup.cpu, state);
        self.machine.wake_to(&mut self.threads, wakeup.koid, after, wakeup.time);
        let known = self.threads.entry(wakeup.koid).or_default();
        if known.does.state.is_waiting() {
            // The thread may have been woken earlier, for another CPU.
            known.does.cpu = wakeup.cpu;
            known.weight = wakeup.weight();
        }
    }

    fn switch(&mut self, switch: &ContextSwitch<'_>) {
        let next = match switch.outgoing_state {
            // A thread that never ran is in no queue.
            ThreadState::New => State::Unknown,
            ThreadState::Running if SwitchArgs::of(switch.args).throttled => State::Throttled,
            state => State::after(state, None),
        };
        let (outgoing, incoming) = (occupant(switch.outgoing), occupant(switch.incoming));
        let (time, cpu) = (switch.time, switch.cpu);
        let change = Switch { time, cpu, outgoing, next, incoming, inferred: false };
        self.machine.switch(&mut self.threads, change);
        let outgoing = (switch.outgoing, switch.outgoing_weight());
        for (thread, weight) in [outgoing, (switch.incoming, switch.incoming_weight())] {
            self.threads.entry(thread).or_default().weight = weight;
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let thread = (event.thread.process, event.thread.thread);
        let operation = || Operation {
            thread: event.thread,
            category: event.category.to_owned(),
            name: event.name.to_owned(),
            began: event.time,
            period: period_of(event).filter(|_| is_period(event)).map(|it| (it.0.to_owned(), it.1)),
        };
        self.follow_periods(event);
        if let ("sched", "migrate", Some(cpu)) =
            (event.category, event.name, event.args.get("dest_cpu").and_then(cpu_number))
        {
            self.machine.migrate(&mut self.threads, event.thread.thread, cpu);
        }
        match event.kind {
            EventKind::DurationBegin => self.durations.entry(thread).or_default().push(operation()),
            EventKind::DurationEnd => {
                self.durations.entry(thread).or_default().pop();
            }
            EventKind::AsyncBegin { id } => {
                let key = (event.thread.process, event.category.to_owned(), id);
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

    /// Ends the innermost operation with that name, or the innermost of all.
    fn end_async(&mut self, event: &Event<'_>, id: u64) {
        let key = (event.thread.process, event.category.to_owned(), id);
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

    /// Records when cgroups are throttled, within the window too.
    pub(super) fn follow_periods(&mut self, event: &Event<'_>) {
        self.periods.event(event);
    }

    /// How long a quota held a thread back within the window, for a wait that began before the window. `None` if the whole wait is in the
    /// window.
    pub(super) fn held_in_window(
        &mut self,
        switch: &ContextSwitch<'_>,
        from: Nanos,
    ) -> Option<u64> {
        let wait = self.cut.remove(&switch.incoming)?;
        let nanos = switch.args.get("throttled_ns").and_then(unsigned)?;
        let held = Held::of(wait, switch.time, (nanos, switch.args.str("throttled_by")));
        let within = switch.time.0.saturating_sub(from.0);
        Some(match held.and_then(|held| self.periods.place(held)) {
            Some(intervals) => {
                let inside = |(begin, end): (Nanos, Nanos)| end.0.saturating_sub(begin.max(from).0);
                intervals.into_iter().map(inside).sum::<u64>().min(within)
            }
            // At most the part that is in the window.
            None => nanos.min(within),
        })
    }

    /// Whether some durations or operations are open.
    pub(super) fn has_operations(&self) -> bool {
        self.durations.values().chain(self.asyncs.values()).any(|open| !open.is_empty())
    }

    /// The thread that the output shows on a CPU; `None` before it shows any.
    pub(super) fn shown(&self, cpu: Cpu) -> Option<Koid> {
        self.shown.get(&cpu).copied()
    }

    pub(super) fn show(&mut self, cpu: Cpu, thread: Koid) {
        self.shown.insert(cpu, thread);
    }

    /// Writes the operations that are open at the beginning of the window.
    pub(super) fn begin(
        &mut self,
        window: &Window,
        names: &mut Names,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let (from, filter) = (window.from, &window.filter);
        for (number, seat) in (0..=u16::MAX).zip(self.machine.cpu_states()) {
            let Some(occupant) = seat.occupant else { continue };
            let (cpu, has) = (Cpu(number), occupant.thread().unwrap_or_default());
            let not_shown = filter.not_shown(cpu);
            let wanted = filter.admits_cpu(cpu) && filter.admits_thread(has, names);
            let shown = if wanted { has } else { not_shown };
            self.shown.insert(cpu, shown);
            if shown != not_shown {
                names.need_occupant(not_shown, target)?;
                names.need_occupant(shown, target)?;
                let weight = self.threads.get(&shown).and_then(|known| known.weight);
                write_switch(cpu, from, not_shown, (shown, weight), target)?;
            }
        }
        let mut waiting: Vec<_> =
            self.threads.iter().filter(|(_, known)| known.does.state.is_waiting()).collect();
        waiting.sort_unstable_by_key(|(thread, _)| **thread);
        for (thread, known) in waiting {
            if filter.admits_cpu(known.does.cpu) && filter.admits_thread(*thread, names) {
                names.need(*thread, target)?;
                let weight = known.weight.unwrap_or(NICE_0);
                let mut args = vec![
                    Arg::new(target.text("weight")?, Value::Int32(weight)),
                    Arg::new(target.text("inferred")?, Value::Bool(true)),
                ];
                if known.does.state.is_throttled() {
                    args.push(Arg::new(target.text("throttled")?, Value::Bool(true)));
                }
                self.cut.insert(*thread, known.does);
                let (cpu, time) = (known.does.cpu.0, Ticks(from.0));
                let thread = *thread;
                target.write(&write::Wakeup { cpu, time, thread, args: &args })?;
            }
        }
        // Operations that are not in the output must not be closed in it either.
        self.durations.retain(|(_, thread), _| filter.admits_thread(*thread, names));
        for open in self.asyncs.values_mut() {
            open.retain(|operation| match &operation.period {
                Some((_, cpu)) => filter.admits_cpu(*cpu),
                None => filter.admits_thread(operation.thread.thread, names),
            });
        }
        let asyncs = self.asyncs.iter().flat_map(|((.., id), open)| {
            open.iter().map(|one| (write::EventKind::AsyncBegin { id: *id }, one))
        });
        let durations = self.durations.values().flatten();
        let durations = durations.map(|one| (write::EventKind::DurationBegin, one));
        for (kind, operation) in durations.chain(asyncs) {
            names.need(operation.thread.process, target)?;
            names.need(operation.thread.thread, target)?;
            let began = ("began_ns", Value::uint(operation.began.0));
            let mut args = vec![("cut", Value::Bool(true)), began];
            if let Some((cgroup, cpu)) = &operation.period {
                args.push(("cgroup", Value::Str(Text::Inline(cgroup))));
                args.push(("cpu", Value::Uint32(cpu.0.into())));
            }
            operation.write(kind, from, &args, target)?;
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
        for (cpu, shown) in &mut self.shown {
            let not_shown = filter.not_shown(*cpu);
            if *shown != Koid(0) && *shown != not_shown {
                let thread = std::mem::replace(shown, not_shown);
                write_switch(*cpu, to, thread, (not_shown, None), target)?;
            }
        }
        let cut = [("cut", Value::Bool(true))];
        for operation in self.durations.values().flat_map(|open| open.iter().rev()) {
            operation.write(write::EventKind::DurationEnd, to, &cut, target)?;
        }
        for ((.., id), open) in &self.asyncs {
            for operation in open.iter().rev() {
                operation.write(write::EventKind::AsyncEnd { id: *id }, to, &cut, target)?;
            }
        }
        Ok(())
    }

    /// Shows the thread on the CPU just before it leaves.
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

/// The occupant for a koid. The pseudo-threads for time that is not recorded are treated like other threads.
fn occupant(thread: Koid) -> Occupant<Koid> {
    if thread == Koid(0) { Occupant::Idle } else { Occupant::Thread(thread) }
}

/// Writes a switch that the trace does not have.
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
        // Readers show threads that are able to run as waiting for a CPU.
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

fn cpu_number(value: ReadValue<'_>) -> Option<Cpu> {
    unsigned(value).and_then(|number| u16::try_from(number).ok()).map(Cpu)
}

/// A value without borrowed data.
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
