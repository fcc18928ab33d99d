//! The files that have the names, by their build id.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fxtrec_kernel::code::{KERNEL, KernelCode};
use fxtrec_kernel::made_code::{VDSO, own_vdso};
use fxtrec_probe::elf::{
    self, Elf, FileData, Names, debug_file_of, functions_at, separate_debug_file,
};

use super::Where;
use super::code::Build;
use crate::report::Report;

/// How many files are named that were not found.
const MOST_NOTES: usize = 10;

/// How many kernels of a folder are looked at.
const MOST_KERNELS: usize = 64;

/// What a name is told to: an address, and its function as people call it.
type Take<'t> = &'t mut dyn FnMut(u64, &str);

/// Where files are looked for, and what became of it.
#[derive(Debug)]
pub(super) struct Files<'w> {
    places: &'w Where,
    /// The running kernel, once somebody has asked.
    kernel: Option<KernelCode>,
    found: u64,
    /// Files at a recorded path that have another build id.
    refused: Vec<String>,
    missing: Vec<String>,
}

impl<'w> Files<'w> {
    pub(super) fn new(places: &'w Where) -> Files<'w> {
        Files { places, kernel: None, found: 0, refused: Vec::new(), missing: Vec::new() }
    }

    /// Tells the functions of the addresses of a file.
    pub(super) fn look(&mut self, build: &Build, addresses: &[u64], take: Take<'_>) {
        let is_found = match build.in_kernel {
            true => self.in_kernel(build, addresses, take),
            false => self.in_file(build, addresses, take),
        };
        if is_found {
            self.found += 1;
        } else {
            let path = build.paths.first().map_or("?", String::as_str);
            let id: String = build.id.iter().map(|byte| format!("{byte:02x}")).collect();
            self.missing.push(format!("{path} (build id {id})"));
        }
    }

    fn in_file(&mut self, build: &Build, addresses: &[u64], take: Take<'_>) -> bool {
        if build.paths.iter().any(|path| path == VDSO) {
            return in_vdso(build, addresses, take);
        }
        let Some(files) = self.files_of(build) else { return false };
        named(&files, addresses, take)
    }

    /// The files with the symbols of a program or library, first the one with the code if it is there.
    fn files_of(&mut self, build: &Build) -> Option<Vec<File>> {
        for path in &build.paths {
            let path = Path::new(path);
            let Ok(data) = elf::open(path) else { continue };
            let separate = {
                let Ok(elf) = Elf::parse(&data) else { continue };
                if elf.build_id() != Some(&build.id) {
                    self.refused.push(path.display().to_string());
                    continue;
                }
                match elf.has_all_symbols() {
                    true => None,
                    false => separate_debug_file(&elf, path, Path::new("/")).map(|(_, data)| data),
                }
            };
            let separate = separate.or_else(|| self.by_build(&build.id));
            return Some(
                [Some(data), separate].into_iter().flatten().map(FileData::into_inner).collect(),
            );
        }
        self.by_build(&build.id).map(|data| vec![data.into_inner()])
    }

    /// A file with symbols from the folders of such files.
    fn by_build(&self, id: &[u8]) -> Option<FileData> {
        let folders = self.places.debug_folders.iter().map(PathBuf::as_path);
        folders.chain([Path::new("/")]).find_map(|folder| debug_file_of(id, folder))
    }

    fn in_kernel(&mut self, build: &Build, addresses: &[u64], take: Take<'_>) -> bool {
        let is_kernel = build.paths.iter().any(|path| path == KERNEL);
        if is_kernel && let Some(file) = self.vmlinux(build) {
            // Addresses count from the beginning of the text: where it is depends on the boot.
            if let Ok(Some(begin)) = elf::label(&file, "_stext") {
                let moved: Vec<u64> =
                    addresses.iter().map(|address| address.saturating_add(begin)).collect();
                let mut back = |at: u64, name: &str| take(at - begin, name);
                return named(&[file], &moved, &mut back);
            }
        }
        let running = self.kernel.get_or_insert_with(KernelCode::read);
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
        if let Some(path) = &self.places.vmlinux {
            match of_build(path, &build.id) {
                Some(data) => return Some(data.into_inner()),
                None => self.refused.push(path.display().to_string()),
            }
        }
        let folders =
            self.places.debug_folders.iter().map(PathBuf::as_path).chain([Path::new("/")]);
        let installed = || folders.flat_map(vmlinux_in).find_map(|path| of_build(&path, &build.id));
        self.by_build(&build.id).or_else(installed).map(FileData::into_inner)
    }

    pub(super) fn tell(&self, report: &mut Report) {
        report.add("files found", self.found);
        report.add("files not found", self.missing.len() as u64);
        report.add("files with another build id, not used", self.refused.len() as u64);
        for (what, all) in [("not found", &self.missing), ("another build", &self.refused)] {
            for file in all.iter().take(MOST_NOTES) {
                report.note(format!("{what}: {file}"));
            }
            if all.len() > MOST_NOTES {
                report.note(format!("{what}: {} more", all.len() - MOST_NOTES));
            }
        }
    }
}

/// The file at a path, if it is of this build.
fn of_build(path: &Path, id: &[u8]) -> Option<FileData> {
    let is_it = |data: &FileData| Elf::parse(data).is_ok_and(|elf| elf.build_id() == Some(id));
    elf::open(path).ok().filter(is_it)
}

/// Where packages of kernels put a vmlinux with symbols, in the folder of one distribution or another: Debian's have no link by its
/// build id. What the trace calls the kernel's release leads nowhere: it may be any path.
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

/// Tells the functions of the running kernel's vDSO, if that is the build.
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

/// Tells the functions that the files have; false if they cannot be read.
fn named(files: &[File], addresses: &[u64], take: Take<'_>) -> bool {
    functions_at(files, addresses, |at, raw| take(at, &Names::of(raw).short)).is_ok()
}
