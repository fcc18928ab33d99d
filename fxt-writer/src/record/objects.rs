//! Records that describe what a koid or a pointer refers to ("Kernel object
//! record", "Userspace object record").

use super::{Record, checked_size};
use crate::arg::{self, Arg, Text};
use crate::error::EncodeError;
use crate::ids::{Koid, ThreadName};
use crate::layout::{ObjectType, kernel_object, record_type, userspace_object};
use crate::space::Slot;

/// Names a kernel object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelObject<'a> {
    /// The type of the object.
    pub object_type: ObjectType,
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
            | kernel_object::OBJECT_TYPE.put(self.object_type.to_field())
            | kernel_object::NAME.put(self.name.encoded())
            | kernel_object::ARG_COUNT.put(self.args.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.koid.0);
        self.name.put(slot);
        arg::put(self.args, slot);
    }
}

/// Names an object of a process, for pointer arguments to refer to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UserspaceObject<'a> {
    /// The pointer.
    pub pointer: u64,
    /// The process that the pointer is valid in, given by one of its threads; for
    /// an inline thread, only the process koid is written.
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
