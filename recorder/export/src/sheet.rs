//! Rows of a table that are being collected, until they fill a row group.

use std::io::Write;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;
use rustc_hash::FxHashMap;

use crate::schema::{Column, Kind, Table};

/// So many rows are a row group: what memory holds of each table.
pub(crate) const ROWS: usize = 1 << 17;

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    /// A number of any kind.
    Int(i64),
    Bool(bool),
    Double(f64),
    Text(&'a str),
    /// One of few texts, which is found by where it is.
    Word(&'static str),
}

impl Cell<'_> {
    /// A number that is always less than 2^63, unless the trace is damaged.
    pub(crate) fn of(number: u64) -> Cell<'static> {
        Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// The same, if there is one.
    pub(crate) fn some(number: Option<u64>) -> Cell<'static> {
        number.map_or(Cell::Null, Cell::of)
    }

    pub(crate) fn id(number: u32) -> Cell<'static> {
        Cell::Int(number.into())
    }

    pub(crate) fn some_id(number: Option<u32>) -> Cell<'static> {
        number.map_or(Cell::Null, Cell::id)
    }
}

impl<'a> Cell<'a> {
    pub(crate) fn word(text: Option<&'static str>) -> Cell<'a> {
        text.map_or(Cell::Null, Cell::Word)
    }

    pub(crate) fn text(text: Option<&'a str>) -> Cell<'a> {
        text.map_or(Cell::Null, Cell::Text)
    }
}

/// What stands for a text that is none.
const NULL: i64 = i64::MIN;

/// Rows that are not written yet. Every value is kept as 64 bits: texts by their number, doubles by their bits.
#[derive(Debug)]
pub(crate) struct Sheet {
    table: Table,
    /// The id of the trace, where rows have it.
    trace: Option<Box<str>>,
    values: Vec<Vec<i64>>,
    texts: FxHashMap<Box<str>, i64>,
    /// Those of the texts that are [words](Cell::Word).
    words: Vec<(&'static str, i64)>,
    rows: usize,
}

impl Sheet {
    pub(crate) fn new(table: Table, trace: Option<&str>) -> Sheet {
        let values = table.columns().iter().map(|_| Vec::new()).collect();
        let trace = trace.map(Into::into);
        Sheet { table, trace, values, texts: FxHashMap::default(), words: Vec::new(), rows: 0 }
    }

    /// Adds a row; `None` while there is room for more.
    #[inline]
    pub(crate) fn push<const N: usize>(&mut self, row: [Cell<'_>; N]) -> Option<Sheet> {
        debug_assert_eq!(N, self.values.len(), "{}", self.table);
        for (at, cell) in row.into_iter().enumerate() {
            let value = match cell {
                Cell::Null => NULL,
                Cell::Int(number) => number,
                Cell::Bool(is) => is.into(),
                Cell::Double(number) => i64::from_ne_bytes(number.to_ne_bytes()),
                Cell::Text(text) => self.text(text),
                Cell::Word(text) => self.word(text),
            };
            self.values[at].push(value);
        }
        self.rows += 1;
        (self.rows == ROWS).then(|| self.take())
    }

    /// The number of a text. There are no more of them than rows.
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.texts.len() as i64;
        self.texts.insert(text.into(), number);
        number
    }

    #[inline]
    fn word(&mut self, text: &'static str) -> i64 {
        match self.words.iter().find(|word| std::ptr::eq(word.0, text)) {
            Some(word) => word.1,
            None => {
                let number = self.text(text);
                self.words.push((text, number));
                number
            }
        }
    }

    /// What there is so far.
    pub(crate) fn take(&mut self) -> Sheet {
        let mut next = Sheet::new(self.table, self.trace.as_deref());
        for values in &mut next.values {
            values.reserve_exact(self.rows);
        }
        std::mem::replace(self, next)
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Writes it as a row group, sorted by time if it is a table of what happened.
    ///
    /// # Errors
    /// When the file does not take it.
    pub(crate) fn write<W: Write + Send>(self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut texts = vec![ByteArray::new(); self.texts.len()];
        for (text, number) in self.texts {
            // It was counted from 0.
            texts[number as usize] = ByteArray::from(text.into_string().into_bytes());
        }
        let order = self.table.is_by_time().then(|| order(&self.values[0])).flatten();
        let mut group = file.next_row_group()?;
        if let Some(trace) = &self.trace
            && let Some(mut column) = group.next_column()?
        {
            let values = vec![ByteArray::from(trace.as_bytes().to_vec()); self.rows];
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
        for (column, values) in self.table.columns().iter().zip(self.values) {
            let values = match &order {
                Some(order) => order.iter().map(|&at| values[at as usize]).collect(),
                None => values,
            };
            let Some(mut writer) = group.next_column()? else { break };
            let (values, levels) = present(column, values);
            let levels = levels.as_deref();
            match column.kind {
                Kind::Long => writer.typed::<Int64Type>().write_batch(&values, levels, None)?,
                Kind::Int => {
                    let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
                    writer.typed::<Int32Type>().write_batch(&values, levels, None)?
                }
                Kind::Bool => {
                    let values: Vec<bool> = values.iter().map(|&value| value != 0).collect();
                    writer.typed::<BoolType>().write_batch(&values, levels, None)?
                }
                Kind::Double => {
                    let double = |value: &i64| f64::from_ne_bytes(value.to_ne_bytes());
                    let values: Vec<f64> = values.iter().map(double).collect();
                    writer.typed::<DoubleType>().write_batch(&values, levels, None)?
                }
                Kind::Text => {
                    let text = |&value: &i64| texts[value as usize].clone();
                    let values: Vec<ByteArray> = values.iter().map(text).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, levels, None)?
                }
            };
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }
}

/// In which order the rows are by time; `None` if they are in order.
fn order(times: &[i64]) -> Option<Vec<u32>> {
    if times.is_sorted() {
        return None;
    }
    let first = times.iter().copied().min().unwrap_or(0);
    let late = |time: i64| time.wrapping_sub(first).cast_unsigned();
    // Time and number in one word: a sort of words takes a third of the time of one by key.
    let number_bits = usize::BITS - times.len().leading_zeros();
    if times.iter().any(|&time| late(time) >> (u64::BITS - number_bits) != 0) {
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        order.sort_by_key(|&at| times[at as usize]);
        return Some(order);
    }
    let numbered = times.iter().zip(0_u64..);
    let mut words: Vec<u64> =
        numbered.map(|(&time, number)| late(time) << number_bits | number).collect();
    words.sort_unstable();
    let mask = (1 << number_bits) - 1;
    Some(words.into_iter().map(|word| (word & mask) as u32).collect())
}

/// The values that are there, and for each row whether one is.
fn present(column: &Column, mut values: Vec<i64>) -> (Vec<i64>, Option<Vec<i16>>) {
    if !column.nullable {
        return (values, None);
    }
    let levels = values.iter().map(|&value| i16::from(value != NULL)).collect();
    values.retain(|&value| value != NULL);
    (values, Some(levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_time_stay_in_their_order_however_far_times_are_apart() {
        for step in [1, 1 << 40, 1 << 60] {
            let times = [3, 1, 2, 1, 3, 0].map(|time| time * step - 7);
            assert_eq!(order(&times), Some(vec![5, 1, 3, 2, 0, 4]), "{step}");
        }
        assert_eq!(order(&[1, 1, 2]), None);
        assert_eq!(order(&[i64::MAX, i64::MIN, 0]), Some(vec![1, 2, 0]));
    }
}
