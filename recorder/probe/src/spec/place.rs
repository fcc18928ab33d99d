//! The location of a probe in a file: a function with an offset and a mode, an address, a USDT probe.
//!
//! Names in C++ and Rust contain spaces, colons, brackets, plus and percent signs. So a function's name ends at a space outside of all
//! brackets that does not belong to `operator new` or to a `const` after the parameters; other names can be written in double quotes.

use super::cursor::Cursor;
use super::value::parse_number;
use super::{Mode, ProbePoint, SpecError};

const MODES: &str = "expected return or span after '%'";

/// Operators with characters that otherwise have a meaning here, the longer ones first.
const OPERATORS: [&str; 15] =
    ["<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "%=", "<", ">", "%"];

pub(super) fn place(cursor: &mut Cursor<'_>) -> Result<(ProbePoint, Mode), SpecError> {
    let mut ahead = *cursor;
    // usdt::name is a function in a namespace with that name.
    if ahead.eat("usdt:") && !ahead.rest().starts_with(':') {
        *cursor = ahead;
        return Ok((usdt(cursor)?, Mode::Hit));
    }
    let start = *cursor;
    let quoted = cursor.quoted()?;
    let pattern = quoted.unwrap_or_else(|| cursor.take(name_end(start.rest())));
    if pattern.trim().is_empty() {
        return Err(start.error("expected a function's name, a glob or an address (0x...)"));
    }
    if pattern.starts_with(':') && quoted.is_none() {
        let message = "unexpected ':'; write :NAME for a function of COMMAND itself, \
             LIBRARY:NAME for one of a library";
        return Err(start.error(message));
    }
    let offset = offset(cursor)?;
    let mode = mode(cursor)?;
    if !cursor.is_at_end() && !cursor.rest().starts_with(char::is_whitespace) {
        return Err(cursor.error("expected the end, or a space and an argument"));
    }
    let place = match address(pattern) {
        Some(_) if quoted.is_some() => ProbePoint::Function { pattern: pattern.to_owned(), offset },
        Some(Err(message)) => return Err(start.error(message)),
        Some(Ok(address)) => ProbePoint::Address(
            address.checked_add(offset).ok_or_else(|| start.error("not a 64-bit address"))?,
        ),
        None => ProbePoint::Function { pattern: pattern.to_owned(), offset },
    };
    match (&place, mode) {
        (ProbePoint::Function { offset: 1.., .. }, Mode::Return | Mode::Span) => {
            Err(start.error("%return and %span apply to whole functions: remove the offset"))
        }
        _ => Ok((place, mode)),
    }
}

fn usdt(cursor: &mut Cursor<'_>) -> Result<ProbePoint, SpecError> {
    let part = |cursor: &mut Cursor<'_>| -> String {
        cursor.take_while(|c| c != ':' && c != '%' && !c.is_whitespace()).to_owned()
    };
    let provider = part(cursor);
    if provider.is_empty() || !cursor.eat(":") {
        return Err(cursor.error("expected usdt:PROVIDER:NAME; both can be globs"));
    }
    let name = part(cursor);
    if name.is_empty() {
        return Err(
            cursor.error("expected the USDT probe's name; * for all probes of the provider")
        );
    }
    if cursor.rest().starts_with('%') {
        return Err(cursor.error("a USDT probe takes no %return or %span"));
    }
    if cursor.rest().starts_with(':') {
        return Err(cursor.error("expected a space and an argument, or the end"));
    }
    Ok(ProbePoint::Usdt { provider, name })
}

/// An address, if `text` has the form of one.
fn address(text: &str) -> Option<Result<u64, &'static str>> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let number = parse_number(text).filter(|_| hex);
    Some(
        number.ok_or("a function's name does not begin with a digit; write an address as 0x401136"),
    )
}

fn offset(cursor: &mut Cursor<'_>) -> Result<u64, SpecError> {
    if !cursor.eat("+") {
        return Ok(0);
    }
    let start = *cursor;
    let digits = cursor.take_while(|c| c.is_ascii_alphanumeric());
    parse_number(digits)
        .ok_or_else(|| start.error("expected an offset in bytes, decimal or hexadecimal (0x...)"))
}

fn mode(cursor: &mut Cursor<'_>) -> Result<Mode, SpecError> {
    if !cursor.eat("%") {
        return Ok(Mode::Hit);
    }
    let start = *cursor;
    match cursor.take_while(|c| !c.is_whitespace()) {
        "return" => Ok(Mode::Return),
        "span" => Ok(Mode::Span),
        _ => Err(start.error(MODES)),
    }
}

/// Where an unquoted function's name ends, in bytes.
fn name_end(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if let Some(length) = operator(text, at) {
            at += length;
            continue;
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            // The arrow of a Rust function type is not a closing bracket.
            '>' if !text[..at].ends_with('-') => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '%' => return at,
            '+' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => return at,
            c if c.is_whitespace() => match qualifier(text, at) {
                Some(length) => {
                    at += length;
                    continue;
                }
                None => return at,
            },
            _ => {}
        }
        at += c.len_utf8();
    }
    text.len()
}

/// The length of the rest of an operator's name, which begins at `at`, after the word `operator`.
fn operator(text: &str, at: usize) -> Option<usize> {
    let before = text[..at].strip_suffix("operator")?;
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let rest = &text[at..];
    if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
        // operator%span would be the modulo operator followed by "span".
        return Some(operator.len());
    }
    // operator new, operator bool: the space and the word after it, but not an argument.
    let word = rest.strip_prefix(' ')?;
    let length = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
    (length > 0).then_some(1 + length)
}

/// The length of a space and a word that belong to the parameters before them.
fn qualifier(text: &str, at: usize) -> Option<usize> {
    let behind_parameters = text[..at].ends_with(')') || text[..at].ends_with(" const");
    ["const", "volatile", "&&", "&"].into_iter().find_map(|word| {
        let rest = text[at..].strip_prefix(' ')?.strip_prefix(word)?;
        let ends = rest.is_empty() || rest.starts_with([' ', '%', '+']);
        (behind_parameters && ends).then_some(1 + word.len())
    })
}
