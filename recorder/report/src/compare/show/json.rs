//! A comparison as JSON.

use serde_json::{Value, json};

use super::super::effect::ALPHA;
use super::super::{Comparison, Finding, Row, Run};

/// Incremented when a field that readers rely on changes its meaning; new fields do not count.
pub const SCHEMA_VERSION: u32 = 2;

/// The comparison as `docs/reference/gates.md` describes it.
pub fn json(comparison: &Comparison, failed: bool) -> Value {
    let run = |run: &Run| {
        json!({
            "file": run.name,
            "lost": run.lost,
            "at_most": run.doubt.at_most,
            "unknown_gaps": run.doubt.unknown_gaps,
        })
    };
    json!({
        "schema": "fxtrec.compare",
        "version": SCHEMA_VERSION,
        "alpha": ALPHA,
        "base": comparison.base.iter().map(run).collect::<Vec<_>>(),
        "new": comparison.new.iter().map(run).collect::<Vec<_>>(),
        "metrics": comparison.rows.iter().map(row).collect::<Vec<_>>(),
        "could_show_a_difference": comparison.not_judged().is_empty(),
        "failed": failed,
    })
}

fn row(row: &Row) -> Value {
    let finding = match row.finding {
        Finding::Larger => "larger",
        Finding::Smaller => "smaller",
        Finding::Same => "same",
        Finding::Unknown => "unknown",
    };
    // JSON has no infinity: a ratio to zero is null.
    let effect = row.effect.as_ref();
    let mut object = json!({
        "metric": row.measure.to_string(),
        "unit": row.measure.quantity.dimension().unit(),
        "base": { "runs": row.base, "median": effect.map(|effect| effect.base) },
        "new": { "runs": row.new, "median": effect.map(|effect| effect.new) },
        "ratio": effect.map(|effect| effect.ratio),
        "bound": effect.and_then(|effect| effect.bound).map(|(low, high)| [low, high]),
        "p": row.p,
        "judged": row.finding != Finding::Unknown,
        "fewest_values": row.fewest.map(|(values, _)| values),
        "values_needed": row.fewest.map(|(_, needed)| needed),
        "finding": finding,
    });
    // Left out for metrics that every recording has.
    if row.not_recorded > 0 {
        object["runs_not_recorded"] = row.not_recorded.into();
    }
    object
}
