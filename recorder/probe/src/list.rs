//! The locations for probes in a file: its functions and its USDT probes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::any_path;
use super::elf::{self, Arch, Budget, Elf, Names};
use super::error::{Problem, Symbols};
use super::locate::{self, Context, LocateError, Located};
use super::resolve::{self, File};
use super::spec::Binary;
use super::usdt;
use fxtrec_units::glob;

/// The locations for probes in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The file, by a path that opens it from where fxtrec runs.
    #[serde(with = "any_path")]
    pub binary: PathBuf,
    /// The processor that the file is for.
    pub arch: Arch,
    /// The build ID, in hexadecimal.
    pub build_id: Option<String>,
    /// The symbols that it has for its functions.
    pub symbols: Symbols,
    /// The separate debug file with its stripped symbols, if found.
    #[serde(with = "any_path::maybe")]
    pub debug_file: Option<PathBuf>,
    pub functions: Vec<ListedFunction>,
    /// The USDT probes, by name.
    pub usdt: Vec<ListedUsdt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFunction {
    pub name: String,
    /// The readable name with the types of its parameters, if known.
    pub full_name: String,
    pub linker_name: String,
    /// Where it begins, before the loader moves the file.
    pub address: u64,
    /// The address as an offset in the file, in bytes.
    pub offset: Option<u64>,
    /// Its size in bytes, if the file contains the size.
    pub size: Option<u64>,
    /// Whether it only selects the function of this name when the program starts.
    pub chooses: bool,
}

/// A USDT probe at one location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedUsdt {
    pub provider: String,
    pub name: String,
    /// Where it is, before the loader moves the file.
    pub address: u64,
    /// The address as an offset in the file, in bytes.
    pub offset: Option<u64>,
    /// The address of the counter that enables its guard, if it has one.
    pub semaphore: Option<u64>,
    /// Its arguments: as the kernel fetches them, or, where it cannot, as the assembler wrote them.
    pub arguments: Vec<Result<String, String>>,
}

/// Lists the locations in a file that `pattern` matches, a name or a glob as in a spec; `usdt:PROVIDER:NAME` matches USDT probes only.
///
/// # Errors
/// Returns an error if there is no such file, or nothing in it matches `pattern`.
pub fn list(binary: &Binary, pattern: &str, context: &Context) -> Result<Vec<Listing>, Problem> {
    let located = locate::locate(binary, context)?;
    located.iter().map(|located| in_file(located, pattern)).collect()
}

fn in_file(located: &Located, pattern: &str) -> Result<Listing, Problem> {
    let path = &located.path;
    let of_elf = |source| Problem::Elf { path: path.clone(), source };
    let (version, data) = elf::open_version(path)
        .map_err(|source| LocateError::Open { path: path.clone(), source })?;
    let elf = Elf::parse(&data).map_err(of_elf)?;
    let (functions, debug_file) = resolve::all_functions(&elf, located).map_err(of_elf)?;
    let file = File { path, version, elf: &elf, functions: &functions };
    let probes =
        usdt::probes(&elf).map_err(|source| Problem::Usdt { path: path.clone(), source })?;

    let usdt_only = pattern.strip_prefix("usdt:").filter(|rest| !rest.starts_with(':'));
    let glob = glob::of_name(usdt_only.unwrap_or(pattern));
    let is_meant = |probe: &usdt::Probe| {
        glob.matches(&probe.id()) || (usdt_only.is_none() && glob.matches(&probe.name))
    };
    let mut budget = Budget::default();
    let listing = Listing {
        binary: path.clone(),
        arch: elf.arch(),
        build_id: elf.build_id().map(elf::hex),
        symbols: file.symbols(),
        debug_file,
        functions: match usdt_only {
            Some(_) => Vec::new(),
            None => elf::select(&functions, pattern)
                .into_iter()
                .map(|selection| {
                    let elf::Function { address, size, chooses, raw, .. } = selection.function;
                    let names = Names::within(&mut budget, raw);
                    ListedFunction {
                        name: names.short.to_string(),
                        full_name: names.full.to_string(),
                        linker_name: raw.clone(),
                        address: *address,
                        offset: elf.file_offset(*address),
                        size: *size,
                        chooses: *chooses,
                    }
                })
                .collect(),
        },
        usdt: probes
            .iter()
            .filter(|probe| is_meant(probe))
            .map(|probe| ListedUsdt {
                provider: probe.provider.clone(),
                name: probe.name.clone(),
                address: probe.address,
                offset: elf.file_offset(probe.address),
                semaphore: probe.semaphore,
                arguments: file.operands(probe),
            })
            .collect(),
    };
    if listing.functions.is_empty() && listing.usdt.is_empty() && pattern != "*" {
        return Err(match usdt_only {
            Some(rest) => {
                let (provider, name) = rest.split_once(':').unwrap_or(("*", rest));
                file.no_usdt(provider, name, &probes)
            }
            None => file.no_function(pattern),
        });
    }
    Ok(listing)
}
