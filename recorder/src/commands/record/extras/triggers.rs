//! The triggers, with their probes resolved.

use super::Extras;
use super::error::{ExtraError, Names};
use crate::commands::plan::Plan;
use crate::flight::watch::Watch;
use crate::kernel::extra::ExtraIndex;
use fxtrec_gates::{Lasting, What};

/// The events to watch for; `None` without triggers.
///
/// # Errors
/// Returns [`ExtraError::NoSuchProbe`], [`ExtraError::NoSuchCall`] and [`ExtraError::NoProviders`] when a trigger can never fire.
pub(super) fn watch(plan: &Plan, extras: &Extras) -> Result<Option<Watch>, ExtraError> {
    let (flight, catalog) = (&plan.flight, &extras.catalog);
    if flight.triggers.is_empty() {
        return Ok(None);
    }
    let mut watch = Watch::new(flight.triggers.clone(), flight.limits);
    if plan.include_recorder {
        watch.include_recorder();
    }
    for (at, trigger) in flight.triggers.iter().enumerate() {
        let found: Vec<ExtraIndex> = match &trigger.what {
            What::Probe(name) => catalog.probes_called(name).collect(),
            What::Lasts { what: Lasting::Call(name), .. } => {
                let called = extras.calls.iter().filter(|call| call.is_called(name));
                called.map(|call| call.returns).collect()
            }
            What::Alert(_) | What::Lasts { what: Lasting::Span(_), .. }
                if plan.providers.is_none() || plan.launch.is_none() =>
            {
                return Err(ExtraError::NoProviders { trigger: trigger.to_string() });
            }
            _ => continue,
        };
        if found.is_empty() {
            let is_call = matches!(trigger.what, What::Lasts { .. });
            let mut names: Vec<String> = match is_call {
                true => extras.calls.iter().map(|call| call.name.clone()).collect(),
                false => catalog.probe_names().map(str::to_owned).collect(),
            };
            names.sort_unstable();
            let (trigger, known) = (trigger.to_string(), Names(names));
            return Err(match is_call {
                true => ExtraError::NoSuchCall { trigger, known },
                false => ExtraError::NoSuchProbe { trigger, known },
            });
        }
        for extra in found {
            watch.expect(extra, at);
        }
    }
    Ok(Some(watch))
}
