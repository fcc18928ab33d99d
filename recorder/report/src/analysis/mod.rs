//! The pass over a trace.
//!
//! Who has which CPU and what each thread does is worked out by a [machine](fxtrec_sched), which says how the beginning and
//! the end of each stretch of time are known. Here these become figures: a length of time counts only when both of its ends
//! were reported, and nothing was lost in between that makes it doubtful; otherwise it is counted as censored. Nothing is
//! allocated per record: threads are found by their koid in a table of slots, names are looked at only when somebody is to
//! be named.

mod causes;
mod cpu;
mod delays;
mod feed;
mod finish;
mod history;
mod losses;
mod observer;
mod recent;
mod records;
mod roster;
mod sleeps;
mod sums;
mod switches;
mod thread;
mod way;
mod worst;

#[cfg(test)]
mod tests;

use std::num::NonZero;
use std::thread::available_parallelism;

use fxt_reader::{Error, Item, Nanos, ProviderId, Reader, Visitor};

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
use records::Told;
use roster::Roster;
use worst::Worst;

/// So many of the longest waits are kept unless told otherwise.
pub const DEFAULT_WORST: usize = 10;

/// What is wanted of an analysis.
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

/// A pass over a trace that is under way.
#[derive(Debug)]
pub struct Analysis<O = ()> {
    observer: O,
    selection: Selection,
    roster: Roster,
    /// Which threads are COMMAND's.
    family: CommandThreads,
    /// When COMMAND was let run, and when its process ended, as far as that is known.
    command: (Option<u64>, Option<u64>),
    cpus: Cpus,
    worst: Worst,
    /// Who had the CPU in the wait that ended last, and the same in order: kept for their memory.
    meanwhile: Segment,
    shares: Shares,
    losses: Losses,
    origin: Option<Origin>,
    causes: Causes,
    host: Vec<HostSteal>,
    quotas: Vec<Quota>,
    /// When cgroups were throttled.
    periods: Periods,
    ignored_wakeups: u64,
    told: Told,
    /// The time of the last record that was looked at.
    now: u64,
    span: Option<Span>,
    /// The part of the trace that is wanted.
    wanted: Wanted,
    active: bool,
    pending: Pending,
    /// Whether the trace holds the switches of some threads only.
    narrow: bool,
    usual_args: UsualArgs,
    /// That of fxtrec's own records.
    own: Option<ProviderId>,
    recorders: Recorders,
    /// Strings and threads for which the reader had no room.
    strings_left_out: u64,
    /// Whose scheduling records these are.
    scheduler: Scheduler,
    dropping: Dropping,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    from: u64,
    to: u64,
}

/// What is no longer than this, in bytes, is analysed by one thread: another would not be worth its while.
const LONG: u64 = 8 << 20;

/// Analyses a whole trace. Damaged places are gaps. With more than one CPU, a thread of its own analyses what a long
/// trace has after its first MiB, while this one decodes.
///
/// # Errors
///
/// Those of [`Reader::next`], apart from damage.
pub fn analyse(reader: Reader<'_>, options: Options) -> Result<Report, Error> {
    match available_parallelism().map_or(1, NonZero::get) {
        1 => analyse_alone(reader, options),
        _ => analyse_from(reader, options, LONG),
    }
}

/// The same by this thread alone, for where others have something else to do.
///
/// # Errors
///
/// As there.
pub fn analyse_alone(reader: Reader<'_>, options: Options) -> Result<Report, Error> {
    analyse_from(reader, options, u64::MAX)
}

/// The same with two threads from the first record on that begins at `offset` or later.
pub(crate) fn analyse_from(
    mut reader: Reader<'_>,
    options: Options,
    offset: u64,
) -> Result<Report, Error> {
    let mut first = First { analysis: Analysis::new(options, ()), offset, is_over: false };
    loop {
        match reader.show_all(&mut first) {
            // What other recorders write needs a look at the weights.
            Ok(false) if !first.is_over && first.analysis.roster.by_fxtrec => {
                first.offset = u64::MAX;
                let (analysis, fate) = feed::pass(&mut reader, first.analysis)?;
                first.analysis = analysis;
                match fate {
                    Fate::End => return Ok(ended(first.analysis, &reader).0),
                    // How the trace ends, nobody has asked for.
                    Fate::Over => return Ok(first.analysis.finish().0),
                    Fate::Damage => first.analysis.damaged(),
                    Fate::NoThread => {}
                }
            }
            Ok(false) if !first.is_over => first.offset = u64::MAX,
            Ok(_) => return Ok(ended(first.analysis, &reader).0),
            Err(Error::Damaged(_)) => {
                // Most do not have just one.
                first.offset = u64::MAX;
                first.analysis.damaged();
            }
            Err(error) => return Err(error),
        }
    }
}

/// An analysis of what comes before an offset.
struct First {
    analysis: Analysis<()>,
    offset: u64,
    /// Whether what is wanted of the trace is over.
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

/// What an analysis comes to that a reader has shown all that is wanted of it.
fn ended<O: Observer>(mut analysis: Analysis<O>, reader: &Reader<'_>) -> (Report, O) {
    let summary = reader.summary();
    analysis.losses.truncated = summary.is_truncated();
    analysis.strings_left_out = summary.left_out;
    analysis.finish()
}

/// Analyses a whole trace, and shows `observer` what happens in it.
///
/// # Errors
///
/// Those of [`Reader::next`], apart from damage.
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
    /// An analysis that has seen nothing yet.
    pub fn new(options: Options, observer: O) -> Analysis<O> {
        let Options { selection, worst } = options;
        Analysis {
            observer,
            roster: Roster::default(),
            family: CommandThreads::default(),
            command: (None, None),
            cpus: Cpus::default(),
            worst: Worst::new(worst, &selection.threads),
            meanwhile: Segment::default(),
            shares: Shares::default(),
            losses: Losses::default(),
            origin: None,
            causes: Causes::default(),
            host: Vec::new(),
            quotas: Vec::new(),
            periods: Periods::default(),
            ignored_wakeups: 0,
            told: Told::default(),
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

    /// Something could not be read: a gap of all CPUs, at the next record.
    pub fn damaged(&mut self) {
        self.losses.damaged += 1;
        self.pending = Pending::Damage;
    }

    /// Goes on to the time of a scheduling record. False when that is beyond what is wanted.
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

    /// The part that is wanted begins: what is known stays known, what was open is cut.
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
