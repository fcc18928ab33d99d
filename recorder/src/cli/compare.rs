//! The arguments of `fxtrec compare`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::gates::OnTooFew;
use crate::report::compare::DEFAULT_MEASURES;
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

Noise is told from change by a rank test over whole runs, so it takes several runs a side: five
with the metrics of the default, four with a single --metric.

A metric that too few runs have enough values for is not judged, and fails no other.

Exit status: 0; 3 when --fail-if-worse finds something worse, or could judge no metric at all;
125 when a file cannot be read."
)]
pub struct CompareArgs {
    /// Traces to compare with, one for each run
    #[arg(value_name = "BASE.fxt", required = true)]
    pub base: Vec<PathBuf>,

    /// Traces to judge, one for each run
    #[arg(value_name = "NEW.fxt", required = true, last = true)]
    pub new: Vec<PathBuf>,

    /// What to compare, as in a gate: METRIC.STAT [if CONDITION]; can be given more than once
    #[arg(long = "metric", value_name = "MEASURE", default_values = DEFAULT_MEASURES)]
    pub measures: Vec<Measure>,

    /// Exit with status 3 if a metric is larger by more than this, and not by chance
    #[arg(long, value_name = "PERCENT")]
    pub fail_if_worse: Option<Percent>,

    /// What becomes of --fail-if-worse when no metric can be judged: too few runs, or too few values
    #[arg(long, value_name = "VERDICT", default_value = "fail", requires = "fail_if_worse")]
    pub on_too_few: OnTooFew,

    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// A share in per cent: `10%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(f64);

impl Percent {
    /// The share: 0.1 for 10 %.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

/// Something that is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number and a per cent sign, such as 10%")]
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
