//! The process that reads files of recorded programs for the recorder: `fxtrec-files`.
//!
//! A file may be on a file system that never responds, or be crafted to take all available time and memory. In this separate process, a
//! crash or a hang affects nothing else: see [`super::files`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fxtrec_kernel::code::ExecutableMapping;
use fxtrec_kernel::made_code::{self, VDSO};
use fxtrec_kernel::regular::Regular;
use fxtrec_kernel::rights::Rights;
use fxtrec_kernel::worker::{self, Message};
use fxtrec_kernel::{process_files, shared_memory};
use fxtrec_probe::elf::{
    Arch, Budget, CostlyRange, Elf, FileData, Functions, Names as Readable, ReadRef, Segment,
    data_of, functions_at_while, go_frames, separate_debug_file_by, usable_frames,
};
use rustc_hash::FxHashMap;

use super::jit_code::functions_in;
use super::python::layout::Interpreter;
use super::python::objects;
use super::unwind::{Section, Tables};
use super::wire::{Packed, Words, kind};

/// The name of the process, by which the program recognizes its task.
pub const NAME: &str = "fxtrec-files";

/// The maximum memory that it may use, in bytes. Most of it is a reserve for malicious files: a browser or a compiler needs 40 MiB.
const MOST_MEMORY: u64 = 192 << 20;

/// The maximum size of functions that are kept, in bytes; beyond that, files are read again.
const MOST_FUNCTIONS: usize = 16 << 20;

/// The largest symbol tables that are read at once, in bytes; that takes two and a half times as much memory. Larger ones are read in
/// pieces.
const MOST_AT_ONCE: u64 = 48 << 20;

/// The largest symbol tables that are read while recording, in bytes: a browser's take 130 MB. Larger ones are left to `fxtrec symbolize`.
const MOST_SYMBOLS: u64 = 256 << 20;

/// The maximum number of bytes of names in an answer.
const MOST_NAMES: usize = 16 << 20;

/// Answers the recorder that started this process until it closes the connection.
///
/// # Errors
/// Returns an error when the recorder has ended.
pub fn run() -> io::Result<()> {
    let mut reader = Reader::default();
    worker::serve_as(MOST_MEMORY, |question, file| reader.answer(question, file))
}

/// The description of a file.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) build_id: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    /// Bytes of its symbol tables.
    pub(super) symbols: u64,
    /// Whether the file's process may read it, and therefore know the names of its functions. Otherwise the answer does not depend on its
    /// content.
    pub(super) is_readable: bool,
    /// The rights that determine which other files are opened for it.
    pub(super) rights: Rights,
    /// The Python interpreter in the file.
    pub(super) python: Option<Interpreter>,
    /// Tables to unwind its functions with.
    pub(super) tables: Option<Tables>,
}

impl Described {
    /// Describes a file, with tables that take at most `room` bytes.
    fn of<'d, R: ReadRef<'d>>(
        (elf, path): (&Elf<'d, R>, &Path),
        (rights, is_readable): (Rights, bool),
        room: usize,
    ) -> Option<Described> {
        let build_id = elf.build_id().filter(|_| is_readable);
        Some(Described {
            build_id: build_id.unwrap_or_default().to_vec(),
            segments: elf.segments().to_vec(),
            symbols: if is_readable { elf.symbol_bytes() } else { 0 },
            is_readable,
            rights,
            python: Interpreter::of(elf, path).filter(|_| is_readable),
            tables: tables(elf, room),
        })
    }

    fn packed(&self) -> Packed {
        let mut to = Packed::default();
        to.text(&self.build_id).number(self.symbols).number(self.is_readable.into());
        to.rights(&self.rights);
        to.number(self.segments.len() as u64);
        for segment in &self.segments {
            to.number(segment.address).number(segment.size).number(segment.offset);
            to.number(u64::from(segment.executable));
        }
        to.number(self.python.is_some().into());
        if let Some(python) = &self.python {
            python.pack(&mut to);
        }
        if let Some(Tables { frames, index, costly }) = &self.tables {
            for section in [frames, index] {
                to.number(section.address).text(&section.bytes);
            }
            for CostlyRange { start, end, work } in &**costly {
                to.number(*start).number(*end).number(u64::from(*work));
            }
        }
        to
    }

    pub(super) fn read(answer: &[u8]) -> Option<Described> {
        let mut from = Words::of(answer);
        let build_id = from.text()?.to_vec();
        let (symbols, is_readable) = (from.number()?, from.number()? != 0);
        let rights = from.rights()?;
        let mut segments = Vec::new();
        for _ in 0..from.number()? {
            let (address, size, offset) = (from.number()?, from.number()?, from.number()?);
            segments.push(Segment { address, size, offset, executable: from.number()? != 0 });
        }
        let python = match from.number()? {
            0 => None,
            _ => Some(Interpreter::read(&mut from)?),
        };
        let mut section = || Some((from.number()?, from.text()?));
        let mut section = || section().map(|(address, it)| Section { bytes: it.into(), address });
        let sections = section().zip(section());
        let costly = std::iter::from_fn(|| {
            let (start, end) = (from.number()?, from.number()?);
            Some(CostlyRange { start, end, work: from.small()? })
        });
        let tables =
            sections.map(|(frames, index)| Tables { frames, index, costly: costly.collect() });
        Some(Described { build_id, segments, symbols, is_readable, rights, python, tables })
    }
}

/// A request for names of functions of a file.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// The number of the file.
    pub(super) image: usize,
    /// Its path, for separate files of symbols.
    pub(super) path: &'a Path,
    pub(super) rights: &'a Rights,
    /// Whether to read and keep all functions, because more requests for this file will follow.
    pub(super) keep: bool,
    /// How long to look for names.
    pub(super) time: Duration,
    /// In ascending order, as addresses in the file.
    pub(super) addresses: &'a [u64],
}

/// Passes the names of an answer to `take`; returns whether they are complete.
pub(super) fn each_name(answer: &[u8], mut take: impl FnMut(u64, String)) -> Option<bool> {
    let mut from = Words::of(answer);
    let is_whole = from.number()? != 0;
    while let Some(at) = from.number() {
        take(at, from.name()?);
    }
    Some(is_whole)
}

/// Passes the functions of an answer about a map to `take`.
pub(super) fn each_compiled(answer: &[u8], mut take: impl FnMut(u64, u64, String)) -> Option<()> {
    let mut from = Words::of(answer);
    loop {
        take(from.number()?, from.number()?, from.name()?);
    }
}

/// The data about files that the process keeps.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Functions of files that are looked up repeatedly.
    functions: FxHashMap<usize, Functions>,
    /// Their size, in bytes.
    bytes: usize,
}

impl Reader {
    /// Answers a query. An empty answer means no result.
    pub(super) fn answer(&mut self, question: &[u8], file: Option<OwnedFd>) -> Message {
        let mut from = Words::of(question);
        let answer = match from.number() {
            Some(kind::DESCRIBE) => describe(&mut from),
            Some(kind::NAME) => self.name(&mut from, file),
            Some(kind::MAP) => map(&mut from),
            Some(kind::COMPILED) => compiled(&mut from, file),
            Some(kind::MEMORY) => memory(&mut from),
            Some(kind::PYTHON) => python(&mut from, file),
            _ => None,
        };
        answer.unwrap_or_default()
    }

    fn name(&mut self, from: &mut Words<'_>, file: Option<OwnedFd>) -> Option<Message> {
        let (image, keep) = (usize::try_from(from.number()?).ok()?, from.number()? != 0);
        let until = Instant::now().checked_add(Duration::from_millis(from.number()?))?;
        let (path, rights, addresses) = (from.path()?, from.rights()?, from.numbers()?);
        let (mut to, mut is_whole, mut budget) = (Packed::default(), true, Budget::default());
        let mut put = |at: u64, raw: &str| {
            if to.bytes().len() < MOST_NAMES {
                to.number(at).text(Readable::within(&mut budget, raw).short.as_bytes());
            } else {
                is_whole = false;
            }
        };
        let mut is_done = true;
        if keep && !self.functions.contains_key(&image) {
            let file = Regular::of(file.as_ref()?.try_clone().ok()?).ok()?.open().ok()?;
            if let Some(functions) = functions(&file, &path, &rights) {
                self.keep(image, functions);
            }
        }
        match self.functions.get(&image) {
            Some(functions) => {
                for &address in &addresses {
                    if let Some((function, _)) = functions.at(address) {
                        put(address, &function.raw);
                    }
                }
            }
            None => {
                let file = Regular::of(file?).ok()?.open().ok()?;
                let files = with_symbols(file, &path, &rights);
                let go_on = || Instant::now() < until;
                is_done = functions_at_while(&files, &addresses, &go_on, put).ok()?;
            }
        }
        let mut answer = Packed::default();
        answer.number((is_whole && is_done).into());
        let answer = [answer.into_bytes(), to.into_bytes()].concat();
        Some((answer, None))
    }

    fn keep(&mut self, image: usize, functions: Functions) {
        let names = functions.all.iter().map(|function| function.raw.len()).sum::<usize>();
        // An estimate.
        let bytes = names + size_of_val(&functions.all[..]);
        if self.bytes + bytes > MOST_FUNCTIONS {
            self.functions.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.functions.insert(image, functions);
    }
}

fn describe(from: &mut Words<'_>) -> Option<Message> {
    let (pid, room) = (from.small()?, usize::try_from(from.number()?).ok()?);
    let mapping = from.mapping()?;
    if mapping.file.is_none() && mapping.path == Path::new(VDSO) {
        return vdso(pid, &mapping, room);
    }
    let mapped = process_files::mapped(pid, &mapping).ok()?;
    let file = mapped.file.open().ok()?;
    let data = data_of(file.try_clone().ok()?);
    let elf = Elf::parse(&data).ok()?.backed_by(&file);
    let described =
        Described::of((&elf, &mapping.path), (mapped.rights, mapped.is_readable), room)?;
    Some((described.packed().into_bytes(), Some(mapped.file.into())))
}

/// The vDSO of a process, as a file in memory.
fn vdso(pid: u32, mapping: &ExecutableMapping, room: usize) -> Option<Message> {
    let bytes = made_code::vdso(pid, mapping)?;
    let elf = Elf::parse(&*bytes).ok()?;
    let described = Described::of((&elf, Path::new(VDSO)), (Rights::none(), true), room)?;
    let file = shared_memory::file_of("fxtrec-vdso", &bytes).ok()?;
    Some((described.packed().into_bytes(), Some(file)))
}

fn map(from: &mut Words<'_>) -> Option<Message> {
    let map = made_code::map(from.small()?).ok()?;
    Some((Vec::new(), Some(map.into())))
}

fn compiled(from: &mut Words<'_>, map: Option<OwnedFd>) -> Option<Message> {
    let addresses = BTreeSet::from_iter(from.numbers()?);
    let map = Regular::of(map?).ok()?.open().ok()?;
    let mut to = Packed::default();
    for (start, (end, name)) in functions_in(map, &addresses) {
        if to.bytes().len() < MOST_NAMES {
            to.number(start).number(end).text(name.as_bytes());
        }
    }
    Some((to.into_bytes(), None))
}

fn memory(from: &mut Words<'_>) -> Option<Message> {
    let memory = made_code::memory_of(from.small()?, &from.mapping()?).ok()?;
    Some((Vec::new(), Some(memory)))
}

fn python(from: &mut Words<'_>, memory: Option<OwnedFd>) -> Option<Message> {
    Some((objects::answer(from, &memory?.into())?.into_bytes(), None))
}

/// The tables of a file, if they take at most `room` bytes.
fn tables<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, room: usize) -> Option<Tables> {
    if elf.arch() != Arch::HOST {
        return None;
    }
    let section = |name: &str, room: usize| {
        let (bytes, address) = elf.section_within(name, room as u64)?;
        (!bytes.is_empty()).then(|| Section { bytes: bytes.into(), address })
    };
    let go = go_frames(elf, room);
    let (frames, index) = match &go {
        Some(go) => (Section { bytes: go.bytes[..].into(), address: go.address }, None),
        None => {
            let frames = section(".eh_frame", room)?;
            let index = section(".eh_frame_hdr", room - frames.bytes.len());
            (frames, index)
        }
    };
    fn parts(section: &Section) -> (&[u8], u64) {
        (&section.bytes, section.address)
    }
    let mut usable = usable_frames(parts(&frames), index.as_ref().map(parts))?;
    if let Some(go) = &go {
        go.mark(&mut usable.costly);
    }
    // One copy for all programs that have mapped the file; otherwise each of their mappings would get its own.
    let made = usable.index.map(|it| Section { bytes: it.into(), address: frames.address });
    let tables = Tables { index: made.or(index)?, frames, costly: usable.costly.into() };
    (tables.bytes() <= room).then_some(tables)
}

/// The file, and a separate file of its symbols if one is installed, without files whose symbols are too large.
fn with_symbols(file: File, path: &Path, rights: &Rights) -> Vec<File> {
    let separate = {
        let Ok(data) = file.try_clone().map(data_of) else { return Vec::new() };
        let Ok(elf) = Elf::parse(&data) else { return Vec::new() };
        let elf = elf.backed_by(&file);
        if elf.symbol_bytes() > MOST_SYMBOLS {
            return Vec::new();
        }
        let separate = || symbols_of(&elf, path, rights).map(FileData::into_inner);
        let is_small = |debug: &File| {
            let Ok(data) = debug.try_clone().map(data_of) else { return false };
            Elf::parse(&data).is_ok_and(|it| it.backed_by(debug).symbol_bytes() <= MOST_SYMBOLS)
        };
        if elf.has_all_symbols() { None } else { separate().filter(is_small) }
    };
    [Some(file), separate].into_iter().flatten().collect()
}

/// The functions of a file, with those of a separate symbol file if one is installed; `None` if there are too many to read at once.
fn functions(file: &File, path: &Path, rights: &Rights) -> Option<Functions> {
    let data = data_of(file.try_clone().ok()?);
    let elf = Elf::parse(&data).ok()?.backed_by(file);
    let separate = match elf.has_all_symbols() {
        true => None,
        false => symbols_of(&elf, path, rights),
    };
    let debug = separate.as_ref().and_then(|data| Elf::parse(data).ok());
    let bytes = elf.symbol_bytes().saturating_add(debug.as_ref().map_or(0, Elf::symbol_bytes));
    if bytes > MOST_AT_ONCE {
        return None;
    }
    let mut functions = elf.functions().unwrap_or_default();
    if let Some(debug) = debug
        && let Ok(more) = debug.functions_of(&elf)
    {
        functions.merge(more);
    }
    Some(functions)
}

/// The separate symbol file of a file, if one is installed that its process may read too.
fn symbols_of<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    path: &Path,
    rights: &Rights,
) -> Option<FileData> {
    let open = |path: &Path| rights.open(path);
    separate_debug_file_by(elf, path, Path::new("/"), open).map(|(_, data)| data)
}
