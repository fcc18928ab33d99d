//! Columns of text.

use std::io::{self, Write};

use fxtrec_units::escape;

/// How a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// A table of which every column is as wide as its widest cell.
#[derive(Debug)]
pub(super) struct Grid {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these headings.
    pub(super) fn new(columns: &[(&'static str, Side)]) -> Grid {
        Grid { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, of as many cells as there are columns.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Writes headings, a line, and the rows, indented by two columns.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(self.columns[at].0.chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let headings: Vec<String> =
            self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.line(&headings, &widths, out)?;
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        writeln!(out, "  {}", "-".repeat(total))?;
        self.rows.iter().try_for_each(|row| self.line(row, &widths, out))
    }

    fn line(&self, cells: &[String], widths: &[usize], out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, &width), (_, side)) in cells.iter().zip(widths).zip(&self.columns) {
            line.push_str("  ");
            match side {
                Side::Left => line.push_str(&format!("{cell:<width$}")),
                Side::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        writeln!(out, "{}", line.trim_end())
    }
}

/// A name in which nothing is left that a terminal would obey, and not longer than `most`.
pub(crate) fn printable(name: &str, most: usize) -> String {
    let name = escape::line(name);
    let mut text: String = name.chars().take(most).collect();
    if name.chars().nth(most).is_some() {
        text.pop();
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut grid = Grid::new(&[("Task", Side::Left), ("ms", Side::Right)]);
        grid.row(vec!["a".to_owned(), "12.345".to_owned()]);
        grid.row(vec!["längere".to_owned(), "1".to_owned()]);
        let mut out = Vec::new();
        grid.write(&mut out).expect("memory");
        let expected =
            "  Task         ms\n  ---------------\n  a        12.345\n  längere       1\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn names_do_not_command_the_terminal_nor_run_away() {
        assert_eq!(printable("\x1b[2Jx", 10), r"\x1b[2Jx");
        assert_eq!(printable("0123456789abcdef", 8), "0123456…");
    }
}
