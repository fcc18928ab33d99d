//! The part of a plan for applications that record their own events.

use super::{PlanError, memory};
use crate::cli::ProviderArgs;
use crate::manager::DEFAULT_BUFFER_BYTES;

/// The default buffer of each application with triggers, in bytes: at about 16 000 events per second, it reaches back 10 s.
const TRIGGER_BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// How applications that are trace providers are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Providers {
    /// Buffer of each, in bytes.
    pub buffer_bytes: usize,
    /// The categories that they record; empty for all.
    pub categories: Vec<String>,
}

impl Providers {
    /// The settings for providers, with these categories; `None` if the arguments exclude applications. With triggers (`armed`), larger
    /// buffers reach back further.
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
