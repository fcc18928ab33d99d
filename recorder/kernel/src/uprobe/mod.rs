//! User probes: breakpoints that the kernel places in a program's code.
//!
//! Two ways lead to one. perf's own probes ([`Uprobe`]) are described by the
//! call that opens them and vanish with the descriptor, even when the recorder
//! is killed. Where arguments are wanted, the kernel must be told how to fetch
//! them, and that goes by a definition in tracefs ([`definitions`]), which is
//! then an ordinary tracepoint.
//!
//! Either way the file is named to the kernel by `/proc/self/fd/N`: so it is the
//! file that was examined, though it lie in another mount namespace, have a space
//! in its name or be replaced meanwhile.

pub mod definitions;
mod pmu;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use perf_event_open_sys::bindings as b;

pub use pmu::{Pmu, PmuError};

/// A program or library, held as long as it is probed: by `O_PATH`, if it may not answer.
#[derive(Clone, Debug)]
pub struct Binary {
    _file: Arc<File>,
    path: CString,
}

impl Binary {
    pub fn new(file: File) -> Binary {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // A number and slashes hold no NUL.
        let path = CString::new(path).unwrap_or_default();
        Binary { _file: Arc::new(file), path }
    }

    /// The same in the form of system calls.
    pub(crate) fn name(&self) -> &CStr {
        &self.path
    }

    /// The name by which this process and the kernel on its behalf find the file.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(self.path.to_string_lossy().into_owned())
    }
}

/// A place in a program at which the kernel is to report each passing.
#[derive(Clone, Debug)]
pub struct Place {
    pub binary: Binary,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Whether the return of the function that begins there is meant.
    pub on_return: bool,
    /// Offset in the file of a 16-bit counter that is to be above zero as long as the probe is there.
    pub semaphore: Option<u64>,
}

/// A probe by perf's own means.
#[derive(Clone, Debug)]
pub struct Uprobe {
    /// How this kernel wants it described.
    pub pmu: Pmu,
    pub place: Place,
}

impl Uprobe {
    /// Makes `attr` one for this probe. The path it points to lives as long as the probe does.
    pub(super) fn fill(&self, attr: &mut b::perf_event_attr) {
        attr.type_ = self.pmu.kind;
        attr.config = self.pmu.config(self.place.on_return, self.place.semaphore);
        attr.__bindgen_anon_3.uprobe_path = self.place.binary.path.as_ptr() as u64;
        attr.__bindgen_anon_4.probe_offset = self.place.offset;
    }
}
