//! Reads JSON text as a stream: one whole value at a time, in bounded memory, with positions.
//!
//! A window of the text is in memory. serde_json parses the next value from it; if the window ends within the value, more is read and the
//! value is parsed again. So strings and raw values are borrowed from the window, and arrays may have any length:
//!
//! ```text
//!     [ {...}, {...}, {...}, {.|  not yet read
//!               |-----| one value
//!     consumed  ^ at           ^ filled
//! ```

use std::io::{self, Read};

use serde::Deserialize;
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::members::Members;
use crate::error::{ConvertError, Position};

/// The initial size of the window, in bytes.
const WINDOW_BYTES: usize = 512 * 1024;
/// The maximum size of a value, in bytes. Values are the elements of arrays and objects here, so this limits memory, not the size of files.
const MAX_VALUE_BYTES: usize = 128 << 20;

/// The type to parse, for any lifetime of the window.
pub(super) trait Shape {
    type Of<'w>: Deserialize<'w>;
}

/// Any value, as its text.
pub(super) struct AnyValue;

impl Shape for AnyValue {
    type Of<'w> = &'w RawValue;
}

/// An object, as its members.
pub(super) struct AnyObject;

impl Shape for AnyObject {
    type Of<'w> = Members<'w>;
}

pub(super) struct AnyString;

impl Shape for AnyString {
    type Of<'w> = String;
}

/// The result of an attempt to parse a value.
enum Step<T> {
    /// It was parsed and used; its length in bytes.
    Taken(usize, Result<T, ConvertError>),
    Malformed(serde_json::Error),
    /// The window ends within it.
    Incomplete,
}

/// A stream of JSON text.
pub(super) struct Source<R> {
    input: R,
    window: Vec<u8>,
    at: usize,
    filled: usize,
    ended: bool,
    here: Position,
    /// Whether a comma before a closing bracket is an error.
    strict: bool,
    /// The number of skipped commas before closing brackets.
    pub(super) commas: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R, strict: bool) -> Self {
        let window = vec![0; WINDOW_BYTES];
        let here = Position { line: 1, column: 1 };
        Self { input, window, at: 0, filled: 0, ended: false, here, strict, commas: 0 }
    }

    /// The position of the next byte.
    pub(super) fn position(&self) -> Position {
        self.here
    }

    /// Skips the byte order mark that some writers add.
    pub(super) fn skip_byte_order_mark(&mut self) -> Result<(), ConvertError> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        while self.filled < MARK.len() && self.fill()? {}
        if self.window[..self.filled].starts_with(MARK) {
            self.at = MARK.len();
        }
        Ok(())
    }

    /// The next byte that is not whitespace, without consuming it; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ConvertError> {
        loop {
            let rest = &self.window[self.at..self.filled];
            let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            let length = rest.iter().take_while(blank).count();
            let next = rest.get(length).copied();
            self.advance(length);
            if next.is_some() || !self.fill()? {
                return Ok(next);
            }
        }
    }

    /// Consumes the next byte if it is `byte`.
    pub(super) fn take(&mut self, byte: u8) -> Result<bool, ConvertError> {
        let found = self.peek()? == Some(byte);
        if found {
            self.advance(1);
        }
        Ok(found)
    }

    /// Consumes the next byte, which must be `byte`. `before` describes the preceding text, for errors.
    pub(super) fn expect(&mut self, byte: u8, before: &str) -> Result<(), ConvertError> {
        if self.take(byte)? {
            return Ok(());
        }
        let found = self.peek()?.map_or("the end of the file".to_owned(), quoted);
        let expected = quoted(byte);
        Err(self.malformed(format!("expected {expected}, found {found} {before}")))
    }

    /// Moves past an element of an array or object: true if another element follows, false after the closing bracket.
    pub(super) fn another(&mut self, close: u8, before: &str) -> Result<bool, ConvertError> {
        if self.take(close)? {
            return Ok(false);
        }
        self.expect(b',', before)?;
        Ok(!self.closes_after_comma(close)?)
    }

    /// Consumes a closing bracket after a comma; some writers end every element with a comma.
    pub(super) fn closes_after_comma(&mut self, close: u8) -> Result<bool, ConvertError> {
        let closes = !self.strict && self.take(close)?;
        self.commas += u64::from(closes);
        Ok(closes)
    }

    /// Reads the next value and passes it, with its text, to `use_value`.
    pub(super) fn value<S: Shape, T>(
        &mut self,
        use_value: impl FnOnce(S::Of<'_>, &str) -> Result<T, ConvertError>,
    ) -> Result<T, ConvertError> {
        self.peek()?;
        let mut use_value = Some(use_value);
        loop {
            match self.try_value::<S, T>(&mut use_value) {
                Step::Taken(length, result) => {
                    self.advance(length);
                    return result;
                }
                Step::Malformed(_) if !self.strict && self.blank_commas() => continue,
                Step::Malformed(error) => return Err(self.syntax_error(&error)),
                Step::Incomplete if self.ended => {
                    return Err(
                        self.malformed("expected a value, found the end of the file".into())
                    );
                }
                Step::Incomplete => {}
            }
            self.fill()?;
        }
    }

    /// Parses a value from the current window.
    fn try_value<S: Shape, T>(
        &self,
        use_value: &mut Option<impl FnOnce(S::Of<'_>, &str) -> Result<T, ConvertError>>,
    ) -> Step<T> {
        let rest = &self.window[self.at..self.filled];
        let mut values = Deserializer::from_slice(rest).into_iter::<S::Of<'_>>();
        let next = values.next();
        let length = values.byte_offset();
        match next {
            // A number may continue after the window.
            Some(Ok(value)) if length < rest.len() || self.ended => match use_value.take() {
                Some(use_value) => {
                    let text = std::str::from_utf8(&rest[..length]);
                    Step::Taken(length, use_value(value, text.unwrap_or_default()))
                }
                None => Step::Incomplete,
            },
            Some(Err(error)) if self.ended || !(error.is_eof() || is_at_end(&error, rest)) => {
                Step::Malformed(error)
            }
            _ => Step::Incomplete,
        }
    }

    /// Replaces commas before closing brackets in the next value with spaces, as far as the value is in memory; returns false if there are
    /// none.
    fn blank_commas(&mut self) -> bool {
        let value = &mut self.window[self.at..self.filled];
        let (mut depth, mut in_string, mut blanked) = (0_usize, false, 0);
        // The last comma, if a value precedes it and nothing follows it.
        let (mut comma, mut behind_value) = (None, false);
        let mut at = 0;
        while at < value.len() {
            match value[at] {
                // An escaped quote does not end the string.
                b'\\' if in_string => at += 1,
                b'"' => (in_string, comma, behind_value) = (!in_string, None, true),
                _ if in_string => {}
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b',' if depth == 0 => break,
                b',' => (comma, behind_value) = (behind_value.then_some(at), false),
                b'}' | b']' => {
                    if let Some(comma) = comma.take() {
                        value[comma] = b' ';
                        blanked += 1;
                    }
                    behind_value = true;
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                byte => {
                    let opens = matches!(byte, b'{' | b'[');
                    depth += usize::from(opens);
                    (comma, behind_value) = (None, !opens && byte != b':');
                }
            }
            at += 1;
        }
        self.commas += blanked;
        blanked > 0
    }

    /// Reads a string of any length, which begins here, and passes on its content in pieces.
    pub(super) fn long_string(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        self.expect(b'"', "here")?;
        loop {
            let window = &self.window[self.at..self.filled];
            let plain = window.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let plain = plain.unwrap_or(window.len());
            if plain > 0 {
                if window[..plain].iter().any(|byte| *byte < b' ') {
                    return Err(self.malformed("a control character in a string".into()));
                }
                take(&window[..plain])?;
                self.advance(plain);
                continue;
            }
            if window.is_empty() {
                if !self.fill()? {
                    return Err(self.malformed("a string without an end".into()));
                }
                continue;
            }
            if window[0] == b'"' {
                self.advance(1);
                return Ok(());
            }
            let text = self.escaped()?;
            take(text.as_bytes())?;
        }
    }

    /// Reads an escape sequence: one character, for which JSON may need two escapes.
    fn escaped(&mut self) -> Result<String, ConvertError> {
        const SHORT: usize = 2;
        const LONG: usize = 6;
        while self.filled - self.at < 2 * LONG && !self.ended {
            self.fill()?;
        }
        let window = &self.window[self.at..self.filled];
        let length = match window.get(1) {
            Some(b'u')
                if matches!(
                    window.get(2..4),
                    Some([b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
                ) =>
            {
                2 * LONG
            }
            Some(b'u') => LONG,
            _ => SHORT,
        };
        let escape = std::str::from_utf8(window.get(..length).unwrap_or_default());
        let text =
            escape.ok().and_then(|it| serde_json::from_str::<String>(&format!("\"{it}\"")).ok());
        match text.filter(|text| !text.is_empty()) {
            Some(text) => {
                self.advance(length);
                Ok(text)
            }
            None => Err(self.malformed("an invalid escape in a string".into())),
        }
    }

    /// Skips unreadable text up to the next object of an array; false at the end.
    pub(super) fn skip_to_next_object(&mut self) -> Result<bool, ConvertError> {
        // How much of `} , {` precedes the position, ignoring whitespace.
        let mut seen = 0;
        while let Some(byte) = self.peek()? {
            match (byte, seen) {
                (b'{', 2) => return Ok(true),
                (b'}', _) => seen = 1,
                (b',', 1) => seen = 2,
                _ => seen = 0,
            }
            self.advance(1);
        }
        Ok(false)
    }

    /// An error at the current position.
    pub(super) fn malformed(&self, problem: String) -> ConvertError {
        ConvertError::Malformed { at: self.here, problem }
    }

    fn syntax_error(&self, error: &serde_json::Error) -> ConvertError {
        let (line, column) = (error.line().max(1) as u64, error.column().max(1) as u64);
        let at = match line {
            1 => Position { column: self.here.column + column - 1, ..self.here },
            _ => Position { line: self.here.line + line - 1, column },
        };
        // The error's own position is relative to the window.
        let text = error.to_string();
        let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
        ConvertError::Malformed { at, problem: problem.to_owned() }
    }

    fn advance(&mut self, length: usize) {
        let passed = &self.window[self.at..self.at + length];
        let lines = passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        match passed.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => self.here.column = (length - last) as u64,
            None => self.here.column += length as u64,
        }
        self.here.line += lines;
        self.at += length;
    }

    /// Reads more text into the window; false at the end.
    fn fill(&mut self) -> Result<bool, ConvertError> {
        if self.at > 0 {
            self.window.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
        }
        if self.filled == self.window.len() {
            if self.filled >= MAX_VALUE_BYTES {
                let most = MAX_VALUE_BYTES >> 20;
                return Err(self.malformed(format!("a single value of more than {most} MiB")));
            }
            self.window.resize(self.filled * 2, 0);
        }
        loop {
            match self.input.read(&mut self.window[self.filled..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.filled += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConvertError::Read(error)),
            }
        }
    }
}

/// Whether the error is at the end of the text: serde_json reports some truncated numbers as invalid instead of incomplete.
fn is_at_end(error: &serde_json::Error, text: &[u8]) -> bool {
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    let last = text.iter().rev().take_while(|byte| **byte != b'\n').count();
    error.line() == lines && error.column() >= last
}

fn quoted(byte: u8) -> String {
    format!("'{}'", byte.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn texts(source: &mut Source<impl Read>) -> Result<Vec<String>, ConvertError> {
        let mut texts = Vec::new();
        while source.peek()?.is_some() {
            texts.push(source.value::<AnyValue, _>(|value, _| Ok(value.get().to_owned()))?);
            source.take(b',')?;
        }
        Ok(texts)
    }

    #[test]
    fn values_are_whole_however_the_text_comes_in() {
        let text = br#" {"a": [1, {"b": "}"}]} , {"n": -1.25e-3}, 123,"x\"y",null"#;
        let expected =
            [r#"{"a": [1, {"b": "}"}]}"#, r#"{"n": -1.25e-3}"#, "123", r#""x\"y""#, "null"];
        assert_eq!(texts(&mut Source::new(Drops(text), true)).expect("values"), expected);
        assert_eq!(texts(&mut Source::new(&text[..], true)).expect("values"), expected);
    }

    #[test]
    fn a_value_larger_than_the_window_passes() {
        let long = format!("[\"{}\"], 2", "x".repeat(3 * WINDOW_BYTES));
        let found = texts(&mut Source::new(long.as_bytes(), true)).expect("values");
        assert_eq!((found[0].len(), found[1].as_str()), (3 * WINDOW_BYTES + 4, "2"));
    }

    #[test]
    fn commas_before_closing_brackets_are_passed_wherever_they_are() {
        let text = br#"{"a": [1, {"b": ",}" , } ,],  "c\",]": {"d": [2,
            ] , },}"#;
        let expected = serde_json::json!({"a": [1, {"b": ",}"}], "c\",]": {"d": [2]}});
        for (mut source, name) in [
            (Source::new(Box::new(&text[..]) as Box<dyn Read>, false), "at once"),
            (Source::new(Box::new(Drops(text)) as Box<dyn Read>, false), "byte by byte"),
        ] {
            let found = texts(&mut source).expect("a value");
            let found: serde_json::Value = serde_json::from_str(&found[0]).expect("repaired");
            assert_eq!((found, source.commas), (expected.clone(), 5), "{name}");
        }
        let error = texts(&mut Source::new(&text[..], true)).expect_err("strictly, it is wrong");
        assert!(error.to_string().starts_with("line 1, column 2"), "{error}");
        // Other misplaced commas are errors.
        for text in ["[,]", "[1,,]", "{\"a\":,}", "[1 2,]", "[tru,]"] {
            texts(&mut Source::new(text.as_bytes(), false)).expect_err(text);
        }
    }

    #[test]
    fn errors_have_the_place_in_the_file() {
        let mut source = Source::new(&b"1,\n 2,\n  {\"a\":\n    tru}"[..], true);
        let error = texts(&mut source).expect_err("not a value");
        assert_eq!(error.to_string(), "line 4, column 8: expected ident");
    }

    #[test]
    fn after_damage_the_next_object_is_found() {
        let mut source = Source::new(&b"{\"a\": oops \"}\", x } ,\n {\"b\": 1}"[..], true);
        assert!(source.skip_to_next_object().expect("readable"));
        assert_eq!(source.position(), Position { line: 2, column: 2 });
    }
}
