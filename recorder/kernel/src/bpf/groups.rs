//! The cgroups whose threads the programs report, if not all: two sets of cgroup ids.
//!
//! A program looks up a thread's cgroup at each event, so a thread that moves into or out of a cgroup enters or leaves the scope at once.
//! User space fills the sets ([`GroupScope::include`]). If a cgroup is created below one in the second set, a program on `cgroup_mkdir`
//! adds it to both sets before it becomes visible; for every other new cgroup, the program only rings the doorbell, so that user space
//! checks the path.
//!
//! ```text
//!   the map's value     members   numbers of cgroups in scope, each within PROBES of the place that its hash says; 0 for none
//!                       parents   the same of those whose new children are in scope
//!                       made      how many cgroups were made; `full`: for how many there was no place
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sys::{BpfSys, Memory};

/// The number of slots; a power of two.
pub const GROUPS: usize = 16 * 1024;

/// How many slots are checked for an id.
pub const PROBES: usize = 8;

/// Marks the slot of a removed id; others may follow it.
const REMOVED: u64 = u64::MAX;

/// A multiplier whose products are well mixed in their upper bits, as in [`super::counts`].
const MIX: u64 = 0x61c8_8647;

const TABLE_BYTES: usize = (GROUPS + PROBES) * size_of::<u64>();

/// Offsets of the map's parts, in bytes.
pub(super) mod at {
    pub(in super::super) const MEMBERS: usize = 0;
    pub(in super::super) const PARENTS: usize = super::TABLE_BYTES;
    pub(in super::super) const MADE: usize = 2 * super::TABLE_BYTES;
    pub(in super::super) const FULL: usize = MADE + size_of::<u64>();
    pub(in super::super) const END: usize = FULL + size_of::<u64>();
}

fn first_place(id: u64) -> usize {
    let mixed = id.wrapping_mul(MIX) << 32;
    (mixed >> (64 - GROUPS.ilog2())) as usize
}

/// The sets, and the counts of created cgroups.
#[derive(Debug)]
pub struct GroupScope(Memory);

impl GroupScope {
    /// Creates empty sets.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub fn new(sys: &dyn BpfSys) -> io::Result<GroupScope> {
        Memory::new(sys, at::END).map(GroupScope)
    }

    /// The map, for the programs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    fn places(&self, table: usize, id: u64) -> impl Iterator<Item = &AtomicU64> {
        let first = first_place(id);
        (first..first + PROBES).map(move |place| self.0.word(table + place * size_of::<u64>()))
    }

    fn put(&self, table: usize, id: u64) -> bool {
        let is_there = |place: &AtomicU64| place.load(Ordering::Relaxed) == id;
        if self.places(table, id).any(is_there) {
            return true;
        }
        let put = self.places(table, id).any(|place| {
            [0, REMOVED].into_iter().any(|free| {
                place.compare_exchange(free, id, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            })
        });
        if !put {
            self.0.word(at::FULL).fetch_add(1, Ordering::Relaxed);
        }
        put
    }

    /// Puts a cgroup in scope by its id; with `children`, also its future children.
    pub fn include(&self, id: u64, children: bool) {
        // Children first, so that a cgroup created from now on is in scope at once.
        if children {
            self.put(at::PARENTS, id);
        }
        self.put(at::MEMBERS, id);
    }

    /// Puts the future children of this cgroup in scope, but not the cgroup itself.
    pub fn include_children(&self, id: u64) {
        self.put(at::PARENTS, id);
    }

    /// The ids in the sets.
    pub fn known(&self) -> impl Iterator<Item = u64> {
        let tables = [at::MEMBERS, at::PARENTS].into_iter();
        let words = tables.flat_map(|table| (0..GROUPS + PROBES).map(move |place| (table, place)));
        words
            .map(|(table, place)| self.0.word(table + place * size_of::<u64>()))
            .map(|word| word.load(Ordering::Relaxed))
            .filter(|id| ![0, REMOVED].contains(id))
    }

    /// Removes a deleted cgroup from the sets.
    pub fn remove(&self, id: u64) {
        for table in [at::MEMBERS, at::PARENTS] {
            for place in self.places(table, id) {
                let _ = place.compare_exchange(id, REMOVED, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// How many cgroups were created since the programs started.
    pub fn made(&self) -> u64 {
        self.0.word(at::MADE).load(Ordering::Acquire)
    }

    /// Number of cgroups for which there was no space.
    pub fn left_out(&self) -> u64 {
        self.0.word(at::FULL).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::bpf::sys::{MapSpec, ProgramSpec};
    use crate::perf::page_size;

    /// A simulated kernel whose maps are files.
    #[derive(Debug)]
    struct Files;

    impl BpfSys for Files {
        fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
            let file = tempfile::tempfile()?;
            file.set_len(u64::from(spec.value_bytes).next_multiple_of(page_size() as u64))?;
            Ok(file.into())
        }
        fn map_set_maps(&self, _: BorrowedFd<'_>, _: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
            unreachable!("no map of maps is made")
        }
        fn program_load(&self, _: &ProgramSpec<'_>, _: Option<&mut [u8]>) -> io::Result<OwnedFd> {
            unreachable!("no program is loaded")
        }
        fn attach(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
            unreachable!("no program is attached")
        }
        fn missed(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            unreachable!("no program is asked about")
        }
    }

    fn known(scope: &GroupScope) -> Vec<u64> {
        let mut known: Vec<u64> = scope.known().collect();
        known.sort_unstable();
        known
    }

    #[test]
    fn a_number_is_in_a_set_once_and_its_place_is_free_again_when_it_is_taken_out() {
        let scope = GroupScope::new(&Files).expect("a map");
        scope.include(7, false);
        scope.include(7, false);
        scope.include(1 << 33, true);
        scope.include_children(9);
        assert_eq!(known(&scope), [7, 9, 1 << 33, 1 << 33]);
        scope.remove(1 << 33);
        assert_eq!(known(&scope), [7, 9]);
        assert_eq!((scope.left_out(), scope.made()), (0, 0));
    }

    #[test]
    fn those_that_share_a_place_stay_apart_and_what_finds_none_is_counted() {
        let scope = GroupScope::new(&Files).expect("a map");
        // Ids that differ only in the upper half.
        let alike: Vec<u64> = (1..=9).map(|upper| upper << 32 | 5).collect();
        let same: Vec<usize> = alike.iter().map(|id| first_place(*id)).collect();
        assert!(same.iter().all(|place| *place == same[0]), "{same:?}");
        alike.iter().for_each(|id| scope.include(*id, false));
        assert_eq!((known(&scope), scope.left_out()), (alike[..8].to_vec(), 1));
        scope.remove(alike[2]);
        scope.include(alike[8], false);
        assert_eq!(known(&scope).len(), 8);
        assert_eq!(scope.left_out(), 1);
    }
}
