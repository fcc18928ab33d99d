//! The options that turn a recording into a verdict.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use fxtrec_gates::Gate;

use crate::report::gates::evaluate;

/// The exit status if a gate or a comparison failed, and there was no other failure.
pub const EXIT_GATE_FAILED: u8 = 3;

/// The exit status if spans took too long only because of other processes, and `--on-disturbed exit-4` was given.
pub const EXIT_DISTURBED: u8 = 4;

/// The verdict for a gate that failed only because its spans include time that others took, as given on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnDisturbed(pub evaluate::OnDisturbed);

impl ValueEnum for OnDisturbed {
    fn value_variants<'a>() -> &'a [OnDisturbed] {
        use evaluate::OnDisturbed::{Exit4, Fail, Pass};
        &[OnDisturbed(Fail), OnDisturbed(Pass), OnDisturbed(Exit4)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            evaluate::OnDisturbed::Fail => PossibleValue::new("fail").help("The gate fails"),
            evaluate::OnDisturbed::Pass => PossibleValue::new("pass").help("The gate passes"),
            evaluate::OnDisturbed::Exit4 => PossibleValue::new("exit-4")
                .help("Neither: exit with status 4, unless another gate fails"),
        })
    }
}

/// The verdict for a gate with too few values, as given on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnTooFew(pub evaluate::OnTooFew);

impl ValueEnum for OnTooFew {
    fn value_variants<'a>() -> &'a [OnTooFew] {
        &[OnTooFew(evaluate::OnTooFew::Fail), OnTooFew(evaluate::OnTooFew::Pass)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            evaluate::OnTooFew::Fail => PossibleValue::new("fail").help("The gate fails"),
            evaluate::OnTooFew::Pass => PossibleValue::new("pass").help("The gate passes"),
        })
    }
}

/// Gates, and where their verdicts go.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Gates")]
pub struct GateArgs {
    /// Exit with status 3 if this is true for the recording, for example 'wakeup.p99 > 2ms'
    ///
    /// METRIC.STAT OP VALUE [if CONDITION], as in 'wakeup.max > 20ms if comm ~ "audio*"'. Metrics are wakeup, preempt, runqueue, slice,
    /// blocked and blocked_d, and, if the recording has these facts, steal, throttled, irq and need_resched, with count, sum, min, mean,
    /// p50, p90, p99, p99.9 and max; and lost, switches, switches_per_s, migrations and moved. Conditions are on comm (=, ~ with a
    /// pattern), pid, tid and cpu, joined with and, or, not. Can be given more than once.
    ///
    /// Spans of an application: span("NAME").STAT or span("CATEGORY:NAME").PART.STAT, as in
    /// 'span("app:request").p99 > 5ms' and 'span("app:request").cpu.p99 > 2ms'. Parts are cpu, steal, irq, runqueue,
    /// strangers, throttled and blocked.
    #[arg(long, value_name = "EXPR")]
    pub fail_if: Vec<Gate>,

    /// Verdict for a gate with too few values (fewer than 10 for p90, 100 for p99, 1000 for p99.9)
    #[arg(long, value_name = "VERDICT", default_value = "fail", requires = "fail_if")]
    pub on_too_few: OnTooFew,

    /// Verdict for spans that exceed the limit only because the host, a quota or threads that COMMAND did not start took CPU time
    #[arg(long, value_name = "VERDICT", default_value = "fail", requires = "fail_if")]
    pub on_disturbed: OnDisturbed,

    /// Also count fxtrec's own threads: in gates, triggers, figures and the worst waits
    ///
    /// By default they are left out, and one line gives the CPU time that they used.
    #[arg(long)]
    pub include_recorder: bool,

    /// Also write the verdicts to this file, as JUnit XML
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    pub junit: Option<PathBuf>,
}
