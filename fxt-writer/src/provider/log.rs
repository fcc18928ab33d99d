//! A logger for the crate `log`: its records are written to the trace, as log records of the logging thread.
//!
//! ```
//! # fn main() -> Result<(), fxt_writer::provider::log::InitError> {
//! let _provider = fxt_writer::provider::log::init("app")?;
//! # Ok(())
//! # }
//! ```
//!
//! The crate `log` supports one logger. If the program already uses one, such as that of `env_logger`, [`init_before`] puts this one in
//! front of it.
//!
//! A record's target is its category, so that `app*` turns on all modules of `app`; its text is `LEVEL target: message`.
//! While no session runs, `log` itself turns records off, at the cost of a load and a branch.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{OnceLock, PoisonError, RwLock};

use log::{LevelFilter, Log, Metadata, Record, SetLoggerError};

use super::format::{Bounded, with_scratch};
use super::{Provider, Site, hook, sys};

/// The reason why [`init`] or [`init_before`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The process cannot become a provider.
    #[error(transparent)]
    Provider(#[from] super::InitError),
    /// There is already a logger.
    #[error("a logger is already set; give it to provider::log::init_before instead: {0}")]
    Logger(#[from] SetLoggerError),
}

/// Makes this process a trace provider with this name, and records what it logs.
///
/// # Errors
///
/// Returns an error when there is already a logger, or as for [`provider::init`](super::init).
pub fn init(name: &str) -> Result<Provider, InitError> {
    begin(name, None, LevelFilter::Off)
}

/// The same as [`init`], and also passes each record up to the level `most` to another logger, whether or not a session is running.
///
/// # Errors
///
/// The same as for [`init`].
pub fn init_before(
    name: &str,
    other: Box<dyn Log>,
    most: LevelFilter,
) -> Result<Provider, InitError> {
    begin(name, Some(other), most)
}

fn begin(
    name: &str,
    other: Option<Box<dyn Log>>,
    most: LevelFilter,
) -> Result<Provider, InitError> {
    log::set_boxed_logger(Box::new(ProviderLogger { other, most }))?;
    // The logger has not been set before, because a process has only one.
    let _ = MOST_OF_OTHER.set(most);
    hook::call_on_change(set_most);
    set_most();
    Ok(super::init(name)?)
}

static MOST_OF_OTHER: OnceLock<LevelFilter> = OnceLock::new();

/// Makes `log` pass on everything while a session runs, and otherwise only what the other logger accepts.
fn set_most() {
    let other = MOST_OF_OTHER.get().copied().unwrap_or(LevelFilter::Off);
    log::set_max_level(if sys::generation() == 0 { other } else { LevelFilter::Trace });
}

struct ProviderLogger {
    other: Option<Box<dyn Log>>,
    most: LevelFilter,
}

impl ProviderLogger {
    fn other_for(&self, metadata: &Metadata<'_>) -> Option<&dyn Log> {
        let other = self.other.as_deref()?;
        (metadata.level() <= self.most && other.enabled(metadata)).then_some(other)
    }
}

impl Log for ProviderLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        (sys::generation() != 0 && site(metadata.target()).is_wanted())
            || self.other_for(metadata).is_some()
    }

    fn log(&self, record: &Record<'_>) {
        // Without a session, skip the look-up.
        if sys::generation() != 0
            && let Some(armed) = site(record.target()).armed()
        {
            with_scratch(|text| {
                let (level, target) = (record.level(), record.target());
                // Full, or Display failed: use the text so far.
                let _ = write!(Bounded(text), "{level} {target}: {}", record.args());
                armed.log(text);
            });
        }
        if let Some(other) = self.other_for(record.metadata()) {
            other.log(record);
        }
    }

    fn flush(&self) {
        // Records are in shared memory and need no flush.
        if let Some(other) = &self.other {
            other.flush();
        }
    }
}

/// The maximum number of targets that get their own trace point, which is never freed. Targets are module paths, unless a program generates
/// them at run time.
const MOST_TARGETS: usize = 4096;

/// The trace point of a target.
fn site(target: &str) -> &'static Site {
    static SITES: OnceLock<RwLock<HashMap<&'static str, &'static Site>>> = OnceLock::new();
    static OTHERS: Site = Site::new("log", "log");
    let sites = SITES.get_or_init(RwLock::default);
    if let Some(site) = sites.read().unwrap_or_else(PoisonError::into_inner).get(target) {
        return site;
    }
    let mut sites = sites.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = sites.get(target) {
        return site;
    }
    if sites.len() >= MOST_TARGETS {
        return &OTHERS;
    }
    let site = Site::leaked(target, "log");
    sites.insert(String::from(target).leak(), site);
    site
}
