//! Traces as tables in Parquet or CSV files, for SQL engines.
//!
//! ```text
//!  fxt_reader::Reader -> fxtrec_report::Analysis -- Observer --> rows: a sheet for each table
//!                                                                  | slips of 4096 rows
//!                                                                  v
//!                                            thread fxtrec-tables: collects 131 072 rows, sorts, packs -> file
//! ```
//!
//! One pass over the trace generates all tables, with memory that does not grow with the trace. This crate is an observer of the report's
//! analysis, which determines the running thread of each CPU and the state of each thread. So sums over the tables equal the report's
//! figures. `docs/reference/export.md` describes the [tables](schema::Table).

#![forbid(unsafe_code)]

mod blame;
mod csv_file;
mod file;
mod identity;
#[cfg(feature = "parquet")]
mod parquet_file;
mod rows;
pub mod schema;
mod sheet;
mod stacks;
mod thread_table;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fxt_reader::{Error, Reader};
use fxtrec_convert::traces;
use fxtrec_kernel::progress;
use fxtrec_kernel::user::Owner;
use fxtrec_report::{Options, analysis};
use fxtrec_sink::outfile::{Derived, OutFileError, Pending, make_folder, mode_of};

use file::Files;
pub use file::WriteError;
use identity::Identity;
use rows::Rows;
pub use schema::Table;

/// The reason why traces cannot be exported.
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
    Write { path: PathBuf, source: WriteError },
    #[error("cannot finish {}: {source}", path.display())]
    Finish { path: PathBuf, source: OutFileError },
    #[error(transparent)]
    NoParquet(#[from] NoParquet),
    #[error(
        "{}: the trace is already here in the other format: remove that file, or export to another directory", .0.display()
    )]
    OtherFormat(PathBuf),
}

/// The feature `parquet` is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this fxtrec was built without Parquet: write CSV with --format csv, use a package of fxtrec, or build it with \
     `cargo build --release --features parquet`"
)]
pub struct NoParquet;

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Requires the feature `parquet`.
    Parquet,
    Csv,
}

impl Format {
    pub const ALL: [Format; 2] = [Format::Parquet, Format::Csv];

    /// Its name, which is also the file extension.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
        }
    }

    /// The format of a file, by its extension.
    pub fn of_path(path: &Path) -> Option<Format> {
        let ending = path.extension()?;
        Format::ALL.into_iter().find(|format| ending == format.name())
    }

    /// The default: Parquet, if this build supports it.
    pub const fn of_build() -> Format {
        if cfg!(feature = "parquet") { Format::Parquet } else { Format::Csv }
    }

    /// # Errors
    /// Returns an error if this build does not support the format.
    pub fn must_be_built(self) -> Result<Format, NoParquet> {
        match self {
            Format::Parquet if cfg!(not(feature = "parquet")) => Err(NoParquet),
            built => Ok(built),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format '{0}'; expected parquet or csv")]
pub struct NoSuchFormat(String);

impl FromStr for Format {
    type Err = NoSuchFormat;

    fn from_str(text: &str) -> Result<Format, NoSuchFormat> {
        let named = Format::ALL.into_iter().find(|format| format.name() == text);
        named.ok_or_else(|| NoSuchFormat(text.to_owned()))
    }
}

impl ExportError {
    fn read(path: &Path, source: Error) -> ExportError {
        match source {
            // This error already names the file.
            Error::Open { .. } => ExportError::Open(source),
            source => ExportError::Read { path: path.to_owned(), source },
        }
    }
}

/// What to export, and how.
#[derive(Clone, Debug)]
pub struct Export {
    pub format: Format,
    /// The tables to write.
    pub tables: Vec<Table>,
    /// The user's labels for each trace.
    pub labels: Vec<(String, String)>,
}

/// What was exported.
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
    /// Writes the tables of traces below a directory, each trace in its own directories:
    /// `FOLDER/TABLE/day=DAY/trace_id=ID/TABLE.EXTENSION`. A trace that was exported before is replaced.
    ///
    /// # Errors
    /// Returns [`ExportError`]. Earlier traces are then complete, and no file of the failed trace has changed.
    pub fn to_folder(&self, inputs: &[&Path], folder: &Path) -> Result<Exported, ExportError> {
        self.format.must_be_built()?;
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
        // Checks that the input is a trace before anything is created.
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
            // With both files in the directory, an engine would read the trace twice.
            let others = Format::ALL.into_iter().filter(|format| *format != self.format);
            let mut others = others.map(|other| path.join(format!("{table}.{}", other.name())));
            if let Some(other) = others.find(|other| other.symlink_metadata().is_ok()) {
                return Err(ExportError::OtherFormat(other));
            }
            path.push(format!("{table}.{}", self.format.name()));
            let (file, target) = create(path, &[input])?;
            files.push((table, file));
            targets.push(target);
        }
        let failed = |source| ExportError::Write { path: folder.to_owned(), source };
        let about = [("fxtrec.trace_id", id)];
        let files = Files::begin(self.format, files, false, &about).map_err(failed)?;
        let rows = self.rows(reader, input, &files, None)?;
        all.bytes += files.finish().map_err(failed)?;
        all.add(rows);
        finish(targets)
    }

    /// Writes one table of all traces to a file, with the id of the trace in each row.
    ///
    /// # Errors
    /// Returns [`ExportError`]. An existing file is then unchanged.
    pub fn to_file(
        &self,
        inputs: &[&Path],
        table: Table,
        path: &Path,
    ) -> Result<Exported, ExportError> {
        self.format.must_be_built()?;
        let (file, target) = create(path.to_owned(), inputs)?;
        let failed = |source| ExportError::Write { path: path.to_owned(), source };
        let files = Files::begin(self.format, vec![(table, file)], true, &[]).map_err(failed)?;
        let mut all = Exported::default();
        let one = Export { tables: vec![table], ..self.clone() };
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
            blame::add(&mut rows, || read(input)).map_err(failed)?;
        }
        Ok(rows.finish(&report, &input.to_string_lossy(), &self.labels))
    }
}

/// Opens a trace; reading it shows progress.
fn open(path: &Path) -> Result<Reader<'static>, ExportError> {
    Ok(Reader::from_file(file(path).map_err(ExportError::Open)?, progress::watch))
}

fn file(path: &Path) -> Result<File, Error> {
    traces::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })
}

/// Opens the trace at `path`.
fn read(path: &Path) -> Result<Reader<'static>, Error> {
    Ok(Reader::from_file(file(path)?, |file| file))
}

fn identity(input: &Path) -> Result<Identity, ExportError> {
    let opened = |source| Error::Open { path: input.to_owned(), source };
    traces::keep(input).map_err(opened).map_err(ExportError::Open)?;
    Identity::of(input).map_err(|source| ExportError::read(input, source))
}

/// Renames all files to their final names.
fn finish(targets: Vec<Target>) -> Result<(), ExportError> {
    for Target { path, pending } in targets {
        pending.commit().map_err(|source| ExportError::Finish { path, source })?;
    }
    Ok(())
}

#[cfg(all(test, feature = "parquet"))]
mod tests;
