//! What all that write into fxtrec's traces agree on, and the format leaves open.

use fxt_format::{Koid, ProviderId};

use crate::LocalId;

/// The provider id of fxtrec's own records. Those of applications come after it.
pub const PROVIDER: ProviderId = ProviderId(1);

/// The argument that marks beginnings and ends of durations which are only those of a piece.
pub const CUT: &str = "cut";

/// A koid for a process of whose main thread only the id in an inner pid namespace is known.
pub fn inner_process_koid(pid: LocalId) -> Koid {
    // Beyond every tid and its first generations, within the 32 bits that readers keep.
    Koid(0x8000_0000 + u64::from(pid.0))
}
