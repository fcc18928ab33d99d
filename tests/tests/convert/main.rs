//! Conversions as their users meet them: the command line, pipes, memory, and a viewer of another
//! project that reads what comes out.

mod memory;
mod packing;
mod pieces;
mod viewer;

use std::path::Path;
use std::process::{Command, Output};

use fxtrec_tests::binary::fxtrec;

/// Runs fxtrec and returns what it said.
fn run(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(fxtrec());
    command.args(args).current_dir(folder);
    command.output().unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// Runs fxtrec, which must do well.
fn run_well(args: &[&str], folder: &Path) -> Output {
    let output = run(args, folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {} {said}", output.status);
    output
}

/// A recording of `true` and what the machine did meanwhile; none without root.
fn recording(folder: &Path) -> bool {
    if !fxtrec_tests::root::or_skip("it records the machine") {
        return false;
    }
    run_well(&["-q", "-o", "true.fxt", "--", "true"], folder);
    true
}
