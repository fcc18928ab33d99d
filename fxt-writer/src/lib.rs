//! Writes the Fuchsia trace format (FXT).
//!
//! The crate has two halves that can be used alone: the encoder, which turns
//! typed records into 64-bit words, and the trace engine, which gives many
//! threads room for such records in one buffer and hands full parts of it to
//! whoever saves them.

pub mod layout;
