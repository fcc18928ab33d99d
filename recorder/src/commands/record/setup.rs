//! Getting from a plan to perf events that wait to be enabled.

use crate::capture::decode::{SchedFormats, SchedLayout};
use crate::capture::perf_source::{PerfSource, SourceError};
use crate::commands::plan::{Plan, default_ring_bytes};
use crate::kernel::facts::Facts;
use crate::kernel::perf::Options;
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::Tracefs;
use crate::kernel::{cpus, limits, refusal};

use super::error::RecordError;

/// The smallest ring that a refusal of memory is answered with, in bytes.
const MIN_RING_BYTES: usize = 128 * 1024;

/// The reader is woken when this part of a ring is full ...
const WAKE_PART: usize = 8;

/// ... or this much of it, in bytes, whichever is less.
const WAKE_BYTES: usize = 512 * 1024;

/// Descriptors on each CPU: the tracepoints, the dummy event, and perhaps the one for switch records.
const FILES_PER_CPU: u64 = 6;

/// The formats of the tracepoints that the plan wants.
fn formats(sys: &dyn Sys, facts: &Facts, plan: &Plan) -> Result<SchedFormats, RecordError> {
    let explain = |error| RecordError::Refused(refusal::explain_tracefs(&error, facts));
    let tracefs = Tracefs::find(sys).map_err(explain)?;
    let format = |name| tracefs.event_format(sys, "sched", name).map_err(explain);
    Ok(SchedFormats {
        switch: format("sched_switch")?,
        wakeup: format("sched_wakeup")?,
        wakeup_new: format("sched_wakeup_new")?,
        waking: plan.waking.then(|| format("sched_waking")).transpose()?,
    })
}

/// Opens everything that the plan wants recorded.
pub(super) fn open_source(facts: &Facts, plan: &Plan) -> Result<PerfSource, RecordError> {
    let sys = Linux;
    let layout = SchedLayout::new(&formats(&sys, facts, plan)?)?;
    let cpus = cpus::online(&sys)?.len();
    let ring_bytes = plan.ring_bytes.unwrap_or_else(|| default_ring_bytes(cpus));
    limits::raise_open_files(FILES_PER_CPU * cpus as u64);
    let options = Options {
        ring_bytes,
        wake_bytes: (ring_bytes / WAKE_PART).min(WAKE_BYTES) as u32,
        tracepoints: layout.tracepoints(),
        namespace_ids: !facts.namespaces.initial_pid,
    };
    // A size that was asked for is taken at its word.
    let least = if plan.ring_bytes.is_some() { ring_bytes } else { MIN_RING_BYTES };
    PerfSource::open(Box::new(sys), layout, options, least).map_err(|error| match error {
        SourceError::Cpus(error) => error.into(),
        SourceError::Open(error) => refusal::explain_open(&error, cpus, facts).into(),
    })
}
