//! Arguments: typed key and value pairs at the end of records ("Argument types").
//!
//! After the header word come: the name when it is inline; then by type the
//! value's own word, or the value's bytes when it is an inline string.

word! {
    /// Header word of an argument of unknown type.
    HEADER {
        /// Argument type.
        TYPE [0 .. 3]
        /// Argument size in words, this one included.
        SIZE [4 .. 15]
        /// Name (string ref).
        NAME [16 .. 31]
        /// Varies by argument type.
        DATA [32 .. 63]
    }
}

/// A name without a value.
pub const NULL: u64 = 0;
/// 32-bit signed integer, in the header word.
pub const INT32: u64 = 1;
/// 32-bit unsigned integer, in the header word.
pub const UINT32: u64 = 2;
/// 64-bit signed integer, in a separate word.
pub const INT64: u64 = 3;
/// 64-bit unsigned integer, in a separate word.
pub const UINT64: u64 = 4;
/// Double-precision floating point number, in a separate word.
pub const DOUBLE: u64 = 5;
/// String: a string ref in the header word, and the bytes when inline.
pub const STRING: u64 = 6;
/// Pointer, in a separate word.
pub const POINTER: u64 = 7;
/// Kernel object id, in a separate word.
pub const KOID: u64 = 8;
/// Boolean, in the header word.
pub const BOOL: u64 = 9;

macro_rules! argument_without_data {
    ($($(#[$doc:meta])* $module:ident)+) => { $(
        $(#[$doc])*
        pub mod $module {
            word! {
                /// Header word.
                HEADER {
                    /// Argument type.
                    TYPE [0 .. 3]
                    /// Argument size in words.
                    SIZE [4 .. 15]
                    /// Name (string ref).
                    NAME [16 .. 31]
                }
            }
        }
    )+ };
}

argument_without_data! {
    /// Null argument (type 0).
    null
    /// 64-bit signed integer argument (type 3).
    int64
    /// 64-bit unsigned integer argument (type 4).
    uint64
    /// Double-precision floating point argument (type 5).
    double
    /// Pointer argument (type 7).
    pointer
    /// Kernel object id argument (type 8).
    koid
}

/// 32-bit signed integer argument (type 1).
pub mod int32 {
    word! {
        /// Header word.
        HEADER {
            /// Argument type (1).
            TYPE [0 .. 3]
            /// Argument size in words.
            SIZE [4 .. 15]
            /// Name (string ref).
            NAME [16 .. 31]
            /// The value, two's complement.
            VALUE [32 .. 63]
        }
    }
}

/// 32-bit unsigned integer argument (type 2).
pub mod uint32 {
    word! {
        /// Header word.
        HEADER {
            /// Argument type (2).
            TYPE [0 .. 3]
            /// Argument size in words.
            SIZE [4 .. 15]
            /// Name (string ref).
            NAME [16 .. 31]
            /// The value.
            VALUE [32 .. 63]
        }
    }
}

/// String argument (type 6).
pub mod string {
    word! {
        /// Header word.
        HEADER {
            /// Argument type (6).
            TYPE [0 .. 3]
            /// Argument size in words.
            SIZE [4 .. 15]
            /// Name (string ref).
            NAME [16 .. 31]
            /// Value (string ref).
            VALUE [32 .. 47]
        }
    }
}

/// Boolean argument (type 9).
pub mod boolean {
    word! {
        /// Header word.
        HEADER {
            /// Argument type (9).
            TYPE [0 .. 3]
            /// Argument size in words.
            SIZE [4 .. 15]
            /// Name (string ref).
            NAME [16 .. 31]
            /// The value, 1 for true.
            VALUE [32 .. 32]
        }
    }
}
