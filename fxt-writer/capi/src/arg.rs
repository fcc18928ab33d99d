//! Arguments as C hands them over.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};

use fxt_writer::{Koid, Value, text};

/// An argument's value is `number`.
pub const FXT_ARG_INT: u32 = 1;
/// An argument's value is `unsigned_number`.
pub const FXT_ARG_UINT: u32 = 2;
/// An argument's value is `real`.
pub const FXT_ARG_DOUBLE: u32 = 3;
/// An argument's value is `truth`.
pub const FXT_ARG_BOOL: u32 = 4;
/// An argument's value is `text`.
pub const FXT_ARG_TEXT: u32 = 5;
/// An argument's value is `pointer`.
pub const FXT_ARG_POINTER: u32 = 6;
/// An argument's value is `unsigned_number`, the id of a process or thread.
pub const FXT_ARG_KOID: u32 = 7;

/// The value of an argument; `kind` selects the member.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ArgValue {
    /// A signed number.
    pub number: i64,
    /// An unsigned number, or an id.
    pub unsigned_number: u64,
    /// A floating point number.
    pub real: f64,
    /// A truth value.
    pub truth: bool,
    /// A string that ends in a NUL; null for none.
    pub text: *const c_char,
    /// An address; the memory there is not read.
    pub pointer: *const c_void,
}

impl std::fmt::Debug for ArgValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArgValue").finish_non_exhaustive()
    }
}

/// One argument of an event; made by `FXT_INT` and its like.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Arg {
    /// Its name: a constant string that ends in a NUL.
    pub name: *const c_char,
    /// The kind of value, for instance `FXT_ARG_INT`; an argument of an unknown
    /// kind has no value.
    pub kind: u32,
    /// Its value.
    pub value: ArgValue,
}

/// The text of a C string; bytes that are not UTF-8 are replaced.
///
/// # Safety
///
/// `text` must be null or a string that ends in a NUL, which lives as long as `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: guaranteed by the caller.
    text::clean(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A value with its text, if it has one.
#[derive(Clone, Debug)]
pub(crate) enum Held<'a> {
    Plain(Value<'static>),
    Text(Cow<'a, str>),
}

impl Held<'_> {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Text(text) => Value::from(text.as_ref()),
        }
    }
}

impl Arg {
    /// The value, by its kind.
    ///
    /// # Safety
    ///
    /// The member of the value that `kind` names must be the one that was set, and strings must live at least as long as `'a`.
    pub(crate) unsafe fn held<'a>(&self) -> Held<'a> {
        // SAFETY: each reads the member that the kind names, guaranteed by the caller.
        unsafe {
            Held::Plain(match self.kind {
                FXT_ARG_INT => Value::int(self.value.number),
                FXT_ARG_UINT => Value::uint(self.value.unsigned_number),
                FXT_ARG_DOUBLE => Value::Double(self.value.real),
                FXT_ARG_BOOL => Value::Bool(self.value.truth),
                FXT_ARG_TEXT => return Held::Text(text(self.value.text)),
                FXT_ARG_POINTER => Value::Pointer(self.value.pointer.addr() as u64),
                FXT_ARG_KOID => Value::Koid(Koid(self.value.unsigned_number)),
                _ => Value::Null,
            })
        }
    }
}
