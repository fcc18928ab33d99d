//! Verdicts on a terminal.
//!
//! ```text
//! gate   FAILED  wakeup.max > 20ms if comm ~ "audio*"
//!                wakeup.max is 23.4 ms, of 1 204 values
//!                23.4 ms  audio-io (1234) for CPU 1, until 3.204567 s; meanwhile there: spin (1240) 22.1 ms
//! gate   passed  lost > 0
//!                lost is 0
//! ```

use std::fmt;

use super::super::evaluate::Verdict;
use super::{censored, finding};
use fxtrec_units::escape;

/// Shows verdicts, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub verdicts: &'a [Verdict<'a>],
    pub colour: bool,
    /// Whether those that passed are left out.
    pub failures_only: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in self.verdicts {
            if verdict.failed || !self.failures_only {
                self.write(verdict, f)?;
            }
        }
        Ok(())
    }
}

impl Text<'_> {
    fn write(&self, verdict: &Verdict<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const INDENT: &str = "               ";
        let word = match (verdict.failed, self.colour) {
            (true, true) => "\x1b[1;31mFAILED\x1b[0m",
            (true, false) => "FAILED",
            (false, _) => "passed",
        };
        writeln!(f, "gate   {word}  {}", verdict.gate)?;
        writeln!(f, "{INDENT}{}", finding(verdict))?;
        if let Some(text) = censored(verdict) {
            writeln!(f, "{INDENT}{text}")?;
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
