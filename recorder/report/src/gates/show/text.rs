//! Verdicts on a terminal.
//!
//! ```text
//! gate   FAILED  wakeup.max > 20ms if comm ~ "audio*"
//!                wakeup.max is 23.4 ms, of 1 204 values
//!                23.4 ms  audio-io (1234) for CPU 1, until 3.204567 s; ran instead: spin (1240) 22.1 ms
//! gate   passed  lost > 0
//!                lost is 0
//! ```

use std::fmt;

use super::super::evaluate::Verdict;
use super::{blame, censored, finding};
use fxtrec_units::escape;
use fxtrec_units::look::Look;

/// Prints verdicts, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub verdicts: &'a [Verdict<'a>],
    pub colour: bool,
    /// Whether to leave out gates that passed.
    pub failures_only: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in self.verdicts {
            if verdict.failed || verdict.undecided || !self.failures_only {
                self.write(verdict, f)?;
            }
        }
        Ok(())
    }
}

impl Text<'_> {
    fn write(&self, verdict: &Verdict<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const INDENT: &str = "               ";
        let look = Look { colour: self.colour, columns: None };
        let word = match (verdict.failed, verdict.is_disturbed()) {
            (_, true) => look.doubtful("DISTURBED"),
            _ if verdict.undecided => look.doubtful("UNDECIDED"),
            (true, false) => look.bad("FAILED"),
            (false, false) => "passed".to_owned(),
        };
        writeln!(f, "gate   {word}  {}", verdict.gate)?;
        writeln!(f, "{INDENT}{}", finding(verdict))?;
        if let Some(text) = censored(verdict) {
            writeln!(f, "{INDENT}{text}")?;
        }
        if let Some(text) = blame(verdict) {
            writeln!(f, "{INDENT}{text}")?;
        }
        if verdict.is_disturbed() {
            let choice = match (verdict.failed, verdict.undecided) {
                (true, _) => "it counts as failed; --on-disturbed pass or exit-4 would excuse it",
                (_, true) => "it counts as neither failed nor passed: --on-disturbed exit-4",
                _ => "it counts as passed: --on-disturbed pass",
            };
            writeln!(f, "{INDENT}{choice}")?;
        }
        if verdict.finding.is_open() {
            let choice = if verdict.failed {
                "--on-too-few pass would accept this"
            } else {
                "--on-too-few pass accepts this"
            };
            writeln!(f, "{INDENT}{choice}")?;
        }
        for offender in &verdict.offenders {
            writeln!(f, "{INDENT}{}", escape::line(&offender.to_string()))?;
        }
        Ok(())
    }
}
