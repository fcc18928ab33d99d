//! The errors of a policy.

use std::path::PathBuf;

/// The data that a user is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The policy does not allow it.
    #[error("{what}: {why}")]
    NotPermitted {
        what: String,
        /// The reason, and the policy that would permit it.
        why: String,
    },
    /// The policy has no user probe of this name.
    #[error("{} has no user probe '{name}'{}", .path.display(), .meant.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    NoSuchProbe {
        name: String,
        path: PathBuf,
        /// Similar names that the user may have meant.
        meant: Option<String>,
    },
}
