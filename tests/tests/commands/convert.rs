//! Conversions as their users meet them: the command line, pipes, memory, and a viewer of another
//! project that reads what comes out.

mod memory;
mod packing;
mod pieces;
mod viewer;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;

/// A folder with a recording of `true` and what the machine did meanwhile in t.fxt; none without root.
fn recording() -> Option<(Folder, Trace)> {
    if !may_record() {
        return None;
    }
    let folder = Folder::new();
    let trace = record_in(&folder, &["-q"], &["true"]).trace;
    Some((folder, trace))
}
