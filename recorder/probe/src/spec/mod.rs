//! A user's text for a probe, parsed.
//!
//! ```text
//! [NAME=]BINARY:SYMBOL[+OFFSET][%return|%span][ ARG...]
//! [NAME=]BINARY:0xADDRESS[ ARG...]
//! [NAME=]BINARY:usdt:PROVIDER:NAME[ ARG...]
//! ARG = [NAME=]VALUE[:TYPE]
//! ```
//!
//! Parsing needs only the text, so clap can do it; [`resolve`](super::resolve()) checks whether the binary and the function exist.

mod cursor;
mod error;
mod parse;
mod place;
#[cfg(test)]
mod tests;
mod value;

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::any_path;
use super::args::{Verbatim, Width};
pub use error::SpecError;

/// A probe as the user specified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The text it was parsed from.
    pub text: String,
    /// The name for its hits.
    pub name: Option<String>,
    /// The file it is in.
    pub binary: Binary,
    pub place: ProbePoint,
    pub mode: Mode,
    pub args: Vec<Arg>,
}

/// The file a probe is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binary {
    /// COMMAND's own executable, or that of the process to record.
    Command,
    Path(#[serde(with = "any_path")] PathBuf),
    /// A library that the loader would find under this name, `libc` or `libc.so.6`.
    Name(String),
}

/// The location of a probe in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbePoint {
    /// This many bytes into the functions with this name, which may be a glob.
    Function {
        pattern: String,
        /// Bytes from the function's first instruction.
        offset: u64,
    },
    /// At an address as `nm` and `objdump` print it, before the loader relocates the file.
    Address(u64),
    /// At the probes that the program's author left there.
    Usdt {
        /// The provider's name or a glob.
        provider: String,
        /// The probe's name or a glob.
        name: String,
    },
}

/// The kinds of records at a [`ProbePoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each time it is reached.
    Hit,
    /// Each return of the function, `%return`.
    Return,
    /// The time in the function, `%span`.
    Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its name in the event.
    pub name: String,
    pub value: Value,
    /// Its type; `None` for the default.
    pub ty: Option<ArgType>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The function's or USDT probe's argument of this number, from 1: `arg1`.
    Argument(u32),
    /// The return value of the function: `ret`.
    Returned,
    /// A register by the kernel's or the assembler's name: `%di`, `%rdi`, `%x0`.
    Register(String),
    /// Memory this many bytes from an address: `+8(%si)`.
    Deref {
        /// Bytes to add to the address.
        offset: i64,
        of: Box<Value>,
    },
    /// Text in the kernel's own syntax: `$stack`, `$comm`, `@0x601040`, `\7`.
    Verbatim(Verbatim),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgType {
    /// `u8` to `u64`, and `x8` to `x64`.
    Unsigned(Width),
    /// `s8` to `s64`, and `i8` to `i64`.
    Signed(Width),
    /// `str`: the value is the address of a string.
    Str,
    /// `string`: the text is at the location itself, as the kernel means it.
    Text,
    Ptr,
}

impl From<Verbatim> for Value {
    fn from(place: Verbatim) -> Value {
        Value::Verbatim(place)
    }
}

impl Value {
    /// The value at which all dereferences in it begin.
    pub fn innermost(&self) -> &Value {
        let mut value = self;
        while let Value::Deref { of, .. } = value {
            value = of;
        }
        value
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        parse::spec(text)
    }
}
