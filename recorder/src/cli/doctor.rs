//! The arguments of `fxtrec doctor`.

use clap::Args;

/// The arguments of `fxtrec doctor`, which has none of its own.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DoctorArgs {}
