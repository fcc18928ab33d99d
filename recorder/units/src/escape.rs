//! Makes text from other programs safe to display.
//!
//! Threads choose their names, applications their log messages, and users their file names. A terminal executes escape sequences in such
//! text, and a line break in a name starts a new line. [`line()`] makes such text fit into one line; [`Escaping`] filters all output to
//! the terminal and escapes characters that were not escaped elsewhere.
//!
//! CI services interpret logs too: to them, a line that begins with `::` or contains `##[` is a command. [`Escaping`] changes such lines in
//! every output, since a log is not a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::look::PALETTE;

/// Whether printing the character has a side effect: control characters (C0, DEL, C1), line separators, marks that change the direction of
/// text, and noncharacters.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn push(c: char, out: &mut String) {
    let code = u32::from(c);
    // Writing to a String does not fail.
    let _ = match code {
        0..0x100 => write!(out, "\\x{code:02x}"),
        _ => write!(out, "\\u{{{code:x}}}"),
    };
}

/// The text with control characters escaped (`\x1b` and so on), including line breaks and tabs.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) { push(c, &mut out) } else { out.push(c) }
    }
    out.into()
}

/// The text of a JSON document in which characters with side effects are escaped, such as `\u202e`, so that its meaning is unchanged.
/// (Those below U+0020 are escapes already, or between values.)
pub fn json(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c >= '\x7f' && acts(c);
    if text.is_ascii() && !text.contains('\x7f') || !text.contains(acts) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Each is one unit of UTF-16. Writing to a String does not fail.
        let _ = if acts(c) { write!(out, "\\u{:04x}", u32::from(c)) } else { out.write_char(c) };
    }
    out.into()
}

/// Passes JSON on, escaped as in [`json`]. Accepts whole characters only, as serde_json writes them.
#[derive(Debug)]
pub struct Json<W>(pub W);

impl<W: Write> Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Passes text on and escapes everything that a terminal would obey, except line breaks, tabs and, if wanted, fxtrec's own colours. (A name
/// that contains such a colour sequence only changes its own colour.) Bytes that are not UTF-8 are escaped too.
#[derive(Debug)]
pub struct Escaping<W: Write> {
    out: W,
    /// The sequences that fxtrec itself sends to the terminal.
    own: &'static [&'static str],
    /// The beginning of a character or colour sequence whose rest has not arrived.
    begun: Vec<u8>,
    commands: Commands,
}

/// Finds text that CI services would interpret as a command.
#[derive(Debug, Default)]
struct Commands {
    /// Whether the line has any character other than white space.
    is_inside: bool,
    /// The last characters of the line, in lower case.
    end: String,
}

impl Commands {
    /// Takes the next character of the output. True if it turns the line into a command.
    fn take(&mut self, c: char) -> bool {
        if c == '\n' {
            *self = Commands::default();
            return false;
        }
        let begins = !self.is_inside && c == ':';
        self.is_inside |= !c.is_whitespace();
        let is_command =
            begins || c == '[' && ["##", "##vso"].iter().any(|it| self.end.ends_with(it));
        if self.end.len() >= 16 {
            let kept = self.end.split_off(self.end.len() - 5);
            self.end = kept;
        }
        // Commands are ASCII only.
        self.end.push(if c.is_ascii() { c.to_ascii_lowercase() } else { '?' });
        is_command
    }
}

impl<W: Write> Escaping<W> {
    /// Writes to `out`, without colours.
    pub fn new(out: W) -> Escaping<W> {
        Escaping { out, own: &[], begun: Vec::new(), commands: Commands::default() }
    }

    /// Writes to `out`, with fxtrec's own colours if `colour`.
    pub fn coloured(out: W, colour: bool) -> Escaping<W> {
        let own: &'static [&'static str] = if colour { &PALETTE } else { &[] };
        Escaping { out, own, begun: Vec::new(), commands: Commands::default() }
    }

    /// Writes complete characters and sequences; keeps an incomplete sequence, unless `is_end`.
    fn pass(&mut self, bytes: &[u8], is_end: bool) -> io::Result<()> {
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if first == 0x1b {
                if let Some(own) = self.own.iter().find(|own| rest.starts_with(own.as_bytes())) {
                    text.push_str(own);
                    rest = &rest[own.len()..];
                    continue;
                }
                if !is_end && self.own.iter().any(|own| own.as_bytes().starts_with(rest)) {
                    break;
                }
                push('\x1b', &mut text);
                rest = &rest[1..];
                continue;
            }
            // The valid UTF-8 before the next escape character.
            let end = rest.iter().position(|byte| *byte == 0x1b).unwrap_or(rest.len());
            let (valid, broken) = match std::str::from_utf8(&rest[..end]) {
                Ok(valid) => (valid, None),
                Err(error) => {
                    let valid = std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or("");
                    (valid, Some(error.error_len()))
                }
            };
            for c in valid.chars() {
                let acts = acts(c) && !matches!(c, '\n' | '\t');
                if self.commands.take(c) || acts { push(c, &mut text) } else { text.push(c) }
            }
            rest = &rest[valid.len()..];
            match broken {
                None => {}
                Some(None) if !is_end && end == valid.len() + rest.len() => break,
                Some(length) => {
                    let length = length.unwrap_or(1).min(rest.len());
                    for byte in &rest[..length] {
                        push(char::from(*byte), &mut text);
                    }
                    rest = &rest[length..];
                }
            }
        }
        self.begun = rest.to_vec();
        self.out.write_all(text.as_bytes())
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.begun.is_empty() {
            self.pass(bytes, false)?;
        } else {
            let mut all = std::mem::take(&mut self.begun);
            all.extend_from_slice(bytes);
            self.pass(&all, false)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.pass(&begun, true)?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Escaping<W> {
    fn drop(&mut self) {
        // Callers that check for errors flush first.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_means_the_same_without_characters_that_act() {
        for (text, shown) in [
            ("[\n \"plain é\"]", "[\n \"plain é\"]"),
            ("\"a\u{202e}b\u{9b}\u{7f}\u{feff}\"", r#""a\u202eb\u009b\u007f\ufeff""#),
        ] {
            let mut out = Vec::new();
            Json(&mut out).write_all(text.as_bytes()).expect("room");
            assert_eq!(String::from_utf8(out).expect("text"), shown);
        }
    }

    #[test]
    fn a_line_shows_what_a_terminal_would_obey() {
        assert_eq!(line("audio-io"), "audio-io");
        assert_eq!(line("\x1b[2J\r\n\t\u{7f}\u{9b}31m"), r"\x1b[2J\x0d\x0a\x09\x7f\x9b31m");
        assert_eq!(line("a\u{202e}b\u{2028}c\u{feff}"), r"a\u{202e}b\u{2028}c\u{feff}");
        assert_eq!(line("längere 線程 🦀"), "längere 線程 🦀");
    }

    /// The output, which is the same however the bytes are divided into two writes.
    fn passed(bytes: &[u8]) -> String {
        passed_with(true, bytes)
    }

    fn passed_with(colour: bool, bytes: &[u8]) -> String {
        let passed = |at: usize| {
            let mut out = Vec::new();
            let mut escaping = Escaping::coloured(&mut out, colour);
            escaping.write_all(&bytes[..at]).expect("memory");
            escaping.write_all(&bytes[at..]).expect("memory");
            drop(escaping);
            String::from_utf8(out).expect("text")
        };
        let whole = passed(0);
        for at in 1..=bytes.len() {
            assert_eq!(passed(at), whole, "divided at {at}");
        }
        whole
    }

    #[test]
    fn text_passes_wherever_it_is_divided() {
        let text = "gate\tpassed\n längere 線程 🦀\n";
        assert_eq!(passed(text.as_bytes()), text);
        let own = "\x1b[1;31mFAILED\x1b[0m\n";
        assert_eq!(passed(own.as_bytes()), own);
        for colour in PALETTE {
            assert_eq!(passed(colour.as_bytes()), colour);
        }
    }

    #[test]
    fn without_colours_not_even_fxtrecs_own_pass() {
        let own = b"\x1b[1;31mFAILED\x1b[0m\n";
        assert_eq!(passed_with(false, own), "\\x1b[1;31mFAILED\\x1b[0m\n");
    }

    #[test]
    fn no_line_is_a_command_to_a_service_that_runs_tests() {
        assert_eq!(
            passed(b"::error::x\n  ::set-env name=a::b\n"),
            "\\x3a:error::x\n  \\x3a:set-env name=a::b\n"
        );
        assert_eq!(
            passed(b"a ##[group]b ##vso[task]c ##VSO[d\n"),
            "a ##\\x5bgroup]b ##vso\\x5btask]c ##VSO\\x5bd\n"
        );
        let text = "std::vec::Vec #[test] # [a] 12:30\n  a::b\n[x]\n";
        assert_eq!(passed(text.as_bytes()), text);
    }

    #[test]
    fn nothing_passes_that_a_terminal_would_obey() {
        assert_eq!(passed(b"\x1b]0;title\x07\x1b[1;32m\x1b"), r"\x1b]0;title\x07\x1b[1;32m\x1b");
        assert_eq!(passed(b"\r\x1b[K\x08\x9b2J\xff\xe2\x80"), r"\x0d\x1b[K\x08\x9b2J\xff\xe2\x80");
        assert_eq!(passed("\u{9b}2J\u{202e}\u{85}".as_bytes()), r"\x9b2J\u{202e}\x85");
        assert_eq!(passed(b"\xe2\x1b[0m\xf0\x9f\n"), "\\xe2\x1b[0m\\xf0\\x9f\n");
    }

    proptest::proptest! {
        #[test]
        fn what_passes_holds_no_control_character(bytes: Vec<u8>) {
            let text = passed(&bytes);
            let others = PALETTE.iter().fold(text, |text, own| text.replace(own, ""));
            let others = others.replace(['\n', '\t'], "");
            proptest::prop_assert!(others.find(acts).is_none(), "{others:?}");
        }
    }
}
