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
Without options, it explains the delay that fired the trigger of a snapshot. For any other trace, it explains the worst delay of COMMAND: the span that most exceeds the median of its name, else the unit of work that took unusually long, else the longest time that one of its threads was off the CPU, except for sleeps that the thread's own timer ends.

Examples:
  fxtrec why app.fxt                              the worst delay in the file
  fxtrec why app.fxt --thread audio               the worst delay of one thread
  fxtrec why app.fxt --span frame --worst 3       the 3 longest with that name
  fxtrec why app.fxt --span frame --over 20ms     all that are longer
  fxtrec why app.fxt --thread 812 --metric blocked
                                                  how long it was blocked
  fxtrec why app.fxt --thread audio --from 2s --to 2.5s
                                                  half a second of its time
  fxtrec why app.fxt --json | jq .explanations[0].sentence
  fxtrec why runs/ --top 10                       the ten worst of all traces
  fxtrec why app.fxt --at 20:37:56                at that time of day (UTC)
  fxtrec why app.fxt --worst 5 --annotate marked.pftrace
                                                  mark them in a copy

docs/reference/why.md defines every part."
)]
pub struct WhyArgs {
    /// FXT trace, plain, gzip or zstd; - for standard input
    pub file: PathBuf,
    /// More traces; directories stand for all traces in them. The worst interval of each is listed, or the N worst of all with --top, the
    /// worst one first
    pub more: Vec<PathBuf>,

    /// Thread to explain, by name or id; in a merged trace also NAME@HOST or TID@HOST [default: COMMAND's threads]
    #[arg(short, long, value_name = "NAME|TID", help_heading = INTERVAL)]
    pub thread: Option<String>,
    /// Only spans with this name, or with this category and name, as in app:request
    #[arg(long, value_name = "NAME", conflicts_with_all = ["metric", "life"], help_heading = INTERVAL)]
    pub span: Option<String>,
    /// Kind of interval to explain
    #[arg(long, value_name = "METRIC", conflicts_with = "life", help_heading = INTERVAL)]
    pub metric: Option<WhyMetric>,
    /// Explain the whole life of the thread, from its first record to its last
    #[arg(long, help_heading = INTERVAL, conflicts_with = "pick")]
    pub life: bool,
    /// Explain COMMAND from its start to its end: which threads determined how long it took
    #[arg(long, help_heading = INTERVAL, conflicts_with_all = ["thread", "span", "metric", "life", "pick", "from", "to"])]
    pub critical_path: bool,
    /// Number of longest intervals to explain, each by itself [default: 1]
    #[arg(long, value_name = "N", value_parser = number::<usize>, group = "pick", help_heading = INTERVAL)]
    pub worst: Option<usize>,
    /// Number of incidents to list, one sentence each: the worst of each thread, without those that another incident already explains
    #[arg(long, value_name = "N", value_parser = number::<usize>, group = "pick", help_heading = INTERVAL,
          conflicts_with_all = ["span", "metric", "life"])]
    pub top: Option<usize>,
    /// Explain all intervals longer than this, at most 20
    #[arg(long, value_name = "TIME", group = "pick", help_heading = INTERVAL)]
    pub over: Option<TimeSpan>,
    /// Explain all intervals that contain this time: seconds as printed, 1.5s or +1.5 after the first scheduling record, or HH:MM:SS in UTC
    #[arg(long, value_name = "TIME", group = "pick", help_heading = INTERVAL)]
    pub at: Option<TimePoint>,
    /// Start of the time range; without --span and --metric, the interval itself begins there
    #[arg(long, value_name = "TIME", help_heading = INTERVAL)]
    pub from: Option<TimePoint>,
    /// End of the time range
    #[arg(long, value_name = "TIME", help_heading = INTERVAL)]
    pub to: Option<TimePoint>,

    /// Also explain delays that fxtrec itself caused, and include its threads if the trace has no COMMAND
    #[arg(long)]
    pub include_recorder: bool,

    /// Also write a copy of the trace, as FXT or for Perfetto by the extension of OUT (.fxt, .pftrace), with a track for each incident, and
    /// one for its chain
    #[arg(long, value_name = "OUT")]
    pub annotate: Option<PathBuf>,

    /// Print the explanations as JSON (members: docs/reference/why.md)
    #[arg(long)]
    pub json: bool,
}

/// Kind of interval to explain to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhyMetric {
    /// Off the CPU, except for sleeps that the thread's own timer ends
    Late,
    /// Waiting for a CPU
    Runqueue,
    /// Blocked, until the wakeup
    Blocked,
    /// From a wakeup to the next sleep
    Turn,
}

impl WhyMetric {
    /// This metric in the query's type.
    pub fn metric(self) -> why::Metric {
        match self {
            WhyMetric::Late => why::Metric::Late,
            WhyMetric::Runqueue => why::Metric::RunQueue,
            WhyMetric::Blocked => why::Metric::Blocked,
            WhyMetric::Turn => why::Metric::Turn,
        }
    }
}
