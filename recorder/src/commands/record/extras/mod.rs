//! Non-scheduler events: from the options to the events to open, the handling of their samples, and the events that triggers watch.

mod error;
mod events;
mod interrupts;
mod probes;
mod syscalls;
mod triggers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use error::ExtraError;

use crate::commands::plan::{Filter, Plan};
use crate::encode::probes::catalog::{Catalog, Entry};
use crate::flight::watch::Watch;
use crate::kernel::bpf::probes::Links;
use crate::kernel::bpf::sys::BpfSys;
use crate::kernel::extra::{Extra, ExtraIndex};
use crate::kernel::sys::Sys;
use crate::kernel::tracefs::Tracefs;
use crate::kernel::uprobe::definitions::{self, Definitions};
use crate::probe::Context;

/// Non-scheduler events to record.
#[derive(Debug, Default)]
pub(super) struct Extras {
    events: Vec<Extra>,
    /// The records to write for their samples.
    pub(super) catalog: Catalog,
    /// The functions that are recorded from call to return.
    calls: Vec<Call>,
    /// The triggers, if there are any.
    pub(super) watch: Option<Watch>,
    /// Must be dropped after the events have been closed.
    pub(super) placed: Placed,
}

/// A function that is recorded from call to return.
#[derive(Debug)]
struct Call {
    /// The event of its return.
    returns: ExtraIndex,
    /// The name in the trace.
    name: String,
    binary: PathBuf,
    symbol: String,
}

impl Call {
    /// Whether `text` is its name, or BINARY:SYMBOL with the path or the file name of its binary.
    fn is_called(&self, text: &str) -> bool {
        let file = self.binary.file_name().map(Path::new).unwrap_or(&self.binary);
        let of = |binary: &Path| text == format!("{}:{}", binary.display(), self.symbol);
        text == self.name || of(&self.binary) || of(file)
    }
}

/// Keeps probes in place; dropping it removes them.
#[derive(Debug, Default)]
pub(super) struct Placed {
    links: Option<Links>,
    /// The definitions that were created in tracefs.
    definitions: Option<Definitions>,
}

impl Extras {
    /// Resolves the plan's options on this machine. It only changes the definitions that [`Extras::placed`] holds; it also removes those
    /// that killed recorders have left. BPF programs may be used if `bpf` is given.
    ///
    /// # Errors
    /// Returns [`ExtraError`].
    pub(super) fn new(
        sys: &dyn Sys,
        bpf: Option<&dyn BpfSys>,
        plan: &Plan,
    ) -> Result<Extras, ExtraError> {
        let mut extras = Extras::beside(sys, bpf, plan)?;
        extras.watch = triggers::watch(plan, &extras)?;
        Ok(extras)
    }

    fn beside(sys: &dyn Sys, bpf: Option<&dyn BpfSys>, plan: &Plan) -> Result<Extras, ExtraError> {
        let mut extras = Extras::default();
        if let Ok(Some(tracefs)) = Tracefs::find_mounted(sys) {
            // Definitions that cannot be read cannot be removed; they only clutter the list.
            let _ = definitions::sweep(sys, &tracefs);
        }
        let wanted = &plan.trace_points;
        if wanted.is_empty() {
            return Ok(extras);
        }
        let tracefs = Tracefs::find(sys)?;
        let narrow = plan.scope != Filter::Machine;
        if !wanted.probes.is_empty() {
            let context = Context::new(plan.launch.as_ref(), plan.pids());
            extras = probes::open(sys, bpf, &tracefs, plan, &context)?;
        }
        for spec in &wanted.events {
            events::add(&mut extras, sys, &tracefs, spec, narrow)?;
        }
        if !wanted.syscalls.is_empty() {
            syscalls::add(&mut extras, sys, &tracefs, &wanted.syscalls, wanted.in_scope_only)?;
        }
        if wanted.irq {
            interrupts::add(&mut extras, sys, &tracefs)?;
        }
        match u16::try_from(extras.events.len()) {
            Ok(_) => Ok(extras),
            Err(_) => Err(ExtraError::TooMany(extras.events.len())),
        }
    }

    /// The events to open on each CPU.
    pub(super) fn events(&self) -> Arc<[Extra]> {
        self.events.as_slice().into()
    }

    fn add(&mut self, extra: Extra, entry: Entry) {
        self.events.push(extra);
        self.catalog.add(entry);
    }
}
