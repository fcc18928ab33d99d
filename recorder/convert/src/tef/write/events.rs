//! Event and log records: each event type has its phase.

use fxt_reader::record::{Event, EventKind, Log, Value};
use fxt_reader::{Nanos, Thread};

use super::args::Split;
use super::json::{self, Object};
use super::names::Names;
use super::{Exporter, Scheduling};
use crate::error::ConvertError;
use crate::tef::{NAMELESS, marks, notes};

/// The phase of an event type.
fn phase(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Counter { .. } => "C",
        EventKind::DurationBegin => "B",
        EventKind::DurationEnd => "E",
        EventKind::DurationComplete { .. } => "X",
        EventKind::AsyncBegin { .. } => "b",
        EventKind::AsyncInstant { .. } => "n",
        EventKind::AsyncEnd { .. } => "e",
        EventKind::FlowBegin { .. } => "s",
        EventKind::FlowStep { .. } => "t",
        EventKind::FlowEnd { .. } => "f",
        _ => "i",
    }
}

impl Exporter<'_> {
    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<(), ConvertError> {
        let split = Split::of(event.args);
        if split.note(notes::OVERLAP).is_some() {
            // This is the end of an operation whose begin has its length.
            return Ok(());
        }
        if let Some(Value::Int32(_) | Value::UInt32(_)) = split.note(notes::EVENT)
            && let Some(text) = split.note(notes::EVENT).and_then(|number| self.kept.event(number))
        {
            self.document.raw_event().extend_from_slice(&text);
            return Ok(());
        }
        if let Scheduling::Slices(slices) = &mut self.scheduling
            && is_duration(event.kind)
        {
            slices.has_durations(event.thread.thread);
        }
        if let ("sched", Scheduling::Slices(slices)) = (event.category, &mut self.scheduling) {
            slices.event(event);
        }
        if split.note(notes::SAMPLE).is_some() {
            let mut text = Vec::new();
            write_event(&mut Object::begin(&mut text), event, &split, &self.names);
            text.push(b'}');
            let samples = self.document.member("samples");
            samples.append(if samples.is_empty() { b"[\n" } else { b",\n" })?;
            return samples.append(&text);
        }
        // In JSON, the id of an operation is global by default; only in traces that were converted from JSON is it really global.
        let provider = self.current_provider.and_then(|id| self.providers.get(&id));
        let is_local = is_async(event.kind) && provider.is_none_or(|name| name != NAMELESS);
        let mut object = self.document.event();
        write_event_as(&mut object, event, &split, &self.names, is_local);
        object.end();
        Ok(())
    }

    pub(super) fn log(&mut self, log: &Log<'_>) {
        let mut object = self.document.event();
        object.string("ph", "i");
        object.string("cat", "log");
        object.string("name", "log");
        write_thread_and_time(&mut object, log.thread, log.time, &self.names);
        object.string("s", "t");
        let mut args = Object::begin(object.key("args"));
        args.string("message", log.message);
        args.end();
        object.string(marks::FIELD, marks::LOG);
        object.end();
    }
}

fn is_duration(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::DurationBegin | EventKind::DurationEnd | EventKind::DurationComplete { .. }
    )
}

fn is_async(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::AsyncBegin { .. } | EventKind::AsyncInstant { .. } | EventKind::AsyncEnd { .. }
    )
}

pub(super) fn write_thread_and_time(
    object: &mut Object<'_>,
    thread: Thread,
    time: Nanos,
    names: &Names,
) {
    names.write_id(object.key("pid"), thread.process);
    names.write_id(object.key("tid"), thread.thread);
    json::micros(object.key("ts"), time.0);
}

fn write_event(object: &mut Object<'_>, event: &Event<'_>, split: &Split<'_>, names: &Names) {
    write_event_as(object, event, split, names, false);
}

/// `is_local` means that its id is local to its process.
fn write_event_as(
    object: &mut Object<'_>,
    event: &Event<'_>,
    split: &Split<'_>,
    names: &Names,
    is_local: bool,
) {
    let sample = split.note(notes::SAMPLE).is_some();
    let Event { kind, category, name, thread, time, .. } = *event;
    if !sample {
        split.field(object, notes::PHASE, |out| json::string(out, phase(kind)));
    }
    if !category.is_empty() && !sample {
        split.field(object, "cat", |out| json::string(out, category));
    }
    // The end of a duration needs no name, because it ends the last duration that began.
    if !(name.is_empty() && kind == EventKind::DurationEnd) {
        split.field(object, "name", |out| json::string(out, name));
    }
    if !sample {
        split.field(object, "pid", |out| names.write_id(out, thread.process));
    }
    split.field(object, "tid", |out| names.write_id(out, thread.thread));
    let untimed = matches!(split.note(notes::PHASE), Some(Value::Str("M")));
    if !untimed {
        split.field(object, "ts", |out| json::micros(out, time.0));
    }
    match kind {
        EventKind::DurationComplete { end } => {
            let duration = end.0.saturating_sub(time.0);
            split.field(object, "dur", |out| json::micros(out, duration));
        }
        EventKind::FlowEnd { .. } => split.field(object, "bp", |out| json::string(out, "e")),
        EventKind::Instant if split.note(notes::PHASE).is_none() && !sample => {
            split.field(object, "s", |out| json::string(out, "t"));
        }
        _ => {}
    }
    // A counter with an id other than 0 is one of several with its name.
    let id = kind.id().filter(|id| *id != 0 || !matches!(kind, EventKind::Counter { .. }));
    if let Some(id) = id
        && split.note("id2").is_none()
    {
        match is_local && split.note("id").is_none() {
            true => {
                let mut id2 = Object::begin(object.key("id2"));
                json::hex(id2.key("local"), id);
                id2.end();
            }
            false => split.field(object, "id", |out| json::hex(out, id)),
        }
    }
    split.write_notes(object);
    split.write_args(object, matches!(kind, EventKind::Counter { .. }));
}
