//! Kinds of kernel locks.

/// The kind of a kernel lock, and the requested access: see `docs/reference/trace.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    Mutex,
    /// With `PREEMPT_RT`, other locks are built on this one.
    RtMutex,
    RtRead,
    RtWrite,
    RwsemRead,
    RwsemWrite,
    PercpuRwsemRead,
    PercpuRwsemWrite,
    Other,
}

impl LockKind {
    const ALL: [LockKind; 9] = [
        LockKind::Mutex,
        LockKind::RtMutex,
        LockKind::RtRead,
        LockKind::RtWrite,
        LockKind::RwsemRead,
        LockKind::RwsemWrite,
        LockKind::PercpuRwsemRead,
        LockKind::PercpuRwsemWrite,
        LockKind::Other,
    ];

    /// The kind with that name in a trace.
    pub fn parse(name: &str) -> LockKind {
        let named = LockKind::ALL.into_iter().find(|kind| kind.name() == name);
        named.unwrap_or(LockKind::Other)
    }

    /// Its name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            LockKind::Mutex => "mutex",
            LockKind::RtMutex => "rt_mutex",
            LockKind::RtRead => "rt_read",
            LockKind::RtWrite => "rt_write",
            LockKind::RwsemRead => "rwsem_read",
            LockKind::RwsemWrite => "rwsem_write",
            LockKind::PercpuRwsemRead => "percpu_rwsem_read",
            LockKind::PercpuRwsemWrite => "percpu_rwsem_write",
            LockKind::Other => "other",
        }
    }

    /// The name of the lock, for every kind of access.
    pub const fn noun(self) -> &'static str {
        match self {
            LockKind::Mutex => "mutex",
            LockKind::RtMutex => "rtmutex",
            LockKind::RtRead | LockKind::RtWrite => "rwlock",
            LockKind::RwsemRead | LockKind::RwsemWrite => "rwsem",
            LockKind::PercpuRwsemRead | LockKind::PercpuRwsemWrite => "percpu rwsem",
            LockKind::Other => "lock",
        }
    }

    /// The requested access, as words that follow the noun.
    pub const fn access(self) -> &'static str {
        match self {
            LockKind::RtRead | LockKind::RwsemRead | LockKind::PercpuRwsemRead => " for reading",
            LockKind::RtWrite | LockKind::RwsemWrite | LockKind::PercpuRwsemWrite => " for writing",
            LockKind::Mutex | LockKind::RtMutex | LockKind::Other => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_by_its_name_and_others_are_locks_too() {
        for kind in LockKind::ALL {
            assert_eq!(LockKind::parse(kind.name()), kind);
        }
        assert_eq!(LockKind::parse("something new"), LockKind::Other);
        let write = LockKind::RwsemWrite;
        assert_eq!((write.noun(), write.access()), ("rwsem", " for writing"));
    }
}
