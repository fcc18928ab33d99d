//! `fxtrec report`: who waited, how long, and for whom.

mod fleet;
mod lines;
mod page;
pub mod recorded;
mod stacks;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use fxt_reader::{Cpu, Koid, Nanos};

use crate::cli::{By, Part, ReportArgs, TimePoint};
use crate::commands::gates::{Gates, GatesError, Outcome, Style, reading_again};
use crate::commands::many::{ManyError, expand};
use crate::commands::trace_file::{
    self, ReadError, keep, open, open_watched, refuse_outside, resolve, watched,
};
use crate::kernel::terminal::{Terminal, stdout_is_terminal};
use crate::report::Cause;
use crate::report::csv::write_csv;
use crate::report::gates::evaluate::Verdict;
use crate::report::json::write_json;
use crate::report::page::PageError;
use crate::report::spans::{Room, measure};
use crate::report::text::{self, TableStyle};
use crate::report::timehist::TimeHist;
use crate::report::{
    self, GroupBy, Incident, Options, Report, Selection, Span, ThreadFilter, ThreadInfo, TimeRange,
    analysis, call_name,
};
use crate::report::{TimeSpec, counters, locks};
use crate::units::look::Look;
use crate::units::nearest::nearest;
use crate::units::text::counted;
use crate::why::{self, Explanation, Pick, Query, Who, WhyError};

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The trace cannot be read, or not to its end.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace contains nothing that could be reported.
    #[error(
        "{}: nothing to report: no switch or wakeup matches; fxtrec dump --stats shows what the trace contains",
        .0.display()
    )]
    Empty(PathBuf),
    /// The trace has spans or counters, but the option needs scheduler records.
    #[error(
        "{}: {option} needs switches or wakeups, and the trace has none; without {option}, fxtrec report prints its spans and counters",
        .file.display()
    )]
    NoScheduling { file: PathBuf, option: &'static str },
    /// The trace has threads, but none matches.
    #[error("no thread matches {chosen}: {near}")]
    NoThread { chosen: String, near: String },
    /// The page and another output would both be written to standard output.
    #[error("--html - and {0} both write to standard output: name a file for the page")]
    Both(&'static str),
    /// A page on a terminal.
    #[error(
        "--html - would write the page to a terminal: redirect standard output, or name a file"
    )]
    PageToTerminal,
    /// The page cannot be created.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A directory has no traces or cannot be read.
    #[error(transparent)]
    Many(#[from] ManyError),
    /// An option needs a single trace.
    #[error("{0} needs a single trace: name one")]
    OneOnly(&'static str),
    /// The gates cannot be evaluated.
    #[error(transparent)]
    Gates(#[from] GatesError),
    /// The stacks cannot be shown.
    #[error(transparent)]
    Stacks(#[from] stacks::StacksError),
    /// The output accepts no more data.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Executes the requests of `args`, writes the output to `out`, and returns the result of the gates. If the output is closed early, the
/// command ends quietly. Verdicts are written to `err`, so that programs can read `out`.
///
/// # Errors
/// Returns an error if the trace cannot be read, contains nothing to report, or the output fails.
pub fn run(
    args: &ReportArgs,
    look: Look,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Outcome, ReportError> {
    match (args.page.to_stdout(), args.json, args.csv) {
        (true, true, _) => return Err(ReportError::Both("--json")),
        (true, _, true) => return Err(ReportError::Both("--csv")),
        (true, ..) if stdout_is_terminal() => return Err(ReportError::PageToTerminal),
        _ => {}
    }
    let is_of_day = [args.from, args.to].iter().flatten().any(|it| it.moment().is_none());
    if !args.more.is_empty() || args.file.is_dir() {
        if is_of_day {
            return Err(ReportError::OneOnly("a time of day"));
        }
        let named: Vec<PathBuf> = std::iter::once(&args.file).chain(&args.more).cloned().collect();
        return fleet::run(args, &expand(&named)?, look, out, err);
    }
    if is_of_day {
        let (from, to) = resolve(&args.file, args.from, args.to)?;
        let at = |time: Nanos| TimePoint::In(TimeSpec::At(time));
        let args = ReportArgs { from: from.map(at), to: to.map(at), ..args.clone() };
        return run(&args, look, out, err);
    }
    if args.stacks {
        stacks::run(args, options(args), out, err)?;
        return Ok(Outcome::Passed);
    }
    let html = args.page.html.as_deref().filter(|_| !args.page.to_stdout());
    let others: Vec<&Path> = std::iter::once(args.file.as_path()).chain(html).collect();
    let gates = Gates::prepare(&args.gates, &others)?;
    if reading_again(&args.gates).is_some() {
        keep(&args.file)?;
    }
    let mut out = BufWriter::new(out);
    let quietly = |written: io::Result<()>| match written {
        // The output no longer has a reader, but the exit status may still be checked.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    };
    let (mut report, written) = run_to(args, look, &mut out, err)?;
    if args.json {
        let parts = if args.all { &Part::ALL_MEASURED[..] } else { &Part::MEASURED };
        measure_more(args, parts, &mut report)?;
    }
    // The verdicts are part of the JSON.
    let Some(gates) = gates else {
        let written = match args.json {
            true => write_json(&shown(args, &report), None, &mut out),
            false => written,
        };
        quietly(written.and_then(|()| out.flush()))?;
        return Ok(Outcome::Passed);
    };
    if !args.json {
        quietly(written.and_then(|()| out.flush()))?;
    }
    let show = |verdicts: &[Verdict<'_>]| match args.json {
        true => {
            let written = write_json(&shown(args, &report), Some(verdicts), &mut out);
            quietly(written.and_then(|()| out.flush()))
        }
        false => Ok(()),
    };
    let colour = Terminal::of_stderr().colour;
    let style = Style { colour, failures_only: false };
    let selection = options(args).selection;
    let open = || trace_file::read(&args.file);
    Ok(gates.judge(&args.file, (&report, &selection), style, open, show, err)?)
}

/// The report, and whether it could be written; JSON is written later.
fn run_to(
    args: &ReportArgs,
    look: Look,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(Report, io::Result<()>), ReportError> {
    if args.timehist {
        let options = options(args);
        let hist = TimeHist::new(options.selection.threads.clone(), out);
        let observed = analysis::observe(open(&args.file)?, options, hist);
        let (report, hist) = observed.map_err(|source| ReadError::new(&args.file, source))?;
        let written = hist.finish();
        check(args, &report)?;
        return Ok((report, written));
    }
    if args.page.to_stdout() {
        return page::to_stdout(open_watched(&args.file)?, options(args), args, out, err);
    }
    let mut report = analyse(args, err)?;
    check(args, &report)?;
    if !args.json && !args.csv {
        measure_more(args, args.parts(), &mut report)?;
    }
    let written = if args.json {
        Ok(())
    } else if args.csv {
        write_csv(&shown(args, &report), out)
    } else {
        write_text(args, &shown(args, &report), look, out)
    };
    Ok((report, written))
}

/// The report with its threads grouped as `args` request. Gates are evaluated for threads.
fn shown<'r>(args: &ReportArgs, report: &'r Report) -> Cow<'r, Report> {
    match args.by.group() {
        // Processes have a separate table.
        None | Some(GroupBy::Process) => Cow::Borrowed(report),
        Some(by) => {
            let mut grouped = report.clone();
            grouped.group_by(by);
            Cow::Owned(grouped)
        }
    }
}

fn has_spans(report: &Report) -> bool {
    report.spans.as_ref().is_some_and(|spans| !spans.rows.is_empty())
}

fn tells_locks(report: &Report) -> bool {
    report.causes.has(Cause::Futex) || report.causes.has(Cause::KernelLock)
}

/// Measures the spans, counters and lock waits that are requested and recorded, if the trace can be read again.
fn measure_more(args: &ReportArgs, parts: &[Part], report: &mut Report) -> Result<(), ReportError> {
    let [spans, counters, locks] = Part::MEASURED.map(|part| parts.contains(&part));
    // The worst incident may be a span.
    let spans = spans || parts.contains(&Part::Worst) && report.has_app_spans;
    if counters && report.has_counters && args.file.is_file() {
        let selection = options(args).selection;
        let read = |source| ReadError::new(&args.file, source);
        let reader = trace_file::read(&args.file).map_err(read)?;
        report.counters = Some(counters::measure(reader, &selection, report).map_err(read)?);
    }
    if locks && tells_locks(report) && args.file.is_file() {
        let selection = options(args).selection;
        let read = |source| ReadError::new(&args.file, source);
        let reader = trace_file::read(&args.file).map_err(read)?;
        report.locks = Some(locks::measure(reader, &selection, report).map_err(read)?);
    }
    if parts.contains(&Part::Incidents) && report.incidents.is_none() {
        report.incidents = incidents(args, report)?;
    }
    if spans && report.may_have_spans && args.file.is_file() {
        let open = || watched(&args.file);
        let measured = measure(open, &options(args).selection, report, Room::OF_COMMANDS);
        report.spans = Some(measured.map_err(|source| ReadError::new(&args.file, source))?);
    }
    Ok(())
}

/// The number of incidents in a report.
const INCIDENTS: usize = 5;

/// The incidents of a trace that can be read again, unless `args` select threads or CPUs.
fn incidents(args: &ReportArgs, report: &Report) -> Result<Option<Vec<Incident>>, ReportError> {
    let chooses = !chosen(args).is_empty() || !args.cpus.is_empty();
    if chooses || report.cpus.is_empty() || !args.file.is_file() {
        return Ok(None);
    }
    let (from, to) = trace_file::resolve(&args.file, args.from, args.to)?;
    let query = Query {
        pick: Pick::Incidents(INCIDENTS),
        from: from.map(|time| time.0),
        to: to.map(|time| time.0),
        recorder: args.gates.include_recorder,
        ..Query::default()
    };
    let syscall = |machine: &str, number| call_name(machine, u16::try_from(number).ok()?);
    let explanations = match why::explain(&query, || watched(&args.file), syscall) {
        Ok(answer) => answer.explanations,
        Err(WhyError::Read(source)) => return Err(ReadError::new(&args.file, source).into()),
        // There is nothing to explain.
        Err(_) => Vec::new(),
    };
    let unusual = explanations.into_iter().filter(|why| why.is_unusual != Some(false));
    let incident = |why: Explanation| {
        let Who { koid, tid, comm, .. } = why.thread;
        Incident {
            thread: ThreadInfo {
                koid: Koid(koid),
                tid,
                pid: None,
                comm: comm.into(),
                cgroup: None,
                host: None,
            },
            span: Span { begin: Nanos(why.from_ns), end: Nanos(why.to_ns) },
            sentence: why.sentence,
        }
    };
    Ok(Some(unusual.map(incident).collect()))
}

/// The report of the trace that `args` name, with their filters; also writes the page, if requested.
///
/// # Errors
/// Returns an error when the trace cannot be read, or the page cannot be written.
pub fn analyse(args: &ReportArgs, err: &mut dyn Write) -> Result<Report, ReportError> {
    let reader = open_watched(&args.file)?;
    match &args.page.html {
        Some(html) => page::analyse(reader, options(args), args, html, err),
        None => {
            let report = report::analyse(reader, options(args));
            Ok(report.map_err(|source| ReadError::new(&args.file, source))?)
        }
    }
}

fn check(args: &ReportArgs, report: &Report) -> Result<(), ReportError> {
    if report.cpus.iter().all(|cpu| cpu.switches == 0) {
        refuse_outside(&args.file, args.from, args.to)?;
    }
    if report.cpus.is_empty() {
        // Spans and counters of programs need no scheduler records.
        let file = args.file.clone();
        return match needs_switches(args) {
            _ if !(report.has_spans || report.has_counters) => Err(ReportError::Empty(file)),
            Some(option) => Err(ReportError::NoScheduling { file, option }),
            None => Ok(()),
        };
    }
    let chosen = chosen(args);
    if chosen.is_empty() || !report.threads().is_empty() {
        return Ok(());
    }
    Err(ReportError::NoThread { chosen: chosen.join(" "), near: near(args) })
}

/// The option that cannot work without scheduling records.
fn needs_switches(args: &ReportArgs) -> Option<&'static str> {
    let options = [
        (args.timehist, "--timehist"),
        (args.page.html.is_some(), "--html"),
        (args.from.is_some(), "--from"),
        (args.to.is_some(), "--to"),
    ];
    options.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
}

/// The options that select threads, as given.
fn chosen(args: &ReportArgs) -> Vec<String> {
    let comms = args.comms.iter().map(|comm| format!("--comm '{comm}'"));
    let pids = args.pids.iter().map(|pid| format!("--pid {pid}"));
    let tids = args.tids.iter().map(|tid| format!("--tid {tid}"));
    let cgroups = args.cgroups.iter().map(|cgroup| format!("--cgroup '{cgroup}'"));
    comms.chain(pids).chain(tids).chain(cgroups).collect()
}

/// Hints for names that match no thread but resemble existing ones.
fn near(args: &ReportArgs) -> String {
    let by_name = !args.comms.is_empty() || !args.cgroups.is_empty();
    let all = match args.file.is_file() && by_name {
        true => open(&args.file).ok().and_then(|it| report::analyse(it, Options::default()).ok()),
        false => None,
    };
    let Some(all) = all else { return "`fxtrec report` without it lists the threads".to_owned() };
    let names: Vec<&str> = all.threads().iter().map(|thread| &*thread.comm).collect();
    let near = args.comms.iter().flat_map(|comm| nearest(comm.as_str(), names.iter().copied(), 3));
    let mut cgroups: Vec<&str> =
        all.threads().iter().filter_map(|thread| thread.cgroup.as_deref()).collect();
    if cgroups.is_empty() && !args.cgroups.is_empty() {
        return "the trace does not record cgroups".to_owned();
    }
    cgroups.sort_unstable();
    cgroups.dedup();
    let wanted = args.cgroups.iter();
    let near_cgroups = wanted.flat_map(|path| nearest(path.as_str(), cgroups.iter().copied(), 3));
    let near = near.chain(near_cgroups);
    let near: Vec<String> = near.map(|name| format!("'{name}'")).collect();
    match near.is_empty() {
        true => format!(
            "the trace has {}, none with a similar name",
            counted(names.len() as u64, "thread", "threads")
        ),
        false => format!("did you mean {}?", near.join(", ")),
    }
}

fn options(args: &ReportArgs) -> Options {
    let threads = ThreadFilter {
        comms: args.comms.clone(),
        pids: args.pids.clone(),
        tids: args.tids.clone(),
        cgroups: args.cgroups.clone(),
    };
    // Times of day have been resolved.
    let moment = |point: Option<TimePoint>| point.and_then(TimePoint::moment);
    let selection = Selection {
        threads,
        cpus: args.cpus.iter().copied().map(Cpu).collect(),
        range: TimeRange { from: moment(args.from), to: moment(args.to) },
        recorder: args.gates.include_recorder,
    };
    Options { selection, worst: args.worst.unwrap_or(analysis::DEFAULT_WORST) }
}

/// Number of rows in a table, and in a table on a screen; the last rows are dropped to make space for span names.
const ROWS: usize = 25;
const SCREEN_ROWS: usize = 5;
const SCREEN_SPANS: usize = 2;
const SCREEN_LOCKS: usize = 3;
const SCREEN_COUNTERS: usize = 3;

/// Number of longest waits and blocked times on a screen, one less with spans, and how many antagonists each lists.
const SCREEN_WORST: usize = 2;
const SCREEN_NAMED: usize = 3;

/// Limits for a report of one or of many traces: rows of a table, longest waits, and antagonists of each.
#[derive(Clone, Copy)]
struct Common<'a> {
    args: &'a ReportArgs,
    report: &'a Report,
    rows: Option<usize>,
    worst: usize,
    named: usize,
    look: Look,
}

impl Common<'_> {
    fn style(self) -> TableStyle {
        let ReportArgs { metric, sort, .. } = *self.args;
        TableStyle { metric, sort, rows: self.rows, look: self.look }
    }

    /// Prints this part of the report. Returns false if there is nothing to print.
    fn write(self, part: Part, out: &mut dyn Write) -> io::Result<bool> {
        let Common { args, report, worst, named, look, .. } = self;
        match part {
            Part::Metrics => text::write_metrics(report, look, out)?,
            Part::Threads => text::write_threads(report, self.style(), out)?,
            Part::Histogram => {
                let of = report.total().metric(args.metric);
                text::write_histogram(args.metric.title(), of, out)?;
            }
            Part::Worst => text::write_worst(report, worst, named, look, out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn write_text(
    args: &ReportArgs,
    report: &Report,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let screen = args.is_screen();
    let has_spans = has_spans(report);
    let by_default = match (screen, has_spans) {
        (false, _) => ROWS,
        // Spans take the space of their rows, and of a line for the worst of them.
        (true, true) => SCREEN_ROWS - SCREEN_SPANS - 1,
        (true, false) => SCREEN_ROWS,
    };
    let rows = args.most_rows(by_default);
    let (span_rows, worst, named) = match screen {
        true => (args.most_rows(SCREEN_SPANS), SCREEN_WORST - usize::from(has_spans), SCREEN_NAMED),
        false => (rows, analysis::DEFAULT_WORST, usize::MAX),
    };
    let worst = args.worst.unwrap_or(worst);
    let lock_rows = args.most_rows(if screen { SCREEN_LOCKS } else { ROWS });
    let common = Common { args, report, rows, worst, named, look };
    let only_reported = report.cpus.is_empty();
    if only_reported {
        writeln!(
            out,
            "no scheduling records in the trace; only spans and counters of programs follow\n"
        )?;
    }
    let has = |part: &&Part| !only_reported || matches!(part, Part::Spans | Part::Counters);
    for part in args.parts().iter().filter(has) {
        match part {
            Part::Threads if args.by == By::Process => {
                text::write_processes(report, common.style(), out)?;
            }
            Part::Incidents => write_incidents(report, look, out)?,
            Part::Head => text::write_head(report, look, out)?,
            Part::Figures => text::write_figures(report, out)?,
            Part::Metrics | Part::Threads | Part::Histogram | Part::Worst => {
                common.write(*part, out)?;
            }
            Part::Spans => match &report.spans {
                Some(spans) => text::write_spans(spans, (span_rows, !screen), look, out)?,
                None if report.may_have_spans && !args.file.is_file() => {
                    writeln!(out, "Spans are left out: the trace cannot be read again.\n")?;
                }
                None => {}
            },
            Part::Counters => {
                if let Some(counters) = &report.counters {
                    let rows = args.most_rows(if screen { SCREEN_COUNTERS } else { ROWS });
                    text::write_counters(counters, rows, look, out)?;
                }
            }
            Part::Cpus => text::write_cpus(report, look, out)?,
            Part::Causes => text::write_causes(report, rows, look, out)?,
            Part::Blocked => text::write_blocked(report, worst, look, out)?,
            Part::Locks => match &report.locks {
                Some(locks) => text::write_locks(locks, lock_rows, look, out)?,
                // If this is the only part requested, the output says why it is missing.
                None if args.show.contains(&Part::Locks) => match tells_locks(report) {
                    true => writeln!(out, "Locks are left out: the trace cannot be read again.\n")?,
                    false => writeln!(out, "Locks are not recorded: record with --locks.\n")?,
                },
                None => {}
            },
        }
    }
    if screen && !only_reported {
        let note = "--all prints everything; fxtrec why explains the worst delay.";
        writeln!(out, "{}", look.note(note))?;
    }
    Ok(())
}

fn write_incidents(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let Some(incidents) = &report.incidents else { return Ok(()) };
    if incidents.is_empty() {
        return writeln!(out, "No incidents: nothing unusual.\n");
    }
    writeln!(out, "{}", look.heading("Incidents:"))?;
    let lines = incidents.iter().map(|it| (it.span.begin.to_string(), it.sentence.as_str()));
    why::write_sentences(lines, out)?;
    writeln!(out)
}

#[cfg(test)]
mod tests;
