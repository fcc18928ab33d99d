//! `fxtrec flame`: for how long threads were blocked, by stack, as folded text.
//!
//! The trace is read twice: for its stacks and the names of functions, and for the blocked times, which are those of
//! `fxtrec report`. A stack belongs to the wait of its thread that its time is in.

mod stacks;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use fxt_reader::{Error, Koid};

use crate::cli::FlameArgs;
use crate::commands::trace_file::{ReadError, open};
use crate::report::analysis::{Names, Observer, SwitchedOut, observe};
use crate::report::{Options, Selection, ThreadFilter, TimeRange};
use crate::units::text::count;
use stacks::Stacks;

/// By how much the time of a switch that was seen late may be later than that of its stack, in nanoseconds.
const LATE: u64 = 1_000_000;

/// Why there is nothing to draw.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlameError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Standard input, or a pipe.
    #[error("{}: the trace is read twice: name a file", .0.display())]
    Once(PathBuf),
    /// Nobody recorded stacks.
    #[error("{}: the trace has no stacks: record it with --stacks", .0.display())]
    NoStacks(PathBuf),
    /// The output does not take any more.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Writes the folded stacks of a trace to `out`, and what has no place there to `messages`.
///
/// # Errors
/// When the trace cannot be read twice, has no stacks, or the output fails.
pub fn run(
    args: &FlameArgs,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<(), FlameError> {
    if !args.file.is_file() {
        return Err(FlameError::Once(args.file.clone()));
    }
    let failed = |source: Error| ReadError::new(&args.file, source);
    let stacks = Stacks::read(&mut open(&args.file)?).map_err(failed)?;
    let Some(over) = stacks.over else { return Err(FlameError::NoStacks(args.file.clone())) };
    let threads =
        ThreadFilter { comms: args.comms.clone(), pids: args.pids.clone(), tids: Vec::new() };
    let range = TimeRange { from: None, to: None };
    let selection = Selection { threads, cpus: Vec::new(), range };
    let options = Options { selection, worst: 0 };
    let waits = Waits { over, of: HashMap::default() };
    let (report, waits) = observe(open(&args.file)?, options, waits).map_err(failed)?;
    let shown: HashSet<Koid> = report.threads().iter().filter_map(|thread| thread.koid).collect();
    let folded = fold(&stacks, waits, |koid| shown.contains(&koid));
    let mut out = BufWriter::new(out);
    let written = folded
        .lines
        .iter()
        .try_for_each(|(line, nanos)| writeln!(out, "{line} {nanos}"))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        written => written?,
    }
    if folded.unmatched > 0 {
        let number = count(folded.unmatched);
        // When standard error is gone there is nobody to tell.
        let _ = writeln!(messages, "fxtrec: {number} stacks left out: their wait is censored");
    }
    Ok(())
}

/// A time in which a thread was blocked.
#[derive(Clone, Copy, Debug)]
struct Wait {
    begin: u64,
    /// Until it was woken.
    blocked: u64,
    /// Until it had a CPU.
    away: u64,
    /// Whether a stack has been found for it.
    has_stack: bool,
}

/// The long waits of each thread, in order of time, and what it is called.
#[derive(Debug)]
struct Waits {
    over: u64,
    of: HashMap<Koid, (String, Vec<Wait>)>,
}

impl Observer for Waits {
    fn switched_out(&mut self, out: &SwitchedOut<'_>, names: Names<'_>) {
        let (Some(blocked), Some(latency), Some(ran)) = (out.blocked, out.latency, out.ran) else {
            return;
        };
        // The time in which a quota held it back is no part of the latency.
        let away = blocked + latency + out.throttled;
        if away < self.over {
            return;
        }
        let begin = out.time.0.saturating_sub(ran + away);
        let known = self.of.entry(out.koid).or_default();
        if known.0.is_empty() {
            known.0 = names.of(out.koid).0.unwrap_or_default().to_owned();
        }
        known.1.push(Wait { begin, blocked, away, has_stack: false });
    }
}

/// The lines of the output, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Folded {
    lines: BTreeMap<String, u64>,
    /// Stacks of waits whose length is not known.
    unmatched: u64,
}

fn fold(stacks: &Stacks, mut waits: Waits, shown: impl Fn(Koid) -> bool) -> Folded {
    let mut folded = Folded::default();
    for stack in &stacks.all {
        if !shown(stack.thread) {
            continue;
        }
        let found = waits.of.get_mut(&stack.thread).and_then(|(name, waits)| {
            let next = waits.partition_point(|wait| wait.begin <= stack.time);
            let holds = |wait: &Wait| stack.time < wait.begin + wait.away;
            let within = next.checked_sub(1).filter(|&at| holds(&waits[at]));
            let late =
                || waits.get(next).filter(|wait| wait.begin - stack.time < LATE).map(|_| next);
            let at = within.or_else(late)?;
            let wait = &mut waits[at];
            (!std::mem::replace(&mut wait.has_stack, true)).then_some((&*name, wait.blocked))
        });
        match found {
            Some((name, blocked)) => {
                *folded.lines.entry(stacks.line(name, stack)).or_default() += blocked;
            }
            None => folded.unmatched += 1,
        }
    }
    for (_, (name, waits)) in waits.of.into_iter().filter(|(koid, _)| shown(*koid)) {
        for wait in waits.iter().filter(|wait| !wait.has_stack) {
            let line = format!("{};[no stack]", stacks::frame(&name));
            *folded.lines.entry(line).or_default() += wait.blocked;
        }
    }
    folded
}

#[cfg(test)]
mod tests;
