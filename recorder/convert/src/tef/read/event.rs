//! Events: each phase becomes its event type, or an instant that stores the phase as a note.

use fxt_writer::record::{EventKind, UserspaceObject};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, WriteError, text};
use serde_json::value::RawValue;

use super::Importer;
use super::args::ArgSet;
use super::fields::{Fields, moment, string, wrong};
use super::ids::{correlation, number, own_local};
use super::keep::write_blob;
use super::members::Members;
use super::time::Time;
use crate::error::{ConvertError, Position};
use crate::tef::notes;

/// The maximum number of events that wait for a time.
const MAX_WAITING: usize = 4096;

/// An event that is ready to be written, except for its arguments.
struct Ready<'a> {
    kind: EventKind,
    time: u64,
    thread: (Koid, Koid),
    category: std::borrow::Cow<'a, str>,
    name: std::borrow::Cow<'a, str>,
}

impl Importer<'_> {
    /// Reads a member of `traceEvents`; `json` is its text, `at` its position.
    pub(super) fn event(
        &mut self,
        members: Members<'_>,
        json: &str,
        at: Position,
    ) -> Result<(), ConvertError> {
        self.report.read += 1;
        if members.0.is_empty() && !self.strict {
            // Writers that end each event with a comma produce an empty last event.
            self.report.count("empty events, left out");
            return Ok(());
        }
        self.any_event(&Fields::of(members), json, at)
    }

    fn any_event(
        &mut self,
        fields: &Fields<'_>,
        json: &str,
        at: Position,
    ) -> Result<(), ConvertError> {
        if fields.mark.is_some() && self.own(fields, at)? {
            return Ok(());
        }
        let Some(phase) = fields.phase else {
            let problem = format!("this event has no \"ph\": expected {PHASES}");
            return Err(ConvertError::Malformed { at, problem });
        };
        let letter = string(Some(phase), "ph", at)?;
        if letter == "M" {
            if self.naming(fields, at)? {
                return Ok(());
            }
            if fields.time.is_none() && self.now.is_none() && self.waiting.len() < MAX_WAITING {
                self.waiting.push(json.to_owned());
                return Ok(());
            }
        }
        if !self.strict && !self.lenient && !KNOWN.contains(&&*letter) {
            self.report.count("events of unknown phases, left out as viewers do");
            return Ok(());
        }
        let mut args = ArgSet::default();
        let time = self.time_of(fields, &letter, &mut args, at)?;
        let state = is_state(&letter, fields);
        let kind = match state {
            true => self.state(phase, time, fields, &mut args, at)?,
            false => self.kind(&letter, phase, time, fields, &mut args, at)?,
        };
        self.release_waiting()?;
        let (process, thread) = self.thread_of(fields)?;
        let overlap = match (state, kind) {
            (true, EventKind::DurationComplete { end: Ticks(end) }) => {
                Some((FIRST_STATE.wrapping_add(thread), end))
            }
            _ => self.overlap(kind, time.nanos, thread, fields, &mut args)?,
        };
        let category = string(fields.category, "cat", at)?;
        let name = string(fields.name, "name", at)?;
        if letter == "N" {
            self.object(fields, process, &name)?;
        }
        self.note_others(fields, &mut args);
        self.add_args(fields, &mut args, at)?;
        let thread = (Koid(process), Koid(thread));
        let Some((id, end)) = overlap else {
            let ready = Ready { kind, time: time.nanos, thread, category, name };
            return self.write_event(&ready, args, json);
        };
        let kind = EventKind::AsyncBegin { id };
        let mut ready = Ready { kind, time: time.nanos, thread, category, name };
        self.write_event(&ready, args, json)?;
        (ready.kind, ready.time) = (EventKind::AsyncEnd { id }, end);
        let mut args = ArgSet::default();
        args.note_value(notes::OVERLAP, Value::Bool(true));
        self.write_event(&ready, args, json)
    }

    /// The state of a thread from a time on. It becomes an operation on a separate track of the thread, because it does not nest with the
    /// thread's durations; without a length, it becomes an instant.
    fn state<'a>(
        &mut self,
        phase: &'a RawValue,
        time: Time,
        fields: &Fields<'a>,
        args: &mut ArgSet<'a>,
        at: Position,
    ) -> Result<EventKind, ConvertError> {
        args.note(notes::PHASE, phase);
        let Some(value) = fields.duration else { return Ok(EventKind::Instant) };
        let duration = moment(Some(value), "dur", at)?.nanos;
        // It is converted back into the original event.
        args.note_text("dur", value);
        args.note_value("id", Value::Null);
        self.report.count("states of threads, kept on tracks of their own");
        Ok(EventKind::DurationComplete { end: Ticks(time.nanos.saturating_add(duration)) })
    }

    /// The id and the end of the asynchronous operation that replaces a complete event which would overlap with another event of its
    /// thread.
    fn overlap<'a>(
        &mut self,
        kind: EventKind,
        begin: u64,
        thread: u64,
        fields: &Fields<'a>,
        args: &mut ArgSet<'a>,
    ) -> Result<Option<(u64, u64)>, ConvertError> {
        let EventKind::DurationComplete { end: Ticks(end) } = kind else { return Ok(None) };
        // A complete event of FXT stays a complete event.
        if self.ids.trusts_threads() || self.overlaps.nests(thread, begin, end) {
            return Ok(None);
        }
        self.report.count("complete events that overlap with others, kept on tracks of their own");
        // It is converted back into the original complete event.
        for (name, value) in [("ph", fields.phase), ("dur", fields.duration)] {
            if let Some(value) = value.filter(|_| !args.has_note(name)) {
                args.note(name, value);
            }
        }
        if fields.id.is_none() {
            args.note_value("id", Value::Null);
        }
        self.overlapping += 1;
        Ok(Some((FIRST_OVERLAPPING + self.overlapping, end)))
    }

    /// Writes events that waited for a time; they get that of the first event that has one.
    pub(super) fn release_waiting(&mut self) -> Result<(), ConvertError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.now.get_or_insert(0);
        for json in std::mem::take(&mut self.waiting) {
            let nowhere = Position { line: 1, column: 1 };
            // These events have been parsed once already, so errors cannot occur.
            if let Ok(members) = serde_json::from_str::<Members<'_>>(&json) {
                self.any_event(&Fields::of(members), &json, nowhere)?;
            }
        }
        Ok(())
    }

    fn time_of<'a>(
        &mut self,
        fields: &Fields<'a>,
        phase: &str,
        args: &mut ArgSet<'a>,
        at: Position,
    ) -> Result<Time, ConvertError> {
        if phase == "M" {
            if let Some(value) = fields.time {
                args.note("ts", value);
            }
            return Ok(Time { nanos: self.now.unwrap_or(0), exact: true });
        }
        let time = moment(fields.time, "ts", at)?;
        if !time.exact {
            self.report.count("times finer than nanoseconds or out of range, kept as arguments");
            if let Some(value) = fields.time {
                args.note_text("ts", value);
            }
        }
        self.now = Some(time.nanos);
        Ok(time)
    }

    /// The event type for a phase, with its additional word.
    fn kind<'a>(
        &mut self,
        letter: &str,
        phase: &'a RawValue,
        time: Time,
        fields: &Fields<'a>,
        args: &mut ArgSet<'a>,
        at: Position,
    ) -> Result<EventKind, ConvertError> {
        let native =
            matches!(letter, "B" | "E" | "X" | "i" | "C" | "b" | "n" | "e" | "s" | "t" | "f");
        let kind = match letter {
            "B" => EventKind::DurationBegin,
            "E" => EventKind::DurationEnd,
            "X" => return self.complete(phase, time, fields, args, at),
            "C" => EventKind::Counter { id: self.correlation(letter, false, fields, args, at)? },
            "b" | "S" => {
                EventKind::AsyncBegin { id: self.correlation(letter, true, fields, args, at)? }
            }
            "n" | "T" | "p" => {
                EventKind::AsyncInstant { id: self.correlation(letter, true, fields, args, at)? }
            }
            "e" | "F" => {
                EventKind::AsyncEnd { id: self.correlation(letter, true, fields, args, at)? }
            }
            "s" => EventKind::FlowBegin { id: self.correlation(letter, true, fields, args, at)? },
            "t" => EventKind::FlowStep { id: self.correlation(letter, true, fields, args, at)? },
            "f" => EventKind::FlowEnd { id: self.correlation(letter, true, fields, args, at)? },
            "i" => EventKind::Instant,
            "I" | "P" | "N" | "O" | "D" | "M" | "V" | "v" | "R" | "c" | "(" | ")" | "=" => {
                self.note_ids(fields, args);
                EventKind::Instant
            }
            _ if self.lenient => {
                self.report.count("events of unknown phases, kept as instants");
                self.note_ids(fields, args);
                EventKind::Instant
            }
            _ => return Err(wrong("ph", phase, PHASES, at)),
        };
        if !native {
            args.note(notes::PHASE, phase);
            self.report.count("events with a phase that FXT lacks, kept as events of another type");
        }
        if native && !matches!(letter, "C" | "b" | "n" | "e" | "s" | "t" | "f") {
            self.note_ids(fields, args);
        }
        Ok(kind)
    }

    /// A complete event. Without a duration, the event is only a begin, because its end is unknown.
    fn complete<'a>(
        &mut self,
        phase: &'a RawValue,
        time: Time,
        fields: &Fields<'a>,
        args: &mut ArgSet<'a>,
        at: Position,
    ) -> Result<EventKind, ConvertError> {
        self.note_ids(fields, args);
        let Some(value) = fields.duration else {
            args.note(notes::PHASE, phase);
            self.report.count("complete events without a duration, kept as begins");
            return Ok(EventKind::DurationBegin);
        };
        let duration = moment(Some(value), "dur", at)?;
        let end = time.nanos.checked_add(duration.nanos);
        if !duration.exact || end.is_none() {
            args.note_text("dur", value);
            self.report.count("times finer than nanoseconds or out of range, kept as arguments");
        }
        Ok(EventKind::DurationComplete { end: Ticks(end.unwrap_or(u64::MAX)) })
    }

    /// The number that correlates the event with others.
    fn correlation<'a>(
        &mut self,
        letter: &str,
        required: bool,
        fields: &Fields<'a>,
        args: &mut ArgSet<'a>,
        at: Position,
    ) -> Result<u64, ConvertError> {
        let process = self.ids.process(fields.process).koid;
        if self.ids.trusts_threads()
            && let Some(number) = fields.id2.and_then(own_local)
        {
            return Ok(number);
        }
        let found = correlation(fields.id, fields.id2, fields.scope, process);
        match found {
            Some(found) if found.plain && fields.id2.is_none() && fields.scope.is_none() => {
                return Ok(found.number);
            }
            Some(_) => {}
            None if required && !self.lenient => {
                let problem =
                    format!("this event of phase {letter} has no \"id\": expected a string");
                return Err(ConvertError::Malformed { at, problem });
            }
            None if required => self.report.count("events without the id that their phase needs"),
            None => return Ok(0),
        }
        self.note_ids(fields, args);
        Ok(found.map_or(0, |found| found.number))
    }

    fn note_ids<'a>(&mut self, fields: &Fields<'a>, args: &mut ArgSet<'a>) {
        for (name, value) in [("id", fields.id), ("id2", fields.id2), ("scope", fields.scope)] {
            if let Some(value) = value {
                args.note(name, value);
                self.report.count("ids that are not plain numbers, kept as arguments");
            }
        }
    }

    /// Keeps fields without an equivalent in FXT as notes.
    fn note_others<'a>(&mut self, fields: &Fields<'a>, args: &mut ArgSet<'a>) {
        let phase = fields.phase.map_or("", RawValue::get);
        match fields.instant_scope {
            Some(scope) if phase != "\"i\"" || scope.get() != "\"t\"" => {
                args.note("s", scope);
                self.report.count("scopes of instants, kept as arguments");
            }
            _ => {}
        }
        match fields.binding {
            Some(binding) if phase != "\"f\"" || binding.get() != "\"e\"" => {
                args.note("bp", binding);
                self.report.count("binding points of flows, kept as arguments");
            }
            // Flows in FXT end in the slice that contains them, but this one ends in the next slice.
            None if phase == "\"f\"" => {
                args.note_value("bp", Value::Null);
                self.report.count("binding points of flows, kept as arguments");
            }
            _ => {}
        }
        if let Some(duration) =
            fields.duration.filter(|_| phase != "\"X\"" && !args.has_note("dur"))
        {
            args.note("dur", duration);
            self.report.count("other fields, kept as arguments");
        }
        for (name, value) in [("fxt", fields.mark), ("switch", fields.switch)] {
            if let Some(value) = value {
                args.note(name, value);
            }
        }
        for (name, value) in &fields.others {
            args.note(name, value);
            self.report.count(match &**name {
                "tts" | "tdur" => "thread clock times (tts, tdur), kept as arguments",
                "sf" | "esf" | "stack" | "estack" => "stack traces, kept as arguments",
                "cname" => "colours (cname), kept as arguments",
                _ => "other fields, kept as arguments",
            });
        }
    }

    pub(super) fn add_args<'a>(
        &mut self,
        fields: &Fields<'a>,
        args: &mut ArgSet<'a>,
        at: Position,
    ) -> Result<(), ConvertError> {
        let Some(value) = fields.args else { return Ok(()) };
        match Members::of(value) {
            Some(members) => args.add(&members, fields.types.as_ref()),
            None if value.get() == "null" => {}
            None if self.lenient => args.note("args", value),
            None => return Err(wrong("args", value, "an object", at)),
        }
        if args.has_more() {
            self.report
                .count("events with more arguments than a record holds, the rest kept as text");
        }
        Ok(())
    }

    /// The koids of the event's process and thread; made-up koids get names.
    pub(super) fn thread_of(&mut self, fields: &Fields<'_>) -> Result<(u64, u64), ConvertError> {
        let process = self.process_of(fields)?;
        let thread = self.ids.thread(process, fields.thread);
        if thread.new
            && let Some(id) = fields.thread
        {
            self.name_made_up(thread.koid, Some(process), id)?;
        }
        Ok((process, thread.koid))
    }

    pub(super) fn process_of(&mut self, fields: &Fields<'_>) -> Result<u64, ConvertError> {
        let process = self.ids.process(fields.process);
        if process.new
            && let Some(id) = fields.process
        {
            self.name_made_up(process.koid, None, id)?;
        }
        Ok(process.koid)
    }

    /// The creation of an object defines the meaning of its pointer.
    fn object(
        &mut self,
        fields: &Fields<'_>,
        process: u64,
        name: &str,
    ) -> Result<(), ConvertError> {
        let Some(pointer) = fields.id.and_then(number) else { return Ok(()) };
        let target = self.target()?;
        let name = text::clean(name.as_bytes());
        let process = target.thread((Koid(process), Koid(process)))?;
        let note = target.text("tef:ph")?;
        let args = [Arg::new(note, Value::Str(Text::Inline("N")))];
        let name = target.text(&name)?;
        Ok(target.write(&UserspaceObject { pointer, process, name, args: &args })?)
    }

    /// Writes the event, or the whole event as blobs if it does not fit into a record.
    fn write_event(
        &mut self,
        ready: &Ready<'_>,
        args: ArgSet<'_>,
        json: &str,
    ) -> Result<(), ConvertError> {
        if args.has_nested() {
            self.report.count("events with nested values, flattened or kept as text");
        }
        let Ready { kind, time, thread, category, name } = ready;
        let target = self.target()?;
        let written =
            args.with(|args| target.event(*kind, Ticks(*time), *thread, category, name, args));
        match written {
            Ok(()) => return Ok(()),
            Err(WriteError::Encode(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.report.count("events larger than a record, kept in blobs");
        let number = self.kept;
        self.kept += 1;
        let target = self.target()?;
        write_blob(
            &format!("{}{number}", notes::EVENT_BLOB),
            fxt_writer::record::BlobType::Data,
            json.as_bytes(),
            target,
        )?;
        let (category, name) = (short(category), short(name));
        let args = [("tef:event", Value::Uint32(number))];
        Ok(target.event(*kind, Ticks(*time), *thread, &category, &name, &args)?)
    }
}

/// Truncates a string so that another one fits next to it.
fn short(content: &str) -> String {
    text::clean(content.as_bytes()).chars().take(1000).collect()
}

/// The first id for overlapping complete events, in a range without counters or addresses.
const FIRST_OVERLAPPING: u64 = 0xf7ac_e000_0000_0000;

/// The first id for operations that represent states of threads; each thread has one.
const FIRST_STATE: u64 = 0xf7ac_d000_0000_0000;

/// Whether the event is a state of a thread. Steps of operations have the same letter, but also an id.
fn is_state(letter: &str, fields: &Fields<'_>) -> bool {
    let is_category = fields.category.is_some_and(|it| it.get() == "\"thread_state\"");
    letter == "T" && is_category && fields.id.is_none() && fields.id2.is_none()
}

/// All phases of the document.
const KNOWN: [&str; 28] = [
    "B", "E", "X", "i", "I", "C", "b", "n", "e", "S", "T", "p", "F", "s", "t", "f", "P", "N", "O",
    "D", "M", "V", "v", "R", "c", "(", ")", "=",
];

const PHASES: &str = "one of B E X i I C b n e S T p F s t f P N O D M V v R c ( ) =";
