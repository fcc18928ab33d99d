//! Waits for a condition that a test expects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long something may take before the test gives up: less than the two minutes after which CI ends a test. Timing out proves nothing.
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns as soon as the condition holds.
///
/// # Panics
/// When it does not become true for a very long time; `what` describes the condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sets a flag when dropped, also when a test panics: otherwise a thread of a scope that works until then would keep a failed test from
/// ending.
#[derive(Debug)]
#[must_use = "the flag is set when this is dropped"]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
