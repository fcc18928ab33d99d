//! What the plan says of applications that record their own events.

use super::{PlanError, memory};
use crate::cli::ProviderArgs;
use crate::manager::DEFAULT_BUFFER_BYTES;

/// The buffer of each when there are triggers and nobody asks for another size, in bytes: some 16 000 events per second
/// reach back 10 s.
const TRIGGER_BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// How applications are recorded that are trace providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Providers {
    /// Buffer of each, in bytes.
    pub buffer_bytes: usize,
    /// The categories that they are to record; empty for all.
    pub categories: Vec<String>,
}

impl Providers {
    /// What the arguments ask for, who are told these categories; `None` when no application is to be let in. With
    /// triggers (`armed`) buffers are to reach back further.
    pub(super) fn new(
        args: &ProviderArgs,
        categories: Vec<String>,
        armed: bool,
    ) -> Result<Option<Providers>, PlanError> {
        if args.no_providers {
            return Ok(None);
        }
        let buffer_bytes = memory("--provider-buffer", args.provider_buffer)?;
        let default = if armed { TRIGGER_BUFFER_BYTES } else { DEFAULT_BUFFER_BYTES };
        Ok(Some(Providers { buffer_bytes: buffer_bytes.unwrap_or(default), categories }))
    }
}
