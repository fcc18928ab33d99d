//! Makes an application a trace provider: it records its own spans into a buffer that it shares with the manager (`fxtrec`), which puts
//! them into one archive with the scheduler's events, on one clock.
//!
//! ```
//! use fxt_writer::provider::{self, duration, instant};
//!
//! fn main() -> Result<(), provider::InitError> {
//!     let _provider = provider::init("app")?;
//!     let _span = duration!("app", "everything", answer = 42);
//!     instant!("app", "a moment");
//!     Ok(())
//! }
//! ```
//!
//! Under `fxtrec -- ./app` nothing else is needed: `init` returns when the session runs. Without a manager, `init` returns at once, and
//! trace points record nothing: each costs a relaxed load and a branch. A manager may start, stop and restart at any time.
//!
//! In a session, the first pass of a trace point registers its strings; from then
//! on, recording takes no lock, makes no system call and allocates no memory. If
//! the manager does not save buffers fast enough, records are dropped and
//! counted.
//!
//! A signal handler must not record. After `fork`, the child records nothing; it
//! may become a provider itself by [`init`].
//!
//! `docs/provider.md` in this crate lists the costs; [`wire`] is the control
//! protocol, for both sides. With the feature `tracing`, applications that use
//! that crate need one line: `provider::tracing::init("app")`; with the feature
//! `log`, those that use the crate `log` need `provider::log::init("app")`. The
//! feature `traced` provides the attribute `#[traced]`, which records each call
//! of a function as a span.

mod argument;
mod categories;
mod client;
mod format;
mod handle;
mod hook;
mod local;
#[cfg(feature = "log")]
pub mod log;
mod macros;
mod plain;
mod record;
mod session;
mod site;
mod sys;
#[cfg(feature = "tracing")]
pub mod tracing;
pub mod wire;

pub use argument::Argument;
pub use categories::Categories;
pub use handle::{Builder, InitError, Provider, alert, init, unique_id};
#[doc(inline)]
pub use macros::{
    alert, async_begin, async_end, async_instant, async_span, blob, counter, duration, enabled,
    flow_begin, flow_end, flow_step, instant, log,
};
pub use record::{AsyncSpan, Duration};
pub use site::{Armed, Name, Site};

/// Records each call of a function as a span: a [`duration!`] from its first line to its end, however it ends, or, for an
/// `async fn`, an [`async_span!`] from its first poll until it ends or is dropped.
///
/// Category and name are optional, in this order, followed by arguments, which may use the function's parameters. The
/// default category is the module's path, the default name the function's.
///
/// ```
/// use fxt_writer::provider::traced;
///
/// #[traced]
/// fn parse(text: &str) -> usize {
///     text.len()
/// }
///
/// #[traced("app", "load a file", path = path, "at most" = 17)]
/// async fn load(path: &str) -> Result<(), std::io::Error> {
///     Ok(())
/// }
/// # assert_eq!(parse("four"), 4);
/// # drop(load("/"));
/// ```
///
/// Functions without a body, `const fn`s and items other than functions are errors:
///
/// ```compile_fail
/// #[fxt_writer::provider::traced]
/// struct NoFunction;
/// ```
///
/// ```compile_fail
/// #[fxt_writer::provider::traced]
/// const fn early() {}
/// ```
///
/// ```compile_fail
/// #[fxt_writer::provider::traced("app", "name", "what is this")]
/// fn too_much() {}
/// ```
#[cfg(feature = "traced")]
pub use fxt_macros::traced;

#[doc(hidden)]
pub use format::with_formatted;
#[doc(hidden)]
pub use sys::GENERATION as SESSION_WORD;
