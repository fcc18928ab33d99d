//! Splits a gate into tokens, each with its position.

use std::ops::Range;

use super::problem::{ParseError, Problem};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, with its dots: `wakeup.p99.9`.
    Name,
    /// Digits, optionally with a fraction.
    Number,
    /// A string, without its quotes.
    Text(String),
    /// One of `> >= < <= = == != ~ !~ ( ) .`.
    Sign,
    End,
}

/// A token and its position, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

const SIGNS: [&str; 12] = [">=", "<=", "==", "!=", "!~", ">", "<", "=", "~", "(", ")", "."];

/// Splits `source` into tokens. The last token is [`Kind::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, ParseError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = if is_letter(first) {
            (Kind::Name, length_while(rest, |c| is_letter(c) || c.is_ascii_digit() || c == '.'))
        } else if first.is_ascii_digit() {
            (Kind::Number, length_while(rest, |c| c.is_ascii_digit() || c == '.'))
        } else if first == '"' || first == '\'' {
            let (text, length) = text(source, at, first)?;
            (Kind::Text(text), length)
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            (Kind::Sign, sign.len())
        } else {
            let span = at..at + first.len_utf8();
            return Err(ParseError::new(source, span, Problem::Character(first)));
        };
        tokens.push(Token { kind, span: at..at + length });
        at += length;
    }
    tokens.push(Token { kind: Kind::End, span: source.len()..source.len() });
    Ok(tokens)
}

/// The letters that may begin a name; also the micro sign and the per cent sign, which units use.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == 'µ' || c == 'μ' || c == '%'
}

fn length_while(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// The quoted text that begins at `start`, and its length with the quotes. A backslash escapes the quote and itself.
fn text(source: &str, start: usize, quote: char) -> Result<(String, usize), ParseError> {
    let mut text = String::new();
    let mut inside = source[start..].char_indices().skip(1);
    while let Some((at, c)) = inside.next() {
        match c {
            c if c == quote => return Ok((text, at + 1)),
            '\\' => match inside.next() {
                Some((_, next)) if next == quote || next == '\\' => text.push(next),
                Some((end, next)) => {
                    let span = start + at..start + end + next.len_utf8();
                    return Err(ParseError::new(source, span, Problem::Backslash(next)));
                }
                None => break,
            },
            c => text.push(c),
        }
    }
    Err(ParseError::new(source, start..source.len(), Problem::OpenText))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        let tokens = tokens(source).expect("words");
        tokens.iter().map(|token| &source[token.span.clone()]).collect()
    }

    #[test]
    fn a_gate_falls_apart_into_its_words_with_or_without_blanks() {
        let spread = words("wakeup.p99.9 >= 1.5 ms if not ( cpu != 3 )");
        assert_eq!(words("wakeup.p99.9>=1.5ms if not(cpu!=3)"), spread);
        let expected =
            ["wakeup.p99.9", ">=", "1.5", "ms", "if", "not", "(", "cpu", "!=", "3", ")", ""];
        assert_eq!(spread, expected);
    }

    #[test]
    fn a_text_keeps_everything_between_its_quotes() {
        for (source, text) in [
            (r#""a b""#, "a b"),
            ("'say \"hi\"'", "say \"hi\""),
            (r#""say \"hi\" \\o/""#, r#"say "hi" \o/"#),
            (r#""ü*""#, "ü*"),
            (r#""""#, ""),
        ] {
            let tokens = tokens(source).expect("a text");
            assert_eq!(tokens[0].kind, Kind::Text(text.to_owned()), "{source}");
            assert_eq!(tokens[0].span, 0..source.len());
        }
    }
}
