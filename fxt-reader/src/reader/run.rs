//! Passes over whole traces: runs of scheduling records are shown without leaving one loop.
//!
//! Nearly all of a trace is switches and wakeups of a few shapes that their header words tell:
//!
//! ```text
//!  switch   header  time  outgoing  incoming  weight  weight  [state as an indexed string]
//!  wakeup   header  time  thread    weight  [waker: argument header, koid]
//! ```
//!
//! While they come one after the other, the position stays in a register, and a record costs two comparisons of its
//! header and the words that somebody looks at. Everything else, damage too, is left to [`Reader::next`].

use fxt_writer::layout::limits::WORD_BYTES;
use fxt_writer::layout::record_type::SCHEDULING;
use fxt_writer::layout::scheduling::{
    CONTEXT_SWITCH, THREAD_WAKEUP, context_switch, thread_wakeup,
};

use super::{Item, Reader, State};
use crate::cursor::ByteOrder;
use crate::error::Error;
use crate::oddities::Oddities;
use crate::raw::RawRecord;
use crate::record::{ArgPlace, Args, ContextSwitch, PlainArgs, Record, Wakeup, cpu};
use crate::tables::Tables;
use crate::types::{Koid, ThreadState};

/// Is shown records, by [`Reader::show_all`].
pub trait Visitor {
    /// Looks at a record; false when it has seen enough.
    ///
    /// Context switches and wakeups are shown at a place of their own each. Where this is inlined (`#[inline(always)]`)
    /// and lends the item to nobody, they are never built in memory to be taken apart again.
    fn visit(&mut self, item: &Item<'_>) -> bool;
}

/// Words of a switch with no more arguments than its weights.
const SWITCH_WORDS: usize = context_switch::FIXED_WORDS + 2;

/// Words of a wakeup with no more arguments than its weight.
const WAKEUP_WORDS: usize = thread_wakeup::FIXED_WORDS + 1;

/// More bytes than any record has that is shown in a run.
const ENOUGH: usize = 2 * SWITCH_WORDS * WORD_BYTES;

/// What differs between the headers of switches of one shape. The rest, reserved bits included, is the same.
const SWITCH_VARIES: u64 = context_switch::CPU.mask() | context_switch::OUTGOING_STATE.mask();
const WAKEUP_VARIES: u64 = thread_wakeup::CPU.mask();

/// The rest of the header of a switch with so many words and arguments more than usual.
const fn switch_shape(words: usize, args: u64) -> u64 {
    use context_switch::{ARG_COUNT, SCHEDULING_TYPE, SIZE, TYPE};
    TYPE.put(SCHEDULING)
        | SIZE.put((SWITCH_WORDS + words) as u64)
        | ARG_COUNT.put(2 + args)
        | SCHEDULING_TYPE.put(CONTEXT_SWITCH)
}

/// The rest of the header of a wakeup with so many words and arguments more than usual.
const fn wakeup_shape(words: usize, args: u64) -> u64 {
    use thread_wakeup::{ARG_COUNT, SCHEDULING_TYPE, SIZE, TYPE};
    TYPE.put(SCHEDULING)
        | SIZE.put((WAKEUP_WORDS + words) as u64)
        | ARG_COUNT.put(1 + args)
        | SCHEDULING_TYPE.put(THREAD_WAKEUP)
}

impl Reader<'_> {
    /// Shows all records from here on to `visitor`, until it has seen enough (false) or the trace is at its end (true).
    ///
    /// This does what calls of [`next`](Self::next) do, in a fraction of the time. Both can be used in turn.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next), and as there: after [`Error::Damaged`], calling again goes on behind the damage.
    pub fn show_all<V: Visitor>(&mut self, visitor: &mut V) -> Result<bool, Error> {
        while self.show_run(visitor) {
            match self.next()? {
                Some(item) if visitor.visit(&item) => {}
                Some(_) => return Ok(false),
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Shows scheduling records of the usual shapes as far as they are at hand, and stops before anything else. False
    /// when the visitor has seen enough.
    fn show_run<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        let State::After(length) = self.state else { return true };
        // Traces of the other byte order are rare, and limits this low are for tests.
        if self.order != ByteOrder::Little || self.max_record_bytes < ENOUGH {
            return true;
        }
        self.input.consume(length);
        let mut run = Run {
            window: self.input.window(),
            at: 0,
            tables: &self.providers[self.current].tables,
            plain: PlainArgs::default(),
        };
        let (offset, provider) = (self.input.offset(), self.providers[self.current].id);
        let mut records = 0;
        let mut goes_on = true;
        while goes_on {
            let at = run.at;
            let Some(header) = run.header() else { break };
            let record = if let Some(switch) = run.switch(header) {
                Record::ContextSwitch(switch)
            } else if let Some(wakeup) = run.wakeup(header) {
                Record::Wakeup(wakeup)
            } else {
                break;
            };
            records += 1;
            let bytes = run.window.get(at..run.at).unwrap_or_default();
            goes_on = visitor.visit(&Item {
                offset: offset + at as u64,
                provider,
                record,
                raw: RawRecord::new(bytes, ByteOrder::Little),
                oddities: Oddities::default(),
            });
        }
        let length = run.at;
        self.summary.records += records;
        self.summary.record_bytes += length as u64;
        self.state = State::After(length);
        goes_on
    }
}

/// Where a run stands.
struct Run<'a> {
    window: &'a [u8],
    at: usize,
    tables: &'a Tables,
    plain: PlainArgs,
}

impl<'a> Run<'a> {
    /// The header word of the record at the position.
    #[inline(always)]
    fn header(&self) -> Option<u64> {
        let bytes = self.window.get(self.at..)?.first_chunk()?;
        Some(ByteOrder::Little.word(*bytes))
    }

    /// The switch at the position, which is moved past it, if it is a sound one of a usual shape.
    #[inline(always)]
    fn switch(&mut self, header: u64) -> Option<ContextSwitch<'a>> {
        use context_switch::{CPU, FIXED_WORDS, OUTGOING_STATE};
        const ALONE: u64 = switch_shape(0, 0);
        const WITH_STATE: u64 = switch_shape(1, 1);
        let (words, count) = match header & !SWITCH_VARIES {
            ALONE => (SWITCH_WORDS, 2),
            WITH_STATE => (SWITCH_WORDS + 1, 3),
            _ => return None,
        };
        let bytes = self.window.get(self.at..)?.get(..words * WORD_BYTES)?;
        let (plain, tables) = (&mut self.plain, self.tables);
        let sound = plain.is_int32(ArgPlace::SwitchFirst, word(bytes, FIXED_WORDS)?, tables)
            && plain.is_int32(ArgPlace::SwitchSecond, word(bytes, FIXED_WORDS + 1)?, tables)
            && (count == 2
                || plain.is_string(ArgPlace::SwitchState, word(bytes, SWITCH_WORDS)?, tables));
        let switch = ContextSwitch {
            time: tables.time(word(bytes, 1)?).ok()?,
            cpu: cpu(CPU.get(header)),
            outgoing: Koid(word(bytes, 2)?),
            outgoing_state: ThreadState::from_field(OUTGOING_STATE.get(header)),
            incoming: Koid(word(bytes, 3)?),
            args: Args::sound(bytes.get(FIXED_WORDS * WORD_BYTES..)?, count, tables),
        };
        self.at += if sound { bytes.len() } else { 0 };
        sound.then_some(switch)
    }

    /// The wakeup at the position, which is moved past it, if it is a sound one of a usual shape.
    #[inline(always)]
    fn wakeup(&mut self, header: u64) -> Option<Wakeup<'a>> {
        use thread_wakeup::{CPU, FIXED_WORDS};
        const ALONE: u64 = wakeup_shape(0, 0);
        const WITH_WAKER: u64 = wakeup_shape(2, 1);
        let (words, count) = match header & !WAKEUP_VARIES {
            ALONE => (WAKEUP_WORDS, 1),
            WITH_WAKER => (WAKEUP_WORDS + 2, 2),
            _ => return None,
        };
        let bytes = self.window.get(self.at..)?.get(..words * WORD_BYTES)?;
        let (plain, tables) = (&mut self.plain, self.tables);
        let sound = plain.is_int32(ArgPlace::WakeupWeight, word(bytes, FIXED_WORDS)?, tables)
            && (count == 1
                || plain.is_koid(ArgPlace::WakeupWaker, word(bytes, WAKEUP_WORDS)?, tables));
        let wakeup = Wakeup {
            time: tables.time(word(bytes, 1)?).ok()?,
            cpu: cpu(CPU.get(header)),
            koid: Koid(word(bytes, 2)?),
            args: Args::sound(bytes.get(FIXED_WORDS * WORD_BYTES..)?, count, tables),
        };
        self.at += if sound { bytes.len() } else { 0 };
        sound.then_some(wakeup)
    }
}

/// The word at `at` within a record.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let (words, _) = bytes.as_chunks();
    words.get(at).map(|&word| ByteOrder::Little.word(word))
}
