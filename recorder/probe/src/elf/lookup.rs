//! The functions that some addresses are in, without keeping a file's symbols: a browser has a million of them.
//!
//! Symbol tables are not sorted. They are read twice, in pieces:
//!
//! ```text
//!   first     of each address, the last beginning of a function before it     0x1000  0x1040  0x1040 ...
//!   second    of each such beginning, its best name, and where it ends        main    poll_once
//! ```
//!
//! The memory that it needs depends only on the number of addresses. The table of a Go program is sorted; it is used if there is no full
//! symbol table.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use object::elf::{self, Sym64};
use object::pod::slice_from_bytes;
use object::read::elf::{ProgramHeader, SectionHeader, Sym};
use object::{Endianness, ReadCache, ReadRef};

use super::functions::{LONGEST_NAME, code_rank, most_name_bytes, unversioned};
use super::{Elf, ElfError, LARGEST_TABLE};

/// The size of a symbol, in bytes.
const SYMBOL: usize = size_of::<Sym64<Endianness>>();

/// Symbols that are read at a time.
const SYMBOLS: usize = 4096;

/// Bytes of a name that are read at a time.
const NAME_PIECE: usize = 256;

/// Where a symbol table and its names are in their file, in bytes.
#[derive(Clone, Debug)]
struct Table {
    symbols: (u64, u64),
    strings: (u64, u64),
    /// How many more bytes of names are read: a piece of each name, and the rest of long ones.
    left: Cell<u64>,
}

/// A file with symbols.
struct Source<'f> {
    file: &'f File,
    endian: Endianness,
    tables: Vec<Table>,
    is_complete: bool,
}

/// The best name of a symbol at an address.
#[derive(Clone, Debug, Default)]
struct Best {
    /// See [`code_rank`].
    name: Option<(u8, String)>,
    /// The end of the longest symbol that begins there.
    end: u64,
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// Where code will be once it is loaded, even in a file that contains only stripped parts.
    fn code_ranges(&self) -> Vec<(u64, u64)> {
        let headers = self.program_headers;
        let is_code = |header: &&elf::ProgramHeader64<Endianness>| {
            header.p_type(self.endian) == elf::PT_LOAD
                && header.p_flags(self.endian).contains(elf::PF_X)
        };
        let range = |header: &elf::ProgramHeader64<Endianness>| {
            let start = header.p_vaddr(self.endian);
            (start, start.saturating_add(header.p_memsz(self.endian)))
        };
        headers.iter().filter(is_code).map(range).collect()
    }

    fn symbol_places(&self) -> Vec<Table> {
        let place = |header: &elf::SectionHeader64<Endianness>| {
            (header.sh_offset(self.endian), header.sh_size(self.endian))
        };
        let table = |(_, header): (bool, &'d elf::SectionHeader64<Endianness>)| {
            let strings = self.sections.section(header.link(self.endian)).ok()?;
            let (symbols, strings) = (place(header), place(strings));
            let pieces = (symbols.1 / SYMBOL as u64).saturating_mul(NAME_PIECE as u64);
            let left = Cell::new(most_name_bytes(strings.1).saturating_add(pieces));
            Some(Table { symbols, strings, left })
        };
        self.symbol_tables().into_iter().filter_map(table).collect()
    }
}

impl<'f> Source<'f> {
    /// Also returns the address ranges of its code.
    fn new(file: &'f File) -> Result<(Source<'f>, Vec<(u64, u64)>), ElfError> {
        let again = file.try_clone().map_err(|_| ElfError::Damaged("the file"))?;
        let data = ReadCache::new(again);
        let elf = Elf::parse(&data)?;
        let (endian, tables) = (elf.endian, elf.symbol_places());
        let source = Source { file, endian, tables, is_complete: elf.has_all_symbols() };
        Ok((source, elf.code_ranges()))
    }

    fn each_symbol(
        &self,
        go_on: &dyn Fn() -> bool,
        mut take: impl FnMut(&Table, &Sym64<Endianness>),
    ) -> Result<bool, ElfError> {
        let damaged = || ElfError::Damaged("a symbol table");
        let mut buffer = vec![0; SYMBOLS * SYMBOL];
        for table in &self.tables {
            let (mut at, size) = table.symbols;
            if size > LARGEST_TABLE || table.strings.1 > LARGEST_TABLE {
                return Err(damaged());
            }
            let mut left = size / SYMBOL as u64;
            while left > 0 {
                if !go_on() {
                    return Ok(false);
                }
                let count = left.min(SYMBOLS as u64) as usize;
                let bytes = &mut buffer[..count * SYMBOL];
                self.file.read_exact_at(bytes, at).map_err(|_| damaged())?;
                let (symbols, _) =
                    slice_from_bytes::<Sym64<Endianness>>(bytes, count).map_err(|()| damaged())?;
                symbols.iter().for_each(|symbol| take(table, symbol));
                at = at.checked_add(bytes.len() as u64).ok_or_else(damaged)?;
                left -= count as u64;
            }
        }
        Ok(true)
    }

    /// The name of a symbol, as in [`super::Functions`].
    fn name(&self, table: &Table, symbol: &Sym64<Endianness>) -> Option<String> {
        let (start, size) = table.strings;
        let offset = u64::from(symbol.st_name(self.endian));
        let most = size.checked_sub(offset)?.min(LONGEST_NAME as u64) as usize;
        let start = start.checked_add(offset)?;
        let mut bytes = Vec::new();
        while bytes.len() < most {
            table.left.set(table.left.get().checked_sub(NAME_PIECE as u64)?);
            let have = bytes.len();
            bytes.resize(most.min(have + NAME_PIECE), 0);
            let at = start.checked_add(have as u64)?;
            self.file.read_exact_at(&mut bytes[have..], at).ok()?;
            if let Some(end) = bytes[have..].iter().position(|byte| *byte == 0) {
                bytes.truncate(have + end);
                let text = std::str::from_utf8(&bytes).ok()?;
                return unversioned(text).map(str::to_owned);
            }
        }
        None
    }
}

/// Calls `take` with the linker's name of the function that contains each of `addresses`, in their order, if it is known. The addresses are
/// in ascending order. The first of `files` contains the code; all of them have symbols of the same build.
///
/// # Errors
/// Returns an error when a file is not an ELF file, or a symbol table is not within it.
pub fn functions_at(
    files: &[File],
    addresses: &[u64],
    take: impl FnMut(u64, &str),
) -> Result<(), ElfError> {
    functions_at_while(files, addresses, &|| true, take).map(drop)
}

/// Like [`functions_at`], but stops when `go_on` returns false; returns whether it reached the end.
///
/// # Errors
/// See [`functions_at`].
pub fn functions_at_while(
    files: &[File],
    addresses: &[u64],
    go_on: &dyn Fn() -> bool,
    mut take: impl FnMut(u64, &str),
) -> Result<bool, ElfError> {
    let mut sources = Vec::new();
    let mut code = Vec::new();
    for file in files {
        let (source, ranges) = Source::new(file)?;
        if sources.is_empty() {
            code = ranges;
        }
        sources.push(source);
    }
    let is_code = |address: u64| code.iter().any(|&(start, end)| (start..end).contains(&address));
    let begins = |source: &Source<'_>, symbol: &Sym64<Endianness>| {
        let rank = code_rank(symbol, source.endian)?;
        let address = symbol.st_value(source.endian);
        (symbol.st_name(source.endian) != 0 && is_code(address)).then_some((address, rank))
    };

    let go_files = files.iter().filter(|_| sources.iter().all(|source| !source.is_complete));
    let go_files: Vec<_> =
        go_files.filter_map(|file| Some((ReadCache::new(file.try_clone().ok()?), file))).collect();
    let go =
        go_files.iter().find_map(|(data, file)| Elf::parse(data).ok()?.backed_by(file).go_table());

    let mut last: Vec<Option<u64>> = vec![None; addresses.len()];
    for source in &sources {
        let is_whole = source.each_symbol(go_on, |_, symbol| {
            let Some((begin, _)) = begins(source, symbol) else { return };
            let next = addresses.partition_point(|address| *address < begin);
            if let Some(last) = last.get_mut(next) {
                *last = (*last).max(Some(begin));
            }
        })?;
        if !is_whole {
            return Ok(false);
        }
    }
    for at in 1..last.len() {
        last[at] = last[at].max(last[at - 1]);
    }

    let mut starts: Vec<u64> = last.iter().flatten().copied().collect();
    starts.dedup();
    let mut best = vec![Best::default(); starts.len()];
    for source in &sources {
        let is_whole = source.each_symbol(go_on, |table, symbol| {
            let Some((begin, rank)) = begins(source, symbol) else { return };
            let Ok(at) = starts.binary_search(&begin) else { return };
            let best = &mut best[at];
            if best.name.as_ref().is_some_and(|(known, _)| *known < rank) {
                best.end = best.end.max(end_of(symbol, source.endian));
                return;
            }
            let Some(name) = source.name(table, symbol) else { return };
            best.end = best.end.max(end_of(symbol, source.endian));
            let name = Some((rank, name));
            if best.name.is_none() || name < best.name {
                best.name = name;
            }
        })?;
        // Another name may be better than the known one.
        if !is_whole {
            return Ok(false);
        }
    }
    for (&address, last) in addresses.iter().zip(&last) {
        if let Some(name) = go.as_ref().and_then(|table| table.function(address)) {
            take(address, &name);
            continue;
        }
        let found = last.and_then(|last| starts.binary_search(&last).ok()).map(|at| &best[at]);
        if let Some(Best { name: Some((_, name)), end }) = found
            && address < *end
        {
            take(address, name);
        }
    }
    Ok(true)
}

/// The end of a function; no address if the file does not contain its size.
fn end_of(symbol: &Sym64<Endianness>, endian: Endianness) -> u64 {
    match symbol.st_size(endian) {
        0 => u64::MAX,
        size => symbol.st_value(endian).saturating_add(size),
    }
}

/// The address of the global label or function with this name.
///
/// # Errors
/// Returns an error when it is not an ELF file, or a symbol table is not within it.
pub fn label(file: &File, wanted: &str) -> Result<Option<u64>, ElfError> {
    let (source, _) = Source::new(file)?;
    let mut found = None;
    source.each_symbol(&|| true, |table, symbol| {
        let is_likely = found.is_none()
            && symbol.st_bind() == elf::STB_GLOBAL
            && matches!(symbol.st_type(), elf::STT_NOTYPE | elf::STT_FUNC)
            && !symbol.is_undefined(source.endian);
        if is_likely && source.name(table, symbol).is_some_and(|name| name == wanted) {
            found = Some(symbol.st_value(source.endian));
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test program itself, which has some ten thousand functions.
    fn own() -> File {
        File::open(std::env::current_exe().expect("its path")).expect("it is there")
    }

    #[test]
    fn addresses_are_in_the_same_functions_as_when_all_symbols_are_kept() {
        let file = own();
        let data = ReadCache::new(file.try_clone().expect("a descriptor"));
        let elf = Elf::parse(&data).expect("sound");
        let functions = elf.functions().expect("sound");
        assert!(functions.all.len() > 1000, "{}", functions.all.len());
        let mut addresses: Vec<u64> = functions
            .all
            .iter()
            .step_by(7)
            .flat_map(|it| [it.address.saturating_sub(1), it.address, it.address + 5])
            .collect();
        addresses.extend([0, 1, u64::MAX - 1]);
        addresses.sort_unstable();
        addresses.dedup();
        let mut found = Vec::new();
        functions_at(&[file], &addresses, |at, name| found.push((at, name.to_owned())))
            .expect("sound");
        let expected: Vec<(u64, String)> = addresses
            .iter()
            .filter_map(|&at| Some((at, functions.at(at)?.0.raw.clone())))
            .collect();
        assert!(expected.len() > 500, "{}", expected.len());
        let different = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(different, None);
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn names_are_looked_for_as_long_as_there_is_time() {
        let functions = {
            let data = ReadCache::new(own());
            Elf::parse(&data).expect("sound").functions().expect("sound")
        };
        let address = [functions.all[functions.all.len() / 2].address];
        let asked = Cell::new(0);
        let (mut needed, mut found) = (0, 0);
        for most in 0.. {
            asked.set(0);
            let go_on = || asked.replace(asked.get() + 1) < most;
            let named = functions_at_while(&[own()], &address, &go_on, |_, _| found += 1);
            if named.expect("sound") {
                needed = most;
                break;
            }
            assert_eq!((found, asked.get()), (0, most + 1));
        }
        assert!(needed >= 4, "its tables are read twice, in pieces: {needed}");
        assert_eq!(found, 1);
    }

    #[test]
    fn a_label_is_found_by_its_name() {
        let (file, data) = (own(), ReadCache::new(own()));
        let functions = Elf::parse(&data).expect("sound").functions().expect("sound");
        let main = functions.all.iter().find(|it| it.raw == "main").expect("a program has it");
        assert_eq!(label(&file, "main"), Ok(Some(main.address)));
        assert_eq!(label(&file, "no such label"), Ok(None));
    }

    #[test]
    fn names_are_read_as_far_as_a_table_of_names_goes() {
        let file = own();
        let (mut source, _) = Source::new(&file).expect("sound");
        let read_all = |source: &Source<'_>| {
            let mut read = 0;
            let each = |table: &Table, symbol: &Sym64<Endianness>| {
                read += u64::from(source.name(table, symbol).is_some());
            };
            source.each_symbol(&|| true, each).expect("sound");
            read
        };
        assert!(read_all(&source) > 5000);
        // Reads as far as a thousand pieces reach, whatever names the other symbols have.
        source.tables.iter_mut().for_each(|table| table.left = Cell::new(0));
        source.tables[0].left.set(1000 * NAME_PIECE as u64);
        assert!((1..=1000).contains(&read_all(&source)));
    }

    #[test]
    fn a_symbol_table_of_any_size_is_damaged_at_most() {
        let mut file = std::fs::read("/bin/true").expect("every system has it");
        let sections = u64::from_le_bytes(file[40..48].try_into().expect("8 bytes")) as usize;
        for at in (sections..file.len() - 63).step_by(64) {
            file[at + 32..at + 40].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
        }
        let mut damaged = tempfile::tempfile().expect("room");
        std::io::Write::write_all(&mut damaged, &file).expect("room");
        let found = functions_at(&[damaged], &[0x1000], |_, _| {});
        assert_eq!(found, Err(ElfError::Damaged("a symbol table")));
    }

    #[test]
    fn files_that_are_cut_off_or_none_are_errors_or_tell_less() {
        let whole = std::fs::read("/bin/true").expect("every system has it");
        let addresses: Vec<u64> = (0..whole.len() as u64).step_by(16).collect();
        for part in 0..40 {
            let mut file = tempfile::tempfile().expect("room");
            std::io::Write::write_all(&mut file, &whole[..whole.len() * part / 40]).expect("room");
            let _ = functions_at(&[file.try_clone().expect("a descriptor")], &addresses, |_, _| {});
            let _ = label(&file, "main");
        }
    }
}
