//! The macros of trace points.
//!
//! All take a category and a name, both constant strings of 1 to 255 bytes, then
//! an id, if the kind of event has one, and last up to 15 arguments, as `key =
//! value` or `"any key" = value`. The types of values implement
//! [`Argument`](super::Argument). Values are computed only if the trace point
//! records.

/// Whether a category is recorded now, for work that only a trace needs.
///
/// ```
/// # use fxt_writer::provider;
/// # fn expensive_statistics() -> u64 { 0 }
/// if provider::enabled!("app:stats") {
///     provider::instant!("app:stats", "statistics", total = expensive_statistics());
/// }
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_enabled {
    ($category:expr $(,)?) => {
        $crate::__provider_site!($category, "enabled").is_wanted()
    };
}

/// The trace point of a macro use, if it records.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_armed {
    ($category:expr, $name:expr) => {
        $crate::__provider_site!($category, $name).armed()
    };
}

/// The trace point of a macro use.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_site {
    ($category:expr, $name:expr) => {{
        static SITE: $crate::provider::Site = $crate::provider::Site::new($category, $name);
        &SITE
    }};
}

/// The name of an argument as it is spelled in a macro.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_key {
    ($key:literal) => {
        $key
    };
    ($key:ident) => {
        stringify!($key)
    };
}

/// The names of arguments as a static array, and their values as an array.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_record {
    ($method:ident, $armed:expr, ($($kind:expr)?), $($key:tt = $value:expr),*) => {{
        static NAMES: [$crate::provider::Name; $crate::__provider_count!($($key)*)] =
            [$($crate::provider::Name::new($crate::__provider_key!($key))),*];
        $armed.$method($($kind,)? &NAMES, [$($crate::provider::Argument::value(&$value)),*])
    }};
}

/// The number of tokens.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_count {
    ($($token:tt)*) => {
        <[&str]>::len(&[$(stringify!($token)),*])
    };
}

/// An event of kind `$kind`.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_event {
    ($kind:expr, $category:expr, $name:expr, $($key:tt = $value:expr),*) => {
        if let Some(armed) = $crate::__provider_armed!($category, $name) {
            $crate::__provider_record!(event, armed, ($kind), $($key = $value),*);
        }
    };
}

/// A duration of this thread, from here to the end of the scope.
///
/// Returns a guard. Bind it to a name: `_` alone would drop it at once.
///
/// ```
/// # use fxt_writer::provider;
/// # let (path, bytes) = ("a", [0_u8; 4]);
/// let _span = provider::duration!("app", "load", path = path, bytes = bytes.len());
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_duration {
    ($category:expr, $name:expr $(, $key:tt = $value:expr)* $(,)?) => {
        match $crate::__provider_armed!($category, $name) {
            None => $crate::provider::Duration::none(),
            Some(armed) => $crate::__provider_record!(duration, armed, (), $($key = $value),*),
        }
    };
}

/// An instant event of this thread.
///
/// ```
/// # use fxt_writer::provider;
/// provider::instant!("app", "cache miss", key = 17, "why so" = "cold");
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_instant {
    ($category:expr, $name:expr $(, $key:tt = $value:expr)* $(,)?) => {
        $crate::__provider_event!(
            $crate::record::EventKind::Instant, $category, $name, $($key = $value),*
        )
    };
}

/// Samples of time series: each argument is a separate series. An optional id
/// distinguishes counters of the same name.
///
/// ```
/// # use fxt_writer::provider;
/// # let connection = 7_u64;
/// provider::counter!("app", "queue", waiting = 3, running = 1);
/// provider::counter!("app", "window", connection, bytes = 65_536);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_counter {
    ($category:expr, $name:expr, $($key:tt = $value:expr),+ $(,)?) => {
        $crate::__provider_event!(
            $crate::record::EventKind::Counter { id: 0 }, $category, $name, $($key = $value),*
        )
    };
    ($category:expr, $name:expr, $id:expr, $($key:tt = $value:expr),+ $(,)?) => {
        $crate::__provider_event!(
            $crate::record::EventKind::Counter { id: $id }, $category, $name, $($key = $value),*
        )
    };
}

/// An event that an id correlates with others.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_correlated {
    ($kind:ident, $category:expr, $name:expr, $id:expr
        $(, $key:tt = $value:expr)* $(,)?) => {
        $crate::__provider_event!(
            $crate::record::EventKind::$kind { id: $id }, $category, $name, $($key = $value),*
        )
    };
}

/// Begins an operation that may end on another thread; its events have the
/// same category and id. See [`unique_id`](crate::provider::unique_id).
///
/// ```
/// # use fxt_writer::provider;
/// let id = provider::unique_id();
/// provider::async_begin!("app", "request", id, path = "/");
/// provider::async_instant!("app", "headers", id);
/// provider::async_end!("app", "request", id, status = 200);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_async_begin {
    ($($point:tt)*) => {
        $crate::__provider_correlated!(AsyncBegin, $($point)*)
    };
}

/// An instant event within an operation that [`async_begin!`](crate::provider::async_begin) began.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_async_instant {
    ($($point:tt)*) => {
        $crate::__provider_correlated!(AsyncInstant, $($point)*)
    };
}

/// The end of an operation that [`async_begin!`](crate::provider::async_begin)
/// began.
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_async_end {
    ($($point:tt)*) => {
        $crate::__provider_correlated!(AsyncEnd, $($point)*)
    };
}

/// An operation, from here until the returned guard is dropped, possibly on another thread or after an `.await`. It gets a unique id.
///
/// ```
/// # use fxt_writer::provider;
/// # let path = "/";
/// let span = provider::async_span!("app", "request", path = path);
/// if let Some(id) = span.id() {
///     provider::async_instant!("app", "headers", id);
/// }
/// std::thread::spawn(move || drop(span)).join().unwrap();
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_async_span {
    ($category:expr, $name:expr $(, $key:tt = $value:expr)* $(,)?) => {
        match $crate::__provider_armed!($category, $name) {
            None => $crate::provider::AsyncSpan::none(),
            Some(armed) => $crate::__provider_record!(async_span, armed, (), $($key = $value),*),
        }
    };
}

/// Begins a flow in the duration around this: an arrow to the duration around
/// the next event of the same category, name and id.
///
/// ```
/// # use fxt_writer::provider;
/// let id = provider::unique_id();
/// {
///     let _span = provider::duration!("app", "send");
///     provider::flow_begin!("app", "message", id);
/// }
/// let _span = provider::duration!("app", "receive");
/// provider::flow_end!("app", "message", id);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_flow_begin {
    ($($point:tt)*) => {
        $crate::__provider_correlated!(FlowBegin, $($point)*)
    };
}

/// A step of a flow; see [`flow_begin!`](crate::provider::flow_begin).
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_flow_step {
    ($($point:tt)*) => {
        $crate::__provider_correlated!(FlowStep, $($point)*)
    };
}

/// The end of a flow; see [`flow_begin!`](crate::provider::flow_begin).
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_flow_end {
    ($($point:tt)*) => {
        $crate::__provider_correlated!(FlowEnd, $($point)*)
    };
}

/// Bytes under a name. More than 32 000 bytes take several records. Readers join
/// all pieces of a name, so threads that may write at the same time must use
/// different names.
///
/// ```
/// # use fxt_writer::provider;
/// provider::blob!("app", "state", &[1, 2, 3]);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_blob {
    ($category:expr, $name:expr, $bytes:expr $(,)?) => {
        if let Some(armed) = $crate::__provider_armed!($category, $name) {
            armed.blob(::core::convert::AsRef::<[u8]>::as_ref(&$bytes));
        }
    };
}

/// A log message: the category that enables it, and a format as in [`format!`].
///
/// ```
/// # use fxt_writer::provider;
/// # let peer = "::1";
/// provider::log!("app", "lost {peer} after {} s", 3);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_log {
    ($category:expr, $($format:tt)+) => {
        if let Some(armed) = $crate::__provider_armed!($category, "log") {
            $crate::provider::with_formatted(
                ::core::format_args!($($format)+),
                |message| armed.log(message),
            );
        }
    };
}

/// Reports an event to the manager, which may trigger on it, for instance to take
/// a snapshot: an alert of 1 to 14 bytes.
///
/// ```
/// # use fxt_writer::provider;
/// provider::alert!("app", "frame late");
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __provider_alert {
    ($category:expr, $name:expr $(,)?) => {
        if $crate::__provider_site!($category, $name).is_wanted() {
            $crate::provider::alert($name);
        }
    };
}

#[doc(inline)]
pub use crate::{
    __provider_alert as alert, __provider_async_begin as async_begin,
    __provider_async_end as async_end, __provider_async_instant as async_instant,
    __provider_async_span as async_span, __provider_blob as blob, __provider_counter as counter,
    __provider_duration as duration, __provider_enabled as enabled,
    __provider_flow_begin as flow_begin, __provider_flow_end as flow_end,
    __provider_flow_step as flow_step, __provider_instant as instant, __provider_log as log,
};
