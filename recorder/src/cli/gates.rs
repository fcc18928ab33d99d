//! The options that turn a recording into a verdict.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use fxtrec_gates::Gate;

use crate::report::gates::evaluate;

/// The status fxtrec exits with when all went well but for a gate, or a comparison.
pub const EXIT_GATE_FAILED: u8 = 3;

/// What becomes of a gate that there are too few values for, as it is given on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnTooFew(pub evaluate::OnTooFew);

impl ValueEnum for OnTooFew {
    fn value_variants<'a>() -> &'a [OnTooFew] {
        &[OnTooFew(evaluate::OnTooFew::Fail), OnTooFew(evaluate::OnTooFew::Pass)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            evaluate::OnTooFew::Fail => PossibleValue::new("fail")
                .help("It fails: what was not measured is not known to be well"),
            evaluate::OnTooFew::Pass => PossibleValue::new("pass").help("It passes"),
        })
    }
}

/// Gates, and where their verdicts go.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Gates")]
pub struct GateArgs {
    /// Exit with status 3 if this is so, for example 'wakeup.p99 > 2ms'
    ///
    /// METRIC.STAT OP VALUE [if CONDITION], as in 'wakeup.max > 20ms if comm ~ "audio*"'. Metrics are wakeup,
    /// preempt, runqueue, slice, blocked and blocked_d, with count, sum, min, mean, p50, p90, p99, p99.9 and max;
    /// and lost, switches, switches_per_s and migrations. Conditions are on comm (=, ~ with a pattern), pid, tid and
    /// cpu, joined with and, or, not. Can be given more than once.
    #[arg(long, value_name = "EXPR")]
    pub fail_if: Vec<Gate>,

    /// What becomes of a gate with too few values to tell: 10 for p90, 100 for p99, 1000 for p99.9
    #[arg(long, value_name = "VERDICT", default_value = "fail", requires = "fail_if")]
    pub on_too_few: OnTooFew,

    /// Write the verdicts to this file as JUnit XML as well
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    pub junit: Option<PathBuf>,
}
