//! What the plan says of applications that record their own events.

use super::{PlanError, memory};
use crate::cli::ProviderArgs;
use crate::manager::DEFAULT_BUFFER_BYTES;

/// How applications are recorded that are trace providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Providers {
    /// Buffer of each, in bytes.
    pub buffer_bytes: usize,
    /// The categories that they are to record; empty for all.
    pub categories: Vec<String>,
}

impl Providers {
    /// What the arguments ask for; `None` when no application is to be let in.
    pub(super) fn new(args: &ProviderArgs) -> Result<Option<Providers>, PlanError> {
        if args.no_providers {
            return Ok(None);
        }
        let buffer_bytes = memory("--provider-buffer", args.provider_buffer)?;
        Ok(Some(Providers {
            buffer_bytes: buffer_bytes.unwrap_or(DEFAULT_BUFFER_BYTES),
            categories: args.categories.iter().map(|it| it.as_str().to_owned()).collect(),
        }))
    }
}
