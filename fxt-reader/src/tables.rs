//! What a reader must remember about one provider to understand its records:
//! strings, threads, and the length of a tick.

use std::str;

use fxt_format::initialization::DEFAULT_TICKS_PER_SECOND;
use fxt_format::{string_ref, thread_ref};
use rustc_hash::FxHashMap;

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::strings::Strings;
use crate::types::{Koid, Nanos, Thread};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The state of one provider ("Provider section metadata").
///
/// The tables grow with their content: an archive may have as many providers as
/// words, and full-size arrays for each would cost too much.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    strings: Strings,
    threads: FxHashMap<u8, Thread>,
    ticks_per_second: u64,
    /// Accept references that are not in the tables: to judge whether bytes have the shape of a record before its definitions are known, or
    /// if not all definitions could be stored.
    any_reference: bool,
}

/// The maximum memory that an entry of the thread table takes.
const THREAD_BYTES: usize = 64;

/// The koids of an unknown thread; no real thread has this koid.
const UNKNOWN: Koid = Koid(u64::MAX);

impl Default for Tables {
    fn default() -> Self {
        Self {
            strings: Strings::default(),
            threads: FxHashMap::default(),
            ticks_per_second: DEFAULT_TICKS_PER_SECOND,
            any_reference: false,
        }
    }
}

impl Tables {
    /// Tables in which every reference is valid.
    pub(crate) fn accepting_any_reference() -> Self {
        Self { any_reference: true, ..Self::default() }
    }

    /// The memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.strings.bytes() + self.threads.len() * THREAD_BYTES
    }

    /// Stores a string unless the tables would then exceed `most` bytes; returns whether the string was stored. Index 0 is ignored, as the
    /// format requires.
    pub(crate) fn set_string(&mut self, index: u16, value: &str, most: usize) -> bool {
        let most = most.saturating_sub(self.threads.len() * THREAD_BYTES);
        let is_kept = index == 0 || self.strings.set(index, value, most);
        self.any_reference |= !is_kept;
        is_kept
    }

    /// Stores a thread, like [`set_string`](Self::set_string).
    pub(crate) fn set_thread(&mut self, index: u8, thread: Thread, most: usize) -> bool {
        if u64::from(index) == thread_ref::INLINE {
            return true;
        }
        let is_kept =
            self.threads.contains_key(&index) || self.bytes().saturating_add(THREAD_BYTES) <= most;
        if is_kept {
            self.threads.insert(index, thread);
        }
        self.any_reference |= !is_kept;
        is_kept
    }

    /// `ticks` must not be zero.
    pub(crate) fn set_ticks_per_second(&mut self, ticks: u64) {
        debug_assert_ne!(ticks, 0);
        self.ticks_per_second = ticks;
    }

    /// The string of the string ref `reference`; if it is inline, it is read from
    /// `cursor`.
    #[inline(always)]
    pub(crate) fn string<'a>(
        &'a self,
        reference: u64,
        cursor: &mut Cursor<'a>,
    ) -> Result<&'a str, Reason> {
        let value = string_ref::VALUE.get(reference);
        if string_ref::INLINE.get(reference) != 0 {
            return str::from_utf8(cursor.stream(value)?).map_err(|_| Reason::NotUtf8);
        }
        if reference == string_ref::EMPTY {
            return Ok("");
        }
        let index = u16::try_from(value).unwrap_or(u16::MAX);
        match self.strings.get(index) {
            Some(string) => Ok(string),
            None if self.any_reference => Ok("?"),
            None => Err(Reason::UnknownString(index)),
        }
    }

    /// Whether the string ref `reference` is the index of a string in the array.
    /// The hash map may contain others.
    #[inline(always)]
    pub(crate) fn has_string(&self, reference: u64) -> bool {
        usize::try_from(reference).is_ok_and(|index| self.strings.has_dense(index))
    }

    /// The thread of the thread ref `reference`; if it is inline, its two koids
    /// are read from `cursor`.
    pub(crate) fn thread(&self, reference: u64, cursor: &mut Cursor<'_>) -> Result<Thread, Reason> {
        if reference == thread_ref::INLINE {
            return Ok(Thread { process: Koid(cursor.word()?), thread: Koid(cursor.word()?) });
        }
        self.indexed_thread(reference)
    }

    /// The process of the thread ref `reference`; if it is inline, only its koid
    /// is read from `cursor`.
    pub(crate) fn process(&self, reference: u64, cursor: &mut Cursor<'_>) -> Result<Koid, Reason> {
        if reference == thread_ref::INLINE {
            return Ok(Koid(cursor.word()?));
        }
        Ok(self.indexed_thread(reference)?.process)
    }

    fn indexed_thread(&self, reference: u64) -> Result<Thread, Reason> {
        let index = u8::try_from(reference).unwrap_or(u8::MAX);
        match self.threads.get(&index) {
            Some(thread) => Ok(*thread),
            None if self.any_reference => Ok(Thread { process: UNKNOWN, thread: UNKNOWN }),
            None => Err(Reason::UnknownThread(index)),
        }
    }

    /// Ticks as nanoseconds, rounded down.
    #[inline(always)]
    pub(crate) fn time(&self, ticks: u64) -> Result<Nanos, Reason> {
        if self.ticks_per_second == NANOS_PER_SECOND {
            return Ok(Nanos(ticks));
        }
        let nanos =
            u128::from(ticks) * u128::from(NANOS_PER_SECOND) / u128::from(self.ticks_per_second);
        u64::try_from(nanos).map(Nanos).map_err(|_| Reason::TimeOverflow(ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ByteOrder;

    #[test]
    fn ticks_become_nanoseconds_without_losing_the_high_bits() {
        let mut tables = Tables::default();
        assert_eq!(tables.time(u64::MAX), Ok(Nanos(u64::MAX)));
        tables.set_ticks_per_second(3_000_000_000);
        assert_eq!(tables.time(u64::MAX), Ok(Nanos(u64::MAX / 3)));
        tables.set_ticks_per_second(24_000_000);
        assert_eq!(tables.time(24_000_001), Ok(Nanos(1_000_000_041)));
        assert_eq!(tables.time(u64::MAX), Err(Reason::TimeOverflow(u64::MAX)));
    }

    #[test]
    fn index_zero_is_never_set() {
        let mut tables = Tables::default();
        tables.set_string(0, "not this", usize::MAX);
        tables.set_thread(0, Thread { process: Koid(1), thread: Koid(2) }, usize::MAX);
        let mut cursor = Cursor::new(&[], ByteOrder::Little);
        assert_eq!(tables.string(string_ref::EMPTY, &mut cursor), Ok(""));
        assert_eq!(tables.thread(thread_ref::INLINE, &mut cursor), Err(Reason::TooShort));
    }

    #[test]
    fn a_later_string_replaces_an_earlier_one_of_the_same_index() {
        let mut tables = Tables::default();
        tables.set_string(7, "old", usize::MAX);
        tables.set_string(7, "new", usize::MAX);
        let mut cursor = Cursor::new(&[], ByteOrder::Little);
        assert_eq!(tables.string(7, &mut cursor), Ok("new"));
        assert_eq!(tables.string(8, &mut cursor), Err(Reason::UnknownString(8)));
    }
}
