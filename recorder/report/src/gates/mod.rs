//! Gates: a verdict about a recording, for a build that is to fail when latency gets worse.
//!
//! A gate is a line such as `wakeup.max > 20ms if comm ~ "audio*"`. It says what must not be: the gate fails when the
//! measured value is beyond the limit. [`fxtrec_gates`] reads such lines, before anything is recorded; [`evaluate`] holds them
//! against what was measured. `docs/reference/gates.md` is the user's page.

pub mod evaluate;
pub mod evidence;
pub mod recorded;
pub mod show;
