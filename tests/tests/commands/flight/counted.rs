//! The kernel's counts of threads, and whether traces contain them.

use std::path::Path;

use fxtrec_tests::trace::{Switch, Trace};

use crate::flight::Recorder;

/// A program whose threads print the kernel's counts of them.
pub(super) const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// The kernel's counts for a thread: its id, two times, and how often it was switched out between them.
pub(super) struct Counted {
    pub(super) thread: u64,
    begin: u64,
    end: u64,
    switches: u64,
}

/// Threads whose switches the kernel counts.
pub(super) const THREADS: [&str; 4] = [WORKLOAD, "threads", "3", "20000"];

/// Records `command`, which prints a line for each thread. Returns these counts and fxtrec's messages.
pub(super) fn record(options: &[&str], output: &Path, command: &[&str]) -> (Vec<Counted>, String) {
    let mut recorder = Recorder::start(options, output, command);
    let counted = |line: String| {
        let numbers: Vec<u64> =
            line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [thread, begin, end, switches] = [0, 1, 2, 3].map(|at| numbers[at]);
        Counted { thread, begin, end, switches }
    };
    let counts = (0..7).map(|_| counted(recorder.printed())).collect();
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
    (counts, said)
}

/// The switches that the kernel reported.
pub(super) fn reported(trace: &Trace) -> impl Iterator<Item = &Switch> {
    trace.switches.iter().filter(|switch| !switch.inferred)
}

/// Asserts that the files together have as many switches of each thread as the kernel counted.
pub(super) fn assert_all_counted(counts: &[Counted], traces: &[Trace], name: &str) {
    for Counted { thread, begin, end, switches } in counts {
        let outs = traces.iter().flat_map(|trace| trace.outs(*thread));
        let inside = outs.filter(|switch| (*begin..=*end).contains(&switch.time)).count() as u64;
        assert_eq!(inside, *switches, "thread {thread} in {name}");
    }
}
