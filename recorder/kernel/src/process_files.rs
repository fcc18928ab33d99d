//! The files of a running process: its executable, what it has mapped, its root directory.
//!
//! A process in another mount namespace, a container, has other files under the
//! same names. They can be reached through `/proc/PID/root`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that a process can run code of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedCode {
    /// Its path as the process sees it.
    pub path: PathBuf,
    /// Whether the path does not lead to it any more, since it was deleted or replaced.
    pub deleted: bool,
}

/// The directory below which the paths of a process have to be looked up: `/` unless it is in
/// another mount namespace or was given another root.
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub fn root_of(pid: u32) -> io::Result<PathBuf> {
    let base = PathBuf::from(format!("/proc/{pid}"));
    let inode = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.ino());
    let shares_mounts = inode(&base.join("ns/mnt"))? == inode(Path::new("/proc/self/ns/mnt"))?;
    let own_root = std::fs::read_link("/proc/self/root")?;
    let shares_root = std::fs::read_link(base.join("root"))? == own_root;
    Ok(if shares_mounts && shares_root { PathBuf::from("/") } else { base.join("root") })
}

/// A path that opens the executable of a process even if it was deleted.
pub fn executable(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/exe"))
}

/// The files that a process has mapped to run, each once, in the order of their addresses.
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub fn mapped_code(pid: u32) -> io::Result<Vec<MappedCode>> {
    Ok(parse_maps(&std::fs::read(format!("/proc/{pid}/maps"))?))
}

fn parse_maps(maps: &[u8]) -> Vec<MappedCode> {
    let mut files: Vec<MappedCode> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // address perms offset dev inode path
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let executable = fields.nth(1).is_some_and(|permissions| permissions.get(2) == Some(&b'x'));
        let Some(path) = fields.nth(3).map(<[u8]>::trim_ascii_start) else { continue };
        if !executable || !path.starts_with(b"/") {
            continue;
        }
        let stripped = path.strip_suffix(b" (deleted)");
        let path = PathBuf::from(OsStr::from_bytes(stripped.unwrap_or(path)));
        let file = MappedCode { path, deleted: stripped.is_some() };
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_whose_code_can_run_count_and_each_once() {
        let maps = b"\
55a0-55b0 r--p 00000000 fe:00 12                         /usr/bin/my app\n\
55b0-55c0 r-xp 00001000 fe:00 12                         /usr/bin/my app\n\
7f00-7f10 r-xp 00000000 fe:00 14                         /usr/lib/libx.so (deleted)\n\
7f10-7f20 r-xp 00002000 fe:00 14                         /usr/lib/libx.so (deleted)\n\
7f20-7f30 rw-p 00000000 00:00 0                          [heap]\n\
7f30-7f40 r-xp 00000000 00:00 0                          [vdso]\n\
7f40-7f50 r-xp 00000000 00:00 0 \n";
        let files: Vec<_> = parse_maps(maps)
            .into_iter()
            .map(|file| (file.path.to_str().expect("plain").to_owned(), file.deleted))
            .collect();
        assert_eq!(files, [("/usr/bin/my app".into(), false), ("/usr/lib/libx.so".into(), true)]);
        assert!(parse_maps(b"\n \n55a0-55b0 r-xp").is_empty());
    }

    #[test]
    fn this_process_has_its_own_executable_mapped_below_the_same_root() {
        let own = std::process::id();
        assert_eq!(root_of(own).expect("it runs"), Path::new("/"));
        let executable = std::env::current_exe().expect("it has one");
        let mapped = mapped_code(own).expect("it runs");
        assert!(mapped.iter().any(|file| file.path == executable && !file.deleted), "{mapped:?}");
    }
}
