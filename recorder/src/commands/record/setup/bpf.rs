//! The BPF source: opening it, and explaining why it cannot be opened.

use std::sync::Arc;

use super::{FILES_PER_CPU, MIN_RING_BYTES, RecordError};
use crate::capture::bpf_source::{BpfOptions, BpfSource};
use crate::capture::source::SourceError;
use crate::commands::plan::{Filter, Plan, default_ring_bytes};
use crate::kernel::bpf::events::BpfError;
use crate::kernel::bpf::sys::LinuxBpf;
use crate::kernel::extra::Extra;
use crate::kernel::facts::Facts;
use crate::kernel::refusal::{self, Refusal};
use crate::kernel::sys::Linux;
use crate::kernel::tracefs::Tracefs;
use crate::kernel::{cpus, limits};

/// Ring of each CPU for forks, exits and names alone, in bytes.
const SIDE_RING_BYTES: usize = 512 * 1024;

/// Opens the programs, their lanes, and perf's rings for the rest, with `extras` in it.
///
/// # Errors
/// [`RecordError`], at the first call that the kernel refuses.
pub(in crate::commands) fn open(
    facts: &Facts,
    plan: &Plan,
    extras: &Arc<[Extra]>,
) -> Result<BpfSource, RecordError> {
    // Other events are about threads out of scope too, and each CPU's chain of threads must hold for them.
    let narrow = plan.scope != Filter::Machine && extras.is_empty();
    open_for(facts, plan.waking, narrow, plan.ring_bytes, extras)
}

/// Opens what a recording of the machine uses, to see whether it can be had.
///
/// # Errors
/// [`RecordError`], at the first call that the kernel refuses.
pub(in crate::commands) fn try_out(facts: &Facts) -> Result<BpfSource, RecordError> {
    let extras: Arc<[Extra]> = Arc::new([]);
    open_for(facts, false, false, None, &extras)
}

fn open_for(
    facts: &Facts,
    waking: bool,
    narrow: bool,
    ring_bytes: Option<usize>,
    extras: &Arc<[Extra]>,
) -> Result<BpfSource, RecordError> {
    let sys = Linux;
    let cpus = cpus::online(&sys)?.len();
    let tracefs = Tracefs::find(&sys).map_err(|error| refusal::explain_tracefs(&error, facts))?;
    let layout = super::layout(&sys, &tracefs, waking, facts)?;
    limits::raise_open_files((FILES_PER_CPU + extras.len() as u64) * cpus as u64);
    let bytes = ring_bytes.unwrap_or_else(|| default_ring_bytes(cpus));
    let perf_bytes = if extras.is_empty() { SIDE_RING_BYTES } else { bytes };
    let options = BpfOptions {
        perf: super::perf_options(perf_bytes, &layout, extras.clone(), facts),
        min_perf_ring_bytes: MIN_RING_BYTES,
        lane_bytes: bytes,
        waking,
        narrow,
    };
    BpfSource::open(Box::new(sys), Box::new(LinuxBpf), layout, options)
        .map_err(|error| super::explain(error, cpus, facts))
}

/// Why the BPF source in particular could not be had.
pub(super) fn explain(error: &SourceError, facts: &Facts) -> Refusal {
    let cause = match error {
        SourceError::Bpf(BpfError::NoBtf { .. }) => {
            "The kernel must have type information (CONFIG_DEBUG_INFO_BTF).".to_owned()
        }
        SourceError::Bpf(_) if !facts.capabilities.bpf() || !facts.namespaces.initial_user => {
            "BPF programs need CAP_BPF and CAP_PERFMON on the host, or root there.".to_owned()
        }
        SourceError::Bpf(error) => match error.verifier_log() {
            Some(log) => format!("The kernel's verifier says:\n{log}"),
            None => "This kernel does not permit it, or is older than Linux 5.12.".to_owned(),
        },
        _ => "fxtrec does not guess.".to_owned(),
    };
    Refusal {
        call: format!("The BPF source cannot be used: {error}."),
        cause,
        remedy: "Use no --source, or --source perf.".to_owned(),
    }
}
