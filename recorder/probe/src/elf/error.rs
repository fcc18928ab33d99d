//! The reason why probes cannot be put into a file.

use object::ReadRef;
use object::elf;

/// The reason why probes cannot be put into a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// It does not begin like an ELF file.
    #[error("not an ELF file: probes go into compiled programs and libraries")]
    NotElf,
    /// It begins with `#!`.
    #[error(
        "a script for {0}: probes go into compiled code, so give the path of the interpreter, or \
         of a library that it loads, before the ':'"
    )]
    Script(String),
    /// It is for 32-bit processors.
    #[error("a 32-bit program: fxtrec supports x86-64 and aarch64")]
    Not64Bit,
    /// It is for a processor that fxtrec does not support.
    #[error("for another processor (ELF machine {0}): fxtrec supports x86-64 and aarch64")]
    UnknownMachine(u16),
    /// It is an ELF file that is never loaded.
    #[error("{0} is not executable code: name the program or library made from it")]
    NotLoaded(&'static str),
    #[error("damaged: {0} is invalid")]
    Damaged(&'static str),
}

pub(super) fn type_name(e_type: u16) -> &'static str {
    match elf::FileType(e_type) {
        elf::ET_REL => "an object file (.o)",
        elf::ET_CORE => "a core dump",
        _ => "an ELF file of an unknown type",
    }
}

/// Guesses the type of a file from its first bytes.
pub(super) fn check_identity<'d, R: ReadRef<'d>>(data: R) -> Result<(), ElfError> {
    let length = data.len().map_err(|()| ElfError::NotElf)?;
    let start = data.read_bytes_at(0, length.min(256)).map_err(|()| ElfError::NotElf)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        return Err(ElfError::Script(String::from_utf8_lossy(line).trim().to_owned()));
    }
    if !start.starts_with(&elf::ELFMAG) {
        return Err(ElfError::NotElf);
    }
    match start.get(4) {
        Some(&class) if elf::FileClass(class) == elf::ELFCLASS64 => Ok(()),
        Some(&class) if elf::FileClass(class) == elf::ELFCLASS32 => Err(ElfError::Not64Bit),
        _ => Err(ElfError::Damaged("its header")),
    }
}
