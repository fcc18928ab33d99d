//! The files that code was loaded from.
//!
//! A file is kept open from the moment that a process was seen with it: its name may mean another file later, or none.

use std::fmt;
use std::path::{Path, PathBuf};

use fxtrec_kernel::code::{ExecutableMapping, open_mapped};
use fxtrec_probe::elf::{
    self, Elf, FileData, Functions, Names, Segment, data_of, separate_debug_file,
};
use rustc_hash::FxHashMap;

/// How many files are kept open at most; of others only the build id is known.
const MOST_FILES: usize = 256;

/// A page, as far as file offsets of mappings are multiples of it. Larger pages are multiples of this.
const PAGE: u64 = 4096;

struct Image {
    path: PathBuf,
    build_id: Vec<u8>,
    segments: Vec<Segment>,
    file: Option<FileData>,
    /// Its functions, once they have been asked for.
    functions: Option<Functions>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("path", &self.path).finish_non_exhaustive()
    }
}

/// All files, by device and inode.
#[derive(Debug, Default)]
pub(super) struct Images {
    all: Vec<Image>,
    known: FxHashMap<(String, u64), Option<usize>>,
}

impl Images {
    /// The file of a mapping of this process; `None` when there is none, or it is no ELF file.
    pub(super) fn of(&mut self, pid: u32, mapping: &ExecutableMapping) -> Option<usize> {
        let key = mapping.file.clone()?;
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

    fn open(&self, pid: u32, mapping: &ExecutableMapping) -> Option<Image> {
        // By its path as long as links to mapped files are not permitted.
        let by_path = || elf::open(&in_root(pid, &mapping.path)).ok();
        let file = open_mapped(pid, mapping).ok().map(data_of).or_else(by_path)?;
        let (build_id, segments) = {
            let elf = Elf::parse(&file).ok()?;
            (elf.build_id().unwrap_or_default().to_vec(), elf.segments().to_vec())
        };
        let file = (self.all.len() < MOST_FILES).then_some(file);
        Some(Image { path: mapping.path.clone(), build_id, segments, file, functions: None })
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
        let image = self.all.get_mut(image)?;
        let file = image.file.as_ref()?;
        let path = &image.path;
        let functions = image.functions.get_or_insert_with(|| functions(file, path));
        let (function, _) = functions.at(address)?;
        Some(Names::of(&function.raw).short.into_owned())
    }
}

/// A path as a process knows it, from here.
fn in_root(pid: u32, path: &Path) -> PathBuf {
    let inside = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(format!("/proc/{pid}/root")).join(inside)
}

/// The functions of a file, with those of a separate file of symbols where one is installed.
fn functions(file: &FileData, path: &Path) -> Functions {
    let Ok(elf) = Elf::parse(file) else { return Functions::default() };
    let mut functions = elf.functions().unwrap_or_default();
    if !functions.complete
        && let Some((_, data)) = separate_debug_file(&elf, path, Path::new("/"))
        && let Ok(debug) = Elf::parse(&data)
        && let Ok(more) = debug.functions_of(&elf)
    {
        functions.merge(more);
    }
    functions
}
