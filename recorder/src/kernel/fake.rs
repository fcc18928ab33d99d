//! A machine that answers as a test tells it to, and remembers what it was asked.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use perf_event_open_sys::bindings::perf_event_attr;

use super::sys::{Mapping, Sys};

/// Files and refusals by name. A file that nobody gave is not there; a call that nobody refused works.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    files: RefCell<HashMap<PathBuf, Result<Vec<u8>, i32>>>,
    behind_mount: Option<PathBuf>,
    mount_errno: Option<i32>,
    mounts: RefCell<Vec<PathBuf>>,
    calls: HashMap<&'static str, i32>,
}

impl Fake {
    /// Adds a file.
    pub(crate) fn file(self, path: &str, content: &str) -> Fake {
        self.files.borrow_mut().insert(path.into(), Ok(content.as_bytes().to_vec()));
        self
    }

    /// Lets reading `path` fail with `errno`.
    pub(crate) fn refuse(self, path: &str, errno: i32) -> Fake {
        self.files.borrow_mut().insert(path.into(), Err(errno));
        self
    }

    /// Lets a directory appear once tracefs is mounted.
    pub(crate) fn mount_shows(mut self, path: &str) -> Fake {
        self.behind_mount = Some(path.into());
        self
    }

    /// Lets mounting fail with `errno`.
    pub(crate) fn mount_fails(mut self, errno: i32) -> Fake {
        self.mount_errno = Some(errno);
        self
    }

    /// Lets the method `call` of [`Sys`] fail with `errno`.
    pub(crate) fn fail(mut self, call: &'static str, errno: i32) -> Fake {
        self.calls.insert(call, errno);
        self
    }

    /// Where tracefs was mounted.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        self.mounts.borrow().clone()
    }

    fn answer(&self, call: &str) -> io::Result<()> {
        self.calls.get(call).map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(*errno)))
    }
}

impl Sys for Fake {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.files.borrow().get(path) {
            Some(Ok(content)) => Ok(content.clone()),
            Some(Err(errno)) => Err(io::Error::from_raw_os_error(*errno)),
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    fn mount_tracefs(&self, at: &Path) -> io::Result<()> {
        self.mounts.borrow_mut().push(at.to_owned());
        if let Some(path) = &self.behind_mount {
            self.files.borrow_mut().insert(path.clone(), Err(libc::EISDIR));
        }
        self.mount_errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    fn perf_event_open(&self, _attr: &mut perf_event_attr, _cpu: u32) -> io::Result<OwnedFd> {
        self.answer("perf_event_open")?;
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    fn perf_mmap(&self, _event: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        self.answer("perf_mmap")?;
        Mapping::new(None, len)
    }

    fn perf_set_output(&self, _event: BorrowedFd<'_>, _ring: BorrowedFd<'_>) -> io::Result<()> {
        self.answer("perf_set_output")
    }

    fn perf_enable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        self.answer("perf_enable")
    }

    fn perf_disable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        self.answer("perf_disable")
    }

    fn perf_read(&self, _event: BorrowedFd<'_>) -> io::Result<(u64, Option<u64>)> {
        Ok((0, Some(0)))
    }
}
