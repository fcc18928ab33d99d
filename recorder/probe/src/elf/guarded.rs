//! Debug information with a limit on reads: no more than a valid file needs.
//!
//! The DWARF reader follows each reference every time: a thousand functions can share a list of a thousand ranges. It also calls itself for
//! each function that is inlined into another. So each file has a limit on the bytes that are read, and the stack has a limit on depth;
//! beyond it, the file appears to end.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{EndianArcSlice, Error, Reader, ReaderOffsetId, Result, RunTimeEndian};

/// How much of the stack may be used, in bytes: a few hundred functions, each inlined into the next.
const DEEPEST: usize = 512 << 10;

type Plain = EndianArcSlice<RunTimeEndian>;

/// The remaining input, and the position of the stack.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    pub(super) bytes: Cell<usize>,
    stack: Cell<usize>,
}

impl Allowance {
    /// Counts depth from here.
    pub(super) fn starts_here(&self) {
        self.stack.set(here());
    }
}

/// Where the stack is, approximately.
#[inline(always)]
fn here() -> usize {
    let local = 0_u8;
    (&raw const local).addr()
}

#[derive(Clone, Debug)]
pub(super) struct Guarded {
    plain: Plain,
    left: Rc<Allowance>,
}

impl Guarded {
    /// All supported architectures are little endian.
    pub(super) fn new(bytes: &[u8], left: Rc<Allowance>) -> Guarded {
        Guarded { plain: EndianArcSlice::new(Arc::from(bytes), RunTimeEndian::Little), left }
    }

    fn pays(&self, bytes: usize) -> Result<()> {
        let left = self.left.bytes.get().checked_sub(bytes);
        match left.filter(|_| self.left.stack.get().abs_diff(here()) < DEEPEST) {
            Some(left) => {
                self.left.bytes.set(left);
                Ok(())
            }
            None => Err(Error::UnexpectedEof(self.plain.offset_id())),
        }
    }
}

impl Reader for Guarded {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.plain.endian()
    }

    fn len(&self) -> usize {
        self.plain.len()
    }

    fn empty(&mut self) {
        self.plain.empty();
    }

    fn truncate(&mut self, length: usize) -> Result<()> {
        self.plain.truncate(length)
    }

    fn offset_from(&self, base: &Guarded) -> usize {
        self.plain.offset_from(&base.plain)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.plain.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.plain.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = self.plain.find(byte);
        self.pays(*found.as_ref().unwrap_or(&self.plain.len()))?;
        found
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.pays(1)?;
        self.plain.skip(length)
    }

    fn split(&mut self, length: usize) -> Result<Guarded> {
        self.pays(1)?;
        let plain = self.plain.split(length)?;
        Ok(Guarded { plain, left: self.left.clone() })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.pays(self.plain.len())?;
        self.plain.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.pays(self.plain.len())?;
        self.plain.to_string()
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.pays(self.plain.len())?;
        self.plain.to_string_lossy()
    }

    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.pays(buffer.len())?;
        self.plain.read_slice(buffer)
    }
}
