//! Determines from a program's memory which thread owns a futex.
//!
//! The kernel knows the owner of a futex only if the lock inherits priority or is robust: then the lock word contains the owner's id. A
//! mutex of the GNU C library stores the owner's id next to the word, after the lock was taken:
//!
//! ```text
//!   byte   0        4        8        12       16
//!          __lock   __count  __owner  __nusers __kind       pthread_mutex_t on 64-bit machines
//!          ^ the futex
//! ```
//!
//! A thread that waits for the end of another thread waits on the word in which the library stores that thread's id; the kernel sets it to
//! 0 when the thread ends. `pthread_join` does this, as does everything built on it, such as Rust's `JoinHandle::join`.
//!
//! No system call shows that a futex is such a mutex, so all known properties must match: the value that the library waits with, and the
//! kind. The result is only a claim of the program. The caller must check that such a thread exists in the same process.

use fxtrec_kernel::bpf::lane;
use fxtrec_units::Tid;

/// The futex that a thread blocks on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Futex {
    pub address: u64,
    /// The lock's owner, if the memory shows it; or the thread whose end is waited for.
    pub owner: Option<Tid>,
    /// Whether this is not a lock, but a wait for the end of another thread.
    pub is_end: bool,
}

/// `FUTEX_CMD_MASK` in the lower eight bits: all but `FUTEX_PRIVATE_FLAG`.
const COMMAND: u8 = 0x7f;

// Commands that wait.
const WAIT: u8 = 0;
const LOCK_PI: u8 = 6;
const WAIT_BITSET: u8 = 9;
const LOCK_PI2: u8 = 13;

/// `FUTEX_WAITERS`: there are waiters. The kernel and libraries set it in words that have an owner, and the library waits with it set.
const WAITERS: u32 = 1 << 31;

/// `FUTEX_TID_MASK`
const OWNER: u32 = (1 << 30) - 1;

/// The lowest id that a thread of a program may have. The words of locks are 0, 1 and 2; these are also the ids of the idle task, init and
/// kthreadd.
const FIRST: u32 = 3;

/// The word of a plain mutex that has waiters.
const CONTENDED: u32 = 2;

/// Bits of `__kind` that a plain mutex may have: its type (normal, recursive, checking, adaptive), whether processes share it, and whether
/// it may be elided. Other bits mean that it is robust, inherits priority or has a ceiling.
const PLAIN: u16 = 0x3 | 0x80 | 0x300;

impl Futex {
    /// The information that the memory of the program has about a futex.
    pub(crate) fn new(raw: lane::Futex) -> Futex {
        let thread = ending(&raw);
        let owner = thread.or_else(|| owner(&raw)).filter(|owner| *owner != Tid::IDLE);
        Futex { address: raw.address, owner, is_end: thread.is_some() }
    }
}

/// The thread whose end is waited for. Such a wait is never private, because the kernel ends it, and its value is a thread id.
fn ending(raw: &lane::Futex) -> Option<Tid> {
    let waits = matches!(raw.operation, WAIT | WAIT_BITSET);
    (waits && raw.value == raw.word && (FIRST..=OWNER).contains(&raw.value))
        .then_some(Tid(raw.value))
}

fn owner(raw: &lane::Futex) -> Option<Tid> {
    let command = raw.operation & COMMAND;
    match command {
        LOCK_PI | LOCK_PI2 => Some(Tid(raw.word & OWNER)),
        // A robust mutex; no other lock has such a value.
        WAIT | WAIT_BITSET if raw.value & WAITERS != 0 => Some(Tid(raw.word & OWNER)),
        // A plain mutex. With a timeout the library uses the other command, which is also used for locks without an owner.
        WAIT if raw.value == CONTENDED && raw.word == CONTENDED && raw.after_16 & !PLAIN == 0 => {
            Some(Tid(raw.after_8))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE: u8 = 128;

    fn raw(operation: u8) -> lane::Futex {
        lane::Futex { address: 0x1000, operation: operation | PRIVATE, ..lane::Futex::default() }
    }

    fn owner_of(raw: lane::Futex) -> Option<u32> {
        let futex = Futex::new(raw);
        assert_eq!(futex.address, 0x1000);
        futex.owner.map(|owner| owner.0)
    }

    fn mutex() -> lane::Futex {
        lane::Futex { value: 2, word: 2, after_8: 77, ..raw(WAIT) }
    }

    #[test]
    fn the_word_of_a_lock_that_inherits_priority_has_the_owner() {
        for command in [LOCK_PI, LOCK_PI2] {
            let word = 77 | WAITERS;
            assert_eq!(owner_of(lane::Futex { word, after_8: 5, ..raw(command) }), Some(77));
            assert_eq!(owner_of(raw(command)), None, "nobody has it, or it could not be read");
        }
    }

    #[test]
    fn the_word_of_a_robust_mutex_has_the_owner() {
        let value = 77 | WAITERS;
        // The owner may have changed before the thread is switched out.
        let robust = lane::Futex { value, word: 78 | WAITERS, ..raw(WAIT_BITSET) };
        assert_eq!(owner_of(robust), Some(78));
    }

    #[test]
    fn a_plain_mutex_has_its_owner_next_to_the_word() {
        assert_eq!(owner_of(mutex()), Some(77));
        assert_eq!(owner_of(lane::Futex { after_8: 0, ..mutex() }), None, "not written yet");
        for kind in [0, 1, 2, 3, 0x80, 0x203] {
            assert_eq!(owner_of(lane::Futex { after_16: kind, ..mutex() }), Some(77), "{kind}");
        }
    }

    #[test]
    fn the_end_of_a_thread_is_the_word_with_its_id() {
        let join = |operation| lane::Futex { operation, value: 77, word: 77, ..raw(0) };
        for operation in [WAIT, WAIT_BITSET] {
            let futex = Futex::new(join(operation));
            assert_eq!((futex.owner, futex.is_end), (Some(Tid(77)), true));
        }
        let others = [
            join(WAIT | PRIVATE),
            join(LOCK_PI),
            lane::Futex { word: 0, ..join(WAIT) },
            // A mutex that processes share.
            lane::Futex { value: 2, word: 2, after_8: 77, ..join(WAIT) },
            lane::Futex { value: 77 | WAITERS, word: 77 | WAITERS, ..join(WAIT) },
        ];
        assert!(others.into_iter().all(|other| !Futex::new(other).is_end));
    }

    #[test]
    fn what_is_not_all_that_a_plain_mutex_is_has_no_owner() {
        let others = [
            lane::Futex { operation: WAIT_BITSET | PRIVATE, ..mutex() },
            lane::Futex { value: 1, ..mutex() },
            lane::Futex { word: 1, ..mutex() },
            lane::Futex { word: 0, after_8: 0, ..mutex() },
            lane::Futex { after_16: 0x20, ..mutex() },
            lane::Futex { after_16: 0x7f3c, ..mutex() },
            lane::Futex { operation: 11 | PRIVATE, ..mutex() },
        ];
        for other in others {
            assert_eq!(owner_of(other), None, "{other:?}");
        }
    }
}
