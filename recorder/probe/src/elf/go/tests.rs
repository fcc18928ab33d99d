//! Hand-made tables of each version, and damaged ones.

use super::super::frames::usable;
use super::super::tests::section_header;
use super::super::{CostlyRange, Elf};
use super::*;

/// The program from which damaged programs are derived.
const ALONE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/elf/alone"));

/// The addresses of a table's functions.
const TEXT: u64 = 0x40_0100;

const LEAF: u8 = 0;
const TOP: u8 = 1;
const SWITCH: u8 = 2;

/// A function: its name, its size, its flags, and lists of file, line and frame size, each a value and the number of bytes that have it.
struct Made {
    name: &'static str,
    size: u64,
    flags: u8,
    files: &'static [(i32, u32)],
    lines: &'static [(i32, u32)],
    frames: &'static [(i32, u32)],
}

const MADE: [Made; 4] = [
    Made {
        name: "main.waits",
        size: 0x40,
        flags: LEAF,
        files: &[(0, 0x10), (1, 0x20), (0, 0x10)],
        lines: &[(10, 4), (300, 0x2C), (11, 0x10)],
        frames: &[(0, 4), (24, 0x38), (0, 4)],
    },
    Made {
        name: "runtime.futex",
        size: 0x20,
        flags: LEAF,
        files: &[(1, 0x20)],
        lines: &[(7, 0x20)],
        frames: &[(0, 0x20)],
    },
    Made {
        name: "runtime.mcall",
        size: 0x20,
        flags: SWITCH,
        files: &[(1, 0x20)],
        lines: &[(8, 0x20)],
        frames: &[(0, 0x20)],
    },
    Made {
        name: "runtime.goexit",
        size: 0x10,
        flags: TOP,
        files: &[(1, 0x10)],
        lines: &[(9, 0x10)],
        frames: &[(0, 0x10)],
    },
];

const FILES: [&str; 2] = ["app/main.go", "runtime/asm.s"];

/// Consecutive bytes, and their offsets.
fn put(to: &mut Vec<u8>, from: usize, bytes: &[u8]) -> u32 {
    let at = to.len() - from;
    to.extend(bytes);
    at as u32
}

fn list(values: &[(i32, u32)]) -> Vec<u8> {
    let (mut bytes, mut before) = (Vec::new(), -1);
    let mut put = |mut number: u32| {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    for (value, length) in values {
        let change = value - before;
        put(((change << 1) ^ (change >> 31)) as u32);
        put(*length);
        before = *value;
    }
    put(0);
    bytes
}

/// A table of [`MADE`]; its header places the text at `text`.
fn table(version: Version, text: u64) -> Vec<u8> {
    let magic: u32 = match version {
        Version::Go2 => 0xFFFF_FFFB,
        Version::Go16 => 0xFFFF_FFFA,
        Version::Go18 => 0xFFFF_FFF0,
        Version::Go20 => 0xFFFF_FFF1,
    };
    let is_new = version >= Version::Go18;
    let mut to = [&magic.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
    let count = MADE.len();
    to.extend((count as u64).to_le_bytes());
    let header = to.len();
    let words = if is_new { 7 } else { 6 };
    let header_of = |word: usize| header + (word - 1) * 8;
    if version == Version::Go2 {
        // Its functions are in this section.
        to.resize(header + count * 16 + 8 + 4, 0);
    } else {
        to.resize(header + words * 8, 0);
    }
    let from = |part: usize| if version == Version::Go2 { 0 } else { part };
    let set = |to: &mut Vec<u8>, word: usize, value: usize| {
        if version != Version::Go2 {
            let at = header_of(word);
            to[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
        }
    };
    let first = if is_new { 3 } else { 2 };
    if is_new {
        set(&mut to, 2, text as usize);
    }
    let names_at = to.len();
    set(&mut to, first, names_at);
    // The first name of a part has the offset 0, which means "no name" in some fields.
    let names: Vec<u32> = MADE
        .iter()
        .map(|made| put(&mut to, from(names_at), &[made.name.as_bytes(), &[0]].concat()))
        .collect();
    let files_at = to.len();
    let files: Vec<u32> = FILES
        .iter()
        .map(|file| put(&mut to, from(files_at), &[file.as_bytes(), &[0]].concat()))
        .collect();
    to.resize(to.len().next_multiple_of(8), 0);
    let units_at = to.len();
    for file in &files {
        to.extend(file.to_le_bytes());
    }
    set(&mut to, first + 1, units_at);
    set(&mut to, first + 2, files_at);
    let values_at = to.len();
    set(&mut to, first + 3, values_at);
    to.push(0);
    let lists: Vec<[u32; 3]> = MADE
        .iter()
        .map(|made| {
            [made.frames, made.files, made.lines]
                .map(|values| put(&mut to, from(values_at), &list(values)))
        })
        .collect();
    to.resize(to.len().next_multiple_of(8), 0);
    let functions_at = to.len();
    set(&mut to, first + 4, functions_at);
    let width = field(version);
    let list_at = if version == Version::Go2 { 16 } else { functions_at };
    if version != Version::Go2 {
        to.resize(functions_at + count * 2 * width + width, 0);
    }
    let mut address = TEXT;
    for (number, made) in MADE.iter().enumerate() {
        let entry = if is_new { address - TEXT } else { address }.to_le_bytes();
        let at = (to.len() - from(functions_at)) as u64;
        let place = list_at + number * 2 * width;
        to[place..place + width].copy_from_slice(&entry[..width]);
        to[place + width..place + 2 * width].copy_from_slice(&at.to_le_bytes()[..width]);
        to.extend(&entry[..width]);
        let [frames, files, lines] = lists[number];
        let mut fields = vec![names[number], 0, 0, frames, files, lines, 0];
        if version != Version::Go2 {
            fields.push(0);
        }
        if version == Version::Go20 {
            fields.push(1);
        }
        fields.push(u32::from(made.flags) << 8);
        fields.iter().for_each(|field| to.extend(field.to_le_bytes()));
        address += made.size;
    }
    let end = if is_new { address - TEXT } else { address }.to_le_bytes();
    let place = list_at + count * 2 * width;
    to[place..place + width].copy_from_slice(&end[..width]);
    if version == Version::Go2 {
        let units = units_at as u32;
        to[place + 8..place + 12].copy_from_slice(&units.to_le_bytes());
    }
    to
}

const VERSIONS: [Version; 4] = [Version::Go2, Version::Go16, Version::Go18, Version::Go20];

fn parsed(bytes: &[u8]) -> Option<GoTable<'_>> {
    GoTable::parse(Content::Memory(bytes.into()), || None)
}

#[test]
fn each_version_tells_functions_files_and_lines() {
    for version in VERSIONS {
        let bytes = table(version, TEXT);
        let table = parsed(&bytes).unwrap_or_else(|| panic!("{version:?}"));
        let of = |address: u64| table.function(TEXT + address).unwrap_or_default();
        assert_eq!(of(0), "main.waits", "{version:?}");
        assert_eq!((of(0x3F), of(0x40)), ("main.waits".to_owned(), "runtime.futex".to_owned()));
        assert_eq!((of(0x8F), of(0x90)), ("runtime.goexit".to_owned(), String::new()));
        assert_eq!(table.function(TEXT - 1), None);
        let line = |address: u64| {
            let Line { function, file, line } = table.line(TEXT + address).expect("a line");
            (function.expect("a name"), file.expect("a file"), line.expect("a number"))
        };
        let of_main = |file: &str, line| ("main.waits".to_owned(), file.to_owned(), line);
        assert_eq!(line(0), of_main(FILES[0], 10), "{version:?}");
        assert_eq!(line(0x0F), of_main(FILES[0], 300));
        assert_eq!(line(0x10), of_main(FILES[1], 300), "inlined from another file");
        assert_eq!(line(0x3F), of_main(FILES[0], 11));
        let functions = table.functions();
        let sizes: Vec<_> = functions.iter().map(|it| (it.address - TEXT, it.size)).collect();
        let expected = [(0, 0x40), (0x40, 0x20), (0x60, 0x20), (0x80, 0x10)];
        assert_eq!(sizes, expected.map(|(at, size)| (at, Some(size))), "{version:?}");
    }
}

#[test]
fn the_text_is_where_the_program_says_if_the_table_does_not() {
    let bytes = table(Version::Go20, 0);
    assert!(parsed(&bytes).is_none());
    let table = GoTable::parse(Content::Memory(bytes[..].into()), || Some(TEXT)).expect("sound");
    assert_eq!(table.function(TEXT + 0x40).as_deref(), Some("runtime.futex"));
}

/// A program with this table, in a separate section.
fn program(table: &[u8]) -> Vec<u8> {
    let mut file = ALONE.to_vec();
    let name = b".debug_aranges\0";
    let at = file.windows(name.len()).position(|it| it == name).expect("it has that");
    file[at..at + SECTIONS[0].len() + 1].copy_from_slice(b".gopclntab\0");
    let at = file.len() as u64;
    file.extend(table);
    for (field, value) in [(24, at), (32, table.len() as u64)] {
        section_header(&mut file, b".gopclntab", field, value);
    }
    file
}

/// A table whose functions are in the code of [`ALONE`].
fn table_of_alone(version: Version) -> Vec<u8> {
    let elf = Elf::parse(ALONE).expect("sound");
    let code = elf.segments().iter().find(|it| it.executable && it.size > 0x100).expect("code");
    assert!(elf.is_executable(TEXT) && elf.is_executable(TEXT + 0x8F), "{code:x?}");
    table(version, TEXT)
}

#[test]
fn a_go_functions_frame_has_the_size_that_the_runtime_knows() {
    for version in [Version::Go18, Version::Go20] {
        let file = program(&table_of_alone(version));
        let elf = Elf::parse(&*file).expect("sound");
        let frames = go_frames(&elf, 1 << 20).expect("it is a Go program");
        let rules = rules_of(&frames);
        let at = |address: u64| rules(TEXT + address);
        assert_eq!(at(0), (8, false), "{version:?}: at the beginning");
        assert_eq!(
            (at(3), at(4), at(0x3B), at(0x3C)),
            ((8, false), (32, true), (32, true), (8, false))
        );
        assert_eq!(at(0x50), (8, false), "assembly without a frame");
        let mut usable = usable((&frames.bytes, frames.address), None).expect("what we made");
        assert!(usable.index.is_some() && usable.costly.is_empty());
        frames.mark(&mut usable.costly);
        let (start, end) = (TEXT + 0x60, TEXT + 0x80);
        assert_eq!(usable.costly, [CostlyRange { start, end, work: u32::MAX }]);
        assert!(go_frames(&elf, frames.bytes.len() - 1).is_none(), "no room");
    }
    let older = program(&table_of_alone(Version::Go16));
    assert!(go_frames(&Elf::parse(&*older).expect("sound"), 1 << 20).is_none());
}

#[test]
fn a_table_that_is_read_in_pages_tells_the_same() {
    let without_sections = |file: &[u8]| {
        let mut file = file.to_vec();
        // The header's offset, number and index of names of section headers.
        file[0x28..0x30].fill(0);
        file[0x3A..0x40].fill(0);
        file
    };
    for version in VERSIONS {
        let whole = program(&table_of_alone(version));
        for bytes in [whole.clone(), without_sections(&whole)] {
            let mut file = tempfile::tempfile().expect("room");
            std::io::Write::write_all(&mut file, &bytes).expect("room");
            let in_memory = Elf::parse(&*bytes).expect("sound");
            let in_file = Elf::parse(&*bytes).expect("sound").backed_by(&file);
            let functions = |elf: &Elf<'_, &[u8]>| {
                let functions = elf.go_table().map(|table| table.functions());
                functions.map(|all| all.into_iter().map(|it| it.raw).collect::<Vec<_>>())
            };
            assert_eq!(functions(&in_file), functions(&in_memory), "{version:?}");
            assert_eq!(in_file.symbol_bytes(), in_memory.symbol_bytes(), "{version:?}");
            let frames = |elf| go_frames(elf, 1 << 20).map(|frames| frames.bytes);
            assert_eq!(frames(&in_file), frames(&in_memory), "{version:?}");
        }
        assert!(Elf::parse(&*whole).expect("sound").go_table().is_some(), "{version:?}");
    }
}

/// The distance of the caller's stack pointer from that of a function, and whether its frame pointer is in the frame.
fn rules_of(frames: &Frames) -> impl Fn(u64) -> (i64, bool) {
    use gimli::{
        BaseAddresses, CfaRule, EhFrame, LittleEndian, RegisterRule, UnwindContext, UnwindSection,
        X86_64,
    };
    move |address| {
        let mut section = EhFrame::new(&frames.bytes, LittleEndian);
        section.set_address_size(8);
        let bases = BaseAddresses::default().set_eh_frame(frames.address);
        let mut context = UnwindContext::new();
        let row = section
            .unwind_info_for_address(&bases, &mut context, address, EhFrame::cie_from_offset)
            .expect("it has rules");
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { panic!("{row:?}") };
        assert_eq!(register, X86_64::RSP);
        let saved = matches!(row.register(X86_64::RBP), Some(RegisterRule::Offset(-16)));
        assert_eq!(row.register(X86_64::RA), Some(RegisterRule::Offset(-8)));
        (offset, saved)
    }
}

#[test]
fn what_is_expensive_stays_so_around_what_is_marked() {
    let costly = |start, end, work| CostlyRange { start, end, work };
    let frames = |switches| Frames { bytes: Vec::new(), address: 0, switches };
    let mut marked = vec![costly(0, 100, 600), costly(200, 300, 700)];
    frames(vec![(40, 60), (290, 310)]).mark(&mut marked);
    let most = u32::MAX;
    let expected = [
        costly(0, 40, 600),
        costly(40, 60, most),
        costly(60, 100, 600),
        costly(200, 290, 700),
        costly(290, 310, most),
    ];
    assert_eq!(marked, expected);
}

#[test]
fn tables_that_are_cut_off_or_damaged_say_less_and_end() {
    for version in VERSIONS {
        let sound = table(version, TEXT);
        for length in 0..sound.len() {
            let Some(table) = parsed(&sound[..length]) else { continue };
            table.functions();
            table.line(TEXT + 0x10);
        }
        for at in 8..sound.len() {
            for value in [0, 0x7F, 0xFF] {
                let mut bytes = sound.clone();
                bytes[at] = value;
                let Some(table) = parsed(&bytes) else { continue };
                assert!(table.functions().len() <= bytes.len());
                for address in (0..0x100).step_by(0x11) {
                    table.line(TEXT + address);
                }
            }
        }
    }
}

#[test]
fn a_list_of_values_is_followed_for_a_limited_number_of_steps() {
    let mut bytes = table(Version::Go20, TEXT);
    // A list without an end, and values that apply to no bytes.
    let at = bytes.len();
    bytes.extend([2, 0].repeat(2 * MOST_STEPS));
    let table = parsed(&bytes).expect("sound");
    let offset = (at - table.values) as u32;
    let mut steps = 0;
    let end = table.each_value::<()>(offset, TEXT, |_, _| {
        steps += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((end, steps), (ControlFlow::Continue(()), MOST_STEPS));
}

#[test]
fn names_that_are_longer_together_than_a_sound_tables_are_left_out() {
    let mut bytes = table(Version::Go20, TEXT);
    let whole = parsed(&bytes).expect("sound").functions().len();
    assert_eq!(whole, MADE.len());
    // The same long name for each of a thousand functions.
    let parts = parsed(&bytes).expect("sound");
    let (names, functions) = (parts.names, parts.functions);
    let long = (bytes.len() - names) as u32;
    bytes.extend(vec![b'n'; LONGEST_NAME - 1]);
    bytes.push(0);
    let description = bytes.len();
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(long.to_le_bytes());
    let list = bytes.len();
    for number in 0..1001_u32 {
        bytes.extend((number * 16).to_le_bytes());
        bytes.extend(((description - functions) as u32).to_le_bytes());
    }
    let table = GoTable { list, count: 1000, ..parsed(&bytes).expect("sound") };
    let found = table.functions();
    assert!(!found.is_empty() && found.len() < 10, "{}", found.len());
}

#[test]
fn a_go_build_id_is_the_hash_of_the_content() {
    let with = |id: &[u8]| {
        let mut file = ALONE.to_vec();
        let hide = b".note.gnu.build-id\0";
        let at = file.windows(hide.len()).position(|it| it == hide).expect("it has that");
        file[at..at + hide.len()].copy_from_slice(b".note.go.buildid\0\0\0");
        let mut note = [4, id.len() as u32, 4].map(u32::to_le_bytes).concat();
        note.extend(b"Go\0\0");
        note.extend(id);
        let at = file.len() as u64;
        file.extend(&note);
        for (field, value) in [(24, at), (32, note.len() as u64)] {
            section_header(&mut file, b".note.go.buildid", field, value);
        }
        Elf::parse(&*file).expect("sound").build_id().map(<[u8]>::to_vec)
    };
    let content = b"ZI9pv5mbCACCybBn-NE_";
    let parts = |last: &[u8]| [b"HyImrTmZq52bdCI2GrqA/xpnAi9h5jqyT7I5OCl3u/", last].concat();
    assert_eq!(with(&parts(content)).as_deref(), Some(&content[..]));
    for other in
        [&b"redacted"[..], b"", content, &parts(&content[1..]), &parts(b"ZI9pv5mbCACCybBn NE_")]
    {
        assert_eq!(with(other), None, "{other:?}");
    }
}
