//! The arguments of `fxtrec compare`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::gates::OnTooFew;
use fxtrec_gates::Measure;

/// The arguments of `fxtrec compare`.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "fxtrec compare [OPTIONS] BASE.fxt... -- NEW.fxt...",
    after_help = "\
Examples:
  fxtrec compare before-*.fxt -- after-*.fxt
  fxtrec compare --metric 'wakeup.p99 if comm ~ \"audio*\"' a*.fxt -- b*.fxt
  fxtrec compare --fail-if-worse 10% main-*.fxt.zst -- branch-*.fxt.zst

A rank test over whole runs distinguishes change from noise, so it needs several runs per side: five with \
the default metrics, four with a single --metric. A metric for which too few runs have enough \
values is not judged, and does not affect the others.

Exit status: 0; 3 when --fail-if-worse finds a metric that is worse, or cannot judge any; \
125 when a file cannot be read."
)]
pub struct CompareArgs {
    /// Traces from before the change, one per run, or directories of them
    #[arg(value_name = "BASE.fxt", required = true)]
    pub base: Vec<PathBuf>,

    /// Traces from after the change, one per run, or directories of them
    #[arg(value_name = "NEW.fxt", required = true, last = true)]
    pub new: Vec<PathBuf>,

    /// What to compare, as in a gate: METRIC.STAT [if CONDITION]; can be given more than once
    ///
    /// By default COMMAND's duration, its CPU time, its run-queue time, its blocked time (cpu_time, runqueue.sum and blocked_time if
    /// command), and the waits of its threads for a CPU (runqueue.p99 if command). If not all traces have a COMMAND: wakeup.p50,
    /// wakeup.p99, wakeup.max, preempt.p99 and runqueue.p99 of all threads.
    #[arg(long = "metric", value_name = "MEASURE")]
    pub measures: Vec<Measure>,

    /// Also count fxtrec's own threads, which are left out otherwise
    #[arg(long)]
    pub include_recorder: bool,

    /// Exit with status 3 if a metric has grown by more than this and the growth is statistically significant
    #[arg(long, value_name = "PERCENT")]
    pub fail_if_worse: Option<Percent>,

    /// Verdict of --fail-if-worse when no metric can be judged (too few runs or values)
    #[arg(long, value_name = "VERDICT", default_value = "fail", requires = "fail_if_worse")]
    pub on_too_few: OnTooFew,

    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// A percentage, written `10%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(f64);

impl Percent {
    /// As a fraction: 0.1 for 10 %.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

/// A string that is not a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a percentage, such as 10%")]
pub struct NoPercent;

impl FromStr for Percent {
    type Err = NoPercent;

    fn from_str(text: &str) -> Result<Percent, NoPercent> {
        let number = text.strip_suffix('%').ok_or(NoPercent)?.trim_end();
        let plain = number.starts_with(|c: char| c.is_ascii_digit());
        let value: f64 = number.parse().map_err(|_| NoPercent)?;
        if plain && value.is_finite() { Ok(Percent(value)) } else { Err(NoPercent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_with_a_sign() {
        let share = |text: &str| text.parse::<Percent>().map(Percent::share);
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("2.5 %"), Ok(0.025));
        assert_eq!(share("0%"), Ok(0.0));
        assert_eq!(share("250%"), Ok(2.5));
        for bad in ["10", "%", "-5%", "+5%", "inf%", "nan%", "ten%", "1,5%", ""] {
            assert_eq!(share(bad), Err(NoPercent), "{bad}");
        }
    }
}
