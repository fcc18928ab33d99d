//! Lines of source code by DWARF, with the functions that the compiler has put into others.

use std::fmt;
use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::ReadRef;

use super::Elf;

/// What is read of one file at most. The debug information of a browser is larger.
const MOST_BYTES: usize = 256 << 20;

type Bytes = EndianArcSlice<RunTimeEndian>;

/// A place in source code, and the function there as people call it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub function: Option<String>,
    /// The path that the compiler was given.
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// The lines of a file.
pub struct Lines(Context<Bytes>);

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    /// `None` if the file has no debug information, or more than is read.
    pub fn of<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<Lines> {
        elf.section(".debug_line").ok()??;
        let mut left = MOST_BYTES;
        // All processors that are known are little endian.
        let load = |id: SectionId| -> Result<Bytes, ()> {
            let section = elf.section(id.name()).ok().flatten();
            let bytes = section.map_or(&[][..], |(bytes, _)| bytes);
            left = left.checked_sub(bytes.len()).ok_or(())?;
            Ok(EndianArcSlice::new(Arc::from(bytes), RunTimeEndian::Little))
        };
        let dwarf = Dwarf::load(load).ok()?;
        Context::from_dwarf(dwarf).ok().map(Lines)
    }

    /// Where the instruction at an address comes from: a function that was put into another comes before that.
    pub fn at(&self, address: u64) -> Vec<Line> {
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|it| it.raw_name().ok());
            let location = frame.location.as_ref();
            lines.push(Line {
                function: name.map(|name| super::Names::of(&name).short.into_owned()),
                file: location.and_then(|it| it.file).map(str::to_owned),
                line: location.and_then(|it| it.line),
            });
        }
        lines
    }
}
