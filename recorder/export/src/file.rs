//! Parquet files: one for each table, written by a thread of their own.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::schema::{Column, Kind, Packing, Table, VERSION};
use crate::sheet::{Group, ROWS, SLIP_ROWS, Slip};

/// The column of the trace's id, in files that may be of several traces.
pub(crate) const TRACE_ID: Column =
    Column { name: "trace_id", kind: Kind::Text, nullable: false, packing: Packing::Dictionary };

const ZSTD_LEVEL: i32 = 1;

/// So many slips wait to be written by a thread at most: as many rows as a row group has, so that there is something to do while one is
/// written.
const WAITING: usize = ROWS / SLIP_ROWS;

/// So many threads write at most: there is no more to do for more of them.
const MOST_LANES: usize = 4;

fn field(column: &Column) -> Result<Type> {
    let (physical, logical) = match column.kind {
        Kind::Long => (Physical::INT64, None),
        Kind::Int => (Physical::INT32, None),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Double => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

/// Begins the file of a table.
fn begin(
    file: File,
    table: Table,
    with_trace: bool,
    about: &[(&str, String)],
) -> Result<SerializedFileWriter<File>> {
    let trace = with_trace.then_some(&TRACE_ID);
    let columns: Vec<&Column> = trace.into_iter().chain(table.columns()).collect();
    let fields = columns.iter().map(|column| field(column).map(Arc::new));
    let schema = Type::group_type_builder(table.name())
        .with_fields(fields.collect::<Result<_>>()?)
        .build()?;
    let version = ("fxtrec.schema_version", VERSION.to_string());
    let own = [("fxtrec.table", table.name().to_owned()), version];
    let pairs = own.iter().chain(about);
    let pairs = pairs.map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("fxtrec {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(ROWS))
        .set_key_value_metadata(Some(pairs.collect()));
    for column in &columns {
        if column.packing == Packing::Delta {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    if table.is_by_time() {
        let column_idx = i32::from(with_trace);
        let by_time = SortingColumn { column_idx, descending: false, nulls_first: false };
        properties = properties.set_sorting_columns(Some(vec![by_time]));
    }
    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
}

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
    thread: JoinHandle<Result<u64>>,
}

impl Files {
    /// Begins all files. `about` is for their metadata.
    ///
    /// # Errors
    /// When one cannot be begun, or there is no thread for them.
    pub(crate) fn begin(
        files: Vec<(Table, File)>,
        with_trace: bool,
        about: &[(&str, String)],
    ) -> Result<Files> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let most = cpus.clamp(1, MOST_LANES).min(files.len().max(1));
        let mut lanes: Vec<(u32, Vec<Writer>)> = Vec::new();
        lanes.resize_with(most, Default::default);
        let mut files = files;
        // Those with most to do first, each to whom has least to do so far.
        files.sort_by_key(|(table, _)| std::cmp::Reverse(table.weight()));
        let mut lane_of = [0; Table::ALL.len()];
        for (table, file) in files {
            let writer = begin(file, table, with_trace, about)?;
            let idlest = (0..lanes.len()).min_by_key(|&at| lanes[at].0).unwrap_or(0);
            lane_of[table as usize] = idlest;
            lanes[idlest].0 += table.weight();
            lanes[idlest].1.push(Writer { group: Group::new(table), table, writer });
        }
        let lanes = lanes.into_iter().map(|(_, writers)| {
            let (slips, to_write) = sync_channel(WAITING);
            let thread = std::thread::Builder::new()
                .name("fxtrec-parquet".to_owned())
                .spawn(move || write_all(writers, &to_write))
                .map_err(|error| ParquetError::External(error.into()))?;
            Ok(Lane { slips, thread })
        });
        Ok(Files { lanes: lanes.collect::<Result<_>>()?, lane_of })
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
    pub(crate) fn finish(self) -> Result<u64> {
        let died = || Err(ParquetError::General("a thread that writes has panicked".to_owned()));
        let (slips, threads): (Vec<_>, Vec<_>) =
            self.lanes.into_iter().map(|lane| (lane.slips, lane.thread)).unzip();
        drop(slips);
        let written: Vec<Result<u64>> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).collect();
        written.into_iter().sum()
    }
}

struct Writer {
    table: Table,
    group: Group,
    writer: SerializedFileWriter<File>,
}

fn write_all(mut writers: Vec<Writer>, slips: &Receiver<Slip>) -> Result<u64> {
    for slip in slips {
        let Some(of_it) = writers.iter_mut().find(|writer| writer.table == slip.table) else {
            continue;
        };
        let is_last = slip.is_last;
        of_it.group.add(slip);
        if is_last {
            of_it.group.write(&mut of_it.writer)?;
        }
    }
    let mut bytes = 0;
    for Writer { mut writer, .. } in writers {
        writer.finish()?;
        bytes += writer.bytes_written() as u64;
    }
    Ok(bytes)
}
