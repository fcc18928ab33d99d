//! Files that lie. The test program itself is the sound one.

use super::*;

fn sound() -> Vec<u8> {
    // A small program that is always there: enough tables, and quickly gone through.
    ["/bin/true", "/usr/bin/true"]
        .iter()
        .find_map(|path| std::fs::read(path).ok())
        .expect("every system has true")
}

/// Asks everything of a file that can be asked.
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
fn what_a_file_is_instead_is_said() {
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
            // The first bytes are what other tests lie about.
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
