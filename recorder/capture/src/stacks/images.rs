//! The files that code was loaded from.
//!
//! A file is kept open from the moment that a process was seen with it: its name may mean another file later, or none.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fxtrec_kernel::code::{ExecutableMapping, open_mapped};
use fxtrec_kernel::made_code::{self, VDSO};
use fxtrec_kernel::regular;
use fxtrec_probe::elf::{
    self, Arch, Elf, FileData, Functions, Names, ReadRef, Segment, Usable, data_of, functions_at,
    separate_debug_file, usable_frames,
};
use nix::sys::stat;
use rustc_hash::FxHashMap;

use super::unwind::{Section, Tables};

/// How many files are kept open at most; of others only the build id is known.
const MOST_FILES: usize = 256;

/// How much of tables to unwind by is kept, in bytes: a browser's take 20 MB, libc's 150 KB.
const MOST_TABLES: usize = 64 << 20;

/// How much of functions is kept of files while recording, in bytes; what is beyond that is read again.
const MOST_FUNCTIONS: usize = 16 << 20;

/// Of a file with larger symbol tables, functions are named all at once, and not kept. In bytes.
const MANY_SYMBOLS: u64 = 4 << 20;

/// The largest symbol tables that are read while recording, in bytes: a browser's take 130 MB. Larger ones are for `fxtrec symbolize`.
const MOST_SYMBOLS: u64 = 256 << 20;

/// A page, as far as file offsets of mappings are multiples of it. Larger pages are multiples of this.
const PAGE: u64 = 4096;

struct Image {
    path: PathBuf,
    build_id: Vec<u8>,
    segments: Vec<Segment>,
    /// Bytes of its symbol tables.
    symbols: u64,
    /// Read anew each time: what has been read of one stays in memory with it.
    file: Option<File>,
    /// What its functions are unwound by.
    tables: Option<Tables>,
    /// Its functions, once they have been asked for.
    functions: Option<Functions>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("path", &self.path).finish_non_exhaustive()
    }
}

/// All files, by device and inode.
#[derive(Debug)]
pub(super) struct Images {
    all: Vec<Image>,
    known: FxHashMap<(String, u64), Option<usize>>,
    /// How much more tables may take, in bytes.
    room: usize,
    /// What the functions of files take, in bytes.
    functions: usize,
}

impl Default for Images {
    fn default() -> Images {
        Images { all: Vec::new(), known: FxHashMap::default(), room: MOST_TABLES, functions: 0 }
    }
}

impl Images {
    /// The file of a mapping of this process; `None` when there is none, or it is no ELF file.
    pub(super) fn of(&mut self, pid: u32, mapping: &ExecutableMapping) -> Option<usize> {
        let Some(key) = mapping.file.clone() else {
            return (mapping.path == Path::new(VDSO)).then(|| self.vdso(pid, mapping))?;
        };
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let image = self.open(pid, mapping);
        let number = image.map(|image| {
            self.all.push(image);
            self.all.len() - 1
        });
        self.known.insert(key, number);
        number
    }

    /// The image of a vDSO, one for all programs that have the same.
    fn vdso(&mut self, pid: u32, mapping: &ExecutableMapping) -> Option<usize> {
        let bytes = made_code::vdso(pid, mapping)?;
        let elf = Elf::parse(&*bytes).ok()?;
        let build_id = elf.build_id()?.to_vec();
        let is_it = |image: &Image| image.path == mapping.path && image.build_id == build_id;
        if let Some(known) = self.all.iter().position(is_it) {
            return Some(known);
        }
        let tables = tables(&*bytes, self.room);
        self.room -= tables.as_ref().map_or(0, bytes_of);
        self.all.push(Image {
            path: mapping.path.clone(),
            build_id,
            segments: elf.segments().to_vec(),
            symbols: elf.symbol_bytes(),
            file: None,
            tables,
            functions: elf.functions().ok(),
        });
        Some(self.all.len() - 1)
    }

    fn open(&mut self, pid: u32, mapping: &ExecutableMapping) -> Option<Image> {
        // By its path as long as links to mapped files are not permitted.
        let by_path = || elf::open(&in_root(pid, &mapping.path)).ok();
        let mapped = || open_mapped(pid, mapping).ok().map(data_of);
        let file = mapped().or_else(by_path).or_else(|| open_same(mapping))?;
        let (build_id, segments, symbols) = {
            let elf = Elf::parse(&file).ok()?;
            let build_id = elf.build_id().unwrap_or_default().to_vec();
            (build_id, elf.segments().to_vec(), elf.symbol_bytes())
        };
        let tables = tables(&file, self.room);
        let file = (self.all.len() < MOST_FILES).then(|| file.into_inner());
        let used = tables.as_ref().map_or(0, bytes_of);
        self.room -= used;
        let path = mapping.path.clone();
        Some(Image { path, build_id, segments, symbols, file, tables, functions: None })
    }

    /// What the functions of a file are unwound by, if it has that.
    pub(super) fn tables(&self, image: usize) -> Option<&Tables> {
        self.all[image].tables.as_ref()
    }

    /// Whether the functions of a file are better named all at once.
    pub(super) fn has_many_symbols(&self, image: usize) -> bool {
        self.all[image].file.is_some() && self.all[image].symbols > MANY_SYMBOLS
    }

    pub(super) fn build_id(&self, image: usize) -> Vec<u8> {
        self.all[image].build_id.clone()
    }

    /// The address within the file, as its symbols have it, of the beginning of a mapping.
    pub(super) fn address(&self, image: usize, mapping: &ExecutableMapping) -> u64 {
        let begins = |segment: &&Segment| {
            let first = segment.offset / PAGE * PAGE;
            let end = segment.offset.saturating_add(segment.size);
            segment.executable && (first..end).contains(&mapping.offset)
        };
        match self.all[image].segments.iter().find(begins) {
            Some(segment) => {
                segment.address.wrapping_add(mapping.offset).wrapping_sub(segment.offset)
            }
            None => mapping.offset,
        }
    }

    /// The function that has an address, as people call it.
    pub(super) fn function(&mut self, image: usize, address: u64) -> Option<String> {
        if self.all.get(image)?.functions.is_none() {
            let functions = {
                let file = self.all[image].file.as_ref()?.try_clone().ok()?;
                functions(&data_of(file), &self.all[image].path)
            };
            self.functions += bytes_of_functions(&functions);
            if self.functions > MOST_FUNCTIONS {
                let read_again = self.all.iter_mut().filter(|image| image.file.is_some());
                read_again.for_each(|image| image.functions = None);
                self.functions = bytes_of_functions(&functions);
            }
            self.all[image].functions = Some(functions);
        }
        let (function, _) = self.all[image].functions.as_ref()?.at(address)?;
        Some(Names::of(&function.raw).short.into_owned())
    }

    /// Tells `take` the functions that addresses are in, in ascending order, as [`Images::function`] knows them.
    pub(super) fn name_all(
        &self,
        image: usize,
        addresses: &[u64],
        mut take: impl FnMut(u64, String),
    ) {
        let Some(image) = self.all.get(image) else { return };
        if let Some(functions) = &image.functions {
            for &address in addresses {
                if let Some((function, _)) = functions.at(address) {
                    take(address, Names::of(&function.raw).short.into_owned());
                }
            }
            return;
        }
        let file = image.file.as_ref().and_then(|file| file.try_clone().ok());
        let files = file.map(|file| with_symbols(data_of(file), &image.path));
        let take = |at, raw: &str| take(at, Names::of(raw).short.into_owned());
        // A file that cannot be read has no names.
        let _ = functions_at(&files.unwrap_or_default(), addresses, take);
    }
}

/// The file that is at the path of a mapping for us, if it is the very same: its process may have ended.
fn open_same(mapping: &ExecutableMapping) -> Option<FileData> {
    let file = regular::open(&mapping.path).ok()?;
    let metadata = file.metadata().ok()?;
    let (device, inode) = mapping.file.as_ref()?;
    let (major, minor) = (stat::major(metadata.dev()), stat::minor(metadata.dev()));
    (*device == format!("{major:02x}:{minor:02x}") && *inode == metadata.ino())
        .then(|| data_of(file))
}

fn bytes_of(tables: &Tables) -> usize {
    tables.frames.bytes.len() + tables.index.as_ref().map_or(0, |index| index.bytes.len())
}

/// The tables of a file, if they take at most `room` bytes.
fn tables<'d, R: ReadRef<'d>>(file: R, room: usize) -> Option<Tables> {
    let elf = Elf::parse(file).ok().filter(|elf| elf.arch() == Arch::HOST)?;
    let section = |name: &str, room: usize| {
        let (bytes, address) = elf.section_within(name, room as u64)?;
        (!bytes.is_empty()).then(|| Section { bytes: bytes.into(), address })
    };
    let frames = section(".eh_frame", room)?;
    let index = section(".eh_frame_hdr", room - frames.bytes.len());
    fn parts(section: &Section) -> (&[u8], u64) {
        (&section.bytes, section.address)
    }
    match usable_frames(parts(&frames), index.as_ref().map(parts)) {
        Usable::All => Some(Tables { frames, index }),
        Usable::Tables => Some(Tables { frames, index: None }),
        Usable::Nothing => None,
    }
}

/// A path as a process knows it, from here.
fn in_root(pid: u32, path: &Path) -> PathBuf {
    let inside = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(format!("/proc/{pid}/root")).join(inside)
}

/// About.
fn bytes_of_functions(functions: &Functions) -> usize {
    let names = functions.all.iter().map(|function| function.raw.len()).sum::<usize>();
    names + size_of_val(&functions.all[..])
}

/// The file, and a separate file of its symbols where one is installed; none of those whose symbols are too large.
fn with_symbols(file: FileData, path: &Path) -> Vec<File> {
    let separate = {
        let Ok(elf) = Elf::parse(&file) else { return Vec::new() };
        if elf.symbol_bytes() > MOST_SYMBOLS {
            return Vec::new();
        }
        let separate = || separate_debug_file(&elf, path, Path::new("/")).map(|(_, data)| data);
        let is_small = |data: &FileData| {
            Elf::parse(data).is_ok_and(|debug| debug.symbol_bytes() <= MOST_SYMBOLS)
        };
        if elf.has_all_symbols() { None } else { separate().filter(is_small) }
    };
    [Some(file), separate].into_iter().flatten().map(FileData::into_inner).collect()
}

/// The functions of a file, with those of a separate file of symbols where one is installed.
fn functions(file: &FileData, path: &Path) -> Functions {
    let Ok(elf) = Elf::parse(file) else { return Functions::default() };
    if elf.symbol_bytes() > MOST_SYMBOLS {
        return Functions::default();
    }
    let mut functions = elf.functions().unwrap_or_default();
    if !functions.complete
        && let Some((_, data)) = separate_debug_file(&elf, path, Path::new("/"))
        && let Ok(debug) = Elf::parse(&data)
        && debug.symbol_bytes() <= MOST_SYMBOLS
        && let Ok(more) = debug.functions_of(&elf)
    {
        functions.merge(more);
    }
    functions
}
