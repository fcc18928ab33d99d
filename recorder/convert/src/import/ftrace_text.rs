//! The text of ftrace: tracefs' `trace` and `trace_pipe`, and what `trace-cmd report` prints.
//!
//! ```text
//!   # tracer: nop
//!             bash-1234    [001] d..2.  6604.134063: sched_switch: prev_comm=bash prev_pid=1234 ... ==> next_comm=...
//!             bash-1234    [001]  6604.134063: sched_switch:         bash:1234 [120] S ==> swapper/1:0 [120]
//! ```

mod body;
mod line;

use std::io::{BufRead, Read, Write};

use super::importer::{Importer, Origin};
use crate::{ConvertError, Position, Report};
use fxtrec_capture::event::{Kind, Loss};
use fxtrec_units::Nanos;

use line::{Line, Problem};

/// What the first line begins with: of tracefs' `trace`, and of what `trace-cmd report` prints.
pub(crate) const FIRST: [&[u8]; 3] = [b"# tracer:", b"cpus=", b"version = "];

/// A line longer than this is no line of a trace.
const MOST_BYTES: u64 = 64 * 1024;

/// Reads a whole text into a trace. With `lenient`, lines that cannot be understood are counted and passed over.
pub(crate) fn read(
    mut input: impl BufRead,
    output: impl Write,
    lenient: bool,
) -> Result<Report, ConvertError> {
    let origin = Origin { format: "ftrace text", ..Origin::default() };
    let mut importer = Importer::new(output, origin);
    let mut bytes = Vec::new();
    let mut number = 0;
    let mut last = Nanos(0);
    loop {
        bytes.clear();
        number += 1;
        let read = (&mut input).take(MOST_BYTES).read_until(b'\n', &mut bytes);
        if read.map_err(ConvertError::Read)? == 0 {
            return importer.finish();
        }
        let text = String::from_utf8_lossy(&bytes);
        match line::parse(text.trim_end()) {
            Ok(Line::Nothing) => {}
            Ok(Line::Lost { cpu, count }) => {
                importer.event(last, cpu, Kind::Lost(Loss::exactly(count)))?;
            }
            Ok(Line::Event { time, cpu, kind }) => {
                last = time;
                importer.event(time, cpu, kind)?;
            }
            Ok(Line::Other) => importer.report.count("other tracepoints, left out"),
            Err(_) if lenient => importer.report.count("lines that are not events, skipped"),
            Err(Problem { column, expected }) => {
                let at = Position { line: number, column: column as u64 + 1 };
                let found: String = text.trim_end().chars().skip(column).take(40).collect();
                let problem = format!("expected {expected}, found `{found}`");
                return Err(ConvertError::Malformed { at, problem });
            }
        }
    }
}
