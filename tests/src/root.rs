//! Tests that need root, and their behaviour without it.

use crate::machine;
use crate::skip::skip;

/// Whether a test that needs root can run; prints a message if not.
///
/// ```no_run
/// if !fxtrec_tests::root::or_skip("it mounts") {
///     return;
/// }
/// ```
///
/// # Panics
/// When this user is not root, and the variable `CI` is set.
pub fn or_skip(why: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip(&format!("needs root, since {why}"));
    }
    is_root
}

/// Whether a test that records the machine can run; prints a message if not. It then has a turn of the machine, shared with others.
///
/// # Panics
/// When this user is not root, and the variable `CI` is set.
pub fn may_record() -> bool {
    let may = or_skip("it records the machine");
    if may {
        machine::share();
    }
    may
}
