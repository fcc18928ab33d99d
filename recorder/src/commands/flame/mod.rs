//! `fxtrec flame`: how long threads were blocked or ran, by stack, as folded text, a flame graph, or a profile for other viewers.
//!
//! The waits and their stacks are those of `fxtrec report --stacks`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use fxt_reader::Error;

use crate::cli::FlameArgs;
use crate::commands::trace_file::{ReadError, keep, watched};
use crate::kernel::user::Owner;
use crate::report::stacks::{
    Profile, blocked, write_firefox, write_folded, write_pprof, write_svg,
};
use crate::report::{Options, Selection, ThreadFilter, TimeRange};
use crate::sched::backtrace::Kind;
use crate::sink::outfile::{Derived, OutFileError, mode_of};
use crate::units::text::{counted, noun};

/// The reason why there is nothing to draw.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlameError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{}: the trace has no stacks: record it with --stacks", .0.display())]
    NoStacks(PathBuf),
    /// The trace has no stacks of this kind.
    #[error("{}: the trace has no such stacks: record it with --stacks={kind}", .path.display())]
    NoSuchStacks { path: PathBuf, kind: &'static str },
    /// The extension of the output's name is not that of a format.
    #[error("{}: unknown format; expected a name that ends in .folded, .svg, .pb.gz or .json", .0.display())]
    Format(PathBuf),
    /// The output cannot be created.
    #[error("cannot create {}: {source}", .path.display())]
    Create { path: PathBuf, source: OutFileError },
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// How profiles are written.
#[derive(Clone, Copy)]
enum Format {
    /// A writer for one profile.
    One(fn(&Profile<'_>, &mut dyn Write) -> io::Result<()>),
    /// A writer for all kinds, if none was requested.
    All(fn(&[Profile<'_>], &mut dyn Write) -> io::Result<()>),
}

fn format_of(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    let formats = [
        (".folded", Format::One(write_folded)),
        (".svg", Format::One(write_svg)),
        (".pb.gz", Format::One(write_pprof)),
        (".json", Format::All(write_firefox)),
    ];
    formats.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| format)
}

impl Format {
    fn write(self, profiles: &[Profile<'_>], out: &mut dyn Write) -> io::Result<()> {
        match self {
            Format::One(write) => profiles.iter().take(1).try_for_each(|it| write(it, out)),
            Format::All(write) => write(profiles, out),
        }
    }
}

/// Writes the stacks of a trace to the output file of `args` or to `out`, and remarks to `messages`.
///
/// # Errors
/// Returns an error if the trace cannot be read, has no such stacks, or the output fails.
pub fn run(
    args: &FlameArgs,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<(), FlameError> {
    let format = match &args.output {
        Some(path) => format_of(path).ok_or_else(|| FlameError::Format(path.clone()))?,
        None => Format::One(write_folded),
    };
    keep(&args.file)?;
    let failed = |source: Error| ReadError::new(&args.file, source);
    let threads = ThreadFilter {
        comms: args.comms.clone(),
        pids: args.pids.clone(),
        cgroups: args.cgroups.clone(),
        ..ThreadFilter::default()
    };
    let range = TimeRange { from: None, to: None };
    let selection = Selection { threads, cpus: Vec::new(), range, recorder: true };
    let options = Options { selection, worst: 0 };
    let blocked = blocked(|| watched(&args.file), options).map_err(failed)?;
    let Some((_, blocked)) = blocked else { return Err(FlameError::NoStacks(args.file.clone())) };
    let (kind, word) = match (args.wake, args.cpu) {
        (true, _) => (Kind::Wake, "wake"),
        (_, true) => (Kind::Cpu, "cpu"),
        (false, false) => (Kind::OffCpu, "offcpu"),
    };
    if kind != Kind::OffCpu && !blocked.recorded.all.iter().any(|stack| stack.kind == kind) {
        return Err(FlameError::NoSuchStacks { path: args.file.clone(), kind: word });
    }
    let has = |kind| blocked.recorded.all.iter().any(|stack| stack.kind == kind);
    let is_chosen = args.offcpu || args.wake || args.cpu;
    let profiles: Vec<Profile<'_>> = match format {
        Format::All(_) if !is_chosen => [Kind::OffCpu, Kind::Cpu, Kind::Wake]
            .into_iter()
            .filter(|kind| *kind == Kind::OffCpu || has(*kind))
            .map(|kind| Profile::of(kind, &blocked))
            .collect(),
        _ => vec![Profile::of(kind, &blocked)],
    };
    match &args.output {
        None => {
            let mut out = BufWriter::new(out);
            match format.write(&profiles, &mut out).and_then(|()| out.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
        Some(path) => {
            let inputs = [args.file.as_path()];
            let derived = Derived::create(path, mode_of(&inputs), &inputs, Owner::sudo_caller());
            let create = |source| FlameError::Create { path: path.clone(), source };
            let Derived { file, pending } = derived.map_err(create)?;
            let mut out = BufWriter::new(file);
            format.write(&profiles, &mut out)?;
            out.flush()?;
            pending.commit().map_err(io::Error::from)?;
        }
    }
    if kind == Kind::OffCpu && blocked.censored > 0 {
        let stacks = counted(blocked.censored, "stack", "stacks");
        // If standard error is closed, the message is lost.
        let waits = noun(blocked.censored, "the wait is", "the waits are");
        let _ = writeln!(messages, "fxtrec: {stacks} left out: {waits} censored");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
