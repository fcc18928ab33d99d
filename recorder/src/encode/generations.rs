//! Telling apart the threads that share a tid.
//!
//! The kernel hands tids out again. A koid must not be: it is the tid plus the
//! number of its earlier owners times 2^22, the largest number of tids that Linux
//! can have, so the first owner's koid is its tid.
//!
//! The counts stay exact for the whole recording. They lie in pages that come
//! into being when one of their tids is first used: 64 KiB with a pid_max of
//! 32768, and never more than 8 MiB.

use fxt_writer::Koid;

use crate::units::Tid;

/// Bits of a tid; the kernel's PID_MAX_LIMIT is 2^22.
const TID_BITS: u32 = 22;

const PAGE_TIDS: usize = 4096;
const PAGES: usize = (1 << TID_BITS) / PAGE_TIDS;

type Page = Box<[u16; PAGE_TIDS]>;

/// How often each tid was given out.
#[derive(Debug)]
pub struct Generations {
    /// Owners so far, this one included; saturates.
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

    /// The koid of the tid's present owner.
    pub fn current(&mut self, tid: Tid) -> Koid {
        let owners = self.owners(tid);
        *owners = (*owners).max(1);
        koid(tid, *owners - 1)
    }

    /// The koid of a new owner.
    pub fn next(&mut self, tid: Tid) -> Koid {
        let owners = self.owners(tid);
        *owners = owners.saturating_add(1);
        koid(tid, *owners - 1)
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
    fn every_later_owner_gets_its_own() {
        let mut generations = Generations::default();
        assert_eq!(generations.current(Tid(5)), Koid(5));
        assert_eq!(generations.next(Tid(5)), Koid(5 + (1 << 22)));
        assert_eq!(generations.next(Tid(5)), Koid(5 + (2 << 22)));
        assert_eq!(generations.current(Tid(5)), Koid(5 + (2 << 22)));
    }
}
