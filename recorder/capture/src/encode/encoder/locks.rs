//! Which lock the thread waits for that goes out.

use std::collections::HashMap;
use std::hash::BuildHasher;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::ThreadState;
use fxt_writer::{Arg, Text, Value};

use super::{Encoder, Words};
use crate::encode::Closed;
use crate::encode::strings;
use crate::encode::threads::{IDLE, Slot};
use crate::event::{Contention, Futex, KernelLock, SliceFacts};
use fxtrec_units::Tid;

/// Which locks of the kernel threads wait for now, by the tracepoints' own events. A thread that waits may sleep, be preempted
/// and move several times before it has the lock.
pub(super) type Contended = HashMap<Tid, KernelLock>;

impl<L: Lanes> Encoder<L> {
    /// Makes sure that the one that a program calls the owner of a futex may be that: another thread of the process of
    /// `waiter`, which is there. A program may write anything into its memory.
    #[cold]
    pub(super) fn with_owner(
        &mut self,
        waiter: Slot,
        facts: SliceFacts,
    ) -> Result<SliceFacts, Closed> {
        let thread = self.threads.thread(waiter);
        let (process, in_scope) = (thread.process, thread.in_scope);
        if self.narrow && !in_scope {
            return Ok(SliceFacts { futex: None, kernel_lock: None, ..facts });
        }
        let Some(futex) = facts.futex else { return Ok(facts) };
        let owner = futex.owner.filter(|owner| {
            let found = self.threads.find(*owner).filter(|slot| *slot != waiter && *slot != IDLE);
            found.is_some_and(|slot| self.threads.thread(slot).process == process)
        });
        if let Some(slot) = owner.and_then(|owner| self.threads.find(owner)) {
            self.name(slot)?;
        }
        Ok(SliceFacts { futex: Some(Futex { owner, ..futex }), ..facts })
    }

    /// A thread begins or ends to wait for a lock of the kernel.
    pub(super) fn contention(&mut self, tid: Tid, contention: Contention) {
        match contention {
            Contention::Begin(lock) => {
                self.contended.insert(tid, lock);
            }
            // A lock for which it only spun meanwhile is another one.
            Contention::End(address) => {
                let is_it = self.contended.get(&tid).is_some_and(|lock| lock.address == address);
                if is_it {
                    self.contended.remove(&tid);
                }
            }
        }
        self.none_is_plain = !self.contended.is_empty();
    }

    /// Events are missing, and with them the end of any wait.
    pub(super) fn forget_contention(&mut self) {
        self.contended.clear();
        self.none_is_plain = false;
    }

    /// What befell the slice of a thread that goes out, and for which lock of the kernel it waits, if events told that.
    #[inline]
    pub(super) fn with_contention(
        &self,
        tid: Tid,
        slice: Option<SliceFacts>,
    ) -> Option<SliceFacts> {
        match self.contended.get(&tid) {
            Some(&lock) => {
                Some(SliceFacts { kernel_lock: Some(lock), ..slice.unwrap_or_default() })
            }
            None => slice,
        }
    }

    /// The arguments that tell of the lock for which the thread blocks: at most three. `name` is that of a lock of the kernel.
    pub(super) fn lock_args<'a>(
        &self,
        facts: SliceFacts,
        words: Words,
        name: Option<&'a str>,
    ) -> [Option<Arg<'a>>; 3] {
        // The kernel has a lock of its own behind a futex whose owner inherits priority. The futex says more.
        if let Some(futex) = facts.futex.filter(|_| words.syscall.is_some()) {
            let owner = futex.owner.and_then(|owner| self.threads.find(owner));
            let owner = owner.map(|slot| Value::Koid(self.threads.thread(slot).koid));
            let role = if futex.is_end { strings::FUTEX_END_OF } else { strings::FUTEX_OWNER };
            let futex = Arg::new(strings::FUTEX, Value::Pointer(futex.address));
            return [Some(futex), owner.map(|owner| Arg::new(role, owner)), None];
        }
        let blocks = words.state.fxt == ThreadState::Blocked;
        let Some(lock) = facts.kernel_lock.filter(|_| blocks) else { return [None; 3] };
        // Who has the file is not to learn where the kernel lies in memory.
        let id = self.lock_ids.hash_one(lock.address) & u64::from(u32::MAX);
        [
            Some(Arg::new(strings::KERNEL_LOCK, Value::Pointer(id))),
            Some(Arg::new(strings::KERNEL_LOCK_KIND, Value::Str(Text::Inline(lock.kind.name())))),
            name.map(|name| Arg::new(strings::KERNEL_LOCK_NAME, Value::Str(Text::Inline(name)))),
        ]
    }
}
