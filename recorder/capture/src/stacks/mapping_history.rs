//! Which code a process had at which time, including processes that ended before they were examined.
//!
//! ```text
//!   time     ----+---------------+-------------------+--------------+---------->
//!   process    begins, with    executes a program  loads a library  ends
//!              its parent's    a life of its own   one more in it   forgotten two seconds later
//!              code
//! ```
//!
//! perf reports each of these as it happens, but in a separate ring for each CPU, so a record in the second ring may be older than those
//! read from the first. Records wait here until every ring has been read past their time.
//!
//! A process that existed before is unknown until it has a child: then its mappings are read once.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use perf_event_open_sys::bindings as b;
use rustc_hash::FxHashMap;

use super::python::layout::is_named_so;
use crate::cursor::Cursor;
use crate::decode::decode_side_band;
use crate::event::{Event, Kind, LocalId};
use fxtrec_kernel::code::ExecutableMapping;
use fxtrec_kernel::ring::RawRecord;
use fxtrec_units::{Nanos, Pid};

/// How long ended processes are remembered, for stacks that are processed later.
const MEMORY: u64 = 2_000_000_000;

/// Maximum number of mappings that are kept, for all processes together. Beyond that limit, all are forgotten; processes that still run can
/// be read again. A mapping that takes more memory than usual counts as several.
pub(super) const MOST: usize = 48 * 1024;

/// The size of one mapping, in bytes.
pub(super) const UNIT: usize = 256;

/// The size that these mappings count as, in units of [`UNIT`] bytes.
fn units_of(mappings: &[ExecutableMapping]) -> usize {
    mappings.iter().map(|mapping| 1 + mapping.bytes() / UNIT).sum()
}

/// Maximum number of mappings of one process. A just-in-time compiler may create mappings all the time.
const MOST_OF_ONE: usize = 4096;

/// The code of a process from one execve(2) to the next, or since the process began.
#[derive(Clone, Debug)]
pub(super) struct AddressSpace {
    since: Nanos,
    /// The memory that the sample came from; other memory contains other code.
    space: Option<u64>,
    /// A child shares its parent's until either changes.
    mappings: Arc<Vec<ExecutableMapping>>,
}

impl AddressSpace {
    /// When it began; 0 if it existed before the recording.
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    pub(super) fn mappings(&self) -> &Arc<Vec<ExecutableMapping>> {
        &self.mappings
    }
}

#[derive(Clone, Debug)]
enum What {
    Mapped(ExecutableMapping),
    Executed,
    BornOf(Pid),
    Ended,
}

/// A change that matters for Python interpreters.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The process has mapped a file that is named like an interpreter.
    Mapped(ExecutableMapping),
    BornOf(Pid),
    /// Its program has ended.
    Over,
}

#[derive(Clone, Debug)]
struct MappingEvent {
    time: Nanos,
    pid: Pid,
    what: What,
}

#[derive(Debug, Default)]
pub(super) struct MappingHistory {
    /// For each process, in order of time.
    of: FxHashMap<Pid, Vec<AddressSpace>>,
    /// Records that older records may still precede.
    waiting: Vec<MappingEvent>,
    /// Time, process, and the earliest beginning of lives that must be kept.
    over: VecDeque<(Nanos, Pid, Nanos)>,
    /// How many mappings were added since the last count.
    added: usize,
    lost: u64,
    /// The changes that matter for Python interpreters, if requested.
    changes: Option<Vec<(Pid, Change)>>,
    /// Time of the oldest sample that has not been processed, if any.
    needed_since: Option<Nanos>,
}

impl MappingHistory {
    /// No sample needs code that ended before `since`.
    pub(super) fn need(&mut self, since: Option<Nanos>) {
        self.needed_since = since;
    }

    /// From now on, records data about Python interpreters.
    pub(super) fn follow_pythons(&mut self) {
        self.changes.get_or_insert_default();
    }

    pub(super) fn take_changes(&mut self) -> Vec<(Pid, Change)> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Processes a record; only those of mappings, forks, execve(2) and exits are relevant.
    pub(super) fn note(&mut self, record: RawRecord<'_>) {
        if record.kind == b::PERF_RECORD_MMAP2 {
            self.waiting.extend(mapped(Cursor::new(record.body)));
            return;
        }
        let Some(Event { time, kind }) = decode_side_band(record, Cursor::new(record.body)) else {
            return;
        };
        let (pid, what) = match kind {
            Kind::Lost(loss) => {
                // It is no longer known whether these processes still run the same code.
                self.lose(loss.events.unwrap_or(1).max(1));
                return;
            }
            Kind::Fork { pid, parent_pid, .. } if pid != parent_pid => {
                (pid, What::BornOf(Pid(parent_pid.0)))
            }
            Kind::Comm { pid, exec: true, .. } => (pid, What::Executed),
            Kind::Exit { pid, tid } if pid == tid => (pid, What::Ended),
            _ => return,
        };
        let LocalId(pid) = pid;
        self.waiting.push(MappingEvent { time, pid: Pid(pid), what });
    }

    /// Applies the records up to `until`, a time at which no ring had been read yet. `look` finds the mappings of a process.
    pub(super) fn settle(
        &mut self,
        until: Nanos,
        mut look: impl FnMut(Pid) -> Vec<ExecutableMapping>,
    ) {
        let mut reported = std::mem::take(&mut self.waiting);
        reported.sort_by_key(|reported| reported.time);
        let ripe = reported.partition_point(|reported| reported.time <= until);
        for at in 0..ripe {
            let MappingEvent { time, pid, what } = reported[at].clone();
            if let Some(changes) = &mut self.changes {
                let change = match &what {
                    What::Mapped(mapping) if is_named_so(&mapping.path) => {
                        Some(Change::Mapped(mapping.clone()))
                    }
                    What::Mapped(_) => None,
                    What::BornOf(parent) => Some(Change::BornOf(*parent)),
                    What::Executed | What::Ended => Some(Change::Over),
                };
                changes.extend(change.map(|change| (pid, change)));
            }
            match what {
                What::Mapped(mapping) => self.map(pid, time, mapping),
                What::Executed => self.begin(pid, time, Arc::default()),
                What::BornOf(parent) => {
                    if self.at(parent, time).is_none() {
                        let is_over = |reported: &MappingEvent| {
                            reported.pid == parent
                                && matches!(reported.what, What::Executed | What::Ended)
                        };
                        // The process now runs a different program from its child's.
                        if reported[at..].iter().any(is_over) {
                            continue;
                        }
                        let mut found = look(parent);
                        found.retain(is_user);
                        if found.is_empty() {
                            continue;
                        }
                        self.added += units_of(&found);
                        let lives = self.of.entry(parent).or_default();
                        let life = AddressSpace {
                            since: Nanos(0),
                            space: None,
                            mappings: Arc::new(found),
                        };
                        lives.insert(0, life);
                    }
                    let inherited = self.at(parent, time).map(|life| life.mappings.clone());
                    self.begin(pid, time, inherited.unwrap_or_default());
                }
                What::Ended => self.over.push_back((time, pid, Nanos(time.0 + 1))),
            }
        }
        reported.drain(..ripe);
        self.waiting = reported;
        self.forget(until);
    }

    /// The reported code of a process at that time.
    fn at(&self, pid: Pid, time: Nanos) -> Option<&AddressSpace> {
        self.of.get(&pid)?.iter().rev().find(|life| life.since <= time)
    }

    /// The code of a process at the time of a sample of its memory `space`. Also `None` if the memory is not the same as before in this
    /// life: then an execve(2) was not reported, for example on a CPU that came online later.
    pub(super) fn of_sample(&mut self, pid: Pid, time: Nanos, space: u64) -> Option<&AddressSpace> {
        let life = self.of.get_mut(&pid)?.iter_mut().rev().find(|life| life.since <= time)?;
        (*life.space.get_or_insert(space) == space).then_some(life)
    }

    /// Records were lost before they arrived here.
    pub(super) fn lose(&mut self, records: u64) {
        if records > 0 {
            self.lost += records;
            self.forget_all();
            self.waiting.clear();
        }
    }

    /// How many records were lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn begin(&mut self, pid: Pid, since: Nanos, mappings: Arc<Vec<ExecutableMapping>>) {
        let lives = self.of.entry(pid).or_default();
        let at = lives.partition_point(|life| life.since <= since);
        lives.insert(at, AddressSpace { since, space: None, mappings });
        self.over.push_back((since, pid, since));
        self.added += 1;
    }

    fn map(&mut self, pid: Pid, time: Nanos, new: ExecutableMapping) {
        let lives = self.of.get_mut(&pid).map_or(&mut [][..], Vec::as_mut_slice);
        let Some(life) = lives.iter_mut().rev().find(|life| life.since <= time) else { return };
        if !is_user(&new) || find(&life.mappings, new.start) == Some(&new) {
            return;
        }
        if life.mappings.len() >= MOST_OF_ONE {
            self.of.remove(&pid);
            return;
        }
        let is_shared = Arc::strong_count(&life.mappings) > 1;
        self.added += units_of(if is_shared { &life.mappings } else { std::slice::from_ref(&new) });
        let mappings = Arc::make_mut(&mut life.mappings);
        let mut ends = Vec::new();
        mappings.retain_mut(|old| {
            let behind = (old.end > new.end && old.start < new.end).then(|| {
                let skipped = new.end.saturating_sub(old.start);
                ExecutableMapping { start: new.end, offset: old.offset + skipped, ..old.clone() }
            });
            let is_cut = old.start < new.end && old.end > new.start;
            ends.extend(behind.filter(|_| is_cut));
            if is_cut {
                old.end = new.start;
            }
            old.start < old.end
        });
        mappings.extend(ends);
        mappings.push(new);
        // For `find`.
        mappings.sort_unstable_by_key(|mapping| mapping.start);
    }

    /// Forgets code that ended long ago, or everything if there is too much.
    fn forget(&mut self, now: Nanos) {
        let now = self.needed_since.map_or(now, |since| now.min(since));
        while let Some(&(time, pid, since)) = self.over.front()
            && time.0 + MEMORY < now.0
        {
            self.over.pop_front();
            if let Some(lives) = self.of.get_mut(&pid) {
                lives.retain(|life| life.since >= since);
                if lives.is_empty() {
                    self.of.remove(&pid);
                }
            }
        }
        if self.added > MOST / 4 {
            self.added = 0;
            let lives = self.of.values().flatten();
            // Shared mappings are counted for each process, so this count is too high.
            if lives.map(|life| 1 + units_of(&life.mappings)).sum::<usize>() > MOST {
                self.forget_all();
            }
        }
    }

    fn forget_all(&mut self) {
        self.of.clear();
        self.over.clear();
        self.added = 0;
    }
}

/// The mapping that contains an address, among those of a process, sorted by address.
pub(super) fn find(mappings: &[ExecutableMapping], address: u64) -> Option<&ExecutableMapping> {
    let behind = mappings.partition_point(|mapping| mapping.start <= address);
    mappings.get(behind.checked_sub(1)?).filter(|mapping| mapping.has(address))
}

/// Whether it is in user space: a mapping in the upper half would be mistaken for the kernel's.
pub(super) fn is_user(mapping: &ExecutableMapping) -> bool {
    mapping.end >> 63 == 0
}

/// Parses a record of memory that was mapped as executable.
fn mapped(mut cursor: Cursor<'_>) -> Option<MappingEvent> {
    let time = Nanos(cursor.read_back_u64()?);
    let (pid, _tid) = (Pid(cursor.read_u32()?), cursor.read_u32()?);
    let (start, length, offset) = (cursor.read_u64()?, cursor.read_u64()?, cursor.read_u64()?);
    let (major, minor) = (cursor.read_u32()?, cursor.read_u32()?);
    let (inode, _generation) = (cursor.read_u64()?, cursor.read_u64()?);
    let (protection, _flags) = (cursor.read_u32()?, cursor.read_u32()?);
    let path = cursor.rest().split(|&byte| byte == 0).next().unwrap_or_default();
    // perf's names for memory without a file, and for a file without a path.
    let path = if path.starts_with(b"//") { &[][..] } else { path };
    let end = start.checked_add(length).filter(|&end| end > start)?;
    let mapping = ExecutableMapping {
        start,
        end,
        // The bits for reading, writing and executing are the same.
        flags: (protection & 0b11) as u8 | 1 << 2,
        offset,
        file: (inode != 0).then(|| (format!("{major:02x}:{minor:02x}"), inode)),
        path: PathBuf::from(OsString::from_vec(path.to_vec())),
    };
    Some(MappingEvent { time, pid, what: What::Mapped(mapping) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn note(lives: &mut MappingHistory, kind: u32, misc: u32, body: &[u8]) {
        lives.note(RawRecord { kind, misc: misc as u16, body });
    }

    fn body(words: &[u32], rest: &[u8], time: u64) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        words.chain(rest.iter().copied()).chain(time.to_ne_bytes()).collect()
    }

    fn fork(lives: &mut MappingHistory, time: u64, pid: u32, parent: u32) {
        let body = body(&[pid, parent, pid, parent], &time.to_ne_bytes(), time);
        note(lives, b::PERF_RECORD_FORK, 0, &body);
    }

    fn exit(lives: &mut MappingHistory, time: u64, pid: u32, tid: u32) {
        let body = body(&[pid, 1, tid, 1], &time.to_ne_bytes(), time);
        note(lives, b::PERF_RECORD_EXIT, 0, &body);
    }

    fn exec(lives: &mut MappingHistory, time: u64, pid: u32) {
        let body = body(&[pid, pid], b"new\0\0\0\0\0", time);
        note(lives, b::PERF_RECORD_COMM, b::PERF_RECORD_MISC_COMM_EXEC, &body);
    }

    fn map(
        lives: &mut MappingHistory,
        time: u64,
        pid: u32,
        (start, length): (u64, u64),
        path: &str,
    ) {
        let mut words = vec![pid, pid];
        for word in [start, length, 0x2000] {
            words.extend([word as u32, (word >> 32) as u32]);
        }
        let inode = path.len() as u32;
        words.extend([0xfd, 1, inode, 0, 7, 0, 0b101, 2]);
        let path = format!("{path}\0\0");
        note(lives, b::PERF_RECORD_MMAP2, 2, &body(&words, path.as_bytes(), time));
    }

    fn paths(lives: &MappingHistory, pid: u32, time: u64) -> Option<Vec<String>> {
        let life = lives.at(Pid(pid), Nanos(time))?;
        let name = |mapping: &ExecutableMapping| mapping.path.display().to_string();
        Some(life.mappings.iter().map(name).collect())
    }

    fn no_mappings(pid: Pid) -> Vec<ExecutableMapping> {
        panic!("{pid:?} is not to be looked into")
    }

    #[test]
    fn each_program_of_a_process_has_its_own_code_and_a_child_that_of_its_parent() {
        let mut lives = MappingHistory::default();
        // In the order of two rings that are read one after the other.
        map(&mut lives, 30, 5, (0x9000, 0x1000), "/late.so");
        fork(&mut lives, 40, 6, 5);
        exec(&mut lives, 50, 5);
        map(&mut lives, 60, 5, (0x1000, 0x1000), "/second");
        exec(&mut lives, 10, 5);
        map(&mut lives, 20, 5, (0x1000, 0x1000), "/first");
        lives.settle(Nanos(70), no_mappings);
        assert_eq!(paths(&lives, 5, 9), None);
        let first = vec!["/first".to_owned(), "/late.so".to_owned()];
        assert_eq!(paths(&lives, 5, 49).as_ref(), Some(&first));
        assert_eq!(paths(&lives, 5, 50), Some(vec!["/second".to_owned()]));
        assert_eq!(paths(&lives, 6, 45), Some(first));
        let life = lives.at(Pid(5), Nanos(49)).expect("a life");
        let mapping = &life.mappings()[0];
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x1000, 0x2000, 0x2000));
        assert_eq!((mapping.flags, &mapping.file), (0b101, &Some(("fd:01".to_owned(), 6))));
        // Mappings that a child loads belong to the child only.
        map(&mut lives, 80, 6, (0x5000, 0x1000), "/own.so");
        lives.settle(Nanos(90), no_mappings);
        assert_eq!(paths(&lives, 6, 85).map(|paths| paths.len()), Some(3));
        assert_eq!(paths(&lives, 5, 49).map(|paths| paths.len()), Some(2));
    }

    #[test]
    fn memory_that_is_another_than_before_has_not_the_code_that_was_reported() {
        let mut lives = MappingHistory::default();
        exec(&mut lives, 10, 5);
        map(&mut lives, 20, 5, (0x1000, 0x1000), "/first");
        lives.settle(Nanos(30), no_mappings);
        assert!(lives.of_sample(Pid(5), Nanos(9), 1).is_none());
        assert!(lives.of_sample(Pid(5), Nanos(25), 1).is_some());
        assert!(lives.of_sample(Pid(5), Nanos(40), 2).is_none(), "nobody told of execve(2)");
        assert!(lives.of_sample(Pid(5), Nanos(45), 1).is_some(), "an earlier sample, read later");
        exec(&mut lives, 50, 5);
        lives.settle(Nanos(60), no_mappings);
        assert!(lives.of_sample(Pid(5), Nanos(55), 3).is_some());
    }

    #[test]
    fn a_record_waits_for_earlier_ones_of_other_cpus() {
        let mut lives = MappingHistory::default();
        map(&mut lives, 30, 5, (0x1000, 0x1000), "/program");
        lives.settle(Nanos(25), no_mappings);
        exec(&mut lives, 20, 5);
        lives.settle(Nanos(40), no_mappings);
        assert_eq!(paths(&lives, 5, 40), Some(vec!["/program".to_owned()]));
    }

    #[test]
    fn the_parent_that_was_there_before_is_looked_into_once() {
        let mut lives = MappingHistory::default();
        let mapping = |path: &str| ExecutableMapping {
            start: 0x1000,
            end: 0x2000,
            flags: 0b101,
            offset: 0,
            file: None,
            path: PathBuf::from(path),
        };
        fork(&mut lives, 10, 6, 5);
        fork(&mut lives, 20, 7, 5);
        let mut looks = 0;
        lives.settle(Nanos(30), |pid| {
            assert_eq!(pid, Pid(5));
            looks += 1;
            vec![mapping("/shell"), ExecutableMapping { end: u64::MAX, ..mapping("kernel?") }]
        });
        assert_eq!(looks, 1);
        for pid in [5, 6, 7] {
            assert_eq!(paths(&lives, pid, 25), Some(vec!["/shell".to_owned()]), "{pid}");
        }
        // A parent that has executed another program no longer has the mappings that its child inherited.
        fork(&mut lives, 40, 9, 8);
        exec(&mut lives, 50, 8);
        lives.settle(Nanos(60), no_mappings);
        assert_eq!((paths(&lives, 9, 45), paths(&lives, 8, 55)), (None, Some(Vec::new())));
    }

    #[test]
    fn what_is_mapped_over_other_code_takes_its_place() {
        let mut lives = MappingHistory::default();
        exec(&mut lives, 10, 5);
        map(&mut lives, 20, 5, (0x10000, 0x10000), "/old");
        map(&mut lives, 30, 5, (0x14000, 0x1000), "/new");
        map(&mut lives, 40, 5, (0x1f000, 0x4000), "/end");
        lives.settle(Nanos(50), no_mappings);
        let life = lives.at(Pid(5), Nanos(50)).expect("a life");
        let mut found: Vec<(u64, u64, u64, &str)> = life
            .mappings()
            .iter()
            .map(|it| (it.start, it.end, it.offset, it.path.to_str().expect("text")))
            .collect();
        found.sort_unstable();
        let expected = [
            (0x10000, 0x14000, 0x2000, "/old"),
            (0x14000, 0x15000, 0x2000, "/new"),
            (0x15000, 0x1f000, 0x7000, "/old"),
            (0x1f000, 0x23000, 0x2000, "/end"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_over_is_forgotten_later_and_all_of_it_when_records_are_lost() {
        let mut lives = MappingHistory::default();
        exec(&mut lives, MS, 5);
        exec(&mut lives, 2 * MS, 5);
        exit(&mut lives, 3 * MS, 5, 7);
        exec(&mut lives, MS, 6);
        lives.settle(Nanos(4 * MS), no_mappings);
        assert!(paths(&lives, 5, MS).is_some(), "not yet");
        lives.settle(Nanos(MEMORY + 4 * MS), no_mappings);
        assert!(paths(&lives, 5, MS).is_none() && paths(&lives, 5, 3 * MS).is_some());
        exit(&mut lives, MEMORY + 5 * MS, 5, 5);
        lives.settle(Nanos(2 * MEMORY + 6 * MS), no_mappings);
        assert!(paths(&lives, 5, 3 * MS).is_none() && paths(&lives, 6, 2 * MS).is_some());
        assert!(lives.over.is_empty(), "{:?}", lives.over);
        let lost = body(&[0, 0, 3, 0], &[], 9);
        note(&mut lives, b::PERF_RECORD_LOST, 0, &lost);
        assert_eq!((lives.lost(), paths(&lives, 6, 2 * MS)), (3, None));
    }

    #[test]
    fn memory_is_bounded_whatever_a_process_maps() {
        let mut lives = MappingHistory::default();
        exec(&mut lives, 1, 5);
        for at in 0..=MOST_OF_ONE as u64 {
            map(&mut lives, 2 + at, 5, (0x1000 + at * 0x2000, 0x1000), "//anon");
        }
        lives.settle(Nanos(u64::from(u32::MAX)), no_mappings);
        assert_eq!(paths(&lives, 5, 1 << 20), None, "it can be asked as long as it lives");
        for pid in 0..70_000 {
            exec(&mut lives, 1 << 20, 100 + pid);
        }
        lives.settle(Nanos(1 << 20), no_mappings);
        assert!(lives.of.len() <= MOST, "{}", lives.of.len());
    }

    #[test]
    fn a_record_that_is_too_short_is_none() {
        let mut lives = MappingHistory::default();
        exec(&mut lives, 1, 5);
        for length in 0..72 {
            note(&mut lives, b::PERF_RECORD_MMAP2, 0, &vec![5; length]);
        }
        assert_eq!(lives.waiting.len(), 1);
        assert_eq!(
            mapped(Cursor::new(&[0; 72])).map(|reported| reported.time),
            None,
            "it has no length"
        );
    }
}
