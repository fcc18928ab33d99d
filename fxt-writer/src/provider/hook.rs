//! Telling others in this process that a session began or ended.

#[cfg(any(feature = "tracing", feature = "log"))]
use std::sync::{Mutex, PoisonError};

/// The layer of `tracing` and the logger may both be there.
#[cfg(any(feature = "tracing", feature = "log"))]
static HOOKS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Has `hook` called by the client's thread after each change, once however often it was asked for.
#[cfg(any(feature = "tracing", feature = "log"))]
pub(super) fn call_on_change(hook: fn()) {
    let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    if !hooks.iter().any(|known| std::ptr::fn_addr_eq(*known, hook)) {
        hooks.push(hook);
    }
}

/// A session has begun or ended.
pub(super) fn changed() {
    #[cfg(any(feature = "tracing", feature = "log"))]
    {
        // A hook may ask for another one.
        let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for hook in hooks {
            hook();
        }
    }
}
