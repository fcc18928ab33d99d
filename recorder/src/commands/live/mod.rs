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

/// The most memory of the kernel that the tables take, in bytes. Machines with many CPUs have fewer slots for it.
const BUDGET: usize = 64 << 20;

/// With fewer slots it is not tried.
const LEAST_SLOTS: usize = 128;

/// Why nothing can be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    #[error("cannot count in the kernel: {0}; fxtrec doctor says what BPF programs need")]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Cpus(#[from] cpus::CpusError),
}

/// Has the kernel count from now on, with at most so many slots for each CPU.
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
            // Before Linux 6.11 a value of a map has 4 MiB at most.
            Err(BpfError::Map { .. }) if slots / 2 >= LEAST_SLOTS => slots /= 2,
            opened => break opened?,
        }
    };
    counts.attach()?;
    Ok(counts)
}
