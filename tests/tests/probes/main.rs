//! Probes, tracepoints, system calls and interrupts of the running kernel, held against what a program did.

mod events;
mod interrupts;
mod leftovers;
mod plain;
mod programs;
mod spans;
mod support;
mod syscalls;

/// Whether a test goes on: it needs root, and the program it looks at.
pub(crate) fn ready() -> Option<&'static str> {
    if !fxtrec_tests::root::or_skip("it records the machine") {
        return None;
    }
    support::program().map(|path| path.to_str().expect("a plain path"))
}
