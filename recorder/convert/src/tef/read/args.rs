//! JSON values as arguments of FXT records.
//!
//! Scalars have their argument types. An object of scalars is flattened: its members become arguments with dotted names, which Perfetto
//! shows as a tree. Deeper objects and arrays stay JSON text. The argument `tef:nested` names both kinds, so that writing can rebuild them.
//! A record has space for 15 arguments: further arguments are put, as JSON text, into the argument `tef:more`.

use std::borrow::Cow;

use fxt_format::limits::MAX_ARGS;
use fxt_writer::{Koid, Text, Value};
use serde_json::value::RawValue;

use super::ids::pointer;
use super::members::{Members, text};
use crate::tef::{notes, types};

/// The value of an argument, with borrowed data.
#[derive(Clone, Debug)]
enum Item<'a> {
    Plain(Value<'static>),
    Text(Cow<'a, str>),
}

#[derive(Debug, Default)]
pub(super) struct ArgSet<'a> {
    items: Vec<(Cow<'a, str>, Item<'a>)>,
    nested: Vec<Cow<'a, str>>,
    more: Option<String>,
}

impl<'a> ArgSet<'a> {
    /// Keeps the value of a field of the event as a note.
    pub(super) fn note(&mut self, field: &str, value: &'a RawValue) {
        let name = note_name(field);
        let item = scalar(value, None).unwrap_or_else(|| {
            self.nested.push(name.clone());
            Item::Text(Cow::Borrowed(value.get()))
        });
        self.items.push((name, item));
    }

    /// Keeps JSON text unchanged as a note, for numbers that FXT would round.
    pub(super) fn note_text(&mut self, field: &str, value: &'a RawValue) {
        let name = note_name(field);
        self.nested.push(name.clone());
        self.items.push((name, Item::Text(Cow::Borrowed(value.get()))));
    }

    /// Keeps a value that is not in the JSON text as a note.
    pub(super) fn note_value(&mut self, field: &str, value: Value<'static>) {
        self.items.push((note_name(field), Item::Plain(value)));
    }

    /// Adds an argument that is not in the JSON text.
    pub(super) fn add_value(&mut self, name: &'static str, value: Value<'static>) {
        self.items.push((name.into(), Item::Plain(value)));
    }

    /// Whether there is a note about that field.
    pub(super) fn has_note(&self, field: &str) -> bool {
        self.items.iter().any(|(name, _)| name.strip_prefix(notes::PREFIX) == Some(field))
    }

    /// Adds the members of `args` that fit. `types` is the content of `arg_types`.
    pub(super) fn add(&mut self, args: &Members<'a>, types: Option<&Members<'a>>) {
        let args = &args.0;
        for (at, member) in args.iter().enumerate() {
            let is_last = at + 1 == args.len();
            if !self.add_one(member, types, args, is_last) {
                self.more = Some(object_text(&args[at..]));
                return;
            }
        }
    }

    fn add_one(
        &mut self,
        (name, value): &(Cow<'a, str>, &'a RawValue),
        types: Option<&Members<'a>>,
        siblings: &[(Cow<'a, str>, &'a RawValue)],
        is_last: bool,
    ) -> bool {
        let type_of = |name: &str| types.and_then(|types| types.get(name)).and_then(text);
        // The remaining space, without the space for notes about all arguments.
        let room = |nested: bool| {
            let notes = usize::from(nested) + usize::from(!is_last);
            MAX_ARGS.saturating_sub(self.items.len() + notes)
        };
        if let Some(item) = scalar(value, type_of(name).as_deref()) {
            if room(!self.nested.is_empty()) == 0 {
                return false;
            }
            self.items.push((name.clone(), item));
            return true;
        }
        if let Some(members) = flat(name, value, siblings)
            && members.0.len() <= room(true)
        {
            for (member, value) in members.0 {
                let full = format!("{name}.{member}");
                if let Some(item) = scalar(value, type_of(&full).as_deref()) {
                    self.items.push((full.into(), item));
                }
            }
        } else if room(true) > 0 {
            self.items.push((name.clone(), Item::Text(Cow::Borrowed(value.get()))));
        } else {
            return false;
        }
        self.nested.push(name.clone());
        true
    }

    /// Whether some arguments did not fit.
    pub(super) fn has_more(&self) -> bool {
        self.more.is_some()
    }

    /// Whether arguments were flattened or kept as text.
    pub(super) fn has_nested(&self) -> bool {
        !self.nested.is_empty()
    }

    /// Passes the arguments and the notes about them to `use_args`.
    pub(super) fn with<T>(mut self, use_args: impl FnOnce(&[(&str, Value<'_>)]) -> T) -> T {
        if !self.nested.is_empty() {
            let names = serde_json::to_string(&self.nested).unwrap_or_default();
            self.items.push((note_name(notes::NESTED), Item::Text(names.into())));
        }
        if let Some(more) = self.more {
            self.items.push((note_name(notes::MORE), Item::Text(more.into())));
        }
        let mut args: Vec<(&str, Value<'_>)> = Vec::with_capacity(self.items.len());
        args.extend(self.items.iter().map(|(name, item)| {
            let value = match item {
                Item::Plain(value) => *value,
                Item::Text(text) => Value::Str(Text::Inline(text)),
            };
            (&**name, value)
        }));
        use_args(&args)
    }
}

/// The members of an object if it can be flattened: they are scalars whose names stay distinct.
fn flat<'a>(
    name: &str,
    value: &'a RawValue,
    siblings: &[(Cow<'a, str>, &'a RawValue)],
) -> Option<Members<'a>> {
    let members = Members::of(value)?;
    let is_plain = |name: &str| !name.is_empty() && !name.contains('.');
    let taken =
        |sibling: &str| sibling.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let good = is_plain(name)
        && !members.0.is_empty()
        && members.0.iter().all(|(name, value)| is_plain(name) && scalar(value, None).is_some())
        && !siblings.iter().any(|(sibling, _)| taken(sibling));
    good.then_some(members)
}

/// The argument for a scalar. `kind` is its type according to `arg_types`, if any.
fn scalar<'a>(value: &'a RawValue, kind: Option<&str>) -> Option<Item<'a>> {
    let json = value.get();
    match json.as_bytes().first()? {
        b'"' => {
            let text = text(value)?;
            let typed = kind.and_then(|kind| typed_text(&text, kind));
            Some(typed.map_or(Item::Text(text), Item::Plain))
        }
        b't' => Some(Item::Plain(Value::Bool(true))),
        b'f' => Some(Item::Plain(Value::Bool(false))),
        b'n' => Some(Item::Plain(Value::Null)),
        b'{' | b'[' => None,
        _ => number(json, kind).map(Item::Plain),
    }
}

fn number(json: &str, kind: Option<&str>) -> Option<Value<'static>> {
    if json.contains(['.', 'e', 'E']) {
        return json.parse().ok().filter(|value: &f64| value.is_finite()).map(Value::Double);
    }
    if let Some(value) = kind.and_then(|kind| typed_text(json, kind)) {
        return Some(value);
    }
    if let Ok(value) = json.parse::<i64>() {
        let short = u32::try_from(value).ok().filter(|_| i32::try_from(value).is_err());
        return Some(short.map_or(Value::int(value), Value::Uint32));
    }
    json.parse().ok().map(Value::Uint64)
}

/// A value of a type that JSON does not have.
fn typed_text(text: &str, kind: &str) -> Option<Value<'static>> {
    match kind {
        types::UINT32 => text.parse().ok().map(Value::Uint32),
        types::INT64 => text.parse().ok().map(Value::Int64),
        types::UINT64 => text.parse().ok().map(Value::Uint64),
        types::DOUBLE => text.parse().ok().map(Value::Double),
        types::POINTER => pointer(text).map(Value::Pointer),
        types::KOID => text.parse().ok().map(|koid| Value::Koid(Koid(koid))),
        _ => None,
    }
}

/// Members as the JSON text of an object.
fn object_text(members: &[(Cow<'_, str>, &RawValue)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| {
            let name = serde_json::to_string(name).unwrap_or_default();
            format!("{name}:{value}")
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

/// The name of the argument for a field: `tef:` and the field's name.
fn note_name(field: &str) -> Cow<'static, str> {
    macro_rules! known {
        ($($name:literal)+) => {
            match field {
                $( $name => Cow::Borrowed(concat!("tef:", $name)), )+
                other => Cow::Owned(format!("{}{other}", notes::PREFIX)),
            }
        };
    }
    known!("ph" "tts" "tdur" "cname" "s" "bp" "id" "id2" "scope" "sf" "esf" "stack" "estack" "ts"
           "nested" "more")
}
