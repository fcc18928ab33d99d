//! Corrupted files. The test program itself is the valid file.

use super::*;

fn sound() -> Vec<u8> {
    // A small program that is always installed: it has enough tables, and is read quickly.
    ["/bin/true", "/usr/bin/true"]
        .iter()
        .find_map(|path| std::fs::read(path).ok())
        .expect("every system has true")
}

/// Runs every query on a file.
fn ask_everything(file: &[u8]) -> Result<usize, ElfError> {
    let elf = Elf::parse(file)?;
    let functions = elf.functions()?;
    let dynamic = elf.dynamic();
    elf.build_id();
    elf.variable("stdout");
    let code = elf.segments().iter().find(|segment| segment.executable);
    if let Some(code) = code {
        let _ = check_unnamed(&elf, code.address.saturating_add(code.size / 2));
    }
    let probes = crate::usdt::probes(&elf);
    for function in functions.all.iter().take(50) {
        let _ = check_bounds(&elf, &functions, function, "f", 5);
        functions.at(function.address);
    }
    select(&functions, "*a*");
    Ok(functions.all.len()
        + dynamic.map_or(0, |it| it.needed.len())
        + probes.map_or(0, |it| it.len()))
}

#[test]
fn a_sound_file_needs_libraries_and_maps_code() {
    let file = sound();
    let elf = Elf::parse(file.as_slice()).expect("sound");
    assert_eq!(elf.arch(), Arch::HOST);
    let dynamic = elf.dynamic().expect("sound");
    assert!(dynamic.needed.iter().any(|name| name.contains("libc")), "{dynamic:?}");
    let code = elf.segments().iter().find(|segment| segment.executable).expect("code");
    assert!(elf.is_executable(code.address) && !elf.is_executable(code.address + code.size));
    assert_eq!(elf.file_offset(code.address + 1), Some(code.offset + 1));
    assert_eq!(elf.mapped(code.address, 4).map(<[u8]>::len), Some(4));
    assert_eq!(elf.mapped(code.address + code.size - 2, 4).map(<[u8]>::len), Some(2));
}

#[test]
fn what_a_file_is_instead_is_reported() {
    let of = |bytes: &[u8]| Elf::parse(bytes).map(|_| ()).expect_err("no program").to_string();
    assert!(of(b"").contains("not an ELF file"));
    assert!(of(b"hello").contains("not an ELF file"));
    assert!(of(b"#! /bin/sh -e\nexit\n").contains("a script for /bin/sh -e"));
    assert!(of(b"\x7fELF\x01\x01\x01").contains("32-bit"));
    assert!(of(b"\x7fELF\x02\x01\x01").contains("damaged"));
    let mut file = sound();
    file[16] = 1;
    assert!(of(&file).contains("an object file (.o)"));
    file[16] = 4;
    assert!(of(&file).contains("a core dump"));
    file[18] = 8;
    assert!(of(&file).contains("another processor (ELF machine 8)"));
}

#[test]
fn a_file_cut_off_anywhere_is_an_error_or_has_less_in_it() {
    let file = sound();
    let all = ask_everything(&file).expect("sound");
    for step in 0..200 {
        if let Ok(found) = ask_everything(&file[..file.len() * step / 200]) {
            assert!(found <= all);
        }
    }
}

/// A sparse file, larger than the disk space that it takes: reading all of it would take that much memory.
struct Holes(std::fs::File);

impl Holes {
    fn new(file: &[u8], length: u64) -> Holes {
        let mut hole = tempfile::tempfile().expect("room");
        std::io::Write::write_all(&mut hole, file).expect("room");
        hole.set_len(length).expect("a file can have holes");
        Holes(hole)
    }

    fn data(&self) -> FileData {
        data_of(self.0.try_clone().expect("a descriptor"))
    }
}

/// Writes over one field of the header of the section of a name.
pub(super) fn section_header(file: &mut [u8], name: &[u8], field: usize, value: u64) {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes"));
    let (table, strings) = (number(40) as usize, usize::from(file[62]));
    let texts = number(table + 64 * strings + 24) as usize;
    let name_of = |at: usize| {
        let begin = texts + u32::from_le_bytes(file[at..at + 4].try_into().expect("4")) as usize;
        file[begin..].split(|byte| *byte == 0).next() == Some(name)
    };
    let headers = (0..usize::from(file[60])).map(|at| table + 64 * at);
    let at = headers.into_iter().find(|at| name_of(*at)).expect("the section");
    file[at + field..at + field + 8].copy_from_slice(&value.to_le_bytes());
}

const SIZE: usize = 32;

#[test]
fn sections_that_are_as_long_as_a_file_with_holes_are_not_read() {
    let mut file = sound();
    section_header(&mut file, b".note.gnu.build-id", SIZE, 1 << 30);
    section_header(&mut file, b".eh_frame", SIZE, 1 << 40);
    let holes = Holes::new(&file, 1 << 41);
    let data = holes.data();
    let elf = Elf::parse(&data).expect("its head is sound");
    assert_eq!(elf.build_id(), None);
    assert_eq!(elf.section_within(".eh_frame", 64 << 20), None);
    assert!(elf.section(".eh_frame").is_err());
    let (header, _) = elf.section_within(".eh_frame_hdr", 64 << 20).expect("it is sound");
    assert!(header.len() > 8, "{}", header.len());
}

#[test]
fn a_file_of_millions_of_sections_has_none() {
    const LENGTH: u64 = 1 << 40;
    let mut file = sound();
    let first = u64::from_le_bytes(file[40..48].try_into().expect("8 bytes")) as usize;
    // The first section's size is the number of sections, its reference the number of segments.
    file[first + 32..first + 40].copy_from_slice(&(1_u64 << 24).to_le_bytes());
    file[first + 44..first + 48].copy_from_slice(&(1_u32 << 24).to_le_bytes());
    let mut sections = file.clone();
    sections[60..62].fill(0);
    let holes = Holes::new(&sections, LENGTH);
    let data = holes.data();
    let elf = Elf::parse(&data).expect("what is loaded is sound");
    assert_eq!((elf.build_id(), elf.segments().len() > 1), (None, true));
    let mut segments = file;
    segments[56..58].fill(0xFF);
    let holes = Holes::new(&segments, LENGTH);
    let data = holes.data();
    assert_eq!(Elf::parse(&data).err(), Some(ElfError::Damaged("its program headers")));
}

/// A program of these symbols, each with the same name.
fn of_one_name(symbols: usize, name: usize) -> Vec<u8> {
    let mut file = sound();
    let text = file.len();
    file.extend(vec![b'a'; name]);
    file.push(0);
    let table = file.len();
    let code = {
        let elf = Elf::parse(file.as_slice()).expect("sound");
        elf.segments().iter().find(|it| it.executable).expect("code").address
    };
    for _ in 0..symbols {
        // Its name, a global function in section 1, its address and size.
        file.extend(0_u32.to_le_bytes());
        file.extend([0x12, 0, 1, 0]);
        file.extend(code.to_le_bytes());
        file.extend(16_u64.to_le_bytes());
    }
    for (field, value) in [(24, table as u64), (SIZE, symbols as u64 * 24)] {
        section_header(&mut file, b".dynsym", field, value);
    }
    for (field, value) in [(24, text as u64), (SIZE, name as u64 + 1)] {
        section_header(&mut file, b".dynstr", field, value);
    }
    file
}

#[test]
fn a_symbol_table_whose_symbols_all_have_its_longest_name_is_damaged() {
    let functions = |symbols| {
        let file = of_one_name(symbols, 30_000);
        Elf::parse(file.as_slice()).expect("sound").functions().map(|it| it.all.len())
    };
    assert_eq!(functions(3), Ok(1));
    assert_eq!(functions(20_000), Err(ElfError::Damaged("a symbol table")));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(200))]

    #[test]
    fn no_lie_in_the_headers_makes_it_panic(
        lies in proptest::collection::vec(
            (0_usize..0x400, proptest::sample::select(vec![0_u8, 1, 0x7F, 0x80, 0xFF])), 1..6,
        ),
    ) {
        let mut file = sound();
        for (at, byte) in lies {
            // Other tests damage the first bytes.
            file[16 + at] = byte;
        }
        let _ = ask_everything(&file);
    }

    #[test]
    fn no_lie_in_the_section_headers_makes_it_panic(
        lies in proptest::collection::vec(
            (proptest::num::usize::ANY, proptest::num::u8::ANY), 1..8,
        ),
    ) {
        let mut file = sound();
        let at = u64::from_le_bytes(file[40..48].try_into().expect("8 bytes")) as usize;
        let length = file.len() - at;
        for (place, byte) in lies {
            file[at + place % length] = byte;
        }
        let _ = ask_everything(&file);
    }
}
