//! A layer for `tracing-subscriber`: one line makes an application that uses the
//! crate `tracing` a trace provider.
//!
//! ```standalone_crate
//! # fn main() -> Result<(), fxt_writer::provider::tracing::InitError> {
//! let _provider = fxt_writer::provider::tracing::init("app")?;
//! # Ok(())
//! # }
//! ```
//!
//! To combine it with other layers, make the provider with
//! [`provider::init`](super::init):
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(fxt_writer::provider::tracing::layer());
//! # drop(subscriber);
//! ```
//!
//! | in the program | in the trace |
//! |---|---|
//! | target | category, so that `app*` enables all modules of `app` |
//! | a span is entered, and left | a duration begins, and ends |
//! | fields of a span | arguments of the begin |
//! | an event | an instant, named by its message, with its fields and level |
//! | an event of a level that was asked for | a log record |
//!
//! While no session runs, and for targets that the session does not record,
//! `tracing` itself disables spans and events, at the cost of a load and a
//! branch. A span that was created while disabled stays disabled: its later
//! entries are not recorded.

mod fields;
mod layer;
mod points;

pub use layer::{ProviderLayer, WantedTargets};

use tracing_core::LevelFilter;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::Provider;

/// The reason why [`init`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The process cannot become a provider.
    #[error(transparent)]
    Provider(#[from] super::InitError),
    /// There is already a subscriber; add the [`layer`] to it.
    #[error("a tracing subscriber is already set; add provider::tracing::layer() to it: {0}")]
    Subscriber(#[from] tracing_subscriber::util::TryInitError),
}

/// Makes this process a trace provider with that name, and records its spans and
/// events.
///
/// # Errors
///
/// Returns an error when there is already a subscriber, or as for [`provider::init`](super::init).
pub fn init(name: &str) -> Result<Provider, InitError> {
    let provider = super::init(name)?;
    tracing_subscriber::registry().with(layer()).try_init()?;
    Ok(provider)
}

/// The layer, for a subscriber that also has other layers.
#[must_use]
pub fn layer<S>() -> Filtered<ProviderLayer, WantedTargets, S>
where
    ProviderLayer: Layer<S>,
    S: tracing_core::Subscriber,
{
    ProviderLayer::new().filtered()
}

/// The layer, with events of this level and above as log records instead of
/// instants.
#[must_use]
pub fn layer_with_logs<S>(level: LevelFilter) -> Filtered<ProviderLayer, WantedTargets, S>
where
    ProviderLayer: Layer<S>,
    S: tracing_core::Subscriber,
{
    ProviderLayer::new().with_logs(level).filtered()
}
