//! ftrace text: tracefs' `trace` and `trace_pipe`, and the output of atrace, `trace-cmd report` and `perf script`.
//!
//! ```text
//!   # tracer: nop
//!             bash-1234    [001] d..2.  6604.134063: sched_switch: prev_comm=bash prev_pid=1234 ... ==> next_comm=...
//!             bash-1234    [001]  6604.134063: sched_switch:         bash:1234 [120] S ==> swapper/1:0 [120]
//! ```
//!
//! If lines have the process of their thread, a first pass collects the processes: a thread may be woken and switched in before the first
//! line that it writes itself.

mod body;
mod header;
mod line;

pub(crate) use body::state_of_bits;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};

use rustc_hash::FxHashMap;

use super::importer::{Importer, Origin};
use super::{BUFFER_BYTES, Input};
use crate::{ConvertError, Position, Report};
use fxtrec_capture::event::Kind;
use fxtrec_units::{Cpu, Nanos};

use header::Columns;
use line::{Line, Problem, Task};

/// Beginnings of the first line: of tracefs' `trace`, of atrace, and of the output of `trace-cmd report`.
const FIRST: [&str; 5] = ["# tracer:", "TRACE:", "capturing trace", "cpus=", "version = "];

/// Longer lines do not belong to a trace.
const MOST_BYTES: u64 = 64 * 1024;

/// The number of bytes that are used to detect the format.
const SNIFFED_BYTES: usize = 64 * 1024;

/// Whether a file with this beginning is ftrace text, according to its first line, or to the first line that is not a comment.
pub(crate) fn is_text(first: &[u8]) -> bool {
    let first = first.get(..SNIFFED_BYTES).unwrap_or(first);
    let text = String::from_utf8_lossy(first);
    if FIRST.iter().any(|begin| text.starts_with(begin)) {
        return true;
    }
    let mut columns = Columns::default();
    let lines = text.lines().map(|line| line::parse(line.trim_end(), &mut columns));
    let mut lines = lines.filter(|line| *line != Ok(Line::Nothing));
    matches!(lines.next(), Some(Ok(_)))
}

/// Whether the lines of a file with this beginning have processes.
fn has_processes(first: &[u8]) -> bool {
    let first = first.get(..SNIFFED_BYTES).unwrap_or(first);
    let mut columns = Columns::default();
    String::from_utf8_lossy(first).lines().any(|line| {
        let names_column = line.starts_with('#') && line.contains("TGID");
        names_column
            || matches!(line::parse(line.trim_end(), &mut columns),
                Ok(Line::Event { task, .. } | Line::Other { task }) if task.process.is_some())
    })
}

/// Reads a whole text into a trace. With `lenient`, malformed lines are counted and skipped.
pub(crate) fn read(
    input: &mut Input,
    output: impl Write,
    lenient: bool,
) -> Result<Report, ConvertError> {
    if has_processes(input.first_bytes()?) {
        return read_file(&input.seekable()?, output, lenient, &FxHashMap::default());
    }
    import(BufReader::with_capacity(BUFFER_BYTES, input), output, lenient, &FxHashMap::default())
}

/// Like [`read`], for a file. The map has the process of some threads, from thread id to process id.
pub(crate) fn read_file(
    file: &File,
    output: impl Write,
    lenient: bool,
    known: &FxHashMap<u32, u32>,
) -> Result<Report, ConvertError> {
    let again = |mut file: &File| file.rewind().map_err(ConvertError::Read);
    again(file)?;
    let mut processes = known.clone();
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER_BYTES, file));
    while let Some(line) = lines.next()? {
        if let Ok(Line::Event { task, .. } | Line::Other { task }) = line
            && let Some(process) = task.process
        {
            processes.entry(task.tid.0).or_insert(process);
        }
    }
    again(file)?;
    import(BufReader::with_capacity(BUFFER_BYTES, file), output, lenient, &processes)
}

/// Shows all events of a text. With `lenient`, malformed lines are counted in `skipped`.
pub(crate) fn each_event(
    mut file: &File,
    lenient: bool,
    skipped: &mut u64,
    mut take: impl FnMut(Nanos, Cpu, Kind) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    file.rewind().map_err(ConvertError::Read)?;
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER_BYTES, file));
    while let Some(line) = lines.next()? {
        match line {
            Ok(Line::Event { time, cpu, kind, .. }) => take(time, cpu, kind)?,
            Ok(_) => {}
            Err(_) if lenient => *skipped += 1,
            Err(problem) => return Err(lines.malformed(problem)),
        }
    }
    Ok(())
}

fn import(
    input: impl BufRead,
    output: impl Write,
    lenient: bool,
    processes: &FxHashMap<u32, u32>,
) -> Result<Report, ConvertError> {
    let origin = Origin { format: "ftrace text", ..Origin::default() };
    let mut importer = Importer::new(output, origin);
    for (tid, pid) in processes {
        importer.belongs(*pid, *tid);
    }
    let mut lines = Lines::new(input);
    let mut last = Nanos(0);
    while let Some(line) = lines.next()? {
        match line {
            Ok(Line::Nothing) => {}
            Ok(Line::Lost { cpu, loss }) => importer.event(last, cpu, Kind::Lost(loss))?,
            Ok(Line::Event { time, cpu, kind, task }) => {
                last = time;
                learn(task, &mut importer);
                importer.event(time, cpu, kind)?;
            }
            Ok(Line::Other { task }) => {
                learn(task, &mut importer);
                importer.report.count("other tracepoints, left out");
            }
            Err(_) if lenient => importer.report.count("lines that are not events, skipped"),
            Err(problem) => return Err(lines.malformed(problem)),
        }
    }
    let plain =
        "times without decimals, taken as nanoseconds: wrong if the clock counts another unit";
    importer.report.add(plain, lines.columns.plain_times);
    importer.finish()
}

/// If a line has the process of its thread, that process is used from there on.
fn learn<W: Write>(task: Task, importer: &mut Importer<W>) {
    if let Some(process) = task.process {
        importer.belongs(process, task.tid.0);
    }
}

/// The lines of a text, parsed.
struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    number: u64,
    columns: Columns,
}

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Lines<R> {
        Lines { input, bytes: Vec::new(), number: 0, columns: Columns::default() }
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Result<Option<Result<Line, Problem>>, ConvertError> {
        self.bytes.clear();
        self.number += 1;
        let read = (&mut self.input).take(MOST_BYTES).read_until(b'\n', &mut self.bytes);
        if read.map_err(ConvertError::Read)? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&self.bytes);
        Ok(Some(line::parse(text.trim_end(), &mut self.columns)))
    }

    /// The error for the last line that was read.
    fn malformed(&self, Problem { column, expected }: Problem) -> ConvertError {
        let at = Position { line: self.number, column: column as u64 + 1 };
        let text = String::from_utf8_lossy(&self.bytes);
        let found: String = text.trim_end().chars().skip(column).take(40).collect();
        ConvertError::Malformed { at, problem: format!("expected {expected}, found `{found}`") }
    }
}
