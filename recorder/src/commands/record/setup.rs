//! Turns a plan into a source that is ready to be enabled.

pub(in crate::commands) mod bpf;
pub(in crate::commands) mod stacks;

use std::sync::Arc;

use crate::capture::contention::ContentionFormats;
use crate::capture::ftrace_rings::{self, FtraceRings};
use crate::capture::homes::HomeFormats;
use crate::capture::life::{LifeFormats, LifeLayout};
use crate::capture::order::Merger;
use crate::capture::perf_rings::PerfRings;
use crate::capture::ring_source::{FtraceSource, PerfSource};
use crate::capture::sched::{SchedFormats, SchedLayout};
use crate::capture::source::SourceError;
use crate::commands::plan::{Plan, default_ring_bytes};
use crate::kernel::extra::Extra;
use crate::kernel::facts::Facts;
use crate::kernel::ftrace::instance::Instance;
use crate::kernel::ftrace::refused;
use crate::kernel::perf::Options;
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::Tracefs;
use crate::kernel::{cgroups, cpus, limits, refusal};

use super::error::RecordError;

/// The smallest ring to retry with when the kernel refuses memory, in bytes.
const MIN_RING_BYTES: usize = 128 * 1024;

/// The reader is woken when this part of a ring is full, ...
const WAKE_PART: usize = 8;

/// ... or this many bytes of it, whichever is less.
const WAKE_BYTES: usize = 512 * 1024;

/// Descriptors on each CPU: the tracepoints, the dummy event, and perhaps the one for switch records.
const FILES_PER_CPU: u64 = 11;

/// How the tracepoints' events are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum By {
    /// perf's rings, which report new tasks by separate records.
    Perf,
    Ftrace,
}

/// The tracepoints that are recorded only on request.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::commands) struct OnWish {
    pub(in crate::commands) waking: bool,
    /// The tracepoints for kernel locks, if the kernel has them.
    pub(in crate::commands) contention: bool,
}

/// The layout of the tracepoints' samples.
///
/// # Errors
/// [`RecordError::Refused`] or [`RecordError::Layout`].
pub(in crate::commands) fn layout(
    sys: &dyn Sys,
    tracefs: &Tracefs,
    OnWish { waking, contention }: OnWish,
    by: By,
    facts: &Facts,
) -> Result<SchedLayout, RecordError> {
    let explain = |error| RecordError::Refused(refusal::explain_tracefs(&error, facts));
    let format = |name| tracefs.event_format(sys, "sched", name).map_err(explain);
    Ok(SchedLayout::new(&SchedFormats {
        switch: format("sched_switch")?,
        wakeup: format("sched_wakeup")?,
        wakeup_new: format("sched_wakeup_new")?,
        waking: waking.then(|| format("sched_waking")).transpose()?,
        migrate: Some(format("sched_migrate_task")?),
        homes: homes(sys, tracefs, by),
        contention: contention.then(|| contention_formats(sys, tracefs)).flatten(),
    })?)
}

/// The tracepoints for kernel locks; `None` before Linux 5.19.
fn contention_formats(sys: &dyn Sys, tracefs: &Tracefs) -> Option<ContentionFormats> {
    let format = |name| tracefs.event_format(sys, "lock", name).ok();
    Some(ContentionFormats { begin: format("contention_begin")?, end: format("contention_end")? })
}

/// The tracepoints for moves between cgroups; `None` on a kernel without cgroups.
fn homes(sys: &dyn Sys, tracefs: &Tracefs, by: By) -> Option<HomeFormats> {
    let own = cgroups::own()?;
    let attach = tracefs.event_format(sys, "cgroup", "cgroup_attach_task").ok()?;
    // Only in the unified hierarchy can a process be created in another cgroup. ftrace reports each new task in any case.
    let newtask = (own.hierarchy == 0 && by == By::Perf)
        .then(|| tracefs.event_format(sys, "task", "task_newtask").ok())
        .flatten();
    Some(HomeFormats { attach, newtask, hierarchy: own.hierarchy })
}

/// The options for perf, with rings of `ring_bytes`.
fn perf_options(
    ring_bytes: usize,
    layout: &SchedLayout,
    extras: Arc<[Extra]>,
    facts: &Facts,
) -> Options {
    Options {
        ring_bytes,
        wake_bytes: (ring_bytes / WAKE_PART).min(WAKE_BYTES) as u32,
        tracepoints: layout.tracepoints(),
        lives: layout.lives(),
        namespace_ids: !facts.namespaces.initial_pid,
        extras,
    }
}

/// Opens the events of every CPU, with rings of the requested size, if one was requested.
///
/// Doctor uses this, too, so its verdict applies to recordings.
///
/// # Errors
/// Returns [`RecordError`], at the first call that the kernel refuses.
pub(in crate::commands) fn open(
    layout: SchedLayout,
    wanted_ring_bytes: Option<usize>,
    extras: Arc<[Extra]>,
    facts: &Facts,
) -> Result<PerfSource, RecordError> {
    let sys = Linux;
    let cpus = cpus::online(&sys)?.len();
    let ring_bytes = wanted_ring_bytes.unwrap_or_else(|| default_ring_bytes(cpus));
    limits::raise_open_files((FILES_PER_CPU + extras.len() as u64) * cpus as u64);
    let options = perf_options(ring_bytes, &layout, extras, facts);
    // A requested size is not reduced.
    let least = if wanted_ring_bytes.is_some() { ring_bytes } else { MIN_RING_BYTES };
    let rings =
        |merger: &mut Merger| PerfRings::open(Box::new(sys), layout, options, least, merger);
    PerfSource::open(rings).map_err(|error| explain(error, cpus, facts))
}

/// The reason why a source for `cpus` CPUs could not be opened, and the remedy.
pub(in crate::commands) fn explain(error: SourceError, cpus: usize, facts: &Facts) -> RecordError {
    match error {
        SourceError::Cpus(error) => error.into(),
        SourceError::Open(error) => refusal::explain_open(&error, cpus, facts).into(),
        SourceError::Ftrace(error) => refused::explain(&error, facts).into(),
        error => bpf::explain(&error, facts).into(),
    }
}

/// Opens the perf events of the plan, with `extras` in addition to the scheduler's.
pub(super) fn open_perf(
    facts: &Facts,
    plan: &Plan,
    extras: &Arc<[Extra]>,
) -> Result<PerfSource, RecordError> {
    let tracefs = Tracefs::find(&Linux).map_err(|e| refusal::explain_tracefs(&e, facts))?;
    let wish = OnWish { waking: plan.waking, contention: plan.locks };
    let layout = layout(&Linux, &tracefs, wish, By::Perf, facts)?;
    open(layout, plan.ring_bytes, extras.clone(), facts)
}

/// Opens a tracing instance with all its events turned off.
///
/// Doctor uses this, too.
///
/// # Errors
/// Returns [`RecordError`], at the first operation that the kernel refuses.
pub(in crate::commands) fn open_ftrace(
    facts: &Facts,
    wish: OnWish,
    wanted_ring_bytes: Option<usize>,
) -> Result<FtraceSource, RecordError> {
    let sys = Linux;
    let tracefs = Tracefs::find(&sys).map_err(|e| refusal::explain_tracefs(&e, facts))?;
    let sched = layout(&sys, &tracefs, wish, By::Ftrace, facts)?;
    let life = life_layout(&sys, &tracefs, facts)?;
    let cpus = cpus::online(&sys)?.len();
    let ring_bytes = wanted_ring_bytes.unwrap_or_else(|| default_ring_bytes(cpus));
    limits::raise_open_files(cpus as u64);
    let options = ftrace_rings::Options {
        ring_bytes,
        min_ring_bytes: if wanted_ring_bytes.is_some() { ring_bytes } else { MIN_RING_BYTES },
        wake_bytes: (ring_bytes / WAKE_PART).min(WAKE_BYTES),
        waking: wish.waking,
    };
    let instance = Instance::create(Box::new(sys), &tracefs)
        .map_err(|error| refused::explain(&error, facts))?;
    let rings = |merger: &mut Merger| {
        FtraceRings::open(Box::new(sys), instance, (sched, life), options, merger)
    };
    FtraceSource::open(rings).map_err(|error| explain(error, cpus, facts))
}

fn life_layout(sys: &dyn Sys, tracefs: &Tracefs, facts: &Facts) -> Result<LifeLayout, RecordError> {
    let format = |group, name| {
        let explain = |error| refusal::explain_tracefs(&error, facts);
        tracefs.event_format(sys, group, name).map_err(explain)
    };
    Ok(LifeLayout::new(&LifeFormats {
        newtask: format("task", "task_newtask")?,
        rename: format("task", "task_rename")?,
        exit: format("sched", "sched_process_exit")?,
    })?)
}
