//! Which kernel lock a thread waits for, from records of the source `bpf` and from the tracepoints themselves.

use std::ffi::CString;

use super::event::Kind;
use super::tracepoint::{At, LayoutError, chunk, id, least, locate, tid_at, u32_at};
use fxtrec_kernel::bpf::contentions::flag;
use fxtrec_kernel::bpf::lane;
use fxtrec_kernel::format::Format;
use fxtrec_kernel::perf::Chosen;
use fxtrec_units::Tid;
use fxtrec_units::lock_kind::LockKind;

/// A kernel lock that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLock {
    pub address: u64,
    pub kind: LockKind,
}

impl KernelLock {
    /// Decodes the flags of `lock:contention_begin`.
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

/// The tracepoints `lock:contention_begin` and `contention_end`, for sources that deliver their raw data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// The thread finds the lock held by another, and waits.
    Begin(KernelLock),
    /// The thread has the lock at this address, or stopped waiting for it.
    End(u64),
}

/// The format descriptions of the tracepoints.
#[derive(Clone, Debug)]
pub struct ContentionFormats {
    pub begin: Format,
    pub end: Format,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    id: u16,
    least: usize,
    pid: At,
    lock: At,
}

/// The offsets of their fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentionLayout {
    begin: Shape,
    flags: At,
    end: Shape,
}

impl Shape {
    fn new(format: &Format) -> Result<Shape, LayoutError> {
        Ok(Shape {
            id: id(format)?,
            least: least(format),
            pid: locate(format, "common_pid", &[4])?,
            lock: locate(format, "lock_addr", &[8])?,
        })
    }

    /// The thread, and the address of the lock.
    fn decode(self, raw: &[u8]) -> Option<(Tid, u64)> {
        let raw = raw.get(..self.least)?;
        Some((tid_at(raw, self.pid)?, u64::from_ne_bytes(chunk(raw, self.lock)?)))
    }
}

impl ContentionLayout {
    pub(super) fn new(formats: &ContentionFormats) -> Result<ContentionLayout, LayoutError> {
        let (begin, end) = (Shape::new(&formats.begin)?, Shape::new(&formats.end)?);
        Ok(ContentionLayout { begin, flags: locate(&formats.begin, "flags", &[4])?, end })
    }

    /// The events that count, in the kernel's filter language: a thread that only spins keeps its CPU.
    pub(super) fn filter_of_begins() -> String {
        format!("!(flags & {})", flag::SPIN)
    }

    /// The events to record.
    pub(super) fn chosen(&self) -> [Chosen; 2] {
        // The text contains no NUL byte.
        let filter = CString::new(Self::filter_of_begins()).ok();
        let begin = Chosen { id: self.begin.id.into(), filter };
        [begin, Chosen { id: self.end.id.into(), filter: None }]
    }

    /// Decodes the sample of the tracepoint with this id, common fields first; `None` for other tracepoints.
    pub(super) fn decode(&self, id: u16, raw: &[u8]) -> Option<Kind> {
        if id == self.begin.id {
            let (tid, address) = self.begin.decode(raw)?;
            let flags = u32_at(raw, self.flags)?;
            let lock = KernelLock::new(lane::Contention { address, flags });
            return Some(Kind::Contention { tid, contention: Contention::Begin(lock) });
        }
        let (tid, address) = self.end.decode(raw).filter(|_| id == self.end.id)?;
        Some(Kind::Contention { tid, contention: Contention::End(address) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sched::tests::format;
    use super::*;

    fn layout() -> ContentionLayout {
        let begin = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;";
        let end = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;";
        ContentionLayout::new(&ContentionFormats {
            begin: format("contention_begin", 408, begin, "\"\""),
            end: format("contention_end", 407, end, "\"\""),
        })
        .expect("a known shape")
    }

    #[test]
    fn the_tracepoints_tell_who_waits_for_which_lock_and_who_does_no_longer() {
        let mut raw = [0; 20];
        raw[4..8].copy_from_slice(&77_u32.to_ne_bytes());
        raw[8..16].copy_from_slice(&0xffff_8000_1234_u64.to_ne_bytes());
        raw[16..20].copy_from_slice(&flag::MUTEX.to_ne_bytes());
        let of = |contention| Some(Kind::Contention { tid: Tid(77), contention });
        let lock = KernelLock { address: 0xffff_8000_1234, kind: LockKind::Mutex };
        assert_eq!(layout().decode(408, &raw), of(Contention::Begin(lock)));
        assert_eq!(layout().decode(407, &raw), of(Contention::End(0xffff_8000_1234)));
        assert_eq!(layout().decode(409, &raw), None);
        for id in [407, 408] {
            assert_eq!(layout().decode(id, &raw[..19]), None, "too short");
        }
    }

    #[test]
    fn the_kernel_is_asked_for_no_lock_for_which_a_thread_only_spins() {
        let begin = Chosen { id: 408, filter: Some(c"!(flags & 1)".to_owned()) };
        assert_eq!(layout().chosen(), [begin, Chosen { id: 407, filter: None }]);
    }

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
