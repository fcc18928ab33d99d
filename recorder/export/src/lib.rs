//! Traces as tables in Parquet files, for engines that understand SQL.
//!
//! ```text
//!  fxt_reader::Reader -> fxtrec_report::Analysis -- Observer --> rows: a sheet for each table
//!                                                                  | slips of 4096 rows
//!                                                                  v
//!                                            thread fxtrec-parquet: collects 131 072 rows, sorts, packs, compresses -> file
//! ```
//!
//! One pass over the trace makes all tables, in memory that does not grow with it. Who has which CPU and what threads do is
//! worked out by the analysis of the report, of which this is an observer: so the sums of the tables are the report's
//! figures. `docs/export.md` describes the [tables](schema::Table).

#![forbid(unsafe_code)]

mod blame;
mod file;
mod identity;
mod people;
mod rows;
pub mod schema;
mod sheet;
mod stacks;

use std::fs::File;
use std::path::{Path, PathBuf};

use fxt_reader::{Error, Reader};
use fxtrec_kernel::progress;
use fxtrec_kernel::user::Owner;
use fxtrec_report::{Options, analysis};
use fxtrec_sink::outfile::{Derived, OutFileError, Pending, make_folder, mode_of};
use parquet::errors::ParquetError;

use file::Files;
use identity::Identity;
use rows::Rows;
pub use schema::Table;

/// Traces cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    #[error(transparent)]
    Open(Error),
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: Error },
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: OutFileError },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: ParquetError },
    #[error("cannot finish {}: {source}", path.display())]
    Finish { path: PathBuf, source: OutFileError },
    #[error(
        "{}: a trace is read twice, once for where it belongs: use a file instead of a pipe",
        .0.display()
    )]
    Once(PathBuf),
}

impl ExportError {
    fn read(path: &Path, source: Error) -> ExportError {
        match source {
            // This one names the file itself.
            Error::Open { .. } => ExportError::Open(source),
            source => ExportError::Read { path: path.to_owned(), source },
        }
    }
}

/// What to do with traces.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// Those that are wanted.
    pub tables: Vec<Table>,
    /// What the user says of each trace.
    pub labels: Vec<(String, String)>,
}

/// What became of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub traces: u64,
    /// How many rows each table has.
    pub rows: [u64; Table::ALL.len()],
    pub bytes: u64,
}

impl Exported {
    pub fn rows_of(&self, table: Table) -> u64 {
        self.rows[table as usize]
    }

    fn add(&mut self, rows: [u64; Table::ALL.len()]) {
        self.traces += 1;
        for (sum, rows) in self.rows.iter_mut().zip(rows) {
            *sum += rows;
        }
    }
}

/// A file that is being written.
struct Target {
    path: PathBuf,
    pending: Pending,
}

fn create(path: PathBuf, inputs: &[&Path]) -> Result<(File, Target), ExportError> {
    match Derived::create(&path, mode_of(inputs), inputs, Owner::sudo_caller()) {
        Ok(Derived { file, pending }) => Ok((file, Target { path, pending })),
        Err(source) => Err(ExportError::Create { path, source }),
    }
}

impl Export {
    /// Writes the tables of traces below a folder, those of each trace in folders of their own:
    /// `FOLDER/TABLE/day=DAY/trace_id=ID/TABLE.parquet`. A trace that was exported before is replaced.
    ///
    /// # Errors
    /// [`ExportError`]. The traces before are complete then, and of this one nothing has changed.
    pub fn to_folder(&self, inputs: &[&Path], folder: &Path) -> Result<Exported, ExportError> {
        let mut all = Exported::default();
        for input in inputs {
            self.trace_to_folder(input, folder, &mut all)?;
        }
        Ok(all)
    }

    fn trace_to_folder(
        &self,
        input: &Path,
        folder: &Path,
        all: &mut Exported,
    ) -> Result<(), ExportError> {
        let Identity { id, day } = identity(input)?;
        // Before there is anything of it, the trace must be one.
        let reader = open(input)?;
        let owner = Owner::sudo_caller();
        let (mut files, mut targets) = (Vec::new(), Vec::new());
        for &table in &self.tables {
            let mut path = folder.to_owned();
            let parts = [table.name().to_owned(), format!("day={day}"), format!("trace_id={id}")];
            for part in [None].into_iter().chain(parts.iter().map(Some)) {
                path.extend(part);
                make_folder(&path, owner)
                    .map_err(|source| ExportError::Create { path: path.clone(), source })?;
            }
            path.push(format!("{table}.parquet"));
            let (file, target) = create(path, &[input])?;
            files.push((table, file));
            targets.push(target);
        }
        let failed = |source| ExportError::Write { path: folder.to_owned(), source };
        let about = [("fxtrec.trace_id", id)];
        let files = Files::begin(files, false, &about).map_err(failed)?;
        let rows = self.rows(reader, input, &files, None)?;
        all.bytes += files.finish().map_err(failed)?;
        all.add(rows);
        finish(targets)
    }

    /// Writes one table of all traces to a file, with the id of the trace in each row.
    ///
    /// # Errors
    /// [`ExportError`]. What was there is unchanged then.
    pub fn to_file(
        &self,
        inputs: &[&Path],
        table: Table,
        path: &Path,
    ) -> Result<Exported, ExportError> {
        let (file, target) = create(path.to_owned(), inputs)?;
        let failed = |source| ExportError::Write { path: path.to_owned(), source };
        let files = Files::begin(vec![(table, file)], true, &[]).map_err(failed)?;
        let mut all = Exported::default();
        let one = Export { tables: vec![table], labels: self.labels.clone() };
        for input in inputs {
            let Identity { id, .. } = identity(input)?;
            let reader = open(input)?;
            all.add(one.rows(reader, input, &files, Some(&id))?);
        }
        all.bytes = files.finish().map_err(failed)?;
        finish(vec![target])?;
        Ok(all)
    }

    fn rows(
        &self,
        reader: Reader<'_>,
        input: &Path,
        files: &Files,
        trace: Option<&str>,
    ) -> Result<[u64; Table::ALL.len()], ExportError> {
        let rows = Rows::new(files, &self.tables, trace);
        let failed = |source| ExportError::read(input, source);
        let (report, mut rows) =
            analysis::observe(reader, Options::default(), rows).map_err(failed)?;
        if self.tables.contains(&Table::Blame) && report.may_have_spans {
            blame::add(&mut rows, || Reader::open(input)).map_err(failed)?;
        }
        Ok(rows.finish(&report, &input.to_string_lossy(), &self.labels))
    }
}

/// A trace whose reading shows progress.
fn open(path: &Path) -> Result<Reader<'static>, ExportError> {
    let file = File::open(path)
        .map_err(|source| ExportError::Open(Error::Open { path: path.to_owned(), source }))?;
    Ok(Reader::from_file(file, progress::watch))
}

fn identity(input: &Path) -> Result<Identity, ExportError> {
    if input == Path::new("-") || input.exists() && !input.is_file() {
        return Err(ExportError::Once(input.to_owned()));
    }
    Identity::of(input).map_err(|source| ExportError::read(input, source))
}

/// Gives all files their names.
fn finish(targets: Vec<Target>) -> Result<(), ExportError> {
    for Target { path, pending } in targets {
        pending.commit().map_err(|source| ExportError::Finish { path, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
