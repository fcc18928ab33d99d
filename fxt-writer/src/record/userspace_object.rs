//! Userspace object record: what a pointer refers to ("Userspace object record").

use super::{Record, checked_size};
use crate::arg::{self, Arg};
use crate::error::EncodeError;
use crate::ids::ThreadName;
use crate::layout::{record_type, userspace_object};
use crate::space::Slot;
use crate::text::Text;

/// Names an object of a process, for pointer arguments to refer to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UserspaceObject<'a> {
    /// The pointer.
    pub pointer: u64,
    /// The process the pointer is valid in, as one of its threads; of an inline
    /// thread only the process koid is written.
    pub process: ThreadName,
    /// The object's name.
    pub name: Text<'a>,
    /// Up to 15 arguments.
    pub args: &'a [Arg<'a>],
}

impl Record for UserspaceObject<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        let process = usize::from(matches!(self.process, ThreadName::Inline { .. }));
        checked_size(2 + process + self.name.inline_words()? + arg::words(self.args)?)
    }

    fn header(&self, words: usize) -> u64 {
        userspace_object::TYPE.put(record_type::USERSPACE_OBJECT)
            | userspace_object::SIZE.put(words as u64)
            | userspace_object::PROCESS.put(self.process.encoded())
            | userspace_object::NAME.put(self.name.encoded())
            | userspace_object::ARG_COUNT.put(self.args.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.pointer);
        if let ThreadName::Inline { process, .. } = self.process {
            slot.put(process.0);
        }
        self.name.put(slot);
        arg::put(self.args, slot);
    }
}
