//! Probes, tracepoints, system calls and interrupts of the running kernel, compared with the activity of a program.

mod events;
mod interrupts;
mod leftovers;
mod many;
mod plain;
mod spans;
mod syscalls;

use std::sync::OnceLock;

use fxtrec_tests::programs::{Built, build};
use fxtrec_tests::{root, tools};

/// The program that a test probes; `None` if the test cannot run.
fn ready() -> Option<&'static str> {
    static SPANS: OnceLock<Built> = OnceLock::new();
    let can_run = root::may_record() && tools::or_skip(&["gcc"]);
    can_run.then(|| SPANS.get_or_init(|| build("spans.c", &["-g0"])).text())
}
