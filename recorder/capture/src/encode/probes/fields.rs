//! Turns the fields of a sample into arguments of an event.

use std::ops::Range;

use fxt_writer::{Arg, Text, Value, text};

use fxtrec_kernel::format::{Field, FieldLocation};

/// The maximum number of arguments that an event can have.
pub const MAX_ARGS: usize = 15;

/// Longer strings and arrays are truncated to this many bytes, so that any 15 of them fit into a record.
const LONGEST: usize = 1024;

/// How the bytes of a field are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Unsigned,
    Signed,
    Pointer,
    /// As a boolean.
    Bool,
    /// As text up to its first NUL.
    Text,
    /// As the hexadecimal digits of its bytes.
    Bytes,
    /// As comma-separated integers of this many bytes, with or without a sign.
    List(usize, bool),
}

/// One field, and the name of its argument.
#[derive(Clone, Copy, Debug)]
pub struct FieldArg {
    pub name: Text<'static>,
    at: usize,
    size: usize,
    place: FieldLocation,
    show: Show,
}

impl FieldArg {
    /// The argument for a field of a tracepoint's format, formatted as `show` says, or according to its type.
    pub fn new(name: Text<'static>, field: &Field, show: Option<Show>) -> FieldArg {
        let show = show.unwrap_or_else(|| suggested(field));
        FieldArg { name, at: field.offset, size: field.size, place: field.place, show }
    }

    /// The bytes of the field's content; `None` if the sample is too short.
    fn content<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let end = self.at.checked_add(self.size)?;
        let own = raw.get(self.at..end)?;
        let base = match self.place {
            FieldLocation::Inline => return Some(own),
            FieldLocation::DataLoc => 0,
            FieldLocation::RelLoc => end,
        };
        let locator = u32::from_ne_bytes(*own.first_chunk()?);
        // Offset in the lower half, length in the upper.
        let [low, high] = [locator & 0xffff, locator >> 16].map(|half| half as usize);
        raw.get(base + low..base + low + high)
    }

    fn show<'a>(&self, raw: &'a [u8], scratch: &mut String) -> Option<Shown<'a>> {
        let content = self.content(raw)?;
        let value = match self.show {
            Show::Unsigned => Value::uint(integer(content, false)?.cast_unsigned()),
            Show::Signed => Value::int(integer(content, true)?),
            Show::Pointer => Value::Pointer(integer(content, false)?.cast_unsigned()),
            Show::Bool => Value::Bool(content.iter().any(|byte| *byte != 0)),
            Show::Text => return Some(text_of(content, scratch)),
            Show::Bytes => {
                return Some(Shown::written(scratch, |scratch| hexadecimal(content, scratch)));
            }
            Show::List(width, signed) => {
                return Some(Shown::written(scratch, |scratch| {
                    list(content, width, signed, scratch);
                }));
            }
        };
        Some(Shown::Value(value))
    }
}

/// How a field of this type is best shown.
fn suggested(field: &Field) -> Show {
    let words: Vec<&str> = field.ctype.trim_end_matches("[]").split_whitespace().collect();
    let is_char = words.last() == Some(&"char") && !words.contains(&"unsigned");
    let is_array = field.array_len.is_some()
        || field.place != FieldLocation::Inline
        || !matches!(field.size, 1 | 2 | 4 | 8);
    if is_array && is_char {
        return Show::Text;
    }
    if field.ctype.ends_with('*') && !is_array {
        return Show::Pointer;
    }
    if field.ctype == "bool" && !is_array {
        return Show::Bool;
    }
    if !is_array {
        return if field.signed { Show::Signed } else { Show::Unsigned };
    }
    match field.array_len.map(|len| (len, field.size.checked_div(len))) {
        Some((_, Some(width @ (2 | 4 | 8)))) => Show::List(width, field.signed),
        _ => Show::Bytes,
    }
}

/// An integer of 1, 2, 4 or 8 bytes.
fn integer(bytes: &[u8], signed: bool) -> Option<i64> {
    Some(match (bytes.len(), signed) {
        (1, false) => i64::from(bytes[0]),
        (1, true) => i64::from(bytes[0].cast_signed()),
        (2, false) => i64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
        (2, true) => i64::from(i16::from_ne_bytes(*bytes.first_chunk()?)),
        (4, false) => i64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
        (4, true) => i64::from(i32::from_ne_bytes(*bytes.first_chunk()?)),
        (8, _) => i64::from_ne_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

/// A value, or its position in the scratch text.
#[derive(Clone, Debug)]
enum Shown<'a> {
    Value(Value<'a>),
    Scratch(Range<usize>),
}

impl Shown<'_> {
    fn written(scratch: &mut String, write: impl FnOnce(&mut String)) -> Self {
        let from = scratch.len();
        write(scratch);
        Shown::Scratch(from..scratch.len())
    }
}

fn text_of<'a>(content: &'a [u8], scratch: &mut String) -> Shown<'a> {
    let content = &content[..content.len().min(LONGEST)];
    match text::clean(content) {
        std::borrow::Cow::Borrowed(text) => Shown::Value(Value::Str(Text::Inline(text))),
        std::borrow::Cow::Owned(text) => Shown::written(scratch, |scratch| scratch.push_str(&text)),
    }
}

fn hexadecimal(content: &[u8], scratch: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in content.iter().take(LONGEST / 2) {
        for digit in [byte / 16, byte % 16] {
            scratch.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
}

fn list(content: &[u8], width: usize, signed: bool, scratch: &mut String) {
    use std::fmt::Write;
    let from = scratch.len();
    for (n, bytes) in content.chunks_exact(width).enumerate() {
        let comma = if n == 0 { "" } else { "," };
        let value = integer(bytes, signed).unwrap_or(0);
        // Writing to memory does not fail.
        let _ = match signed {
            true => write!(scratch, "{comma}{value}"),
            false => write!(scratch, "{comma}{}", value.cast_unsigned()),
        };
        if scratch.len() - from > LONGEST {
            break;
        }
    }
}

/// Passes the arguments of a sample to `then`. `scratch` is a reusable buffer for strings.
///
/// `None`, without a call of `then`, if the sample is too short for a field.
pub fn with_args<R>(
    fields: &[FieldArg],
    raw: &[u8],
    scratch: &mut String,
    then: impl FnOnce(&[Arg<'_>]) -> R,
) -> Option<R> {
    scratch.clear();
    let mut shown = [const { Shown::Value(Value::Null) }; MAX_ARGS];
    for (shown, field) in shown.iter_mut().zip(fields) {
        *shown = field.show(raw, scratch)?;
    }
    let mut args = [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS];
    for ((arg, field), shown) in args.iter_mut().zip(fields).zip(shown) {
        let value = match shown {
            Shown::Value(value) => value,
            Shown::Scratch(range) => Value::Str(Text::Inline(&scratch[range])),
        };
        *arg = Arg::new(field.name, value);
    }
    Some(then(&args[..fields.len().min(MAX_ARGS)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fxtrec_kernel::format::Format;

    fn field(line: &str) -> Field {
        let text = format!("name: x\nID: 1\nformat:\n\t{line}\n\nprint fmt: \"\"\n");
        Format::parse(&text).expect("a good line").fields.remove(0)
    }

    /// The field's value, as text.
    fn shown(line: &str, raw: &[u8]) -> String {
        let field = FieldArg::new(Text::EMPTY, &field(line), None);
        let mut scratch = String::new();
        with_args(&[field], raw, &mut scratch, |args| format!("{:?}", args[0].value))
            .unwrap_or_else(|| "too short".to_owned())
    }

    #[test]
    fn integers_keep_their_width_and_sign() {
        let raw = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(shown("field:int a;\toffset:0;\tsize:4;\tsigned:1;", &raw), "Int32(-2)");
        let unsigned = "field:unsigned int a;\toffset:0;\tsize:4;\tsigned:0;";
        assert_eq!(shown(unsigned, &raw), "Uint32(4294967294)");
        let long = "field:u64 a;\toffset:0;\tsize:8;\tsigned:0;";
        assert_eq!(shown(long, &raw), format!("Uint64({})", u64::MAX - 1));
        assert_eq!(shown("field:u8 a;\toffset:0;\tsize:1;\tsigned:0;", &raw), "Uint32(254)");
        assert_eq!(shown("field:bool a;\toffset:1;\tsize:1;\tsigned:0;", &raw), "Bool(true)");
        let pointer = "field:const char * p;\toffset:0;\tsize:8;\tsigned:0;";
        assert_eq!(shown(pointer, &raw), format!("Pointer({})", u64::MAX - 1));
    }

    #[test]
    fn texts_end_at_their_nul_whether_they_are_fixed_or_elsewhere() {
        let fixed = "field:char comm[4];\toffset:0;\tsize:4;\tsigned:0;";
        assert_eq!(shown(fixed, b"ab\0x"), r#"Str(Inline("ab"))"#);
        assert_eq!(shown(fixed, b"abcd"), r#"Str(Inline("abcd"))"#);
        let elsewhere = "field:__data_loc char[] name;\toffset:0;\tsize:4;\tsigned:0;";
        let mut raw = (6u32 + (4 << 16)).to_ne_bytes().to_vec();
        raw.extend(b"..new\0");
        assert_eq!(shown(elsewhere, &raw), r#"Str(Inline("new"))"#);
        let relative = "field:__rel_loc char[] name;\toffset:0;\tsize:4;\tsigned:0;";
        let mut raw = (2u32 + (4 << 16)).to_ne_bytes().to_vec();
        raw.extend(b"..new\0");
        assert_eq!(shown(relative, &raw), r#"Str(Inline("new"))"#);
    }

    #[test]
    fn a_text_that_is_none_is_made_one() {
        let fixed = "field:char comm[4];\toffset:0;\tsize:4;\tsigned:0;";
        assert_eq!(shown(fixed, b"a\xffb\0"), "Str(Inline(\"a\u{fffd}b\"))");
    }

    #[test]
    fn arrays_become_digits_or_lists() {
        let bytes = "field:unsigned char mac[3];\toffset:0;\tsize:3;\tsigned:0;";
        assert_eq!(shown(bytes, &[0, 0x1f, 0xa0]), r#"Str(Inline("001fa0"))"#);
        let moving = "field:__data_loc u8[] buf;\toffset:0;\tsize:4;\tsigned:0;";
        let mut raw = (4u32 + (2 << 16)).to_ne_bytes().to_vec();
        raw.extend([0xde, 0xad]);
        assert_eq!(shown(moving, &raw), r#"Str(Inline("dead"))"#);
        let words = "field:unsigned long args[2];\toffset:0;\tsize:16;\tsigned:0;";
        let raw = [7u64.to_ne_bytes(), 9u64.to_ne_bytes()].concat();
        assert_eq!(shown(words, &raw), r#"Str(Inline("7,9"))"#);
    }

    #[test]
    fn a_sample_that_is_too_short_or_points_beyond_its_end_has_no_arguments() {
        let int = "field:int a;\toffset:4;\tsize:4;\tsigned:1;";
        assert_eq!(shown(int, &[0; 7]), "too short");
        let elsewhere = "field:__data_loc char[] name;\toffset:0;\tsize:4;\tsigned:0;";
        assert_eq!(shown(elsewhere, &u32::MAX.to_ne_bytes()), "too short");
    }

    #[test]
    fn fifteen_texts_of_any_length_fit_a_record() {
        let line = "field:__data_loc char[] name;\toffset:0;\tsize:4;\tsigned:0;";
        let fields = [FieldArg::new(Text::Inline("name"), &field(line), None); MAX_ARGS];
        let mut raw = (4u32 + (60_000 << 16)).to_ne_bytes().to_vec();
        raw.resize(60_004, b'x');
        let mut out: Vec<u8> = Vec::new();
        let written = with_args(&fields, &raw, &mut String::new(), |args| {
            use fxt_writer::record::{Event, EventKind, Record};
            let thread = fxt_writer::ThreadName::Inline {
                process: fxt_writer::Koid(1),
                thread: fxt_writer::Koid(1),
            };
            let (kind, time) = (EventKind::Instant, fxt_writer::Ticks(0));
            let (category, name) = (Text::Inline("c"), Text::Inline("n"));
            Event { kind, time, thread, category, name, args }.write(&mut out).is_ok()
        });
        assert_eq!(written, Some(true));
    }
}
