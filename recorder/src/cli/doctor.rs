//! The arguments of `fxtrec doctor`.

use clap::Args;

/// The arguments of `fxtrec doctor`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}
