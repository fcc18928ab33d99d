//! Arguments: typed key and value pairs at the end of a record, and strings as
//! records carry them: by table index or inline.

use std::num::NonZeroU16;

use crate::error::EncodeError;
use crate::ids::Koid;
use crate::layout::{argument, limits, string_ref};
use crate::space::{Slot, stream_words};
use crate::text;

/// The empty string or an index in the string table ("String references").
///
/// Inline strings are not string refs here but [`Text::Inline`](crate::Text),
/// since their content has to travel with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StringRef(Option<NonZeroU16>);

impl StringRef {
    /// The empty string, which needs no string record.
    pub const EMPTY: Self = Self(None);

    /// The string that a [`StringRecord`](crate::record::StringRecord) with the
    /// same index registers.
    ///
    /// # Errors
    ///
    /// Returns [`EncodeError::StringIndex`] when the index is 0, which the format keeps for the empty string, or above 0x7fff.
    pub const fn indexed(index: u16) -> Result<Self, EncodeError> {
        match NonZeroU16::new(index) {
            Some(nonzero) if index <= limits::MAX_STRING_INDEX => Ok(Self(Some(nonzero))),
            _ => Err(EncodeError::StringIndex { index }),
        }
    }

    /// The table index, or `None` for the empty string.
    #[must_use]
    pub const fn index(self) -> Option<u16> {
        match self.0 {
            Some(index) => Some(index.get()),
            None => None,
        }
    }

    /// The 16-bit value that represents the string in a record.
    #[must_use]
    #[inline]
    pub const fn encoded(self) -> u64 {
        match self.0 {
            Some(index) => string_ref::VALUE.put(index.get() as u64),
            None => string_ref::EMPTY,
        }
    }
}

/// A string in a record: a reference to the string table, or the string itself.
///
/// An inline empty string is written as the empty string ref, as the format requires. [`text::clean`] makes a valid string from bytes that
/// might not be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Text<'a> {
    /// The empty string, or one registered with a string record.
    Indexed(StringRef),
    /// The string itself; at most 32 000 bytes and without a NUL.
    Inline(&'a str),
}

impl Text<'_> {
    /// The empty string.
    pub const EMPTY: Text<'static> = Text::Indexed(StringRef::EMPTY);

    /// Words of the record that the content needs; 0 unless inline.
    ///
    /// # Errors
    ///
    /// Returns an error when an inline string is too long or holds a NUL.
    #[inline]
    pub fn inline_words(&self) -> Result<usize, EncodeError> {
        match self {
            Text::Indexed(_) => Ok(0),
            Text::Inline(content) => checked_words(content),
        }
    }

    /// The 16-bit value that represents the string in a record.
    #[must_use]
    #[inline]
    pub fn encoded(&self) -> u64 {
        match self {
            Text::Indexed(index) => index.encoded(),
            Text::Inline("") => string_ref::EMPTY,
            Text::Inline(content) => {
                string_ref::INLINE.put(1) | string_ref::VALUE.put(content.len() as u64)
            }
        }
    }

    /// Writes the content if it is inline.
    #[inline]
    pub(crate) fn put(&self, slot: &mut impl Slot) {
        if let Text::Inline(content) = self {
            put_inline(content, slot);
        }
    }
}

impl From<StringRef> for Text<'_> {
    fn from(index: StringRef) -> Self {
        Text::Indexed(index)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(content: &'a str) -> Self {
        Text::Inline(content)
    }
}

/// Words that an inline string needs. This function and [`put_inline`] are not inlined, so that the code for the usual case, a record that
/// refers to the string table, is small enough to be inlined.
#[inline(never)]
fn checked_words(content: &str) -> Result<usize, EncodeError> {
    text::check(content)?;
    Ok(stream_words(content.len()))
}

#[inline(never)]
fn put_inline(content: &str, slot: &mut impl Slot) {
    slot.put_stream(content.as_bytes());
}

/// The arguments of a record: a slice, a `Vec`, an array (the compiler knows its length), or [`ShortArgs`].
pub trait Args {
    /// How many they are.
    fn count(&self) -> usize;

    /// Words that all of them need.
    ///
    /// # Errors
    ///
    /// Returns an error when there are more than 15, or one holds a bad string.
    fn words(&self) -> Result<usize, EncodeError>;

    /// Writes them, in the order of the record.
    fn put(&self, slot: &mut impl Slot);
}

/// Implements it for types that are slices of arguments.
macro_rules! args_by_slice {
    ($([$($generics:tt)*] $type:ty;)+) => { $(
        impl $($generics)* Args for $type {
            #[inline(always)]
            fn count(&self) -> usize {
                self.len()
            }

            #[inline(always)]
            fn words(&self) -> Result<usize, EncodeError> {
                words(self)
            }

            #[inline(always)]
            fn put(&self, slot: &mut impl Slot) {
                put(self, slot);
            }
        }
    )+ };
}

args_by_slice! {
    [] [Arg<'_>];
    [<const COUNT: usize>] [Arg<'_>; COUNT];
    [] Vec<Arg<'_>>;
}

impl<A: Args + ?Sized> Args for &A {
    #[inline(always)]
    fn count(&self) -> usize {
        (**self).count()
    }

    #[inline(always)]
    fn words(&self) -> Result<usize, EncodeError> {
        (**self).words()
    }

    #[inline(always)]
    fn put(&self, slot: &mut impl Slot) {
        (**self).put(slot);
    }
}

/// Up to four encoded arguments of one word each. For a writer of very many records that decides at run time which arguments each has, at
/// the cost of a constant number of instructions.
///
/// ```
/// use fxt_writer::{ShortArgs, StringRef, Value};
///
/// let mut args = ShortArgs::default();
/// args.push(StringRef::indexed(1)?, Value::Int32(1024));
/// args.push_if(false, StringRef::indexed(2)?, Value::Bool(true));
/// assert_eq!(args.len(), 1);
/// # Ok::<(), fxt_writer::EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortArgs {
    words: [u64; ShortArgs::MOST],
    count: usize,
}

impl ShortArgs {
    /// The largest number of arguments.
    pub const MOST: usize = 4;

    /// Adds an argument.
    ///
    /// # Panics
    ///
    /// When there are already [`ShortArgs::MOST`] arguments, or the value takes a separate word or is an inline string.
    #[inline(always)]
    pub fn push(&mut self, name: StringRef, value: Value<'_>) {
        self.push_if(true, name, value);
    }

    /// Adds an argument if it is `wanted`.
    ///
    /// # Panics
    ///
    /// The same as [`ShortArgs::push`], but only if `wanted`; without a branch.
    #[inline(always)]
    pub fn push_if(&mut self, wanted: bool, name: StringRef, value: Value<'_>) {
        let is_inline = matches!(value, Value::Str(Text::Inline(_)));
        let (data, own_word) = value.encoded();
        assert!(own_word.is_none() && !is_inline, "an argument of one word");
        self.words[self.count] = data | argument::SIZE.put(1) | argument::NAME.put(name.encoded());
        self.count += usize::from(wanted);
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no arguments.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Args for ShortArgs {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(self.count)
    }

    #[inline(always)]
    fn put(&self, slot: &mut impl Slot) {
        for (at, word) in self.words.iter().enumerate() {
            if at < self.count {
                slot.put(*word);
            }
        }
    }
}

/// One argument of a record ("Arguments").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// Its value, which determines the argument type.
    pub value: Value<'a>,
}

/// The value of an argument ("Argument types").
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value, only the name.
    Null,
    /// A 32-bit signed integer.
    Int32(i32),
    /// A 32-bit unsigned integer.
    Uint32(u32),
    /// A 64-bit signed integer; prefer [`Value::int`], which picks the short
    /// form where the value fits, as the format asks.
    Int64(i64),
    /// A 64-bit unsigned integer; prefer [`Value::uint`].
    Uint64(u64),
    /// A double-precision floating point number.
    Double(f64),
    /// A string.
    Str(Text<'a>),
    /// A pointer, which a userspace object record may describe.
    Pointer(u64),
    /// A kernel object id, which a kernel object record may describe.
    Koid(Koid),
    /// A boolean.
    Bool(bool),
}

impl Value<'_> {
    /// A signed integer in the shortest form that holds it.
    #[must_use]
    pub fn int(value: i64) -> Self {
        i32::try_from(value).map_or(Self::Int64(value), Self::Int32)
    }

    /// An unsigned integer in the shortest form that holds it.
    #[must_use]
    pub fn uint(value: u64) -> Self {
        u32::try_from(value).map_or(Self::Uint64(value), Self::Uint32)
    }

    /// The value's part of the argument's first word (type and data), and its
    /// second word, if it has one. The bytes of a string are in the words after that.
    #[inline(always)]
    pub(crate) fn encoded(&self) -> (u64, Option<u64>) {
        match *self {
            Value::Null => (argument::TYPE.put(argument::NULL), None),
            Value::Int32(value) => {
                let bits = u64::from(value.cast_unsigned());
                (argument::TYPE.put(argument::INT32) | argument::int32::VALUE.put(bits), None)
            }
            Value::Uint32(value) => {
                let bits = u64::from(value);
                (argument::TYPE.put(argument::UINT32) | argument::uint32::VALUE.put(bits), None)
            }
            Value::Int64(value) => {
                (argument::TYPE.put(argument::INT64), Some(value.cast_unsigned()))
            }
            Value::Uint64(value) => (argument::TYPE.put(argument::UINT64), Some(value)),
            Value::Double(value) => (argument::TYPE.put(argument::DOUBLE), Some(value.to_bits())),
            Value::Str(text) => {
                let text_ref = argument::string::VALUE.put(text.encoded());
                (argument::TYPE.put(argument::STRING) | text_ref, None)
            }
            Value::Pointer(value) => (argument::TYPE.put(argument::POINTER), Some(value)),
            Value::Koid(Koid(value)) => (argument::TYPE.put(argument::KOID), Some(value)),
            Value::Bool(value) => {
                let bit = argument::boolean::VALUE.put(u64::from(value));
                (argument::TYPE.put(argument::BOOL) | bit, None)
            }
        }
    }
}

/// Conversions to the argument type that fits the Rust type; wide integers take
/// the short form if their value fits.
macro_rules! value_from {
    ($($type:ty => $value:expr;)+) => { $(
        impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                $value(value)
            }
        }
    )+ };
}

value_from! {
    i32 => Value::Int32;
    u32 => Value::Uint32;
    i64 => Value::int;
    u64 => Value::uint;
    f64 => Value::Double;
    bool => Value::Bool;
    Koid => Value::Koid;
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Str(Text::Inline(value))
    }
}

impl<'a> Arg<'a> {
    /// An argument of that name and value.
    #[must_use]
    pub const fn new(name: Text<'a>, value: Value<'a>) -> Self {
        Self { name, value }
    }

    /// Words that the argument takes.
    #[inline(always)]
    pub(crate) fn words(&self) -> Result<usize, EncodeError> {
        let value = match self.value {
            Value::Null | Value::Int32(_) | Value::Uint32(_) | Value::Bool(_) => 0,
            Value::Int64(_)
            | Value::Uint64(_)
            | Value::Double(_)
            | Value::Pointer(_)
            | Value::Koid(_) => 1,
            Value::Str(text) => text.inline_words()?,
        };
        let words = 1 + self.name.inline_words()? + value;
        // In a large record, an argument could exceed its own 12-bit size field.
        if words > limits::MAX_RECORD_WORDS {
            return Err(EncodeError::RecordTooLarge { words, max: limits::MAX_RECORD_WORDS });
        }
        Ok(words)
    }

    /// Writes the argument. Its words have been counted, so no string is too
    /// long.
    #[inline(always)]
    pub(crate) fn put(&self, slot: &mut impl Slot) {
        let (data, own_word) = self.value.encoded();
        // A counted argument fits its record, so its size fits the field.
        let words = self.words().unwrap_or(1) as u64;
        slot.put(
            data | argument::SIZE.put(words & argument::SIZE.max())
                | argument::NAME.put(self.name.encoded()),
        );
        self.name.put(slot);
        if let Some(word) = own_word {
            slot.put(word);
        }
        if let Value::Str(text) = self.value {
            text.put(slot);
        }
    }
}

/// Words that all arguments of a record need.
///
/// # Errors
///
/// Returns an error when there are more than 15, or one holds a bad string.
#[inline(always)]
pub(crate) fn words(args: &[Arg<'_>]) -> Result<usize, EncodeError> {
    if args.len() > limits::MAX_ARGS {
        return Err(EncodeError::TooManyArgs { count: args.len() });
    }
    match args {
        // As in `put`.
        [] => Ok(0),
        [only] => only.words(),
        [first, second] => Ok(first.words()? + second.words()?),
        [first, second, third] => Ok(first.words()? + second.words()? + third.words()?),
        _ => words_of_many(args),
    }
}

/// Writes all arguments of a record.
#[inline(always)]
pub(crate) fn put(args: &[Arg<'_>], slot: &mut impl Slot) {
    match args {
        // Scheduling records have one to three arguments, whose types are known at compile time. In a loop the optimiser
        // does not see the types; here it sees that the record's size is constant.
        [] => {}
        [only] => only.put(slot),
        [first, second] => {
            first.put(slot);
            second.put(slot);
        }
        [first, second, third] => {
            first.put(slot);
            second.put(slot);
            third.put(slot);
        }
        _ => put_many(args, slot),
    }
}

#[inline(never)]
fn words_of_many(args: &[Arg<'_>]) -> Result<usize, EncodeError> {
    args.iter().try_fold(0, |sum, arg| Ok(sum + arg.words()?))
}

#[inline(never)]
fn put_many(args: &[Arg<'_>], slot: &mut impl Slot) {
    args.iter().for_each(|arg| arg.put(slot));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ticks;
    use crate::record::{Record, Wakeup};

    #[test]
    fn short_arguments_are_written_as_others_are() {
        let name = |index| StringRef::indexed(index).expect("an index");
        let text = Value::Str(Text::Indexed(name(9)));
        let values = [Value::Int32(-1), Value::Uint32(7), text, Value::Bool(true)];
        for count in 0..=ShortArgs::MOST {
            let mut short = ShortArgs::default();
            let mut long = Vec::new();
            for (index, value) in (1..).zip(&values[..count]) {
                short.push(name(index), *value);
                long.push(Arg::new(Text::Indexed(name(index)), *value));
            }
            if count < ShortArgs::MOST {
                short.push_if(false, name(8), Value::Null);
            }
            let (mut by_short, mut by_long) = (Vec::<u64>::new(), Vec::<u64>::new());
            let (cpu, time, thread) = (1, Ticks(2), Koid(3));
            Wakeup { cpu, time, thread, args: short }.write(&mut by_short).expect("memory");
            Wakeup { cpu, time, thread, args: &long[..] }.write(&mut by_long).expect("memory");
            assert_eq!((by_short, short.len()), (by_long, count));
        }
    }

    #[test]
    #[should_panic(expected = "one word")]
    fn an_argument_of_two_words_is_no_short_one() {
        let name = StringRef::indexed(1).expect("an index");
        ShortArgs::default().push(name, Value::Koid(Koid(1)));
    }

    #[test]
    fn integers_take_the_short_form_where_they_fit() {
        assert_eq!(Value::int(i64::from(i32::MIN)), Value::Int32(i32::MIN));
        assert_eq!(Value::int(i64::from(i32::MIN) - 1), Value::Int64(i64::from(i32::MIN) - 1));
        assert_eq!(Value::uint(u64::from(u32::MAX)), Value::Uint32(u32::MAX));
        assert_eq!(Value::uint(u64::from(u32::MAX) + 1), Value::Uint64(1 << 32));
    }
}
