//! The triggers, with their probes resolved.

use super::error::{ExtraError, Names};
use crate::commands::plan::Plan;
use crate::encode::probes::catalog::Catalog;
use crate::flight::watch::Watch;
use fxtrec_gates::What;

/// The events to watch for; `None` without triggers.
///
/// # Errors
/// [`ExtraError::NoSuchProbe`] and [`ExtraError::NoAlerts`] when a trigger can never fire.
pub(super) fn watch(plan: &Plan, catalog: &Catalog) -> Result<Option<Watch>, ExtraError> {
    let flight = &plan.flight;
    if flight.triggers.is_empty() {
        return Ok(None);
    }
    let mut watch = Watch::new(flight.triggers.clone(), flight.limits);
    if plan.include_recorder {
        watch.include_recorder();
    }
    for (at, trigger) in flight.triggers.iter().enumerate() {
        let name = match &trigger.what {
            What::Probe(name) => name,
            What::Alert(_) if plan.providers.is_none() || plan.launch.is_none() => {
                return Err(ExtraError::NoAlerts { trigger: trigger.to_string() });
            }
            _ => continue,
        };
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
