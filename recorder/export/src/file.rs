//! Files of tables: one for each, written by threads of their own.

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

/// The column of the trace's id, in files that may be of several traces.
pub(crate) const TRACE_ID: Column =
    Column { name: "trace_id", kind: Kind::Text, nullable: false, packing: Packing::Dictionary };

/// A file of a table, in its format.
pub(crate) trait Output: Send {
    /// Writes a row group, sorted by time if it is of a table of what happened. It need not leave the texts in it.
    fn write(&mut self, group: &mut Group) -> Result<(), WriteError>;

    /// Writes what is to be at the end; how many bytes the file has.
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

/// Begins the file of a table. `about` is for its metadata, where the format has any.
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

/// So many slips wait to be written by a thread at most: as many rows as a row group has, so that there is something to do while one is
/// written.
const WAITING: usize = ROWS / SLIP_ROWS;

/// So many threads write at most: there is no more to do for more of them.
const MOST_LANES: usize = 4;

/// The files of the tables that are wanted, and the threads that write them: one for each CPU at most, each for some of the
/// tables.
#[derive(Debug)]
pub(crate) struct Files {
    lanes: Vec<Lane>,
    /// Whose each table is.
    lane_of: [usize; Table::ALL.len()],
}

#[derive(Debug)]
struct Lane {
    slips: SyncSender<Slip>,
    thread: JoinHandle<Result<u64, WriteError>>,
}

impl Files {
    /// Begins all files. `about` is for their metadata.
    ///
    /// # Errors
    /// When one cannot be begun, or there is no thread for them.
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
        // Those with most to do first, each to whom has least to do so far.
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

    /// Hands over rows to be written. False when nothing more is: a thread has failed.
    pub(crate) fn write(&self, slip: Slip) -> bool {
        let lane = self.lanes.get(self.lane_of[slip.table as usize]);
        lane.is_some_and(|lane| lane.slips.send(slip).is_ok())
    }

    /// Waits until everything is written; how many bytes that is.
    ///
    /// # Errors
    /// The first of the threads.
    pub(crate) fn finish(self) -> Result<u64, WriteError> {
        let (slips, threads): (Vec<_>, Vec<_>) =
            self.lanes.into_iter().map(|lane| (lane.slips, lane.thread)).unzip();
        drop(slips);
        let ended = |thread: JoinHandle<Result<u64, WriteError>>| {
            thread.join().unwrap_or(Err(WriteError::Panicked))
        };
        // All of them have ended before an error is told.
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
