//! An application as a trace provider: it records its own spans into a buffer
//! that it shares with the manager (`fxtrec`), which puts them into one archive
//! with the scheduler's, on one clock.
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
//! Under `fxtrec -- ./app` that is all there is to do: `init` returns when the
//! session runs. Without a manager it returns at once, and trace points record nothing: each is a relaxed load and a branch. A manager may
//! come, go and come back at any time.
//!
//! In a session the first pass of a trace point registers its strings; from then
//! on recording takes no lock, no system call and no memory. When the manager
//! does not save buffers fast enough, records are dropped and counted.
//!
//! A signal handler must not record. After `fork` the child records nothing, and
//! may become a provider of its own by [`init`].
//!
//! `docs/provider.md` in this crate has what things cost; [`wire`] is the control
//! protocol, for both sides. With the feature `tracing`, applications that use
//! that crate need one line: `provider::tracing::init("app")`; with the feature
//! `log`, those that use the crate `log` need `provider::log::init("app")`. The
//! feature `traced` is the attribute `#[traced]`, which makes a span of each call.

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

/// Each call of a function is a span: [`duration!`] from its first line to its end, whichever way it ends, or
/// [`async_span!`] of an `async fn`, from its first poll to its end or to when it is dropped.
///
/// Category and name may be given, in this order, and arguments behind them, which may use the function's
/// parameters. Without a category, that is the module's path; without a name, the function's.
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
/// A function without a body, a `const fn`, and what is no function are errors:
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
