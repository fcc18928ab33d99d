//! Reads the Fuchsia trace format (FXT).
//!
//! The parser borrows from the bytes it is given, keeps string and thread
//! tables for each provider, and goes on after damage.
