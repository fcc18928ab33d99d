//! The files that code was loaded from.
//!
//! A file is held from the moment that a process was seen with it, because its name may refer to another file later. Another process reads
//! it: see [`super::files`]. A deleted file is released so that its disk space is freed; before that, its functions that occurred so far
//! are named.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fxtrec_kernel::code::ExecutableMapping;
use fxtrec_kernel::made_code::VDSO;
use fxtrec_kernel::regular;
use fxtrec_kernel::rights::Rights;
use fxtrec_probe::elf::Segment;
use rustc_hash::FxHashMap;

use super::files::{Files, Silent};
use super::python::layout::Interpreter;
use super::reader::{Described, Names};
use super::unwind::Tables;

/// The maximum number of files that are open at the same time; for further files, only the build id is known.
const MOST_FILES: usize = 256;

/// The maximum number of files that are known. Code in further files is put in a module without a build id.
pub(super) const MOST_IMAGES: usize = 8 * 1024;

/// The maximum number of bytes of unwind tables that are kept: a browser's take 20 MB, libc's 150 KB.
pub(super) const MOST_TABLES: usize = 20 << 20;

/// Functions of files with larger symbol tables (in bytes) are named all at once, and not kept.
const MANY_SYMBOLS: u64 = 4 << 20;

/// The page size of which file offsets of mappings are multiples. Larger pages are multiples of this.
const PAGE: u64 = 4096;

/// The device and the inode of a file.
type Key = (String, u64);

#[derive(Debug)]
struct Image {
    /// `None` for the vDSO, which is not a file.
    key: Option<Key>,
    path: PathBuf,
    /// The name of its modules.
    name: Arc<str>,
    build_id: Arc<[u8]>,
    segments: Vec<Segment>,
    /// Bytes of its symbol tables.
    symbols: u64,
    /// `None` if too many files are open, its process is not allowed to read it, it did not respond, or it was deleted.
    file: Option<OwnedFd>,
    rights: Rights,
    /// The Python interpreter in it.
    python: Option<Arc<Interpreter>>,
    /// The tables to unwind its functions with.
    tables: Option<Tables>,
    /// Whether it did not answer.
    is_silent: bool,
}

impl Image {
    /// A file that did not respond when its description was read.
    fn silent(mapping: &ExecutableMapping) -> Image {
        let path = &mapping.path;
        Image {
            key: mapping.file.clone(),
            path: path.clone(),
            name: name_of(path),
            build_id: Arc::default(),
            segments: Vec::new(),
            symbols: 0,
            file: None,
            rights: Rights::none(),
            python: None,
            tables: None,
            is_silent: true,
        }
    }
}

/// All files, by device and inode.
#[derive(Debug)]
pub(super) struct Images {
    all: Vec<Image>,
    /// Files that are open or silent, and files that are not ELF.
    known: FxHashMap<Key, Option<usize>>,
    /// Files that are not held: another file may get their inode.
    loose: FxHashMap<Key, usize>,
    held: usize,
    /// How many more bytes tables may take.
    room: usize,
    files: Files,
    /// Addresses without a name because their files did not respond.
    unanswered: u64,
}

impl Default for Images {
    fn default() -> Images {
        Images {
            all: Vec::new(),
            known: FxHashMap::default(),
            loose: FxHashMap::default(),
            held: 0,
            room: MOST_TABLES,
            files: Files::default(),
            unanswered: 0,
        }
    }
}

impl Images {
    /// The file of a mapping of this process; `None` if there is none, or it is not an ELF file.
    pub(super) fn of(&mut self, pid: u32, mapping: &ExecutableMapping) -> Option<usize> {
        let Some(key) = mapping.file.clone() else {
            return (mapping.path == Path::new(VDSO)).then(|| self.vdso(pid, mapping))?;
        };
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.known.len().max(self.all.len()) >= MOST_IMAGES {
            return None;
        }
        let number = match self.files.describe(pid, mapping, self.room) {
            Ok(Some(found)) => Some(self.add(mapping, found)),
            Ok(None) => None,
            Err(Silent) => {
                self.all.push(Image::silent(mapping));
                Some(self.all.len() - 1)
            }
        };
        match number.filter(|number| self.all[*number].file.is_none()) {
            Some(number) if !self.all[number].is_silent => drop(self.loose.insert(key, number)),
            _ => drop(self.known.insert(key, number)),
        }
        number
    }

    /// The image of a vDSO; programs with the same vDSO share it.
    fn vdso(&mut self, pid: u32, mapping: &ExecutableMapping) -> Option<usize> {
        let (described, file) = self.files.describe(pid, mapping, self.room).ok()??;
        let is_it =
            |image: &Image| image.path == mapping.path && *image.build_id == *described.build_id;
        if described.build_id.is_empty() {
            return None;
        }
        let known = self.all.iter().position(is_it);
        Some(known.unwrap_or_else(|| self.add(mapping, (described, file))))
    }

    fn add(
        &mut self,
        mapping: &ExecutableMapping,
        (described, file): (Described, OwnedFd),
    ) -> usize {
        let Described { build_id, segments, symbols, is_readable, rights, python, tables } =
            described;
        let file = (is_readable && self.held < MOST_FILES).then_some(file);
        self.held += usize::from(file.is_some());
        let loose = mapping.file.as_ref().and_then(|key| self.loose.remove(key));
        if let Some(number) = loose {
            let image = &mut self.all[number];
            let is_it = image.path == mapping.path
                && *image.build_id == *build_id
                && (&image.segments, image.symbols) == (&segments, symbols);
            if is_it {
                image.file = file;
                return number;
            }
        }
        self.room = self.room.saturating_sub(tables.as_ref().map_or(0, Tables::bytes));
        let (path, name) = (mapping.path.clone(), name_of(&mapping.path));
        let (build_id, is_silent, key) = (build_id.into(), false, mapping.file.clone());
        self.all.push(Image {
            key,
            path,
            name,
            build_id,
            segments,
            symbols,
            file,
            rights,
            python: python.map(Arc::new),
            tables,
            is_silent,
        });
        self.all.len() - 1
    }

    /// The held files that have been deleted.
    pub(super) fn deleted(&self) -> Vec<usize> {
        let is_deleted = |image: &Image| {
            let file = image.file.as_ref().filter(|_| image.key.is_some());
            file.is_some_and(|file| regular::is_deleted(file.as_fd()))
        };
        (0..self.all.len()).filter(|&number| is_deleted(&self.all[number])).collect()
    }

    /// Frees the tables of released files that no program uses, if the room may be needed.
    pub(super) fn free_tables(&mut self) {
        if self.room >= MOST_TABLES / 2 {
            return;
        }
        for image in &mut self.all {
            let is_let_go = image.key.is_some() && image.file.is_none();
            let is_free = |tables: &&mut Tables| Arc::strong_count(&tables.frames.bytes) == 1;
            if let Some(tables) = image.tables.as_mut().filter(|_| is_let_go).filter(is_free) {
                self.room += tables.bytes();
                image.tables = None;
            }
        }
    }

    /// Releases a file; its functions can no longer be named.
    pub(super) fn let_go(&mut self, number: usize) {
        let image = &mut self.all[number];
        self.held -= usize::from(image.file.take().is_some());
        if let Some(key) = image.key.clone() {
            self.known.remove(&key);
            self.loose.insert(key, number);
        }
    }

    /// Access to files, for the maps of compiled code.
    pub(super) fn files(&mut self) -> &mut Files {
        &mut self.files
    }

    /// How many files did not respond, and how many addresses therefore have no name.
    pub(super) fn unanswered(&self) -> (u64, u64) {
        (self.files.silent(), self.unanswered)
    }

    /// See [`Files::left`].
    pub(super) fn left(&self) -> u64 {
        self.files.left()
    }

    /// The tables to unwind a file's functions with, if it has any.
    pub(super) fn tables(&self, image: usize) -> Option<&Tables> {
        self.all[image].tables.as_ref()
    }

    /// The Python interpreter in a file.
    pub(super) fn python(&self, image: usize) -> Option<&Arc<Interpreter>> {
        self.all[image].python.as_ref()
    }

    /// Whether it is better to look up all functions of a file together.
    pub(super) fn has_many_symbols(&self, image: usize) -> bool {
        self.all[image].file.is_some() && self.all[image].symbols > MANY_SYMBOLS
    }

    /// Whether its functions can be named: not if it was deleted, too many files are held, or its process is not allowed to read it.
    pub(super) fn has_symbols(&self, image: usize) -> bool {
        self.all[image].file.is_some() || self.all[image].is_silent
    }

    /// The path, and the name of its modules.
    pub(super) fn name(&self, image: usize) -> (&PathBuf, &Arc<str>) {
        (&self.all[image].path, &self.all[image].name)
    }

    pub(super) fn build_id(&self, image: usize) -> Arc<[u8]> {
        self.all[image].build_id.clone()
    }

    /// The address of the beginning of a mapping, as in the file's symbols.
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

    /// The demangled name of the function at an address.
    pub(super) fn function(&mut self, image: usize, address: u64) -> Option<String> {
        let mut found = None;
        self.named(image, &[address], (true, super::NAMING), |_, name| found = Some(name));
        found
    }

    /// Passes to `take` the functions that contain these addresses, in ascending order, as [`Images::function`] finds them, for a limited
    /// time; returns whether all were looked up.
    pub(super) fn name_all(
        &mut self,
        image: usize,
        addresses: &[u64],
        go_on_for: Duration,
        take: impl FnMut(u64, String),
    ) -> bool {
        self.named(image, addresses, (false, go_on_for), take)
    }

    fn named(
        &mut self,
        number: usize,
        addresses: &[u64],
        (keep, time): (bool, Duration),
        take: impl FnMut(u64, String),
    ) -> bool {
        let Some(image) = self.all.get_mut(number) else { return true };
        let mut is_done = true;
        if let Some(file) = &image.file {
            let (path, rights) = (&image.path, &image.rights);
            let names = Names { image: number, path, rights, keep, time, addresses };
            match self.files.names(file, &names, take) {
                Ok(is_whole) => is_done = is_whole,
                Err(Silent) => {
                    self.held -= 1;
                    (image.file, image.is_silent) = (None, true);
                }
            }
        }
        if image.is_silent {
            self.unanswered += addresses.len() as u64;
        }
        is_done
    }
}

fn name_of(path: &Path) -> Arc<str> {
    super::collector::name_of(&path.to_string_lossy()).into()
}
