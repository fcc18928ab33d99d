//! Locks of the kernel, by their kind.

/// What kind of lock of the kernel it is: see `docs/trace.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelLock {
    Mutex,
    RtMutex,
    RtRead,
    RtWrite,
    RwsemRead,
    RwsemWrite,
    PercpuRwsemRead,
    PercpuRwsemWrite,
    Other,
}

impl KernelLock {
    const ALL: [KernelLock; 9] = [
        KernelLock::Mutex,
        KernelLock::RtMutex,
        KernelLock::RtRead,
        KernelLock::RtWrite,
        KernelLock::RwsemRead,
        KernelLock::RwsemWrite,
        KernelLock::PercpuRwsemRead,
        KernelLock::PercpuRwsemWrite,
        KernelLock::Other,
    ];

    /// The kind of that name in a trace.
    pub fn parse(name: &str) -> KernelLock {
        let named = KernelLock::ALL.into_iter().find(|kind| kind.name() == name);
        named.unwrap_or(KernelLock::Other)
    }

    /// Its name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            KernelLock::Mutex => "mutex",
            KernelLock::RtMutex => "rt_mutex",
            KernelLock::RtRead => "rt_read",
            KernelLock::RtWrite => "rt_write",
            KernelLock::RwsemRead => "rwsem_read",
            KernelLock::RwsemWrite => "rwsem_write",
            KernelLock::PercpuRwsemRead => "percpu_rwsem_read",
            KernelLock::PercpuRwsemWrite => "percpu_rwsem_write",
            KernelLock::Other => "other",
        }
    }

    /// What the lock is called, whatever it is wanted for.
    pub const fn noun(self) -> &'static str {
        match self {
            KernelLock::Mutex => "mutex",
            KernelLock::RtMutex => "rtmutex",
            KernelLock::RtRead | KernelLock::RtWrite => "rwlock",
            KernelLock::RwsemRead | KernelLock::RwsemWrite => "rwsem",
            KernelLock::PercpuRwsemRead | KernelLock::PercpuRwsemWrite => "percpu rwsem",
            KernelLock::Other => "lock",
        }
    }

    /// What it is wanted for, to follow its name.
    pub const fn access(self) -> &'static str {
        match self {
            KernelLock::RtRead | KernelLock::RwsemRead | KernelLock::PercpuRwsemRead => {
                " for reading"
            }
            KernelLock::RtWrite | KernelLock::RwsemWrite | KernelLock::PercpuRwsemWrite => {
                " for writing"
            }
            KernelLock::Mutex | KernelLock::RtMutex | KernelLock::Other => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_by_its_name_and_others_are_locks_too() {
        for kind in KernelLock::ALL {
            assert_eq!(KernelLock::parse(kind.name()), kind);
        }
        assert_eq!(KernelLock::parse("something new"), KernelLock::Other);
        let write = KernelLock::RwsemWrite;
        assert_eq!((write.noun(), write.access()), ("rwsem", " for writing"));
    }
}
