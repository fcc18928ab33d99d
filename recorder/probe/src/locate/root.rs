//! Paths below another root directory.
//!
//! `/proc/PID/root/lib/libc.so.6` leads out of the container if a link on the way is absolute, because the kernel then starts at fxtrec's
//! own root. So links are followed here, as the process would.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The kernel follows no more links either.
const MOST_LINKS: usize = 40;

/// The file that is `path` for a process whose root directory is `root`, with no link left in the part after `root`.
pub(super) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut left: VecDeque<OsString> = VecDeque::new();
    push_front(&mut left, path);
    // The components below the root so far.
    let mut inside: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(component) = left.pop_front() {
        if component == ".." {
            inside.pop();
            continue;
        }
        inside.push(component);
        let here = join(root, &inside);
        if !here.symlink_metadata()?.file_type().is_symlink() {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = std::fs::read_link(&here)?;
        if target.is_absolute() {
            inside.clear();
        } else {
            inside.pop();
        }
        push_front(&mut left, &target);
    }
    Ok(join(root, &inside))
}

fn join(root: &Path, inside: &[OsString]) -> PathBuf {
    inside.iter().fold(root.to_owned(), |path, component| path.join(component))
}

fn push_front(left: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => left.push_front(name.to_owned()),
            Component::ParentDir => left.push_front("..".into()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out_of_the_root() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join("usr/lib")).expect("writable");
        std::fs::write(root.join("usr/lib/libx.so.1"), "").expect("writable");
        symlink("/usr/lib", root.join("lib")).expect("writable");
        symlink("libx.so.1", root.join("usr/lib/libx.so")).expect("writable");
        symlink("../../../../usr/lib/libx.so", root.join("usr/lib/up.so")).expect("writable");
        let wanted = root.join("usr/lib/libx.so.1");
        for path in ["/lib/libx.so", "/usr/lib/up.so", "/lib/../lib/./libx.so.1"] {
            assert_eq!(resolve(root, Path::new(path)).expect(path), wanted, "{path}");
        }
    }

    #[test]
    fn links_in_a_circle_and_files_that_are_not_there_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        symlink("b", root.join("a")).expect("writable");
        symlink("a", root.join("b")).expect("writable");
        let error = resolve(root, Path::new("/a")).expect_err("a circle");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        let error = resolve(root, Path::new("/none")).expect_err("not there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
