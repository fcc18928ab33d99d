//! The BPF source: opening it, and explaining why it cannot be opened.

use std::sync::Arc;

use super::{FILES_PER_CPU, MIN_RING_BYTES, RecordError};
use crate::capture::bpf_source::{BpfOptions, BpfSource};
use crate::capture::source::SourceError;
use crate::commands::plan::{Filter, Plan, default_lane_bytes, default_ring_bytes};
use crate::kernel::bpf::events::BpfError;
use crate::kernel::bpf::scope::ScopeBy;
use crate::kernel::bpf::stacks::WaitNotes;
use crate::kernel::bpf::sys::{BpfSys, LinuxBpf};
use crate::kernel::extra::Extra;
use crate::kernel::facts::{Facts, Limit};
use crate::kernel::machine::Machine;
use crate::kernel::refusal::{self, Refusal};
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::Tracefs;
use crate::kernel::{cpus, limits};

/// The maximum size of a CPU's ring, in bytes: for larger rings, the kernel cannot prove that a program stays inside.
const MOST_LANE_BYTES: usize = 512 << 20;

/// The size of each CPU's ring for forks, exits and names only, in bytes.
const SIDE_RING_BYTES: usize = 512 * 1024;

/// The kernel whose events this source records.
pub trait EventKernel {
    /// Its files, and the calls for perf's rings.
    fn sys(&self) -> Box<dyn Sys + Send + Sync>;

    /// The calls for programs and lanes.
    fn bpf(&self) -> Box<dyn BpfSys + Send>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug)]
pub struct RunningKernel;

impl EventKernel for RunningKernel {
    fn sys(&self) -> Box<dyn Sys + Send + Sync> {
        Box::new(Linux)
    }

    fn bpf(&self) -> Box<dyn BpfSys + Send> {
        Box::new(LinuxBpf)
    }
}

/// Opens the programs, their lanes, and perf's rings for the rest, with `extras`. With `notes`, the programs note waiting threads.
///
/// # Errors
/// Returns [`RecordError`], at the first call that the kernel refuses.
pub(in crate::commands) fn open(
    kernel: &dyn EventKernel,
    facts: &Facts,
    plan: &Plan,
    extras: &Arc<[Extra]>,
    notes: Option<WaitNotes<'_>>,
) -> Result<BpfSource, RecordError> {
    // Other events also concern threads out of scope, and each CPU's chain of threads must include those.
    let narrow = match &plan.scope {
        _ if !extras.is_empty() => None,
        Filter::Machine => None,
        Filter::Processes { .. } => Some(ScopeBy::Thread),
        Filter::Cgroups(_) => Some(ScopeBy::Cgroup),
        Filter::Owned => Some(ScopeBy::Owner),
    };
    let Plan { waking, need_resched, locks, plain, only_user: owner, .. } = *plan;
    let wanted = Asked { waking, need_resched, locks, plain, owner };
    open_for(kernel, facts, wanted, narrow, plan.ring_bytes, extras, notes)
}

/// Opens the same programs as a recording of the machine, to check that they work.
///
/// # Errors
/// Returns [`RecordError`], at the first call that the kernel refuses.
pub(in crate::commands) fn try_out(facts: &Facts) -> Result<BpfSource, RecordError> {
    let extras: Arc<[Extra]> = Arc::new([]);
    open_for(&RunningKernel, facts, Asked::default(), None, None, &extras, None)
}

/// Events that the programs record only on request.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    waking: bool,
    need_resched: bool,
    locks: bool,
    plain: bool,
    owner: Option<u32>,
}

fn open_for(
    kernel: &dyn EventKernel,
    facts: &Facts,
    Asked { waking, need_resched, locks, plain, owner }: Asked,
    narrow: Option<ScopeBy>,
    ring_bytes: Option<usize>,
    extras: &Arc<[Extra]>,
    notes: Option<WaitNotes<'_>>,
) -> Result<BpfSource, RecordError> {
    let sys = kernel.sys();
    let cpus = cpus::online(&*sys)?.len();
    let tracefs = Tracefs::find(&*sys).map_err(|error| refusal::explain_tracefs(&error, facts))?;
    // Locks have separate programs.
    let wish = super::OnWish { waking, contention: false };
    let layout = super::layout(&*sys, &tracefs, wish, super::By::Perf, facts)?;
    limits::raise_open_files((FILES_PER_CPU + extras.len() as u64) * cpus as u64);
    let bytes = ring_bytes.unwrap_or_else(|| default_ring_bytes(cpus));
    let perf_bytes = if extras.is_empty() { SIDE_RING_BYTES } else { bytes };
    let options = BpfOptions {
        perf: super::perf_options(perf_bytes, &layout, extras.clone(), facts),
        least_perf_ring_bytes: SIDE_RING_BYTES,
        min_perf_ring_bytes: MIN_RING_BYTES,
        lane_bytes: ring_bytes.unwrap_or_else(|| default_lane_bytes(cpus)).min(MOST_LANE_BYTES),
        waking,
        need_resched,
        locks,
        plain,
        narrow,
        owner,
    };
    let open = || {
        let (layout, options) = (layout.clone(), options.clone());
        BpfSource::open(kernel.sys(), kernel.bpf(), layout, options, notes)
    };
    let opened = match open() {
        Err(SourceError::Bpf(error))
            if error.may_lack_memory() && limits::raise_locked_memory() =>
        {
            open()
        }
        opened => opened,
    };
    opened.map_err(|error| super::explain(error, cpus, facts))
}

/// The reason why the BPF source could not be opened.
pub(super) fn explain(error: &SourceError, facts: &Facts) -> Refusal {
    let (cause, remedy) = cause(error, facts, &Machine::current().release);
    Refusal { call: format!("The BPF source cannot be used: {error}."), cause, remedy }
}

/// The reason and the remedy, for a kernel of this release.
fn cause(error: &SourceError, facts: &Facts, release: &str) -> (String, String) {
    const OTHER: &str = "Omit --source, or use --source perf.";
    let cause = match error {
        SourceError::Bpf(error) if error.lacks_files() => return refusal::too_many_files(facts),
        SourceError::Bpf(BpfError::NoBtf { .. }) => {
            "The kernel must have type information (CONFIG_DEBUG_INFO_BTF).".to_owned()
        }
        SourceError::Bpf(_) if !facts.namespaces.initial_user => {
            "BPF programs need CAP_BPF and CAP_PERFMON on the host, or root there.".to_owned()
        }
        SourceError::Bpf(_) if !facts.capabilities.bpf() || !facts.capabilities.perfmon() => {
            let missing = match (facts.capabilities.bpf(), facts.capabilities.perfmon()) {
                (false, false) => "CAP_BPF and CAP_PERFMON",
                (false, true) => "CAP_BPF",
                _ => "CAP_PERFMON",
            };
            format!("BPF programs need CAP_BPF and CAP_PERFMON, or root; fxtrec lacks {missing}.")
        }
        SourceError::Bpf(error)
            if error.may_lack_memory()
                && limits::counts_bpf_as_locked(release)
                && matches!(facts.memlock, Limit::At(_)) =>
        {
            let Limit::At(bytes) = facts.memlock else { unreachable!("matched above") };
            let cause = format!(
                "Kernels before Linux 5.11 count BPF programs and maps as locked memory, of which {} KiB are permitted; fxtrec needs CAP_SYS_RESOURCE to raise this limit.",
                bytes / 1024
            );
            return (cause, format!("Raise it with `ulimit -l unlimited`. {OTHER}"));
        }
        SourceError::Bpf(error) => match error.verifier_log() {
            // The error of a kernel that does not support an atomic operation.
            Some(log) if log.contains("BPF_STX uses reserved fields") => {
                "The programs need atomic operations, which came with Linux 5.12: for a narrow scope (--scope app, -p, --cgroup), and on CPUs other than x86-64 always.".to_owned()
            }
            Some(log) => format!("The kernel's verifier reported:\n{log}"),
            None => "This kernel does not permit it, or is older than Linux 5.10.".to_owned(),
        },
        _ => "fxtrec does not guess.".to_owned(),
    };
    (cause, OTHER.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::kernel::caps::{Capabilities, Capability};
    use crate::kernel::fake::ordinary_user;

    /// A user with these capabilities and this limit of locked memory.
    fn facts(capabilities: &[Capability], memlock: Limit) -> Facts {
        Facts { memlock, capabilities: Capabilities::of(capabilities), ..ordinary_user() }
    }

    const BOTH: [Capability; 2] = [Capability::Perfmon, Capability::Bpf];

    fn refused(errno: i32) -> SourceError {
        let error = io::Error::from_raw_os_error(errno);
        SourceError::Bpf(BpfError::Map { what: "a CPU", error })
    }

    #[test]
    fn a_limit_of_locked_memory_is_named_on_kernels_that_have_it() {
        let able = facts(&BOTH, Limit::At(64 << 10));
        let (old, remedy) = cause(&refused(libc::EPERM), &able, "5.10.0-46-amd64");
        assert!(old.contains("64 KiB") && old.contains("CAP_SYS_RESOURCE"), "{old}");
        assert!(remedy.contains("ulimit -l"), "{remedy}");
        for (errno, release) in [(libc::EPERM, "6.1.0"), (libc::EINVAL, "5.10.0")] {
            let (other, _) = cause(&refused(errno), &able, release);
            assert!(!other.contains("KiB"), "{other}");
        }
        let unlimited = facts(&BOTH, Limit::Unlimited);
        assert!(!cause(&refused(libc::EPERM), &unlimited, "5.10.0").0.contains("locked"));
    }

    #[test]
    fn a_limit_of_open_files_is_named() {
        let (text, remedy) = cause(&refused(libc::EMFILE), &facts(&BOTH, Limit::Unknown), "6.1.0");
        assert!(text.contains("1024"), "{text}");
        assert!(remedy.contains("ulimit -n"), "{remedy}");
    }

    #[test]
    fn a_scope_that_old_kernels_cannot_apply_is_named() {
        let log = "BPF_STX uses reserved fields\nprocessed 0 insns".to_owned();
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        let refused = SourceError::Bpf(BpfError::Load { name: "fxtrec_newtask", error, log });
        let (text, _) = cause(&refused, &facts(&BOTH, Limit::Unlimited), "5.10.0");
        assert!(text.contains("scope") && text.contains("5.12"), "{text}");
    }

    #[test]
    fn the_capability_that_is_missing_is_named() {
        let cases: [(&[Capability], &str); 3] = [
            (&BOTH[..1], "lacks CAP_BPF."),
            (&BOTH[1..], "lacks CAP_PERFMON."),
            (&[], "lacks CAP_BPF and CAP_PERFMON."),
        ];
        for (capabilities, missing) in cases {
            let (text, _) =
                cause(&refused(libc::EPERM), &facts(capabilities, Limit::Unknown), "6.1.0");
            assert!(text.contains(missing), "{text}");
        }
    }
}
