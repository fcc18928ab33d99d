//! Source lines of stack frames, from files on this machine.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::probe::elf::{self, Elf, Lines, debug_file_of, separate_debug_file};
use crate::report::stacks::Line;

/// Files by build id; each is searched once.
#[derive(Debug, Default)]
pub(super) struct Sources {
    known: HashMap<Vec<u8>, Option<Lines>>,
}

impl Sources {
    /// The source lines of an address in the file that was at `path`; empty if no file of this build has line information.
    pub(super) fn at(
        &mut self,
        path: &str,
        build_id: &[u8],
        folders: &[PathBuf],
        address: u64,
    ) -> Option<Vec<Line>> {
        // Without a build id, a file of the same name may have other contents.
        if build_id.is_empty() {
            return None;
        }
        let open = || open(Path::new(path), build_id, folders);
        let lines = self.known.entry(build_id.to_owned()).or_insert_with(open).as_ref()?;
        let line =
            |it: elf::Line| Some(Line { function: it.function, file: it.file?, line: it.line? });
        Some(lines.at(address).into_iter().filter_map(line).collect())
    }

    /// Looks for a file of this build again the next time.
    pub(super) fn forget(&mut self, build_id: &[u8]) {
        self.known.remove(build_id);
    }
}

fn open(path: &Path, build_id: &[u8], folders: &[PathBuf]) -> Option<Lines> {
    let file = elf::open(path).ok();
    let elf = file.as_ref().and_then(|file| Elf::parse(file).ok());
    let elf = elf.filter(|elf| elf.build_id() == Some(build_id));
    let here = || {
        let elf = elf.as_ref()?;
        Lines::of(elf).or_else(|| {
            let (_, debug) = separate_debug_file(elf, path, Path::new("/"))?;
            Lines::of(&Elf::parse(&debug).ok()?)
        })
    };
    let by_build = |folder: &Path| {
        let debug = debug_file_of(build_id, folder)?;
        Lines::of(&Elf::parse(&debug).ok()?)
    };
    let go = || Lines::of_go(elf.as_ref()?);
    let in_folders = folders.iter().find_map(|folder| by_build(folder));
    in_folders.or_else(here).or_else(|| by_build(Path::new("/"))).or_else(go)
}
