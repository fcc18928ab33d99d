//! Tests that cannot run everywhere.

/// Prints that a test is skipped, and why.
///
/// # Panics
/// When the variable `CI` is set: there, a test that cannot run has failed.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "a test cannot run, and CI must let it: {why}");
    eprintln!("skipped: {why}");
}
