//! Kernel object record: what a koid refers to ("Kernel object record").

use super::{Record, checked_size};
use crate::arg::{self, Arg};
use crate::error::EncodeError;
use crate::ids::Koid;
use crate::layout::{ObjectType, kernel_object, record_type};
use crate::space::Slot;
use crate::text::Text;

/// Names a kernel object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelObject<'a> {
    /// What kind of object it is.
    pub kind: ObjectType,
    /// Its koid.
    pub koid: Koid,
    /// Its name.
    pub name: Text<'a>,
    /// Up to 15 arguments; by convention `process` with the process koid of a
    /// thread.
    pub args: &'a [Arg<'a>],
}

impl Record for KernelObject<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        checked_size(2 + self.name.inline_words()? + arg::words(self.args)?)
    }

    fn header(&self, words: usize) -> u64 {
        kernel_object::TYPE.put(record_type::KERNEL_OBJECT)
            | kernel_object::SIZE.put(words as u64)
            | kernel_object::OBJECT_TYPE.put(self.kind.to_field())
            | kernel_object::NAME.put(self.name.encoded())
            | kernel_object::ARG_COUNT.put(self.args.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.koid.0);
        self.name.put(slot);
        arg::put(self.args, slot);
    }
}
