//! Telling others in this process that a session began or ended.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

/// Has `hook` called by the client's thread after each change; the first caller
/// is heard.
#[cfg(feature = "tracing")]
pub(super) fn call_on_change(hook: fn()) {
    let _ = HOOK.set(hook);
}

/// A session has begun or ended.
pub(super) fn changed() {
    if let Some(hook) = HOOK.get() {
        hook();
    }
}
