//! The value that an argument fetches: `arg1`, `%di`, `+8(%si)`, and its type.

use super::cursor::Cursor;
use super::{ArgType, SpecError, Value};
use crate::args::{Verbatim, Width};

/// The kernel follows only as many addresses as fit into its 16 steps per argument.
const DEEPEST: usize = 8;

/// The highest plausible N of argN and $stackN.
const MOST: u32 = 4096;

const VALUES: &str = "expected a value: argN, ret, a register (%di), memory (+8(%di), @0x4010, \
     @+0x10), $stack, $stackN, $comm or a constant (\\5)";

const TYPES: &str = "expected a type: u8 to u64, i8 to i64 (or s8 to s64), x8 to x64, ptr, str \
     (the value is a pointer to text) or string (the text itself is at this place)";

pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Value, SpecError> {
    nested(cursor, 0)
}

fn nested(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, SpecError> {
    let start = *cursor;
    if depth > DEEPEST {
        return Err(
            start.error(format!("too many nested addresses: the kernel follows at most {DEEPEST}"))
        );
    }
    if cursor.eat("%") {
        let name = word(cursor);
        return if name.is_empty() {
            Err(cursor.error("expected a register's name after '%'"))
        } else {
            Ok(Value::Register(name.to_owned()))
        };
    }
    if cursor.eat("@") {
        return if cursor.eat("+") {
            Ok(Verbatim::FileMemory(number(cursor)?).into())
        } else {
            Ok(Verbatim::Memory(number(cursor)?).into())
        };
    }
    if cursor.eat("\\") {
        return Ok(Verbatim::Immediate(signed(cursor)?).into());
    }
    if cursor.eat("$") {
        return variable(&start, cursor);
    }
    if cursor.rest().starts_with(['+', '-']) {
        let offset = signed(cursor)?;
        if !cursor.eat("(") {
            return Err(cursor.error("expected '(' and an address: +8(%di)"));
        }
        let of = Box::new(nested(cursor, depth + 1)?);
        if !cursor.eat(")") {
            return Err(cursor.error("expected ')'"));
        }
        return Ok(Value::Deref { offset, of });
    }
    match word(cursor) {
        "ret" | "retval" => Ok(Value::Returned),
        text => argument(text).ok_or_else(|| start.error(VALUES)),
    }
}

fn variable(start: &Cursor<'_>, cursor: &mut Cursor<'_>) -> Result<Value, SpecError> {
    match word(cursor) {
        "stack" => Ok(Verbatim::StackPointer.into()),
        "retval" => Ok(Value::Returned),
        "comm" => Ok(Verbatim::Comm.into()),
        text => text
            .strip_prefix("stack")
            .and_then(small)
            .map(|number| Verbatim::Stack(number).into())
            .or_else(|| argument(text))
            .ok_or_else(|| start.error(VALUES)),
    }
}

/// `argN`, from 1.
fn argument(text: &str) -> Option<Value> {
    let number = text.strip_prefix("arg").and_then(small)?;
    (number > 0).then_some(Value::Argument(number))
}

fn small(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| plain && *number <= MOST)
}

fn word<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn number(cursor: &mut Cursor<'_>) -> Result<u64, SpecError> {
    let start = *cursor;
    let digits = word(cursor);
    parse_number(digits).ok_or_else(|| {
        start.error("expected a number, decimal or hexadecimal (0x...), of at most 64 bits")
    })
}

fn signed(cursor: &mut Cursor<'_>) -> Result<i64, SpecError> {
    let start = *cursor;
    let negative = cursor.eat("-");
    if !negative {
        cursor.eat("+");
    }
    // The kernel's word for user memory, which uprobes read anyway.
    cursor.eat("u");
    let magnitude = i128::from(number(cursor)?);
    let value = if negative { -magnitude } else { magnitude };
    i64::try_from(value)
        .map_err(|_| start.error("the number does not fit into a signed 64-bit integer"))
}

/// A number in C syntax, without octal.
pub(super) fn parse_number(digits: &str) -> Option<u64> {
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (digits, 10),
    };
    // from_str_radix accepts a sign, which is not allowed here.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u64::from_str_radix(digits, radix).ok() } else { None }
}

pub(super) fn ty(cursor: &mut Cursor<'_>) -> Result<ArgType, SpecError> {
    let start = *cursor;
    let name = word(cursor);
    if matches!(name, "f32" | "f64" | "float" | "double") {
        let message = "the kernel cannot fetch floating-point registers at a probe; fetch such a \
             value from memory, as u32 or u64";
        return Err(start.error(message));
    }
    of_name(name).ok_or_else(|| start.error(TYPES))
}

fn of_name(name: &str) -> Option<ArgType> {
    match name {
        "str" => return Some(ArgType::Str),
        "string" | "ustring" => return Some(ArgType::Text),
        "ptr" => return Some(ArgType::Ptr),
        "bool" => return Some(ArgType::Unsigned(Width::Bits8)),
        _ => {}
    }
    let mut letters = name.chars();
    let letter = letters.next()?;
    let width = small(letters.as_str()).and_then(Width::of_bits)?;
    match letter {
        'u' | 'x' => Some(ArgType::Unsigned(width)),
        's' | 'i' => Some(ArgType::Signed(width)),
        _ => None,
    }
}

/// The default name of a value; `number` is its position among the arguments, from 1.
pub(super) fn default_name(value: &Value, number: usize) -> String {
    match value {
        Value::Argument(number) => format!("arg{number}"),
        Value::Returned => "ret".to_owned(),
        Value::Register(name) => name.clone(),
        Value::Verbatim(place @ (Verbatim::Stack(_) | Verbatim::StackPointer | Verbatim::Comm)) => {
            place.to_string().replace('$', "")
        }
        Value::Deref { .. } | Value::Verbatim(_) => format!("value{number}"),
    }
}
