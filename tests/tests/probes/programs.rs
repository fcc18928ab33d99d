//! Recordings of programs whose calls are known: for every language and kind of linking, the trace shows these calls.

mod containers;
mod languages;
mod linking;
mod refusals;
mod runtimes;
mod usdt;

use fxtrec_tests::recording::{self, Recording};
use fxtrec_tests::{root, tools};

fn ready() -> bool {
    root::may_record() && tools::or_skip(&["gcc", "g++", "rustc", "nm", "strip", "chroot"])
}

/// Records COMMAND with these probes.
#[track_caller]
fn record(specs: &[&str], command: &[&str]) -> Recording {
    let options: Vec<&str> = specs.iter().flat_map(|spec| ["-P", spec]).collect();
    recording::record(&options, command)
}

/// The numbers in a range, as in a trace's arguments.
fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}
