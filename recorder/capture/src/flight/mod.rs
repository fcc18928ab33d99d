//! What a running recording watches for, and how much of the recording to keep.
//!
//! [`ledger`] tracks the state of each thread, and when it began. [`watch`] compares every wait, slice and loss with the triggers as it
//! ends, and limits how often they fire. [`files`] keeps the files of a run within limits.
//!
//! ```text
//!   events in order --encode--> ledger: a wait of 7 ms has ended --watch--> fired --> a window of the trace, its file
//! ```

pub mod files;
pub mod ledger;
pub mod watch;
