//! Passes over whole traces: one loop passes runs of scheduling records to the visitor.
//!
//! Nearly all of a trace is switches and wakeups of a few shapes, which their header words reveal:
//!
//! ```text
//!  switch   header  time  outgoing  incoming  weight  weight  [state as an indexed string]
//!  wakeup   header  time  thread    weight  [waker: argument header, koid]
//! ```
//!
//! While such records follow one another, the position stays in a register, and a record costs two comparisons of its header and the words
//! that the visitor reads. [`Reader::next`] handles everything else, including damage.

use fxt_format::limits::WORD_BYTES;
use fxt_format::record_type::SCHEDULING;
use fxt_format::scheduling::{CONTEXT_SWITCH, THREAD_WAKEUP, context_switch, thread_wakeup};
use fxt_format::walk::record_bytes;

use super::{Item, Reader, State};
use crate::error::Error;
use crate::oddities::Oddities;
use crate::raw::RawRecord;
use crate::record::{ArgPosition, Args, ContextSwitch, PlainArgs, Record, Wakeup, cpu};
use crate::tables::Tables;
use crate::types::{ByteOrder, Koid, ProviderId, ThreadState};

/// Receives records from [`Reader::show_all`].
pub trait Visitor {
    /// Visits a record; returns false when no more are needed.
    ///
    /// There is one call site for context switches and one for wakeups. If this is inlined (`#[inline(always)]`) and does
    /// not pass the item on by reference, the compiler never builds these items in memory.
    fn visit(&mut self, item: &Item<'_>) -> bool;

    /// Called after all records in the buffer, before the reader reads more of the trace, which may take a long time. A visitor
    /// that gathers records passes them on here.
    fn dry(&mut self) {}
}

/// Words of a switch with its weights and the outgoing thread's state as in the kernel, but no more arguments.
const SWITCH_WORDS: usize = context_switch::FIXED_WORDS + 2;
const SWITCH_WORDS_WITH_STATE: usize = SWITCH_WORDS + 1;

/// Words of a wakeup with its weight and waker, but no more arguments.
const WAKEUP_WORDS: usize = thread_wakeup::FIXED_WORDS + 1;
const WAKEUP_WORDS_WITH_WAKER: usize = WAKEUP_WORDS + 2;

/// More bytes than any record in a run has.
const ENOUGH: usize = 2 * SWITCH_WORDS * WORD_BYTES;

/// The bits that differ between the headers of switches of one shape. All other bits, including reserved ones, are the same.
const SWITCH_VARIES: u64 = context_switch::CPU.mask() | context_switch::OUTGOING_STATE.mask();
const WAKEUP_VARIES: u64 = thread_wakeup::CPU.mask();

/// The constant bits in the header of a switch of `words` words.
const fn switch_shape(words: usize) -> u64 {
    use context_switch::{ARG_COUNT, SCHEDULING_TYPE, SIZE, TYPE};
    TYPE.put(SCHEDULING)
        | SIZE.put(words as u64)
        | ARG_COUNT.put(if words > SWITCH_WORDS { 3 } else { 2 })
        | SCHEDULING_TYPE.put(CONTEXT_SWITCH)
}

/// The constant bits in the header of a wakeup of `words` words.
const fn wakeup_shape(words: usize) -> u64 {
    use thread_wakeup::{ARG_COUNT, SCHEDULING_TYPE, SIZE, TYPE};
    TYPE.put(SCHEDULING)
        | SIZE.put(words as u64)
        | ARG_COUNT.put(if words > WAKEUP_WORDS { 2 } else { 1 })
        | SCHEDULING_TYPE.put(THREAD_WAKEUP)
}

impl Reader<'_> {
    /// Passes all records from here on to `visitor`, until it needs no more (returns false) or the trace ends (returns true).
    ///
    /// This does the same as repeated calls of [`next`](Self::next), in a fraction of the time. Calls of both can be
    /// mixed.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next): after [`Error::Damaged`], the next call continues after the damage.
    pub fn show_all<V: Visitor>(&mut self, visitor: &mut V) -> Result<bool, Error> {
        while self.show_run(visitor) {
            if !self.has_next() {
                visitor.dry();
            }
            match self.show_next(visitor)? {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Whether the next record is wholly in the window, according to its header.
    #[inline]
    fn has_next(&self) -> bool {
        let State::After(length) = self.state else { return false };
        let rest = self.input.window().get(length..).unwrap_or_default();
        let size = rest.first_chunk().and_then(|&word| record_bytes(self.order.word(word)));
        size.is_some_and(|size| size <= rest.len())
    }

    /// Passes the next record, of any kind, to the visitor; `None` at the end.
    #[inline(never)]
    fn show_next<V: Visitor>(&mut self, visitor: &mut V) -> Result<Option<bool>, Error> {
        Ok(self.next()?.map(|item| visitor.visit(&item)))
    }

    /// Passes scheduling records of the usual shapes to the visitor, as far as the window goes, and stops before anything else. Returns
    /// false when the visitor needs no more records.
    fn show_run<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        let State::After(length) = self.state else { return true };
        // Traces of the other byte order are rare, and limits this low only occur in tests.
        if self.order != ByteOrder::Little || self.max_record_bytes < ENOUGH {
            return true;
        }
        self.input.consume(length);
        self.state = State::After(0);
        let mut run = Run {
            window: self.input.window(),
            at: 0,
            records: 0,
            offset: self.input.offset(),
            provider: self.known.provider(),
            tables: self.known.tables(),
            plain: PlainArgs::default(),
        };
        let goes_on = loop {
            let Some(header) = run.header() else { break true };
            // The most frequent records first, each with its own call site.
            let goes_on = if let Some((bytes, switch)) = run.switch::<SWITCH_WORDS>(header) {
                run.show(bytes, Record::ContextSwitch(switch), visitor)
            } else if let Some((bytes, wakeup)) = run.wakeup::<WAKEUP_WORDS>(header) {
                run.show(bytes, Record::Wakeup(wakeup), visitor)
            } else if let Some((bytes, switch)) = run.switch::<SWITCH_WORDS_WITH_STATE>(header) {
                run.show(bytes, Record::ContextSwitch(switch), visitor)
            } else if let Some((bytes, wakeup)) = run.wakeup::<WAKEUP_WORDS_WITH_WAKER>(header) {
                run.show(bytes, Record::Wakeup(wakeup), visitor)
            } else {
                break true;
            };
            if !goes_on {
                break false;
            }
        };
        let (length, records) = (run.at, run.records);
        self.summary.records += records;
        self.summary.record_bytes += length as u64;
        self.state = State::After(length);
        goes_on
    }
}

/// The state of a run.
struct Run<'a> {
    window: &'a [u8],
    /// The position in it.
    at: usize,
    /// The number of records passed to the visitor.
    records: u64,
    /// Where the window begins in the trace.
    offset: u64,
    provider: Option<ProviderId>,
    tables: &'a Tables,
    plain: PlainArgs,
}

impl<'a> Run<'a> {
    /// The header word of the record at the current position.
    #[inline(always)]
    fn header(&self) -> Option<u64> {
        let bytes = self.window.get(self.at..)?.first_chunk()?;
        Some(ByteOrder::Little.word(*bytes))
    }

    /// Passes the record in these bytes, which end at the position, to the visitor.
    #[inline(always)]
    fn show<V: Visitor>(&mut self, bytes: &'a [u8], record: Record<'a>, visitor: &mut V) -> bool {
        self.records += 1;
        visitor.visit(&Item {
            offset: self.offset + (self.at - bytes.len()) as u64,
            provider: self.provider,
            record,
            raw: RawRecord::new(bytes, ByteOrder::Little),
            oddities: Oddities::default(),
        })
    }

    /// The bytes of the `words` words at the position, and of those after the first `fixed` words.
    #[inline(always)]
    fn split(&self, words: usize, fixed: usize) -> Option<(&'a [u8], &'a [u8])> {
        let bytes = self.window.get(self.at..)?.get(..words * WORD_BYTES)?;
        Some((bytes, bytes.get(fixed * WORD_BYTES..)?))
    }

    /// The switch of `WORDS` words at the position, if it is valid; moves the position past it.
    #[inline(always)]
    fn switch<const WORDS: usize>(&mut self, header: u64) -> Option<(&'a [u8], ContextSwitch<'a>)> {
        use context_switch::{CPU, FIXED_WORDS, OUTGOING_STATE};
        if header & !SWITCH_VARIES != const { switch_shape(WORDS) } {
            return None;
        }
        let (bytes, args) = self.split(WORDS, FIXED_WORDS)?;
        let (plain, tables) = (&mut self.plain, self.tables);
        let with_state = WORDS > SWITCH_WORDS;
        let sound = plain.is_int32(ArgPosition::SwitchFirst, word(args, 0)?, tables)
            && plain.is_int32(ArgPosition::SwitchSecond, word(args, 1)?, tables)
            && (!with_state || plain.is_string(ArgPosition::SwitchState, word(args, 2)?, tables));
        if !sound {
            return None;
        }
        let switch = ContextSwitch {
            time: tables.time(word(bytes, 1)?).ok()?,
            cpu: cpu(CPU.get(header)),
            outgoing: Koid(word(bytes, 2)?),
            outgoing_state: ThreadState::from_field(OUTGOING_STATE.get(header)),
            incoming: Koid(word(bytes, 3)?),
            args: Args::sound(args, 2 + u8::from(with_state), tables),
        };
        self.at += bytes.len();
        Some((bytes, switch))
    }

    /// The wakeup of `WORDS` words at the position, if it is valid; moves the position past it.
    #[inline(always)]
    fn wakeup<const WORDS: usize>(&mut self, header: u64) -> Option<(&'a [u8], Wakeup<'a>)> {
        use thread_wakeup::{CPU, FIXED_WORDS};
        if header & !WAKEUP_VARIES != const { wakeup_shape(WORDS) } {
            return None;
        }
        let (bytes, args) = self.split(WORDS, FIXED_WORDS)?;
        let (plain, tables) = (&mut self.plain, self.tables);
        let with_waker = WORDS > WAKEUP_WORDS;
        let sound = plain.is_int32(ArgPosition::WakeupWeight, word(args, 0)?, tables)
            && (!with_waker || plain.is_koid(ArgPosition::WakeupWaker, word(args, 1)?, tables));
        if !sound {
            return None;
        }
        let wakeup = Wakeup {
            time: tables.time(word(bytes, 1)?).ok()?,
            cpu: cpu(CPU.get(header)),
            koid: Koid(word(bytes, 2)?),
            args: Args::sound(args, 1 + u8::from(with_waker), tables),
        };
        self.at += bytes.len();
        Some((bytes, wakeup))
    }
}

/// The word at `at` within a record.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let (words, _) = bytes.as_chunks();
    words.get(at).map(|&word| ByteOrder::Little.word(word))
}
