//! The stacks of all sequences, with addresses instead of frames.
//!
//! Perfetto's frames are a function's name and a position in a file. FXT's frames are addresses, for which records give names and files. So
//! each file gets a range of 4 GiB of addresses, and each frame gets the address of its position in that range, or the next unused address.

use rustc_hash::FxHashMap;

use super::sequence::{Sequence, kind};

/// The size of a file's address range, and the first address: for programs, and for the kernel.
const FILE_BYTES: u64 = 1 << 32;
const PROGRAMS: u64 = 0x1000_0000_0000;
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// File numbers have 16 bits.
const MOST_FILES: usize = 60_000;

/// The maximum number of frames in distinct stacks, and of distinct frames.
const MOST_FRAMES: usize = 2 << 20;

/// The maximum number of frames in a record.
const MOST_DEPTH: usize = fxt_format::limits::MAX_FRAMES;

#[derive(Debug)]
pub(super) struct File {
    pub(super) path: Box<str>,
    pub(super) build_id: Box<[u8]>,
    pub(super) is_kernel: bool,
}

impl File {
    /// The first address of its range.
    pub(super) fn start(&self, number: u16) -> u64 {
        let base = if self.is_kernel { KERNEL } else { PROGRAMS };
        base + u64::from(number) * FILE_BYTES
    }

    pub(super) const BYTES: u64 = FILE_BYTES;
}

/// The meaning of an address.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) file: u16,
    /// Empty if unknown.
    pub(super) function: Box<str>,
}

/// A path, a build id, and whether it is kernel code.
type FileKey = (Box<str>, Box<[u8]>, bool);

#[derive(Debug, Default)]
pub(super) struct Code {
    files: Vec<File>,
    numbers: FxHashMap<FileKey, u16>,
    /// The address of each frame.
    addresses: FxHashMap<(u16, u64, Box<str>), u64>,
    places: FxHashMap<u64, Place>,
    stacks: Vec<Box<[u64]>>,
    known: FxHashMap<Box<[u64]>, u32>,
    frames: usize,
}

impl Code {
    pub(super) fn file(&self, number: u16) -> Option<&File> {
        self.files.get(usize::from(number))
    }

    pub(super) fn place(&self, address: u64) -> Option<&Place> {
        self.places.get(&address)
    }

    /// The frames of a stack, the innermost first.
    pub(super) fn stack(&self, number: u32) -> &[u64] {
        self.stacks.get(number as usize).map_or(&[], |stack| stack)
    }

    /// The number of a stack that the sequence has interned; `None` if the sequence has not interned it, or if the limit is reached.
    pub(super) fn interned(&mut self, sequence: &Sequence, stack: u64) -> Option<u32> {
        let frames = sequence.stacks.get(&stack)?;
        // Perfetto's stacks begin with the outermost frame.
        let addresses: Option<Vec<u64>> = frames
            .iter()
            .rev()
            .take(MOST_DEPTH)
            .map(|number| {
                let frame = sequence.frames.get(number)?;
                let function = sequence.text(kind::FUNCTIONS, frame.function).unwrap_or_default();
                let mapping = sequence.mappings.get(&frame.mapping);
                let mut path = String::new();
                for part in mapping.iter().flat_map(|mapping| &mapping.paths) {
                    let part = sequence.text(kind::PATHS, *part).unwrap_or_default();
                    let part = String::from_utf8_lossy(part);
                    if !path.is_empty() && !path.ends_with('/') && !part.starts_with('/') {
                        path.push('/');
                    }
                    path.push_str(&part);
                }
                let build_id = mapping.and_then(|it| sequence.text(kind::BUILD_IDS, it.build_id));
                let is_kernel = mapping.is_some_and(|mapping| mapping.start >> 63 == 1)
                    || path.starts_with("[kernel")
                    || path.starts_with("/kernel")
                    || path.starts_with("[guest.kernel")
                    || path.ends_with("/vmlinux")
                    || path.ends_with(".ko");
                let file = self.add_file(&path, build_id.unwrap_or_default(), is_kernel)?;
                self.address(file, frame.address, &String::from_utf8_lossy(function))
            })
            .collect();
        self.add(&addresses?)
    }

    /// A stack with a single kernel function, given by its name or else its address.
    pub(super) fn of_kernel(&mut self, function: &str, address: u64) -> Option<u32> {
        let file = self.add_file("[kernel.kallsyms]", &[], true)?;
        let frame = self.address(file, address, function)?;
        self.add(&[frame])
    }

    fn add(&mut self, frames: &[u64]) -> Option<u32> {
        if let Some(number) = self.known.get(frames) {
            return Some(*number);
        }
        self.frames += frames.len() + 1;
        if frames.is_empty() || self.frames > MOST_FRAMES {
            return None;
        }
        let number = u32::try_from(self.stacks.len()).ok()?;
        self.stacks.push(frames.into());
        self.known.insert(frames.into(), number);
        Some(number)
    }

    fn add_file(&mut self, path: &str, build_id: &[u8], is_kernel: bool) -> Option<u16> {
        let path = fxt_writer::text::clean(path.as_bytes());
        let end = (0..=path.len().min(MOST_PATH)).rev().find(|end| path.is_char_boundary(*end))?;
        let build_id = &build_id[..build_id.len().min(MOST_BUILD_ID)];
        let key: FileKey = (path[..end].into(), build_id.into(), is_kernel);
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let number = u16::try_from(self.files.len()).ok()?;
        if self.files.len() >= MOST_FILES {
            return None;
        }
        let (path, build_id, is_kernel) = key.clone();
        self.files.push(File { path, build_id, is_kernel });
        self.numbers.insert(key, number);
        Some(number)
    }

    fn address(&mut self, file: u16, within: u64, function: &str) -> Option<u64> {
        let within = within & (FILE_BYTES - 1);
        let key: (u16, u64, Box<str>) = (file, within, function.into());
        if let Some(address) = self.addresses.get(&key) {
            return Some(*address);
        }
        if self.addresses.len() >= MOST_FRAMES {
            return None;
        }
        let start = self.file(file)?.start(file);
        let at = |offset: u64| start + (within + offset) % FILE_BYTES;
        let free = (0..MOST_BUMPS).map(at).find(|address| !self.places.contains_key(address))?;
        self.addresses.insert(key, free);
        self.places.insert(free, Place { file, function: function.into() });
        Some(free)
    }
}

const MOST_PATH: usize = fxt_format::limits::MAX_MODULE_NAME_BYTES;
const MOST_BUILD_ID: usize = fxt_format::limits::MAX_BUILD_ID_BYTES;

/// The maximum number of frames at one position.
const MOST_BUMPS: u64 = 4096;
