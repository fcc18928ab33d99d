//! Calls hooks in this process when a session begins or ends.

#[cfg(any(feature = "tracing", feature = "log"))]
use std::sync::{Mutex, PoisonError};

/// Both the layer of `tracing` and the logger may be in use.
#[cfg(any(feature = "tracing", feature = "log"))]
static HOOKS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Makes the client's thread call `hook` after each change. Registering it again has no effect.
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
        // A hook may register another one.
        let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for hook in hooks {
            hook();
        }
    }
}
