//! Traces that the tests build packet by packet, in the format of Perfetto's recorders.

mod back;
mod hostile;
mod programs;
mod scheduling;

use fxt_reader::check::{Promises, check};
use fxt_reader::record::EventKind;
use fxt_reader::{Reader, Record};
use fxtrec_units::protobuf::Message;

use crate::{Format, Input, Options, Report, convert};

/// A message with these numbers and bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Built(Message);

impl Built {
    pub(super) fn number(mut self, field: u64, value: u64) -> Built {
        self.0.explicit_number(field, value);
        self
    }

    pub(super) fn text(mut self, field: u64, text: &str) -> Built {
        self.0.bytes(field, text.as_bytes());
        self
    }

    pub(super) fn with(mut self, field: u64, Built(message): Built) -> Built {
        self.0.bytes(field, &message.0);
        self
    }

    pub(super) fn fixed(mut self, field: u64, value: u64) -> Built {
        self.0.double(field, f64::from_bits(value));
        self
    }

    pub(super) fn numbers(mut self, field: u64, values: &[u64]) -> Built {
        self.0.numbers(field, values.iter().copied());
        self
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.0.0
    }
}

pub(super) fn message() -> Built {
    Built::default()
}

/// A trace with these packets.
pub(super) fn trace(packets: impl IntoIterator<Item = Built>) -> Vec<u8> {
    packets.into_iter().fold(message(), |trace, packet| trace.with(1, packet)).bytes()
}

/// An ftrace event: its time, the running thread, flags, and its contents.
pub(super) fn event(time: u64, pid: u64, flags: u64, field: u64, body: Built) -> Built {
    message().number(1, time).number(2, pid).number(5, flags).with(field, body)
}

/// Events of a CPU.
pub(super) fn bundle(cpu: u64, events: impl IntoIterator<Item = Built>) -> Built {
    let bundle = message().number(1, cpu);
    let bundle = events.into_iter().fold(bundle, |bundle, event| bundle.with(2, event));
    message().with(1, bundle).number(10, 1)
}

/// `sched_switch` by the outgoing thread; each side has a name, id and priority.
pub(super) fn switch(
    time: u64,
    (from, prev, prio): (&str, u64, u64),
    state: u64,
    (to, next, next_prio): (&str, u64, u64),
) -> Built {
    let body = message().text(1, from).number(2, prev).number(3, prio).number(4, state);
    event(time, prev, 1, 4, body.text(5, to).number(6, next).number(7, next_prio))
}

/// A wakeup of kind `field` (17 `sched_wakeup`, 114 `sched_wakeup_new`, 20 `sched_waking`) by `pid`.
pub(super) fn wake(
    (field, time): (u64, u64),
    (pid, flags): (u64, u64),
    (name, tid): (&str, u64),
    target: u64,
) -> Built {
    let body = message().text(1, name).number(2, tid).number(3, 120);
    event(time, pid, flags, field, body.number(5, target))
}

/// The converted trace, and the report.
pub(super) fn converted(trace: &[u8]) -> (Vec<u8>, Report) {
    let mut input = Input::from_bytes(trace.to_vec()).expect("not packed");
    assert_eq!(input.format().expect("its format shows"), Format::Perfetto);
    let (mut out, options) = (Vec::new(), Options::default());
    let report = convert(&mut input, Format::Perfetto, &mut out, Format::Fxt, options);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_sound(&out);
    (out, report)
}

/// The trace conforms to the format and to fxtrec's guarantees.
pub(super) fn assert_sound(fxt: &[u8]) {
    let report = check(&mut Reader::from_slice(fxt), Promises::Fxtrec).expect("readable");
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// Each record that is about scheduling or from a program, as text.
pub(super) fn lines(fxt: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(fxt);
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        match item.record {
            Record::ContextSwitch(it) => {
                let (from, state, to) = (it.outgoing.0, it.outgoing_state, it.incoming.0);
                let mut line = format!("{} cpu {}: {from} {state} -> {to}", it.time.0, it.cpu);
                for name in ["prev_state", "syscall", "irq_ns", "irqs", "inferred"] {
                    if let Some(value) = it.args.get(name) {
                        line += &format!(" {name}={value}");
                    }
                }
                found.push(line);
            }
            Record::Wakeup(it) => {
                let by = match (it.waker(), it.args.get("interrupt")) {
                    (Some(waker), _) => waker.0.to_string(),
                    (None, Some(_)) => "an interrupt".to_owned(),
                    (None, None) => "?".to_owned(),
                };
                found.push(format!("{} cpu {}: {} woken by {by}", it.time.0, it.cpu, it.koid.0));
            }
            Record::Event(it)
                if !matches!(it.name, "trace_info" | "trace_stats" | "stack_info") =>
            {
                let kind = match it.kind {
                    EventKind::Instant => "instant".to_owned(),
                    EventKind::DurationBegin => "begin".to_owned(),
                    EventKind::DurationEnd => "end".to_owned(),
                    EventKind::DurationComplete { end } => format!("until {end:?}"),
                    EventKind::AsyncBegin { id } => format!("async begin {id}"),
                    EventKind::AsyncEnd { id } => format!("async end {id}"),
                    EventKind::Counter { id } => format!("counter {id}"),
                    EventKind::FlowBegin { id } => format!("flow begin {id}"),
                    EventKind::FlowStep { id } => format!("flow step {id}"),
                    EventKind::FlowEnd { id } => format!("flow end {id}"),
                    other => format!("{other:?}"),
                };
                let args: String =
                    it.args.iter().map(|arg| format!(" {}={}", arg.name, arg.value)).collect();
                found.push(format!(
                    "{} {kind} {}:{} of {}/{}{args}",
                    it.time.0, it.category, it.name, it.thread.process.0, it.thread.thread.0
                ));
            }
            _ => {}
        }
    }
    found
}

/// The arguments of the event `trace_info`.
pub(super) fn info(fxt: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(fxt);
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Record::Event(event) = item.record
            && event.name == "trace_info"
        {
            return event.args.iter().map(|arg| format!("{}={}", arg.name, arg.value)).collect();
        }
    }
    panic!("no trace_info")
}

/// Threads and processes with their last names: `koid name`, and for threads the process.
pub(super) fn objects(fxt: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(fxt);
    let mut found = std::collections::BTreeMap::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Record::KernelObject(object) = item.record {
            let home = object
                .args
                .get("process")
                .map_or(String::new(), |home| format!(" of {home}").replace("koid:", ""));
            let kind = if home.is_empty() { "process" } else { "thread" };
            found.insert(
                (kind, object.koid.0),
                format!("{kind} {} {}{home}", object.koid.0, object.name),
            );
        }
    }
    found.into_values().collect()
}
