//! Thread refs: 8-bit values that name a process and a thread
//! ("Thread references").

/// The thread ref of a thread whose process and thread koids follow inline in
/// the same record; any other value is an index in the thread table.
pub const INLINE: u64 = 0;
