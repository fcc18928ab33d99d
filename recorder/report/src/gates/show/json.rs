//! Verdicts as JSON, as a member of the report's JSON.

use serde::Serialize;

use super::super::evaluate::{Blame, Finding, Verdict};
use super::{blame, censored, finding};

/// A verdict in the format of `docs/reference/figures.md`.
#[derive(Debug, Serialize)]
pub struct JsonVerdict {
    gate: String,
    finding: &'static str,
    verdict: &'static str,
    unit: &'static str,
    measured: Option<f64>,
    undisturbed: Option<f64>,
    uncertain: Option<u64>,
    samples: Option<u64>,
    censored: u64,
    text: Vec<String>,
}

impl JsonVerdict {
    /// Converts a verdict for output.
    pub fn of(verdict: &Verdict<'_>) -> JsonVerdict {
        let taken = match &verdict.blame {
            Some(Blame::Others(taken) | Blame::Both(taken)) => Some(taken),
            _ => None,
        };
        let lines = [Some(finding(verdict)), blame(verdict), censored(verdict)];
        let offenders = verdict.offenders.iter().map(ToString::to_string);
        JsonVerdict {
            gate: verdict.gate.to_string(),
            finding: match verdict.finding {
                Finding::Broken if verdict.is_disturbed() => "disturbed",
                Finding::Broken => "broken",
                Finding::Kept => "kept",
                Finding::TooFew { .. } | Finding::NoThread => "too_few",
                Finding::NotRecorded => "not_recorded",
                Finding::RecordsLost => "records_lost",
                Finding::NamesMissing => "names_missing",
            },
            verdict: match (verdict.failed, verdict.undecided) {
                (true, _) => "failed",
                (false, true) => "undecided",
                (false, false) => "passed",
            },
            unit: verdict.gate.quantity.dimension().unit(),
            measured: verdict.measured.map(|measured| measured.number),
            undisturbed: taken.map(|taken| taken.undisturbed.number),
            uncertain: taken.map(|taken| taken.uncertain),
            samples: verdict.samples,
            censored: verdict.censored,
            text: lines.into_iter().flatten().chain(offenders).collect(),
        }
    }
}
