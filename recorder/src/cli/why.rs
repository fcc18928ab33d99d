//! The arguments of `fxtrec why`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::values::{TimePoint, number};
use crate::units::quantity::TimeSpan;
use crate::why;

const INTERVAL: &str = "Interval";

/// The arguments of `fxtrec why`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("pick").multiple(false),
    after_help = "\
Without options, it explains the delay that fired the trigger of a snapshot. Of any other trace, it \
explains the worst thing that happened to COMMAND: its longest span beyond the median of its name, \
else the unit of work that took unusually long, else the longest time that one of its threads was \
off the CPU and not asleep until a time of its own choice.

Examples:
  fxtrec why app.fxt                              the worst thing in the file
  fxtrec why app.fxt --thread audio               the worst thing of one thread
  fxtrec why app.fxt --span frame --worst 3       the three longest of that name
  fxtrec why app.fxt --span frame --over 20ms     all that are longer
  fxtrec why app.fxt --thread 812 --metric blocked
                                                  how long it was blocked
  fxtrec why app.fxt --thread audio --from 2s --to 2.5s
                                                  half a second of its time
  fxtrec why app.fxt --json | jq .explanations[0].sentence
  fxtrec why app.fxt --worst 5 --annotate marked.pftrace
                                                  the trace with these marked

docs/reference/why.md defines every part."
)]
pub struct WhyArgs {
    /// FXT trace, plain, gzip or zstd; - for standard input
    pub file: PathBuf,

    /// Whose time: the name or the id of a thread [default: those of COMMAND]
    #[arg(short, long, value_name = "NAME|TID", help_heading = INTERVAL)]
    pub thread: Option<String>,
    /// Spans with this name, or with this category and name, as in app:request
    #[arg(long, value_name = "NAME", conflicts_with_all = ["metric", "life"], help_heading = INTERVAL)]
    pub span: Option<String>,
    /// Which stretches of a thread's time
    #[arg(long, value_name = "METRIC", conflicts_with = "life", help_heading = INTERVAL)]
    pub metric: Option<WhyMetric>,
    /// From the first to the last record of the thread
    #[arg(long, help_heading = INTERVAL, conflicts_with = "pick")]
    pub life: bool,
    /// COMMAND from its start to its end: which threads decided how long it took
    #[arg(long, help_heading = INTERVAL, conflicts_with_all = ["thread", "span", "metric", "life", "pick", "from", "to"])]
    pub critical_path: bool,
    /// Number of the longest to explain, each by itself [default: 1]
    #[arg(long, value_name = "N", value_parser = number::<usize>, group = "pick", help_heading = INTERVAL)]
    pub worst: Option<usize>,
    /// Number of different incidents to list, in a sentence each: the worst of each thread, and none that is the cause of another
    #[arg(long, value_name = "N", value_parser = number::<usize>, group = "pick", help_heading = INTERVAL,
          conflicts_with_all = ["span", "metric", "life"])]
    pub top: Option<usize>,
    /// All that are longer than this, but no more than 20
    #[arg(long, value_name = "TIME", group = "pick", help_heading = INTERVAL)]
    pub over: Option<TimeSpan>,
    /// All that contain this time: seconds as printed, or 1.5s or +1.5 after the first scheduling record
    #[arg(long, value_name = "TIME", group = "pick", help_heading = INTERVAL)]
    pub at: Option<TimePoint>,
    /// Start of the time range; without --span and --metric, the interval itself begins there
    #[arg(long, value_name = "TIME", help_heading = INTERVAL)]
    pub from: Option<TimePoint>,
    /// End of the time range
    #[arg(long, value_name = "TIME", help_heading = INTERVAL)]
    pub to: Option<TimePoint>,

    /// Also explain what fxtrec itself delayed, and look at its threads where the trace has no COMMAND
    #[arg(long)]
    pub include_recorder: bool,

    /// Also write the trace once more, as FXT or for Perfetto by the ending of OUT (.fxt, .pftrace), with a track for each
    /// incident, and one for its chain
    #[arg(long, value_name = "OUT")]
    pub annotate: Option<PathBuf>,

    /// Print the explanations as JSON (members: docs/reference/why.md)
    #[arg(long)]
    pub json: bool,
}

/// A kind of stretches of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhyMetric {
    /// Off the CPU, and not asleep until a time of its own choice
    Late,
    /// Waiting for a CPU
    Runqueue,
    /// Blocked, until it was woken
    Blocked,
    /// From a wake-up to the next sleep
    Turn,
}

impl WhyMetric {
    /// The same for the query.
    pub fn metric(self) -> why::Metric {
        match self {
            WhyMetric::Late => why::Metric::Late,
            WhyMetric::Runqueue => why::Metric::RunQueue,
            WhyMetric::Blocked => why::Metric::Blocked,
            WhyMetric::Turn => why::Metric::Turn,
        }
    }
}
