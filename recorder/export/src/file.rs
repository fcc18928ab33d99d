//! The files of the tables, written by their own threads.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::Format;
use crate::csv_file::CsvFile;
#[cfg(feature = "parquet")]
use crate::parquet_file::ParquetFile;
use crate::schema::{Column, Kind, Packing, Table};
use crate::sheet::{Group, ROWS, SLIP_ROWS, Slip};

/// The column with the id of the trace, in files that may hold several traces.
pub(crate) const TRACE_ID: Column =
    Column { name: "trace_id", kind: Kind::Text, nullable: false, packing: Packing::Dictionary };

/// A file of a table, in its format.
pub(crate) trait Output: Send {
    /// Writes a row group; if it is of a table of events, the rows are written in the order of time. `write` may remove the strings of the
    /// group.
    fn write(&mut self, group: &mut Group) -> Result<(), WriteError>;

    /// Writes the end of the file. Returns its size in bytes.
    fn finish(&mut self) -> Result<u64, WriteError>;
}

/// A table cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    #[cfg(not(feature = "parquet"))]
    #[error(transparent)]
    NoParquet(#[from] crate::NoParquet),
    #[error("a thread that writes has panicked")]
    Panicked,
}

/// Begins the file of a table. `about` is its metadata, if the format has metadata.
fn begin(
    format: Format,
    file: File,
    table: Table,
    with_trace: bool,
    about: &[(&str, String)],
) -> Result<Box<dyn Output>, WriteError> {
    match format {
        #[cfg(feature = "parquet")]
        Format::Parquet => Ok(Box::new(ParquetFile::begin(file, table, with_trace, about)?)),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            let _ = about;
            Err(crate::NoParquet.into())
        }
        Format::Csv => Ok(Box::new(CsvFile::begin(file, table, with_trace)?)),
    }
}

/// The maximum number of slips that may wait for each writer thread: together they have the rows of one row group, so that the reader can
/// continue while a group is written.
const WAITING: usize = ROWS / SLIP_ROWS;

/// The maximum number of writer threads; there is no work for more.
const MOST_LANES: usize = 4;

/// The files of the requested tables, and the threads that write them: at most one for each CPU, each for some of the tables.
#[derive(Debug)]
pub(crate) struct Files {
    lanes: Vec<Lane>,
    /// The thread of each table.
    lane_of: [usize; Table::ALL.len()],
}

#[derive(Debug)]
struct Lane {
    slips: SyncSender<Slip>,
    thread: JoinHandle<Result<u64, WriteError>>,
}

impl Files {
    /// Begins all files. `about` is their metadata.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created, or a thread cannot be started.
    pub(crate) fn begin(
        format: Format,
        files: Vec<(Table, File)>,
        with_trace: bool,
        about: &[(&str, String)],
    ) -> Result<Files, WriteError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let most = cpus.clamp(1, MOST_LANES).min(files.len().max(1));
        let mut lanes: Vec<(u32, Vec<Writer>)> = Vec::new();
        lanes.resize_with(most, Default::default);
        let mut files = files;
        // Largest tables first; each is assigned to the thread with the least work so far.
        files.sort_by_key(|(table, _)| std::cmp::Reverse(table.weight()));
        let mut lane_of = [0; Table::ALL.len()];
        for (table, file) in files {
            let output = begin(format, file, table, with_trace, about)?;
            let idlest = (0..lanes.len()).min_by_key(|&at| lanes[at].0).unwrap_or(0);
            lane_of[table as usize] = idlest;
            lanes[idlest].0 += table.weight();
            lanes[idlest].1.push(Writer { group: Group::new(table), output });
        }
        let lanes = lanes.into_iter().map(|(_, writers)| {
            let (slips, to_write) = sync_channel(WAITING);
            let thread = std::thread::Builder::new()
                .name("fxtrec-tables".to_owned())
                .spawn(move || write_all(writers, &to_write))?;
            Ok(Lane { slips, thread })
        });
        Ok(Files { lanes: lanes.collect::<Result<_, WriteError>>()?, lane_of })
    }

    /// Hands over rows to be written. Returns false if a thread has failed; then no more data is written.
    pub(crate) fn write(&self, slip: Slip) -> bool {
        let lane = self.lanes.get(self.lane_of[slip.table as usize]);
        lane.is_some_and(|lane| lane.slips.send(slip).is_ok())
    }

    /// Waits until everything is written. Returns the number of bytes.
    ///
    /// # Errors
    /// The first error of a thread.
    pub(crate) fn finish(self) -> Result<u64, WriteError> {
        let (slips, threads): (Vec<_>, Vec<_>) =
            self.lanes.into_iter().map(|lane| (lane.slips, lane.thread)).unzip();
        drop(slips);
        let ended = |thread: JoinHandle<Result<u64, WriteError>>| {
            thread.join().unwrap_or(Err(WriteError::Panicked))
        };
        // Waits for all threads before it returns an error.
        let written: Vec<Result<u64, WriteError>> = threads.into_iter().map(ended).collect();
        written.into_iter().sum()
    }
}

struct Writer {
    group: Group,
    output: Box<dyn Output>,
}

fn write_all(mut writers: Vec<Writer>, slips: &Receiver<Slip>) -> Result<u64, WriteError> {
    for slip in slips {
        let Some(of_it) = writers.iter_mut().find(|writer| writer.group.table == slip.table) else {
            continue;
        };
        let is_last = slip.is_last;
        of_it.group.add(slip);
        if is_last {
            of_it.output.write(&mut of_it.group)?;
            of_it.group.clear();
        }
    }
    writers.iter_mut().map(|writer| writer.output.finish()).sum()
}
