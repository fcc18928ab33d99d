//! The source of stacks: BPF programs, or perf's call chains.

use crate::capture::source::SourceError;
use crate::cli::SourceChoice;
use crate::commands::plan::Plan;
use crate::kernel::bpf::stacks::{BlockedStacks, Wanted};
use crate::kernel::bpf::sys::LinuxBpf;
use crate::kernel::callchains::CallchainStacks;
use crate::kernel::facts::Facts;
use crate::kernel::limits;
use crate::kernel::refusal::Refusal;
use crate::kernel::stack_source::{StackSource, StackSourceError};
use crate::kernel::sys::Linux;

/// An opened source of stacks.
#[derive(Debug)]
pub(in crate::commands) struct Opened {
    pub(in crate::commands) source: StackSource,
    /// The reason why the better source is not used, as a line of text.
    pub(in crate::commands) instead: Option<String>,
}

/// Opens the source of stacks, if the plan wants stacks. It does not run yet. Stacks that were not requested are left out if BPF is not
/// available. perf's call chains are used with `--source perf`, and if BPF is refused but was not requested.
///
/// # Errors
/// Returns [`Refusal`], at the first call that the kernel refuses.
pub(in crate::commands) fn open(plan: &Plan, facts: &Facts) -> Result<Option<Opened>, Refusal> {
    let Some(wanted) = plan.stacks else { return Ok(None) };
    if wanted.chosen {
        if !facts.namespaces.initial_pid {
            return Ok(None);
        }
        let opened = bpf(wanted).ok().filter(StackSource::costs_little);
        return Ok(opened.map(|source| Opened { source, instead: None }));
    }
    if !facts.namespaces.initial_pid {
        return Err(explain_bpf(&SourceError::InnerPidNamespace, facts));
    }
    let callchains = || {
        let opened = CallchainStacks::open(Box::new(Linux), wanted);
        opened.map(StackSource::Callchains).map_err(StackSourceError::from)
    };
    let opened = match plan.source {
        SourceChoice::Perf => callchains().map(|source| Opened { source, instead: None }),
        SourceChoice::Bpf => bpf(wanted).map(|source| Opened { source, instead: None }),
        SourceChoice::Auto | SourceChoice::Ftrace => {
            bpf(wanted).map(|source| Opened { source, instead: None }).or_else(|refused| {
                let why = "stacks are walked by frame pointers alone, and may lack a caller";
                let instead = Some(format!("{why}, because BPF is refused: {refused}"));
                // The kernel refused the better source first.
                callchains().map(|source| Opened { source, instead }).map_err(|_| refused)
            })
        }
    };
    opened.map(Some).map_err(|error| explain(error, facts))
}

fn bpf(wanted: Wanted) -> Result<StackSource, StackSourceError> {
    let open = || BlockedStacks::open(&Linux, Box::new(LinuxBpf), wanted);
    let opened = match open() {
        Err(error) if error.may_lack_memory() && limits::raise_locked_memory() => open(),
        opened => opened,
    };
    Ok(StackSource::Bpf(opened?))
}

/// The reason why there are no stacks.
pub(in crate::commands) fn explain(error: StackSourceError, facts: &Facts) -> Refusal {
    match error {
        StackSourceError::Bpf(error) => explain_bpf(&error.into(), facts),
        StackSourceError::Callchains(error) => Refusal {
            call: format!("Stacks cannot be recorded: {error}."),
            cause: "Call chains need CAP_PERFMON, or root, and a readable tracefs.".to_owned(),
            remedy: REMEDY.to_owned(),
        },
    }
}

const REMEDY: &str = "Record without --stacks.";

fn explain_bpf(error: &SourceError, facts: &Facts) -> Refusal {
    let refusal = super::bpf::explain(error, facts);
    let call = format!("Stacks cannot be recorded: {error}.");
    Refusal { call, remedy: REMEDY.to_owned(), ..refusal }
}
