//! Tables as Parquet files.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

use crate::file::{Output, TRACE_ID, WriteError};
use crate::schema::{Column, Kind, Packing, Table, VERSION};
use crate::sheet::{Cell, Group, ROWS, Word};

const ZSTD_LEVEL: i32 = 1;

/// A file that is being written.
pub(crate) struct ParquetFile(SerializedFileWriter<File>);

impl ParquetFile {
    /// Begins the file of a table. `about` is its metadata.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(crate) fn begin(
        file: File,
        table: Table,
        with_trace: bool,
        about: &[(&str, String)],
    ) -> Result<ParquetFile> {
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
            .map(ParquetFile)
    }

    fn add(&mut self, group: &mut Group) -> Result<()> {
        let (rows, order) = (group.rows(), group.order());
        let texts = Texts::new(std::mem::take(&mut group.texts));
        let mut by_time = Vec::with_capacity(rows);
        let mut writer = self.0.next_row_group()?;
        if let Some(trace) = &group.trace
            && let Some(mut column) = writer.next_column()?
        {
            let trace = vec![ByteArray::from(&**trace); rows];
            column.typed::<ByteArrayType>().write_batch(&trace, None, None)?;
            column.close()?;
        }
        for (column, cells) in group.table.columns().iter().zip(&group.columns) {
            let Some(mut writer) = writer.next_column()? else { break };
            if let Some(order) = &order {
                by_time.clear();
                by_time.extend(order.iter().map(|&at| cells[at as usize]));
            }
            let cells = if order.is_some() { &by_time } else { cells };
            let part = Part::new(column, cells, &texts);
            part.write(&mut writer)?;
            writer.close()?;
        }
        writer.close()?;
        Ok(())
    }
}

impl Output for ParquetFile {
    fn write(&mut self, group: &mut Group) -> Result<(), WriteError> {
        Ok(self.add(group)?)
    }

    fn finish(&mut self) -> Result<u64, WriteError> {
        self.0.finish()?;
        Ok(self.0.bytes_written() as u64)
    }
}

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

/// The strings of a row group, by their numbers.
struct Texts {
    words: [ByteArray; Word::TEXTS.len()],
    others: Vec<ByteArray>,
}

impl Texts {
    fn new(others: Vec<Box<str>>) -> Texts {
        // Static text has no reference count.
        let word = |text: &'static str| ByteArray::from(Bytes::from_static(text.as_bytes()));
        let others = others.into_iter();
        let others = others.map(|text| ByteArray::from(text.into_string().into_bytes())).collect();
        Texts { words: Word::TEXTS.map(word), others }
    }

    fn of(&self, cell: i64) -> ByteArray {
        match usize::try_from(cell) {
            Ok(number) => self.others[number].clone(),
            Err(_) => self.words[(-1 - cell) as usize].clone(),
        }
    }
}

/// The values of a column.
enum Values {
    Long(Vec<i64>),
    Int(Vec<i32>),
    Bool(Vec<bool>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A column of a row group: its values, and for each row whether there is one.
struct Part {
    values: Values,
    /// For a column that may be null.
    levels: Option<Vec<i16>>,
}

impl Part {
    fn new(column: &Column, cells: &[i64], texts: &Texts) -> Part {
        let level = |&cell: &i64| i16::from(cell != Cell::NULL.0);
        let levels: Option<Vec<i16>> = column.nullable.then(|| cells.iter().map(level).collect());
        let count = match &levels {
            Some(levels) => levels.iter().map(|&level| i32::from(level)).sum::<i32>() as usize,
            None => cells.len(),
        };
        let values = match column.kind {
            Kind::Long => Values::Long(present(cells, count, |cell| cell)),
            Kind::Int => Values::Int(present(cells, count, |cell| cell as i32)),
            Kind::Bool => Values::Bool(present(cells, count, |cell| cell != 0)),
            Kind::Double => {
                Values::Double(present(cells, count, |cell| f64::from_ne_bytes(cell.to_ne_bytes())))
            }
            Kind::Text => {
                let mut values = Vec::with_capacity(count);
                let is_there = |cell: &&i64| count == cells.len() || **cell != Cell::NULL.0;
                values.extend(cells.iter().filter(is_there).map(|&cell| texts.of(cell)));
                Values::Text(values)
            }
        };
        Part { values, levels }
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let levels = self.levels.as_deref();
        match &self.values {
            Values::Long(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?
            }
            Values::Int(values) => writer.typed::<Int32Type>().write_batch(values, levels, None)?,
            Values::Bool(values) => writer.typed::<BoolType>().write_batch(values, levels, None)?,
            Values::Double(values) => {
                writer.typed::<DoubleType>().write_batch(values, levels, None)?
            }
            Values::Text(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?
            }
        };
        Ok(())
    }
}

/// The `count` values that are not null.
#[inline(always)]
fn present<T: Copy + Default>(cells: &[i64], count: usize, value: impl Fn(i64) -> T) -> Vec<T> {
    // Most columns have a value in each row, or in none.
    if count == cells.len() {
        return cells.iter().map(|&cell| value(cell)).collect();
    }
    if count == 0 {
        return Vec::new();
    }
    let mut values = vec![T::default(); cells.len()];
    let mut end = 0;
    // Which rows have a value is unpredictable, so this has no branches.
    for &cell in cells {
        values[end] = value(cell);
        end += usize::from(cell != Cell::NULL.0);
    }
    values.truncate(end);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_the_text_of_its_cell() {
        let words = [Word::Running, Word::Preempted, Word::Dead, Word::AfterPreemption];
        let texts = words.map(|word| Texts::new(Vec::new()).of(Cell::word(word).0));
        assert_eq!(
            texts.map(|text| text.as_utf8().map(str::to_owned).ok()),
            ["Running", "R+", "X", "preempted"].map(|text| Some(text.to_owned()))
        );
    }

    #[test]
    fn a_part_knows_where_there_is_no_value() {
        let columns = Table::Loss.columns();
        let cells = [Cell::of(3), Cell::NULL, Cell::of(0), Cell::NULL];
        let cells = cells.map(|cell| cell.0);
        let texts = Texts::new(Vec::new());
        let part = Part::new(&columns[3], &cells, &texts);
        assert_eq!(part.levels, Some(vec![1, 0, 1, 0]));
        assert!(matches!(part.values, Values::Long(values) if values == [3, 0]));
        // In a column without nulls, every number is a value.
        let part = Part::new(&columns[0], &cells, &texts);
        let expected = [3, i64::MIN, 0, i64::MIN];
        assert!(part.levels.is_none());
        assert!(matches!(part.values, Values::Long(values) if values == expected));
    }
}
