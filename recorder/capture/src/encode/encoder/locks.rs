//! Which lock an outgoing thread waits for.

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

/// The kernel locks that threads wait for now, according to the tracepoints' own events. A waiting thread may sleep, be preempted and move
/// several times before it gets the lock.
pub(super) type Contended = HashMap<Tid, KernelLock>;

impl<L: Lanes> Encoder<L> {
    /// Drops the futex owner unless it is plausible: a known thread other than `waiter`, of the same process. A program may write anything
    /// into its memory.
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

    /// A thread begins or ends waiting for a kernel lock.
    pub(super) fn contention(&mut self, tid: Tid, contention: Contention) {
        match contention {
            Contention::Begin(lock) => {
                self.contended.insert(tid, lock);
            }
            // An end with another address belongs to a lock for which the thread only spun.
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

    /// Adds to the facts of an outgoing thread's slice the kernel lock that it waits for, if events reported one.
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

    /// The arguments for the lock on which the thread blocks: at most three. `name` is that of a kernel lock.
    pub(super) fn lock_args<'a>(
        &self,
        facts: SliceFacts,
        words: Words,
        name: Option<&'a str>,
    ) -> [Option<Arg<'a>>; 3] {
        // For a futex with priority inheritance, the kernel also has its own lock. The futex is more informative.
        if let Some(futex) = facts.futex.filter(|_| words.syscall.is_some()) {
            let owner = futex.owner.and_then(|owner| self.threads.find(owner));
            let owner = owner.map(|slot| Value::Koid(self.threads.thread(slot).koid));
            let role = if futex.is_end { strings::FUTEX_END_OF } else { strings::FUTEX_OWNER };
            let futex = Arg::new(strings::FUTEX, Value::Pointer(futex.address));
            return [Some(futex), owner.map(|owner| Arg::new(role, owner)), None];
        }
        let blocks = words.state.fxt == ThreadState::Blocked;
        let Some(lock) = facts.kernel_lock.filter(|_| blocks) else { return [None; 3] };
        // A reader of the file must not learn kernel addresses.
        let id = self.lock_ids.hash_one(lock.address) & u64::from(u32::MAX);
        [
            Some(Arg::new(strings::KERNEL_LOCK, Value::Pointer(id))),
            Some(Arg::new(strings::KERNEL_LOCK_KIND, Value::Str(Text::Inline(lock.kind.name())))),
            name.map(|name| Arg::new(strings::KERNEL_LOCK_NAME, Value::Str(Text::Inline(name)))),
        ]
    }
}
