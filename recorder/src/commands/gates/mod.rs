//! Gates, from the command line to the verdicts: on standard error or standard output, in a JUnit file, and on the summary page of a CI
//! system.
//!
//! [`Gates::prepare`] rejects as much as possible before anything is recorded.

mod file;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use fxt_reader::Reader;

use crate::cli::{EXIT_DISTURBED, EXIT_GATE_FAILED, GateArgs};
use crate::commands::report::recorded::read_again;
use crate::report::gates::evaluate::{OnDisturbed, Policy, Verdict, judge_all};
use crate::report::gates::recorded::{Recorded, cpu_groups};
use crate::report::gates::show::{Text, markdown, write_junit};
use crate::report::spans::{Room, measure};
use crate::report::stacks::blocked;
use crate::report::{Options, Report, Selection, analyse};
use crate::sink::outfile::Hold;
use crate::sink::{Output, Target};
use file::{Awaiting, Summary};
use fxtrec_gates::{Condition, Gate, Quantity, SpanPart, Stat};

/// The variable with the file from which GitHub generates its summary page. Gitea and Forgejo set it, too.
const SUMMARY_VARIABLE: &str = "GITHUB_STEP_SUMMARY";

/// The reason why there is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatesError {
    /// The JUnit file cannot be written.
    #[error("--junit {}: {source}", path.display())]
    Junit { path: PathBuf, source: io::Error },
    /// The recording is written to a device, which cannot be read back.
    #[error("--fail-if needs a trace file, and {} keeps none: name a file with -o", .0.display())]
    Device(PathBuf),
    /// A condition on CPUs, or spans, and a trace that can be read only once.
    #[error(
        "{0:?} needs a second pass over the trace, and a pipe can be read only once: name a file"
    )]
    Once(String),
    /// A gate that is only meaningful for one trace.
    #[error(
        "{0:?} uses spans, CPUs, ids or stacks, which need a single trace: check the traces one by one"
    )]
    OfMany(String),
    /// `--on-disturbed` without a gate that can be disturbed.
    #[error(
        "--on-disturbed: {0:?} cannot be disturbed: only the length of a span can; gate on span(NAME), or omit --on-disturbed"
    )]
    NeverDisturbed(String),
    /// There is no report of the recording to evaluate the gates on.
    #[error("no verdict: the analysis of the recording is incomplete")]
    NoReport,
    /// The trace cannot be read.
    #[error("cannot evaluate the gates: {0}")]
    Read(#[from] fxt_reader::Error),
    /// The verdicts cannot be printed.
    #[error("cannot write the verdicts: {0}")]
    Write(#[source] io::Error),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    pub colour: bool,
    /// Whether to omit gates that passed.
    pub failures_only: bool,
}

/// The overall result of all gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// No gate failed, and at least one was disturbed.
    Disturbed,
    Failed,
}

impl Outcome {
    fn of(verdicts: &[Verdict<'_>]) -> Outcome {
        match () {
            () if verdicts.iter().any(|verdict| verdict.failed) => Outcome::Failed,
            () if verdicts.iter().any(|verdict| verdict.undecided) => Outcome::Disturbed,
            () => Outcome::Passed,
        }
    }

    /// The status to exit with.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Passed => 0,
            Outcome::Disturbed => EXIT_DISTURBED,
            Outcome::Failed => EXIT_GATE_FAILED,
        }
    }
}

/// Gates for a recording that has not ended.
#[derive(Debug)]
pub struct Gates {
    gates: Vec<Gate>,
    policy: Policy,
    /// Whether the recorder's own threads count.
    recorder: bool,
    /// Memory for spans.
    room: Room,
    junit: Option<Awaiting>,
    summary: Option<Summary>,
}

impl Gates {
    /// Prepares the gates of the arguments; `None` if there are none. `others` are files that the command also reads or writes.
    ///
    /// # Errors
    /// Returns an error if the JUnit file cannot be created, or is one of `others`.
    pub fn prepare(args: &GateArgs, others: &[&Path]) -> Result<Option<Gates>, GatesError> {
        Gates::prepare_with(args, others, std::env::var_os(SUMMARY_VARIABLE))
    }

    /// The same as [`prepare`](Self::prepare), for a recording that will be written to `output`.
    ///
    /// # Errors
    /// Returns an error when the JUnit file cannot be created, when the output is a device, or when it is a pipe and a gate must read the
    /// trace again.
    pub fn prepare_for(args: &GateArgs, output: &Output) -> Result<Option<Gates>, GatesError> {
        let target = &output.target;
        let (path, others) = match target {
            Target::Stdout => (Path::new("/proc/self/fd/1"), None),
            Target::Path(path) => (path.as_path(), Some(path.as_path())),
        };
        // If the name is the default, an existing file is renamed.
        let there = output.named.then(|| fs::metadata(path).ok()).flatten();
        let kind = there.map(|there| there.file_type());
        if !args.fail_if.is_empty() && kind.as_ref().is_some_and(FileTypeExt::is_char_device) {
            return Err(GatesError::Device(path.to_owned()));
        }
        let is_file = matches!(target, Target::Path(_)) && kind.is_none_or(|kind| kind.is_file());
        if !is_file && let Some(gate) = reading_again(args) {
            return Err(GatesError::Once(gate.to_string()));
        }
        Gates::prepare(args, others.as_slice())
    }

    fn prepare_with(
        args: &GateArgs,
        others: &[&Path],
        summary: Option<OsString>,
    ) -> Result<Option<Gates>, GatesError> {
        if args.fail_if.is_empty() {
            return Ok(None);
        }
        if args.on_disturbed.0 != OnDisturbed::Fail
            && !args.fail_if.iter().any(can_be_disturbed)
            && let Some(gate) = args.fail_if.first()
        {
            return Err(GatesError::NeverDisturbed(gate.to_string()));
        }
        let create = |path: &PathBuf| {
            Awaiting::new(path, others)
                .map_err(|error| GatesError::Junit { path: path.clone(), source: error.into() })
        };
        Ok(Some(Gates {
            gates: args.fail_if.clone(),
            policy: Policy { on_too_few: args.on_too_few.0, on_disturbed: args.on_disturbed.0 },
            recorder: args.include_recorder,
            room: Room::OF_COMMANDS,
            junit: args.junit.as_ref().map(create).transpose()?,
            summary: summary.filter(|path| !path.is_empty()).map(Summary::new),
        }))
    }

    /// Evaluates the gates for a recording that has just been written, as [`Gates::judge`] does. A file is read again
    /// through its `hold`, never by its name.
    ///
    /// # Errors
    /// Returns an error when there is no report, the recording cannot be read again, or the verdicts cannot be written.
    pub fn judge_recording(
        self,
        (path, hold): (&Path, Option<&Hold>),
        report: Option<&Report>,
        style: Style,
        out: &mut dyn Write,
    ) -> Result<Outcome, GatesError> {
        let report = report.ok_or(GatesError::NoReport)?;
        let open = || match hold {
            Some(hold) => read_again(path, hold),
            // Without an output file, no gate needs this.
            None => Err(fxt_reader::Error::Open {
                path: path.to_owned(),
                source: io::ErrorKind::NotSeekable.into(),
            }),
        };
        let selection = Selection { recorder: self.recorder, ..Selection::default() };
        let gates = Gates { room: Room::OF_RECORDER, ..self };
        gates.judge(path, (report, &selection), style, open, |_| Ok(()), out)
    }

    /// Evaluates the gates for the report of the selected time, prints the verdicts to `out`, and returns the overall result.
    ///
    /// `about` names the recording. `open` opens the trace again, for spans and for conditions that name CPUs. `show` gets the verdicts
    /// before they are printed.
    ///
    /// # Errors
    /// Returns an error when the trace cannot be read again, or the verdicts cannot be written.
    pub fn judge<'r>(
        self,
        about: &Path,
        (report, selection): (&Report, &Selection),
        style: Style,
        open: impl FnMut() -> Result<Reader<'r>, fxt_reader::Error>,
        show: impl FnOnce(&[Verdict<'_>]) -> io::Result<()>,
        out: &mut dyn Write,
    ) -> Result<Outcome, GatesError> {
        let recorded = recorded(report, (&self.gates, self.room), selection, open)?;
        let verdicts = judge_all(&self.gates, &recorded, self.policy);
        show(&verdicts).map_err(GatesError::Write)?;
        let Style { colour, failures_only } = style;
        let text = Text { verdicts: &verdicts, colour, failures_only };
        write!(out, "{text}").map_err(GatesError::Write)?;
        let is_never = |verdict: &&Verdict<'_>| verdict.failed && !can_be_disturbed(verdict.gate);
        if self.policy.on_disturbed != OnDisturbed::Fail
            && let Some(verdict) = verdicts.iter().find(is_never)
        {
            let gate = verdict.gate;
            let why = "only the length of a span can be disturbed (docs/reference/gates.md)";
            writeln!(out, "fxtrec: --on-disturbed does not excuse {gate}: {why}")
                .map_err(GatesError::Write)?;
        }
        let about = about.display().to_string();
        if let Some(junit) = self.junit {
            let path = junit.path().to_owned();
            let written = junit.fill(|out| write_junit(&verdicts, &about, out));
            written.map_err(|source| GatesError::Junit { path, source })?;
        }
        if let Some(summary) = self.summary {
            let page = markdown(&verdicts, &about);
            let path = summary.path().to_owned();
            if let Err(error) = summary.append(page.as_bytes()) {
                // The verdict is known, and this file was not requested on the command line, so only warn.
                let path = path.display();
                writeln!(
                    out,
                    "fxtrec: cannot write the summary to {SUMMARY_VARIABLE} ({path}): {error}"
                )
                .map_err(GatesError::Write)?;
            }
        }
        Ok(Outcome::of(&verdicts))
    }
}

/// Whether other processes alone can make the gate fail; this is the case for gates on the length of spans.
fn can_be_disturbed(gate: &Gate) -> bool {
    matches!(&gate.quantity, Quantity::Span(span, stat) if span.part == SpanPart::Wall && *stat != Stat::Count)
}

/// Rejects gates on spans, and gates whose conditions name CPUs, processes or threads, for several traces together.
///
/// # Errors
/// Returns an error if there are such gates.
pub fn refuse_of_many(args: &GateArgs) -> Result<(), GatesError> {
    let is_of_one = |gate: &&Gate| {
        let names_one =
            |it: &Condition| !it.cpus().is_empty() || it.names_ids() || it.names_stack();
        matches!(gate.quantity, Quantity::Span(..))
            || gate.condition.as_ref().is_some_and(names_one)
    };
    match args.fail_if.iter().find(is_of_one) {
        Some(gate) => Err(GatesError::OfMany(gate.to_string())),
        None => Ok(()),
    }
}

/// The first gate that needs the trace to be read again: a gate on spans, or a gate whose condition names CPUs or stacks.
pub fn reading_again(args: &GateArgs) -> Option<&Gate> {
    let reads_again = |gate: &&Gate| {
        matches!(gate.quantity, Quantity::Span(..))
            || gate.condition.as_ref().is_some_and(|it| !it.cpus().is_empty() || it.names_stack())
    };
    args.fail_if.iter().find(reads_again)
}

fn recorded<'r, 't>(
    report: &'r Report,
    (gates, room): (&[Gate], Room),
    selection: &Selection,
    mut open: impl FnMut() -> Result<Reader<'t>, fxt_reader::Error>,
) -> Result<Recorded<'r>, fxt_reader::Error> {
    let conditions = gates.iter().filter_map(|gate| gate.condition.as_ref());
    let mut recorded = Recorded::new(report);
    for group in cpu_groups(report, conditions) {
        let selection = Selection { cpus: group.clone(), ..selection.clone() };
        recorded.add(&group, analyse(open()?, Options { selection, ..Options::default() })?);
    }
    if gates.iter().any(|gate| matches!(gate.quantity, Quantity::Span(..))) {
        recorded.add_spans(match &report.spans {
            Some(measured) => measured.clone(),
            None => measure(&mut open, selection, report, room)?,
        });
    }
    let names_stack = |gate: &Gate| gate.condition.as_ref().is_some_and(Condition::names_stack);
    if gates.iter().any(names_stack) {
        let options = Options { selection: selection.clone(), ..Options::default() };
        // Gates on stacks of a trace without stacks do not need it.
        if let Some((_, blocked)) = blocked(open, options)? {
            recorded.add_blocked(blocked);
        }
    }
    Ok(recorded)
}

#[cfg(test)]
mod tests;
