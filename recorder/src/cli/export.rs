//! The arguments of `fxtrec export`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::export::Format;

/// The arguments of `fxtrec export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Below DIR each table has a folder, in Hive's layout: DIR/wait/day=2026-11-23/trace_id=t8d0.../wait.parquet. \
To add traces, export them to the same DIR; a file is rewritten only if its trace is exported again.

Tables: sched_slice, thread_state, wakeup, wait, antagonist, span, blame, counter, sample, stack, loss, thread, process, label, \
trace. docs/reference/export.md describes them, and docs/reference/sql.md has queries.

Examples:
  fxtrec export app.fxt -o fleet                             all tables
  fxtrec export run-*.fxt -o fleet --label commit=8f3a2c1    with a label
  fxtrec export app.fxt --table wait -o waits.csv            one table, one file
  fxtrec export app.fxt --format csv -o fleet                without Parquet
  duckdb -c \"select max(dur) from 'fleet/wait/*/*/*.parquet'\"")]
pub struct ExportArgs {
    /// FXT traces to read, plain, gzip or zstd, or directories of them
    #[arg(value_name = "FILE|DIR", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Directory for the tables; it is created if its parent exists. With the extension .parquet or .csv, a file for one table
    #[arg(short, long, value_name = "DIR|FILE")]
    pub output: PathBuf,
    /// Format of the files: parquet or csv [default: by the extension of FILE, else parquet if this build has it]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Table to write; repeat for several. All of them by default
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Label for these traces, in the table `label`; repeat for several
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub labels: Vec<Label>,
    /// Print nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}

impl ExportArgs {
    /// Whether to write a single file instead of a directory.
    pub fn is_file(&self) -> bool {
        Format::of_path(&self.output).is_some()
    }
}

/// A key and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label has the form KEY=VALUE")]
pub struct NoLabel;

impl FromStr for Label {
    type Err = NoLabel;

    fn from_str(text: &str) -> Result<Self, NoLabel> {
        let (key, value) = text.split_once('=').ok_or(NoLabel)?;
        if key.is_empty() {
            return Err(NoLabel);
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_divided_at_the_first_equals_sign() {
        let label = |key: &str, value: &str| Label { key: key.into(), value: value.into() };
        assert_eq!("commit=8f3a".parse(), Ok(label("commit", "8f3a")));
        assert_eq!("flags=-O=2".parse(), Ok(label("flags", "-O=2")));
        assert_eq!("none=".parse(), Ok(label("none", "")));
        assert_eq!("commit".parse::<Label>(), Err(NoLabel));
        assert_eq!("=x".parse::<Label>(), Err(NoLabel));
    }
}
