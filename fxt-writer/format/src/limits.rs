//! Sizes and counts that the format allows at most.

/// Bytes in a word; everything in a trace is a whole number of words.
pub const WORD_BYTES: usize = 8;
/// Words in the largest ordinary record, header included ("Records").
pub const MAX_RECORD_WORDS: usize = 4095;
/// Words in the largest large record that its 32-bit size field can name.
pub const MAX_LARGE_RECORD_WORDS: usize = u32::MAX as usize;
/// Bytes in the longest string ("String references").
pub const MAX_STRING_BYTES: usize = 32_000;
/// Bytes in the longest provider name: its length field has 8 bits.
pub const MAX_PROVIDER_NAME_BYTES: usize = 255;
/// Bytes in the longest log message: its length field has 15 bits.
pub const MAX_LOG_MESSAGE_BYTES: usize = 0x7fff;
/// Bytes in the longest name of a module: its length field has 8 bits.
pub const MAX_MODULE_NAME_BYTES: usize = 255;
/// Bytes in the longest build id: its length field has 8 bits.
pub const MAX_BUILD_ID_BYTES: usize = 255;
/// Frames in one backtrace: their count has 8 bits.
pub const MAX_FRAMES: usize = 255;
/// Arguments in one record.
pub const MAX_ARGS: usize = 15;
/// The highest string table index; index 0 is the empty string.
pub const MAX_STRING_INDEX: u16 = 0x7fff;
/// The highest thread table index; index 0 means an inline thread.
pub const MAX_THREAD_INDEX: u8 = 0xff;
