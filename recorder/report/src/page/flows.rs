//! Flows: the links between spans that programs report, drawn as arrows between threads.

use rustc_hash::FxHashMap;

use super::columns::Column;
use super::spans::NameIndex;
use super::threads::ThreadIndex;

/// The maximum number of arrows, and of flows that are open at once.
const MOST: usize = 100_000;

/// The properties that identify a flow: its category, its name and its id.
pub(super) type Key = (NameIndex, NameIndex, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrow {
    name: NameIndex,
    /// A thread, and a time in nanoseconds of the trace's clock.
    from: (ThreadIndex, u64),
    to: (ThreadIndex, u64),
}

#[derive(Debug, Default)]
pub(super) struct Flows {
    arrows: Vec<Arrow>,
    open: FxHashMap<Key, (ThreadIndex, u64)>,
    /// The number of arrows and begins that are not in the page.
    pub(super) left_out: u64,
}

impl Flows {
    /// Takes an event of a flow. An arrow leads to it from the previous event unless it `begins` the flow; the flow ends unless it
    /// `goes_on`.
    pub(super) fn take(&mut self, key: Key, at: (ThreadIndex, u64), begins: bool, goes_on: bool) {
        let before = self.open.remove(&key).filter(|_| !begins);
        if let Some(from) = before {
            match self.arrows.len() < MOST {
                true => self.arrows.push(Arrow { name: key.1, from, to: at }),
                false => self.left_out += 1,
            }
        }
        if goes_on {
            match self.open.len() < MOST {
                true => drop(self.open.insert(key, at)),
                false => self.left_out += 1,
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.arrows.len()
    }

    /// Keeps every second arrow.
    pub(super) fn thin(&mut self) {
        let before = self.arrows.len();
        self.arrows = self.arrows.iter().skip(1).step_by(2).copied().collect();
        self.left_out += (before - self.arrows.len()) as u64;
    }

    /// Sorted by begin: for each arrow when it begins, its duration (signed, since the clocks of CPUs differ slightly), both threads, and
    /// its name.
    pub(super) fn columns(&mut self, begin: u64) -> Vec<Column> {
        self.arrows.sort_by_key(|arrow| (arrow.from.1, arrow.to.1));
        let mut columns: [Column; 5] = Default::default();
        let [begins, lengths, from, to, names] = &mut columns;
        let mut last = begin;
        for arrow in &self.arrows {
            let at = arrow.from.1.max(begin);
            begins.number(at - last);
            last = at;
            lengths.signed(difference(arrow.to.1, at));
            from.number(arrow.from.0.0.into());
            to.number(arrow.to.0.0.into());
            names.number(arrow.name.0.into());
        }
        columns.into()
    }
}

fn difference(to: u64, from: u64) -> i64 {
    i64::try_from(i128::from(to) - i128::from(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: NameIndex = NameIndex(7);

    #[test]
    fn a_flow_is_an_arrow_from_each_of_its_events_to_the_next() {
        let mut flows = Flows::default();
        let at = |thread, time| (ThreadIndex(thread), time);
        let key = |id| (NameIndex(0), NAME, id);
        flows.take(key(1), at(1, 10), true, true);
        flows.take(key(2), at(1, 11), true, true);
        flows.take(key(1), at(2, 20), false, true);
        flows.take(key(1), at(3, 30), false, false);
        // The first flow has already ended, and the other one never began.
        flows.take(key(1), at(4, 40), false, false);
        flows.take(key(3), at(4, 50), false, false);
        let arrows: Vec<_> = flows.arrows.iter().map(|it| (it.from, it.to, it.name)).collect();
        assert_eq!(arrows, [(at(1, 10), at(2, 20), NAME), (at(2, 20), at(3, 30), NAME)]);
        assert_eq!(flows.left_out, 0);
    }

    #[test]
    fn too_many_are_counted() {
        let mut flows = Flows::default();
        for id in 0..MOST as u64 + 3 {
            let key = (NameIndex(0), NAME, id);
            flows.take(key, (ThreadIndex(1), id), true, true);
            flows.take(key, (ThreadIndex(2), id), false, false);
        }
        assert_eq!((flows.len(), flows.left_out), (MOST, 3));
    }
}
