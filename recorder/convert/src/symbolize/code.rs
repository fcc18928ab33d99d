//! The files that the stacks of a trace are in, and the names of their functions.

use fxt_reader::record::{Mapping, Module};
use fxt_reader::{Koid, ProviderId, Record};
use fxtrec_capture::stacks::perfetto;
use fxtrec_sched::backtrace;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::{explains, is_kernel};
use crate::report::Report;

/// The process whose code is the kernel's.
pub(super) const KERNEL: Koid = Koid(0);

/// Whose a koid is: recordings that were merged have a kernel each.
pub(super) type Process = (Option<ProviderId>, Koid);

/// So many different addresses get names.
const MOST_ADDRESSES: usize = 512 * 1024;

/// So many bytes of names are kept.
const MOST_NAME_BYTES: usize = 16 << 20;

/// Functions with longer names than this are called by their beginning, in bytes.
const NAME_BYTES: usize = 2048;

/// So many mappings are known.
const MOST_MAPPINGS: usize = 128 * 1024;

/// So many files are known, and so many paths of each.
const MOST_FILES: usize = 32 * 1024;
const MOST_PATHS: usize = 4;

/// So many addresses are remembered with their files before all are forgotten.
const MOST_FOUND: usize = 64 * 1024;

/// The number of a file, and an address in it.
type Place = (u32, u64);

/// An address of a process, and the module of the process that it is in, if that is known.
type Named = (Process, Option<u16>, u64);

/// A file, or a part of the kernel, by its build id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) id: Vec<u8>,
    pub(super) in_kernel: bool,
    /// What it was called.
    pub(super) paths: Vec<String>,
}

/// An address of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Address {
    /// Whether calls return there in all stacks: then the call is before it, maybe in another function.
    returned_to: bool,
    /// The place of its name.
    name: Option<u32>,
}

#[derive(Debug)]
struct Known {
    build: Build,
    addresses: FxHashMap<u64, Address>,
    /// How many frames are in it.
    frames: u64,
}

/// A part of a process's memory, and the file that is there.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    start: u64,
    length: u64,
    /// The file's own address of `start`.
    address: u64,
    module: u16,
    file: u32,
}

impl Mapped {
    fn place(&self, address: u64) -> Option<(u16, Place)> {
        let into = address.checked_sub(self.start).filter(|into| *into < self.length)?;
        Some((self.module, (self.file, into.wrapping_add(self.address))))
    }
}

/// The mappings of a process, as they are told.
#[derive(Debug, Default)]
struct Memory {
    all: Vec<Mapped>,
    /// How many had been told where a pass is.
    told: usize,
}

/// The module and the place of an address, if it has one, when so many mappings had been told.
type Found = (usize, Option<(u16, Place)>);

/// What a trace tells of code.
#[derive(Debug, Default)]
pub(super) struct Code {
    files: Vec<Known>,
    by_build: FxHashMap<(bool, Vec<u8>), u32>,
    /// The file of each module by its number, while mappings are read.
    modules: FxHashMap<(Process, u16), u32>,
    memory: FxHashMap<Process, Memory>,
    mappings: usize,
    /// Whose names the trace has.
    named: FxHashSet<Named>,
    found: FxHashMap<(Process, u64), Found>,
    addresses: usize,
    names: Vec<Box<str>>,
    name_bytes: usize,
    /// Files that cannot be known: they have no build id.
    without_build: FxHashSet<String>,
    /// What there was no room for.
    too_many: u64,
    too_many_names: u64,
}

impl Code {
    /// Takes what a record of the first pass says.
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
        // One without a file is counted, too: [`Code::follow`] counts all.
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

    /// Goes on with a record of a later pass.
    pub(super) fn follow(&mut self, provider: Option<ProviderId>, record: &Record<'_>) {
        let Record::Mapping(mapping) = record else { return };
        if let Some(memory) = self.memory.get_mut(&(provider, mapping.process)) {
            memory.told += 1;
        }
    }

    /// Notes that these addresses of a stack need names, the innermost first.
    pub(super) fn want(&mut self, process: Process, frames: impl Iterator<Item = u64>) {
        let mut before = None;
        for frame in frames {
            // The first of the kernel's part, and that of the program's, is where the processor was.
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

    /// Notes that a frame of a blob needs a name.
    pub(super) fn want_place(&mut self, place: &perfetto::Place<'_>) {
        if let Some(file) = self.file(place.in_kernel, place.path, place.build_id) {
            self.want_address((file, place.within), true);
        }
    }

    fn want_address(&mut self, (file, address): Place, returned_to: bool) {
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

    /// The module of the process, the file that an address is in, and the address there.
    fn find(&mut self, process: Process, address: u64) -> Option<(u16, Place)> {
        let memory = self.memory.get(&process)?;
        let told = memory.told.min(memory.all.len());
        if let Some(&(when, place)) = self.found.get(&(process, address))
            && when == told
        {
            return place;
        }
        // The last that was told is the one that holds. Where a part of a recording is kept, all are told at its end.
        let (before, behind) = memory.all.split_at(told);
        let mut mappings = before.iter().rev().chain(behind.iter().rev());
        let place = mappings.find_map(|mapped| mapped.place(address));
        let place = place.filter(|(_, (file, _))| (*file as usize) < self.files.len());
        if self.found.len() >= MOST_FOUND {
            self.found.clear();
        }
        self.found.insert((process, address), (told, place));
        place
    }

    /// Lets `look` find the names of all addresses, file by file, those first that are in most stacks. It gets the addresses in ascending order, and tells some of them with
    /// their names. The next pass begins anew.
    pub(super) fn name_all(
        &mut self,
        mut look: impl FnMut(&Build, &[u64], &mut dyn FnMut(u64, &str)),
    ) {
        self.found = FxHashMap::default();
        self.memory.values_mut().for_each(|memory| memory.told = 0);
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
                // Neighbours are in the same function.
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

    /// The name of an address of a process that the trace does not have yet, with the process that it is of and the number of the module
    /// that it is in, for a program's. It has it from now on.
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
    pub(super) fn name_at(&self, place: &perfetto::Place<'_>) -> Option<&str> {
        let file = self.by_build.get(&(place.in_kernel, place.build_id.to_owned()))?;
        let name = self.files.get(*file as usize)?.addresses.get(&place.within)?.name?;
        self.names.get(name as usize).map(|name| &**name)
    }

    /// What cannot have names.
    pub(super) fn tell(&self, report: &mut Report) {
        report.add("files without a build id, left out", self.without_build.len() as u64);
        report.add("places without a name: there are too many", self.too_many);
        report.add("functions without a name: names are too long", self.too_many_names);
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
