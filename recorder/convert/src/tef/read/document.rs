//! The outermost array or object.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fxt_writer::record::{BlobType, EventKind, LargeBlob};
use fxt_writer::{Koid, Ticks, Value};

use super::Importer;
use super::args::ArgSet;
use super::fields::{moment, string};
use super::keep::{Pieces, write_blob};
use super::members::{Members, integer, text};
use super::source::{AnyObject, AnyString, AnyValue, Source};
use crate::error::{ConvertError, Position};
use crate::tef::{marks, notes};

impl Importer<'_> {
    /// Reads a whole file, in the array form or the object form.
    pub(super) fn document(&mut self, source: &mut Source<impl Read>) -> Result<(), ConvertError> {
        let read = self.outermost(source);
        self.report.add("commas before a closing bracket, ignored", source.commas);
        read
    }

    fn outermost(&mut self, source: &mut Source<impl Read>) -> Result<(), ConvertError> {
        source.skip_byte_order_mark()?;
        match source.peek()? {
            Some(b'[') => {
                // The closing bracket may be missing, since the writer may have been killed.
                if !self.array(source, true, Self::event)? {
                    return Ok(());
                }
            }
            Some(b'{') => {
                if !self.object_form(source)? {
                    return Ok(());
                }
            }
            found => {
                let found = found.map_or("is empty".into(), |byte| {
                    format!("begins with '{}'", byte.escape_ascii())
                });
                return Err(source.malformed(format!(
                    "expected an array or an object of trace events, but this file {found}"
                )));
            }
        }
        match source.peek()? {
            None => Ok(()),
            Some(_) if self.lenient => {
                self.report.count("files with more text after the trace");
                Ok(())
            }
            Some(byte) => Err(source.malformed(format!(
                "expected the end of the file after the trace, found '{}'",
                byte.escape_ascii()
            ))),
        }
    }

    /// Reads an array of objects; false if the file ended before its end, which is an error unless `may_end`.
    pub(super) fn array(
        &mut self,
        source: &mut Source<impl Read>,
        may_end: bool,
        take: impl Fn(&mut Self, Members<'_>, &str, Position) -> Result<(), ConvertError>,
    ) -> Result<bool, ConvertError> {
        source.expect(b'[', "here")?;
        if source.take(b']')? {
            return Ok(true);
        }
        loop {
            if may_end && source.peek()?.is_none() {
                return Ok(false);
            }
            let at = source.position();
            let parsed = source.value::<AnyObject, _>(|members, json| {
                // An error in an event does not prevent reading the next one.
                Ok(take(self, members, json, at))
            });
            match parsed {
                Ok(taken) => self.forgive(taken)?,
                Err(error) => {
                    self.forgive(Err(error))?;
                    // A complete value of another type is skipped; otherwise reading continues at the next object.
                    if source.value::<AnyValue, _>(|_, _| Ok(())).is_err() {
                        if !source.skip_to_next_object()? {
                            return Ok(false);
                        }
                        continue;
                    }
                }
            }
            if source.take(b']')? || (may_end && source.peek()?.is_none()) {
                return Ok(true);
            }
            if let Err(error) = source.expect(b',', "after an event") {
                self.forgive(Err(error))?;
                if source.peek()? != Some(b'{') && !source.skip_to_next_object()? {
                    return Ok(false);
                }
            } else if source.closes_after_comma(b']')? {
                return Ok(true);
            }
        }
    }

    /// Skips malformed input and counts it, in lenient mode.
    fn forgive(&mut self, result: Result<(), ConvertError>) -> Result<(), ConvertError> {
        match result {
            Err(ConvertError::Malformed { .. }) if self.lenient => {
                self.report.count("malformed events, left out");
                Ok(())
            }
            result => result,
        }
    }

    /// Reads the object form; false if the file ended early.
    fn object_form(&mut self, source: &mut Source<impl Read>) -> Result<bool, ConvertError> {
        source.expect(b'{', "here")?;
        if source.take(b'}')? {
            return Ok(true);
        }
        loop {
            let name = source.value::<AnyString, _>(|name, _| Ok(name))?;
            source.expect(b':', "after a name")?;
            if !self.member(source, &name)? {
                return Ok(false);
            }
            if source.take(b'}')? {
                return Ok(true);
            }
            if self.lenient && source.peek()?.is_none() {
                self.report.count("truncated files");
                return Ok(false);
            }
            if !source.another(b'}', "after a member")? {
                return Ok(true);
            }
        }
    }

    /// Reads a member of the object form; false if the file ended in it.
    fn member(&mut self, source: &mut Source<impl Read>, name: &str) -> Result<bool, ConvertError> {
        match (name, source.peek()?) {
            ("traceEvents", Some(b'[')) => return self.array(source, self.lenient, Self::event),
            ("samples", Some(b'[')) => return self.array(source, self.lenient, Self::sample),
            ("otherData", Some(b'{')) => self.other_data(source)?,
            ("systemTraceEvents", Some(b'"')) => self.system_string(source)?,
            ("systemTraceEvents", Some(b'{')) => self.system_object(source)?,
            ("displayTimeUnit", _) => {
                let is_usual = source.value::<AnyValue, _>(|value, _| match value.get() {
                    "\"ns\"" => Ok(None),
                    other => Ok(Some(other.to_owned())),
                })?;
                if let Some(value) = is_usual {
                    self.keep(name, |pieces, importer| {
                        pieces.append(value.as_bytes(), importer.target()?)
                    })?;
                }
            }
            _ => {
                self.report.count("members next to the events, kept in blobs");
                self.keep(name, |pieces, importer| importer.copy(source, pieces))?;
            }
        }
        Ok(true)
    }

    pub(super) fn keep(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Pieces, &mut Self) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        let mut pieces = Pieces::new(&format!("{}{name}", notes::MEMBER_BLOB));
        fill(&mut pieces, self)?;
        pieces.end(self.target()?)
    }

    /// Copies a value of any size into a blob, element by element.
    pub(super) fn copy(
        &mut self,
        source: &mut Source<impl Read>,
        pieces: &mut Pieces,
    ) -> Result<(), ConvertError> {
        let (open, close) = match source.peek()? {
            Some(b'[') => (b'[', b']'),
            Some(b'{') => (b'{', b'}'),
            _ => return self.copy_value(source, pieces),
        };
        source.expect(open, "here")?;
        pieces.append(&[open], self.target()?)?;
        if !source.take(close)? {
            loop {
                self.copy_value(source, pieces)?;
                if open == b'{' {
                    source.expect(b':', "after a name")?;
                    pieces.append(b":", self.target()?)?;
                    self.copy_value(source, pieces)?;
                }
                if !source.another(close, "after a value")? {
                    break;
                }
                pieces.append(b",", self.target()?)?;
            }
        }
        pieces.append(&[close], self.target()?)
    }

    fn copy_value(
        &mut self,
        source: &mut Source<impl Read>,
        pieces: &mut Pieces,
    ) -> Result<(), ConvertError> {
        source
            .value::<AnyValue, _>(|value, _| pieces.append(value.get().as_bytes(), self.target()?))
    }

    /// Reads `otherData`: fxtrec's blobs, and the data of other writers.
    fn other_data(&mut self, source: &mut Source<impl Read>) -> Result<(), ConvertError> {
        source.expect(b'{', "here")?;
        let mut pieces = Pieces::new(&format!("{}otherData", notes::MEMBER_BLOB));
        let mut lead = "{";
        let mut ended = source.take(b'}')?;
        while !ended {
            let name = source.value::<AnyString, _>(|name, _| Ok(name))?;
            source.expect(b':', "after a name")?;
            if name == marks::BLOBS && source.peek()? == Some(b'[') {
                self.array(source, false, Self::blob)?;
            } else {
                let name = serde_json::to_string(&name).unwrap_or_default();
                pieces.append(format!("{lead}{name}:").as_bytes(), self.target()?)?;
                lead = ",";
                self.copy_value(source, &mut pieces)?;
            }
            ended = !source.another(b'}', "after a member")?;
        }
        if lead == "," {
            self.report.count("members next to the events, kept in blobs");
            pieces.append(b"}", self.target()?)?;
        }
        pieces.end(self.target()?)
    }

    fn blob(
        &mut self,
        mut members: Members<'_>,
        _json: &str,
        at: Position,
    ) -> Result<(), ConvertError> {
        let parts = (|| {
            let name = members.take("name").and_then(text)?;
            let data = STANDARD.decode(&*members.take("data").and_then(text)?).ok()?;
            Some((name, data))
        })();
        let Some((name, data)) = parts else {
            let problem = "expected a blob with a \"name\" and \"data\" in Base64".to_owned();
            return Err(ConvertError::Malformed { at, problem });
        };
        if let Some(category) = members.take("category").and_then(text) {
            let target = self.target()?;
            let (category, name) = (target.text(&category)?, target.text(&name)?);
            let blob = LargeBlob { category, name, metadata: None, payload: &data };
            return Ok(target.write(&blob)?);
        }
        let blob_type = match members.take("type").and_then(integer) {
            Some(2) => BlobType::LastBranch,
            Some(3) => BlobType::Perfetto,
            Some(1) => BlobType::Data,
            _ => {
                self.report.count("blobs of types that FXT does not define, kept as data");
                BlobType::Data
            }
        };
        write_blob(&name, blob_type, &data, self.target()?)
    }

    /// Reads a member of `samples`: an instant on its thread, without a known process.
    fn sample(
        &mut self,
        mut members: Members<'_>,
        _json: &str,
        at: Position,
    ) -> Result<(), ConvertError> {
        self.report.read += 1;
        self.report.count("samples of the whole system, kept as instants");
        let time = moment(members.take("ts"), "ts", at)?.nanos;
        let name = string(members.take("name"), "name", at)?;
        let thread = self.ids.thread(0, members.take("tid")).koid;
        self.now = Some(time);
        let mut args = ArgSet::default();
        args.note_value(notes::SAMPLE, Value::Bool(true));
        for (name, value) in &members.0 {
            args.note(name, value);
        }
        let thread = (Koid(0), Koid(thread));
        let target = self.target()?;
        args.with(|args| {
            target.event(EventKind::Instant, Ticks(time), thread, "sample", &name, args)
        })?;
        Ok(())
    }
}
