//! Opening files that must be regular ones: programs, libraries, policies.
//!
//! Opening a FIFO waits for somebody at its other end, and opening a device may do anything. What a command line or
//! another process's file system calls a program may be either.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file to read it. Never waits for another process, and for nothing else than a file system may take.
///
/// # Errors
/// What open(2) returns, and `InvalidInput` when it is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// All of a regular file.
///
/// # Errors
/// As for [`open`], and when it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_wait_or_is_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        for path in [fifo.as_path(), dir.path(), Path::new("/dev/null")] {
            let error = open(path).expect_err("no regular file");
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
        std::fs::write(dir.path().join("file"), "content").expect("room");
        assert_eq!(read(&dir.path().join("file")).expect("a file"), b"content");
    }
}
