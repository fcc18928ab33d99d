//! `fxtrec export`: exports traces as tables for SQL.

use std::io::Write;
use std::path::Path;

use crate::cli::ExportArgs;
use crate::commands::many::{ManyError, expand};
use crate::export::{Export, Format, NoParquet, Table};
use crate::units::text::counted;

/// The reason why the export failed or is incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    #[error(transparent)]
    Table(#[from] crate::export::schema::NoSuchTable),
    #[error("a file has one table: name it with --table, or give -o a directory for several")]
    OneTable,
    #[error(
        "{}: the extension contradicts --format: change one of them", .0.display()
    )]
    OtherFormat(std::path::PathBuf),
    #[error(transparent)]
    NoParquet(#[from] NoParquet),
    #[error(transparent)]
    Many(#[from] ManyError),
    #[error(transparent)]
    Export(#[from] crate::export::ExportError),
}

/// Exports as `args` request, and reports to `messages`.
///
/// # Errors
/// Returns an error when the table does not exist, a trace cannot be read, or the tables cannot be written.
pub fn run(args: &ExportArgs, messages: &mut dyn Write) -> Result<(), ExportError> {
    let is_file = args.is_file();
    let format = match (args.format, Format::of_path(&args.output)) {
        (Some(format), Some(other)) if format != other => {
            return Err(ExportError::OtherFormat(args.output.clone()));
        }
        (format, of_path) => format.or(of_path).unwrap_or(Format::of_build()),
    };
    // Checked before anything is read.
    let format = format.must_be_built()?;
    let named = args.tables.iter().map(|name| name.parse::<Table>());
    let mut tables: Vec<Table> = named.collect::<Result<_, _>>()?;
    tables.sort_unstable();
    tables.dedup();
    let inputs = expand(&args.inputs)?;
    let inputs: Vec<&Path> = inputs.iter().map(AsRef::as_ref).collect();
    let labels = args.labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect();
    let exported = match (is_file, &tables[..]) {
        (true, &[table]) => {
            let export = Export { format, tables, labels };
            export.to_file(&inputs, table, &args.output)?
        }
        (true, _) => return Err(ExportError::OneTable),
        (false, _) => {
            let all = tables.is_empty();
            let tables = if all { Table::ALL.to_vec() } else { tables };
            Export { format, tables, labels }.to_folder(&inputs, &args.output)?
        }
    };
    if !args.quiet {
        let rows: u64 = exported.rows.iter().sum();
        let (traces, bytes, path) = (exported.traces, exported.bytes, args.output.display());
        let of = counted(traces, "trace", "traces");
        let (rows, bytes) = (counted(rows, "row", "rows"), counted(bytes, "byte", "bytes"));
        // If standard error is closed, the message is lost.
        let _ = writeln!(messages, "fxtrec: wrote {rows} from {of} to {path}, {bytes}");
        for (table, rows) in Table::ALL.iter().zip(exported.rows).filter(|(_, rows)| *rows > 0) {
            let _ = writeln!(messages, "  {:<14} {rows}", table.name());
        }
    }
    Ok(())
}
