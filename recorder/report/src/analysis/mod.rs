//! The pass over a trace.
//!
//! Who has which CPU and what each thread does is worked out by a [machine](fxtrec_sched), which says how the beginning and
//! the end of each stretch of time are known. Here these become figures: a length of time counts only when both of its ends
//! were reported, and nothing was lost in between that makes it doubtful; otherwise it is counted as censored. Nothing is
//! allocated per record: threads are found by their koid in a table of slots, names are looked at only when somebody is to
//! be named.

mod causes;
mod cpu;
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

use fxt_reader::{Error, Nanos, ProviderId, Reader};

use fxtrec_blame::threads::Family;
use fxtrec_sched::{Periods, UsualArgs};

use super::facts::{Causes, HostSteal, Quota};
use super::model::{Losses, Origin, Report, Span};
use super::selection::Selection;
use cpu::Cpus;
use history::Segment;
pub use history::Shares;
use losses::Pending;
pub use observer::{Moved, Names, Observer, Ran, Switched, SwitchedOut, Vacated, Waited, Woken};
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
    family: Family,
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
    has_spans: bool,
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
    /// Whose scheduling records these are.
    scheduler: Option<ProviderId>,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    from: u64,
    to: u64,
}

/// Analyses a whole trace. Damaged places are gaps.
///
/// # Errors
///
/// Those of [`Reader::next`], apart from damage.
pub fn analyse(reader: Reader<'_>, options: Options) -> Result<Report, Error> {
    Ok(observe(reader, options, ())?.0)
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
    let summary = reader.summary();
    analysis.losses.truncated = summary.truncated_tail > 0 || summary.container_truncated;
    Ok(analysis.finish())
}

impl<O: Observer> Analysis<O> {
    /// An analysis that has seen nothing yet.
    pub fn new(options: Options, observer: O) -> Analysis<O> {
        let Options { selection, worst } = options;
        Analysis {
            observer,
            roster: Roster::default(),
            family: Family::default(),
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
            has_spans: false,
            now: 0,
            span: None,
            wanted: Wanted { from: 0, to: u64::MAX },
            active: false,
            pending: Pending::Nothing,
            narrow: false,
            usual_args: UsualArgs::default(),
            scheduler: None,
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
