//! The functions that a file's symbol tables name.

use std::collections::HashSet;

use object::elf::{self, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, ReadRef};

use super::{Elf, ElfError};

/// A name for an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// The address of its first instruction, before the loader moves the file.
    pub address: u64,
    /// How well the name is known: if an address has several names, the one with the lowest value is shown.
    pub(super) rank: u8,
    /// The linker's name.
    pub raw: String,
    /// Its size in bytes; `None` if the file does not contain the size.
    pub size: Option<u64>,
    /// Whether the code there only selects the function when the program starts.
    pub chooses: bool,
}

impl Function {
    /// Whether it is a rarely executed part of a function that the compiler moved away, and that is never called.
    pub(super) fn is_split_off(&self) -> bool {
        self.raw.ends_with(".cold") || self.raw.contains(".cold.")
    }
}

/// The content of a file's symbol tables about functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// Every name, by address and then the best name first.
    pub all: Vec<Function>,
    /// The names that the file uses and other files define.
    pub imported: Vec<String>,
    /// Whether there was a full symbol table, not only the one for dynamic linking.
    pub complete: bool,
}

impl Functions {
    /// Adds another file's names for the same addresses, such as those of a separate debug file.
    pub fn merge(&mut self, other: Functions) {
        self.all.extend(other.all);
        self.complete |= other.complete;
        self.tidy();
    }

    /// The function whose code contains `address`: its first name, and the offset in it.
    pub fn at(&self, address: u64) -> Option<(&Function, u64)> {
        let next = self.all.partition_point(|function| function.address <= address);
        let begin = self.all.get(next.checked_sub(1)?)?.address;
        let first = self.all.partition_point(|function| function.address < begin);
        let names = &self.all[first..next];
        let into = address - begin;
        let within = names.iter().any(|name| name.size.is_none_or(|size| into < size));
        within.then(|| (&names[0], into))
    }

    /// Where the next function after `address` begins.
    pub fn next_after(&self, address: u64) -> Option<u64> {
        let next = self.all.partition_point(|function| function.address <= address);
        self.all.get(next).map(|function| function.address)
    }

    fn tidy(&mut self) {
        self.all.sort_unstable();
        self.all.dedup_by(|a, b| a.address == b.address && a.raw == b.raw);
        self.imported.sort_unstable();
        self.imported.dedup();
    }
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// Reads the symbol tables.
    ///
    /// # Errors
    /// Returns an error if the table is not within the file.
    pub fn functions(&self) -> Result<Functions, ElfError> {
        self.functions_of(self)
    }

    /// Reads the symbol tables of this file for those addresses at which `code` contains code: a separate debug file has no code.
    ///
    /// # Errors
    /// Returns an error if the table is not within the file.
    pub fn functions_of<'c, C: ReadRef<'c>>(
        &self,
        code: &Elf<'c, C>,
    ) -> Result<Functions, ElfError> {
        let mut functions = Functions::default();
        for (complete, header) in self.symbol_tables() {
            functions.complete |= complete;
            let Table { symbols, strings } = self.table(header)?;
            let mut left = most_name_bytes(strings.len() as u64);
            for symbol in symbols {
                if let Some(name) = name(strings, symbol.st_name(self.endian)) {
                    left = left
                        .checked_sub(name.len() as u64)
                        .ok_or(ElfError::Damaged("a symbol table"))?;
                    take_symbol(symbol, name, self.endian, code, &mut functions);
                }
            }
        }
        if !functions.complete
            && let Some(table) = self.go_table()
        {
            functions.all.extend(table.functions());
            functions.complete = true;
        }
        let defined: HashSet<&str> =
            functions.all.iter().map(|function| function.raw.as_str()).collect();
        functions.imported.retain(|name| !defined.contains(name.as_str()));
        functions.tidy();
        Ok(functions)
    }

    /// The size of the symbol tables and their names, in bytes, and of the table of a Go program that replaces them.
    pub fn symbol_bytes(&self) -> u64 {
        let size = |header: &elf::SectionHeader64<Endianness>| header.sh_size(self.endian);
        let of = |header| {
            let strings = self.sections.section(elf::SectionHeader64::link(header, self.endian));
            size(header).saturating_add(strings.map_or(0, size))
        };
        let go = if self.has_all_symbols() { 0 } else { self.go_table_bytes() };
        self.symbol_tables().into_iter().map(|(_, header)| of(header)).fold(go, u64::saturating_add)
    }

    /// Whether a function is called, and so has a return address on top of its stack. This is not the case for the program's first
    /// instruction and for a part split off a function.
    pub fn is_called(&self, function: &Function) -> bool {
        function.address != self.header.e_entry(self.endian) && !function.is_split_off()
    }

    /// The address of the variable with this name, before the loader moves the file.
    pub fn variable(&self, wanted: &str) -> Option<u64> {
        self.symbol_tables().into_iter().find_map(|(_, header)| {
            let Table { symbols, strings } = self.table(header).ok()?;
            let symbol = symbols.iter().find(|symbol| {
                symbol.st_type() == elf::STT_OBJECT
                    && !symbol.is_undefined(self.endian)
                    && name(strings, symbol.st_name(self.endian)) == Some(wanted)
            })?;
            Some(symbol.st_value(self.endian))
        })
    }

    /// The addresses and sizes of the symbols that the file exports under these names, before the loader relocates it.
    pub fn exported<const N: usize>(&self, wanted: [&str; N]) -> [Option<(u64, u64)>; N] {
        let mut found = [None; N];
        let tables = self.symbol_tables();
        let Some((_, header)) = tables.into_iter().find(|(complete, _)| !complete) else {
            return found;
        };
        let Ok(Table { symbols, strings }) = self.table(header) else { return found };
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(self.endian)) {
            let name = name(strings, symbol.st_name(self.endian));
            if let Some(at) = wanted.iter().position(|it| name == Some(*it)) {
                found[at] = Some((symbol.st_value(self.endian), symbol.st_size(self.endian)));
            }
        }
        found
    }

    /// Whether there is a full symbol table, not only the one for dynamic linking.
    pub fn has_all_symbols(&self) -> bool {
        self.symbol_tables().iter().any(|(complete, _)| *complete)
    }

    /// The full symbol table and the one for dynamic linking; `true` marks the full one. Each kind occurs only once, so in a file with
    /// thousands of sections only the first two are checked.
    pub(super) fn symbol_tables(&self) -> Vec<(bool, &'d elf::SectionHeader64<Endianness>)> {
        [(true, elf::SHT_SYMTAB), (false, elf::SHT_DYNSYM)]
            .into_iter()
            .filter_map(|(complete, kind)| {
                let header = self.sections.iter().find(|it| it.sh_type(self.endian) == kind)?;
                Some((complete, header))
            })
            .collect()
    }

    fn table(&self, header: &elf::SectionHeader64<Endianness>) -> Result<Table<'d>, ElfError> {
        let damaged = || ElfError::Damaged("a symbol table");
        let bytes = self.section_data(header)?;
        let count = bytes.len() / size_of::<Sym64<Endianness>>();
        let (symbols, _) = object::pod::slice_from_bytes::<Sym64<Endianness>>(bytes, count)
            .map_err(|()| damaged())?;
        let strings = self.sections.section(header.link(self.endian)).map_err(|_| damaged())?;
        Ok(Table { symbols, strings: self.section_data(strings)? })
    }
}

/// A symbol table and the names in it.
struct Table<'d> {
    symbols: &'d [Sym64<Endianness>],
    strings: &'d [u8],
}

fn take_symbol<'c, C: ReadRef<'c>>(
    symbol: &Sym64<Endianness>,
    name: &str,
    endian: Endianness,
    code: &Elf<'c, C>,
    to: &mut Functions,
) {
    let kind = symbol.st_type();
    if matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC) && symbol.is_undefined(endian) {
        to.imported.push(name.to_owned());
        return;
    }
    let Some(rank) = code_rank(symbol, endian) else { return };
    let address = symbol.st_value(endian);
    if !code.is_executable(address) {
        return;
    }
    to.all.push(Function {
        address,
        rank,
        raw: name.to_owned(),
        size: Some(symbol.st_size(endian)).filter(|size| *size != 0),
        chooses: kind == elf::STT_GNU_IFUNC,
    });
}

/// How well a symbol names code in this file; 0 is best, `None` means that it does not name code.
pub(super) fn code_rank(symbol: &Sym64<Endianness>, endian: Endianness) -> Option<u8> {
    let is_code = match symbol.st_type() {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
        // Hand-written assembly seldom declares the type of its labels.
        elf::STT_NOTYPE => !symbol.is_local(),
        _ => false,
    };
    if !is_code || symbol.is_undefined(endian) {
        return None;
    }
    Some(match symbol.st_bind() {
        elf::STB_GLOBAL => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    })
}

/// The maximum length of a name, in bytes.
pub(super) const LONGEST_NAME: usize = 32 * 1024;

/// Upper bound for the total length of the names in a string table of this size. Names may share suffixes, but a million names that each
/// span the whole table are bogus.
pub(super) fn most_name_bytes(table: u64) -> u64 {
    table.saturating_mul(4).saturating_add(LONGEST_NAME as u64)
}

/// The text at `offset` of a string table, up to its NUL and without a version (`@GLIBC_2.2`).
fn name(strings: &[u8], offset: u32) -> Option<&str> {
    let rest = strings.get(usize::try_from(offset).ok()?..)?;
    let end = rest.iter().take(LONGEST_NAME).position(|byte| *byte == 0)?;
    unversioned(std::str::from_utf8(&rest[..end]).ok()?)
}

/// A name without its version (`@GLIBC_2.2`); `None` if no text remains.
pub(super) fn unversioned(name: &str) -> Option<&str> {
    name.split('@').next().filter(|name| !name.is_empty())
}
