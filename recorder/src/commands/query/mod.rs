//! `fxtrec query`: runs SQL in DuckDB, with a view for each table.
//!
//! Tables of traces are written there as CSV in a temporary directory, which needs only the default features of fxtrec. DuckDB reads the
//! files as often as a query needs, so it need not keep them in memory.
//!
//! No shell is involved. Paths become literals in our statements, and the user's SQL is passed to the engine as an argument or through a
//! separate pipe.

mod engine;
mod temporary;
mod views;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::cli::QueryArgs;
use crate::export::{self, Export, ExportError, Table};
use engine::{Engine, Format};
use temporary::Temporary;

/// The reason why the query failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Everything that is missing, so that the user can fix it in one step.
    #[error("cannot query: {}", .0.join("\n  "))]
    Missing(Vec<String>),
    #[error("{}: not a directory that fxtrec export has written: it contains no table; for a \
     directory of traces, export it first: fxtrec export {} -o tables", .0.display(), .0.display())]
    NoTables(PathBuf),
    #[error("{}: DuckDB accepts only UTF-8 paths: rename it, or use a symbolic link", .0.display())]
    NotUtf8(PathBuf),
    #[error(
        "'.' begins a command of DuckDB's shell, not a statement: run such commands in duckdb itself"
    )]
    ShellCommand,
    #[error(
        "{0}; the tables of a trace are in a temporary directory; set TMPDIR to use another one"
    )]
    Space(ExportError),
    #[error(transparent)]
    Export(ExportError),
    #[error("cannot create a temporary directory: {0}; set TMPDIR to use another place")]
    Temporary(io::Error),
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Run { program: String, source: io::Error },
    #[error("{program} failed: {status}; its message is above")]
    Failed { program: String, status: ExitStatus },
}

/// Runs the query of `args`. The engine writes to standard output itself.
///
/// # Errors
/// Returns an error when there is no engine or it fails, a trace cannot be exported, or a directory has no tables.
pub fn run(args: &QueryArgs) -> Result<(), QueryError> {
    if args.sql.trim_start().starts_with('.') {
        return Err(QueryError::ShellCommand);
    }
    let engine = Engine::find();
    let missing = missing(engine.as_ref().err().map(|missing| missing.describe()), &args.inputs);
    let engine = match engine {
        Ok(engine) if missing.is_empty() => engine,
        _ => return Err(QueryError::Missing(missing)),
    };
    let (folders, traces): (Vec<&Path>, Vec<&Path>) =
        args.inputs.iter().map(PathBuf::as_path).partition(|path| path.is_dir());
    let mut folders: Vec<PathBuf> = folders.into_iter().map(Path::to_owned).collect();
    // Removed with its content when the engine has ended.
    let exported = match traces[..] {
        [] => None,
        _ => Some(export(&traces, &args.sql)?),
    };
    folders.extend(exported.as_ref().map(|folder| folder.path().to_owned()));
    let views = views::of(&folders)?;
    let format = match (args.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table,
    };
    engine.run(&views, &args.sql, format, exported.as_ref())
}

/// The parts that are missing for a query.
fn missing(engine: Option<String>, inputs: &[PathBuf]) -> Vec<String> {
    let of_input = |path: &PathBuf| {
        let opened = match path.is_dir() {
            true => views::of(std::slice::from_ref(path)).map(drop),
            false => std::fs::File::open(path)
                .map(drop)
                .map_err(|source| QueryError::Read { path: path.clone(), source }),
        };
        opened.err().map(|error| error.to_string())
    };
    // Opening a FIFO would wait for a writer. FIFOs and standard input are read after everything else has been checked.
    let can_be_opened = |path: &&PathBuf| {
        path.is_dir() || path.is_file() || !path.exists() && path.as_path() != Path::new("-")
    };
    engine.into_iter().chain(inputs.iter().filter(can_be_opened).filter_map(of_input)).collect()
}

fn export(traces: &[&Path], sql: &str) -> Result<Temporary, QueryError> {
    let folder = Temporary::make().map_err(QueryError::Temporary)?;
    let export = Export { format: export::Format::Csv, tables: tables_in(sql), labels: Vec::new() };
    match export.to_folder(traces, folder.path()) {
        Ok(_) => Ok(folder),
        Err(error @ (ExportError::Write { .. } | ExportError::Create { .. })) => {
            Err(QueryError::Space(error))
        }
        Err(error) => Err(QueryError::Export(error)),
    }
}

/// The tables that a statement may read: those whose names occur anywhere in it. If no name occurs, as in `SHOW TABLES`, all tables.
fn tables_in(sql: &str) -> Vec<Table> {
    let sql = sql.to_ascii_lowercase();
    let named: Vec<Table> =
        Table::ALL.into_iter().filter(|table| sql.contains(table.name())).collect();
    if named.is_empty() { Table::ALL.to_vec() } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_a_statement_names_are_exported() {
        let of = |sql: &str| tables_in(sql);
        assert_eq!(of("SELECT max(dur) FROM Wait"), [Table::Wait]);
        assert_eq!(of("from \"loss\" join trace t on true"), [Table::Loss, Table::Trace]);
        assert_eq!(of("SHOW TABLES"), Table::ALL);
    }

    #[test]
    fn everything_that_is_missing_is_reported_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let [there, absent] = ["a.fxt", "b.fxt"].map(|name| folder.path().join(name));
        std::fs::write(&there, "").expect("room");
        let inputs = [there, absent.clone(), folder.path().to_owned()];
        let found = missing(Some("DuckDB: none".to_owned()), &inputs);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "DuckDB: none");
        assert!(found[1].starts_with(&absent.display().to_string()), "{found:?}");
        assert!(found[2].contains("not a directory that fxtrec export has written"), "{found:?}");
        assert!(missing(None, &inputs[..1]).is_empty());
    }
}
