//! The pass over a trace: a state machine for each thread and each CPU.
//!
//! ```text
//!            switch in                       switch out, can run
//!   Unknown ------------> Running <----------------------------> Waiting (preempted)
//!      |                   |   ^
//!      | wake-up           |   | switch in: a wakeup latency ends
//!      |    switch out, S  |   +------------------ Waiting (woken)
//!      |    or D           v                          ^
//!      |               Blocked, Stopped --------------+ wake-up: a blocked time ends
//!      +----------------------------------------------+
//! ```
//!
//! Each state has the time at which it began, and the *epoch* of that time: a number that goes up
//! when something was lost. A length of time counts only when it began in the epoch in which it
//! ends. Nothing is allocated per record: threads are found by their koid in a table of slots,
//! names are looked at only when somebody is to be named.

mod cpu;
mod finish;
mod history;
mod losses;
mod recent;
mod roster;
mod switches;
mod thread;
mod worst;

#[cfg(test)]
mod tests;

use fxt_reader::record::{Args, ContextSwitch, ProviderEventKind, Value, Wakeup};
use fxt_reader::record::{Event, IDLE_WEIGHT, KernelObject, LegacyContextSwitch, ProviderEvent};
use fxt_reader::{
    Cpu, Error, Item, Koid, Nanos, ObjectType, ProviderId, Reader, Record, ThreadState, Visitor,
};
use fxt_writer::layout::scheduling::context_switch::{INCOMING_WEIGHT_ARG, OUTGOING_WEIGHT_ARG};

use super::model::{Losses, Origin, Report, Span};
use super::selection::Selection;
use cpu::Cpus;
use losses::Pending;
use roster::Roster;
use worst::Worst;

/// So many of the longest waits are kept unless told otherwise.
pub const DEFAULT_WORST: usize = 10;

/// The name by which fxtrec introduces itself in a trace.
const FXTREC: &str = "fxtrec";

/// What is wanted of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it is about.
    pub selection: Selection,
    /// How many of the longest waits to keep.
    pub worst: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { selection: Selection::default(), worst: DEFAULT_WORST }
    }
}

/// Is shown what an analysis makes of a trace, as it goes.
pub trait Observer {
    /// A record is about to be looked at.
    #[inline]
    fn record(&mut self, _: &Item<'_>) {}

    /// A thread other than idle has left a CPU, by a switch that was not inferred.
    fn switched_out(&mut self, _: &SwitchedOut<'_>, _: Names<'_>) {}

    /// Whether it has seen enough: the analysis may then end early.
    fn is_content(&self) -> bool {
        false
    }
}

/// Looks at nothing.
impl Observer for () {}

/// What is known of a thread when it leaves a CPU.
#[derive(Clone, Copy, Debug)]
pub struct SwitchedOut<'a> {
    /// When.
    pub time: Nanos,
    /// The CPU.
    pub cpu: Cpu,
    /// The thread.
    pub koid: Koid,
    /// How long it had been blocked before it was woken, in nanoseconds.
    pub blocked: Option<u64>,
    /// How long it had waited for the CPU after that, in nanoseconds.
    pub latency: Option<u64>,
    /// How long it had waited for the CPU after it was preempted, in nanoseconds.
    pub preempted: Option<u64>,
    /// How long it ran, in nanoseconds.
    pub ran: Option<u64>,
    /// The state it left in.
    pub state: ThreadState,
    /// The kernel's letters, where the trace keeps them.
    pub detail: Option<&'a str>,
}

/// The names of threads, as far as the trace has told them.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(&'a Roster);

impl<'a> Names<'a> {
    /// The thread's name, and the id of its process.
    pub fn of(self, thread: Koid) -> (Option<&'a str>, Option<u64>) {
        self.0.comm_and_pid(thread.0)
    }

    /// The thread's id.
    pub fn tid(self, thread: Koid) -> u64 {
        self.0.tid(thread.0)
    }
}

/// A pass over a trace that is under way.
#[derive(Debug)]
pub struct Analysis<O = ()> {
    observer: O,
    selection: Selection,
    roster: Roster,
    cpus: Cpus,
    worst: Worst,
    losses: Losses,
    origin: Option<Origin>,
    ignored_wakeups: u64,
    /// Goes up when what is known about threads comes into doubt.
    epoch: u32,
    /// The time of the last record that was looked at.
    now: u64,
    span: Option<Span>,
    /// The part of the trace that is wanted.
    wanted: Wanted,
    /// Whether figures are taken.
    active: bool,
    pending: Pending,
    /// Whether the trace holds the switches of some threads only.
    narrow: bool,
    /// Whose scheduling records these are.
    scheduler: Option<ProviderId>,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    from: u64,
    to: u64,
}

/// One side of a switch.
#[derive(Clone, Copy, Debug)]
struct Side {
    koid: u64,
    idle: bool,
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
            cpus: Cpus::default(),
            worst: Worst::new(worst, &selection.threads),
            losses: Losses::default(),
            origin: None,
            ignored_wakeups: 0,
            epoch: 0,
            now: 0,
            span: None,
            wanted: Wanted { from: 0, to: u64::MAX },
            active: false,
            pending: Pending::Nothing,
            narrow: false,
            scheduler: None,
            selection,
        }
    }

    /// Takes the next record. False when the part of the trace that is wanted is over.
    #[inline(always)]
    pub fn take(&mut self, item: &Item<'_>) -> bool {
        self.observer.record(item);
        match &item.record {
            Record::ContextSwitch(switch) => {
                self.scheduler = item.provider;
                self.context_switch(switch)
            }
            Record::Wakeup(wakeup) => {
                self.scheduler = item.provider;
                self.wakeup(wakeup)
            }
            Record::LegacyContextSwitch(switch) => {
                self.scheduler = item.provider;
                self.legacy_switch(switch)
            }
            Record::KernelObject(object) => {
                self.named(object);
                true
            }
            Record::Event(event) if event.category == FXTREC => self.own_event(event),
            Record::ProviderInfo(info) => {
                self.roster.by_fxtrec |= info.name == FXTREC;
                true
            }
            Record::ProviderEvent(event) => {
                self.provider_event(*event);
                true
            }
            _ => true,
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
        self.epoch += 1;
        self.cpus.forget_queues(None, begin);
        self.cpus.activate(begin, &self.selection);
    }

    #[inline(always)]
    fn context_switch(&mut self, switch: &ContextSwitch<'_>) -> bool {
        if !self.advance(switch.time) {
            return false;
        }
        let (mut detail, mut inferred) = (None, false);
        // Both weights are always there, and nothing else usually.
        if switch.args.len() > 2 {
            (detail, inferred) = more_about(switch.args);
        }
        let (mut out, mut inn) = (self.side(switch.outgoing), self.side(switch.incoming));
        if !self.roster.by_fxtrec {
            let (out_weight, in_weight) = weights(switch.args);
            out.idle |= out_weight == Some(IDLE_WEIGHT);
            inn.idle |= in_weight == Some(IDLE_WEIGHT);
        }
        self.switch(switch.cpu, out, inn, (switch.outgoing_state, detail), inferred);
        true
    }

    fn side(&self, koid: Koid) -> Side {
        Side { koid: koid.0, idle: koid.0 == 0 }
    }

    fn legacy_switch(&mut self, switch: &LegacyContextSwitch) -> bool {
        if !self.advance(switch.time) {
            return false;
        }
        let side = |koid: Koid, priority: u8| Side { koid: koid.0, idle: priority == 0 };
        let out = side(switch.outgoing.thread, switch.outgoing_priority);
        let inn = side(switch.incoming.thread, switch.incoming_priority);
        for thread in [switch.outgoing, switch.incoming] {
            self.roster.belongs(thread.thread.0, thread.process.0);
        }
        self.switch(switch.cpu, out, inn, (switch.outgoing_state, None), false);
        true
    }

    #[inline(always)]
    fn wakeup(&mut self, wakeup: &Wakeup<'_>) -> bool {
        if !self.advance(wakeup.time) {
            return false;
        }
        let waker = if wakeup.args.len() > 1 { waker(wakeup.args) } else { None };
        self.wake(wakeup.cpu, wakeup.koid.0, waker.map_or(0, |koid| koid.0));
        true
    }

    fn named(&mut self, object: &KernelObject<'_>) {
        match object.object_type {
            ObjectType::Process => self.roster.name_process(object.koid.0, object.name),
            ObjectType::Thread => {
                let process = object.process().map(|process| process.0);
                self.roster.name_thread(object.koid.0, object.name, process);
                self.roster.choose(object.koid.0, &self.selection.threads);
            }
            _ => {}
        }
    }

    #[cold]
    fn own_event(&mut self, event: &Event<'_>) -> bool {
        match event.name {
            "trace_info" => {
                let origin = origin(event);
                self.narrow = origin.is_narrow();
                self.origin = Some(origin);
            }
            "trace_stats" if event.time.0 <= self.wanted.to => {
                self.now = self.now.max(event.time.0);
            }
            "lost" => return self.lost_event(event),
            _ => {}
        }
        true
    }

    fn provider_event(&mut self, event: ProviderEvent) {
        let ours = self.scheduler.is_none_or(|scheduler| scheduler == event.id);
        if ours && event.event == ProviderEventKind::BufferFilledUp {
            self.pending = Pending::Loss;
        }
    }
}

impl<O: Observer> Visitor for Analysis<O> {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        self.take(item) && !self.observer.is_content()
    }
}

/// The kernel's letters for the state of who goes out, and whether the switch is inferred.
#[inline(never)]
fn more_about(args: Args<'_>) -> (Option<&str>, bool) {
    let (mut detail, mut inferred) = (None, false);
    for arg in &args {
        match (arg.name, arg.value) {
            ("prev_state", Value::Str(letters)) => detail = Some(letters),
            ("inferred", Value::Bool(is)) => inferred = is,
            _ => {}
        }
    }
    (detail, inferred)
}

/// The weights of both sides of a switch, outgoing first.
#[inline(never)]
fn weights(args: Args<'_>) -> (Option<i32>, Option<i32>) {
    (args.int32(OUTGOING_WEIGHT_ARG), args.int32(INCOMING_WEIGHT_ARG))
}

/// Who woke a thread.
#[inline(never)]
fn waker(args: Args<'_>) -> Option<Koid> {
    args.koid("waker")
}

fn number(event: &Event<'_>, name: &str) -> Option<u64> {
    match event.args.get(name)? {
        Value::UInt32(value) => Some(value.into()),
        Value::UInt64(value) => Some(value),
        Value::Int32(value) => u64::try_from(value).ok(),
        Value::Int64(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

fn origin(event: &Event<'_>) -> Origin {
    let text = |name| event.args.str(name).unwrap_or_default().to_owned();
    Origin {
        version: text("version"),
        command_line: text("command_line"),
        host: text("host"),
        release: text("release"),
        cpus: number(event, "cpus").unwrap_or(0),
        scope: text("scope"),
    }
}
