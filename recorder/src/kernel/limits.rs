//! The limit on open files, which many CPUs exceed.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors for everything that is not a perf event.
const OTHERS: u64 = 64;

/// Makes room for `files` more open files, as far as the hard limit allows.
///
/// What goes beyond that fails at the call that needs it, with EMFILE.
pub fn raise_open_files(files: u64) {
    let wanted = files + OTHERS;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}
