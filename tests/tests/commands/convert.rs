//! Conversions as users run them: the command line, pipes, memory, and another project's viewer that reads the result.

mod memory;
mod packing;
mod pieces;
mod viewer;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;

/// A directory with a recording of `true` and of other activity on the machine in t.fxt; `None` without root.
fn recording() -> Option<(Folder, Trace)> {
    if !may_record() {
        return None;
    }
    let folder = Folder::new();
    let trace = record_in(&folder, &["-q"], &["true"]).trace;
    Some((folder, trace))
}
