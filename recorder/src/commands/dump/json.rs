//! One record as one line of JSON, for programs. docs/reference/output.md defines the members.

use std::io::{self, Write};

use fxt_reader::check::{Finding, Report};
use fxt_reader::record::{Args, EventKind, LargeBlobMetadata, Value};
use fxt_reader::{Item, Koid, Record, Summary, Thread};
use serde_json::{Map, Value as Json, json};

use super::line::Lines;
use crate::units::escape;

/// Changes when the meaning of a member changes.
pub(super) const VERSION: u32 = 1;

/// The first line.
pub(super) fn write_head(out: &mut dyn Write) -> io::Result<()> {
    write_line(&json!({ "version": VERSION }), out)
}

/// A position at which the file is damaged.
pub(super) fn write_damage(damage: &str, out: &mut dyn Write) -> io::Result<()> {
    write_line(&json!({ "damage": damage }), out)
}

/// The last line: the number of records written, and remarks about the file as a whole.
pub(super) fn write_end(written: u64, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let end = json!({
        "records": written,
        "damaged_regions": summary.damaged_regions,
        "damaged_bytes": summary.damaged_bytes,
        "truncated_tail": summary.truncated_tail,
        "container": summary.container.to_string(),
        "container_truncated": summary.container_truncated,
    });
    write_line(&json!({ "end": end }), out)
}

/// Writes the findings of a check as one object; returns whether the trace is valid.
pub(super) fn write_check(report: &Report, out: &mut dyn Write) -> io::Result<bool> {
    let rules: Map<String, Json> =
        report.counts.iter().map(|(rule, count)| (rule.to_string(), (*count).into())).collect();
    let finding = |it: &Finding| json!({ "offset": it.offset, "rule": it.rule.to_string(), "detail": it.detail });
    let summary = &report.summary;
    let check = json!({
        "version": VERSION,
        "valid": report.is_sound(),
        "rules": rules,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "records": summary.records,
        "bytes": summary.record_bytes,
        "damaged_regions": summary.damaged_regions,
        "damaged_bytes": summary.damaged_bytes,
        "truncated_tail": summary.truncated_tail,
        "container": summary.container.to_string(),
        "container_truncated": summary.container_truncated,
    });
    serde_json::to_writer_pretty(escape::Json(&mut *out), &check)?;
    writeln!(out)?;
    Ok(report.is_sound())
}

/// The line of `item`, with the names that `lines` knows.
pub(super) fn write_item(item: &Item<'_>, lines: &Lines, out: &mut dyn Write) -> io::Result<()> {
    let mut line = Map::new();
    line.insert("offset".into(), item.offset.into());
    line.insert("type".into(), item.record.kind().name().into());
    if let Some(time) = item.record.time() {
        line.insert("time_ns".into(), time.0.into());
    }
    if let Json::Object(fields) = fields(&item.record, lines) {
        line.extend(fields);
    }
    if !item.oddities.is_empty() {
        line.insert("oddities".into(), format!("{:?}", item.oddities).into());
    }
    write_line(&Json::Object(line), out)
}

fn write_line(line: &Json, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(escape::Json(&mut *out), line)?;
    writeln!(out)
}

fn fields(record: &Record<'_>, lines: &Lines) -> Json {
    let koid = |koid: Koid| koid_of(koid, lines);
    match record {
        Record::ProviderInfo(info) => json!({ "id": info.id.0, "name": info.name }),
        Record::ProviderSection(section) => json!({ "id": section.id.0 }),
        Record::ProviderEvent(event) => {
            json!({ "id": event.id.0, "event": format!("{:?}", event.event) })
        }
        Record::Initialization(it) => json!({ "ticks_per_second": it.ticks_per_second }),
        Record::String(string) => json!({ "index": string.index, "value": string.value }),
        Record::Thread(record) => {
            with_thread(record.thread, lines, json!({ "index": record.index }))
        }
        Record::Event(event) => {
            let fields = json!({
                "category": event.category,
                "name": event.name,
                "args": args(event.args, lines),
            });
            let mut fields = with_thread(event.thread, lines, fields);
            match (event.kind, event.kind.id()) {
                (EventKind::DurationComplete { end }, _) => {
                    fields["end_ns"] = end.0.into();
                    fields["duration_ns"] = end.0.saturating_sub(event.time.0).into();
                }
                (_, Some(id)) => fields["id"] = id.into(),
                (_, None) => {}
            }
            fields
        }
        Record::Blob(blob) => json!({
            "name": blob.name,
            "blob_type": format!("{:?}", blob.blob_type),
            "bytes": blob.payload.len(),
        }),
        Record::UserspaceObject(object) => json!({
            "name": object.name,
            "pointer": object.pointer,
            "process": koid(object.process),
            "args": args(object.args, lines),
        }),
        Record::KernelObject(object) => json!({
            "object_type": object.object_type.to_string(),
            "koid": object.koid.0,
            "name": object.name,
            "args": args(object.args, lines),
        }),
        Record::ContextSwitch(switch) => json!({
            "cpu": switch.cpu.0,
            "outgoing": koid(switch.outgoing),
            "outgoing_state": switch.outgoing_state.to_string(),
            "incoming": koid(switch.incoming),
            "args": args(switch.args, lines),
        }),
        Record::LegacyContextSwitch(switch) => json!({
            "cpu": switch.cpu.0,
            "outgoing": koid(switch.outgoing.thread),
            "outgoing_state": switch.outgoing_state.to_string(),
            "outgoing_priority": switch.outgoing_priority,
            "incoming": koid(switch.incoming.thread),
            "incoming_priority": switch.incoming_priority,
        }),
        Record::Wakeup(wakeup) => json!({
            "cpu": wakeup.cpu.0,
            "thread": koid(wakeup.koid),
            "args": args(wakeup.args, lines),
        }),
        Record::Log(log) => with_thread(log.thread, lines, json!({ "message": log.message })),
        Record::Module(module) => json!({
            "process": koid(module.process),
            "id": module.id,
            "name": module.name,
            "build_id": module.build_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        }),
        Record::Mapping(mapping) => json!({
            "process": koid(mapping.process),
            "module": mapping.module,
            "start": mapping.start,
            "length": mapping.length,
            "module_address": mapping.module_address,
            "flags": mapping.flags,
        }),
        Record::Backtrace(backtrace) => {
            let frames: Vec<u64> = backtrace.frames.iter().collect();
            let fields = json!({ "flags": backtrace.flags, "frames": frames });
            with_thread(backtrace.thread, lines, fields)
        }
        Record::LargeBlob(blob) => {
            let fields = json!({
                "category": blob.category,
                "name": blob.name,
                "bytes": blob.payload.len(),
            });
            match blob.metadata {
                Some(LargeBlobMetadata { thread, args: arguments, .. }) => {
                    let mut fields = with_thread(thread, lines, fields);
                    fields["args"] = args(arguments, lines);
                    fields
                }
                None => fields,
            }
        }
        Record::Unknown(what) => json!({ "unknown": format!("{what:?}") }),
        // The magic number has no fields.
        _ => json!({}),
    }
}

/// A thread, process or object, and its name if it has one.
fn koid_of(koid: Koid, lines: &Lines) -> Json {
    json!({ "koid": koid.0, "name": lines.name_of(koid) })
}

fn with_thread(thread: Thread, lines: &Lines, mut fields: Json) -> Json {
    fields["process"] = koid_of(thread.process, lines);
    fields["thread"] = koid_of(thread.thread, lines);
    fields
}

/// A list, since two arguments may have the same name.
fn args(args: Args<'_>, lines: &Lines) -> Json {
    let one = |arg: fxt_reader::record::Arg<'_>| {
        let (kind, value) = match arg.value {
            Value::Null => ("null", Json::Null),
            Value::Int32(value) => ("int32", value.into()),
            Value::UInt32(value) => ("uint32", value.into()),
            Value::Int64(value) => ("int64", value.into()),
            Value::UInt64(value) => ("uint64", value.into()),
            // JSON cannot express infinities and NaN.
            Value::Double(value) if !value.is_finite() => ("double", value.to_string().into()),
            Value::Double(value) => ("double", value.into()),
            Value::Str(value) => ("string", value.into()),
            Value::Pointer(value) => ("pointer", value.into()),
            Value::Koid(value) => ("koid", koid_of(value, lines)),
            Value::Bool(value) => ("bool", value.into()),
            other => ("unknown", other.to_string().into()),
        };
        json!({ "name": arg.name, "type": kind, "value": value })
    };
    Json::Array(args.into_iter().map(one).collect())
}
