//! What is waited for: the triggers, with their probes found.

use super::error::{ExtraError, Names};
use crate::commands::plan::flight::FlightPlan;
use crate::encode::probes::catalog::Catalog;
use crate::flight::watch::Watch;
use crate::report::gates::expr::What;

/// What to watch out for; `None` when there are no triggers.
///
/// # Errors
/// [`ExtraError::NoSuchProbe`] when a trigger waits for a probe that is not recorded.
pub(super) fn watch(plan: &FlightPlan, catalog: &Catalog) -> Result<Option<Watch>, ExtraError> {
    if plan.triggers.is_empty() {
        return Ok(None);
    }
    let mut watch = Watch::new(plan.triggers.clone(), plan.limits);
    for (at, trigger) in plan.triggers.iter().enumerate() {
        let What::Probe(name) = &trigger.what else { continue };
        let mut found = false;
        for extra in catalog.probes_called(name) {
            watch.expect(extra, at);
            found = true;
        }
        if !found {
            let mut names: Vec<String> = catalog.probe_names().map(str::to_owned).collect();
            names.sort_unstable();
            let (trigger, known) = (trigger.to_string(), Names(names));
            return Err(ExtraError::NoSuchProbe { trigger, known });
        }
    }
    Ok(Some(watch))
}
