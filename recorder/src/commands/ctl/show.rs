//! Formats answers for people and for programs.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

use crate::control::wire::ProviderStats;
use crate::units::escape;
use crate::units::grid::{Grid, Side};
use crate::units::look::Look;
use crate::units::text::{bytes, count};

/// An answer for programs. The version changes when the meaning of a member changes.
#[derive(Debug, Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    answer: &'a T,
}

impl<'a, T> Versioned<'a, T> {
    fn new(answer: &'a T) -> Versioned<'a, T> {
        Versioned { version: 1, answer }
    }
}

/// Prints `answer` as JSON, or as `text` formats it.
pub(super) fn answer<T: Serialize>(
    json: bool,
    answer: &T,
    out: &mut dyn Write,
    text: impl FnOnce(&T, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(escape::Json(&mut *out), &Versioned::new(answer))
            .map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text(answer, out)?;
    }
    out.flush()
}

/// Prints `object` as JSON in one line.
pub(super) fn json_line<T: Serialize>(object: &T, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(escape::Json(&mut *out), &Versioned::new(object))
        .map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

/// Prints pairs of name and value, one per line.
pub(super) fn pairs(pairs: &[(&str, String)], out: &mut dyn Write) -> io::Result<()> {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs.iter().try_for_each(|(name, value)| writeln!(out, "{name:width$}  {value}"))
}

/// Prints rows below their headings. Columns whose heading begins with a space hold numbers and are right-aligned.
pub(super) fn table<const N: usize>(
    headings: [&'static str; N],
    rows: Vec<[String; N]>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let columns = headings.map(|heading| match heading.strip_prefix(' ') {
        Some(heading) => (heading, Side::Right),
        None => (heading, Side::Left),
    });
    let mut grid = Grid::bare(&columns);
    rows.into_iter().for_each(|row| grid.row(row.to_vec()));
    grid.write(look, out)
}

/// A name from another process, without terminal control sequences.
pub(super) fn plain(text: &str) -> String {
    escape::line(text).into_owned()
}

/// A list in one table cell.
pub(super) fn list<T: Display>(items: &[T], none: &str) -> String {
    if items.is_empty() {
        return none.to_owned();
    }
    plain(&items.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

/// The recorded data of each application. No data is missing if there is no such list and the kernel was recorded.
pub(super) fn provider_stats(
    stats: &[ProviderStats],
    has_kernel: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if stats.is_empty() {
        return match has_kernel {
            true => Ok(()),
            false => writeln!(out, "no application recorded anything"),
        };
    }
    let rows = stats.iter().map(|it| {
        [
            it.pid.to_string(),
            count(it.records_written),
            count(it.records_dropped),
            bytes(it.non_durable_bytes_written),
            count(it.buffer_wrapped_count),
            format!("{:.0} %", it.percentage_durable_buffer_used),
            plain(&it.name),
        ]
    });
    let headings =
        [" pid", " records", " dropped", " bytes", " wrapped", " durable", "application"];
    table(headings, rows.collect(), Look::PLAIN, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let rows = [["7".to_owned(), "zürich".to_owned()], ["1234".to_owned(), "x".to_owned()]];
        let shown = text(|out| table([" pid", "name"], rows.to_vec(), Look::PLAIN, out));
        assert_eq!(shown, " pid  name\n   7  zürich\n1234  x\n");
    }

    #[test]
    fn pairs_are_aligned() {
        let shown = text(|out| pairs(&[("a", "1".into()), ("long", "2".into())], out));
        assert_eq!(shown, "a     1\nlong  2\n");
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n"), r"a\x1b[31mb\x0a");
        assert_eq!(list(&["a", "b\u{7}"], "none"), r"a,b\x07");
        assert_eq!(list::<String>(&[], "none"), "none");
    }

    #[test]
    fn numbers_of_an_application_stand_below_their_headings() {
        let stats = ProviderStats {
            name: "app".to_owned(),
            pid: 12,
            buffering_mode: crate::control::wire::BufferingMode::Streaming,
            buffer_wrapped_count: 3,
            records_dropped: 0,
            percentage_durable_buffer_used: 12.4,
            non_durable_bytes_written: 2048,
            records_written: 12345,
        };
        let shown = text(|out| provider_stats(&[stats], false, out));
        let expected = "pid  records  dropped    bytes  wrapped  durable  application\n \
                        12   12 345        0  2.0 KiB        3     12 %  app\n";
        assert_eq!(shown, expected);
    }
}
