//! Reading the policy, if nobody but root can have written it.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::PolicyError;
use fxtrec_kernel::regular;

/// No policy is longer, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// Bits of a mode that let others than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

const PERMISSIONS: u32 = 0o7777;

pub(super) fn read(path: &Path) -> Result<String, PolicyError> {
    let failed = |source| PolicyError::Read { path: path.to_owned(), source };
    // What is read is what was looked at: both go by the same descriptor.
    let file = regular::open(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => PolicyError::NoFile(path.to_owned()),
        _ => failed(error),
    })?;
    let facts = file.metadata().map_err(failed)?;
    if facts.uid() != 0 {
        return Err(PolicyError::Owner { path: path.to_owned(), uid: facts.uid() });
    }
    if facts.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(PolicyError::Mode { path: path.to_owned(), mode: facts.mode() & PERMISSIONS });
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(PolicyError::TooLong { path: path.to_owned(), most: MOST_BYTES });
    }
    Ok(text)
}
