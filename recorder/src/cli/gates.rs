//! The options that turn a recording into a verdict.

use std::path::PathBuf;

use clap::Args;

use crate::report::gates::evaluate::OnTooFew;
use fxtrec_gates::Gate;

/// The status fxtrec exits with when all went well but for a gate, or a comparison.
pub const EXIT_GATE_FAILED: u8 = 3;

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
