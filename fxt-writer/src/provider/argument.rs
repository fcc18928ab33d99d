//! Types that can be arguments of a trace point.

use std::borrow::Cow;

use crate::arg::Text;
use crate::{Koid, Value};

/// A type whose values can be arguments of trace points.
///
/// Implement it for your own types with a value that they contain:
///
/// ```
/// use fxt_writer::Value;
/// use fxt_writer::provider::Argument;
///
/// struct Celsius(f64);
///
/// impl Argument for Celsius {
///     fn value(&self) -> Value<'_> {
///         self.0.value()
///     }
/// }
/// ```
pub trait Argument {
    /// The value, which decides the argument type in the trace.
    fn value(&self) -> Value<'_>;
}

macro_rules! argument {
    ($($type:ty => |$value:ident| $convert:expr;)+) => { $(
        impl Argument for $type {
            #[inline]
            fn value(&self) -> Value<'_> {
                let $value = *self;
                $convert
            }
        }
    )+ };
}

argument! {
    i8 => |value| Value::Int32(value.into());
    i16 => |value| Value::Int32(value.into());
    i32 => |value| Value::Int32(value);
    i64 => |value| Value::int(value);
    isize => |value| Value::int(value as i64);
    u8 => |value| Value::Uint32(value.into());
    u16 => |value| Value::Uint32(value.into());
    u32 => |value| Value::Uint32(value);
    u64 => |value| Value::uint(value);
    usize => |value| Value::uint(value as u64);
    f32 => |value| Value::Double(value.into());
    f64 => |value| Value::Double(value);
    bool => |value| Value::Bool(value);
    Koid => |value| Value::Koid(value);
}

impl Argument for str {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Str(Text::Inline(self))
    }
}

impl Argument for String {
    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_str().value()
    }
}

impl Argument for Cow<'_, str> {
    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_ref().value()
    }
}

/// Only the address; the memory there is not read.
impl<T> Argument for *const T {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Pointer(self.addr() as u64)
    }
}

/// Only the address; the memory there is not read.
impl<T> Argument for *mut T {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Pointer(self.addr() as u64)
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    #[inline]
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<T: Argument + ?Sized> Argument for &mut T {
    #[inline]
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

/// `None` becomes an argument without a value.
impl<T: Argument> Argument for Option<T> {
    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Argument::value)
    }
}

/// Only the name, without a value.
impl Argument for () {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Null
    }
}

/// A value as it is.
impl Argument for Value<'_> {
    #[inline]
    fn value(&self) -> Value<'_> {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_becomes_the_argument_type_that_fits() {
        let number = 7_u32;
        let address = &raw const number;
        let text = String::from("text");
        assert_eq!((-1_i8).value(), Value::Int32(-1));
        assert_eq!(i64::MIN.value(), Value::Int64(i64::MIN));
        assert_eq!(7_usize.value(), Value::Uint32(7));
        assert_eq!(u64::MAX.value(), Value::Uint64(u64::MAX));
        assert_eq!(0.5_f32.value(), Value::Double(0.5));
        assert_eq!(true.value(), Value::Bool(true));
        assert_eq!(Koid(3).value(), Value::Koid(Koid(3)));
        assert_eq!(address.value(), Value::Pointer(address.addr() as u64));
        assert_eq!(address.cast_mut().value(), Value::Pointer(address.addr() as u64));
        assert_eq!(text.value(), Value::Str(Text::Inline("text")));
        assert_eq!("text".value(), Value::Str(Text::Inline("text")));
        assert_eq!(Some(true).value(), Value::Bool(true));
        assert_eq!(None::<bool>.value(), Value::Null);
        assert_eq!(().value(), Value::Null);
    }
}
