//! The program that tells where threads block.

use crate::capture::source::SourceError;
use crate::commands::plan::Plan;
use crate::kernel::bpf::stacks::BlockedStacks;
use crate::kernel::bpf::sys::LinuxBpf;
use crate::kernel::facts::Facts;
use crate::kernel::limits;
use crate::kernel::refusal::Refusal;
use crate::kernel::sys::Linux;

/// Loads it, if the plan wants stacks. It does not run yet.
///
/// # Errors
/// [`Refusal`], at the first call that the kernel refuses.
pub(in crate::commands) fn open(
    plan: &Plan,
    facts: &Facts,
) -> Result<Option<BlockedStacks>, Refusal> {
    let Some(wanted) = plan.stacks else { return Ok(None) };
    if !facts.namespaces.initial_pid {
        return Err(explain(&SourceError::InnerPidNamespace, facts));
    }
    let open = || BlockedStacks::open(&Linux, Box::new(LinuxBpf), wanted);
    let opened = match open() {
        Err(error) if error.may_lack_memory() && limits::raise_locked_memory() => open(),
        opened => opened,
    };
    opened.map(Some).map_err(|error| explain(&error.into(), facts))
}

/// Why there are no stacks.
pub(in crate::commands) fn explain(error: &SourceError, facts: &Facts) -> Refusal {
    let refusal = super::bpf::explain(error, facts);
    let remedy = "Record without --stacks.".to_owned();
    Refusal { call: format!("Stacks cannot be recorded: {error}."), remedy, ..refusal }
}
