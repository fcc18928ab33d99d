//! The names of cgroups, which the scheduler's programs identify by id.

use std::collections::HashMap;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

const MOUNTS_PATH: &str = "/proc/self/mountinfo";

/// The controller that has the quotas.
const CONTROLLER: &str = "cpu";

/// How many directories to search at most.
const MOST_LOOKED_AT: usize = 100_000;

/// The path of the cgroup with this id, below the root of its hierarchy, whose path is `/`. `None` if there is no such cgroup, or it is not
/// visible.
pub fn path_of(number: u64) -> Option<String> {
    let root = root()?;
    let found = find(&root, number)?;
    let below = found.strip_prefix(&root).ok()?;
    Some(format!("/{}", below.display()))
}

/// A cgroup of a process, and the number of its hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// As in tracepoints (`dst_root`); 0 is the unified hierarchy.
    pub hierarchy: u32,
    /// Relative to the root of the hierarchy, or of the recorder's cgroup namespace.
    pub path: String,
}

/// The cgroup that identifies the process, while it exists: the one in the hierarchy of the CPU controller if that is version 1, otherwise
/// the one in the unified hierarchy.
pub fn of_process(pid: u32) -> Option<Membership> {
    membership(&std::fs::read(format!("/proc/{pid}/cgroup")).ok()?)
}

/// The cgroup of the recorder's own process.
pub fn own() -> Option<Membership> {
    membership(&std::fs::read("/proc/self/cgroup").ok()?)
}

/// Reads the lines `HIERARCHY:CONTROLLERS:PATH` of a `cgroup` file.
pub(crate) fn membership(file: &[u8]) -> Option<Membership> {
    let text = String::from_utf8_lossy(file);
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(hierarchy) = number.parse() else { continue };
        // The cgroup was removed but still has processes.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        let found = Membership { hierarchy, path };
        if controllers.split(',').any(|controller| controller == CONTROLLER) {
            return Some(found);
        }
        if hierarchy == 0 {
            unified = Some(found);
        }
    }
    unified
}

/// The hierarchy whose cgroups identify a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// The hierarchy of version 2.
    Unified,
    /// The hierarchy of version 1 that has the controller.
    Controller,
}

/// Where the hierarchy of the controller is mounted.
pub(crate) fn root() -> Option<PathBuf> {
    Some(mounted()?.1)
}

/// The hierarchy that has the controller, and where it is mounted.
pub fn mounted() -> Option<(Hierarchy, PathBuf)> {
    hierarchy(&std::fs::read_to_string(MOUNTS_PATH).ok()?)
}

/// The mount point of the hierarchy that has the controller: one of version 1, or else that of version 2.
fn hierarchy(mounts: &str) -> Option<(Hierarchy, PathBuf)> {
    let mut unified = None;
    for line in mounts.lines() {
        // ... root, mount point, options, fields, " - ", type, source, options of the file system
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let Some(point) = mount.split(' ').nth(4) else { continue };
        let mut words = file_system.split(' ');
        let (kind, options) = (words.next(), words.nth(1).unwrap_or_default());
        match kind {
            Some("cgroup") if options.split(',').any(|option| option == CONTROLLER) => {
                return Some((Hierarchy::Controller, point.into()));
            }
            Some("cgroup2") if unified.is_none() => {
                unified = Some((Hierarchy::Unified, point.into()));
            }
            _ => {}
        }
    }
    unified
}

/// The paths of all cgroups below `root`, by id; the path of `root` itself is `/`. Returns only some of them if there are very many.
pub fn paths(root: &Path) -> HashMap<u64, String> {
    let mut found = HashMap::new();
    let number = |folder: &Path| folder.metadata().map(|meta| meta.ino());
    if let Ok(number) = number(root) {
        found.insert(number, "/".to_owned());
    }
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if found.len() >= MOST_LOOKED_AT {
                return found;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if let Ok(below) = path.strip_prefix(root) {
                found.insert(entry.ino(), format!("/{}", below.display()));
            }
            left.push(path);
        }
    }
    found
}

/// The directory with this inode number, which is that of its cgroup.
fn find(root: &Path, number: u64) -> Option<PathBuf> {
    let mut left = vec![root.to_owned()];
    for _ in 0..MOST_LOOKED_AT {
        let folder = left.pop()?;
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.ino() == number {
                return Some(entry.path());
            }
            left.push(entry.path());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "30 29 0:25 / /sys/fs/cgroup/cpuset rw shared:6 - cgroup cgroup rw,cpuset\n\
                         31 29 0:26 / /sys/fs/cgroup/cpu rw shared:7 - cgroup cgroup rw,cpu,cpuacct\n";
    const SECOND: &str =
        "32 29 0:27 / /sys/fs/cgroup/unified rw shared:8 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_hierarchy_is_that_of_the_controller_or_else_the_unified_one() {
        let both = format!("{SECOND}{FIRST}");
        let found = |hierarchy, path: &str| Some((hierarchy, path.into()));
        let controller = found(Hierarchy::Controller, "/sys/fs/cgroup/cpu");
        assert_eq!(hierarchy(&both), controller);
        let unified = found(Hierarchy::Unified, "/sys/fs/cgroup/unified");
        assert_eq!(hierarchy(SECOND), unified);
        assert_eq!(hierarchy("33 29 0:28 / / rw - ext4 /dev/vda rw\n"), None);
    }

    #[test]
    fn a_process_is_identified_by_its_cgroup_in_the_hierarchy_of_the_controller() {
        let found = |hierarchy, path: &str| Some(Membership { hierarchy, path: path.to_owned() });
        let first = b"4:memory:/m\n3:cpu,cpuacct:/a:b\n1:name=systemd:/s\n0::/u\n";
        assert_eq!(membership(first), found(3, "/a:b"));
        assert_eq!(membership(b"4:cpuset:/m\n0::/u (deleted)\n"), found(0, "/u"));
        assert_eq!(membership(b"4:memory:/m\nx\n"), None);
        assert_eq!(own(), of_process(std::process::id()));
    }

    #[test]
    fn a_directory_is_found_by_its_inode_however_deep() {
        let root = tempfile::tempdir().expect("a folder");
        let deep = root.path().join("a/b/c");
        std::fs::create_dir_all(&deep).expect("folders in it");
        std::fs::create_dir(root.path().join("d")).expect("another");
        let number = deep.metadata().expect("it is there").ino();
        assert_eq!(find(root.path(), number), Some(deep));
        assert_eq!(find(root.path(), u64::MAX), None);
    }

    #[test]
    fn every_group_is_listed_with_its_path() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("a/b")).expect("folders in it");
        std::fs::write(root.path().join("a/tasks"), "").expect("a file");
        let number = |path: &str| root.path().join(path).metadata().expect("it is there").ino();
        let expected = [("", "/"), ("a", "/a"), ("a/b", "/a/b")];
        let expected: HashMap<u64, String> =
            expected.map(|(below, path)| (number(below), path.to_owned())).into_iter().collect();
        assert_eq!(paths(root.path()), expected);
    }
}
