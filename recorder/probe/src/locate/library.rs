//! Finds libraries by the names that users and linkers use.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use super::cache::{self, Entry};
use super::error::LocateError;
use super::{hwcaps, root};
use crate::elf::{self, Arch, Dynamic, Elf};
use fxtrec_kernel::process_files;
use fxtrec_kernel::regular;

/// No program needs more libraries than this.
const MOST: usize = 4096;

/// Directories that the loader searches last.
const STANDARD: [&str; 5] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];

/// Whether a library's file name matches `name`: `libc` matches `libc.so.6`.
fn is_meant(name: &str, file_name: &str) -> bool {
    file_name == name
        || file_name.strip_prefix(name).is_some_and(|rest| {
            rest.starts_with('.') && (name.contains(".so") || rest.contains(".so"))
        })
}

/// The library that a process runs, by its path as the process sees it.
pub(super) fn of_process(name: &str, pid: u32) -> Result<Option<PathBuf>, LocateError> {
    let mapped =
        process_files::mapped_code(pid).map_err(|source| LocateError::Process { pid, source })?;
    let found = mapped.into_iter().find(|file| {
        file.path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|file| is_meant(name, file))
    });
    match found {
        Some(file) if file.deleted => Err(LocateError::Replaced { pid, path: file.path }),
        found => Ok(found.map(|file| file.path)),
    }
}

/// The library that the loader will load for the program at `executable`, if the program or one of
/// its libraries needs it.
pub(super) fn of_program(name: &str, executable: &Path, root: &Path) -> Option<PathBuf> {
    let search = Search::new(root);
    let mut left = VecDeque::from([executable.to_owned()]);
    let mut seen: HashSet<String> = HashSet::new();
    while let Some(path) = left.pop_front() {
        let Some(dynamic) = dynamic(&path) else { continue };
        for needed in &dynamic.needed {
            if seen.len() >= MOST || !seen.insert(needed.clone()) {
                continue;
            }
            let Some(library) = search.find(needed, &dynamic, &path) else { continue };
            if is_meant(name, needed) {
                return Some(library);
            }
            left.push_back(library);
        }
    }
    None
}

/// The library that the loader would load for a program without special search paths.
pub(super) fn by_default_search(name: &str, root: &Path) -> Option<PathBuf> {
    let search = Search::new(root);
    let preferred = search.preferred(|entry| is_meant(name, &entry.name));
    if let Some(path) = preferred.and_then(|entry| search.existing(&entry.path)) {
        return Some(path);
    }
    search.standard().find_map(|directory| {
        let directory = search.existing(&directory)?;
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let file = path.file_name().and_then(|file| file.to_str());
                file.is_some_and(|file| is_meant(name, file)) && dynamic(path).is_some()
            })
            .collect();
        names.sort();
        names.into_iter().next()
    })
}

fn dynamic(path: &Path) -> Option<Dynamic> {
    let data = elf::open(path).ok()?;
    let elf = Elf::parse(&data).ok()?;
    if elf.arch() == Arch::HOST { elf.dynamic().ok() } else { None }
}

struct Search<'a> {
    root: &'a Path,
    entries: Vec<Entry>,
    levels: Vec<&'static str>,
    from_environment: Vec<PathBuf>,
}

impl<'a> Search<'a> {
    fn new(root: &'a Path) -> Search<'a> {
        let file = regular::read(&root.join("etc/ld.so.cache")).unwrap_or_default();
        // COMMAND inherits it; a process in a container has its own.
        let own = root == Path::new("/");
        let from_environment = std::env::var_os("LD_LIBRARY_PATH").filter(|_| own);
        Search {
            root,
            entries: cache::parse(&file, Arch::HOST),
            levels: hwcaps::levels(),
            from_environment: from_environment
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
        }
    }

    /// The matching library in the loader's list with the highest preference.
    fn preferred(&self, meant: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let liked = self
            .entries
            .iter()
            .filter(|entry| meant(entry))
            .filter_map(|entry| Some((hwcaps::preference(&entry.path, &self.levels)?, entry)));
        // The first of several equal ones.
        liked.rev().max_by_key(|(preference, _)| *preference).map(|(_, entry)| entry)
    }

    fn standard(&self) -> impl Iterator<Item = PathBuf> {
        let multiarch = match Arch::HOST {
            Arch::X86_64 => "/usr/lib/x86_64-linux-gnu",
            Arch::Aarch64 => "/usr/lib/aarch64-linux-gnu",
        };
        std::iter::once(multiarch).chain(STANDARD).map(PathBuf::from)
    }

    /// The path below the root, if it exists.
    fn existing(&self, path: &Path) -> Option<PathBuf> {
        if self.root == Path::new("/") {
            return path.exists().then(|| path.to_owned());
        }
        root::resolve(self.root, path).ok()
    }

    /// The library `needed` of the file at `of`, as ld.so(8) describes.
    fn find(&self, needed: &str, dynamic: &Dynamic, of: &Path) -> Option<PathBuf> {
        if needed.contains('/') {
            return self.existing(Path::new(needed));
        }
        let origin = of.canonicalize().ok()?.parent()?.to_owned();
        let expand = |list: &Option<String>| -> Vec<PathBuf> {
            let list = list.as_deref().unwrap_or_default();
            let parts = list.split(':').filter(|part| !part.is_empty());
            let origin = origin.to_string_lossy();
            let library = "lib";
            parts
                .map(|part| part.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
                .map(|part| PathBuf::from(part.replace("$LIB", library).replace("${LIB}", library)))
                .collect()
        };
        let rpath = if dynamic.runpath.is_none() { expand(&dynamic.rpath) } else { Vec::new() };
        let directories = rpath
            .into_iter()
            .chain(self.from_environment.iter().cloned())
            .chain(expand(&dynamic.runpath));
        let in_directory = |directory: PathBuf| {
            self.existing(&directory.join(needed)).filter(|path| self::dynamic(path).is_some())
        };
        directories
            .into_iter()
            .find_map(in_directory)
            .or_else(|| {
                let entry = self.preferred(|entry| entry.name == needed)?;
                self.existing(&entry.path)
            })
            .or_else(|| self.standard().find_map(in_directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_meant_with_and_without_its_version() {
        for (name, file) in [
            ("libc", "libc.so.6"),
            ("libc.so", "libc.so.6"),
            ("libc.so.6", "libc.so.6"),
            ("libstdc++", "libstdc++.so.6.0.30"),
            ("libc", "libc.musl-x86_64.so.1"),
        ] {
            assert!(is_meant(name, file), "{name} {file}");
        }
        for (name, file) in
            [("libc", "libcap.so.2"), ("libc", "libc.a"), ("c", "libc.so.6"), ("libc", "libc-2.so")]
        {
            assert!(!is_meant(name, file), "{name} {file}");
        }
    }
}
