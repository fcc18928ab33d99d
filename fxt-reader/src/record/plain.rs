//! Fast checks of the arguments of scheduling records.
//!
//! A trace has millions of weights and few names for them. A name is therefore looked up in the string table only when the argument at a
//! position in a record differs from the last one at that position.

use fxt_format::argument::{INT32, KOID, STRING, int32, koid, string};

use crate::tables::Tables;

/// A position in a scheduling record where an argument is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArgPosition {
    SwitchFirst,
    SwitchSecond,
    SwitchState,
    WakeupWeight,
    WakeupWaker,
}

/// The header of the last valid argument at each position.
///
/// Valid only while the string table that it was filled from does not change.
#[derive(Debug)]
pub(crate) struct PlainArgs {
    seen: [u64; 5],
}

/// No valid argument has this value.
const UNSEEN: u64 = u64::MAX;

impl Default for PlainArgs {
    fn default() -> Self {
        Self { seen: [UNSEEN; 5] }
    }
}

impl PlainArgs {
    /// Whether `header` is a whole 32-bit integer argument with a name from the table.
    #[inline(always)]
    pub(crate) fn is_int32(&mut self, place: ArgPosition, header: u64, tables: &Tables) -> bool {
        const SHAPE: u64 = int32::TYPE.mask() | int32::SIZE.mask() | int32::NAME.mask();
        // Without the value's bits this is never `UNSEEN`.
        let shape = header & SHAPE;
        self.seen[place as usize] == shape
            || (shape & !int32::NAME.mask() == int32::TYPE.put(INT32) | int32::SIZE.put(1)
                && self.names(place, shape, int32::NAME.get(shape), tables))
    }

    /// Whether `header` is that of an argument with a koid and a name from the table, with no reserved bit set.
    #[inline(always)]
    pub(crate) fn is_koid(&mut self, place: ArgPosition, header: u64, tables: &Tables) -> bool {
        (self.seen[place as usize] == header && header != UNSEEN)
            || (header & !koid::NAME.mask() == koid::TYPE.put(KOID) | koid::SIZE.put(2)
                && self.names(place, header, koid::NAME.get(header), tables))
    }

    /// Whether `header` is a whole argument whose name and string are from the table, with no reserved bit set.
    #[inline(always)]
    pub(crate) fn is_string(&mut self, place: ArgPosition, header: u64, tables: &Tables) -> bool {
        const REFERENCES: u64 = string::NAME.mask() | string::VALUE.mask();
        (self.seen[place as usize] == header && header != UNSEEN)
            || (header & !REFERENCES == string::TYPE.put(STRING) | string::SIZE.put(1)
                && tables.has_string(string::VALUE.get(header))
                && self.names(place, header, string::NAME.get(header), tables))
    }

    /// Whether the name is in the table; if so, remembers the shape, so that the next argument like it needs no
    /// look-up.
    #[cold]
    fn names(&mut self, place: ArgPosition, shape: u64, name: u64, tables: &Tables) -> bool {
        let known = tables.has_string(name);
        if known {
            self.seen[place as usize] = shape;
        }
        known
    }
}
