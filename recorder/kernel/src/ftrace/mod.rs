//! ftrace: a separate tracing instance, and the raw pages of its rings.
//!
//! Where perf events are refused but tracefs is accessible, ftrace provides the same tracepoints. An [`instance`] is a directory of tracefs
//! with its own rings, so other users' tracing is not affected; it is removed when fxtrec ends. Each CPU's ring is read page by page
//! ([`pipe`]), and the pages are parsed according to the kernel's description of their form ([`layout`], [`page`]).

pub mod error;
pub mod instance;
pub mod layout;
pub mod owner;
pub mod page;
pub mod pipe;
pub mod refused;
pub mod stats;

pub use error::FtraceError;
