//! An event of a trace, with its arguments as text.

use std::collections::BTreeMap;

use fxt_reader::Koid;
use fxt_reader::record::{self, Args, EventKind, Value};

/// An event: one of fxtrec's own, a hit of a probe, a tracepoint, a system call, an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The koid of its process.
    pub process: u64,
    /// The koid of its thread.
    pub thread: u64,
    /// Its kind.
    pub kind: EventKind,
    /// Its category; `fxtrec` for fxtrec's own.
    pub category: String,
    pub name: String,
    pub args: BTreeMap<String, String>,
}

/// Arguments by their names.
pub(crate) fn texts(args: Args<'_>) -> BTreeMap<String, String> {
    args.iter().map(|arg| (arg.name.to_owned(), text(arg.value))).collect()
}

impl Event {
    pub(crate) fn of(event: &record::Event<'_>) -> Event {
        Event {
            time: event.time.0,
            process: event.thread.process.0,
            thread: event.thread.thread.0,
            kind: event.kind,
            category: event.category.to_owned(),
            name: event.name.to_owned(),
            args: texts(event.args),
        }
    }

    /// Whether it is the beginning of a duration.
    pub fn begins(&self) -> bool {
        self.kind == EventKind::DurationBegin
    }

    /// Whether it is the end of a duration.
    pub fn ends(&self) -> bool {
        self.kind == EventKind::DurationEnd
    }

    /// An argument; empty if there is none of that name.
    pub fn arg(&self, name: &str) -> &str {
        self.args.get(name).map_or("", String::as_str)
    }

    /// A numeric argument.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn number(&self, name: &str) -> u64 {
        self.args[name].parse().expect("a number")
    }
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Str(text) => text.to_owned(),
        Value::Koid(Koid(koid)) => koid.to_string(),
        other => other.to_string(),
    }
}
