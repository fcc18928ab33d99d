//! Explains why a thread was late: the parts of an interval of its time, and the chain of threads that it waited for.
//!
//! ```text
//!   first pass   records -> what threads do -> the longest spans and stretches   which interval to explain
//!   second pass  records -> what threads do -> the log of that interval          its steps, followed backwards
//! ```
//!
//! If the query fixes the interval (a thread's life, or a time range), the log is kept in the first pass. A second pass is needed only if
//! the log had no space for the whole interval.
//!
//! The states of threads come from the [scheduling machine](fxtrec_sched), as in the report. `docs/reference/why.md` defines every part.
//! The parts of an interval sum up to its length, and the links of its chain tile it, to the nanosecond; unknown time is a part too.
//!
//! ```
//! use fxt_reader::Reader;
//! use fxtrec_why::{Query, explain};
//!
//! # fn main() -> Result<(), fxtrec_why::WhyError> {
//! // A magic number record; on CPU 1: 40 -> 41 at 1 us, 41 (preempted) -> 40 at 3 us, and back at 9 us.
//! let words = [
//!     0x0016_5478_4604_0010_u64,
//!     0x1000_0010_0010_0048, 1_000, 40, 41,
//!     0x1000_0010_0010_0048, 3_000, 41, 40,
//!     0x1000_0010_0010_0048, 9_000, 40, 41,
//! ];
//! let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//!
//! let query = Query { thread: Some("41".to_owned()), ..Query::default() };
//! let answer = explain(&query, || Ok(Reader::from_slice(&bytes)), |_, _| None)?;
//! let why = &answer.explanations[0];
//! assert_eq!((why.from_ns, why.to_ns), (3_000, 9_000));
//! assert_eq!(why.blame.iter().map(|part| part.ns).sum::<u64>(), 6_000);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod advice;
mod answer;
mod cause;
mod choose;
mod disks;
mod explain;
mod places;
mod sentence;
mod text;
mod units;
mod waits;

#[cfg(test)]
mod tests;

use fxt_reader::Nanos;

pub use answer::{Answer, Explanation, Link, Part, Share, Wait, Who};
pub use cause::CAUSES;
pub use explain::explain;
pub use fxtrec_blame::Class;
pub use fxtrec_blame::track::{Origin, Reason};
pub use text::{describe_link, write_files, write_json, write_list, write_sentences, write_text};

/// The maximum number of intervals that are explained at once.
pub const MOST_EXPLAINED: usize = 20;

/// What to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The name or the id of a thread; `None` for COMMAND's threads.
    pub thread: Option<String>,
    /// The name of the spans.
    pub span: Option<String>,
    /// The kind of intervals of the thread.
    pub metric: Option<Metric>,
    /// The whole life of the thread.
    pub life: bool,
    pub pick: Pick,
    /// Ignores intervals that begin earlier.
    pub from: Option<u64>,
    /// Ignores intervals that end later.
    pub to: Option<u64>,
    /// Whether to include the threads of the recorder, if all threads are considered.
    pub recorder: bool,
    /// The critical path of COMMAND, from its start to its end.
    pub critical_path: bool,
}

impl Query {
    /// The time range of the interval, if the query fixes it: the whole range, or the thread's life within it.
    pub(crate) fn interval(&self) -> Option<(u64, u64)> {
        let within = self.from.is_some() || self.to.is_some();
        let is_given = self.span.is_none() && (self.life || self.metric.is_none() && within);
        is_given.then(|| (self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX)))
    }
}

impl Query {
    /// Whether the query leaves the choice to fxtrec, so that the answer may be a unit of work.
    pub(crate) fn may_be_unit(&self) -> bool {
        self.span.is_none()
            && self.metric.is_none()
            && self.interval().is_none()
            && !self.critical_path
            && matches!(self.pick, Pick::Worst(1) | Pick::Incidents(_))
    }
}

/// Which of the matching intervals to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This many of the longest.
    Worst(usize),
    /// All that are longer than this many nanoseconds.
    Over(u64),
    /// All that contain this time.
    At(u64),
    /// This number of different incidents: the worst of each thread, and none that is the cause of another.
    Incidents(usize),
}

impl Default for Pick {
    fn default() -> Pick {
        Pick::Worst(1)
    }
}

/// A kind of interval of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From when it left the CPU, or from when it was woken by something other than a thread, until it has a CPU again.
    Late,
    /// From a wakeup or a preemption until it has a CPU.
    RunQueue,
    /// From when it went to sleep until it was woken.
    Blocked,
    /// From a wakeup until it sleeps again.
    Turn,
}

impl Metric {
    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Late => "late",
            Metric::RunQueue => "runqueue",
            Metric::Blocked => "blocked",
            Metric::Turn => "turn",
        }
    }
}

/// The event that fired a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triggered {
    /// A wait for a CPU.
    Late,
    /// A time in which the thread could not run.
    Blocked,
    /// A slice, or a part that was taken from one.
    Slice,
    /// A thread's turn, from a wakeup to the next sleep.
    Turn,
    /// A span, or a call of a function.
    Span,
}

/// The reason why an interval was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A span; `count` spans have this name, and `median` is their median length.
    Span {
        name: String,
        count: u64,
        median: u64,
        /// The thread on which it began, if it is asynchronous.
        begun_on: Option<u64>,
    },
    Metric(Metric),
    /// A unit of work, from one idle wait of the thread to the next, or a single wait.
    Unit(Compared),
    /// COMMAND from its start to its end.
    Batch,
    /// A delay for which a flight recording wrote the file.
    Trigger {
        expression: String,
        what: Triggered,
    },
    /// The whole life of the thread.
    Life,
    /// A time range that the user gave.
    Range,
}

/// How a unit of work, or a single wait, compares with the others of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether it is a single wait.
    pub is_wait: bool,
    /// Whether it is the last work of the thread, after its last idle wait.
    pub is_last: bool,
    pub count: u64,
    /// Their median length.
    pub median: u64,
    /// The begin and end of a unit or wait that has the median length.
    pub usual: (u64, u64),
    /// The system call of the idle waits between units, or of this wait.
    pub call: Option<u64>,
    pub is_unusual: bool,
    /// The number of other units or waits that are unusually long.
    pub others: u64,
}

/// The reason why nothing can be explained.
#[derive(Debug)]
#[non_exhaustive]
pub enum WhyError {
    /// The trace cannot be read.
    Read(fxt_reader::Error),
    /// The trace has no switches and no wakeups.
    Empty,
    /// Nothing matches the query.
    Nothing,
    /// No thread has this name; `near` are similar names.
    NoThread { name: String, near: Vec<String> },
    /// Several threads have this name.
    Several { name: String, ids: Vec<String> },
    /// A time range was given without a thread.
    NeedsThread,
    /// A critical path without COMMAND.
    NoCommand,
    /// No span has this name; `near` are similar names.
    NoSpan { name: String, near: Vec<String> },
    /// The range is empty, or outside the recording.
    Range,
}

fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("'{name}'")).collect();
    match quoted.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", quoted.join(", ")),
    }
}

impl std::fmt::Display for WhyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WhyError::Read(error) => write!(f, "{error}"),
            WhyError::Empty => {
                write!(f, "nothing to explain: the trace has no switch and no wakeup")
            }
            WhyError::Nothing => write!(
                f,
                "nothing to explain: no matching interval begins and ends in the trace; fxtrec report lists the threads"
            ),
            WhyError::NoThread { name, near } => {
                write!(f, "no thread is called '{name}'{}", did_you_mean(near))
            }
            WhyError::Several { name, ids } => {
                let more = if ids.len() > 8 { ", ..." } else { "" };
                let ids = ids[..ids.len().min(8)].join(", ");
                write!(f, "several threads are called '{name}': choose one by its id: {ids}{more}")
            }
            WhyError::NeedsThread => {
                write!(f, "the trace has no COMMAND: choose a thread with --thread")
            }
            WhyError::NoCommand => {
                write!(
                    f,
                    "no critical path: the trace has no COMMAND, or no events of its main thread"
                )
            }
            WhyError::NoSpan { name, near } => {
                write!(f, "no span is called '{name}'{}", did_you_mean(near))
            }
            WhyError::Range => {
                write!(f, "nothing to explain: the interval is empty, or outside of the recording")
            }
        }
    }
}

impl std::error::Error for WhyError {}

impl From<fxt_reader::Error> for WhyError {
    fn from(error: fxt_reader::Error) -> WhyError {
        WhyError::Read(error)
    }
}

/// A time in seconds, for messages.
fn seconds(nanos: u64) -> String {
    Nanos(nanos).to_string()
}
