//! The arguments of `fxtrec query`.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `fxtrec query`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
DuckDB runs the SQL: the program `duckdb` if it is in PATH, else DuckDB's Python module (`pip install duckdb`). \
Each table is available as a view of the same name. The tables that SQL names are first written to a temporary directory, below TMPDIR or /tmp; for more than one query of the same traces, export them once and give the directory.

docs/reference/export.md describes the tables; docs/reference/sql.md has queries.

Examples:
  fxtrec query app.fxt 'SELECT count(*), max(dur) FROM wait'
  fxtrec query fleet 'SELECT host, count(*) FROM trace GROUP BY host'
  fxtrec query fleet --csv 'SELECT * FROM loss' > loss.csv")]
pub struct QueryArgs {
    /// FXT traces, or directories that `fxtrec export` has written
    #[arg(value_name = "FILE|DIR", required = true, num_args = 1..)]
    pub inputs: Vec<PathBuf>,
    /// SQL statement
    #[arg(value_name = "SQL", required = true)]
    pub sql: String,
    /// Print rows as a JSON array of objects
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print rows as comma-separated values, with a header
    #[arg(long)]
    pub csv: bool,
}
