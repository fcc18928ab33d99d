//! Columns of text: the tables of all commands.
//!
//! If the terminal is narrower than a table, columns are left out in the order that the table specifies, and a line reports it:
//!
//! ```text
//!   Task       Runtime ms   Count   p99 ms   Max ms   Migr        Task       Runtime ms   p99 ms   Max ms
//!   --------------------------------------------------      =>    -----------------------------------------
//!   app:101        12.345   1 024    0.250    1.750      3        app:101        12.345    0.250    1.750
//!                                                                 2 columns hidden: widen to 52
//! ```

use std::io::{self, Write};

use crate::escape;
use crate::look::Look;

/// The alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Usually for text.
    Left,
    /// Usually for numbers.
    Right,
}

/// Columns of space between two columns of a table.
const GAP: usize = 2;

/// The mark after the heading of the column by which rows are sorted.
const MARK: &str = " *";

/// A name is not truncated below this width.
const SHORTEST: usize = 12;

/// A table in which every column is as wide as its widest cell.
#[derive(Debug)]
pub struct Grid {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
    /// Headings of columns that may be left out, the least important first.
    spare: &'static [&'static str],
    /// The heading of the column by which rows are sorted.
    marked: Option<&'static str>,
    indent: usize,
    has_rule: bool,
}

impl Grid {
    /// A table with these headings and a line below them, indented by two columns.
    pub fn new(columns: &[(&'static str, Side)]) -> Grid {
        let (columns, rows) = (columns.to_vec(), Vec::new());
        Grid { columns, rows, spare: &[], marked: None, indent: 2, has_rule: true }
    }

    /// A table without the line about hidden columns; that line is not indented.
    pub fn bare(columns: &[(&'static str, Side)]) -> Grid {
        Grid { indent: 0, has_rule: false, ..Grid::new(columns) }
    }

    /// Sets which columns may be left out if there is no space, by their headings, the least important first. If two columns have the same
    /// heading, the first mention means the right one.
    pub fn spare(mut self, spare: &'static [&'static str]) -> Grid {
        self.spare = spare;
        self
    }

    /// Marks the column with this heading as the one that rows are sorted by. It is never left out.
    pub fn sorted_by(mut self, heading: &'static str) -> Grid {
        self.marked = Some(heading);
        self
    }

    /// Adds a row, of as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Writes headings and rows, with as many columns as there is space for.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let whole: Vec<usize> = (0..self.columns.len()).map(|at| self.width(at)).collect();
        let (shown, widths) = self.fit(&whole, look.columns);
        let headings: Vec<String> = (0..self.columns.len()).map(|at| self.heading(at)).collect();
        let indent = " ".repeat(self.indent);
        let line = self.line(&headings, &shown, &widths);
        // A heading on the right begins with spaces, which need no colour.
        let heading = line.trim_start();
        let before = &line[..line.len() - heading.len()];
        writeln!(out, "{indent}{before}{}", look.heading(heading))?;
        if self.has_rule {
            writeln!(out, "{indent}{}", "-".repeat(total(&shown, &widths)))?;
        }
        for row in &self.rows {
            let line = format!("{indent}{}", self.line(row, &shown, &widths));
            writeln!(out, "{}", line.trim_end())?;
        }
        let hidden = whole.len() - shown.len();
        if hidden > 0 {
            let all: Vec<usize> = (0..whole.len()).collect();
            let wide = self.indent + total(&all, &whole);
            let columns = if hidden == 1 { "column" } else { "columns" };
            let note = format!("{hidden} {columns} hidden: widen to {wide}");
            writeln!(out, "{indent}{}", look.note(&note))?;
        }
        Ok(())
    }

    fn heading(&self, at: usize) -> String {
        let name = self.columns[at].0;
        if self.marked == Some(name) { format!("{name}{MARK}") } else { name.to_owned() }
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(self.heading(at).chars().count())
    }

    /// Which columns are shown, and how wide each one is, for a terminal of this many columns.
    fn fit(&self, whole: &[usize], columns: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut shown: Vec<usize> = (0..whole.len()).collect();
        let mut widths = whole.to_vec();
        let Some(room) = columns.map(|columns| columns.saturating_sub(self.indent)) else {
            return (shown, widths);
        };
        for heading in self.spare.iter().filter(|heading| self.marked != Some(**heading)) {
            if total(&shown, &widths) <= room {
                break;
            }
            if let Some(at) = shown.iter().rposition(|&at| self.columns[at].0 == *heading) {
                shown.remove(at);
            }
        }
        // The remaining columns are required; the longest text is shortened.
        let excess = total(&shown, &widths).saturating_sub(room);
        let texts = shown.iter().copied().filter(|&at| self.columns[at].1 == Side::Left);
        if let Some(longest) = texts.max_by_key(|&at| widths[at]) {
            let least = SHORTEST.min(widths[longest]);
            widths[longest] = widths[longest].saturating_sub(excess).max(least);
        }
        (shown, widths)
    }

    fn line(&self, cells: &[String], shown: &[usize], widths: &[usize]) -> String {
        let cells = shown.iter().map(|&at| {
            let (cell, width) = (shortened(&cells[at], widths[at]), widths[at]);
            match self.columns[at].1 {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    }
}

/// The total width of these columns.
fn total(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().map(|&at| widths[at]).sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

/// The text, or the part of it that fits, and an ellipsis.
fn shortened(text: &str, most: usize) -> String {
    let mut shortened: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        shortened.pop();
        shortened.push('…');
    }
    shortened
}

/// A name without anything that a terminal would interpret, at most `most` long.
pub fn printable(name: &str, most: usize) -> String {
    shortened(&escape::line(name), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(grid: &Grid, look: Look) -> String {
        let mut out = Vec::new();
        grid.write(look, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut grid = Grid::new(&[("Task", Side::Left), ("ms", Side::Right)]);
        grid.row(cells(["a", "12.345"]));
        grid.row(cells(["längere", "1"]));
        let expected =
            "  Task         ms\n  ---------------\n  a        12.345\n  längere       1\n";
        assert_eq!(written(&grid, Look::PLAIN), expected);
    }

    #[test]
    fn a_bare_table_is_not_indented_and_has_no_line() {
        let mut grid = Grid::bare(&[("pid", Side::Right), ("name", Side::Left)]);
        grid.row(cells(["1234", "x"]));
        assert_eq!(written(&grid, Look::PLAIN), " pid  name\n1234  x\n");
    }

    /// A table that is 37 columns wide.
    fn wide() -> Grid {
        let right = Side::Right;
        let grid =
            Grid::new(&[("Task", Side::Left), ("Max", right), ("Steal", right), ("Max", right)]);
        let mut grid = grid.spare(&["Max", "Steal"]);
        grid.row(cells(["a name of a task", "1.5", "0.25", "0.125"]));
        grid
    }

    #[test]
    fn columns_are_left_out_by_priority_until_the_rest_fits() {
        let headings = |columns| {
            let look = Look { columns: Some(columns), ..Look::PLAIN };
            let text = written(&wide(), look);
            for line in text.lines().filter(|line| !line.contains("hidden")) {
                assert!(line.chars().count() <= columns, "{columns}: {text}");
            }
            let words = text.lines().next().expect("headings").split_whitespace();
            let last = text.lines().last().expect("a line").trim().to_owned();
            (words.map(str::to_owned).collect::<Vec<_>>().join(" "), last)
        };
        let all = written(&wide(), Look::PLAIN);
        assert_eq!(all.lines().nth(1).map(str::len), Some(37), "{all}");
        assert_eq!(headings(37).0, "Task Max Steal Max");
        let one = ("Task Max Steal".to_owned(), "1 column hidden: widen to 37".to_owned());
        assert_eq!(headings(36), one);
        assert_eq!(headings(30), one);
        let two = ("Task Max".to_owned(), "2 columns hidden: widen to 37".to_owned());
        assert_eq!(headings(29), two);
    }

    #[test]
    fn the_column_that_rows_are_sorted_by_is_marked_and_not_left_out() {
        let text = written(&wide().sorted_by("Steal"), Look { columns: Some(29), ..Look::PLAIN });
        let expected = "  Task           Max  Steal *\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("1 column hidden: widen to 39\n"), "{text}");
    }

    #[test]
    fn when_nothing_more_can_be_left_out_the_longest_name_is_shortened() {
        let narrow = written(&wide(), Look { columns: Some(20), ..Look::PLAIN });
        assert!(narrow.contains("  a name of a …  1.5\n"), "{narrow}");
        let tiny = written(&wide(), Look { columns: Some(5), ..Look::PLAIN });
        assert!(tiny.contains("  a name of a…  1.5\n"), "no shorter than {SHORTEST}: {tiny}");
    }

    #[test]
    fn headings_are_bold_and_the_remark_is_dim_where_there_are_colours() {
        let text = written(&wide(), Look { colour: true, columns: Some(30) });
        assert!(text.starts_with("  \x1b[1mTask"), "{text:?}");
        assert!(text.ends_with("  \x1b[2m1 column hidden: widen to 37\x1b[0m\n"), "{text:?}");
        let mut plain = text;
        for colour in crate::look::PALETTE {
            plain = plain.replace(colour, "");
        }
        assert_eq!(plain, written(&wide(), Look { colour: false, columns: Some(30) }));
    }

    #[test]
    fn names_do_not_command_the_terminal_nor_run_away() {
        assert_eq!(printable("\x1b[2Jx", 10), r"\x1b[2Jx");
        assert_eq!(printable("0123456789abcdef", 8), "0123456…");
    }
}
