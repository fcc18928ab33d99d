//! `M` events that name processes and threads, and the original ids of made-up koids.

use fxt_writer::record::{KernelObject, ObjectType};
use fxt_writer::{Arg, Koid, Value, text};
use serde_json::value::RawValue;

use super::Importer;
use super::args::ArgSet;
use super::fields::{Fields, string};
use super::members::{Members, integer, text as text_of};
use crate::error::{ConvertError, Position};
use crate::tef::{marks, notes};

impl Importer<'_> {
    /// Writes the kernel object for a `process_name` or `thread_name`; false for other events.
    pub(super) fn naming(
        &mut self,
        fields: &Fields<'_>,
        at: Position,
    ) -> Result<bool, ConvertError> {
        let what = string(fields.name, "name", at)?;
        let (kind, is_name) = match &*what {
            "process_name" => (ObjectType::Process, true),
            "thread_name" => (ObjectType::Thread, true),
            // These determine the position of a process or thread in viewers, and text next to its name.
            "process_sort_index" | "process_labels" => (ObjectType::Process, false),
            "thread_sort_index" => (ObjectType::Thread, false),
            _ => return Ok(false),
        };
        let Some(mut members) = fields.args.and_then(Members::of) else { return Ok(false) };
        let name = match is_name {
            true => members.take("name").and_then(text_of),
            false => None,
        };
        if is_name && name.is_none() {
            return Ok(false);
        }
        let orphan =
            fields.mark.is_some_and(|mark| mark.get() == format!("\"{}\"", marks::NO_PROCESS));
        let mut args = ArgSet::default();
        let (koid, process) = if kind == ObjectType::Process {
            if let Some(thread) = fields.thread {
                args.note("tid", thread);
            }
            (self.process_of(fields)?, None)
        } else if orphan {
            (fields.thread.and_then(integer).unwrap_or(0), None)
        } else {
            let (process, thread) = self.thread_of(fields)?;
            (thread, Some(process))
        };
        for (name, value) in [("cat", fields.category), ("ts", fields.time)] {
            if let Some(value) = value {
                args.note(name, value);
            }
        }
        for (name, value) in &fields.others {
            args.note(name, value);
        }
        let key = (kind == ObjectType::Thread, koid);
        let name = match name {
            Some(name) => {
                self.names.insert(key, name.as_ref().to_owned());
                name
            }
            None => {
                args.note_value(notes::METADATA, Value::Bool(true));
                if let Some(what) = fields.name {
                    args.note("name", what);
                }
                // If an object has several records, its last name counts, so the name must be the same, or be absent.
                let known = self.names.get(&key).cloned();
                known
                    .unwrap_or_else(|| {
                        format!("{} {koid}", if key.0 { "thread" } else { "process" })
                    })
                    .into()
            }
        };
        args.add(&members, fields.types.as_ref());
        self.kernel_object(kind, koid, &name, process, args)
    }

    /// Writes a kernel object; false if it does not fit into a record.
    pub(super) fn kernel_object(
        &mut self,
        kind: ObjectType,
        koid: u64,
        name: &str,
        process: Option<u64>,
        args: ArgSet<'_>,
    ) -> Result<bool, ConvertError> {
        let name = text::clean(name.as_bytes());
        let target = self.target()?;
        let written = args.with(|list| {
            let mut args = Vec::with_capacity(list.len() + 1);
            if let Some(process) = process {
                args.push(Arg::new(target.text("process")?, Value::Koid(Koid(process))));
            }
            for (name, value) in list {
                args.push(Arg::new(target.text(name)?, *value));
            }
            let name = target.text(&name)?;
            target.write(&KernelObject { object_type: kind, koid: Koid(koid), name, args: &args })
        });
        match written {
            Ok(()) => Ok(true),
            Err(fxt_writer::WriteError::Encode(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the original id of a made-up koid. A process gets its id as its name.
    pub(super) fn name_made_up(
        &mut self,
        koid: u64,
        process: Option<u64>,
        id: &RawValue,
    ) -> Result<(), ConvertError> {
        let name = text_of(id).unwrap_or_else(|| id.get().into());
        let kind = if process.is_some() { ObjectType::Thread } else { ObjectType::Process };
        let mut args = ArgSet::default();
        args.note(notes::ID, id);
        self.report.count("ids that are not numbers or have two owners, given new koids");
        self.kernel_object(kind, koid, &name, process, args)?;
        Ok(())
    }
}
