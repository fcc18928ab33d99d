//! Rows of a table that are being collected, until they fill a row group.
//!
//! The thread that reads the trace has the most work, so adding a row is one short copy: rows are stored one after another, every value as
//! 64 bits. The writing thread splits the rows into columns, one [slip](Slip) at a time, while they are still in a CPU cache:
//!
//! ```text
//!  Sheet -- Slip: some rows, as they came -----------> Group: a row group, by columns
//!           |ts dur cpu|ts dur cpu|ts dur cpu|...      ts ts ts ...    dur dur dur ...    cpu cpu cpu ...
//! ```

use rustc_hash::FxHashMap;

use crate::schema::Table;

/// The rows of a row group. Memory holds that many for each table.
pub(crate) const ROWS: usize = if cfg!(test) { 1 << 14 } else { 1 << 17 };

/// The rows that are handed over at once.
pub(crate) const SLIP_ROWS: usize = 1 << 12;

/// The rows that are split into columns at once.
const BLOCK: usize = 1 << 9;

/// A value of a row: a number, the bits of a double, or the number of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell(pub(crate) i64);

/// Strings that are in very many rows; they need no lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Running,
    Runnable,
    Preempted,
    Sleeping,
    Uninterruptible,
    Idle,
    Parked,
    Stopped,
    Traced,
    Zombie,
    Dead,
    AfterWakeup,
    AfterPreemption,
}

impl Word {
    /// The text of each variant, in order.
    pub(crate) const TEXTS: [&'static str; 13] =
        ["Running", "R", "R+", "S", "D", "I", "P", "T", "t", "Z", "X", "wakeup", "preempted"];
}

impl Cell {
    pub(crate) const NULL: Cell = Cell(i64::MIN);

    /// A number that is below 2^63, unless the trace is damaged.
    #[inline(always)]
    pub(crate) fn of(number: u64) -> Cell {
        Cell(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// A number below 2^63, or null for `None`.
    #[inline(always)]
    pub(crate) fn some(number: Option<u64>) -> Cell {
        number.map_or(Cell::NULL, Cell::of)
    }

    /// A number below 2^63, or null for 0.
    #[inline(always)]
    pub(crate) fn unless_zero(number: u64) -> Cell {
        if number > 0 { Cell::of(number) } else { Cell::NULL }
    }

    pub(crate) fn int(number: i64) -> Cell {
        Cell(number)
    }

    #[inline(always)]
    pub(crate) fn id(number: u32) -> Cell {
        Cell(number.into())
    }

    #[inline(always)]
    pub(crate) fn some_id(number: Option<u32>) -> Cell {
        number.map_or(Cell::NULL, Cell::id)
    }

    #[inline(always)]
    pub(crate) fn flag(is: bool) -> Cell {
        Cell(is.into())
    }

    pub(crate) fn double(number: f64) -> Cell {
        Cell(i64::from_ne_bytes(number.to_ne_bytes()))
    }

    /// Predefined words have negative numbers, other strings have the numbers from 0.
    #[inline(always)]
    pub(crate) fn word(word: Word) -> Cell {
        Cell(-1 - word as i64)
    }
}

/// Rows that are not handed over yet.
#[derive(Debug)]
pub(crate) struct Sheet {
    table: Table,
    /// The id of the trace, if rows have one.
    trace: Option<Box<str>>,
    /// The values of the rows, one row after the other.
    cells: Vec<Cell>,
    /// The strings of the row group.
    texts: FxHashMap<Box<str>, i64>,
    /// The strings that are not handed over yet.
    new_texts: Vec<Box<str>>,
    /// The rows of the row group so far.
    rows: usize,
}

/// The next rows of a row group.
#[derive(Debug)]
pub(crate) struct Slip {
    pub(crate) table: Table,
    trace: Option<Box<str>>,
    cells: Vec<Cell>,
    /// The next strings by number.
    texts: Vec<Box<str>>,
    /// Whether the row group ends with it.
    pub(crate) is_last: bool,
}

impl Sheet {
    pub(crate) fn new(table: Table, trace: Option<&str>) -> Sheet {
        Sheet {
            table,
            trace: trace.map(Into::into),
            cells: Vec::new(),
            texts: FxHashMap::default(),
            new_texts: Vec::new(),
            rows: 0,
        }
    }

    /// Adds a row; its strings must be from this sheet. True when it is time to hand over the rows.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push<const N: usize>(&mut self, row: &[Cell; N]) -> bool {
        debug_assert_eq!(N, self.table.columns().len(), "{}", self.table);
        self.cells.extend_from_slice(row);
        self.rows += 1;
        self.rows.is_multiple_of(SLIP_ROWS)
    }

    /// A string for the next row. There are never more strings than cells.
    pub(crate) fn text(&mut self, text: &str) -> Cell {
        if let Some(&number) = self.texts.get(text) {
            return Cell(number);
        }
        let number = self.texts.len() as i64;
        self.texts.insert(text.into(), number);
        self.new_texts.push(text.into());
        Cell(number)
    }

    /// Takes the rows that have not been passed on yet. The result ends the row group if that is full, or if `nothing_follows`. `None` if
    /// there is no row group to end.
    pub(crate) fn take(&mut self, nothing_follows: bool) -> Option<Slip> {
        if self.rows == 0 {
            return None;
        }
        let is_last = nothing_follows || self.rows == ROWS;
        let cells = Vec::with_capacity(self.cells.len());
        let slip = Slip {
            table: self.table,
            trace: self.trace.clone(),
            cells: std::mem::replace(&mut self.cells, cells),
            texts: std::mem::take(&mut self.new_texts),
            is_last,
        };
        if is_last {
            self.rows = 0;
            self.texts.clear();
        }
        Some(slip)
    }
}

/// A row group that is being collected, by columns.
pub(crate) struct Group {
    pub(crate) table: Table,
    /// The id of the trace, if rows have one.
    pub(crate) trace: Option<Box<str>>,
    pub(crate) columns: Vec<Vec<i64>>,
    /// Indexed by number; known strings are left out.
    pub(crate) texts: Vec<Box<str>>,
}

impl Group {
    pub(crate) fn new(table: Table) -> Group {
        let columns = table.columns().iter().map(|_| Vec::new()).collect();
        Group { table, trace: None, columns, texts: Vec::new() }
    }

    pub(crate) fn add(&mut self, slip: Slip) {
        self.trace = slip.trace;
        self.texts.extend(slip.texts);
        let width = self.columns.len();
        for rows in slip.cells.chunks(BLOCK * width) {
            for (at, column) in self.columns.iter_mut().enumerate() {
                column.extend(rows.chunks_exact(width).map(|row| row[at].0));
            }
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns[0].len()
    }

    /// The order in which to write the rows of a table of events: by time. `None` if they are in order already.
    pub(crate) fn order(&self) -> Option<Vec<u32>> {
        if self.table.is_by_time() { order(&self.columns[0]) } else { None }
    }

    /// Begins the next row group.
    pub(crate) fn clear(&mut self) {
        for column in &mut self.columns {
            column.clear();
        }
        self.texts.clear();
    }
}

/// Each round of sorting uses this many bits of the times.
const DIGIT_BITS: u32 = 11;

/// The order of the rows by time; `None` if they are in order already.
fn order(times: &[i64]) -> Option<Vec<u32>> {
    if times.is_sorted() {
        return None;
    }
    let first = times.iter().copied().min().unwrap_or(0);
    let late = |time: i64| time.wrapping_sub(first).cast_unsigned();
    let last = times.iter().copied().max().map_or(0, late);
    let number_bits = usize::BITS - times.len().leading_zeros();
    let time_bits = u64::BITS - last.leading_zeros();
    if number_bits + time_bits > u64::BITS {
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        order.sort_by_key(|&at| times[at as usize]);
        return Some(order);
    }
    // Time and row number are put into one word. The times of a row group differ in few bits. A radix sort with the least significant digit
    // first sorts the words by these bits; each round keeps the order of equal digits.
    let numbered = times.iter().zip(0_u64..);
    let mut words: Vec<u64> =
        numbered.map(|(&time, number)| late(time) << number_bits | number).collect();
    let mut sorted = vec![0; words.len()];
    for shift in (number_bits..number_bits + time_bits).step_by(DIGIT_BITS as usize) {
        let digit = |word: u64| (word >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut places = [0_u32; 1 << DIGIT_BITS];
        for &word in &words {
            places[digit(word)] += 1;
        }
        let mut sum = 0;
        for place in &mut places {
            sum += std::mem::replace(place, sum);
        }
        for &word in &words {
            let place = &mut places[digit(word)];
            sorted[*place as usize] = word;
            *place += 1;
        }
        std::mem::swap(&mut words, &mut sorted);
    }
    let mask = (1 << number_bits) - 1;
    Some(words.into_iter().map(|word| (word & mask) as u32).collect())
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
        let many = (0..5000_i64).map(|n| n * 7_919 % 4_999 * 1_000_003).collect::<Vec<_>>();
        let mut expected: Vec<u32> = (0..5000).collect();
        expected.sort_by_key(|&row| many[row as usize]);
        assert_eq!(order(&many), Some(expected));
    }

    #[test]
    fn slips_become_columns_however_many_they_are() {
        let rows = 2 * SLIP_ROWS as i64 + 5;
        let (mut sheet, mut group) = (Sheet::new(Table::Loss, None), Group::new(Table::Loss));
        let mut slips = 0;
        for row in 0..rows {
            let row = Cell::int(row);
            if sheet.push(&[row, row, row, row]) {
                let slip = sheet.take(false).expect("rows");
                assert!(!slip.is_last);
                group.add(slip);
                slips += 1;
            }
        }
        let last = sheet.take(true).expect("the rest");
        assert!(last.is_last && slips == 2 && sheet.take(true).is_none());
        group.add(last);
        assert!(group.columns.iter().all(|column| column.iter().copied().eq(0..rows)));
    }

    #[test]
    fn a_row_group_that_ends_with_a_slip_is_ended() {
        let mut sheet = Sheet::new(Table::Label, None);
        let mut ended = 0;
        for row in 0..ROWS + SLIP_ROWS {
            let cell = sheet.text(if row < ROWS { "a" } else { "b" });
            if sheet.push(&[cell, cell]) {
                let slip = sheet.take(false).expect("rows");
                assert_eq!(slip.is_last, row + 1 == ROWS);
                ended += usize::from(slip.is_last);
                // Each row group has its own strings.
                let begins = row + 1 == SLIP_ROWS || row > ROWS;
                assert_eq!(slip.texts.len(), usize::from(begins), "{row}");
            }
        }
        let last = sheet.take(true).expect("an end without rows");
        assert!(ended == 1 && last.is_last && last.cells.is_empty());
    }
}
