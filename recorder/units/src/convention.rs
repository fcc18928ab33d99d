//! The conventions of all writers of fxtrec's traces that the format leaves open.

use fxt_format::{Koid, ProviderId};

use crate::LocalId;

/// The provider id of fxtrec's own records. The ids of applications follow it.
pub const PROVIDER: ProviderId = ProviderId(1);

/// The version of the meaning of events and arguments, in `trace_info`. It increases when one of them changes its meaning or is removed;
/// additions do not change it.
pub const SCHEMA: u64 = 1;

/// The argument that marks beginnings and ends of durations which are only the limits of a rotated file.
pub const CUT: &str = "cut";

/// A koid for a thread of a provider in a separate pid namespace, if only its id in that namespace is known. Two threads whose ids have
/// the same lower half cannot be distinguished.
pub fn unseen_thread_koid(provider: ProviderId, tid: u32) -> Koid {
    // Greater than the koids of the processes below, within the 32 bits that readers keep.
    Koid(0xc000_0000 | u64::from(provider.0 & 0x3fff) << 16 | u64::from(tid & 0xffff))
}

/// A koid for a process if only the id of its main thread in an inner pid namespace is known.
pub fn inner_process_koid(pid: LocalId) -> Koid {
    // Greater than every tid and its first generations, within the 32 bits that readers keep.
    Koid(0x8000_0000 + u64::from(pid.0))
}
