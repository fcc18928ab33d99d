//! Which file a spec's BINARY is.
//!
//! ```text
//! path        that file; with -p PID, the file that PID sees under this path
//! name        a library: of the process the one it has mapped, of COMMAND the one its loader will
//!             find; else the one the loader would find for anybody; else a program by PATH
//! nothing     COMMAND's own executable, or the process's
//! ```

mod cache;
mod command;
mod error;
mod hwcaps;
mod library;
mod root;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::any_path;
use super::spec::Binary;
pub use error::LocateError;
use fxtrec_kernel::child::Launch;
use fxtrec_kernel::process_files;
use fxtrec_kernel::regular::Regular;
use fxtrec_units::Pid;

/// The context in which a spec is resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Context {
    /// COMMAND, if there is one.
    pub program: Option<Program>,
    /// The processes to record that are already running.
    #[serde(with = "numbers")]
    pub pids: Vec<Pid>,
    /// How many places a spec may match.
    pub most: usize,
}

/// Ids as numbers.
mod numbers {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Pid;

    pub(super) fn serialize<S: Serializer>(pids: &[Pid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(pids.iter().map(|pid| pid.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Pid>, D::Error> {
        Ok(Vec::<u32>::deserialize(from)?.into_iter().map(Pid).collect())
    }
}

/// A program that will be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub given: OsString,
    /// The files to try with exec, in order.
    #[serde(with = "any_path::all")]
    pub candidates: Vec<PathBuf>,
}

impl Context {
    /// The context of a recording.
    pub fn new(launch: Option<&Launch>, pids: &[Pid]) -> Context {
        Context {
            program: launch.map(|launch| Program {
                given: launch.program.clone(),
                candidates: launch.candidates(),
            }),
            pids: pids.to_vec(),
            most: super::DEFAULT_MOST,
        }
    }
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// A path that opens it from where fxtrec runs.
    pub path: PathBuf,
    /// The directory that the paths in it are relative to.
    pub root: PathBuf,
}

/// Finds the file that `binary` names: a single file, unless the processes to record see different files.
///
/// # Errors
/// Returns an error if there is no such file, or there is no COMMAND or process that it could belong to.
pub fn locate(binary: &Binary, context: &Context) -> Result<Vec<Located>, LocateError> {
    let mut found: Vec<(Located, (u64, u64))> = Vec::new();
    for located in candidates(binary, context)? {
        let facts = Regular::hold(&located.path)
            .and_then(|file| file.facts())
            .map_err(|source| LocateError::Open { path: located.path.clone(), source })?;
        let identity = (facts.st_dev, facts.st_ino);
        if !found.iter().any(|(_, other)| *other == identity) {
            found.push((located, identity));
        }
    }
    Ok(found.into_iter().map(|(located, _)| located).collect())
}

fn candidates(binary: &Binary, context: &Context) -> Result<Vec<Located>, LocateError> {
    match binary {
        Binary::Command => own(context),
        Binary::Path(path) => per_root(context, |root| in_root(root, path)),
        Binary::Name(name) => named(name, context),
    }
}

/// The executables of COMMAND and of the processes.
fn own(context: &Context) -> Result<Vec<Located>, LocateError> {
    let mut own = Vec::new();
    if let Some(program) = &context.program {
        own.push(Located { path: command::executable(program)?, root: "/".into() });
    }
    for pid in &context.pids {
        own.push(Located { path: process_files::executable(pid.0), root: root_of(*pid)? });
    }
    if own.is_empty() { Err(LocateError::NoCommand) } else { Ok(own) }
}

fn named(name: &str, context: &Context) -> Result<Vec<Located>, LocateError> {
    if let Some(program) = &context.program
        && let Ok(executable) = command::executable(program)
        && let Some(path) = library::of_program(name, &executable, Path::new("/"))
    {
        return Ok(vec![Located { path, root: "/".into() }]);
    }
    let mut mapped = Vec::new();
    for pid in &context.pids {
        let root = root_of(*pid)?;
        if let Some(path) = library::of_process(name, pid.0)? {
            mapped.push(in_root(&root, &path)?);
        }
    }
    if !mapped.is_empty() {
        return Ok(mapped);
    }
    per_root(context, |root| {
        if let Some(path) = library::by_default_search(name, root) {
            return Ok(Located { path, root: root.to_owned() });
        }
        let programs = command::in_path(name);
        match programs.into_iter().find(|path| root == Path::new("/") && path.is_file()) {
            Some(path) => Ok(Located { path, root: root.to_owned() }),
            None => Err(LocateError::no_library(name, root)),
        }
    })
}

/// Looks for a file below the roots of all processes, or below this process's root if there are none.
fn per_root(
    context: &Context,
    find: impl Fn(&Path) -> Result<Located, LocateError>,
) -> Result<Vec<Located>, LocateError> {
    if context.pids.is_empty() || context.program.is_some() {
        return Ok(vec![find(Path::new("/"))?]);
    }
    let mut roots = Vec::new();
    for pid in &context.pids {
        let root = root_of(*pid)?;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots.iter().map(|root| find(root)).collect()
}

fn root_of(pid: Pid) -> Result<PathBuf, LocateError> {
    process_files::root_of(pid.0).map_err(|source| LocateError::Process { pid: pid.0, source })
}

/// The file that a process below `root` sees under `path`.
fn in_root(root: &Path, path: &Path) -> Result<Located, LocateError> {
    if root == Path::new("/") {
        return Ok(Located { path: path.to_owned(), root: root.to_owned() });
    }
    if path.is_relative() {
        return Err(LocateError::Relative(path.to_owned()));
    }
    let resolved = root::resolve(root, path).map_err(|source| LocateError::Open {
        path: root.join(path.strip_prefix("/").unwrap_or(path)),
        source,
    })?;
    Ok(Located { path: resolved, root: root.to_owned() })
}
