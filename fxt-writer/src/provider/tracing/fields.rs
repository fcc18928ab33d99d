//! Fields of spans and events, kept until they are written.

use std::fmt::{self, Write};
use std::ops::Range;

use tracing_core::Field;
use tracing_core::field::Visit;

use super::points::Point;
use crate::Value;
use crate::layout::limits::MAX_ARGS;
use crate::provider::format::Bounded;
use crate::provider::site::Name;

/// A field's value; strings are stored contiguously.
#[derive(Clone, Debug)]
enum Kept {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    Bool(bool),
    Text(Range<usize>),
}

/// Fields by their index in the callsite, the first 15 of them.
#[derive(Debug, Default)]
pub(super) struct Fields {
    kept: Vec<(usize, Kept)>,
    text: String,
    /// The event's message, if it has one.
    message: Option<Range<usize>>,
}

impl Fields {
    /// No fields.
    pub(super) const NONE: Self = Self { kept: Vec::new(), text: String::new(), message: None };

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Removes all fields, for reuse.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.text.clear();
        self.message = None;
    }

    pub(super) fn message(&self) -> Option<&str> {
        self.message.clone().map(|range| &self.text[range])
    }

    pub(super) fn args<'a>(
        &'a self,
        point: &'static Point,
    ) -> impl Iterator<Item = (&'static Name, Value<'a>)> {
        self.kept
            .iter()
            .filter_map(move |(index, kept)| Some((point.names.get(*index)?, self.value(kept))))
    }

    fn value(&self, kept: &Kept) -> Value<'_> {
        match kept {
            Kept::Signed(value) => Value::int(*value),
            Kept::Unsigned(value) => Value::uint(*value),
            Kept::Double(value) => Value::Double(*value),
            Kept::Bool(value) => Value::Bool(*value),
            Kept::Text(range) => self.text[range.clone()].into(),
        }
    }

    fn keep(&mut self, field: &Field, value: Kept) {
        // A field that is recorded again gets a new value.
        match self.kept.iter().position(|(index, _)| *index == field.index()) {
            Some(at) => self.kept[at].1 = value,
            None if self.kept.len() < MAX_ARGS => self.kept.push((field.index(), value)),
            None => {}
        }
    }

    fn keep_text(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        let start = self.text.len();
        // Full, or Debug failed: use the text so far.
        let _ = Bounded(&mut self.text).write_fmt(text);
        let range = start..self.text.len();
        if field.name() == "message" {
            self.message = Some(range);
        } else {
            self.keep(field, Kept::Text(range));
        }
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, Kept::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, Kept::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, Kept::Double(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, Kept::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep_text(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.keep_text(field, format_args!("{value:?}"));
    }
}

/// The text of a log record: level, target, message, other fields.
pub(super) fn log_text(
    fields: &Fields,
    point: &'static Point,
    level: tracing_core::Level,
    text: &mut String,
) {
    let mut text = Bounded(text);
    let mut write = || {
        write!(text, "{level} {}:", point.site.category())?;
        if let Some(message) = fields.message() {
            write!(text, " {message}")?;
        }
        fields.kept.iter().try_for_each(|(index, kept)| {
            let name = point.names.get(*index).map_or("", Name::content);
            match kept {
                Kept::Signed(value) => write!(text, " {name}={value}"),
                Kept::Unsigned(value) => write!(text, " {name}={value}"),
                Kept::Double(value) => write!(text, " {name}={value}"),
                Kept::Bool(value) => write!(text, " {name}={value}"),
                Kept::Text(range) => write!(text, " {name}={}", &fields.text[range.clone()]),
            }
        })
    };
    // Full: use the text so far.
    let _ = write();
}
