//! One line for each switch out of a thread, in the columns of `perf sched timehist`.
//!
//! As there, the wait time is all the time off the CPU before the slice, the delay a part of it;
//! docs/latency.md says how that relates to the metrics.

use std::io::{self, Write};

use fxt_reader::ThreadState;

use super::analysis::{Names, Observer, SwitchedOut};
use super::selection::ThreadFilter;
use super::text::printable;

/// Writes a line for each switch, as an analysis comes to it.
pub struct TimeHist<'a> {
    out: &'a mut dyn Write,
    filter: ThreadFilter,
    result: io::Result<()>,
}

impl std::fmt::Debug for TimeHist<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimeHist").field("filter", &self.filter).finish_non_exhaustive()
    }
}

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
    /// Writes to `out`, for the threads that the filter chooses by the names they have then.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(filter: ThreadFilter, out: &'a mut dyn Write) -> io::Result<TimeHist<'a>> {
        writeln!(
            out,
            "{:>20} {:>6}  {:<30}  {:>10}  {:>10}  {:>10}  state",
            "time", "cpu", "task name", "wait time", "sch delay", "run time"
        )?;
        let dashes = |length: usize| "-".repeat(length);
        let (time, cpu, name, column) = (dashes(20), dashes(6), dashes(30), dashes(10));
        writeln!(
            out,
            "{:>20} {:>6}  {:<30}  {:>10}  {:>10}  {:>10}",
            "(s)", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
        )?;
        writeln!(out, "{time} {cpu}  {name}  {column}  {column}  {column}  -----")?;
        Ok(TimeHist { out, filter, result: Ok(()) })
    }

    /// Whether everything was written.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(self) -> io::Result<()> {
        self.result
    }
}

impl Observer for TimeHist<'_> {
    fn switched_out(&mut self, event: &SwitchedOut<'_>, names: Names<'_>) {
        if self.result.is_err() {
            return;
        }
        let (comm, pid) = names.of(event.koid);
        let tid = names.tid(event.koid);
        let comm = comm.unwrap_or_default();
        if !self.filter.admits(comm, pid, Some(tid)) {
            return;
        }
        let comm = printable(comm, 30);
        let name = match pid {
            Some(pid) if pid != tid => format!("{comm}[{tid}/{pid}]"),
            _ => format!("{comm}[{tid}]"),
        };
        // perf counts no delay of a thread that was preempted: it was never woken.
        let (off, delay) = match (event.latency, event.preempted) {
            (Some(latency), _) => (event.blocked.map(|blocked| blocked + latency), Some(latency)),
            (None, Some(preempted)) => (Some(preempted), Some(0)),
            (None, None) => (None, None),
        };
        let (off, delay, ran) = (column(off), column(delay), column(event.ran));
        let state = event.detail.unwrap_or_else(|| letters(event.state));
        let (time, cpu) = (event.time.to_string(), format!("[{:04}]", event.cpu.0));
        self.result = writeln!(
            self.out,
            "{time:>20} {cpu:>6}  {name:<30}  {off:>10}  {delay:>10}  {ran:>10}  {state}"
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
        let hist = TimeHist::new(filter, &mut out).expect("memory");
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
