//! `fxtrec query`: hands SQL over to DuckDB, with a view for each table.
//!
//! Nothing passes a shell. Paths become literals in statements of our own, and what the user wrote goes to the engine as an
//! argument or through a pipe of its own.

mod engine;
mod views;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::cli::QueryArgs;
#[cfg(feature = "parquet")]
use crate::export::ExportError;
use engine::{Engine, Format};

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    #[error(
        "no DuckDB found: there is no program `duckdb` in PATH, and python3 has no module `duckdb`; \
         install one of them (`pip install duckdb`, or see https://duckdb.org/install), or read the tables that \
         `fxtrec export` writes with another engine (docs/sql.md)"
    )]
    NoEngine,
    #[error("{}: not a directory that fxtrec export has written: none of its tables is in it", .0.display())]
    NoTables(PathBuf),
    #[error("{}: DuckDB takes paths in UTF-8 only: rename it, or name it by a link", .0.display())]
    NotUtf8(PathBuf),
    #[error("'.' begins a command of DuckDB's shell, not a statement: use duckdb itself for those")]
    ShellCommand,
    #[cfg(not(feature = "parquet"))]
    #[error(
        "{}: this fxtrec was built without export, and so queries directories only: build it with \
         `--features parquet`, or use a package", .0.display()
    )]
    NotBuilt(PathBuf),
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error("cannot make a temporary directory: {0}")]
    Temporary(io::Error),
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Run { program: String, source: io::Error },
    #[error("{program} failed: {status}; its message is above")]
    Failed { program: String, status: ExitStatus },
}

/// Queries as `args` ask. The engine writes to standard output itself.
///
/// # Errors
/// When there is no engine or it fails, a trace cannot be exported, or a directory has no tables.
pub fn run(args: &QueryArgs) -> Result<(), QueryError> {
    if args.sql.trim_start().starts_with('.') {
        return Err(QueryError::ShellCommand);
    }
    let engine = Engine::find().ok_or(QueryError::NoEngine)?;
    let (folders, traces): (Vec<&Path>, Vec<&Path>) =
        args.inputs.iter().map(PathBuf::as_path).partition(|path| path.is_dir());
    let mut folders: Vec<PathBuf> = folders.into_iter().map(Path::to_owned).collect();
    // Goes away with all that is in it when the engine has ended.
    let exported = match traces[..] {
        [] => None,
        _ => Some(export(&traces)?),
    };
    folders.extend(exported.as_ref().map(|folder| folder.path().to_owned()));
    let views = views::of(&folders)?;
    let format = match (args.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table,
    };
    engine.run(&views, &args.sql, format)
}

#[cfg(feature = "parquet")]
fn export(traces: &[&Path]) -> Result<tempfile::TempDir, QueryError> {
    use crate::export::{Export, Table};

    let folder = tempfile::Builder::new().prefix("fxtrec-query-").tempdir();
    let folder = folder.map_err(QueryError::Temporary)?;
    let export = Export { tables: Table::ALL.to_vec(), ..Export::default() };
    export.to_folder(traces, folder.path())?;
    Ok(folder)
}

#[cfg(not(feature = "parquet"))]
fn export(traces: &[&Path]) -> Result<tempfile::TempDir, QueryError> {
    Err(QueryError::NotBuilt(traces[0].to_owned()))
}
