//! Why a thread was late: the parts of an interval of its time, and the chain of threads that it waited for.
//!
//! ```text
//!   first pass   records -> what threads do -> the longest spans and stretches   which interval to explain
//!   second pass  records -> what threads do -> the log of that interval          its steps, followed backwards
//! ```
//!
//! Where the query says which interval it is (a thread's life, or from when to when), the log is kept in the first pass, and there
//! is no second one unless it had no room for all of it.
//!
//! What threads do is worked out by the [scheduling machine](fxtrec_sched), as in the report. `docs/reference/why.md` defines every part.
//! The parts of an interval sum up to it, and the links of its chain tile it, to the nanosecond; what is not known is a part
//! too.
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
mod choose;
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
pub use explain::explain;
pub use fxtrec_blame::Class;
pub use fxtrec_blame::track::{Origin, Reason};
pub use text::{describe_link, write_json, write_text};

/// So many intervals are explained at once.
pub const MOST_EXPLAINED: usize = 20;

/// What is to be explained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The name or the id of a thread; without, COMMAND's threads.
    pub thread: Option<String>,
    /// The name of the spans.
    pub span: Option<String>,
    /// Which of the thread's stretches.
    pub metric: Option<Metric>,
    /// The whole life of the thread.
    pub life: bool,
    pub pick: Pick,
    /// Nothing that begins before.
    pub from: Option<u64>,
    /// Nothing that ends after.
    pub to: Option<u64>,
    /// Whether the threads that made the recording count as well, where all threads do.
    pub recorder: bool,
    /// The critical path of COMMAND, from its start to its end.
    pub critical_path: bool,
}

impl Query {
    /// Within which times the interval is, if the query says which one that is: all of them, or the thread's life in them.
    pub(crate) fn interval(&self) -> Option<(u64, u64)> {
        let within = self.from.is_some() || self.to.is_some();
        let is_given = self.span.is_none() && (self.life || self.metric.is_none() && within);
        is_given.then(|| (self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX)))
    }
}

impl Query {
    /// Whether the query leaves it open what is explained, so that it may be a unit of work.
    pub(crate) fn may_be_unit(&self) -> bool {
        self.span.is_none()
            && self.metric.is_none()
            && self.interval().is_none()
            && !self.critical_path
            && self.pick == Pick::Worst(1)
    }
}

/// Which of those that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// So many of the longest.
    Worst(usize),
    /// All that are longer than so many nanoseconds.
    Over(u64),
    /// All in which this time is.
    At(u64),
}

impl Default for Pick {
    fn default() -> Pick {
        Pick::Worst(1)
    }
}

/// A kind of stretches of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From when it left the CPU, or from when it was woken by no thread, until it has a CPU again.
    Late,
    /// From a wake-up or a preemption until it has a CPU.
    RunQueue,
    /// From when it went to sleep until it was woken.
    Blocked,
    /// From a wake-up until it sleeps again.
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

/// Why an interval was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It is a span, of which there are so many with that median length.
    Span {
        name: String,
        count: u64,
        median: u64,
        /// The thread on which it began, if it is asynchronous.
        begun_on: Option<u64>,
    },
    Metric(Metric),
    /// It is a piece of work, from one idle wait of the thread to the next, or a single wait.
    Unit(Compared),
    /// It is COMMAND from its start to its end.
    Batch,
    /// A flight recording wrote the file for it.
    Trigger {
        expression: String,
        /// Which kind of stretch it is; `None` for a slice.
        metric: Option<Metric>,
    },
    /// It is the whole life of the thread.
    Life,
    /// It was asked for.
    Range,
}

/// How a unit of work, or a single wait, compares with the others of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether it is a wait.
    pub is_wait: bool,
    pub count: u64,
    /// The median length of them.
    pub median: u64,
    /// When one of that length began and ended.
    pub usual: (u64, u64),
    /// The system call of the idle waits between units, or of this wait.
    pub call: Option<u64>,
    pub is_unusual: bool,
    /// How many others are unusual.
    pub others: u64,
}

/// Why there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum WhyError {
    /// The trace cannot be read.
    Read(fxt_reader::Error),
    /// No switch and no wake-up.
    Empty,
    /// Nothing that fits.
    Nothing,
    /// No thread is called so. Names that are like it.
    NoThread { name: String, near: Vec<String> },
    /// Several threads are called so.
    Several { name: String, tids: Vec<u64> },
    /// An interval without a thread.
    NeedsThread,
    /// A critical path without a COMMAND.
    NoCommand,
    /// No span is called so. Names that are like it.
    NoSpan { name: String, near: Vec<String> },
    /// The interval is empty, or not within the recording.
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
                write!(f, "nothing to explain: the trace has no switch and no wake-up")
            }
            WhyError::Nothing => write!(
                f,
                "nothing to explain: nothing that fits has a beginning and an end in the trace; \
                 fxtrec report lists the threads"
            ),
            WhyError::NoThread { name, near } => {
                write!(f, "no thread is called '{name}'{}", did_you_mean(near))
            }
            WhyError::Several { name, tids } => {
                let shown: Vec<String> = tids.iter().take(8).map(u64::to_string).collect();
                let tids =
                    format!("{}{}", shown.join(", "), if tids.len() > 8 { ", ..." } else { "" });
                write!(f, "several threads are called '{name}': choose one by its id: {tids}")
            }
            WhyError::NeedsThread => {
                write!(f, "the trace has no COMMAND: say whose time with --thread")
            }
            WhyError::NoCommand => {
                write!(
                    f,
                    "no critical path: the trace has no COMMAND, or nothing of its main thread"
                )
            }
            WhyError::NoSpan { name, near } => {
                write!(f, "no span is called '{name}'{}", did_you_mean(near))
            }
            WhyError::Range => write!(
                f,
                "nothing to explain: the interval is empty, or outside of what was recorded"
            ),
        }
    }
}

impl std::error::Error for WhyError {}

impl From<fxt_reader::Error> for WhyError {
    fn from(error: fxt_reader::Error) -> WhyError {
        WhyError::Read(error)
    }
}

/// A time as it is printed: seconds.
fn seconds(nanos: u64) -> String {
    Nanos(nanos).to_string()
}
