//! The conventions of all writers of fxtrec's traces that the format leaves open.

use fxt_format::{Koid, ProviderId};

use crate::LocalId;

/// The provider id of fxtrec's own records. The ids of applications follow it.
pub const PROVIDER: ProviderId = ProviderId(1);

/// The version of the meaning of events and arguments, in `trace_info`. It increases when a field changes its meaning or is removed;
/// additions do not change it.
pub const SCHEMA: u64 = 1;

/// The argument that marks beginnings and ends of durations which are only the limits of a rotated file.
pub const CUT: &str = "cut";

/// For each recording in a merged trace, the event that gives the number of its CPU 0, and the arguments of that event.
pub const HOST_CPUS: &str = "host_cpus";
pub const HOST: &str = "host";
pub const FIRST_CPU: &str = "first_cpu";

/// The lowest thread id of the placeholders for other users' threads in a recording of a user's own processes: `OTHER_USERS` in
/// `bpf/owner.h`, without the bits of a generation.
const FIRST_STAND_IN: u64 = 62 << 16;

/// Whether a thread represents all threads of other users, or of the kernel, on a CPU; and its name in a sentence.
pub fn stand_in(comm: &str, tid: u64) -> Option<&'static str> {
    match comm {
        "another user" if tid >= FIRST_STAND_IN => Some("another user"),
        "kernel thread" if tid >= FIRST_STAND_IN => Some("a kernel thread"),
        _ => None,
    }
}

/// A koid for a thread of a provider in a separate pid namespace, if only its id in that namespace is known. Two threads whose ids have
/// the same lower half cannot be distinguished.
pub fn unseen_thread_koid(provider: ProviderId, tid: u32) -> Koid {
    // Greater than the koids of the processes below, within the 32 bits that readers keep.
    Koid(0xc000_0000 | u64::from(provider.0 & 0x3fff) << 16 | u64::from(tid & 0xffff))
}

/// A koid for a process if only the id of its main thread in an inner pid namespace is known.
pub fn inner_process_koid(pid: LocalId) -> Koid {
    // Greater than every tid of the first generations, within the 32 bits that readers keep.
    Koid(0x8000_0000 + u64::from(pid.0))
}
