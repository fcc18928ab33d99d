//! Determines what the machine permits by performing the steps of a recording.

use std::path::Path;
use std::sync::Arc;

use crate::capture::sched::SchedLayout;
use crate::capture::source::Source;
use crate::commands::plan::default_ring_bytes;
use crate::commands::record::{RecordError, setup};
use crate::kernel::cpus;
use crate::kernel::facts::Facts;
use crate::kernel::ftrace::instance;
use crate::kernel::perf::{CpuEvents, OpenError, Options, page_size};
use crate::kernel::priority::Denied;
use crate::kernel::refusal::{Refusal, explain_open, explain_tracefs};
use crate::kernel::sys::Sys;
use crate::kernel::tracefs::Tracefs;
use crate::kernel::uprobe::definitions;
use crate::units::Cpu;

#[derive(Clone, Debug)]
pub(super) struct Examination {
    /// The versions of fxtrec and the kernel, and the user.
    pub(super) headline: String,
    pub(super) facts: Facts,
    pub(super) tracefs: Result<String, Refusal>,
    /// Whether fxtrec can decode the scheduler's tracepoints; `None` if tracefs cannot be read.
    pub(super) tracepoints: Option<Result<(), String>>,
    /// Whether the events could be opened.
    pub(super) events: Result<Opened, Refusal>,
    /// Whether a tracing instance of ftrace could be created.
    pub(super) ftrace: Result<Instances, Refusal>,
    /// Whether the kernel has uprobes that perf can open.
    pub(super) uprobes: bool,
    /// The number of user probe definitions of killed recorders that were removed.
    pub(super) swept: usize,
    /// The number of CPUs on which BPF programs could be started.
    pub(super) bpf: Result<usize, Refusal>,
    /// Whether the kernel describes its own types.
    pub(super) btf: bool,
    /// The real-time and memory privileges that a recording requests but does not get.
    pub(super) denied: Denied,
}

/// Events that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) cpus: usize,
    /// Size of the smallest ring that the kernel granted, in bytes.
    pub(super) ring_bytes: usize,
    /// Whether the tracepoints were among them, or only the event for forks and names.
    pub(super) tracepoints: bool,
    /// CPUs whose idle task the kernel did not report.
    pub(super) silent: Vec<Cpu>,
}

impl Opened {
    /// The size of the rings that a recording requests, in bytes.
    pub(super) fn wanted_ring_bytes(&self) -> usize {
        default_ring_bytes(self.cpus)
    }

    /// Whether the kernel granted less than requested.
    pub(super) fn has_small_rings(&self) -> bool {
        self.ring_bytes < self.wanted_ring_bytes()
    }
}

/// A tracing instance that could be created and started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instances {
    pub(super) cpus: usize,
    /// The instances of dead processes that were removed.
    pub(super) removed: Vec<String>,
}

/// Examines the machine. Mounts tracefs if it is missing and mounting is permitted, as a recording does.
pub(super) fn examine(sys: &dyn Sys) -> Examination {
    let facts = Facts::gather(sys);
    let tracefs = Tracefs::find(sys);
    let swept = tracefs.as_ref().ok().and_then(|tracefs| definitions::sweep(sys, tracefs).ok());
    let swept = swept.unwrap_or(0);
    let layout = tracefs.as_ref().ok().map(|tracefs| {
        let wish = setup::OnWish::default();
        setup::layout(sys, tracefs, wish, setup::By::Perf, &facts)
    });
    let (tracepoints, events) = match layout {
        Some(Ok(layout)) => (Some(Ok(())), record(layout, &facts)),
        Some(Err(error)) => (Some(Err(error.to_string())), without_tracepoints(sys, &facts)),
        None => (None, without_tracepoints(sys, &facts)),
    };
    let removed = tracefs.as_ref().map(|tracefs| instance::remove_stale(sys, tracefs));
    Examination {
        headline: headline(&facts),
        bpf: bpf(&facts),
        ftrace: ftrace(&facts, removed.unwrap_or_default()),
        tracefs: match tracefs {
            Ok(tracefs) => Ok(tracefs.path().display().to_string()),
            Err(error) => Err(explain_tracefs(&error, &facts)),
        },
        tracepoints,
        events,
        uprobes: sys.read(Path::new("/sys/bus/event_source/devices/uprobe/type")).is_ok(),
        swept,
        btf: sys.read(Path::new("/sys/kernel/btf/vmlinux")).is_ok(),
        // This is last, since locked memory counts against the same limit as rings.
        denied: Denied::try_out(sys),
        facts,
    }
}

fn headline(facts: &Facts) -> String {
    let kernel = match nix::sys::utsname::uname() {
        Ok(names) => format!(
            "{} {} {}",
            names.sysname().display(),
            names.release().display(),
            names.machine().display()
        ),
        Err(_) => "an unknown kernel".to_owned(),
    };
    format!("fxtrec {} on {kernel}, as user {}", env!("CARGO_PKG_VERSION"), facts.user)
}

/// Opens and starts the same events as a recording.
fn record(layout: SchedLayout, facts: &Facts) -> Result<Opened, Refusal> {
    let mut source = setup::open(layout, None, Arc::new([]), facts).map_err(refusal)?;
    let cpus = source.cpus().len();
    let explain = |error| refusal(setup::explain(error, cpus, facts));
    source.enable().map_err(explain)?;
    Ok(Opened {
        cpus,
        ring_bytes: source.ring_bytes(),
        tracepoints: true,
        silent: source.find_silent().map_err(explain)?,
    })
}

/// Loads and starts the programs that a recording uses.
fn bpf(facts: &Facts) -> Result<usize, Refusal> {
    let mut source = setup::bpf::try_out(facts).map_err(refusal)?;
    let cpus = source.cpus().len();
    source.enable().map_err(|error| refusal(setup::explain(error, cpus, facts)))?;
    Ok(cpus)
}

/// Makes and starts a tracing instance as a recording does.
fn ftrace(facts: &Facts, removed: Vec<String>) -> Result<Instances, Refusal> {
    let mut source = setup::open_ftrace(facts, setup::OnWish::default(), None).map_err(refusal)?;
    let cpus = source.cpus().len();
    source.enable().map_err(|error| refusal(setup::explain(error, cpus, facts)))?;
    Ok(Instances { cpus, removed })
}

/// Opens the events that do not depend on the tracepoints: the event for forks and names.
fn without_tracepoints(sys: &dyn Sys, facts: &Facts) -> Result<Opened, Refusal> {
    let online = cpus::online(sys).map_err(|error| refusal(error.into()))?;
    let options = Options {
        ring_bytes: default_ring_bytes(online.len()),
        wake_bytes: 1,
        tracepoints: Vec::new(),
        namespace_ids: false,
        lives: Vec::new(),
        extras: Arc::new([]),
    };
    let mut opened = Vec::new();
    for cpu in &online {
        match CpuEvents::open(sys, *cpu, &options, page_size()) {
            Ok(events) => opened.push(events),
            Err(OpenError::Offline(_)) => {}
            Err(error) => return Err(explain_open(&error, online.len(), facts)),
        }
    }
    Ok(Opened {
        cpus: opened.len(),
        ring_bytes: opened.iter().map(|events| events.ring.size()).min().unwrap_or(0),
        tracepoints: false,
        silent: Vec::new(),
    })
}

fn refusal(error: RecordError) -> Refusal {
    match error {
        RecordError::Refused(refusal) => refusal,
        other => Refusal {
            call: "The events cannot be opened.".to_owned(),
            cause: other.to_string(),
            remedy: "Run fxtrec where /sys and /proc are mounted.".to_owned(),
        },
    }
}
