//! The combined report of many traces.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Common, ROWS, ReportError, SCREEN_ROWS, SCREEN_WORST, chosen, options};
use crate::cli::{By, Part, ReportArgs};
use crate::commands::gates::{Gates, Outcome, Style, refuse_of_many};
use crate::commands::many::each;
use crate::commands::trace_file::{self, ReadError};
use crate::kernel::terminal::{Terminal, stdout_is_terminal};
use crate::report::analysis::analyse_alone;
use crate::report::csv::write_csv;
use crate::report::fleet::Fleet;
use crate::report::gates::evaluate::Verdict;
use crate::report::json::write_json;
use crate::report::text::{self, TableStyle};
use crate::report::{Report, analysis};
use crate::units::look::Look;
use crate::units::text::counted;

/// Number of rows on a terminal, if threads are grouped by process, cgroup or host.
const GROUP_ROWS: usize = 20;

/// A requested option that does not exist for many traces.
fn refused(args: &ReportArgs) -> Option<&'static str> {
    let shows = |part: &Part| args.show.contains(part);
    let of_one = [
        Part::Incidents,
        Part::Figures,
        Part::Spans,
        Part::Cpus,
        Part::Causes,
        Part::Blocked,
        Part::Locks,
    ];
    match () {
        () if args.timehist => Some("--timehist"),
        () if args.stacks => Some("--stacks"),
        () if args.page.html.is_some() => Some("--html"),
        // Conditions on thread names would apply to the names of groups.
        () if args.by != By::Thread && !args.gates.fail_if.is_empty() => {
            Some("--by with --fail-if")
        }
        () if !args.pids.is_empty() => Some("--pid"),
        () if !args.tids.is_empty() => Some("--tid"),
        () if of_one.iter().any(shows) => Some("this part of --show"),
        () => None,
    }
}

/// The same as [`super::run`] for several traces.
///
/// # Errors
/// Returns an error when a trace cannot be read, no trace has anything to report, or an option needs a single trace.
pub(super) fn run(
    args: &ReportArgs,
    traces: &[PathBuf],
    look: Look,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Outcome, ReportError> {
    if let Some(option) = refused(args) {
        return Err(ReportError::OneOnly(option));
    }
    if traces.iter().any(|path| path == Path::new("-")) {
        return Err(ReportError::OneOnly("standard input"));
    }
    refuse_of_many(&args.gates)?;
    let others: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let gates = Gates::prepare(&args.gates, &others)?;
    let report = read(args, traces)?;
    if report.switches() == 0 {
        return Err(ReportError::Empty(args.file.clone()));
    }
    let chosen = chosen(args);
    if !chosen.is_empty() && report.threads().is_empty() {
        let near = "`fxtrec report` without it lists their names".to_owned();
        return Err(ReportError::NoThread { chosen: chosen.join(" "), near });
    }
    let mut out = BufWriter::new(out);
    let quietly = |written: io::Result<()>| match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    };
    let Some(gates) = gates else {
        let written = match (args.json, args.csv) {
            (true, _) => write_json(&report, None, &mut out),
            (_, true) => write_csv(&report, &mut out),
            _ => write_text(args, &report, look, &mut out),
        };
        quietly(written.and_then(|()| out.flush()))?;
        return Ok(Outcome::Passed);
    };
    if !args.json {
        let written = match args.csv {
            true => write_csv(&report, &mut out),
            false => write_text(args, &report, look, &mut out),
        };
        quietly(written.and_then(|()| out.flush()))?;
    }
    let show = |verdicts: &[Verdict<'_>]| match args.json {
        true => quietly(write_json(&report, Some(verdicts), &mut out).and_then(|()| out.flush())),
        false => Ok(()),
    };
    let style = Style { colour: Terminal::of_stderr().colour, failures_only: false };
    let selection = options(args).selection;
    // Inputs that would have to be read again have been rejected above.
    let open = || trace_file::read(&args.file);
    let about = counted(traces.len() as u64, "trace", "traces");
    Ok(gates.judge(Path::new(&about), (&report, &selection), style, open, show, err)?)
}

fn read(args: &ReportArgs, traces: &[PathBuf]) -> Result<Report, ReadError> {
    let mut fleet = Fleet::by(args.by.group());
    let work = |path: &Path| {
        let failed = |source| ReadError::new(path, source);
        // Every CPU works on a trace.
        analyse_alone(trace_file::read(path).map_err(failed)?, options(args)).map_err(failed)
    };
    each(traces, work, |number, report| {
        fleet.add(number, traces[number].display().to_string(), report);
    })?;
    Ok(fleet.finish())
}

fn write_text(
    args: &ReportArgs,
    report: &Report,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let screen = args.is_screen();
    let (rows, worst) = match screen {
        true => (SCREEN_ROWS, SCREEN_WORST),
        false => (ROWS, analysis::DEFAULT_WORST),
    };
    // Each host or cgroup is listed.
    let rows = match args.by != By::Thread && args.show.is_empty() {
        true if screen && stdout_is_terminal() => GROUP_ROWS,
        true => 0,
        false => rows,
    };
    let (rows, worst) = (args.most_rows(rows), args.worst.unwrap_or(worst));
    let common = Common { args, report, rows, worst, named: usize::MAX, look };
    let all = [Part::Head, Part::Metrics, Part::Threads, Part::Histogram, Part::Worst];
    let parts: &[Part] = if args.show.is_empty() { &all } else { &args.show };
    for part in parts {
        match part {
            Part::Head => {
                text::write_fleet_head(report, look, out)?;
                // All rows are listed, unless a number is given.
                let rows = args.most_rows(0);
                let style = TableStyle { metric: args.metric, sort: args.sort, rows, look };
                text::write_traces(report, style, out)?;
            }
            Part::Histogram if screen => {}
            // Checks that no option that needs a single trace is given.
            part => {
                common.write(*part, out)?;
            }
        }
    }
    Ok(())
}
