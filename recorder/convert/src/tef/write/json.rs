//! Appends JSON text to a buffer.

use std::borrow::Cow;
use std::io::Write;

use fxtrec_units::escape;

use crate::tef::MAX_EXACT;

/// An object under construction. End it with [`Object::end`].
#[derive(Debug)]
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> Object<'o> {
    pub(super) fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Writes the name; the value of `name` must be written to the returned buffer.
    pub(super) fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        string(self.out, name);
        self.out.push(b':');
        self.out
    }

    pub(super) fn string(&mut self, name: &str, value: &str) {
        string(self.key(name), value);
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        number(self.key(name), value);
    }

    /// Appends the members of an object given as JSON text.
    pub(super) fn members(&mut self, object: &str) {
        let inner = object.trim().trim_start_matches('{').trim();
        let inner = inner.strip_suffix('}').unwrap_or(inner).trim();
        if !inner.is_empty() {
            if !self.first {
                self.out.push(b',');
            }
            self.first = false;
            self.out.extend_from_slice(inner.as_bytes());
        }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// A string with its quotes (RFC 8259, section 7).
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    let from = out.len();
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        done = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => formatted(out, format_args!("\\u{control:04x}")),
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
    if let Ok(Cow::Owned(escaped)) = str::from_utf8(&out[from..]).map(escape::json) {
        out.truncate(from);
        out.extend_from_slice(escaped.as_bytes());
    }
}

pub(super) fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// An id: a number, or a string of its digits if readers would round the number.
pub(super) fn id(out: &mut Vec<u8>, value: u64) {
    if value <= MAX_EXACT {
        number(out, value);
    } else {
        out.push(b'"');
        number(out, value);
        out.push(b'"');
    }
}

/// A correlation id, pointer or the like.
pub(super) fn hex(out: &mut Vec<u8>, value: u64) {
    formatted(out, format_args!("\"{value:#x}\""));
}

/// Nanoseconds as microseconds, with three decimals unless they are zero.
pub(super) fn micros(out: &mut Vec<u8>, nanos: u64) {
    number(out, nanos / 1000);
    let rest = nanos % 1000;
    if rest != 0 {
        let digits = [b'0'; 3];
        let mut buffer = itoa::Buffer::new();
        let rest = buffer.format(rest).as_bytes();
        out.push(b'.');
        out.extend_from_slice(&digits[rest.len()..]);
        out.extend_from_slice(rest);
    }
}

/// Anything whose `Display` output is valid JSON.
pub(super) fn formatted(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn strings_read_back_as_they_were() {
        for text in ["", "plain", "a\"b\\c", "line\nand\ttab", "\u{1}\u{1f}", "é\u{2028}\u{1f600}"]
        {
            let json = written(|out| string(out, text));
            assert!(!json.contains('\u{2028}'), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).expect("a string"), text, "{json}");
        }
    }

    #[test]
    fn microseconds_keep_their_nanoseconds() {
        for (nanos, text) in [
            (0, "0"),
            (1, "0.001"),
            (1_010, "1.010"),
            (1_000, "1"),
            (u64::MAX, "18446744073709551.615"),
        ] {
            assert_eq!(written(|out| micros(out, nanos)), text);
        }
    }

    #[test]
    fn ids_are_strings_only_where_a_double_would_round_them() {
        assert_eq!(written(|out| id(out, MAX_EXACT)), "9007199254740992");
        assert_eq!(written(|out| id(out, MAX_EXACT + 1)), "\"9007199254740993\"");
    }

    #[test]
    fn an_object_takes_the_members_of_another() {
        let text = written(|out| {
            let mut object = Object::begin(out);
            object.members(" { } ");
            object.number("a", 1);
            object.members("{\"b\": {}}");
            object.end();
        });
        assert_eq!(text, "{\"a\":1,\"b\": {}}");
    }
}
