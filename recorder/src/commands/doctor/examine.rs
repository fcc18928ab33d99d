//! Finding out what the machine allows, by doing what a recording does.

use std::path::Path;

use crate::capture::decode::{SchedFormats, SchedLayout};
use crate::capture::perf_source::{PerfSource, SourceError};
use crate::commands::plan::DEFAULT_RING_BYTES;
use crate::kernel::cpus::{self, CpusError};
use crate::kernel::facts::Facts;
use crate::kernel::perf::{CpuEvents, OpenError, Options, page_size};
use crate::kernel::refusal::{Refusal, explain_open, explain_tracefs};
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::{Tracefs, TracefsError};
use crate::units::Cpu;

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Examination {
    /// Which fxtrec on which kernel, and who asks.
    pub(super) headline: String,
    /// Rights and limits.
    pub(super) facts: Facts,
    /// Where tracefs is.
    pub(super) tracefs: Result<String, Refusal>,
    /// Whether the scheduler's tracepoints are understood; `None` when tracefs cannot be read.
    pub(super) tracepoints: Option<Result<(), String>>,
    /// Whether the events could be opened.
    pub(super) events: Result<Opened, Refusal>,
    /// Whether the kernel has uprobes that perf can open.
    pub(super) uprobes: bool,
    /// Whether the kernel describes its own types.
    pub(super) btf: bool,
}

/// Events that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// On how many CPUs.
    pub(super) cpus: usize,
    /// Bytes of the smallest ring that the kernel granted.
    pub(super) ring_bytes: usize,
    /// Whether the tracepoints were among them, or only the event for forks and names.
    pub(super) tracepoints: bool,
    /// CPUs whose idle task was seen not to be reported.
    pub(super) blind: Vec<Cpu>,
}

/// Examines the machine. Mounts tracefs where it is missing and that is permitted, as a recording does.
pub(super) fn examine(sys: &dyn Sys) -> Examination {
    let facts = Facts::gather(sys);
    let tracefs = Tracefs::find(sys);
    let layout = tracefs.as_ref().ok().map(|tracefs| layout(sys, tracefs));
    let known = layout.as_ref().and_then(|layout| layout.as_ref().ok());
    let events = match known {
        Some(layout) => record(layout, &facts),
        None => without_tracepoints(sys, &facts),
    };
    Examination {
        headline: headline(&facts),
        tracefs: match tracefs {
            Ok(tracefs) => Ok(tracefs.path().display().to_string()),
            Err(error) => Err(explain_tracefs(&error, &facts)),
        },
        tracepoints: layout.map(|layout| layout.map(drop)),
        events,
        uprobes: sys.read(Path::new("/sys/bus/event_source/devices/uprobe/type")).is_ok(),
        btf: sys.read(Path::new("/sys/kernel/btf/vmlinux")).is_ok(),
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

fn layout(sys: &dyn Sys, tracefs: &Tracefs) -> Result<SchedLayout, String> {
    let format = |name| tracefs.event_format(sys, "sched", name);
    let formats = || -> Result<SchedFormats, TracefsError> {
        Ok(SchedFormats {
            switch: format("sched_switch")?,
            wakeup: format("sched_wakeup")?,
            wakeup_new: format("sched_wakeup_new")?,
            waking: None,
        })
    };
    let formats = formats().map_err(|error| error.to_string())?;
    SchedLayout::new(&formats).map_err(|error| error.to_string())
}

fn options(layout: Option<&SchedLayout>, facts: &Facts) -> Options {
    Options {
        ring_bytes: DEFAULT_RING_BYTES,
        wake_bytes: (DEFAULT_RING_BYTES / 4) as u32,
        tracepoints: layout.map(SchedLayout::tracepoints).unwrap_or_default(),
        namespace_ids: !facts.namespaces.initial_pid,
    }
}

/// Opens and starts what a recording does, on every CPU at once since limits count the sum.
fn record(layout: &SchedLayout, facts: &Facts) -> Result<Opened, Refusal> {
    let options = options(Some(layout), facts);
    let explain = |error| match error {
        SourceError::Open(error) => explain_open(&error, online_or_one(), facts),
        SourceError::Cpus(error) => unknown_cpus(&error),
    };
    let mut source =
        PerfSource::open(Box::new(Linux), layout.clone(), options, page_size()).map_err(explain)?;
    source.enable().map_err(|error| explain(error.into()))?;
    Ok(Opened {
        cpus: source.cpus().len(),
        ring_bytes: source.ring_bytes(),
        tracepoints: true,
        blind: source.watch_idle().map_err(|error| explain(error.into()))?,
    })
}

/// Opens what can be opened without knowing the tracepoints: the event for forks and names.
fn without_tracepoints(sys: &dyn Sys, facts: &Facts) -> Result<Opened, Refusal> {
    let options = options(None, facts);
    let online = cpus::online(sys).map_err(|error| unknown_cpus(&error))?;
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
        blind: Vec::new(),
    })
}

fn online_or_one() -> usize {
    cpus::online(&Linux).map_or(1, |cpus| cpus.len())
}

fn unknown_cpus(error: &CpusError) -> Refusal {
    Refusal {
        call: "The CPUs cannot be listed.".to_owned(),
        cause: error.to_string(),
        remedy: "Mount /sys: sudo mount -t sysfs sysfs /sys".to_owned(),
    }
}
