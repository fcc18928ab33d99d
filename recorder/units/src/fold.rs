//! Folds lines to the width of the terminal: longer lines continue below, aligned with their last column.
//!
//! ```text
//!    60.3 ms   99.9 %  blocked in futex (a lock or a join), until woken by ui-params[6173]
//! =>
//!    60.3 ms   99.9 %  blocked in futex (a lock or a join),
//!                      until woken by ui-params[6173]
//! ```

use std::io::{self, Write};

/// Minimum width of a continuation line, regardless of its indentation.
const LEAST: usize = 24;

/// An output whose lines are folded at spaces. Do not use it for text with colours: their bytes would count as columns.
#[derive(Debug)]
pub struct Fold<W: Write> {
    out: W,
    columns: Option<usize>,
    /// The line that has not ended yet.
    line: Vec<u8>,
}

impl<W: Write> Fold<W> {
    /// Folds lines to `columns`; with `None`, lines stay unchanged.
    pub fn new(out: W, columns: Option<usize>) -> Fold<W> {
        Fold { out, columns, line: Vec::new() }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match (self.columns, std::str::from_utf8(&line)) {
            (Some(columns), Ok(text)) if text.chars().count() > columns => {
                self.out.write_all(folded(text, columns).as_bytes())
            }
            _ => self.out.write_all(&line),
        }
    }
}

impl<W: Write> Write for Fold<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.columns.is_none() {
            return self.out.write(bytes);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.line.pop();
                self.end_line()?;
                self.out.write_all(b"\n")?;
            }
        }
        Ok(bytes.len())
    }

    /// Also shows a line that has not ended yet.
    fn flush(&mut self) -> io::Result<()> {
        self.end_line()?;
        self.out.flush()
    }
}

/// Where the last column of a line begins, within the first half of the terminal's width: after two spaces, or after a list marker.
fn last_column(text: &str, columns: usize) -> usize {
    let characters: Vec<char> = text.chars().take(columns / 2).collect();
    let column = (2..characters.len()).rev().find(|&at| {
        characters[at] != ' ' && characters[at - 1] == ' ' && characters[at - 2] == ' '
    });
    let begin = column.unwrap_or(0);
    let is_item = characters.get(begin) == Some(&'-') && characters.get(begin + 1) == Some(&' ');
    if is_item { begin + 2 } else { begin }
}

fn folded(text: &str, columns: usize) -> String {
    let indent = last_column(text, columns).min(columns.saturating_sub(LEAST));
    let mut whole = String::with_capacity(text.len() + columns);
    let mut rest = text;
    let mut room = columns;
    loop {
        let Some((limit, _)) = rest.char_indices().nth(room) else {
            whole += rest;
            return whole;
        };
        // The space may be the first character that does not fit. Lines are not folded at spaces of the indentation.
        let begin = rest.len() - rest.trim_start().len();
        let end = limit + rest[limit..].chars().next().map_or(0, char::len_utf8);
        let blank = rest.get(begin..end).and_then(|line| line.rfind(' ')).map(|at| begin + at);
        let (line, more) = match blank {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            // A word is never broken.
            None => match rest[begin..].find(' ').map(|at| begin + at) {
                Some(at) => (&rest[..at], &rest[at + 1..]),
                None => (rest, ""),
            },
        };
        whole += line.trim_end();
        rest = more.trim_start();
        if rest.is_empty() {
            return whole;
        }
        whole.push('\n');
        whole.extend(std::iter::repeat_n(' ', indent));
        room = columns - indent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(text: &str, columns: Option<usize>) -> String {
        let mut fold = Fold::new(Vec::new(), columns);
        // The text arrives in pieces, as buffers deliver it.
        for piece in text.as_bytes().chunks(7) {
            fold.write_all(piece).expect("memory");
        }
        fold.flush().expect("memory");
        String::from_utf8(fold.out).expect("text")
    }

    #[test]
    fn a_long_line_goes_on_under_its_last_column() {
        let line = "  60.3 ms   99.9 %  blocked in futex (a lock), until woken by ui-params\n";
        let expected = [
            "  60.3 ms   99.9 %  blocked in futex (a",
            "                    lock), until woken by",
            "                    ui-params",
        ];
        assert_eq!(fold(line, Some(44)), expected.join("\n") + "\n");
        let advice = "  - use one that inherits priority, or another\n";
        assert_eq!(fold(advice, Some(36)), "  - use one that inherits priority,\n    or another\n");
        assert_eq!(fold("one two three", Some(9)), "one two\nthree");
    }

    #[test]
    fn what_fits_stays_as_it_is_and_so_does_everything_without_a_width() {
        let text = "  a  b\n\nnine char\n";
        assert_eq!(fold(text, Some(9)), text);
        let long = format!("{}\n", "word ".repeat(50));
        assert_eq!(fold(&long, None), long);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_and_no_word_is_lost() {
        let text = "  12 ms   3 %  ä long way to go, with wörds of many lengths and a-word-that-is-longer\n";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in 30..90 {
            let folded = fold(text, Some(columns));
            assert_eq!(words(&folded), words(text), "{columns}");
            for line in folded.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
        let word = "x".repeat(40);
        assert_eq!(fold(&format!("a {word} b\n"), Some(10)), format!("a\n{word}\nb\n"));
    }
}
