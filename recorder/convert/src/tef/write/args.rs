//! Arguments of FXT records as members of JSON objects.

use std::borrow::Cow;

use fxt_reader::record::{Arg, Args, Value};

use super::json::{self, Object};
use crate::tef::{MAX_EXACT, marks, notes, types};

/// The maximum number of arguments that a record can have ("Arguments").
const MAX_ARGS: usize = fxt_format::limits::MAX_ARGS;

/// Arguments by name, with their types if JSON cannot express them.
type Types<'a> = Vec<(Cow<'a, str>, &'static str)>;

/// Some arguments of one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a> {
    items: [Arg<'a>; MAX_ARGS],
    length: usize,
}

impl<'a> List<'a> {
    fn new() -> Self {
        Self { items: [Arg { name: "", value: Value::Null }; MAX_ARGS], length: 0 }
    }

    fn push(&mut self, arg: Arg<'a>) {
        if let Some(place) = self.items.get_mut(self.length) {
            *place = arg;
            self.length += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[Arg<'a>] {
        &self.items[..self.length]
    }
}

/// The arguments of a record, split into its own and notes about JSON.
#[derive(Debug)]
pub(super) struct Split<'a> {
    /// The record's own arguments.
    pub(super) own: List<'a>,
    /// Fields of the original JSON event, by name.
    pub(super) notes: List<'a>,
    /// Names of arguments and fields that are JSON text or flattened.
    nested: Vec<String>,
    /// More members of `args`, as a JSON object.
    more: Option<&'a str>,
}

impl<'a> Split<'a> {
    pub(super) fn of(args: Args<'a>) -> Self {
        let (mut own, mut fields) = (List::new(), List::new());
        let (mut nested, mut more) = (Vec::new(), None);
        for arg in &args {
            match (arg.name.strip_prefix(notes::PREFIX), arg.value) {
                (None, _) => own.push(arg),
                (Some(notes::NESTED), Value::Str(names)) => {
                    nested = serde_json::from_str(names).unwrap_or_default();
                }
                (Some(notes::MORE), Value::Str(text)) => more = Some(text),
                (Some(name), value) => fields.push(Arg { name, value }),
            }
        }
        Self { own, notes: fields, nested, more }
    }

    /// The note about a field.
    pub(super) fn note(&self, field: &str) -> Option<Value<'a>> {
        self.notes.as_slice().iter().find(|arg| arg.name == field).map(|arg| arg.value)
    }

    /// Writes a field, unless a note has its original JSON.
    pub(super) fn field(
        &self,
        object: &mut Object<'_>,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.note(name).is_none() {
            write(object.key(name));
        }
    }

    /// Writes all notes as fields again. Null represents an absent field.
    pub(super) fn write_notes(&self, object: &mut Object<'_>) {
        for arg in self.notes.as_slice() {
            let own_use =
                matches!(arg.name, notes::EVENT | notes::SAMPLE | notes::METADATA | notes::OVERLAP);
            if !own_use && arg.value != Value::Null {
                let text = self.is_nested(notes::PREFIX, arg.name);
                write_value(object.key(arg.name), arg.value, text, true);
            }
        }
    }

    fn is_nested(&self, prefix: &str, name: &str) -> bool {
        self.nested.iter().any(|nested| nested.strip_prefix(prefix) == Some(name))
    }

    /// Writes `args` and `arg_types`, each only if it is not empty. Series of counters stay numbers regardless of their size.
    pub(super) fn write_args(&self, object: &mut Object<'_>, series: bool) {
        if self.own.length > 0 || self.more.is_some() {
            self.write_args_behind(object, series, |_| {});
        }
    }

    /// Writes `args` and `arg_types`, preceded by members that are not arguments of the record.
    pub(super) fn write_args_behind(
        &self,
        object: &mut Object<'_>,
        series: bool,
        first: impl FnOnce(&mut Object<'_>),
    ) {
        self.write_args_as(object, "args", series, first);
    }

    /// [`write_args_behind`](Self::write_args_behind) with another field name.
    pub(super) fn write_args_as(
        &self,
        object: &mut Object<'_>,
        field: &str,
        series: bool,
        first: impl FnOnce(&mut Object<'_>),
    ) {
        let mut types = Vec::new();
        self.write_members(object.key(field), &mut types, series, first);
        write_types(object, &types);
    }

    /// [`write_args_behind`](Self::write_args_behind) within one more object, as in the `args` of object events.
    pub(super) fn write_args_inside(
        &self,
        object: &mut Object<'_>,
        name: &str,
        first: impl FnOnce(&mut Object<'_>),
    ) {
        let mut types = Vec::new();
        let mut outer = Object::begin(object.key("args"));
        self.write_members(outer.key(name), &mut types, false, first);
        outer.end();
        write_types(object, &types);
    }

    fn write_members<'s>(
        &'s self,
        out: &mut Vec<u8>,
        types: &mut Types<'s>,
        series: bool,
        first: impl FnOnce(&mut Object<'_>),
    ) {
        let mut members = Object::begin(out);
        first(&mut members);
        self.write_own(&mut members, types, series);
        if let Some(more) = self.more {
            members.members(more);
        }
        members.end();
    }

    /// These arguments, without the argument for the process of a thread.
    pub(super) fn without_process(mut self) -> Self {
        let mut own = List::new();
        let mut found = false;
        for arg in self.own.as_slice() {
            let is_process = arg.name == "process" && matches!(arg.value, Value::Koid(_));
            if is_process && !found {
                found = true;
            } else {
                own.push(*arg);
            }
        }
        self.own = own;
        self
    }

    fn write_own<'s>(&'s self, members: &mut Object<'_>, types: &mut Types<'s>, series: bool) {
        let own = self.own.as_slice();
        let mut at = 0;
        while let Some(arg) = own.get(at) {
            if let Some(group) = self.group_of(arg.name) {
                let mut inner = Object::begin(members.key(group));
                while let Some((arg, name)) =
                    own.get(at).and_then(|arg| Some((arg, member(arg.name, group)?)))
                {
                    let value_type = write_value(inner.key(name), arg.value, false, series);
                    types.extend(value_type.map(|what| (arg.name.into(), what)));
                    at += 1;
                }
                inner.end();
                continue;
            }
            let times = own[..at].iter().filter(|earlier| earlier.name == arg.name).count();
            let name = match times {
                0 => Cow::Borrowed(arg.name),
                // If several members had the same name, the last one would hide the others in JSON.
                _ => format!("{}#{}", arg.name, times + 1).into(),
            };
            let text = self.is_nested("", arg.name);
            let value_type = write_value(members.key(&name), arg.value, text, series);
            types.extend(value_type.map(|what| (name, what)));
            at += 1;
        }
    }

    /// The flattened object to which an argument with this name belongs.
    fn group_of(&self, name: &str) -> Option<&str> {
        let nested = self.nested.iter().find(|nested| member(name, nested).is_some());
        nested.map(String::as_str)
    }
}

/// The name of a member of a flattened object.
fn member<'n>(name: &'n str, group: &str) -> Option<&'n str> {
    name.strip_prefix(group)?.strip_prefix('.')
}

fn write_types(object: &mut Object<'_>, list: &Types<'_>) {
    if list.is_empty() {
        return;
    }
    let mut members = Object::begin(object.key(marks::TYPES));
    for (name, what) in list {
        members.string(name, what);
    }
    members.end();
}

/// Writes a value. Returns its type if JSON alone would be read as another type. `raw` means that a string is JSON text; `plain` means that
/// readers may round numbers.
pub(super) fn write_value(
    out: &mut Vec<u8>,
    value: Value<'_>,
    raw: bool,
    plain: bool,
) -> Option<&'static str> {
    match value {
        Value::Int32(value) => json::number(out, value),
        Value::UInt32(value) => {
            json::number(out, value);
            return i32::try_from(value).is_ok().then_some(types::UINT32);
        }
        Value::Int64(value) => {
            let quoted = !plain && value.unsigned_abs() > MAX_EXACT;
            write_quoted(out, quoted, |out| json::number(out, value));
            let shorter = i32::try_from(value).is_ok() || u32::try_from(value).is_ok();
            return (quoted || shorter).then_some(types::INT64);
        }
        Value::UInt64(value) => {
            let quoted = !plain && value > MAX_EXACT;
            write_quoted(out, quoted, |out| json::number(out, value));
            return (quoted || i64::try_from(value).is_ok()).then_some(types::UINT64);
        }
        Value::Double(value) if value.is_finite() => {
            json::formatted(out, format_args!("{value:?}"));
        }
        Value::Double(value) => {
            json::formatted(out, format_args!("\"{value}\""));
            return Some(types::DOUBLE);
        }
        Value::Str(text) if raw => out.extend_from_slice(text.as_bytes()),
        Value::Str(text) => json::string(out, text),
        Value::Pointer(pointer) => {
            json::hex(out, pointer);
            return Some(types::POINTER);
        }
        Value::Koid(koid) => {
            json::id(out, koid.0);
            return Some(types::KOID);
        }
        Value::Bool(value) => json::formatted(out, format_args!("{value}")),
        _ => out.extend_from_slice(b"null"),
    }
    None
}

fn write_quoted(out: &mut Vec<u8>, quoted: bool, write: impl FnOnce(&mut Vec<u8>)) {
    if quoted {
        out.push(b'"');
    }
    write(out);
    if quoted {
        out.push(b'"');
    }
}
