//! Arguments: the typed key and value pairs at the end of records.

use std::fmt;

use fxt_format::{Word, argument};

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::oddities::Oddities;
use crate::tables::Tables;
use crate::types::{ByteOrder, Koid};

/// One argument of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: Value<'a>,
}

/// The value of an argument ("Argument types").
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A name without a value.
    Null,
    /// A 32-bit signed integer.
    Int32(i32),
    /// A 32-bit unsigned integer.
    UInt32(u32),
    /// A 64-bit signed integer.
    Int64(i64),
    /// A 64-bit unsigned integer.
    UInt64(u64),
    /// A double-precision floating point number.
    Double(f64),
    /// A string.
    Str(&'a str),
    /// A pointer, which a userspace object record may describe.
    Pointer(u64),
    /// A kernel object id, which a kernel object record may describe.
    Koid(Koid),
    /// A truth value.
    Bool(bool),
    /// A value of a type that this crate does not know.
    Unknown {
        /// The argument type.
        argument_type: u8,
    },
}

/// The value in readable form; strings are quoted and escaped.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Int32(value) => value.fmt(f),
            Self::UInt32(value) => value.fmt(f),
            Self::Int64(value) => value.fmt(f),
            Self::UInt64(value) => value.fmt(f),
            Self::Double(value) => write!(f, "{value:?}"),
            Self::Str(value) => write!(f, "{value:?}"),
            Self::Pointer(value) => write!(f, "{value:#x}"),
            Self::Koid(value) => write!(f, "koid:{value}"),
            Self::Bool(value) => value.fmt(f),
            Self::Unknown { argument_type } => write!(f, "<argument type {argument_type}>"),
        }
    }
}

/// The arguments of a record, decoded on access.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    count: u8,
    order: ByteOrder,
    tables: &'a Tables,
}

impl<'a> Args<'a> {
    /// Checks `count` arguments, so that a malformed one is an error of the
    /// record, and later accesses cannot fail.
    #[inline(always)]
    pub(crate) fn parse(
        cursor: &mut Cursor<'a>,
        count: u64,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        let before = cursor.rest();
        for _ in 0..count {
            if is_plain(cursor.peek()?, tables) {
                cursor.word()?;
            } else {
                Arg::parse(cursor, tables)?;
            }
        }
        Ok(Self {
            bytes: before.get(..before.len() - cursor.rest().len()).unwrap_or_default(),
            count: u8::try_from(count).unwrap_or(u8::MAX),
            order: cursor.order(),
            tables,
        })
    }

    /// Arguments that are known to be valid, of a little-endian trace.
    #[inline(always)]
    pub(crate) fn sound(bytes: &'a [u8], count: u8, tables: &'a Tables) -> Self {
        Self { bytes, count, order: ByteOrder::Little, tables }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are no arguments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The arguments in the order of the record.
    #[must_use]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter {
            cursor: Cursor::new(self.bytes, self.order),
            left: self.count,
            tables: self.tables,
        }
    }

    /// The value of the first argument named `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.iter().find(|arg| arg.name == name).map(|arg| arg.value)
    }

    /// The first argument named `name`, if it is a 32-bit signed integer, as
    /// the weights of scheduling records are.
    #[must_use]
    pub fn int32(&self, name: &str) -> Option<i32> {
        match self.get(name) {
            Some(Value::Int32(value)) => Some(value),
            _ => None,
        }
    }

    /// The first argument named `name`, if it is a string.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&'a str> {
        match self.get(name) {
            Some(Value::Str(value)) => Some(value),
            _ => None,
        }
    }

    /// The first argument named `name`, if it is a koid.
    #[must_use]
    pub fn koid(&self, name: &str) -> Option<Koid> {
        match self.get(name) {
            Some(Value::Koid(value)) => Some(value),
            _ => None,
        }
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|arg| (arg.name, arg.value))).finish()
    }
}

impl<'a> IntoIterator for &Args<'a> {
    type Item = Arg<'a>;
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

/// Iterates over the arguments of a record; made by [`Args::iter`].
#[derive(Clone, Debug)]
pub struct ArgsIter<'a> {
    cursor: Cursor<'a>,
    left: u8,
    tables: &'a Tables,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = Arg<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Arg<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Cannot fail: `Args::parse` has read the same bytes with the same tables.
        Arg::parse(&mut self.cursor, self.tables).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

impl<'a> Arg<'a> {
    /// Reads the argument at `cursor`.
    #[inline(always)]
    fn parse(cursor: &mut Cursor<'a>, tables: &'a Tables) -> Result<Self, Reason> {
        let size = argument::SIZE.get(cursor.peek()?);
        if size == 0 {
            return Err(Reason::ZeroSizeArgument);
        }
        let mut part = cursor.part(size)?;
        let header = part.word()?;
        let name = tables.string(argument::NAME.get(header), &mut part)?;
        let value = Value::parse(header, &mut part, tables)?;
        cursor.finish_part(&part);
        Ok(Self { name, value })
    }
}

impl<'a> Value<'a> {
    #[inline(always)]
    fn parse(header: u64, part: &mut Cursor<'a>, tables: &'a Tables) -> Result<Self, Reason> {
        let argument_type = argument::TYPE.get(header);
        let Some(table) = header_table(argument_type) else {
            part.oddities.note(Oddities::UNKNOWN_ARGUMENT, true);
            // The content after the name depends on the type, which is unknown.
            part.skip_rest();
            return Ok(Self::Unknown { argument_type: low_byte(argument_type) });
        };
        part.inspect(header, table);
        Ok(match argument_type {
            argument::NULL => Self::Null,
            argument::INT32 => Self::Int32(low_half(argument::int32::VALUE.get(header)) as i32),
            argument::UINT32 => Self::UInt32(low_half(argument::uint32::VALUE.get(header))),
            argument::INT64 => Self::Int64(part.word()? as i64),
            argument::UINT64 => Self::UInt64(part.word()?),
            argument::DOUBLE => Self::Double(f64::from_bits(part.word()?)),
            argument::STRING => {
                Self::Str(tables.string(argument::string::VALUE.get(header), part)?)
            }
            argument::POINTER => Self::Pointer(part.word()?),
            argument::KOID => Self::Koid(Koid(part.word()?)),
            _ => Self::Bool(argument::boolean::VALUE.get(header) != 0),
        })
    }
}

/// Returns whether the header word is a complete valid argument, such as a weight of a scheduling record: a 32-bit integer whose name is in
/// the table. Such a word has no reserved bits.
#[inline(always)]
fn is_plain(header: u64, tables: &Tables) -> bool {
    use argument::int32::{NAME, SIZE, TYPE};
    const MASK: u64 = TYPE.mask() | SIZE.mask();
    const PLAIN: u64 = TYPE.put(argument::INT32) | SIZE.put(1);
    header & MASK == PLAIN && tables.has_string(NAME.get(header))
}

/// The table of an argument's header word, if the type is known.
#[inline(always)]
pub(crate) fn header_table(argument_type: u64) -> Option<Word> {
    Some(match argument_type {
        argument::NULL => argument::null::HEADER,
        argument::INT32 => argument::int32::HEADER,
        argument::UINT32 => argument::uint32::HEADER,
        argument::INT64 => argument::int64::HEADER,
        argument::UINT64 => argument::uint64::HEADER,
        argument::DOUBLE => argument::double::HEADER,
        argument::STRING => argument::string::HEADER,
        argument::POINTER => argument::pointer::HEADER,
        argument::KOID => argument::koid::HEADER,
        argument::BOOL => argument::boolean::HEADER,
        _ => return None,
    })
}

/// A field of 32 bits as a `u32`.
fn low_half(field: u64) -> u32 {
    field as u32
}

/// A field of at most 8 bits as a `u8`.
fn low_byte(field: u64) -> u8 {
    field as u8
}
