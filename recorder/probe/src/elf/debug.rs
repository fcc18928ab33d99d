//! Symbols that were removed from a file and stored in another one.
//!
//! Distributions install them below `/usr/lib/debug`, found by the build ID
//! that both files carry, or by the name in `.gnu_debuglink` with a checksum.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fxtrec_kernel::code::gnu_build_id;
use fxtrec_kernel::regular;
use object::{ReadCache, ReadRef};

use super::Elf;

/// The longest build ID, in bytes; it is a hash.
const LONGEST_ID: usize = 64;

/// The maximum size, in bytes, of a section with a build ID: a kernel's sections have a few hundred bytes.
const MOST_NOTES: u64 = 1 << 20;

/// The longest name of a file and its checksum, in bytes.
const LONGEST_LINK: u64 = 4096;

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// The build ID that the linker wrote, or Go's own build ID from before Go 1.24, which writes GNU's as well.
    pub fn build_id(&self) -> Option<&'d [u8]> {
        // A kernel has all its notes in one section, and so does its vDSO.
        let gnu = [".note.gnu.build-id", ".notes", ".note"].into_iter().find_map(|section| {
            let (notes, _) = self.section_within(section, MOST_NOTES)?;
            let id = gnu_build_id(notes);
            (!id.is_empty() && id.len() <= LONGEST_ID).then_some(id)
        });
        gnu.or_else(|| self.go_build_id())
    }

    /// The name of the file with the stripped symbols.
    fn debug_link(&self) -> Option<&'d str> {
        let (link, _) = self.section_within(".gnu_debuglink", LONGEST_LINK)?;
        let name = std::str::from_utf8(link.split(|byte| *byte == 0).next()?).ok()?;
        // A name, not a path to somewhere else.
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }
}

/// Opens the file with the symbols that were stripped from `elf`, the file at `path`, if it is installed; below `root` if the file is in
/// another mount namespace, or else here.
///
/// Only a file of the same build is accepted.
pub fn separate_debug_file<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    path: &Path,
    root: &Path,
) -> Option<(PathBuf, ReadCache<File>)> {
    separate_debug_file_by(elf, path, root, regular::open)
}

/// The same for an untrusted file: `open` decides which files may be opened for it.
pub fn separate_debug_file_by<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    path: &Path,
    root: &Path,
    open: impl Fn(&Path) -> io::Result<File>,
) -> Option<(PathBuf, ReadCache<File>)> {
    let id = elf.build_id()?;
    candidates(id, elf.debug_link(), path, root).into_iter().find_map(|candidate| {
        let data = ReadCache::new(open(&candidate).ok()?);
        let same = Elf::parse(&data).is_ok_and(|debug| debug.build_id() == Some(id));
        same.then_some((candidate, data))
    })
}

/// Opens the file with the symbols of the build `id` in a directory of debug files, by the build ID alone.
pub fn debug_file_of(id: &[u8], folder: &Path) -> Option<ReadCache<File>> {
    if id.len() < 2 || id.len() > LONGEST_ID {
        return None;
    }
    let id_text = hex(id);
    let (first, rest) = id_text.split_at(2);
    ["", "usr/lib/debug"].into_iter().find_map(|inside| {
        let by_id = folder.join(inside).join(format!(".build-id/{first}/{rest}.debug"));
        let data = super::open(&by_id).ok()?;
        let same = Elf::parse(&data).is_ok_and(|debug| debug.build_id() == Some(id));
        same.then_some(data)
    })
}

/// Where the file may be, the likeliest first.
fn candidates(id: &[u8], link: Option<&str>, path: &Path, root: &Path) -> Vec<PathBuf> {
    let id = hex(id);
    let by_id = format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    let mut candidates = vec![root.join(&by_id)];
    if root != Path::new("/") {
        candidates.push(Path::new("/").join(&by_id));
    }
    if let (Some(link), Some(folder)) = (link, path.parent()) {
        candidates.push(folder.join(link));
        candidates.push(folder.join(".debug").join(link));
        let inside = folder.strip_prefix(root).unwrap_or(folder);
        let inside = inside.strip_prefix("/").unwrap_or(inside);
        candidates.push(root.join("usr/lib/debug").join(inside).join(link));
    }
    candidates.retain(|candidate| candidate != path);
    candidates
}

/// Bytes as two hexadecimal digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_comes_first_and_then_the_link() {
        let id = [0xAB, 0xCD, 0x01];
        let found = candidates(&id, Some("app.debug"), Path::new("/opt/bin/app"), Path::new("/"));
        let found: Vec<_> = found.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(
            found,
            [
                "/usr/lib/debug/.build-id/ab/cd01.debug",
                "/opt/bin/app.debug",
                "/opt/bin/.debug/app.debug",
                "/usr/lib/debug/opt/bin/app.debug",
            ]
        );
    }

    #[test]
    fn a_containers_files_are_looked_for_in_it_first() {
        let root = Path::new("/proc/7/root");
        let path = Path::new("/proc/7/root/bin/app");
        let found = candidates(&[1, 2], Some("app.debug"), path, root);
        assert_eq!(found[0], Path::new("/proc/7/root/usr/lib/debug/.build-id/01/02.debug"));
        assert_eq!(found[1], Path::new("/usr/lib/debug/.build-id/01/02.debug"));
        assert_eq!(found[4], Path::new("/proc/7/root/usr/lib/debug/bin/app.debug"));
    }
}
