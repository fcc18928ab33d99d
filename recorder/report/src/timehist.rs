//! One line for each switch out of a thread, in the columns of `perf sched timehist`.
//!
//! As in perf, the wait time is all the time off the CPU before the slice, and the delay is a part of it; docs/reference/figures.md
//! explains how that relates to the metrics.

use std::io::{self, Write};

use fxt_reader::ThreadState;

use super::analysis::{Names, Observer, SwitchedOut};
use super::facts::{Cause, Causes};
use super::selection::{ThreadFilter, Who};
use super::text::printable;

/// Writes a line for each switch, as the analysis reaches it.
pub struct TimeHist<'a> {
    out: &'a mut dyn Write,
    filter: ThreadFilter,
    /// The facts that have columns, once the headings are written.
    causes: Option<Causes>,
    result: io::Result<()>,
}

impl std::fmt::Debug for TimeHist<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimeHist").field("filter", &self.filter).finish_non_exhaustive()
    }
}

/// A fact that has a column, the column's name, and the length.
type Fact = (Cause, &'static str, fn(&SwitchedOut<'_>) -> u64);

const FACTS: [Fact; 3] = [
    (Cause::Throttled, "throttled", |event| event.throttled),
    (Cause::Steal, "steal", |event| event.steal),
    (Cause::Irq, "irq", |event| event.irq),
];

/// Milliseconds with three decimals, or a dash.
fn column(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| format!("{:.3}", nanos as f64 / 1e6))
}

/// The state in the kernel's letters.
fn letters(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "R",
        ThreadState::Blocked => "S",
        ThreadState::Suspended => "T",
        ThreadState::Dying => "Z",
        ThreadState::Dead => "X",
        _ => "?",
    }
}

impl<'a> TimeHist<'a> {
    /// Writes to `out`, for the threads that the filter selects by their names at that time.
    pub fn new(filter: ThreadFilter, out: &'a mut dyn Write) -> TimeHist<'a> {
        TimeHist { out, filter, causes: None, result: Ok(()) }
    }

    /// Writes the headings, with a column for each fact that the recording has.
    fn begin(&mut self, causes: Causes) -> io::Result<()> {
        self.causes = Some(causes);
        let out = &mut *self.out;
        let facts = || FACTS.iter().filter(|fact| causes.has(fact.0));
        write!(
            out,
            "{:>20} {:>6}  {:<30}  {:>10}  {:>10}  {:>10}",
            "time", "cpu", "task name", "wait time", "sch delay", "run time"
        )?;
        facts().try_for_each(|(_, name, _)| write!(out, "  {name:>10}"))?;
        writeln!(out, "  state")?;
        let dashes = |length: usize| "-".repeat(length);
        let (time, cpu, name, column) = (dashes(20), dashes(6), dashes(30), dashes(10));
        write!(
            out,
            "{:>20} {:>6}  {:<30}  {:>10}  {:>10}  {:>10}",
            "(s)", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
        )?;
        facts().try_for_each(|_| write!(out, "  {:>10}", "(msec)"))?;
        write!(out, "\n{time} {cpu}  {name}  {column}  {column}  {column}")?;
        facts().try_for_each(|_| write!(out, "  {column}"))?;
        writeln!(out, "  -----")
    }

    /// Whether everything was written.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<()> {
        if self.causes.is_none() {
            self.begin(Causes::default())?;
        }
        self.result
    }
}

impl Observer for TimeHist<'_> {
    fn switched_out(&mut self, event: &SwitchedOut<'_>, names: Names<'_>) {
        if self.result.is_ok() && self.causes.is_none() {
            self.result = self.begin(event.causes);
        }
        if self.result.is_err() {
            return;
        }
        let (comm, pid) = names.of(event.koid);
        let tid = names.tid(event.koid);
        let comm = comm.unwrap_or_default();
        let cgroup = names.cgroup(event.koid);
        if !self.filter.admits(Who { comm, pid, tid: Some(tid), cgroup }) {
            return;
        }
        let comm = printable(comm, 30);
        let name = match pid {
            Some(pid) if pid != tid => format!("{comm}[{tid}/{pid}]"),
            _ => format!("{comm}[{tid}]"),
        };
        // perf counts all time off the CPU as wait time, whatever the reason.
        let held = event.throttled;
        // perf counts no delay for a preempted thread, since it was never woken.
        let (off, delay) = match (event.latency, event.preempted) {
            (Some(latency), _) => {
                (event.blocked.map(|blocked| blocked + latency + held), Some(latency))
            }
            (None, Some(preempted)) => (Some(preempted + held), Some(0)),
            (None, None) => (None, None),
        };
        let (off, delay, ran) = (column(off), column(delay), column(event.ran));
        let state = event.detail.unwrap_or_else(|| letters(event.state));
        let (time, cpu) = (event.time.to_string(), format!("[{:04}]", event.cpu.0));
        let facts = FACTS.iter().filter(|fact| event.causes.has(fact.0));
        let facts: String =
            facts.map(|(_, _, of)| format!("  {:>10}", column(Some(of(event))))).collect();
        self.result = writeln!(
            self.out,
            "{time:>20} {cpu:>6}  {name:<30}  {off:>10}  {delay:>10}  {ran:>10}{facts}  {state}"
        );
    }

    fn is_content(&self) -> bool {
        self.result.is_err()
    }
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;

    use super::*;
    use crate::analysis::observe;
    use crate::scene::{Leaves, Scene};

    #[test]
    fn facts_that_the_recording_has_are_columns_and_throttled_time_is_off_the_cpu() {
        let mut scene = Scene::with_causes("throttled,irq");
        let throttled = [("throttled", fxt_writer::Value::Bool(true))];
        scene.switch(1000, 0, 0, Leaves::R, 101);
        scene.switch_with((2000, 0), 101, Leaves::R, 0, &throttled);
        let held = [("throttled_ns", fxt_writer::Value::Uint64(3_000_000))];
        scene.switch_with((6000, 0), 0, Leaves::R, 101, &held);
        let irq = [("irq_ns", fxt_writer::Value::Uint64(20_000))];
        scene.switch_with((7000, 0), 101, Leaves::S, 0, &irq);
        let mut out = Vec::new();
        let hist = TimeHist::new(ThreadFilter::default(), &mut out);
        let reader = Reader::from_slice(scene.bytes());
        let (_, hist) = observe(reader, Default::default(), hist).expect("a trace");
        hist.finish().expect("memory");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][8..], ["run", "time", "throttled", "irq", "state"], "{text}");
        assert_eq!(lines[3][3..], ["-", "-", "1.000", "0.000", "0.000", "R"], "{text}");
        assert_eq!(lines[4][3..], ["4.000", "0.000", "1.000", "3.000", "0.020", "S"], "{text}");
    }

    #[test]
    fn a_trace_without_a_switch_has_headings() {
        let mut out = Vec::new();
        TimeHist::new(ThreadFilter::default(), &mut out).finish().expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!((text.lines().count(), text.contains("throttled")), (3, false));
    }

    fn lines(filter: ThreadFilter) -> Vec<String> {
        let mut scene = Scene::new();
        scene.switch(1000, 0, 0, Leaves::R, 101);
        scene.switch(2000, 0, 101, Leaves::S, 0);
        scene.wake(5000, 0, 101);
        scene.switch(5250, 0, 0, Leaves::R, 101);
        scene.switch(6250, 0, 101, Leaves::R, 200);
        scene.switch(7250, 0, 200, Leaves::D, 101);
        scene.switch(7500, 0, 101, Leaves::X, 0);
        let mut out = Vec::new();
        let hist = TimeHist::new(filter, &mut out);
        let reader = Reader::from_slice(scene.bytes());
        let (_, hist) = observe(reader, Default::default(), hist).expect("a trace");
        hist.finish().expect("memory");
        let text = String::from_utf8(out).expect("text");
        text.lines().skip(3).map(str::to_owned).collect()
    }

    #[test]
    fn each_switch_out_has_perfs_three_times_and_the_state() {
        let lines = lines(ThreadFilter::default());
        let words: Vec<Vec<&str>> =
            lines.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            words,
            [
                ["0.002000000", "[0000]", "t101[101/100]", "-", "-", "1.000", "S"],
                ["0.006250000", "[0000]", "t101[101/100]", "3.250", "0.250", "1.000", "R"],
                ["0.007250000", "[0000]", "t200[200]", "-", "-", "1.000", "D"],
                ["0.007500000", "[0000]", "t101[101/100]", "1.000", "0.000", "0.250", "X"],
            ]
        );
    }

    #[test]
    fn only_the_threads_that_are_chosen_are_shown() {
        let one = lines(ThreadFilter { tids: vec![200], ..ThreadFilter::default() });
        assert_eq!(one.len(), 1);
        assert!(one[0].contains("t200[200]"));
    }
}
