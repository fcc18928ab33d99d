//! ftrace: a tracing instance of fxtrec's own, and the raw pages of its rings.
//!
//! Where perf events are refused but tracefs is open, the same tracepoints can be
//! had from ftrace. An [`instance`] is a directory of tracefs with rings of its
//! own, so that nobody else's tracing is touched; it goes when fxtrec goes. Each
//! CPU's ring is read page by page ([`pipe`]), and the pages are taken apart by
//! what the kernel says about their form ([`layout`], [`page`]).

pub mod error;
pub mod instance;
pub mod layout;
pub mod owner;
pub mod page;
pub mod pipe;
pub mod refused;
pub mod stats;

pub use error::FtraceError;
