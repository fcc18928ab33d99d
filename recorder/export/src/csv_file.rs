//! Tables as comma-separated values (RFC 4180), with a header.
//!
//! An empty field is null. Strings are always quoted, so an empty text is not null. Numbers have as many digits as are needed to read back
//! the same value.

use std::fs::File;
use std::io::Write;

use crate::file::{Output, TRACE_ID, WriteError};
use crate::schema::{Kind, Table};
use crate::sheet::{Cell, Group, Word};

/// The file is written in blocks of this many bytes.
const BLOCK: usize = 1 << 20;

/// A file that is being written.
pub(crate) struct CsvFile<W> {
    file: W,
    /// Text that is not written yet.
    text: Vec<u8>,
    written: u64,
}

impl CsvFile<File> {
    /// Begins the file of a table.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(crate) fn begin(
        file: File,
        table: Table,
        with_trace: bool,
    ) -> Result<CsvFile<File>, WriteError> {
        CsvFile::new(file, table, with_trace)
    }
}

impl<W: Write> CsvFile<W> {
    fn new(file: W, table: Table, with_trace: bool) -> Result<CsvFile<W>, WriteError> {
        let trace = with_trace.then_some(&TRACE_ID);
        let names: Vec<&str> =
            trace.into_iter().chain(table.columns()).map(|column| column.name).collect();
        let text = (names.join(",") + "\n").into_bytes();
        let mut begun = CsvFile { file, text, written: 0 };
        begun.flush()?;
        Ok(begun)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        self.file.write_all(&self.text)?;
        self.written += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

impl<W: Write + Send> Output for CsvFile<W> {
    fn write(&mut self, group: &mut Group) -> Result<(), WriteError> {
        let order = group.order();
        let columns = group.table.columns();
        for row in 0..group.rows() {
            let at = order.as_ref().map_or(row, |order| order[row] as usize);
            if let Some(trace) = &group.trace {
                quote(trace, &mut self.text);
                self.text.push(b',');
            }
            for (column, cells) in columns.iter().zip(&group.columns) {
                let cell = cells[at];
                if !column.nullable || cell != Cell::NULL.0 {
                    value(column.kind, cell, &group.texts, &mut self.text);
                }
                self.text.push(b',');
            }
            // Replaces the last comma.
            self.text.pop();
            self.text.push(b'\n');
            if self.text.len() >= BLOCK {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn finish(&mut self) -> Result<u64, WriteError> {
        self.flush()?;
        self.file.flush()?;
        Ok(self.written)
    }
}

fn value(kind: Kind, cell: i64, texts: &[Box<str>], text: &mut Vec<u8>) {
    match kind {
        Kind::Long => text.extend_from_slice(itoa::Buffer::new().format(cell).as_bytes()),
        Kind::Int => text.extend_from_slice(itoa::Buffer::new().format(cell as i32).as_bytes()),
        Kind::Bool => text.extend_from_slice(if cell != 0 { b"true" } else { b"false" }),
        Kind::Double => {
            let number = f64::from_ne_bytes(cell.to_ne_bytes());
            text.extend_from_slice(format!("{number:?}").as_bytes());
        }
        Kind::Text => match usize::try_from(cell) {
            Ok(number) => quote(&texts[number], text),
            Err(_) => quote(Word::TEXTS[(-1 - cell) as usize], text),
        },
    }
}

fn quote(value: &str, text: &mut Vec<u8>) {
    text.push(b'"');
    for (at, part) in value.split('"').enumerate() {
        if at > 0 {
            text.extend_from_slice(b"\"\"");
        }
        text.extend_from_slice(part.as_bytes());
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::Sheet;

    fn lines<const N: usize>(
        table: Table,
        trace: Option<&str>,
        rows: impl Fn(&mut Sheet) -> Vec<[Cell; N]>,
    ) -> String {
        let (mut sheet, mut group) = (Sheet::new(table, trace), Group::new(table));
        for row in rows(&mut sheet) {
            assert!(!sheet.push(&row));
        }
        group.add(sheet.take(true).expect("rows"));
        let mut file = CsvFile::new(Vec::new(), table, trace.is_some()).expect("room");
        file.write(&mut group).expect("room");
        assert_eq!(file.finish().expect("room"), file.file.len() as u64);
        String::from_utf8(file.file).expect("text")
    }

    #[test]
    fn texts_are_quoted_and_an_empty_one_is_not_null() {
        let text = lines(Table::Process, Some("t1"), |sheet| {
            let name = sheet.text("a \"b\",\nc");
            let empty = sheet.text("");
            vec![
                [Cell::id(1), Cell::of(7), name, Cell::int(i64::MIN), Cell::NULL],
                [Cell::id(2), Cell::of(8), empty, Cell::int(-1), empty],
            ]
        });
        let expected = "trace_id,upid,pid,name,koid,cgroup\n\
             \"t1\",1,7,\"a \"\"b\"\",\nc\",-9223372036854775808,\n\
             \"t1\",2,8,\"\",-1,\"\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn rows_are_in_the_order_of_time_and_numbers_are_read_back_as_they_were() {
        let values = [0.1, -0.0, 1e300, f64::NAN, f64::NEG_INFINITY, 5e-324, 3.0];
        let text = lines(Table::Counter, None, |sheet| {
            let text = sheet.text("x");
            let row = |(value, ts): (&f64, u64)| {
                [Cell::of(ts), Cell::id(1), text, text, Cell::of(0), text, Cell::double(*value)]
            };
            values.iter().zip((0..7).rev()).map(row).collect()
        });
        let read = text.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[0].parse::<usize>().expect("ts"), fields[6].parse::<f64>().expect("a number"))
        });
        for (at, (ts, value)) in read.enumerate() {
            assert_eq!((at, value.to_bits()), (ts, values[6 - ts].to_bits()), "{value}");
        }
    }

    #[test]
    fn words_and_flags_are_written_out() {
        let text = lines(Table::Wakeup, None, |_| {
            let [yes, no] = [true, false].map(Cell::flag);
            vec![[Cell::of(5), Cell::id(0), Cell::id(3), Cell::NULL, yes, no]]
        });
        assert!(text.ends_with("\n5,0,3,,true,false\n"), "{text}");
        let text = lines(Table::Sample, None, |_| {
            vec![[Cell::of(5), Cell::id(0), Cell::word(Word::Preempted), Cell::NULL, Cell::NULL]]
        });
        assert!(text.ends_with("\n5,0,\"R+\",,\n"), "{text}");
    }
}
