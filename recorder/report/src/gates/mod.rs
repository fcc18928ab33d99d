//! Gates: a verdict about a recording, for builds that should fail if latency gets worse.
//!
//! A gate is a line such as `wakeup.max > 20ms if comm ~ "audio*"`. It states a condition that must not be true: the gate fails if the
//! measured value is beyond the limit. [`fxtrec_gates`] parses such lines before anything is recorded; [`evaluate`] compares them with the
//! measured values. `docs/reference/gates.md` is the user's page.

pub mod evaluate;
pub mod evidence;
pub mod recorded;
pub mod show;
