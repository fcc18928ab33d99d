//! The parts of a spec that are not the location itself: name, binary, arguments.

use std::path::PathBuf;

use super::cursor::Cursor;
use super::{Arg, Binary, Mode, ProbePoint, Spec, SpecError, place, value};

/// The kernel accepts no more arguments per probe.
const MOST_ARGS: usize = 128;

/// The kernel's limit, in bytes.
const LONGEST_ARG_NAME: usize = 31;

pub(super) fn spec(text: &str) -> Result<Spec, SpecError> {
    let mut cursor = Cursor::new(text);
    cursor.take_while(char::is_whitespace);
    let name = name(&mut cursor)?;
    let binary = binary(&mut cursor)?;
    let (place, mode) = place::place(&mut cursor)?;
    let args = args(&mut cursor, &place, mode)?;
    Ok(Spec { text: text.to_owned(), name, binary, place, mode, args })
}

/// `NAME=` in front of everything. A path that contains `=` is not an assignment: names have no slash.
fn name(cursor: &mut Cursor<'_>) -> Result<Option<String>, SpecError> {
    let mut ahead = *cursor;
    let name = ahead.take_while(|c| !c.is_whitespace() && !"=:/%\"".contains(c));
    if !ahead.eat("=") {
        return Ok(None);
    }
    if name.is_empty() {
        return Err(cursor.error("expected a name before '='"));
    }
    *cursor = ahead;
    Ok(Some(name.to_owned()))
}

fn binary(cursor: &mut Cursor<'_>) -> Result<Binary, SpecError> {
    let quoted = cursor.quoted()?;
    let name = quoted.unwrap_or_else(|| cursor.take_while(|c| c != ':'));
    if !cursor.eat(":") {
        let advice = if quoted.is_some() || name.contains('/') {
            "expected ':' and a function after the binary"
        } else {
            "expected BINARY:SYMBOL, or :SYMBOL for a function of COMMAND itself"
        };
        return Err(cursor.error(advice));
    }
    if name.contains('\0') {
        return Err(cursor.error("the path contains a NUL byte"));
    }
    Ok(match name {
        "" => Binary::Command,
        path if path.contains('/') => Binary::Path(PathBuf::from(path)),
        name => Binary::Name(name.to_owned()),
    })
}

fn args(cursor: &mut Cursor<'_>, place: &ProbePoint, mode: Mode) -> Result<Vec<Arg>, SpecError> {
    let mut args: Vec<Arg> = Vec::new();
    loop {
        cursor.take_while(char::is_whitespace);
        if cursor.is_at_end() {
            return Ok(args);
        }
        let before = *cursor;
        let arg = arg(cursor, args.len() + 1)?;
        if let Some(problem) = misplaced(&arg.value, place, mode) {
            return Err(before.error(problem));
        }
        if args.iter().any(|other| other.name == arg.name) {
            let name = &arg.name;
            return Err(before.error(format!("duplicate argument name {name}")));
        }
        if args.len() == MOST_ARGS {
            return Err(
                before.error(format!("too many arguments: the kernel accepts at most {MOST_ARGS}"))
            );
        }
        args.push(arg);
    }
}

fn arg(cursor: &mut Cursor<'_>, number: usize) -> Result<Arg, SpecError> {
    let start = *cursor;
    let mut ahead = *cursor;
    let name = ahead.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
    let given = ahead.eat("=").then(|| {
        *cursor = ahead;
        name
    });
    if let Some(name) = given {
        check_name(&start, name)?;
    }
    let value = value::value(cursor)?;
    let ty = if cursor.eat(":") { Some(value::ty(cursor)?) } else { None };
    if !cursor.is_at_end() && !cursor.rest().starts_with(char::is_whitespace) {
        return Err(cursor.error("expected the end of the argument, which is NAME=VALUE:TYPE"));
    }
    let name = given.map_or_else(|| value::default_name(&value, number), str::to_owned);
    let text = start.rest()[..cursor.offset() - start.offset()].to_owned();
    Ok(Arg { name, value, ty, text })
}

fn check_name(at: &Cursor<'_>, name: &str) -> Result<(), SpecError> {
    if name.is_empty() {
        return Err(at.error("expected a name before '='"));
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(at.error("an argument's name begins with a letter or an underscore"));
    }
    if name.len() > LONGEST_ARG_NAME {
        let message = format!("an argument's name has at most {LONGEST_ARG_NAME} characters");
        return Err(at.error(message));
    }
    // Fields that the kernel puts into every sample.
    if name.starts_with("common_") || name.starts_with("__probe_") {
        return Err(at.error("this name is reserved by the kernel"));
    }
    Ok(())
}

/// The reason why this cannot be fetched here, if there is one.
fn misplaced(value: &super::Value, place: &ProbePoint, mode: Mode) -> Option<&'static str> {
    use super::Value;
    let usdt = matches!(place, ProbePoint::Usdt { .. });
    match value.innermost() {
        Value::Returned if usdt => Some("a USDT probe has no return value"),
        Value::Returned if mode == Mode::Hit => {
            Some("ret needs %return or %span after the function")
        }
        Value::Argument(_) if mode == Mode::Return => Some(
            "the arguments are no longer available when the function returns: use %span to record both",
        ),
        Value::Argument(_) if matches!(place, ProbePoint::Function { offset, .. } if *offset != 0) => {
            Some("argN is only valid at a function's first instruction: name the register instead")
        }
        _ => None,
    }
}
