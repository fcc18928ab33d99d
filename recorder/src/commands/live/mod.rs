//! Figures that the kernel counts while nothing is recorded, for `fxtrec daemon --metrics` and `fxtrec top`.

pub(super) mod groups;
pub(super) mod history;

use crate::kernel::bpf::counts::{KeyBy, SchedCounts, Shape, Wanted};
use crate::kernel::bpf::events::BpfError;
use crate::kernel::bpf::sys::LinuxBpf;
use crate::kernel::cgroups::Hierarchy;
use crate::kernel::cpus;
use crate::kernel::steal;
use crate::kernel::sys::Linux;

/// The maximum kernel memory for the tables, in bytes. Machines with many CPUs get fewer slots.
const BUDGET: usize = 64 << 20;

/// The smallest number of slots to try.
const LEAST_SLOTS: usize = 128;

/// The reason why the kernel cannot count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    #[error("cannot count in the kernel: {0}; fxtrec doctor says what BPF programs need")]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Cpus(#[from] cpus::CpusError),
}

/// Makes the kernel count from now on, with at most `slots` slots per CPU.
pub(super) fn start(
    key: KeyBy,
    hierarchy: Hierarchy,
    most_slots: usize,
) -> Result<SchedCounts, LiveError> {
    let last = cpus::possible(&Linux)?.last().map_or(0, |cpu| cpu.0);
    let wanted = |most_slots| Wanted {
        key,
        shape: Shape::within(BUDGET, last as usize + 1, most_slots),
        hierarchy,
        steal: steal::is_accounted(&Linux),
    };
    let mut slots = most_slots;
    let mut counts = loop {
        match SchedCounts::open(&Linux, Box::new(LinuxBpf), wanted(slots)) {
            // Before Linux 6.11, a map value has at most 4 MiB.
            Err(BpfError::Map { .. }) if slots / 2 >= LEAST_SLOTS => slots /= 2,
            opened => break opened?,
        }
    };
    counts.attach()?;
    Ok(counts)
}
