//! Modules, mappings and stacks ("Profiler record", which the format specification does not describe).

use super::{Record, checked_size};
use crate::error::EncodeError;
use crate::ids::{Koid, ThreadName, ThreadRef, Ticks};
use crate::layout::profiler::{self, backtrace, mapping, module};
use crate::layout::{Field, limits, record_type, thread_ref};
use crate::space::{Slot, stream_words};
use crate::text;

/// How a record names a process: by any of its threads in the thread table, or by its koid in the record itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessName {
    /// The process of a thread that is registered with a thread record.
    OfThread(ThreadRef),
    /// The koid itself, which takes one word in the record.
    Inline(Koid),
}

impl ProcessName {
    const fn encoded(self) -> u64 {
        match self {
            Self::OfThread(index) => index.index() as u64,
            Self::Inline(_) => thread_ref::INLINE,
        }
    }

    const fn inline_words(self) -> usize {
        match self {
            Self::OfThread(_) => 0,
            Self::Inline(_) => 1,
        }
    }

    fn put(self, slot: &mut impl Slot) {
        if let Self::Inline(process) = self {
            slot.put(process.0);
        }
    }
}

/// A file with code that a process has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The process.
    pub process: ProcessName,
    /// The number by which mappings of the process refer to it.
    pub id: u16,
    /// Its name: no NUL, at most 255 bytes.
    pub name: &'a str,
    /// The build id that the linker wrote, at most 255 bytes; empty if there is none.
    pub build_id: &'a [u8],
}

impl Record for Module<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        text::check_no_nul(self.name)?;
        for (bytes, most) in [
            (self.name.len(), limits::MAX_MODULE_NAME_BYTES),
            (self.build_id.len(), limits::MAX_BUILD_ID_BYTES),
        ] {
            if bytes > most {
                return Err(EncodeError::ModuleTooLong { bytes });
            }
        }
        let streams = stream_words(self.name.len()) + stream_words(self.build_id.len());
        checked_size(2 + self.process.inline_words() + streams)
    }

    fn header(&self, words: usize) -> u64 {
        module::TYPE.put(record_type::PROFILER)
            | module::SIZE.put(words as u64)
            | module::KIND.put(profiler::MODULE)
            | module::THREAD.put(self.process.encoded())
            | module::MODULE_ID.put(self.id.into())
            | module::NAME_LENGTH.put(self.name.len() as u64)
            | module::BUILD_ID_LENGTH.put(self.build_id.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        self.process.put(slot);
        slot.put_stream(self.name.as_bytes());
        slot.put_stream(self.build_id);
    }
}

/// Where part of a module is mapped in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The process.
    pub process: ProcessName,
    /// The module.
    pub module: u16,
    /// At most 3 bits.
    pub flags: u8,
    /// The address at which it begins.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The address within the module at which the mapping begins.
    pub module_address: u64,
}

impl Record for Mapping {
    fn words(&self) -> Result<usize, EncodeError> {
        check_flags(mapping::FLAGS, self.flags.into())?;
        Ok(5 + self.process.inline_words())
    }

    fn header(&self, words: usize) -> u64 {
        mapping::TYPE.put(record_type::PROFILER)
            | mapping::SIZE.put(words as u64)
            | mapping::KIND.put(profiler::MAPPING)
            | mapping::THREAD.put(self.process.encoded())
            | mapping::MODULE_ID.put(self.module.into())
            | mapping::FLAGS.put(self.flags.into())
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        self.process.put(slot);
        slot.put(self.start);
        slot.put(self.length);
        slot.put(self.module_address);
    }
}

/// The stack of a thread at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backtrace<'a> {
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The thread.
    pub thread: ThreadName,
    /// At most 28 bits.
    pub flags: u32,
    /// The program counters, innermost first, at most 255.
    pub frames: &'a [u64],
}

impl Record for Backtrace<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        check_flags(backtrace::FLAGS, self.flags)?;
        let frames = self.frames.len();
        if frames > limits::MAX_FRAMES {
            return Err(EncodeError::TooManyFrames { frames });
        }
        checked_size(2 + self.thread.inline_words() + frames)
    }

    fn header(&self, words: usize) -> u64 {
        backtrace::TYPE.put(record_type::PROFILER)
            | backtrace::SIZE.put(words as u64)
            | backtrace::KIND.put(profiler::BACKTRACE)
            | backtrace::THREAD.put(self.thread.encoded())
            | backtrace::FRAME_COUNT.put(self.frames.len() as u64)
            | backtrace::FLAGS.put(self.flags.into())
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        if let ThreadName::Inline { process, thread } = self.thread {
            slot.put(process.0);
            slot.put(thread.0);
        }
        self.frames.iter().for_each(|&frame| slot.put(frame));
    }
}

fn check_flags(field: Field, flags: u32) -> Result<(), EncodeError> {
    match field.fits(flags.into()) {
        true => Ok(()),
        false => Err(EncodeError::FlagsTooWide { flags, bits: field.bits() }),
    }
}
