//! Records that describe objects: the names of koids and pointers.

use fxt_format::{kernel_object, userspace_object};

use super::argument::Args;
use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Koid, ObjectType};

/// Describes what a koid refers to ("Kernel object record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelObject<'a> {
    /// The type of the object.
    pub object_type: ObjectType,
    /// The object.
    pub koid: Koid,
    /// Its name.
    pub name: &'a str,
    /// Further arguments.
    pub args: Args<'a>,
}

impl<'a> KernelObject<'a> {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, kernel_object::HEADER);
        Ok(Self {
            object_type: ObjectType::from_field(kernel_object::OBJECT_TYPE.get(header)),
            koid: Koid(cursor.word()?),
            name: tables.string(kernel_object::NAME.get(header), cursor)?,
            args: Args::parse(cursor, kernel_object::ARG_COUNT.get(header), tables)?,
        })
    }

    /// The process that a thread belongs to, if the record contains it.
    #[must_use]
    pub fn process(&self) -> Option<Koid> {
        self.args.koid(kernel_object::PROCESS_ARG)
    }
}

/// Describes what a pointer of a process refers to ("Userspace object record").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UserspaceObject<'a> {
    /// The process that the pointer belongs to.
    pub process: Koid,
    /// The pointer.
    pub pointer: u64,
    /// The object's name.
    pub name: &'a str,
    /// Further arguments.
    pub args: Args<'a>,
}

impl<'a> UserspaceObject<'a> {
    pub(crate) fn parse(
        header: u64,
        cursor: &mut Cursor<'a>,
        tables: &'a Tables,
    ) -> Result<Self, Reason> {
        cursor.inspect(header, userspace_object::HEADER);
        let pointer = cursor.word()?;
        Ok(Self {
            process: tables.process(userspace_object::PROCESS.get(header), cursor)?,
            pointer,
            name: tables.string(userspace_object::NAME.get(header), cursor)?,
            args: Args::parse(cursor, userspace_object::ARG_COUNT.get(header), tables)?,
        })
    }
}
