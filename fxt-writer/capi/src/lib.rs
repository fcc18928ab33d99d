//! Trace points for C, and for languages that can call C.
//!
//! cbindgen makes the header `fxt_provider.h` from this crate. The macros check one word in the library's memory, [`fxt_session`], and call
//! these functions only while a session runs. `examples/provider.c` shows every macro and function.

#![warn(missing_docs)]

mod arg;
mod record;
mod site;

pub use arg::{
    Arg, ArgValue, FXT_ARG_BOOL, FXT_ARG_DOUBLE, FXT_ARG_INT, FXT_ARG_KOID, FXT_ARG_POINTER,
    FXT_ARG_TEXT, FXT_ARG_UINT,
};
pub use record::{
    Duration, FXT_ASYNC_BEGIN_EVENT, FXT_ASYNC_END_EVENT, FXT_ASYNC_INSTANT_EVENT,
    FXT_COUNTER_EVENT, FXT_FLOW_BEGIN_EVENT, FXT_FLOW_END_EVENT, FXT_FLOW_STEP_EVENT,
    FXT_INSTANT_EVENT, fxt_blob, fxt_duration_begin, fxt_duration_end, fxt_event, fxt_is_enabled,
    fxt_log,
};
pub use site::CSite;

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration as Time;

use fxt_writer::provider::{self, Provider};

/// Not zero while a session runs.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name of C")]
pub static fxt_session: &AtomicU32 = provider::SESSION_WORD;

/// The provider, which C has no variable for.
static PROVIDER: OnceLock<Provider> = OnceLock::new();

/// Makes this process a trace provider named `name`, 1 to 255 bytes of UTF-8; does nothing if the process is already a provider. Under
/// `fxtrec -- COMMAND` it returns when trace points record, usually within a few milliseconds and after half a second at most; without a
/// manager it returns at once. A thread of the library looks for a manager for as long as the process runs. False if the name is invalid or
/// no thread is available.
///
/// # Safety
///
/// `name` must be a string that ends in a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_init(name: *const c_char) -> bool {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(provider) = name.to_str().ok().and_then(|name| provider::init(name).ok()) else {
        return false;
    };
    // A second caller gets the same provider, which must not be dropped: that would wait.
    if let Err(second) = PROVIDER.set(provider) {
        std::mem::forget(second);
    }
    true
}

/// Waits until a session runs, at most `milliseconds`; returns whether a session runs. For programs that a later session will record; if a
/// session already runs, `fxt_init` has waited for it.
#[unsafe(no_mangle)]
pub extern "C" fn fxt_wait_for_session(milliseconds: u32) -> bool {
    PROVIDER.get().is_some_and(|provider| provider.wait_for_session(time(milliseconds)))
}

/// Requests that all records so far be saved and waits for that, at most
/// `milliseconds`; returns whether they are. After the process has ended, the manager reads the unsaved data.
#[unsafe(no_mangle)]
pub extern "C" fn fxt_flush(milliseconds: u32) -> bool {
    PROVIDER.get().is_none_or(|provider| provider.flush(time(milliseconds)))
}

/// Reports an event to the manager, which may trigger on it: an alert of 1 to 14
/// bytes; longer ones are truncated.
///
/// # Safety
///
/// `name` must be a string that ends in a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_alert(name: *const c_char) {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    provider::alert(&fxt_writer::text::clean(name.to_bytes()));
}

/// A number that no other call in this process returns, as an id of asynchronous operations and flows.
#[unsafe(no_mangle)]
pub extern "C" fn fxt_unique_id() -> u64 {
    provider::unique_id()
}

fn time(milliseconds: u32) -> Time {
    Time::from_millis(milliseconds.into())
}
