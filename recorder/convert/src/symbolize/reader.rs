//! The process that reads the files that have the names, by their build id.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fxtrec_kernel::code::{KERNEL, KernelCode};
use fxtrec_kernel::made_code::{VDSO, own_vdso};
use fxtrec_kernel::symbols::KernelSymbols;
use fxtrec_kernel::sys::Linux;
use fxtrec_kernel::worker;
use fxtrec_probe::elf::{
    self, Budget, Elf, FileData, Names, debug_file_of, functions_at, separate_debug_file,
};
use serde::{Deserialize, Serialize};

use super::code::Build;

/// The maximum memory that it may have, in bytes. Symbols are read in pieces: the limit is 30 MiB for a browser or a compiler.
const MOST_MEMORY: u64 = 512 << 20;

/// The maximum number of bytes of names in an answer: more than are kept of all files.
const MOST_NAMES: usize = 32 << 20;

/// How many kernels in a directory are tried.
const MOST_KERNELS: usize = 64;

/// The receiver of names: an address, and the readable name of its function.
type Take<'t> = &'t mut dyn FnMut(u64, &str);

/// The request: the functions of a file's addresses, in ascending order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question<'a> {
    pub(super) build: Cow<'a, Build>,
    pub(super) addresses: Cow<'a, [u64]>,
    pub(super) debug_folders: Vec<OsString>,
    pub(super) vmlinux: Option<OsString>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Whether such a file exists.
    pub(super) is_found: bool,
    /// Whether a file with all symbols exists.
    pub(super) has_symbols: bool,
    /// Files with the right name but another build id.
    pub(super) refused: Vec<String>,
    pub(super) names: Vec<(u64, String)>,
}

impl Answer {
    /// Whether some of these addresses have no name, and a file with symbols may have one.
    pub(super) fn lacks_symbols(&self, addresses: usize) -> bool {
        !self.has_symbols && self.names.len() < addresses
    }
}

/// Answers the process that has started this one until it ends.
///
/// # Errors
/// Returns an error when it has ended.
pub fn serve() -> io::Result<()> {
    let mut reader = Reader::default();
    worker::serve_as(MOST_MEMORY, |question, _| (reader.answer(question), None))
}

/// The reader of files.
#[derive(Debug, Default)]
pub(super) struct Reader {
    debug_folders: Vec<PathBuf>,
    vmlinux: Option<PathBuf>,
    /// The running kernel, once it has been requested.
    kernel: Option<KernelCode>,
    /// Files at a recorded path that have another build id.
    refused: Vec<String>,
    /// Whether the last file has all symbols.
    has_symbols: bool,
}

impl Reader {
    /// An empty answer is the answer to an invalid request.
    pub(super) fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let Ok(question) = serde_json::from_slice::<Question<'_>>(question) else {
            return Vec::new();
        };
        self.debug_folders = question.debug_folders.into_iter().map(PathBuf::from).collect();
        self.vmlinux = question.vmlinux.map(PathBuf::from);
        let (mut names, mut room) = (Vec::new(), MOST_NAMES);
        let mut take = |address: u64, name: &str| {
            if let Some(left) = room.checked_sub(name.len()) {
                room = left;
                names.push((address, name.to_owned()));
            }
        };
        let (build, addresses) = (&question.build, &question.addresses);
        let is_found = match build.in_kernel {
            true => self.in_kernel(build, addresses, &mut take),
            false => self.in_file(build, addresses, &mut take),
        };
        let refused = std::mem::take(&mut self.refused);
        let has_symbols = std::mem::take(&mut self.has_symbols);
        let answer = Answer { is_found, has_symbols, refused, names };
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    fn in_file(&mut self, build: &Build, addresses: &[u64], take: Take<'_>) -> bool {
        if build.paths.iter().any(|path| path == VDSO) {
            // No other index has more entries.
            self.has_symbols = true;
            return in_vdso(build, addresses, take);
        }
        let Some(files) = self.files_of(build) else { return false };
        named(&files, addresses, take)
    }

    /// The files with the symbols of a program or library; the one with the code is first, if available.
    fn files_of(&mut self, build: &Build) -> Option<Vec<File>> {
        for path in &build.paths {
            let path = Path::new(path);
            let Ok(data) = elf::open(path) else { continue };
            let (separate, is_complete) = {
                let Ok(elf) = Elf::parse(&data) else { continue };
                if elf.build_id() != Some(&build.id) {
                    self.refused.push(path.display().to_string());
                    continue;
                }
                match elf.has_all_symbols() {
                    true => (None, true),
                    false => {
                        let separate = separate_debug_file(&elf, path, Path::new("/"));
                        (separate.map(|(_, data)| data), false)
                    }
                }
            };
            let separate = separate.or_else(|| self.by_build(&build.id));
            self.has_symbols = is_complete || separate.is_some();
            return Some(
                [Some(data), separate].into_iter().flatten().map(FileData::into_inner).collect(),
            );
        }
        let data = self.by_build(&build.id)?;
        self.has_symbols = true;
        Some(vec![data.into_inner()])
    }

    /// A file with symbols from the directories of such files.
    fn by_build(&self, id: &[u8]) -> Option<FileData> {
        let folders = self.debug_folders.iter().map(PathBuf::as_path);
        folders.chain([Path::new("/")]).find_map(|folder| debug_file_of(id, folder))
    }

    fn in_kernel(&mut self, build: &Build, addresses: &[u64], take: Take<'_>) -> bool {
        let is_kernel = build.paths.iter().any(|path| path == KERNEL);
        if is_kernel && let Some(file) = self.vmlinux(build) {
            // Addresses count from the beginning of the text, whose position depends on the boot.
            if let Ok(Some(begin)) = elf::label(&file, "_stext") {
                let moved: Vec<u64> =
                    addresses.iter().map(|address| address.saturating_add(begin)).collect();
                let mut back = |at: u64, name: &str| take(at - begin, name);
                return named(&[file], &moved, &mut back);
            }
        }
        let running = self
            .kernel
            .get_or_insert_with(|| KernelCode::read(Arc::new(KernelSymbols::read(&Linux))));
        let is_it =
            |name: &str, id: &[u8]| build.id == id && build.paths.iter().any(|it| it == name);
        let Some(module) = running.modules.iter().find(|it| is_it(&it.name, &it.build_id)) else {
            return false;
        };
        let size = module.end - module.start;
        for &address in addresses.iter().filter(|address| **address < size) {
            if let Some((name, _)) = running.symbol(module.start + address) {
                take(address, name);
            }
        }
        true
    }

    fn vmlinux(&mut self, build: &Build) -> Option<File> {
        if let Some(path) = &self.vmlinux {
            match of_build(path, &build.id) {
                Some(data) => return Some(data.into_inner()),
                None => self.refused.push(path.display().to_string()),
            }
        }
        let folders = self.debug_folders.iter().map(PathBuf::as_path).chain([Path::new("/")]);
        let installed = || folders.flat_map(vmlinux_in).find_map(|path| of_build(&path, &build.id));
        self.by_build(&build.id).or_else(installed).map(FileData::into_inner)
    }
}

/// The file at a path, if it is of this build.
fn of_build(path: &Path, id: &[u8]) -> Option<FileData> {
    let is_it = |data: &FileData| Elf::parse(data).is_ok_and(|elf| elf.build_id() == Some(id));
    elf::open(path).ok().filter(is_it)
}

/// Where kernel packages put a vmlinux with symbols, in the directories of various distributions: Debian's have no link by build id. The
/// kernel's release in the trace is not used in a path: it could lead anywhere.
fn vmlinux_in(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| {
        let read = fs::read_dir(folder).into_iter().flatten();
        let mut names: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
        names.sort_unstable();
        names.truncate(MOST_KERNELS);
        names
    };
    let mut found = Vec::new();
    for top in [folder.to_owned(), folder.join("usr/lib/debug")] {
        let is_one = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinux"))
        };
        found.extend(entries(top.join("boot")).into_iter().filter(is_one));
        for modules in ["lib/modules", "usr/lib/modules"] {
            found.extend(entries(top.join(modules)).into_iter().map(|it| it.join("vmlinux")));
        }
    }
    found
}

/// Reports the functions of the running kernel's vDSO, if it has that build id.
fn in_vdso(build: &Build, addresses: &[u64], take: Take<'_>) -> bool {
    let Some(image) = own_vdso() else { return false };
    let Ok(elf) = Elf::parse(&*image) else { return false };
    let Ok(functions) = elf.functions() else { return false };
    if elf.build_id() != Some(&build.id) {
        return false;
    }
    for &address in addresses {
        if let Some((function, _)) = functions.at(address) {
            take(address, &Names::of(&function.raw).short);
        }
    }
    true
}

/// Reports the functions that the files have; false if they cannot be read.
fn named(files: &[File], addresses: &[u64], take: Take<'_>) -> bool {
    let mut budget = Budget::default();
    let name = |at: u64, raw: &str| take(at, &Names::within(&mut budget, raw).short);
    functions_at(files, addresses, name).is_ok()
}

/// A worker that is a thread of this process.
#[cfg(test)]
pub(crate) fn in_this_process(_: u64) -> io::Result<worker::Worker> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    std::thread::spawn(move || {
        let mut reader = Reader::default();
        worker::serve(&theirs, |question, _| (reader.answer(question), None))
    });
    Ok(worker::Worker::at(ours))
}
