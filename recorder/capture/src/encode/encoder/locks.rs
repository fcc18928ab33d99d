//! Which lock the thread waits for that goes out.

use std::hash::BuildHasher;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::ThreadState;
use fxt_writer::{Arg, Text, Value};

use super::{Encoder, Words};
use crate::encode::Closed;
use crate::encode::strings;
use crate::encode::threads::{IDLE, Slot};
use crate::event::{Futex, SliceFacts};

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

    /// The arguments that tell of the lock for which the thread blocks: at most two.
    pub(super) fn lock_args(&self, facts: SliceFacts, words: Words) -> [Option<Arg<'static>>; 2] {
        // The kernel has a lock of its own behind a futex whose owner inherits priority. The futex says more.
        if let Some(futex) = facts.futex.filter(|_| words.syscall.is_some()) {
            let owner = futex.owner.and_then(|owner| self.threads.find(owner));
            let owner = owner.map(|slot| Value::Koid(self.threads.thread(slot).koid));
            let name = if futex.is_end { strings::FUTEX_END_OF } else { strings::FUTEX_OWNER };
            let futex = Arg::new(strings::FUTEX, Value::Pointer(futex.address));
            return [Some(futex), owner.map(|owner| Arg::new(name, owner))];
        }
        let blocks = words.state.fxt == ThreadState::Blocked;
        let Some(lock) = facts.kernel_lock.filter(|_| blocks) else { return [None; 2] };
        // Who has the file is not to learn where the kernel lies in memory.
        let id = self.lock_ids.hash_one(lock.address) & u64::from(u32::MAX);
        [
            Some(Arg::new(strings::KERNEL_LOCK, Value::Pointer(id))),
            Some(Arg::new(strings::KERNEL_LOCK_KIND, Value::Str(Text::Inline(lock.kind.name())))),
        ]
    }
}
