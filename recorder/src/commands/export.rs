//! `fxtrec export`: traces in, tables for SQL out.

use std::io::Write;

use crate::cli::ExportArgs;

/// Nothing was exported, or not everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    #[cfg(not(feature = "parquet"))]
    #[error(
        "this fxtrec was built without export: build it with `--features parquet`, or use a package"
    )]
    NotBuilt,
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Table(#[from] crate::export::schema::NoSuchTable),
    #[cfg(feature = "parquet")]
    #[error("a file has one table: name it with --table, or give -o a directory for several")]
    OneTable,
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Many(#[from] crate::commands::many::ManyError),
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Export(#[from] crate::export::ExportError),
}

/// Says that it cannot.
///
/// # Errors
/// Always.
#[cfg(not(feature = "parquet"))]
pub fn run(_: &ExportArgs, _: &mut dyn Write) -> Result<(), ExportError> {
    Err(ExportError::NotBuilt)
}

/// Exports as `args` ask, and reports to `messages`.
///
/// # Errors
/// When there is no such table, or a trace cannot be read, or the tables not be written.
#[cfg(feature = "parquet")]
pub fn run(args: &ExportArgs, messages: &mut dyn Write) -> Result<(), ExportError> {
    use std::path::Path;

    use crate::commands::many::expand;
    use crate::export::{Export, Table};

    let named = args.tables.iter().map(|name| name.parse::<Table>());
    let mut tables: Vec<Table> = named.collect::<Result<_, _>>()?;
    tables.sort_unstable();
    tables.dedup();
    let inputs = expand(&args.inputs)?;
    let inputs: Vec<&Path> = inputs.iter().map(AsRef::as_ref).collect();
    let labels = args.labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect();
    let exported = match (args.is_file(), &tables[..]) {
        (true, &[table]) => {
            let export = Export { tables, labels };
            export.to_file(&inputs, table, &args.output)?
        }
        (true, _) => return Err(ExportError::OneTable),
        (false, _) => {
            let all = tables.is_empty();
            let tables = if all { Table::ALL.to_vec() } else { tables };
            Export { tables, labels }.to_folder(&inputs, &args.output)?
        }
    };
    if !args.quiet {
        let rows: u64 = exported.rows.iter().sum();
        let (traces, bytes, path) = (exported.traces, exported.bytes, args.output.display());
        let of = if traces == 1 { "1 trace".to_owned() } else { format!("{traces} traces") };
        // Without standard error there is nobody to tell.
        let _ = writeln!(messages, "fxtrec: {rows} rows of {of} to {path}, {bytes} bytes");
        for (table, rows) in Table::ALL.iter().zip(exported.rows).filter(|(_, rows)| *rows > 0) {
            let _ = writeln!(messages, "  {:<14} {rows}", table.name());
        }
    }
    Ok(())
}
