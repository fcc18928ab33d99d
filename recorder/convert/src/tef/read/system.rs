//! Scheduling records outside of the events, in `systemTraceEvents`: ftrace text, or an object of type `fuchsia`.
//!
//! ```text
//!   "systemTraceEvents": "# tracer: nop\n ..."                               --> temporary file --> import, or records
//!   "systemTraceEvents": {"type": "fuchsia", "events": [{"ph": "k", ...}]}   --> records
//! ```
//!
//! In files that fxtrec wrote, every line and event becomes a record again, and names are among the events. Text of other writers is
//! imported like a separate file.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

use fxt_writer::record::{
    ContextSwitch, KernelObject, LegacyContextSwitch, LegacySide, ObjectType, ThreadState, Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, Text, Ticks, Value, text};
use rustc_hash::FxHashMap;

use super::Importer;
use super::args::ArgSet;
use super::fields::moment;
use super::keep::Pieces;
use super::members::{Members, integer, text as text_of};
use super::source::{AnyString, Source};
use crate::error::{ConvertError, Position};
use crate::import::ftrace_text;
use crate::report::Report;
use crate::spool;
use crate::tef::notes;
use fxt_reader::record::{NOT_RECORDED_WEIGHT, is_not_recorded};
use fxtrec_capture::encode::threads::{Detail, outgoing_state};
use fxtrec_capture::encode::weight::weight;
use fxtrec_capture::event::{Kind, Switch, Wake, WakeKind, Waker};
use fxtrec_units::convention::PROVIDER;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The beginning of ftrace text; other text is from another system.
const FTRACE: &[u8] = b"# tracer:";

/// Bytes of a string that are copied at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Imports ftrace text into a trace, if it has any events. The events outside of the text show to which process a thread belongs.
pub(super) fn imported(
    text: &File,
    owners: &FxHashMap<u32, u32>,
    lenient: bool,
    report: &mut Report,
) -> Result<Option<File>, ConvertError> {
    let mut trace = spool::temporary().map_err(ConvertError::Write)?;
    let found = ftrace_text::read_file(text, &mut trace, lenient, owners)?;
    report.read += found.read;
    found.remarks().for_each(|(what, times)| report.add(what, times));
    let trace = spool::finished(trace).map_err(ConvertError::Write)?;
    Ok((found.read > 0).then_some(trace))
}

impl<'o> Importer<'o> {
    /// Reads the member as a string.
    pub(super) fn system_string(
        &mut self,
        source: &mut Source<impl Read>,
    ) -> Result<(), ConvertError> {
        let mut text = BufWriter::new(tempfile::tempfile().map_err(ConvertError::Write)?);
        source.long_string(|piece| text.write_all(piece).map_err(ConvertError::Write))?;
        let mut text = spool::finished(text).map_err(ConvertError::Write)?;
        text.rewind().map_err(ConvertError::Read)?;
        let mut first = Vec::new();
        (&text).take(FTRACE.len() as u64).read_to_end(&mut first).map_err(ConvertError::Read)?;
        if first == FTRACE {
            self.ftrace = Some(text);
            return Ok(());
        }
        self.report.count("members next to the events, kept in blobs");
        self.keep("systemTraceEvents", |pieces, importer| importer.quote(&text, pieces))
    }

    /// Writes text as a JSON string.
    fn quote(&mut self, mut text: &File, pieces: &mut Pieces) -> Result<(), ConvertError> {
        text.seek(SeekFrom::Start(0)).map_err(ConvertError::Read)?;
        pieces.append(b"\"", self.target()?)?;
        let mut bytes = vec![0; PIECE_BYTES];
        let mut held = 0;
        loop {
            let count = text.read(&mut bytes[held..]).map_err(ConvertError::Read)?;
            let piece = &bytes[..held + count];
            // A character may continue in the next piece.
            let whole = match std::str::from_utf8(piece) {
                Ok(whole) => whole,
                Err(error) if count > 0 => {
                    std::str::from_utf8(&piece[..error.valid_up_to()]).unwrap_or_default()
                }
                Err(_) => return Err(ConvertError::Read(std::io::ErrorKind::InvalidData.into())),
            };
            let quoted = serde_json::to_string(whole).unwrap_or_default();
            let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
            pieces.append(inner.as_bytes(), self.target()?)?;
            let done = whole.len();
            held = piece.len() - done;
            bytes.copy_within(done..done + held, 0);
            if held == bytes.len() {
                return Err(ConvertError::Read(std::io::ErrorKind::InvalidData.into()));
            }
            if count == 0 {
                return pieces.append(b"\"", self.target()?);
            }
        }
    }

    /// Reads the member as an object.
    pub(super) fn system_object(
        &mut self,
        source: &mut Source<impl Read>,
    ) -> Result<(), ConvertError> {
        source.expect(b'{', "here")?;
        let mut others = Pieces::new(&format!("{}systemTraceEvents", notes::MEMBER_BLOB));
        let (mut is_fuchsia, mut lead) = (true, "{");
        let mut ended = source.take(b'}')?;
        while !ended {
            let name = source.value::<AnyString, _>(|name, _| Ok(name))?;
            source.expect(b':', "after a name")?;
            let next = source.peek()?;
            if name == "events" && next == Some(b'[') && is_fuchsia {
                self.in_schedulers_provider()?;
                self.apart = true;
                self.array(source, false, Self::fuchsia_event)?;
            } else {
                let mut value = Vec::new();
                if name == "type" && next == Some(b'"') {
                    source.long_string(|piece| {
                        value.extend_from_slice(piece);
                        Ok(())
                    })?;
                    is_fuchsia = value == b"fuchsia";
                }
                if !(name == "type" && is_fuchsia) {
                    let name = serde_json::to_string(&name).unwrap_or_default();
                    others.append(format!("{lead}{name}:").as_bytes(), self.target()?)?;
                    lead = ",";
                    match next {
                        Some(b'"') if !value.is_empty() => {
                            let value = serde_json::to_string(&String::from_utf8_lossy(&value));
                            let value = value.unwrap_or_default();
                            others.append(value.as_bytes(), self.target()?)?;
                        }
                        _ => self.copy(source, &mut others)?,
                    }
                }
            }
            ended = !source.another(b'}', "after a member")?;
        }
        if lead == "," {
            self.report.count("members next to the events, kept in blobs");
            others.append(b"}", self.target()?)?;
        }
        others.end(self.target()?)
    }

    /// The following records are from the provider that wrote the scheduling records, if that is known.
    fn in_schedulers_provider(&mut self) -> Result<(), ConvertError> {
        let own = self.providers.iter().find(|(_, name)| *name == "fxtrec").map(|(id, _)| *id);
        match own {
            Some(id) => self.switch_provider(id, "fxtrec"),
            None if self.ids.trusts_threads() => {
                let id = ProviderId(PROVIDER.0.max(self.last_provider() + 1));
                self.switch_provider(id, "fxtrec")
            }
            None => Ok(()),
        }
    }

    fn last_provider(&self) -> u32 {
        self.providers.keys().map(|id| id.0).max().unwrap_or_default()
    }

    /// Writes the records for the ftrace text that fxtrec wrote.
    pub(super) fn system_text(&mut self) -> Result<(), ConvertError> {
        let Some(text) = self.ftrace.take_if(|_| self.ids.trusts_threads()) else { return Ok(()) };
        self.in_schedulers_provider()?;
        self.apart = true;
        let lenient = self.lenient;
        let mut skipped = 0;
        ftrace_text::each_event(&text, lenient, &mut skipped, |time, cpu, kind| {
            self.report.read += 1;
            match kind {
                Kind::Switch(switch) => self.switch_of_text(time, cpu, &switch),
                Kind::Wake(wake) if wake.kind != WakeKind::Waking => {
                    self.wakeup_of_text(time, cpu, &wake)
                }
                _ => Ok(()),
            }
        })?;
        self.report.add("lines that are not events, skipped", skipped);
        Ok(())
    }

    fn switch_of_text(
        &mut self,
        Nanos(time): Nanos,
        Cpu(cpu): Cpu,
        switch: &Switch,
    ) -> Result<(), ConvertError> {
        let state = outgoing_state(switch.state);
        let letters = state.detail.map(|detail| match detail {
            Detail::Preempted => "R+".to_owned(),
            _ => switch.state.letter.to_string(),
        });
        let target = self.target()?;
        let weights = [
            ("incoming_weight", weight_of(switch.next, switch.next_prio)),
            ("outgoing_weight", weight_of(switch.prev, switch.prev_prio)),
        ];
        let mut args = Vec::with_capacity(3);
        for (name, weight) in weights {
            args.push(Arg::new(target.text(name)?, Value::Int32(weight)));
        }
        if let Some(letters) = &letters {
            args.push(Arg::new(target.text("prev_state")?, Value::Str(target.text(letters)?)));
        }
        let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
        Ok(target.write(&ContextSwitch {
            cpu,
            time: Ticks(time),
            outgoing: Koid(switch.prev.0.into()),
            incoming: Koid(switch.next.0.into()),
            outgoing_state: state.fxt,
            args: &args,
        })?)
    }

    fn wakeup_of_text(
        &mut self,
        Nanos(time): Nanos,
        Cpu(cpu): Cpu,
        wake: &Wake,
    ) -> Result<(), ConvertError> {
        let target = self.target()?;
        let weight = Value::Int32(weight_of(wake.tid, wake.prio));
        let mut args = vec![Arg::new(target.text("weight")?, weight)];
        if let Waker::Task(waker) = wake.by {
            args.push(Arg::new(target.text("waker")?, Value::Koid(Koid(waker.0.into()))));
        }
        let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
        let thread = Koid(wake.tid.0.into());
        Ok(target.write(&Wakeup { cpu, time: Ticks(time), thread, args: &args })?)
    }

    /// Reads a member of Fuchsia's `events`.
    fn fuchsia_event(
        &mut self,
        mut members: Members<'_>,
        _json: &str,
        at: Position,
    ) -> Result<(), ConvertError> {
        self.report.read += 1;
        let phase = members.take("ph").and_then(text_of).unwrap_or_default();
        let done = match &*phase {
            "k" => self.fuchsia_switch(&mut members, at)?,
            "w" => self.fuchsia_wakeup(&mut members, at)?,
            // In files that fxtrec wrote, names are among the events.
            "p" | "t" if self.ids.trusts_threads() => Some(()),
            "p" | "t" => self.fuchsia_name(&mut members, phase == "t")?,
            _ => {
                self.report.count("events of unknown phases, left out as viewers do");
                Some(())
            }
        };
        let problem = "expected a scheduling event as Fuchsia's converter writes it".to_owned();
        done.ok_or(ConvertError::Malformed { at, problem })
    }

    fn fuchsia_switch(
        &mut self,
        members: &mut Members<'_>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let time = Ticks(moment(members.take("ts"), "ts", at)?.nanos);
        let parts = (|| {
            let cpu: u16 = members.take_number("cpu")?;
            let out = Members::of(members.take("out")?)?;
            let into = Members::of(members.take("in")?)?;
            let state = ThreadState::from_field(out.number("state")?);
            Some((cpu, state, out, into))
        })();
        let Some((cpu, outgoing_state, out, into)) = parts else { return Ok(None) };
        let (Some(outgoing), Some(incoming)) = (out.number("tid"), into.number("tid")) else {
            return Ok(None);
        };
        let (outgoing, incoming) = (Koid(outgoing), Koid(incoming));
        let legacy = (|| {
            let sides = (Koid(out.number("pid")?), Koid(into.number("pid")?));
            Some((sides, (out.number("prio")?, into.number("prio")?), u8::try_from(cpu).ok()?))
        })();
        if let Some(((from, to), (high, low), cpu)) = legacy {
            let target = self.target()?;
            let outgoing = LegacySide { thread: target.thread((from, outgoing))?, priority: high };
            let incoming = LegacySide { thread: target.thread((to, incoming))?, priority: low };
            target.write(&LegacyContextSwitch { cpu, time, outgoing, incoming, outgoing_state })?;
            return Ok(Some(()));
        }
        let weights = [
            ("incoming_weight", into.get("prio").and_then(signed)),
            ("outgoing_weight", out.get("prio").and_then(signed)),
        ];
        self.with_weights(members, &weights, |target, args| {
            target.write(&ContextSwitch { cpu, time, outgoing, incoming, outgoing_state, args })
        })
    }

    fn fuchsia_wakeup(
        &mut self,
        members: &mut Members<'_>,
        at: Position,
    ) -> Result<Option<()>, ConvertError> {
        let time = Ticks(moment(members.take("ts"), "ts", at)?.nanos);
        let (cpu, thread) = (members.take_number("cpu"), members.take_number("tid"));
        let (Some(cpu), Some(thread)) = (cpu, thread.map(Koid)) else { return Ok(None) };
        let weights = [("weight", members.get("prio").and_then(signed))];
        self.with_weights(members, &weights, |target, args| {
            target.write(&Wakeup { cpu, time, thread, args })
        })
    }

    /// Writes a record with its weights and arguments. If there are arguments, they include the weights.
    fn with_weights(
        &mut self,
        members: &Members<'_>,
        weights: &[(&'static str, Option<i32>)],
        write: impl FnOnce(
            &mut super::Target<'o>,
            &[Arg<'_>],
        ) -> Result<(), fxt_writer::WriteError<std::io::Error>>,
    ) -> Result<Option<()>, ConvertError> {
        let args = members.get("args").and_then(Members::of).unwrap_or_default();
        let types = members.get(crate::tef::marks::TYPES).and_then(Members::of);
        let mut set = ArgSet::default();
        for (name, weight) in weights {
            if let Some(weight) = weight.filter(|_| args.get(name).is_none()) {
                set.add_value(name, Value::Int32(weight));
            }
        }
        set.add(&args, types.as_ref());
        let target = self.target()?;
        set.with(|list| {
            let mut args = Vec::with_capacity(list.len());
            for (name, value) in list {
                args.push(Arg::new(target.text(name)?, *value));
            }
            Ok(Some(write(target, &args)?))
        })
    }

    fn fuchsia_name(
        &mut self,
        members: &mut Members<'_>,
        is_thread: bool,
    ) -> Result<Option<()>, ConvertError> {
        let name = members.take("name").and_then(text_of);
        let process = members.take("pid").and_then(integer);
        let thread = members.take("tid").and_then(integer);
        let koid = if is_thread { thread } else { process };
        let (Some(koid), Some(name)) = (koid, name) else { return Ok(None) };
        if self.names.contains_key(&(is_thread, koid)) {
            return Ok(Some(()));
        }
        let target = self.target()?;
        let name = text::clean(name.as_bytes());
        let name = target.text(&name)?;
        let process = process.filter(|process| is_thread && *process != 0);
        let mut args = Vec::new();
        if let Some(process) = process {
            args.push(Arg::new(Text::Inline("process"), Value::Koid(Koid(process))));
        }
        let object_type = if is_thread { ObjectType::Thread } else { ObjectType::Process };
        target.write(&KernelObject { object_type, koid: Koid(koid), name, args: &args })?;
        Ok(Some(()))
    }
}

/// The weight of a thread. Pseudo-threads for time that is not recorded have their own names.
fn weight_of(thread: Tid, priority: i32) -> i32 {
    match is_not_recorded(fxt_reader::Koid(thread.0.into())) {
        true => NOT_RECORDED_WEIGHT,
        false => weight(thread, priority),
    }
}

fn signed(value: &serde_json::value::RawValue) -> Option<i32> {
    value.get().parse().ok()
}
