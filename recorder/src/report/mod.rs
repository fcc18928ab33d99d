//! What a recording says about latency, and verdicts about it.
//!
//! [`gates`] decide whether a build fails.

pub mod gates;
