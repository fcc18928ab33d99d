//! Tests that need root, and what happens without it.

/// Whether a test that needs root goes on; when not, says so.
///
/// ```no_run
/// if !fxtrec_tests::root::or_skip("it records the machine") {
///     return;
/// }
/// ```
///
/// # Panics
/// When the variable `CI` is set: there, a test that cannot run has failed.
pub fn or_skip(why: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "this test needs root ({why}), and CI must give it");
    eprintln!("skipped: needs root, since {why}");
    false
}
