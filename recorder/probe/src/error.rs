//! The reason why a spec matches no location for a probe, and the remedy.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::args::ArgError;
use super::elf::{Arch, BoundsError, ElfError};
use super::locate::LocateError;
use super::usdt::UsdtError;

/// A spec that names no location for a probe.
#[derive(Debug, thiserror::Error)]
#[error("probe '{spec}': {problem}")]
pub struct ProbeError {
    /// The spec as the user wrote it.
    pub spec: String,
    pub problem: Problem,
}

/// The reason why a spec matches no location for a probe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The binary is not found.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// Probes cannot be put into the binary.
    #[error("{}: {source}", path.display())]
    Elf {
        path: PathBuf,
        /// The error in it.
        source: ElfError,
    },
    /// The binary's USDT probes cannot be read.
    #[error("{}: {source}", path.display())]
    Usdt {
        path: PathBuf,
        /// The error in them.
        source: UsdtError,
    },
    /// The binary is for another processor.
    #[error("{} is for {arch}, but this machine is {}", path.display(), Arch::HOST)]
    OtherArch { path: PathBuf, arch: Arch },
    /// No function has the name.
    #[error("{} has no function '{pattern}'{}", path.display(), advice(*.symbols, nearest))]
    NoFunction {
        path: PathBuf,
        pattern: String,
        /// The kind of symbols in the file.
        symbols: Symbols,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// The function is defined in another file.
    #[error(
        "{} does not define '{name}', but imports it from a library; probe it there: {}",
        path.display(), somewhere(.libraries, name)
    )]
    Imported {
        path: PathBuf,
        name: String,
        /// The libraries that the file needs.
        libraries: Vec<String>,
    },
    /// The symbol is an IFUNC, which only chooses the function.
    #[error(
        "'{name}' of {} is an IFUNC: its implementation is selected when the program starts, and a probe would only see that selection; probe an implementation{}",
        path.display(), one_of(.implementations)
    )]
    Chosen { path: PathBuf, name: String, implementations: Vec<String> },
    /// The function has no return that could be watched.
    #[error(
        "'{name}' of {} is jumped to, not called, so %return and %span would break the program: \
         probe it without them",
        path.display()
    )]
    NotCalled { path: PathBuf, name: String },
    /// The location is not where an instruction begins.
    #[error("{}: {source}", path.display())]
    Bounds { path: PathBuf, source: BoundsError },
    /// The address is not in the file's code.
    #[error(
        "{}: {address:#x} is not in its code, which is at {code}; use an address as nm or objdump -d prints it",
        path.display()
    )]
    NotCode { path: PathBuf, address: u64, code: String },
    /// A return probe at a location other than a function's beginning.
    #[error(
        "{}: {address:#x} is not known to be the start of a function, so %return and %span could break the program",
        path.display()
    )]
    NotEntry { path: PathBuf, address: u64 },
    /// Arguments by number at a location where they are unknown.
    #[error(
        "{}: {address:#x} is not known to be the start of a function, so argN is unknown there: \
         name the register instead",
        path.display()
    )]
    NoConvention { path: PathBuf, address: u64 },
    /// No USDT probe has the name.
    #[error("{} has no USDT probe {provider}:{name}{}", path.display(), usdt_advice(.nearest))]
    NoUsdt {
        path: PathBuf,
        /// The provider's name or glob.
        provider: String,
        /// The probe's name or glob.
        name: String,
        /// The existing probes, the most similar first.
        nearest: Vec<String>,
    },
    /// A probe's semaphore is not in the file.
    #[error("{}: the semaphore of {probe} is at {address:#x}, which is not in the file", path.display())]
    Semaphore {
        path: PathBuf,
        probe: String,
        /// The alleged address of the semaphore.
        address: u64,
    },
    /// An argument that the kernel cannot fetch.
    #[error(transparent)]
    Arg(#[from] ArgError),
    /// More locations than the limit, which guards against mistakes.
    #[error("it matches {found} locations: the maximum is {most}; use a narrower glob, or several")]
    TooMany { found: usize, most: usize },
}

/// The symbols that a file has for its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Symbols {
    Complete,
    /// Only exported symbols.
    Exported,
    /// Only exported symbols; the rest is compressed in the section `.gnu_debugdata`, which fxtrec does not read.
    Packed,
    /// None.
    Stripped,
}

fn advice(symbols: Symbols, nearest: &[String]) -> String {
    let mut text = match symbols {
        Symbols::Complete => String::new(),
        Symbols::Exported => "; it is stripped, so only exported functions are known: install \
             its debug symbols, use a build that is not stripped, or give an address (0x...)"
            .to_owned(),
        Symbols::Packed => "; it is stripped, and fxtrec does not read the symbols in its \
             .gnu_debugdata: install its debug symbols, or give an address (0x...) that gdb or \
             eu-readelf prints"
            .to_owned(),
        Symbols::Stripped => "; it is stripped of all symbols: install its debug symbols, use a \
             build that is not stripped, or give an address (0x...)"
            .to_owned(),
    };
    match nearest {
        [] if symbols == Symbols::Complete => {
            text.push_str("; fxtrec probes BINARY lists its functions");
        }
        [] => {}
        nearest => text.push_str(&format!("; did you mean {}?", nearest.join(" or "))),
    }
    text
}

fn somewhere(libraries: &[String], name: &str) -> String {
    let places: Vec<String> = libraries.iter().map(|library| format!("{library}:{name}")).collect();
    if places.is_empty() { "LIBRARY:".to_owned() + name } else { places.join(" or ") }
}

fn one_of(names: &[String]) -> String {
    if names.is_empty() {
        "; the library's debug symbols name them".to_owned()
    } else {
        format!(": {}", names.join(", "))
    }
}

fn usdt_advice(nearest: &[String]) -> String {
    if nearest.is_empty() {
        "; it has no USDT probes: was it built with them?".to_owned()
    } else {
        format!("; it has {}", nearest.join(", "))
    }
}
