//! The parts of an ELF file that probes need: segments, functions, libraries.
//!
//! [`Elf`] is a view: it reads data on demand, from anything that implements
//! `ReadRef`, so that a browser's gigabyte of debug information is not loaded to
//! find one function. Files come from users and containers, so every number in them is checked before use; an impossible number is an
//! [`ElfError`].

mod bounds;
mod cpp;
mod debug;
mod dynamic;
mod error;
mod frames;
mod functions;
mod go;
mod guarded;
mod lines;
mod lookup;
mod names;
mod select;
#[cfg(test)]
mod tests;
mod unwind;

use std::fmt;
use std::fs::File;
use std::path::Path;

use crate::FileVersion;
use fxtrec_kernel::regular::{self, Regular};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, ReadCache};

pub use bounds::{BoundsError, check as check_bounds, check_unnamed};
pub(super) use debug::hex;
pub use debug::{debug_file_of, separate_debug_file, separate_debug_file_by};
pub use dynamic::Dynamic;
pub use error::ElfError;
pub use frames::{CostlyRange, usable as usable_frames};
pub use functions::{Function, Functions};
pub use go::{Frames as GoFrames, go_frames};
pub use lines::{Line, Lines};
pub use lookup::{functions_at, functions_at_while, label};
pub use names::{Budget, Names};
pub use object::ReadRef;
pub use select::{Selection, select};

/// A larger symbol or string table, in bytes, is considered invalid.
const LARGEST_TABLE: u64 = 1 << 31;

/// Loaded files have a few dozen sections and segments.
const MOST_HEADERS: u64 = 1 << 16;

/// A processor whose calling convention fxtrec knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Arch {
    X86_64,
    /// AArch64, also called arm64.
    Aarch64,
}

impl Arch {
    /// The processor that fxtrec was built for, whose programs run here.
    pub const HOST: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::X86_64 => "x86-64",
            Arch::Aarch64 => "aarch64",
        })
    }
}

/// A part of the file that the loader maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is mapped, before the loader moves the file.
    pub address: u64,
    /// The size of the part that is in the file, in bytes.
    pub size: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// Whether its bytes can be run.
    pub executable: bool,
}

impl Segment {
    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|into| into < self.size)
    }
}

pub struct Elf<'d, R: ReadRef<'d>> {
    data: R,
    endian: Endianness,
    header: &'d FileHeader64<Endianness>,
    sections: SectionTable<'d, FileHeader64<Endianness>, R>,
    program_headers: &'d [elf::ProgramHeader64<Endianness>],
    arch: Arch,
    segments: Vec<Segment>,
    /// The file itself, if its large tables are read in pages.
    file: Option<&'d File>,
}

impl<'d, R: ReadRef<'d>> fmt::Debug for Elf<'d, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elf").field("arch", &self.arch).field("segments", &self.segments).finish()
    }
}

/// Opens a file for [`Elf::parse`].
///
/// # Errors
/// Returns an error when it cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> std::io::Result<ReadCache<File>> {
    regular::open(path).map(ReadCache::new)
}

/// The file at `path` for [`Elf::parse`], and its version; the version is read first, so that a concurrent write is detected.
///
/// # Errors
/// As for [`open`].
pub fn open_version(path: &Path) -> std::io::Result<(FileVersion, FileData)> {
    let held = Regular::hold(path)?;
    let version = FileVersion::of(&held)?;
    Ok((version, data_of(held.open()?)))
}

/// A file for [`Elf::parse`], which is read on demand.
pub type FileData = ReadCache<File>;

/// An already open file for [`Elf::parse`].
pub fn data_of(file: File) -> FileData {
    ReadCache::new(file)
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// Looks at the headers.
    ///
    /// # Errors
    /// Returns an error when it is not an ELF file, or not a program or library for a supported processor.
    pub fn parse(data: R) -> Result<Elf<'d, R>, ElfError> {
        error::check_identity(data)?;
        let damaged = |_| ElfError::Damaged("its header");
        let header = FileHeader64::<Endianness>::parse(data).map_err(damaged)?;
        let endian = header.endian().map_err(damaged)?;
        let arch = match header.e_machine(endian) {
            elf::EM_X86_64 => Arch::X86_64,
            elf::EM_AARCH64 => Arch::Aarch64,
            other => return Err(ElfError::UnknownMachine(other.0)),
        };
        match header.e_type(endian) {
            elf::ET_EXEC | elf::ET_DYN => {}
            other => return Err(ElfError::NotLoaded(error::type_name(other.0))),
        }
        // If there are more of them than 16 bits can count, another field has the number, and all of them are read at once.
        let is_many = |count: object::read::Result<u64>| count.is_ok_and(|it| it > MOST_HEADERS);
        if is_many(header.phnum(endian, data).map(u64::from)) {
            return Err(ElfError::Damaged("its program headers"));
        }
        let program_headers = header
            .program_headers(endian, data)
            .map_err(|_| ElfError::Damaged("its program headers"))?;
        let segments = program_headers
            .iter()
            .filter(|header| header.p_type(endian) == elf::PT_LOAD)
            .map(|header| Segment {
                address: header.p_vaddr(endian),
                size: header.p_filesz(endian),
                offset: header.p_offset(endian),
                executable: header.p_flags(endian).contains(elf::PF_X),
            })
            .collect();
        // A program without sections can run; it only has no names.
        let sections = match is_many(header.shnum(endian, data).map(u64::from)) {
            true => SectionTable::default(),
            false => header.sections(endian, data).unwrap_or_default(),
        };
        Ok(Elf { data, endian, header, sections, program_headers, arch, segments, file: None })
    }

    /// The processor that the file is for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The parts that the loader maps.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The same view, if the data is that of `file`: the table of a Go program, which may have 90 MB, is then read in pages, and only a few
    /// pages are kept.
    #[must_use]
    pub fn backed_by(self, file: &'d File) -> Elf<'d, R> {
        Elf { file: Some(file), ..self }
    }

    /// The file offset of the byte that is mapped at `address`.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.contains(address))?;
        segment.offset.checked_add(address - segment.address)
    }

    /// Whether code is mapped at `address`.
    pub fn is_executable(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| segment.executable && segment.contains(address))
    }

    /// The bytes that are mapped at `address`, at most `most` of them.
    pub fn mapped(&self, address: u64, most: u64) -> Option<&'d [u8]> {
        let segment = self.segments.iter().find(|segment| segment.contains(address))?;
        let into = address - segment.address;
        let offset = segment.offset.checked_add(into)?;
        self.data.read_bytes_at(offset, most.min(segment.size - into)).ok()
    }

    /// The bytes of a section and its address, if there is a section with that name.
    ///
    /// # Errors
    /// Returns an error when the section exists but is not within the file.
    pub fn section(&self, name: &str) -> Result<Option<(&'d [u8], u64)>, ElfError> {
        let Some((_, header)) = self.sections.section_by_name(self.endian, name.as_bytes()) else {
            return Ok(None);
        };
        let bytes = self.section_data(header)?;
        Ok(Some((bytes, header.sh_addr(self.endian))))
    }

    /// The same as [`section`](Self::section), but a section of more than `most` bytes is not read.
    pub fn section_within(&self, name: &str, most: u64) -> Option<(&'d [u8], u64)> {
        let (_, header) = self.sections.section_by_name(self.endian, name.as_bytes())?;
        (header.sh_size(self.endian) <= most).then(|| self.section(name).ok())??
    }

    /// Whether a section is compressed.
    fn is_compressed(&self, name: &str) -> bool {
        let section = self.sections.section_by_name(self.endian, name.as_bytes());
        section
            .is_some_and(|(_, header)| header.sh_flags(self.endian).contains(elf::SHF_COMPRESSED))
    }

    fn section_data(
        &self,
        header: &elf::SectionHeader64<Endianness>,
    ) -> Result<&'d [u8], ElfError> {
        if header.sh_size(self.endian) > LARGEST_TABLE {
            return Err(ElfError::Damaged("the size of a section"));
        }
        header.data(self.endian, self.data).map_err(|_| ElfError::Damaged("a section"))
    }
}
