//! The pass over a trace.
//!
//! A [state machine](fxtrec_sched) determines the running thread of each CPU and the state of each thread, and how the beginning and the
//! end of each interval are known. Here these intervals become figures: a length counts only if both ends were recorded and no loss in
//! between makes it doubtful; otherwise it is counted as censored. Nothing is allocated per record: threads are found by their koid in a
//! table of slots, and names are only looked up for output.

mod causes;
mod cpu;
mod delays;
mod earlier_queues;
mod feed;
mod finish;
mod history;
mod losses;
mod observer;
mod recent;
mod records;
mod sleeps;
mod sums;
mod switches;
mod thread;
mod thread_figures;
mod worst;

#[cfg(test)]
mod tests;

use std::num::NonZero;
use std::thread::available_parallelism;

use fxt_reader::{Error, Item, Nanos, ProviderId, Reader, Visitor};
use rustc_hash::FxHashSet;

use fxtrec_blame::cpus::CpuNames;
use fxtrec_blame::threads::{CommandThreads, Recorders};
use fxtrec_sched::{Periods, Scheduler, UsualArgs};

use super::facts::{Causes, HostSteal, Quota};
use super::model::{Losses, Origin, Report, Span};
use super::selection::Selection;
use cpu::Cpus;
use feed::Fate;
use history::Segment;
pub use history::Shares;
use losses::{Dropping, Pending};
pub use observer::{Moved, Names, Observer, Ran, Switched, SwitchedOut, Vacated, Waited, Woken};
use records::SeenEvents;
use thread_figures::ThreadFigures;
use worst::Worst;

/// The number of longest waits to keep, by default.
pub const DEFAULT_WORST: usize = 10;

/// What to analyse.
#[derive(Clone, Debug)]
pub struct Options {
    pub selection: Selection,
    /// How many of the longest waits to keep.
    pub worst: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { selection: Selection::default(), worst: DEFAULT_WORST }
    }
}

/// A pass over a trace, while it runs.
#[derive(Debug)]
pub struct Analysis<O = ()> {
    observer: O,
    selection: Selection,
    thread_figures: ThreadFigures,
    /// The threads of COMMAND.
    family: CommandThreads,
    /// When the recorder let COMMAND run, and when COMMAND's process ended, if known.
    command: (Option<u64>, Option<u64>),
    /// COMMAND's processes that the recorder has let run.
    let_run: FxHashSet<u64>,
    cpus: Cpus,
    worst: Worst,
    /// The threads that had the CPU in the last wait that ended, sorted; kept to reuse the memory.
    meanwhile: Segment,
    shares: Shares,
    losses: Losses,
    origin: Option<Origin>,
    /// The descriptions of recordings that were merged.
    origins: Vec<Origin>,
    cpu_names: CpuNames,
    causes: Causes,
    host: Vec<HostSteal>,
    quotas: Vec<Quota>,
    /// When cgroups were throttled.
    periods: Periods,
    ignored_wakeups: u64,
    seen: SeenEvents,
    /// The time of the last record.
    now: u64,
    span: Option<Span>,
    /// The selected part of the trace.
    wanted: Wanted,
    active: bool,
    pending: Pending,
    /// Whether the trace has the switches of only some threads.
    narrow: bool,
    usual_args: UsualArgs,
    /// The provider of fxtrec's own records.
    own: Option<ProviderId>,
    recorders: Recorders,
    /// Strings and threads that exceeded the reader's limits.
    strings_left_out: u64,
    /// Which provider writes the scheduling records.
    scheduler: Scheduler,
    dropping: Dropping,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    from: u64,
    to: u64,
}

/// Traces of at most this many bytes are analysed by one thread: a second one would not pay off.
const LONG: u64 = 8 << 20;

/// Analyses a whole trace. Damaged places are gaps. With more than one CPU, a second thread analyses a long trace from its second MiB on,
/// while this one decodes.
///
/// # Errors
///
/// The errors of [`Reader::next`], except for damage.
pub fn analyse(reader: Reader<'_>, options: Options) -> Result<Report, Error> {
    match available_parallelism().map_or(1, NonZero::get) {
        1 => analyse_alone(reader, options),
        _ => analyse_from(reader, options, LONG),
    }
}

/// Like [`analyse`], but uses only this thread, for callers that use the other CPUs themselves.
///
/// # Errors
///
/// The same as for [`analyse`].
pub fn analyse_alone(reader: Reader<'_>, options: Options) -> Result<Report, Error> {
    analyse_from(reader, options, u64::MAX)
}

/// Like [`analyse`], with two threads from the first record that begins at `offset` or later.
pub(crate) fn analyse_from(
    mut reader: Reader<'_>,
    options: Options,
    offset: u64,
) -> Result<Report, Error> {
    let mut first = First { analysis: Analysis::new(options, ()), offset, is_over: false };
    loop {
        match reader.show_all(&mut first) {
            // Traces of other recorders may need the weights in the records, which are not handed over.
            Ok(false) if !first.is_over && first.analysis.thread_figures.by_fxtrec => {
                first.offset = u64::MAX;
                let (analysis, fate) = feed::pass(&mut reader, first.analysis)?;
                first.analysis = analysis;
                match fate {
                    Fate::End => return Ok(ended(first.analysis, &reader).0),
                    // In that case, the end of the trace is irrelevant.
                    Fate::Over => return Ok(first.analysis.finish().0),
                    Fate::Damage => first.analysis.damaged(),
                    Fate::NoThread => {}
                }
            }
            Ok(false) if !first.is_over => first.offset = u64::MAX,
            Ok(_) => return Ok(ended(first.analysis, &reader).0),
            Err(Error::Damaged(_)) => {
                // Most damaged traces have more than one damaged part.
                first.offset = u64::MAX;
                first.analysis.damaged();
            }
            Err(error) => return Err(error),
        }
    }
}

/// An analysis of the records before an offset.
struct First {
    analysis: Analysis<()>,
    offset: u64,
    /// Whether the end of the selected part was reached.
    is_over: bool,
}

impl Visitor for First {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        let goes_on = self.analysis.visit(item);
        self.is_over = !goes_on;
        goes_on && item.offset < self.offset
    }
}

/// The result of an analysis after the reader has delivered all the records that it needs.
fn ended<O: Observer>(mut analysis: Analysis<O>, reader: &Reader<'_>) -> (Report, O) {
    let summary = reader.summary();
    analysis.losses.truncated = summary.is_truncated();
    analysis.strings_left_out = summary.left_out;
    analysis.finish()
}

/// Analyses a whole trace, and reports each step to `observer`.
///
/// # Errors
///
/// The errors of [`Reader::next`], except for damage.
pub fn observe<O: Observer>(
    mut reader: Reader<'_>,
    options: Options,
    observer: O,
) -> Result<(Report, O), Error> {
    let mut analysis = Analysis::new(options, observer);
    loop {
        match reader.show_all(&mut analysis) {
            Ok(_) => break,
            Err(Error::Damaged(_)) => analysis.damaged(),
            Err(error) => return Err(error),
        }
    }
    Ok(ended(analysis, &reader))
}

impl<O: Observer> Analysis<O> {
    /// An analysis without any records yet.
    pub fn new(options: Options, observer: O) -> Analysis<O> {
        let Options { selection, worst } = options;
        Analysis {
            observer,
            thread_figures: ThreadFigures::default(),
            family: CommandThreads::default(),
            command: (None, None),
            let_run: FxHashSet::default(),
            cpus: Cpus::default(),
            worst: Worst::new(worst, &selection.threads),
            meanwhile: Segment::default(),
            shares: Shares::default(),
            losses: Losses::default(),
            origin: None,
            origins: Vec::new(),
            cpu_names: CpuNames::default(),
            causes: Causes::default(),
            host: Vec::new(),
            quotas: Vec::new(),
            periods: Periods::default(),
            ignored_wakeups: 0,
            seen: SeenEvents::default(),
            now: 0,
            span: None,
            wanted: Wanted { from: 0, to: u64::MAX },
            active: false,
            pending: Pending::Nothing,
            narrow: false,
            usual_args: UsualArgs::default(),
            own: None,
            recorders: Recorders::default(),
            strings_left_out: 0,
            scheduler: Scheduler::default(),
            dropping: Dropping::default(),
            selection,
        }
    }

    /// Something could not be read: this is a gap on all CPUs, at the next record.
    pub fn damaged(&mut self) {
        self.losses.damaged += 1;
        self.pending = Pending::Damage;
    }

    /// Advances to the time of a scheduling record. False after the end of the selected part.
    #[inline]
    fn advance(&mut self, time: Nanos) -> bool {
        let time = time.0.max(self.now);
        if !self.active || time > self.wanted.to || self.pending != Pending::Nothing {
            return self.advance_slowly(time);
        }
        self.now = time;
        true
    }

    #[cold]
    fn advance_slowly(&mut self, time: u64) -> bool {
        if self.span.is_none() {
            let begin = Nanos(time);
            self.span = Some(Span { begin, end: begin });
            let range = self.selection.range;
            self.wanted = Wanted {
                from: range.from.map_or(0, |moment| moment.resolve(begin).0),
                to: range.to.map_or(u64::MAX, |moment| moment.resolve(begin).0),
            };
        }
        if time > self.wanted.to {
            self.now = self.wanted.to.max(self.now);
            return false;
        }
        if !self.active && time >= self.wanted.from {
            let begin = self.wanted.from.max(self.now);
            self.now = if begin == 0 { time } else { begin };
            self.activate();
        }
        self.now = time;
        self.settle_pending();
        true
    }

    /// The selected part begins: known states are kept, open intervals are cut.
    fn activate(&mut self) {
        self.active = true;
        let begin = match &mut self.span {
            Some(span) => {
                span.begin = Nanos(self.now.max(span.begin.0));
                span.begin.0
            }
            None => self.now,
        };
        self.now = begin;
        self.cpus.forget_queues(None, begin);
        self.cpus.activate(begin, &self.selection);
    }
}
