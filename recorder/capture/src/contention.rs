//! What kind of lock of the kernel a thread waits for.

use fxtrec_kernel::bpf::contentions::flag;
use fxtrec_kernel::bpf::lane;
use fxtrec_units::lock_kind::LockKind;

/// A lock of the kernel that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLock {
    pub address: u64,
    pub kind: LockKind,
}

impl KernelLock {
    /// What the flags of `lock:contention_begin` say.
    pub(crate) fn new(raw: lane::Contention) -> KernelLock {
        let has = |bit: u32| raw.flags & bit != 0;
        let access = |read, write, other| match (has(flag::READ), has(flag::WRITE)) {
            (true, false) => read,
            (false, true) => write,
            _ => other,
        };
        use LockKind::*;
        let kind = match () {
            () if has(flag::MUTEX) => Mutex,
            () if has(flag::RT) => access(RtRead, RtWrite, RtMutex),
            () if has(flag::PERCPU) => access(PercpuRwsemRead, PercpuRwsemWrite, Other),
            () => access(RwsemRead, RwsemWrite, Other),
        };
        KernelLock { address: raw.address, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_tracepoint_tell_the_kind() {
        let kinds = [
            (32, "mutex"),
            (2, "rwsem_read"),
            (4, "rwsem_write"),
            (8, "rt_mutex"),
            (8 | 2, "rt_read"),
            (8 | 4, "rt_write"),
            (16 | 2, "percpu_rwsem_read"),
            (16 | 4, "percpu_rwsem_write"),
            (16, "other"),
            (0, "other"),
            (1 << 6, "other"),
        ];
        for (flags, kind) in kinds {
            let raw = lane::Contention { address: 0x10, flags };
            let lock = KernelLock::new(raw);
            assert_eq!((lock.address, lock.kind.name()), (0x10, kind), "{flags}");
        }
    }
}
