//! The fields of an event, by meaning.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::members::{Members, text};
use super::time::{Time, time};
use crate::error::{ConvertError, Position};
use crate::tef::marks;

/// An event's fields as text, and the event's position.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) phase: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) category: Option<&'a RawValue>,
    pub(super) time: Option<&'a RawValue>,
    pub(super) duration: Option<&'a RawValue>,
    pub(super) process: Option<&'a RawValue>,
    pub(super) thread: Option<&'a RawValue>,
    pub(super) id: Option<&'a RawValue>,
    pub(super) id2: Option<&'a RawValue>,
    pub(super) scope: Option<&'a RawValue>,
    pub(super) instant_scope: Option<&'a RawValue>,
    pub(super) binding: Option<&'a RawValue>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) types: Option<Members<'a>>,
    pub(super) mark: Option<&'a RawValue>,
    pub(super) switch: Option<&'a RawValue>,
    /// Fields without an equivalent in FXT.
    pub(super) others: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(members: Members<'a>) -> Self {
        let mut fields = Self::default();
        for (name, value) in members.0 {
            let place = match &*name {
                "ph" => &mut fields.phase,
                "name" => &mut fields.name,
                "cat" => &mut fields.category,
                "ts" => &mut fields.time,
                "dur" => &mut fields.duration,
                "pid" => &mut fields.process,
                "tid" => &mut fields.thread,
                "id" => &mut fields.id,
                "id2" => &mut fields.id2,
                "scope" => &mut fields.scope,
                "s" => &mut fields.instant_scope,
                "bp" => &mut fields.binding,
                "args" => &mut fields.args,
                marks::FIELD => &mut fields.mark,
                marks::SWITCH_FIELD if value.get().starts_with('{') => &mut fields.switch,
                marks::TYPES => {
                    fields.types = Members::of(value);
                    continue;
                }
                _ => {
                    fields.others.push((name, value));
                    continue;
                }
            };
            // If a name occurs several times, the last value counts, as in browsers.
            *place = Some(value);
        }
        fields
    }
}

/// The text of a field that must be a string; empty if it is absent.
pub(super) fn string<'a>(
    field: Option<&'a RawValue>,
    name: &str,
    at: Position,
) -> Result<Cow<'a, str>, ConvertError> {
    let Some(value) = field else { return Ok(Cow::Borrowed("")) };
    text(value).ok_or_else(|| wrong(name, value, "a string", at))
}

/// The time of a required field.
pub(super) fn moment(
    field: Option<&RawValue>,
    name: &str,
    at: Position,
) -> Result<Time, ConvertError> {
    let Some(value) = field else {
        let problem = format!("this event has no \"{name}\": expected a number of microseconds");
        return Err(ConvertError::Malformed { at, problem });
    };
    time(value).ok_or_else(|| wrong(name, value, "a number of microseconds", at))
}

/// An error about an event with a field of the wrong type or value.
pub(super) fn wrong(name: &str, value: &RawValue, expected: &str, at: Position) -> ConvertError {
    let mut found = value.get().to_owned();
    if let Some((cut, _)) = found.char_indices().nth(40) {
        found.truncate(cut);
        found.push_str("...");
    }
    let problem = format!("the field \"{name}\" of this event is {found}: expected {expected}");
    ConvertError::Malformed { at, problem }
}
