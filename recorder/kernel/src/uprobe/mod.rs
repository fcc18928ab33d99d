//! User probes: breakpoints that the kernel places in a program's code.
//!
//! There are two ways to create one. perf's own probes ([`Uprobe`]) are described by the call that opens them and vanish with the
//! descriptor, even if the recorder is killed. To record arguments, the kernel must be told how to fetch them. This requires a definition
//! in tracefs ([`definitions`]), which is then an ordinary tracepoint.
//!
//! In both cases, the file is passed to the kernel as `/proc/self/fd/N`. So it is the file that was examined, even if it is in another
//! mount namespace, has a space in its name, or is replaced at the same time.

pub mod definitions;
mod pmu;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use perf_event_open_sys::bindings as b;

pub use pmu::{Pmu, PmuError};

/// A program or library that is kept open while it is probed: by `O_PATH`, if it might not respond.
#[derive(Clone, Debug)]
pub struct Binary {
    _file: Arc<File>,
    path: CString,
}

impl Binary {
    pub fn new(file: File) -> Binary {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // Numbers and slashes contain no NUL.
        let path = CString::new(path).unwrap_or_default();
        Binary { _file: Arc::new(file), path }
    }

    /// The same as [`Binary::path`], in the form that system calls take.
    pub(crate) fn name(&self) -> &CStr {
        &self.path
    }

    /// The name by which this process, and the kernel on its behalf, find the file.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(self.path.to_string_lossy().into_owned())
    }
}

/// A location in a program at which the kernel reports each hit.
#[derive(Clone, Debug)]
pub struct ProbeSite {
    pub binary: Binary,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Whether the probe is on the return of the function that begins there.
    pub on_return: bool,
    /// Offset in the file of a 16-bit counter that must be above zero while the probe exists.
    pub semaphore: Option<u64>,
}

/// One of perf's own probes.
#[derive(Clone, Debug)]
pub struct Uprobe {
    /// How this kernel describes it.
    pub pmu: Pmu,
    pub place: ProbeSite,
}

impl Uprobe {
    /// Completes `attr` for this probe. The path that it points to lives as long as the probe.
    pub(super) fn fill(&self, attr: &mut b::perf_event_attr) {
        attr.type_ = self.pmu.kind;
        attr.config = self.pmu.config(self.place.on_return, self.place.semaphore);
        attr.__bindgen_anon_3.uprobe_path = self.place.binary.path.as_ptr() as u64;
        attr.__bindgen_anon_4.probe_offset = self.place.offset;
    }
}
