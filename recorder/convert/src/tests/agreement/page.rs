//! The contents of a page: its blocks, unfolded by its own script.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use serde::Deserialize;

use super::play::{Sums, Time};

/// A slice: its beginning and end, and the thread that had the CPU, or the number of the thread's state.
type Slice = (u64, u64, u64);

/// The lanes of CPUs by number, and of threads by index.
#[derive(Debug, Deserialize, PartialEq)]
pub(super) struct Lanes {
    pub(super) cpus: BTreeMap<u16, Vec<Slice>>,
    pub(super) threads: BTreeMap<usize, Vec<Slice>>,
}

/// The states that the page shows, as in `docs/reference/page.md`.
fn what(state: u64) -> &'static str {
    match state {
        1 => "running",
        2 | 3 | 12 | 13 => "waiting",
        5 => "blocked, uninterruptible",
        4 | 6 | 7 => "blocked",
        8 | 9 => "stopped",
        10 | 11 => "unknown",
        _ => panic!("no state: {state}"),
    }
}

impl Lanes {
    /// The time in each state; threads are identified by koid.
    pub(super) fn sums(&self, koids: &[u64]) -> Sums {
        let mut sums = Sums::default();
        for (cpu, lane) in &self.cpus {
            for (begin, end, thread) in lane {
                sums.add_cpu(*cpu, if *thread == 0 { "idle" } else { "busy" }, end - begin);
            }
        }
        for (thread, lane) in &self.threads {
            for (begin, end, state) in lane {
                let time = Time { all: end - begin, whole: 0 };
                sums.add_thread(koids[*thread], what(*state), time);
            }
        }
        sums
    }
}

/// A process that unfolds pages.
struct Unfolder {
    _process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Unfolder {
    /// `None` without Node.
    fn start() -> Option<Unfolder> {
        let folder = env!("CARGO_MANIFEST_DIR");
        let script = format!("{folder}/src/tests/agreement/page.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(format!("{folder}/../report/src/page/assets/js"));
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut process) = started else {
            assert!(std::env::var_os("CI").is_none(), "needs node (apt install nodejs)");
            eprintln!("skipped what pages show: needs node (apt install nodejs)");
            return None;
        };
        let input = process.stdin.take()?;
        let output = BufReader::new(process.stdout.take()?);
        Some(Unfolder { _process: process, input, output })
    }

    fn unfold(&mut self, html: &str) -> Lanes {
        let line = serde_json::to_string(html).expect("text");
        writeln!(self.input, "{line}").expect("node reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("node answers");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

/// The lanes of a page; `None` without Node. The process ends with the tests, when its input is closed.
pub(super) fn unfold(html: &str) -> Option<Lanes> {
    static UNFOLDER: LazyLock<Mutex<Option<Unfolder>>> =
        LazyLock::new(|| Mutex::new(Unfolder::start()));
    // A test that failed while it held the lock did not damage the process.
    let mut unfolder = UNFOLDER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    unfolder.as_mut().map(|unfolder| unfolder.unfold(html))
}
