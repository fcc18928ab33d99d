//! The functions that the header's macros call while a session runs.

use std::array;
use std::ffi::{c_char, c_void};
use std::slice;

use fxt_writer::Value;
use fxt_writer::layout::limits::MAX_ARGS;
use fxt_writer::provider::{self, Armed, Site};
use fxt_writer::record::EventKind;

use crate::arg::{Arg, Held, text};
use crate::site::CSite;

/// An instant event of this thread.
pub const FXT_INSTANT_EVENT: u32 = 0;
/// Samples of time series.
pub const FXT_COUNTER_EVENT: u32 = 1;
/// The beginning of an operation that may end on another thread.
pub const FXT_ASYNC_BEGIN_EVENT: u32 = 5;
/// An instant event within such an operation.
pub const FXT_ASYNC_INSTANT_EVENT: u32 = 6;
/// The end of such an operation.
pub const FXT_ASYNC_END_EVENT: u32 = 7;
/// The beginning of a flow, in the duration around this event.
pub const FXT_FLOW_BEGIN_EVENT: u32 = 8;
/// A point on a flow.
pub const FXT_FLOW_STEP_EVENT: u32 = 9;
/// The end of a flow, in the duration around this event.
pub const FXT_FLOW_END_EVENT: u32 = 10;

/// A duration that has begun; all zero if there is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Duration {
    /// The library's own.
    pub site: *const c_void,
    /// The session that it began in, or 0.
    pub session: u32,
}

/// Records an event, if the session records its category. `kind` is one of the
/// constants above; with any other value, nothing is recorded. At most 15
/// arguments are kept.
///
/// # Safety
///
/// `site` must be a trace point with constant strings, its `known` null at first
/// and left alone since; `args` must point to `count` arguments, each with the
/// member of its value set that its kind names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_event(
    site: *const CSite,
    kind: u32,
    id: u64,
    args: *const Arg,
    count: usize,
) {
    let Some(kind) = event_kind(kind, id) else { return };
    // SAFETY: guaranteed by the caller of this function.
    unsafe { record(site, kind, args, count) };
}

/// Begins a duration of this thread; pass the returned value to `fxt_duration_end`.
///
/// # Safety
///
/// As `fxt_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_duration_begin(
    site: *const CSite,
    args: *const Arg,
    count: usize,
) -> Duration {
    // SAFETY: guaranteed by the caller of this function.
    let begun = unsafe { record(site, EventKind::DurationBegin, args, count) };
    match provider::Duration::begun(begun).leave_open() {
        Some((site, session)) => Duration { site: std::ptr::from_ref(site).cast(), session },
        None => Duration { site: std::ptr::null(), session: 0 },
    }
}

/// Ends a duration, on the thread that began it, if its session still runs.
///
/// # Safety
///
/// `duration` must be what `fxt_duration_begin` returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_duration_end(duration: Duration) {
    // SAFETY: null, or a trace point that is never freed, guaranteed by the caller.
    if let Some(site) = unsafe { duration.site.cast::<Site>().as_ref() } {
        drop(provider::Duration::reopened(site, duration.session));
    }
}

/// Whether a running session records the trace point's category.
///
/// # Safety
///
/// As `fxt_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_is_enabled(site: *const CSite) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { (*site).known(&[]) }.site.is_wanted()
}

/// Records `length` bytes under the trace point's name.
///
/// # Safety
///
/// As `fxt_event`; `bytes` must point to `length` bytes, and may be null for 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_blob(site: *const CSite, bytes: *const c_void, length: usize) {
    // SAFETY: guaranteed by the caller.
    if let Some(armed) = unsafe { (*site).known(&[]) }.site.armed() {
        // SAFETY: guaranteed by the caller.
        armed.blob(unsafe { slice_or_empty(bytes.cast(), length) });
    }
}

/// Records a log message.
///
/// # Safety
///
/// As `fxt_event`; `message` must be a string that ends in a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fxt_log(site: *const CSite, message: *const c_char) {
    // SAFETY: guaranteed by the caller.
    if let Some(armed) = unsafe { (*site).known(&[]) }.site.armed() {
        // SAFETY: guaranteed by the caller.
        armed.log(&unsafe { text(message) });
    }
}

fn event_kind(kind: u32, id: u64) -> Option<EventKind> {
    Some(match kind {
        FXT_INSTANT_EVENT => EventKind::Instant,
        FXT_COUNTER_EVENT => EventKind::Counter { id },
        FXT_ASYNC_BEGIN_EVENT => EventKind::AsyncBegin { id },
        FXT_ASYNC_INSTANT_EVENT => EventKind::AsyncInstant { id },
        FXT_ASYNC_END_EVENT => EventKind::AsyncEnd { id },
        FXT_FLOW_BEGIN_EVENT => EventKind::FlowBegin { id },
        FXT_FLOW_STEP_EVENT => EventKind::FlowStep { id },
        FXT_FLOW_END_EVENT => EventKind::FlowEnd { id },
        _ => return None,
    })
}

/// Records an event; returns the armed trace point if the event is in the buffer.
///
/// # Safety
///
/// As `fxt_event`.
unsafe fn record(
    site: *const CSite,
    kind: EventKind,
    args: *const Arg,
    count: usize,
) -> Option<Armed> {
    // SAFETY: guaranteed by the caller.
    let args: &[Arg] = unsafe { slice_or_empty(args, count.min(MAX_ARGS)) };
    // SAFETY: guaranteed by the caller.
    let known = unsafe { (*site).known(args) };
    let armed = known.site.armed()?;
    let held: [_; MAX_ARGS] = array::from_fn(|at| match args.get(at) {
        // SAFETY: guaranteed by the caller; the text is used before this returns.
        Some(arg) => unsafe { arg.held() },
        None => Held::Plain(Value::Null),
    });
    let values = held.iter().map(Held::value);
    let written = match known.names_of(args) {
        Some(names) => armed.event_of(kind, None, names.iter().map(|(_, name)| name).zip(values)),
        None => {
            // SAFETY: guaranteed by the caller; the names are used before this returns.
            let names: Vec<_> = args.iter().map(|arg| unsafe { text(arg.name) }).collect();
            let args = names.iter().zip(values);
            let args: Vec<_> = args
                .map(|(name, value)| fxt_writer::Arg::new(name.as_ref().into(), value))
                .collect();
            armed.event_with(kind, &args)
        }
    };
    written.then_some(armed)
}

/// # Safety
///
/// `items` must point to `count` items, unless `count` is 0.
unsafe fn slice_or_empty<'a, T>(items: *const T, count: usize) -> &'a [T] {
    if items.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { slice::from_raw_parts(items, count) }
}
