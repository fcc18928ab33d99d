//! Chooses the source of a recording: the requested one, or the first that the machine permits.
//!
//! By default it tries `bpf`, which costs least and sees most (`docs/cost.md`), then `perf`, then `ftrace`.

use std::sync::Arc;

use super::error::RecordError;
use super::extras::ExtraError;
use super::setup::bpf::{self, EventKernel};
use super::setup::{OnWish, open_ftrace, open_perf};
use crate::capture::source::{Source, SourceKind};
use crate::cli::SourceChoice;
use crate::commands::plan::{Filter, Plan};
use crate::kernel::bpf::stacks::WaitNotes;
use crate::kernel::extra::Extra;
use crate::kernel::facts::Facts;
use crate::kernel::refusal::Refusal;

#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) source: Box<dyn Source>,
    /// The reason why fxtrec does not use the preferred source, as a line of text.
    pub(super) instead: Option<String>,
}

/// Opens everything that the plan records, with `extras` in addition to the scheduler's events. If the source supports it, waiting threads
/// are noted for stacks.
///
/// # Errors
/// Returns [`RecordError`] of the requested source. If no source was requested and all fail, the error of perf, whose permission is the
/// easiest to get.
pub(super) fn open(
    kernel: &dyn EventKernel,
    facts: &Facts,
    plan: &Plan,
    extras: &Arc<[Extra]>,
    notes: Option<WaitNotes<'_>>,
) -> Result<Chosen, RecordError> {
    let open = |kind| {
        let mut source = open_one(kind, kernel, facts, plan, extras, notes)?;
        if let Some(threads) = plan.capture_threads {
            source.use_threads(threads);
        }
        Ok(source)
    };
    match plan.source {
        // Only the first two sources have perf's rings, which these events need.
        SourceChoice::Auto if !extras.is_empty() => first(&AUTO[..2], open),
        SourceChoice::Auto => first(&AUTO, open),
        SourceChoice::Perf => first(&[SourceKind::Perf], open),
        SourceChoice::Ftrace => first(&[SourceKind::Ftrace], open),
        SourceChoice::Bpf => first(&[SourceKind::Bpf], open),
    }
}

/// The sources to try by default, in order.
const AUTO: [SourceKind; 3] = [SourceKind::Bpf, SourceKind::Perf, SourceKind::Ftrace];

fn open_one(
    kind: SourceKind,
    kernel: &dyn EventKernel,
    facts: &Facts,
    plan: &Plan,
    extras: &Arc<[Extra]>,
    notes: Option<WaitNotes<'_>>,
) -> Result<Box<dyn Source>, RecordError> {
    match kind {
        SourceKind::Perf => Ok(Box::new(open_perf(facts, plan, extras)?)),
        SourceKind::Bpf => Ok(Box::new(bpf::open(kernel, facts, plan, extras, notes)?)),
        SourceKind::Ftrace if !extras.is_empty() => {
            Err(ExtraError::NeedsPerf { source_name: kind.name() }.into())
        }
        SourceKind::Ftrace => {
            knows_scope(facts, plan)?;
            let wish = OnWish { waking: plan.waking, contention: plan.locks };
            Ok(Box::new(open_ftrace(facts, wish, plan.ring_bytes)?))
        }
    }
}

/// Rejects a recording that would be empty: tracepoints report the host's ids, which differ from those of COMMAND or `-p` here.
fn knows_scope(facts: &Facts, plan: &Plan) -> Result<(), Refusal> {
    if facts.namespaces.initial_pid || plan.scope == Filter::Machine {
        return Ok(());
    }
    Err(Refusal {
        call: "ftrace cannot select the threads to record.".to_owned(),
        cause: "Inside this pid namespace, it has only the host's thread ids.".to_owned(),
        remedy: "Record the whole machine, or use --source perf.".to_owned(),
    })
}

/// Tries one kind after another, as long as the kernel refuses. If it refuses all, returns the error of perf, or the first error if perf
/// was not tried.
fn first(
    kinds: &[SourceKind],
    open: impl Fn(SourceKind) -> Result<Box<dyn Source>, RecordError>,
) -> Result<Chosen, RecordError> {
    let mut refused: Vec<(SourceKind, Refusal)> = Vec::new();
    for &kind in kinds {
        match open(kind) {
            Ok(source) => {
                let instead = refused.first().map(|(first, refusal)| {
                    format!("using --source {kind}, because {first} is refused: {}", refusal.call)
                });
                return Ok(Chosen { source, instead });
            }
            Err(RecordError::Refused(refusal)) => refused.push((kind, refusal)),
            Err(error) => return Err(error),
        }
    }
    let telling = refused.iter().position(|(kind, _)| *kind == SourceKind::Perf).unwrap_or(0);
    match refused.into_iter().nth(telling) {
        Some((_, refusal)) => Err(RecordError::Refused(refusal)),
        None => Err(nothing_tried()),
    }
}

/// Cannot happen as long as every choice includes a kind.
fn nothing_tried() -> RecordError {
    RecordError::System { doing: "record", source: std::io::Error::other("no source was tried") }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::capture::source::{Causes, EventSink, SourceError, SourceStats};
    use crate::kernel::stop_token::StopToken;
    use crate::units::{Cpu, Nanos};

    #[derive(Debug)]
    struct Silent(SourceKind);

    impl Source for Silent {
        fn causes(&self, _: &[Cpu]) -> Causes {
            Causes::default()
        }

        fn kind(&self) -> SourceKind {
            self.0
        }
        fn cpus(&self) -> Vec<Cpu> {
            Vec::new()
        }
        fn ring_bytes(&self) -> usize {
            0
        }
        fn enable(&mut self) -> Result<(), SourceError> {
            Ok(())
        }
        fn begin(&mut self) -> Nanos {
            Nanos(0)
        }
        fn round(&mut self, _: &mut EventSink<'_>) {}
        fn finish(&mut self, _: &mut EventSink<'_>) {}
        fn take_failure(&mut self) -> Option<io::Error> {
            None
        }
        fn wait(&mut self, _: &StopToken, _: Duration) -> io::Result<()> {
            Ok(())
        }
        fn follow_hotplug(&mut self) -> Result<(), SourceError> {
            Ok(())
        }
        fn stats(&self) -> SourceStats {
            SourceStats::default()
        }
    }

    /// Opens any source that is not in `refused`.
    fn machine(
        refused: &[SourceKind],
    ) -> impl Fn(SourceKind) -> Result<Box<dyn Source>, RecordError> {
        move |kind| match refused.contains(&kind) {
            false => Ok(Box::new(Silent(kind))),
            true => Err(RecordError::Refused(Refusal {
                call: format!("No {kind}."),
                cause: "Because.".to_owned(),
                remedy: "None.".to_owned(),
            })),
        }
    }

    #[test]
    fn the_first_that_is_permitted_is_taken_and_nothing_is_said_of_it() {
        let chosen = first(&AUTO, machine(&[])).expect("permitted");
        assert_eq!((chosen.source.kind(), chosen.instead), (SourceKind::Bpf, None));
    }

    #[test]
    fn another_in_its_place_is_reported_with_the_reason() {
        let cases = [(&AUTO[..1], SourceKind::Perf), (&AUTO[..2], SourceKind::Ftrace)];
        for (refused, taken) in cases {
            let chosen = first(&AUTO, machine(refused)).expect("another is permitted");
            assert_eq!(chosen.source.kind(), taken);
            let said = chosen.instead.expect("it is said");
            assert_eq!(said, format!("using --source {taken}, because bpf is refused: No bpf."));
        }
    }

    #[test]
    fn when_all_are_refused_that_of_perf_is_told_or_else_the_first() {
        for (kinds, reported) in [(&AUTO[..], "No perf."), (&AUTO[2..], "No ftrace.")] {
            let refused = first(kinds, machine(&AUTO)).expect_err("refused");
            assert!(refused.to_string().starts_with(reported), "{refused}");
        }
    }

    #[test]
    fn what_is_no_refusal_is_not_got_around() {
        let broken = |_| Err(nothing_tried());
        let error = first(&AUTO, broken).expect_err("broken");
        assert!(matches!(error, RecordError::System { .. }), "{error}");
    }
}
