//! Resolves a user's probe specs to places in files at which the kernel can put
//! breakpoints.
//!
//! ```text
//! ":render_frame%span n=arg1:u32"
//!     | spec     the grammar alone, nothing of the machine is looked at
//!     v
//!   Spec
//!     | locate   which file: a path, a library as the loader finds it, COMMAND, /proc/PID/root
//!     | elf      which addresses: symbol tables, demangled names, segments, instruction bounds
//!     | usdt     or which notes, with their arguments
//!     | args     what to fetch there, in the kernel's own words
//!     v
//!   Site, Site, ...
//! ```
//!
//! This crate changes nothing on the machine and needs no privileges beyond reading the files. `docs/reference/probes.md` has the grammar;
//! [`fxtrec_kernel`] creates a probe from a [`Site`].

#![forbid(unsafe_code)]

mod any_path;
pub mod args;
pub mod elf;
mod error;
mod list;
pub mod locate;
mod resolve;
pub mod spec;
pub mod usdt;

use std::io;
use std::path::PathBuf;

use fxtrec_kernel::regular::Regular;
use serde::{Deserialize, Serialize};

pub use args::{ArgKind, FetchArg, FetchPoint, Width};
pub use error::{ProbeError, Problem, Symbols};
pub use list::{ListedFunction, ListedUsdt, Listing, list};
pub use locate::Context;
pub use resolve::resolve;
pub use spec::Spec;

/// The default limit on the locations of one [`Spec`].
pub const DEFAULT_MOST: usize = 256;

/// One location in one file at which to place a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The name of its hits in the trace.
    pub name: String,
    /// The file, by a path that opens it from where fxtrec runs; below `/proc/PID/root` when it
    /// is another mount namespace's.
    #[serde(with = "any_path")]
    pub binary: PathBuf,
    /// The version of the file when it was read.
    pub version: FileVersion,
    /// Where in the file the instruction is, in bytes.
    pub offset: u64,
    /// The function, demangled, and the offset into it in bytes: `render::frame+0x10`;
    /// `PROVIDER:NAME` for a USDT probe, `0x401136` if no function is known.
    pub symbol: String,
    pub kind: SiteKind,
    /// The file offset of the counter that opens the probe's is-enabled guard, in bytes.
    pub semaphore: Option<u64>,
    pub args: Vec<FetchArg>,
}

/// A file and its state. Another file at the same path has another version, and so has the file after a write or a change of
/// its attributes (`st_ctim`, which its owner cannot set).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    size: i64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

impl FileVersion {
    /// The current version of a file.
    ///
    /// # Errors
    /// Errors of fstat(2).
    pub fn of(file: &Regular) -> io::Result<FileVersion> {
        let facts = file.facts()?;
        Ok(FileVersion {
            device: facts.st_dev,
            inode: facts.st_ino,
            size: facts.st_size,
            changed: (facts.st_ctime, facts.st_ctime_nsec),
        })
    }
}

/// The kinds of records at a [`Site`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SiteKind {
    /// Each time the instruction is reached.
    Entry,
    /// Each return of the function.
    Return,
    /// How long the function runs, from its first instruction to its return.
    Span,
    /// Each time a probe that the program's author left there is reached.
    Usdt,
}

impl SiteKind {
    /// The category of its events.
    pub fn category(self) -> &'static str {
        match self {
            SiteKind::Entry | SiteKind::Return | SiteKind::Span => "uprobe",
            SiteKind::Usdt => "usdt",
        }
    }
}

impl Site {
    /// The category of its events.
    pub fn category(&self) -> &'static str {
        self.kind.category()
    }
}
