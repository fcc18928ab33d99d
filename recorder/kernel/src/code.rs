//! Where code is in memory: the executable mappings of processes, the kernel and its modules, and the kernel's symbols.
//!
//! All of this is text below `/proc` and `/sys`, which is read on request and never on the path of an event.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::procfs::living;
use crate::symbols::KernelSymbols;

/// A part of a process's memory that can be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutableMapping {
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Whether it can be read and written, in bits 0 and 1; bit 2 is set.
    pub flags: u8,
    /// Where in its file it begins, in bytes.
    pub offset: u64,
    /// Its device and inode, which identify a file; `None` if there is no file.
    pub file: Option<(String, u64)>,
    /// The path in the process's view, or the kernel's name, such as `[vdso]`; empty if there is neither.
    pub path: PathBuf,
}

impl ExecutableMapping {
    /// Whether `address` is in it.
    pub fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Its memory use, in bytes.
    pub fn bytes(&self) -> usize {
        const PIECE: usize = 16;
        let device = self.file.as_ref().map_or(0, |(device, _)| device.len() + PIECE);
        size_of::<ExecutableMapping>() + device + self.path.as_os_str().len() + PIECE
    }
}

/// The maximum size of a process's mappings that are kept, in bytes: a program may have 65 530, with paths of 4 KiB.
const MOST_BYTES: usize = 16 << 20;

/// The executable mappings of the process `pid`, by address: only the first ones if there are very many.
///
/// # Errors
/// Returns an error when the process has ended, or must not be inspected.
pub fn executable_mappings(pid: u32) -> io::Result<Vec<ExecutableMapping>> {
    let file = File::open(format!("/proc/{}/maps", living(pid)))?;
    read_mappings(BufReader::new(file), MOST_BYTES)
}

/// The mappings in a file `/proc/PID/maps`, up to this total size.
fn read_mappings(mut file: impl BufRead, most: usize) -> io::Result<Vec<ExecutableMapping>> {
    let (mut found, mut line, mut bytes) = (Vec::new(), Vec::new(), 0);
    while file.read_until(b'\n', &mut line)? > 0 {
        if let Some((true, mapping)) = mapping(line.strip_suffix(b"\n").unwrap_or(&line)) {
            bytes += mapping.bytes();
            if bytes > most {
                break;
            }
            found.push(mapping);
        }
        line.clear();
    }
    Ok(found)
}

/// The executable mappings in a file `/proc/PID/maps`.
pub fn mappings_in(text: &[u8]) -> impl Iterator<Item = ExecutableMapping> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter_map(mapping).filter_map(|(is_executable, it)| is_executable.then_some(it))
}

/// A line of `/proc/PID/maps`, and whether its memory is executable.
fn mapping(line: &[u8]) -> Option<(bool, ExecutableMapping)> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (field, behind) = rest.split_at(end);
        rest = behind;
        std::str::from_utf8(field).ok()
    };
    let (range, permissions, offset, device, inode) =
        (field()?, field()?, field()?, field()?, field()?);
    let permissions = permissions.as_bytes();
    let is_executable = permissions.get(2) == Some(&b'x');
    let (start, end) = range.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, inode) = (hex(start)?, hex(end)?, inode.parse::<u64>().ok()?);
    let flags = u8::from(permissions.first() == Some(&b'r'))
        | u8::from(permissions.get(1) == Some(&b'w')) << 1
        | 1 << 2;
    let path = rest.trim_ascii_start().to_vec();
    let mapping = || ExecutableMapping {
        start,
        end,
        flags,
        offset: hex(offset).unwrap_or_default(),
        file: (inode != 0).then(|| (device.to_owned(), inode)),
        path: PathBuf::from(OsString::from_vec(path)),
    };
    (start < end).then(|| (is_executable, mapping()))
}

/// An open file's device and inode, as in the kernel's list of mappings.
///
/// # Errors
/// Returns an error when it cannot be mapped.
pub fn listed_as(file: &File) -> io::Result<(String, u64)> {
    let one = NonZeroUsize::MIN;
    // SAFETY: a new mapping at an address that the kernel chooses, which is never read or written.
    let at = unsafe { mmap(None, one, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE, file, 0)? };
    let start = at.addr().get() as u64;
    let text = std::fs::read("/proc/self/maps");
    // SAFETY: it is the mapping from above, which nothing refers to.
    unsafe { munmap(at, one.get())? };
    let text = text?;
    let mut mappings = text.split(|&byte| byte == b'\n').filter_map(mapping);
    // Adjacent parts of one file are one mapping.
    let found = mappings.find(|(_, found)| found.has(start)).and_then(|(_, found)| found.file);
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A part of the kernel's memory that contains code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    /// Its name: a module's name, or `kernel`.
    pub name: String,
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its build id, if it has one.
    pub build_id: Vec<u8>,
}

/// The kernel's code: names and addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCode {
    pub modules: Vec<KernelModule>,
    symbols: Arc<KernelSymbols>,
}

impl KernelCode {
    /// The running kernel's code. If the kernel hides addresses, there is none.
    pub fn read(symbols: Arc<KernelSymbols>) -> KernelCode {
        let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
        let build_id = |path: &Path| std::fs::read(path).map(|notes| gnu_build_id(&notes).to_vec());
        KernelCode::of(symbols, &modules, |name| {
            let path = match name {
                KERNEL => PathBuf::from("/sys/kernel/notes"),
                name => PathBuf::from(format!("/sys/module/{name}/notes/.note.gnu.build-id")),
            };
            build_id(&path).unwrap_or_default()
        })
    }

    fn of(
        symbols: Arc<KernelSymbols>,
        modules: &str,
        build_id: impl Fn(&str) -> Vec<u8>,
    ) -> KernelCode {
        let text = symbols.text;
        let mut code = KernelCode { modules: Vec::new(), symbols };
        let mut add = |name: &str, start: u64, end: u64| {
            if start != 0 && start < end {
                let (name, build_id) = (name.to_owned(), build_id(name));
                code.modules.push(KernelModule { name, start, end, build_id });
            }
        };
        if let [Some(start), Some(end)] = text {
            add(KERNEL, start, end);
        }
        for line in modules.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [name, size, _, _, _, address, ..] = fields[..] else { continue };
            let address = address.trim_start_matches("0x");
            if let (Ok(size), Ok(start)) = (size.parse::<u64>(), u64::from_str_radix(address, 16)) {
                add(name, start, start.saturating_add(size));
            }
        }
        code
    }

    /// The function whose code contains `address`: its name, and the offset in it.
    pub fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        self.symbols.function(address)
    }
}

/// The name of the kernel itself in the list of modules.
pub const KERNEL: &str = "kernel";

/// The GNU build id among ELF notes; empty if there is none.
pub fn gnu_build_id(notes: &[u8]) -> &[u8] {
    const BUILD_ID: u32 = 3;
    let mut rest = notes;
    while let Some((header, behind)) = rest.split_first_chunk::<12>() {
        let word = |at: usize| {
            let bytes = header.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let (name_size, size, kind) = (word(0) as usize, word(4) as usize, word(8));
        let Some((name, behind)) = behind.split_at_checked(name_size.next_multiple_of(4)) else {
            break;
        };
        let Some(content) = behind.get(..size) else { break };
        if kind == BUILD_ID && name.starts_with(b"GNU\0") {
            return content;
        }
        rest = behind.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_with_code_are_read_with_their_files() {
        let line = b"55d0a7c7e000-55d0a7c80000 r-xp 00002000 fd:01 1234  /opt/a b/x (deleted)";
        let mapping = |line: &[u8]| mappings_in(line).next();
        let found = mapping(line).expect("a mapping");
        assert_eq!((found.start, found.end), (0x55d0_a7c7_e000, 0x55d0_a7c8_0000));
        assert_eq!((found.flags, found.offset), (0b101, 0x2000));
        assert_eq!(found.file, Some(("fd:01".to_owned(), 1234)));
        assert_eq!(found.path, Path::new("/opt/a b/x (deleted)"));
        let vdso = b"7fff1000-7fff3000 r-xp 00000000 00:00 0                          [vdso]";
        let vdso = mapping(vdso).expect("a mapping");
        assert_eq!((vdso.file, vdso.path), (None, PathBuf::from("[vdso]")));
        let code_of_a_compiler = mapping(b"1000-2000 rwxp 00000000 00:00 0 ").expect("a mapping");
        assert_eq!((code_of_a_compiler.flags, code_of_a_compiler.path), (0b111, PathBuf::new()));
        for no in [
            &b""[..],
            b"1000-2000 r--p 00000000 00:00 0",
            b"2000-1000 r-xp 00000000 00:00 0",
            b"1000 r-xp 0 0 0",
            b"1000-2000 r-xp",
        ] {
            assert_eq!(mapping(no), None);
        }
    }

    #[test]
    fn of_very_many_mappings_as_many_are_read_as_there_is_room_for() {
        let path = "/x".repeat(2000);
        let line = |number: u64| format!("{number}000-{number}fff r-xp 0 fd:01 7 {path} \n");
        let text: String = (1..1000).map(line).collect();
        let all = read_mappings(text.as_bytes(), usize::MAX).expect("it is in memory");
        assert_eq!(all.len(), 999);
        assert_eq!(all, mappings_in(text.as_bytes()).collect::<Vec<_>>());
        let bytes: usize = all.iter().map(ExecutableMapping::bytes).sum();
        assert!((4000..4300).contains(&(bytes / all.len())), "{bytes}");
        let some = read_mappings(text.as_bytes(), bytes / 2).expect("it is in memory");
        assert!((490..500).contains(&some.len()) && some[..] == all[..some.len()]);
    }

    #[test]
    fn a_process_finds_its_own_code() {
        let own = executable_mappings(std::process::id()).expect("its own");
        let here = a_process_finds_its_own_code as fn() as usize as u64;
        let program = own.iter().find(|mapping| (mapping.start..mapping.end).contains(&here));
        let program = program.expect("this test is in one");
        assert!(program.file.is_some() && program.path.is_absolute(), "{program:?}");
    }

    #[test]
    fn a_file_is_listed_by_the_same_device_and_inode_wherever_it_is_mapped() {
        let own = executable_mappings(std::process::id()).expect("its own");
        let exe = std::env::current_exe().expect("it has one");
        let mapping = own.iter().find(|it| it.path == exe).expect("this test is in one");
        let listed = listed_as(&File::open(&exe).expect("it is there")).expect("it can be mapped");
        assert_eq!(Some(listed), mapping.file);
    }

    fn listed(symbols: &str) -> Arc<KernelSymbols> {
        let files = crate::fake::Fake::default().file("/proc/kallsyms", symbols);
        Arc::new(KernelSymbols::read(&files))
    }

    #[test]
    fn the_kernels_code_is_found_by_address() {
        let symbols = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t first\n\
                       ffffffff81000100 T alias\nffffffff81000200 T second\n\
                       ffffffff81000300 T _etext\nffffffff82000000 D data\n\
                       ffffffffa0000010 t loaded\t[mod]\nnonsense\n";
        let modules =
            "mod 8192 0 - Live 0xffffffffa0000000\nhidden 4096 0 - Live 0x0000000000000000\nbad\n";
        let code = KernelCode::of(listed(symbols), modules, |name| name.as_bytes().to_vec());
        let module = |name: &str, start, end| KernelModule {
            name: name.to_owned(),
            start,
            end,
            build_id: name.as_bytes().to_vec(),
        };
        let expected = [
            module("kernel", 0xffff_ffff_8100_0000, 0xffff_ffff_8100_0300),
            module("mod", 0xffff_ffff_a000_0000, 0xffff_ffff_a000_2000),
        ];
        assert_eq!(code.modules, expected);
        assert_eq!(code.symbol(0xffff_ffff_8100_01ff), Some(("first", 0xff)));
        assert_eq!(code.symbol(0xffff_ffff_a000_0010), Some(("loaded", 0)));
        assert_eq!(code.symbol(0x1000), None);
    }

    #[test]
    fn hidden_addresses_are_no_addresses() {
        let code = KernelCode::of(
            listed("0000000000000000 T _stext\n0000000000000000 T f\n"),
            "",
            |_| vec![],
        );
        assert_eq!(code, KernelCode::default());
    }

    #[test]
    fn a_build_id_is_found_among_notes_and_lengths_are_not_trusted() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut note = Vec::new();
            for word in [name.len() as u32, content.len() as u32, kind] {
                note.extend(word.to_ne_bytes());
            }
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let notes = [note(1, b"Linux\0", b"abcde"), note(3, b"GNU\0", &[1, 2, 3])].concat();
        assert_eq!(gnu_build_id(&notes), [1, 2, 3]);
        assert_eq!(gnu_build_id(&notes[..notes.len() - 4]), [0_u8; 0]);
        let mut hostile = note(3, b"GNU\0", &[1]);
        hostile[..8].fill(0xff);
        assert_eq!(gnu_build_id(&hostile), [0_u8; 0]);
    }
}
