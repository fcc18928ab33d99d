//! The files that contain the frames of a trace, and the names of their functions.

use fxt_reader::record::{Mapping, Module};
use fxt_reader::{Koid, ProviderId, Record};
use fxtrec_capture::stacks::perfetto;
use fxtrec_sched::backtrace;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::{explains, is_kernel};
use crate::report::Report;

/// The process whose code is the kernel.
pub(super) const KERNEL: Koid = Koid(0);

/// The owner of a koid: merged recordings have a kernel each.
pub(super) type Process = (Option<ProviderId>, Koid);

/// The maximum number of distinct addresses that get names.
const MOST_ADDRESSES: usize = 512 * 1024;

/// The maximum size of all names, in bytes.
const MOST_NAME_BYTES: usize = 16 << 20;

/// Longer function names are truncated to this many bytes.
const NAME_BYTES: usize = 2048;

/// The maximum number of mappings.
const MOST_MAPPINGS: usize = 128 * 1024;

/// The maximum number of files, and of paths for each.
const MOST_FILES: usize = 32 * 1024;
const MOST_PATHS: usize = 4;

/// The number of addresses whose files are cached; then the cache is emptied.
const MOST_FOUND: usize = 64 * 1024;

/// The number of a file, and an address in it.
type FileOffset = (u32, u64);

/// An address of a process, and the process's module that contains it, if known.
type Named = (Process, Option<u16>, u64);

/// A file, or a part of the kernel, by its build id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) id: Vec<u8>,
    pub(super) in_kernel: bool,
    /// Its names.
    pub(super) paths: Vec<String>,
}

/// An address in a file.
#[derive(Clone, Copy, Debug, Default)]
struct Address {
    /// Whether it is a return address in all stacks: then the call is before it, possibly in another function.
    returned_to: bool,
    /// The index of its name.
    name: Option<u32>,
}

#[derive(Debug)]
struct Known {
    build: Build,
    addresses: FxHashMap<u64, Address>,
    /// The number of frames in it.
    frames: u64,
}

/// A part of a process's memory, and the file that is mapped there.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    start: u64,
    length: u64,
    /// The address in the file that corresponds to `start`.
    address: u64,
    module: u16,
    file: u32,
}

impl Mapped {
    fn place(&self, address: u64) -> Option<(u16, FileOffset)> {
        let into = address.checked_sub(self.start).filter(|into| *into < self.length)?;
        Some((self.module, (self.file, into.wrapping_add(self.address))))
    }
}

/// The mappings of a process, in the order of the trace.
#[derive(Debug, Default)]
struct Memory {
    all: Vec<Mapped>,
    /// How many of them precede the current position of a pass.
    passed: usize,
}

/// The module of an address and the offset in it, if it has one, after this number of mappings.
type Found = (usize, Option<(u16, FileOffset)>);

/// The information about code in a trace.
#[derive(Debug, Default)]
pub(super) struct Code {
    files: Vec<Known>,
    by_build: FxHashMap<(bool, Vec<u8>), u32>,
    /// The file of each module, by number, while mappings are read.
    modules: FxHashMap<(Process, u16), u32>,
    memory: FxHashMap<Process, Memory>,
    mappings: usize,
    /// Addresses whose names the trace has.
    named: FxHashSet<Named>,
    found: FxHashMap<(Process, u64), Found>,
    addresses: usize,
    names: Vec<Box<str>>,
    name_bytes: usize,
    /// Files without a build id, which cannot be identified.
    without_build: FxHashSet<String>,
    /// The number of items that exceeded the limits.
    too_many: u64,
    too_many_names: u64,
}

impl Code {
    /// Takes a record of the first pass.
    pub(super) fn learn(&mut self, provider: Option<ProviderId>, record: &Record<'_>) {
        match record {
            Record::Module(module) => self.module(provider, module),
            Record::Mapping(mapping) => self.mapping((provider, mapping.process), mapping),
            Record::UserspaceObject(object) if self.named.len() < MOST_ADDRESSES => {
                let module = backtrace::module_of_name(&object.args);
                self.named.insert(((provider, object.process), module, object.pointer));
            }
            _ => {}
        }
    }

    fn module(&mut self, provider: Option<ProviderId>, module: &Module<'_>) {
        let key = ((provider, module.process), module.id);
        let in_kernel = module.process == KERNEL;
        match self.file(in_kernel, module.name, module.build_id) {
            Some(file) => drop(self.modules.insert(key, file)),
            None => drop(self.modules.remove(&key)),
        }
    }

    /// The number of a file.
    fn file(&mut self, in_kernel: bool, path: &str, build_id: &[u8]) -> Option<u32> {
        if build_id.is_empty() {
            if self.without_build.len() < MOST_FILES {
                self.without_build.insert(path.to_owned());
            }
            return None;
        }
        let key = (in_kernel, build_id.to_owned());
        if let Some(&known) = self.by_build.get(&key) {
            let paths = &mut self.files[known as usize].build.paths;
            if paths.len() < MOST_PATHS && !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
            return Some(known);
        }
        if self.files.len() >= MOST_FILES {
            self.too_many += 1;
            return None;
        }
        let number = u32::try_from(self.files.len()).ok()?;
        let build = Build { id: build_id.to_owned(), in_kernel, paths: vec![path.to_owned()] };
        self.files.push(Known { build, addresses: FxHashMap::default(), frames: 0 });
        self.by_build.insert(key, number);
        Some(number)
    }

    fn mapping(&mut self, process: Process, mapping: &Mapping) {
        // A mapping without a file counts too, since [`Code::follow`] counts all.
        let file = self.modules.get(&(process, mapping.module)).copied();
        if self.mappings >= MOST_MAPPINGS {
            self.too_many += 1;
            return;
        }
        self.mappings += 1;
        let Mapping { start, length, module_address: address, module, .. } = *mapping;
        let file = file.unwrap_or(u32::MAX);
        let all = &mut self.memory.entry(process).or_default().all;
        all.push(Mapped { start, length, address, module, file });
    }

    /// Takes a record of a later pass.
    pub(super) fn follow(&mut self, provider: Option<ProviderId>, record: &Record<'_>) {
        let Record::Mapping(mapping) = record else { return };
        if let Some(memory) = self.memory.get_mut(&(provider, mapping.process)) {
            memory.passed += 1;
        }
    }

    /// Remembers that these addresses of a stack need names, the innermost first.
    pub(super) fn want(&mut self, process: Process, frames: impl Iterator<Item = u64>) {
        let mut before = None;
        for frame in frames {
            // The innermost addresses of the kernel stack and of the user stack are where the processor was.
            let returned_to = before == Some(is_kernel(frame));
            before = Some(is_kernel(frame));
            let whose = explains(process, frame);
            if let Some((module, place)) = self.find(whose, frame)
                && !self.has_name(whose, module, frame)
            {
                self.want_address(place, returned_to);
            }
        }
    }

    /// Remembers that a frame of a blob needs a name.
    pub(super) fn want_place(&mut self, place: &perfetto::FrameLocation<'_>) {
        if let Some(file) = self.file(place.in_kernel, place.path, place.build_id) {
            self.want_address((file, place.within), true);
        }
    }

    fn want_address(&mut self, (file, address): FileOffset, returned_to: bool) {
        let Some(file) = self.files.get_mut(file as usize) else { return };
        file.frames += 1;
        if let Some(known) = file.addresses.get_mut(&address) {
            known.returned_to &= returned_to;
        } else if self.addresses < MOST_ADDRESSES {
            self.addresses += 1;
            file.addresses.insert(address, Address { returned_to, name: None });
        } else {
            self.too_many += 1;
        }
    }

    /// Whether the trace has the name of an address.
    fn has_name(&self, process: Process, module: u16, address: u64) -> bool {
        [None, Some(module)].iter().any(|of| self.named.contains(&(process, *of, address)))
    }

    /// The module of the process, the file that contains an address, and the address in the file.
    fn find(&mut self, process: Process, address: u64) -> Option<(u16, FileOffset)> {
        let memory = self.memory.get(&process)?;
        let passed = memory.passed.min(memory.all.len());
        if let Some(&(when, place)) = self.found.get(&(process, address))
            && when == passed
        {
            return place;
        }
        // The last mapping in the trace applies. If a part of a recording is kept, all mappings are at its end.
        let (before, behind) = memory.all.split_at(passed);
        let mut mappings = before.iter().rev().chain(behind.iter().rev());
        let place = mappings.find_map(|mapped| mapped.place(address));
        let place = place.filter(|(_, (file, _))| (*file as usize) < self.files.len());
        if self.found.len() >= MOST_FOUND {
            self.found.clear();
        }
        self.found.insert((process, address), (passed, place));
        place
    }

    /// Finds the names of all addresses with `look`, file by file, the files with the most frames first. `look` gets the addresses in
    /// ascending order, and reports names for some of them. The next pass starts from the beginning.
    pub(super) fn name_all(
        &mut self,
        mut look: impl FnMut(&Build, &[u64], &mut dyn FnMut(u64, &str)),
    ) {
        self.found = FxHashMap::default();
        self.memory.values_mut().for_each(|memory| memory.passed = 0);
        let (names, name_bytes) = (&mut self.names, &mut self.name_bytes);
        let mut files: Vec<&mut Known> =
            self.files.iter_mut().filter(|file| !file.addresses.is_empty()).collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.frames));
        for file in files {
            let within = |(&address, of): (&u64, &Address)| {
                (address.saturating_sub(u64::from(of.returned_to)), address)
            };
            let mut all: Vec<(u64, u64)> = file.addresses.iter().map(within).collect();
            all.sort_unstable();
            let mut asked: Vec<u64> = all.iter().map(|&(within, _)| within).collect();
            asked.dedup();
            let mut next = 0;
            look(&file.build, &asked, &mut |at, name| {
                while all.get(next).is_some_and(|&(within, _)| within < at) {
                    next += 1;
                }
                let name = start_of(name);
                // Neighbouring addresses are often in the same function.
                let number = match names.last() {
                    Some(last) if **last == *name => names.len() - 1,
                    _ if *name_bytes + name.len() > MOST_NAME_BYTES => {
                        self.too_many_names += 1;
                        return;
                    }
                    _ => {
                        *name_bytes += name.len();
                        names.push(name.into());
                        names.len() - 1
                    }
                };
                while let Some(&(within, address)) = all.get(next)
                    && within == at
                {
                    if let Some(known) = file.addresses.get_mut(&address) {
                        known.name = u32::try_from(number).ok();
                    }
                    next += 1;
                }
            });
        }
    }

    /// The name of an address of a process if the trace does not have it yet, with its process and, for programs, the number of its module.
    /// The trace contains it from now on.
    pub(super) fn take_name(
        &mut self,
        process: Process,
        address: u64,
    ) -> Option<(Koid, Option<u16>, &str)> {
        let process = explains(process, address);
        let (module, (file, within)) = self.find(process, address)?;
        if self.has_name(process, module, address) {
            return None;
        }
        let module = (!is_kernel(address)).then_some(module);
        let name = self.files.get(file as usize)?.addresses.get(&within)?.name?;
        if self.named.len() >= 2 * MOST_ADDRESSES {
            return None;
        }
        self.named.insert((process, module, address));
        Some((process.1, module, self.names.get(name as usize)?))
    }

    /// The name of a frame of a blob.
    pub(super) fn name_at(&self, place: &perfetto::FrameLocation<'_>) -> Option<&str> {
        let file = self.by_build.get(&(place.in_kernel, place.build_id.to_owned()))?;
        let name = self.files.get(*file as usize)?.addresses.get(&place.within)?.name?;
        self.names.get(name as usize).map(|name| &**name)
    }

    /// Reports the frames that cannot have names.
    pub(super) fn tell(&self, report: &mut Report) {
        report.add("files without a build id, left out", self.without_build.len() as u64);
        report.add("addresses without a name: there are too many", self.too_many);
        report
            .add("functions without a name: all names together are too long", self.too_many_names);
        let nameless =
            |file: &Known| file.addresses.values().filter(|it| it.name.is_none()).count();
        let nameless: usize = self.files.iter().map(nameless).sum();
        report.add("addresses without a name", nameless as u64);
    }
}

fn start_of(name: &str) -> &str {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}
