//! Waiting for what a test wants to see.

use std::time::{Duration, Instant};

/// How long something may take before the test gives up. Nothing is proved by it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns as soon as the condition holds.
///
/// # Panics
/// When it does not for a very long time; `what` says what was waited for.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
