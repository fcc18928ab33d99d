//! A file's data for the loader: its name, the libraries it needs, and their search path.

use object::Endianness;
use object::ReadRef;
use object::elf::{self, Dyn64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::{Elf, ElfError};

/// The maximum number of libraries read from one file.
const MOST_NEEDED: usize = 4096;

/// A file's data for the loader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The libraries it needs, by name.
    pub needed: Vec<String>,
    /// The name by which it is found, if it is a library.
    pub soname: Option<String>,
    /// Directories that it and the libraries it needs are searched in, separated by colons.
    pub rpath: Option<String>,
    /// Directories that the libraries it needs are searched in; [`rpath`](Self::rpath) then does
    /// not count.
    pub runpath: Option<String>,
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// Reads the dynamic section; a static program's is empty.
    ///
    /// # Errors
    /// Returns an error when it is not within the file.
    pub fn dynamic(&self) -> Result<Dynamic, ElfError> {
        let damaged = || ElfError::Damaged("its dynamic section");
        let headers = self.header.program_headers(self.endian, self.data).map_err(|_| damaged())?;
        let header = headers.iter().find(|header| header.p_type(self.endian) == elf::PT_DYNAMIC);
        let Some(header) = header else { return Ok(Dynamic::default()) };
        if header.p_filesz(self.endian) > super::LARGEST_TABLE {
            return Err(damaged());
        }
        let bytes = header.data(self.endian, self.data).map_err(|()| damaged())?;
        let count = bytes.len() / size_of::<Dyn64<Endianness>>();
        let (entries, _) = object::pod::slice_from_bytes::<Dyn64<Endianness>>(bytes, count)
            .map_err(|()| damaged())?;
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| (entry.d_tag(self.endian), entry.d_val(self.endian)))
            .take_while(|(tag, _)| *tag != elf::DT_NULL)
            .collect();
        let value =
            |wanted| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let (Some(table), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
            return Ok(Dynamic::default());
        };
        let strings = self.mapped(table, size.min(super::LARGEST_TABLE)).ok_or_else(damaged)?;
        let text = |offset: u64| {
            let rest = strings.get(usize::try_from(offset).ok()?..)?;
            let end = rest.iter().position(|byte| *byte == 0)?;
            std::str::from_utf8(&rest[..end]).ok().map(str::to_owned)
        };
        Ok(Dynamic {
            needed: entries
                .iter()
                .filter(|(tag, _)| *tag == elf::DT_NEEDED)
                .take(MOST_NEEDED)
                .filter_map(|(_, offset)| text(*offset))
                .collect(),
            soname: value(elf::DT_SONAME).and_then(text),
            rpath: value(elf::DT_RPATH).and_then(text),
            runpath: value(elf::DT_RUNPATH).and_then(text),
        })
    }
}
