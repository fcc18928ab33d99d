//! The command line: clap's types and their help. This module executes no command.
//!
//! These types check only what can be checked in the text itself. The meaning of an argument on this machine (who `@sudo` is, whether
//! stdout is a terminal) is determined by the command that uses it; for recording, in [`crate::commands::plan`].
//!
//! `fxtrec COMMAND` and `fxtrec record COMMAND` are the same. A first word that names a subcommand is that subcommand; after `--`, after an
//! option, or with a slash in it, it is a program:
//!
//! ```text
//! fxtrec doctor            the subcommand
//! fxtrec -- doctor         a program called doctor, found by PATH
//! fxtrec ./doctor          a program in this directory
//! fxtrec -o t.fxt doctor   a program called doctor
//! ```

mod compare;
mod completions;
mod convert;
mod ctl;
mod cut;
mod daemon;
mod demo;
mod display;
mod doctor;
mod dump;
mod export;
mod flame;
mod flight;
mod gates;
mod merge;
mod open;
mod page;
mod probes;
mod providers;
mod query;
mod record;
mod report;
mod source;
mod span;
mod stacks;
mod symbolize;
mod top;
mod trace_points;
mod values;
mod watch;
mod why;

use std::ffi::OsString;

use clap::builder::Styles;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use compare::{CompareArgs, NoPercent, Percent};
pub use completions::{CompletionsArgs, Shell};
pub use convert::{ConvertArgs, SchedShape};
pub use ctl::{
    CtlArgs, CtlCommon, CtlSnapshotArgs, CtlStartArgs, CtlStopArgs, CtlVerb, Disposition,
    ProviderOverride,
};
pub use cut::CutArgs;
pub use daemon::DaemonArgs;
pub use demo::DemoArgs;
pub use display::{ColorWhen, DisplayArgs};
pub use doctor::DoctorArgs;
pub use dump::{DumpArgs, Kinds};
pub use export::{ExportArgs, Label, NoLabel};
pub use flame::FlameArgs;
pub use flight::{FlightArgs, HookCommand, HookCommandError, Rotate, RotateError};
pub use gates::{EXIT_DISTURBED, EXIT_GATE_FAILED, GateArgs, OnDisturbed};
pub use merge::{MergeArgs, Offset};
pub use open::OpenArgs;
pub use page::PageArgs;
pub use probes::ProbesArgs;
pub use providers::ProviderArgs;
pub use query::QueryArgs;
pub use record::{Mode, Progress, RecordArgs, Scope, Weights};
pub use report::{By, Part, ReportArgs};
pub use source::{SourceArgs, SourceChoice};
pub use span::SpanArgs;
pub use stacks::{StackArgs, StackKind, Unwind};
pub use symbolize::SymbolizeArgs;
pub use top::{TopArgs, TopBy, TopSort};
pub use trace_points::{EventSpec, EventSpecError, TracePointArgs};
pub use values::{TimePoint, UserSpec};
pub use watch::WatchArgs;
pub use why::{WhyArgs, WhyMetric};

/// The exit status when fxtrec itself fails, not COMMAND.
pub const EXIT_FAILURE: u8 = 125;

/// First words that are reserved for fxtrec even if this version has no such subcommand, so that a later version does not change the
/// meaning of a command line.
const RESERVED: [&str; 23] = [
    "watch",
    "span",
    "record",
    "doctor",
    "dump",
    "probes",
    "report",
    "compare",
    "convert",
    "open",
    "merge",
    "cut",
    "daemon",
    "ctl",
    "demo",
    "why",
    "flame",
    "symbolize",
    "export",
    "query",
    "top",
    "completions",
    "help",
];

const EXAMPLES: &str = "\
Examples:
  sudo fxtrec -- ./app               record while a command runs, to app.fxt
  sudo fxtrec -u @sudo -- ./app      the same, and run ./app as yourself
  sudo fxtrec -a -d 10s              record the whole machine for ten seconds
  sudo fxtrec -p 1234 -o app.fxt.zst record a process until Ctrl-C, compressed
  sudo fxtrec --fail-if 'wakeup.p99 > 2ms' -- ./run-tests
                                     fail a CI build when latency is too high
  fxtrec report app.fxt              print who waited, for how long, for whom
  fxtrec why app.fxt                 explain the worst delay and its cause
  fxtrec open app.fxt                open the trace in the Perfetto UI
  fxtrec doctor                      show what this machine allows
  sudo fxtrec demo                   see what a late thread looks like

Open the trace at https://ui.perfetto.dev (the file stays on this machine).

Exit status: that of COMMAND (128+n when signal n ended it); 3 when COMMAND succeeded and a gate failed, 4 when a gate was undecided; 125 when fxtrec itself failed, 126 when COMMAND could not be run, 127 when it was \
not found. Subcommands that run no COMMAND exit with 2 when their arguments are wrong.";

/// The output of `fxtrec -h`, and of `fxtrec` without arguments: one screen with the most common options.
const SCREEN: &str = "\
Shows why a Linux thread was late: records the scheduler, explains delays

Usage: fxtrec [OPTIONS] [--] COMMAND [ARGS...]   record while COMMAND runs
       fxtrec [OPTIONS] -a [-d TIME]             record the whole machine
       fxtrec SUBCOMMAND ...

  -a, --all              record the whole machine, until -d or Ctrl-C
  -d, --duration <TIME>  stop after this long, for example 10s or 250ms
  -p, --pid <PID,..>     record running processes
      --cgroup <GLOB>    record the processes of matching cgroups
  -o, --output <FILE>    output file; the extensions .zst and .gz compress
  -u, --user <USER>      run COMMAND as this user; @sudo: who called sudo
      --stacks           record where in the code threads block
      --locks            record which lock a thread waits for, and its owner
      --fail-if <EXPR>   exit with status 3 if this is true: 'wakeup.p99 > 2ms'
      --trigger <EXPR>   with --mode circular: write a file when this happens

  fxtrec why FILE        explain the worst delay
  fxtrec report FILE     print who waited, for how long, and for whom
  fxtrec open FILE       open the trace in the Perfetto UI
  fxtrec doctor          show what this machine allows, and what to change

`fxtrec --help` lists all options, `fxtrec help why` those of a subcommand
";

/// A command line of fxtrec.
#[derive(Debug, Parser)]
#[command(
    name = "fxtrec",
    version,
    about = "Shows why a Linux thread was late: records the scheduler, reports latencies",
    long_about = "fxtrec shows why a Linux thread was late. It records every context switch and \
                  wakeup of the machine straight into the Fuchsia trace format (FXT), and reports \
                  which threads waited for a CPU, for how long, and what ran instead. The trace \
                  opens in the Perfetto UI.",
    after_help = EXAMPLES,
    override_usage = "fxtrec [OPTIONS] [--] COMMAND [ARGS...]\n       \
                      fxtrec [OPTIONS] -a [-d TIME]\n       \
                      fxtrec SUBCOMMAND ...",
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    subcommand_value_name = "SUBCOMMAND",
    subcommand_help_heading = "Subcommands"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    display: DisplayArgs,
}

/// The action of fxtrec.
#[derive(Debug, Subcommand)]
#[allow(
    clippy::large_enum_variant,
    reason = "a process has one of it; it depends on how large the second largest is"
)]
pub enum Command {
    /// Record the scheduler (the default; the word `record` may be left out)
    #[command(
        override_usage = "fxtrec record [OPTIONS] [--] COMMAND [ARGS...]\n       \
                          fxtrec record [OPTIONS] -a [-d TIME]",
        after_help = EXAMPLES,
        arg_required_else_help = true
    )]
    Record(RecordArgs),
    /// Show what this machine allows, and what to change
    Doctor(DoctorArgs),
    /// Print a trace, count its records, or check it
    #[command(arg_required_else_help = true)]
    Dump(DumpArgs),
    /// Compare repeated runs before and after a change
    #[command(arg_required_else_help = true)]
    Compare(CompareArgs),
    /// List the functions and USDT probes of a program or library
    #[command(arg_required_else_help = true)]
    Probes(ProbesArgs),
    /// Report who waited, for how long, and for whom
    #[command(arg_required_else_help = true)]
    Report(ReportArgs),
    /// Explain why a thread was late: the cause in a sentence, the parts, the chain of threads
    #[command(arg_required_else_help = true)]
    Why(WhyArgs),
    /// Convert a trace to FXT or to Chrome's JSON
    #[command(arg_required_else_help = true)]
    Convert(ConvertArgs),
    /// Export traces as Parquet tables, for SQL
    #[command(arg_required_else_help = true)]
    Export(ExportArgs),
    /// Query traces or exported tables with SQL, using an installed DuckDB
    #[command(arg_required_else_help = true)]
    Query(QueryArgs),
    /// Merge several traces into one
    #[command(arg_required_else_help = true)]
    Merge(MergeArgs),
    /// Cut a time window out of a trace
    #[command(arg_required_else_help = true)]
    Cut(CutArgs),
    /// Print how long threads were blocked, by stack, as folded text for flame graphs
    #[command(arg_required_else_help = true)]
    Flame(FlameArgs),
    /// Name the functions in a trace's stacks, using files with the recorded build ids
    #[command(arg_required_else_help = true)]
    Symbolize(SymbolizeArgs),
    /// Show live which threads or cgroups wait for a CPU, without recording
    Top(TopArgs),
    /// Watch for incidents, and explain each in one line
    Watch(WatchArgs),
    /// Run a command of a script, and record it as a span
    #[command(arg_required_else_help = true)]
    Span(SpanArgs),
    /// Open a trace in the Perfetto UI
    #[command(arg_required_else_help = true)]
    Open(OpenArgs),
    /// Record five seconds in which a thread is late for a known reason, and open the page
    Demo(DemoArgs),
    /// Print a completion script for bash, zsh or fish
    #[command(arg_required_else_help = true)]
    Completions(CompletionsArgs),
    /// Serve recording sessions to other users, on a socket
    Daemon(DaemonArgs),
    /// Start, stop and watch the daemon's sessions
    #[command(arg_required_else_help = true)]
    Ctl(CtlArgs),
}

impl Cli {
    /// Parses a whole command line, including the program's own name, as [`Cli::parse_all`] does, and drops the display options.
    ///
    /// # Errors
    /// See [`Cli::parse_all`].
    pub fn parse_line<I, T>(line: I) -> Result<Command, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString>,
    {
        Ok(Cli::parse_all(line)?.0)
    }

    /// Parses a whole command line, including the program's own name, and returns the action and how to display text.
    ///
    /// # Errors
    /// Returns a [`clap::Error`], which also represents `--help` and `--version`: exit with [`exit_code`]. Text for standard
    /// output is clap's own; print it with the error's `print`. Text for standard error quotes arguments verbatim and has no colours, so
    /// that the caller can escape everything that a terminal would interpret.
    pub fn parse_all<I, T>(line: I) -> Result<(Command, DisplayArgs), clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString>,
    {
        let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
        let parsed = Cli::parse_words(&line)?;
        match &parsed.0 {
            // If the other interpretation is invalid too, this error describes the problem.
            Command::Record(args) => match with_value(&line, &args.command) {
                Some(line) => Ok(Cli::parse_words(&line).unwrap_or(parsed)),
                None => Ok(parsed),
            },
            _ => Ok(parsed),
        }
    }

    fn parse_words(line: &[OsString]) -> Result<(Command, DisplayArgs), clap::Error> {
        refuse_reserved_word(line.get(1))?;
        let found = parser(line).try_get_matches_from(line);
        let cli = found.and_then(|found| Cli::from_arg_matches(&found));
        let cli = cli.map_err(|error| without_colours(error, line))?;
        let mut command = cli.command.unwrap_or(Command::Record(cli.record));
        if let Command::Record(args) = &mut command {
            let before = line.len().checked_sub(args.command.len() + 1).map(|at| &line[at]);
            args.before_command = before.filter(|word| *word != "--").cloned();
        }
        Ok((command, cli.display))
    }
}

/// Whether a word can be the value of an option.
type IsValue = fn(&str) -> bool;

/// Options whose value follows an equals sign, because the next word may be COMMAND, and their possible values.
pub(crate) const OPTIONAL_VALUES: [(&str, IsValue); 2] =
    [("--syscalls", trace_points::names_syscalls), ("--stacks", stacks::names_kinds)];

/// The option before COMMAND, if COMMAND could be meant as its value.
pub(crate) fn takes_as_value(before: &OsString, command: &OsString) -> Option<&'static str> {
    let is_value = |test: IsValue| command.to_str().is_some_and(test);
    let found = OPTIONAL_VALUES.iter().find(|(option, test)| before == option && is_value(*test));
    found.map(|(option, _)| *option)
}

/// The command line with an equals sign between an option and the word that was mistaken for COMMAND, if the next word cannot be a program
/// name: `fxtrec --syscalls write -- ./app`.
fn with_value(line: &[OsString], command: &[OsString]) -> Option<Vec<OsString>> {
    let (value, next) = (command.first()?, command.get(1)?.to_str()?);
    let at = line.len().checked_sub(command.len() + 1)?;
    let option = takes_as_value(line.get(at)?, value)?;
    if !next.starts_with('-') {
        return None;
    }
    let mut joined = OsString::from(option);
    joined.push("=");
    joined.push(value);
    let (before, behind) = (&line[..at], &line[at + 2..]);
    Some(before.iter().chain([&joined]).chain(behind).cloned().collect())
}

/// The names of all subcommands.
pub fn subcommands() -> &'static [&'static str] {
    &RESERVED
}

/// The exit status for invalid arguments of a subcommand that runs no COMMAND, the same as in most programs.
pub const EXIT_USAGE: u8 = 2;

/// Subcommands that run a COMMAND, whose own statuses begin at 0: as with env(1), fxtrec's own failures are 125.
const RUNNERS: [&str; 3] = ["record", "ctl", "span"];

/// The exit status for a command line that did not parse: 0 when help or the version was requested, else [`EXIT_USAGE`] or, if the
/// subcommand runs a COMMAND, [`EXIT_FAILURE`]. `line` is the line that [`Cli::parse_line`] was given.
pub fn exit_code(error: &clap::Error, line: &[OsString]) -> u8 {
    let first = line.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    match error.use_stderr() {
        false => 0,
        true if RESERVED.contains(&first) && !RUNNERS.contains(&first) => EXIT_USAGE,
        true => EXIT_FAILURE,
    }
}

/// The parser for the line.
fn parser(line: &[OsString]) -> clap::Command {
    match line {
        [] | [_] => Cli::command().override_help(SCREEN),
        [_, first, ..] if first == "-h" => Cli::command().override_help(SCREEN),
        _ => Cli::command(),
    }
}

/// The error as a parser without colours prints it, unless the text is clap's own.
fn without_colours(error: clap::Error, line: &[OsString]) -> clap::Error {
    if !error.use_stderr() {
        return error;
    }
    let plain = parser(line).styles(Styles::plain()).try_get_matches_from(line);
    plain.err().unwrap_or(error)
}

fn refuse_reserved_word(first: Option<&OsString>) -> Result<(), clap::Error> {
    let Some(word) = first.and_then(|word| word.to_str()) else { return Ok(()) };
    let mut command = Cli::command().styles(Styles::plain());
    command.build();
    if !RESERVED.contains(&word) || command.find_subcommand(word).is_some() {
        return Ok(());
    }
    let text = format!(
        "'{word}' is reserved for a subcommand that this version does not have; to record a \
         program with that name: fxtrec -- {word}"
    );
    Err(command.error(ErrorKind::InvalidSubcommand, text))
}

#[cfg(test)]
mod tests;
