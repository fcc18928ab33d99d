//! Distinguishes the threads that share a tid.
//!
//! The kernel reuses tids, but koids must be unique: a koid is the tid plus the number of its earlier owners times 2^22, the largest number
//! of tids that Linux can have, so the first owner's koid is its tid. Numbers whose koids would collide with pseudo objects in the 32 bits
//! that readers keep are skipped.
//!
//! After its owner has ended, a tid has no owner: the next thread with that tid is a new owner, even if its fork was not recorded.
//!
//! The counts stay exact for the whole recording. The entries are in pages that are allocated when one of their tids is first used: 64 KiB
//! with a pid_max of 32768, and never more than 8 MiB.

use fxt_writer::Koid;

use fxtrec_units::Tid;

/// Bits of a tid; the kernel's PID_MAX_LIMIT is 2^22.
const TID_BITS: u32 = 22;

const PAGE_TIDS: usize = 4096;
const PAGES: usize = (1 << TID_BITS) / PAGE_TIDS;

type Page = Box<[u16; PAGE_TIDS]>;

/// The generations of pseudo objects' koids (readers see their lower ten bits): placeholders for threads of other users, processes of inner
/// pid namespaces, interrupts, and the pseudo-threads for unrecorded time.
const RESERVED: [u16; 4] = [0x3, 0x200, 0x300, 0x340];

/// Whether the id does not belong to a thread, but is a placeholder for other users' threads in a recording of one user: see `owner.h`.
fn stands_for_others(tid: Tid) -> bool {
    tid.0 >> TID_BITS != 0
}

/// The part of a generation that readers see.
const SEEN: u16 = 0x3ff;

/// The bit of a count that marks the current owner as ended.
const ENDED: u16 = 0x8000;

/// How often each tid was used.
#[derive(Debug)]
pub struct Generations {
    /// Number of owners so far, including the current one, and [`ENDED`]; saturates.
    pages: Vec<Option<Page>>,
}

impl Default for Generations {
    fn default() -> Generations {
        Generations { pages: vec![None; PAGES] }
    }
}

impl Generations {
    fn owners(&mut self, tid: Tid) -> &mut u16 {
        let at = tid.0 as usize & ((1 << TID_BITS) - 1);
        let page = self.pages[at / PAGE_TIDS].get_or_insert_with(|| Box::new([0; PAGE_TIDS]));
        &mut page[at % PAGE_TIDS]
    }

    /// The koid of the tid's owner; a new one if the last owner has ended.
    pub fn current(&mut self, tid: Tid) -> Koid {
        if stands_for_others(tid) {
            return Koid(tid.0.into());
        }
        match self.has_ended(tid) {
            true => self.next(tid),
            false => self.latest(tid),
        }
    }

    /// The koid of the tid's latest owner, which may have ended.
    pub fn latest(&mut self, tid: Tid) -> Koid {
        if stands_for_others(tid) {
            return Koid(tid.0.into());
        }
        let owners = self.owners(tid);
        *owners = (*owners).max(1);
        koid(tid, (*owners & !ENDED) - 1)
    }

    /// The koid of a new owner.
    pub fn next(&mut self, tid: Tid) -> Koid {
        let owners = self.owners(tid);
        let mut count = (*owners & !ENDED) + 1;
        while RESERVED.contains(&((count - 1) & SEEN)) {
            count += 1;
        }
        *owners = count.min(ENDED - 1);
        koid(tid, *owners - 1)
    }

    /// The tid's current owner has ended.
    pub fn end(&mut self, tid: Tid) {
        *self.owners(tid) |= ENDED;
    }

    /// Whether the tid has no owner, because its last owner has ended.
    pub fn has_ended(&mut self, tid: Tid) -> bool {
        !stands_for_others(tid) && *self.owners(tid) & ENDED != 0
    }
}

fn koid(tid: Tid, generation: u16) -> Koid {
    Koid(u64::from(tid.0) + u64::from(generation) * (1 << TID_BITS))
}

/// The id of a thread or process that has this koid.
pub fn id_of(koid: Koid) -> u64 {
    koid.0 % (1 << TID_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_owner_of_a_tid_keeps_it_as_koid() {
        let mut generations = Generations::default();
        assert_eq!(generations.next(Tid(77)), Koid(77));
        assert_eq!(generations.current(Tid(77)), Koid(77));
        assert_eq!(generations.current(Tid(78)), Koid(78));
        assert_eq!((id_of(Koid(77)), id_of(Koid(77 + (3 << 22)))), (77, 77));
    }

    #[test]
    fn what_stands_for_others_has_one_koid_that_no_thread_has() {
        let mut generations = Generations::default();
        let other = Tid((3 << 22) + 5);
        let koids: Vec<Koid> = (0..5).map(|_| generations.next(Tid(5))).collect();
        generations.end(Tid(5));
        assert_eq!(generations.current(other), Koid((3 << 22) + 5));
        assert!(!generations.has_ended(other));
        assert_eq!(koids.last(), Some(&Koid(5 + (5 << 22))));
        assert!(!koids.contains(&Koid((3 << 22) + 5)));
    }

    #[test]
    fn every_later_owner_gets_its_own() {
        let mut generations = Generations::default();
        assert_eq!(generations.current(Tid(5)), Koid(5));
        assert_eq!(generations.next(Tid(5)), Koid(5 + (1 << 22)));
        assert_eq!(generations.next(Tid(5)), Koid(5 + (2 << 22)));
        assert_eq!(generations.current(Tid(5)), Koid(5 + (2 << 22)));
    }

    #[test]
    fn anyone_who_is_seen_after_the_end_of_an_owner_is_another() {
        let mut generations = Generations::default();
        assert_eq!(generations.current(Tid(5)), Koid(5));
        generations.end(Tid(5));
        assert!(generations.has_ended(Tid(5)));
        assert_eq!(generations.latest(Tid(5)), Koid(5), "a process may be named after it");
        assert_eq!(generations.current(Tid(5)), Koid(5 + (1 << 22)));
        assert!(!generations.has_ended(Tid(5)));
        generations.end(Tid(5));
        assert_eq!(generations.next(Tid(5)), Koid(5 + (2 << 22)), "its fork was seen");
    }

    #[test]
    fn no_koid_meets_a_pseudo_object() {
        let mut generations = Generations::default();
        for _ in 0..5000 {
            let seen = generations.next(Tid(1)).0 & u64::from(u32::MAX);
            assert!(![0x8000_0001, 0xc000_0001, 0xd000_0001].contains(&seen), "{seen:#x}");
        }
    }

    #[test]
    fn the_count_stops_before_it_would_say_that_somebody_ended() {
        let mut generations = Generations::default();
        let koids: Vec<Koid> = (0..40_000).map(|_| generations.next(Tid(7))).collect();
        assert!(!generations.has_ended(Tid(7)));
        assert!(koids.is_sorted());
    }
}
