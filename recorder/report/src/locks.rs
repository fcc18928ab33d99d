//! Locks: the futexes and kernel locks on which threads were blocked, for how long, and which threads held them.
//!
//! Only recordings with `--locks` have this, so the trace is read once more for it. A futex is an address in a process. It is certainly a
//! lock if it has an owner; otherwise it may be a condition variable, such as that of an idle thread pool. Joins are left out. A kernel
//! lock is the same for all processes; its holder is unknown, and the thread that woke the waiter most likely released it.

use fxtrec_units::lock_kind::LockKind;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use fxt_reader::{Error, Koid, Nanos, Reader};
use fxtrec_blame::pass;
use fxtrec_blame::threads::{Index, KnownThreads};
use fxtrec_blame::track::{About, Begin, By, Lock, Sink, Tracker};
use rustc_hash::FxHashMap;

use super::distribution::Distribution;
use super::model::{Report, ThreadInfo};
use super::selection::Selection;
use super::tally::Tally;

/// The maximum number of pairs of a thread and a lock.
const MOST: usize = 1 << 16;

/// The locks on which threads were blocked: kernel locks and locks with owners first, and among these the one with the longest total time.
#[derive(Clone, Debug, Default)]
pub struct LockReport {
    pub rows: Vec<LockRow>,
    /// Whether there are more than the limit.
    pub too_many: bool,
}

/// A futex, or a kernel lock.
#[derive(Clone, Debug)]
pub struct LockRow {
    /// The address of a futex, or the id of a kernel lock.
    pub address: u64,
    /// The kind of the kernel lock, according to the last wait for it.
    pub kernel: Option<LockKind>,
    /// The name of the lock, if it is a variable of the kernel.
    pub name: Option<Box<str>>,
    /// The process of a futex.
    pub pid: Option<u64>,
    /// The name of the process.
    pub process: Box<str>,
    /// How long threads were blocked on it.
    pub waits: Distribution,
    /// The holders when waits began, and how long these waits were; the longest first. `None` represents an unknown holder.
    pub held_by: Vec<(Option<ThreadInfo>, Duration)>,
    /// The threads that woke waiters of a kernel lock, and how long these had waited; the longest first.
    pub released_by: Vec<(Option<ThreadInfo>, Duration)>,
    /// The threads that waited, the longest first.
    pub waiters: Vec<(ThreadInfo, Duration)>,
}

/// The waits of one thread for one lock.
#[derive(Debug, Default)]
struct Growing {
    kernel: Option<LockKind>,
    waits: Tally,
    sum: u64,
    owners: FxHashMap<Option<Index>, u64>,
    /// The threads that ended waits for a kernel lock.
    wakers: FxHashMap<Option<Index>, u64>,
}

struct Locks {
    /// The time range that counts.
    range: (u64, u64),
    open: FxHashMap<Index, (u64, Lock)>,
    /// By thread, whether it is a kernel lock, and address.
    of: FxHashMap<(Index, bool, u64), Growing>,
    too_many: bool,
}

impl Locks {
    /// Handles the end of a wait; `until` is its time and the waker, if known.
    fn end(&mut self, thread: Index, until: Option<(u64, By)>) {
        let Some((since, lock)) = self.open.remove(&thread) else { return };
        let key = (thread, lock.kernel.is_some(), lock.address);
        if self.of.len() >= MOST && !self.of.contains_key(&key) {
            self.too_many = true;
            return;
        }
        let growing = self.of.entry(key).or_default();
        growing.kernel = lock.kernel;
        match until.filter(|(until, _)| since >= self.range.0 && *until <= self.range.1) {
            Some((until, by)) => {
                let length = until.saturating_sub(since);
                growing.waits.record(length, Nanos(until));
                growing.sum += length;
                *growing.owners.entry(lock.owner).or_default() += length;
                if lock.kernel.is_some() {
                    let waker = match by {
                        By::Thread(thread) => Some(thread),
                        By::Interrupt(_) | By::Unknown => None,
                    };
                    *growing.wakers.entry(waker).or_default() += length;
                }
            }
            None => growing.waits.censor(),
        }
    }
}

impl Sink for Locks {
    fn begin(&mut self, thread: Index, begin: Begin) {
        if !self.open.is_empty() {
            let woken = match begin.about {
                About::Woken(by) => Some((begin.time, by)),
                _ => None,
            };
            self.end(thread, woken);
        }
    }

    fn lock(&mut self, thread: Index, time: u64, lock: Lock) {
        if !lock.is_end && time < self.range.1 {
            self.open.insert(thread, (time, lock));
        }
    }
}

fn thread_info(known_threads: &KnownThreads, thread: Index) -> ThreadInfo {
    let koid = known_threads.koid(thread);
    let process = known_threads.process(koid);
    ThreadInfo {
        koid: Koid(koid),
        comm: known_threads.comm(koid).unwrap_or_default().into(),
        pid: process.map(|process| known_threads.tid(process)),
        tid: known_threads.tid(koid),
        cgroup: process.and_then(|process| known_threads.cgroup(process)).map(Into::into),
        host: process.and_then(|process| known_threads.host(process)).map(Into::into),
    }
}

fn thread_infos(
    all: Vec<(Option<Index>, Duration)>,
    known_threads: &KnownThreads,
) -> Vec<(Option<ThreadInfo>, Duration)> {
    let thread_info = |(who, sum): (Option<Index>, Duration)| {
        (who.map(|who| thread_info(known_threads, who)), sum)
    };
    all.into_iter().map(thread_info).collect()
}

fn longest_first<K>(
    sums: FxHashMap<K, u64>,
    mut of: impl FnMut(K) -> (u64, K),
) -> Vec<(K, Duration)> {
    let mut all: Vec<(u64, u64, K)> = sums
        .into_iter()
        .map(|(key, sum)| {
            let (rank, key) = of(key);
            (sum, rank, key)
        })
        .collect();
    all.sort_by_key(|(sum, rank, _)| (Reverse(*sum), *rank));
    all.into_iter().map(|(sum, _, key)| (key, Duration::from_nanos(sum))).collect()
}

/// Measures the waits for locks, for the threads and the part of the trace that `selection` chooses and `report` covers.
///
/// # Errors
/// The errors of [`Reader::next`], except for damage.
pub fn measure(
    reader: Reader<'_>,
    selection: &Selection,
    report: &Report,
) -> Result<LockReport, Error> {
    let range = match selection.range.from.is_some() || selection.range.to.is_some() {
        true => (report.span.begin.0, report.span.end.0),
        false => (0, u64::MAX),
    };
    let locks =
        Locks { range, open: FxHashMap::default(), of: FxHashMap::default(), too_many: false };
    let mut tracker = Tracker::new(KnownThreads::default());
    let mut locks = pass::run(reader, &mut tracker, locks)?;
    let open: Vec<Index> = locks.open.keys().copied().collect();
    open.into_iter().for_each(|thread| locks.end(thread, None));
    let known_threads = &tracker.known_threads;
    let mut found = BTreeMap::<(bool, Option<u64>, u64), Vec<(Index, Growing)>>::new();
    for ((thread, is_kernel, address), growing) in locks.of {
        let waiter = thread_info(known_threads, thread);
        let is_left_out = selection.leaves_out_recorder()
            && tracker.family.is_recorder(known_threads, waiter.koid.0);
        if selection.threads.admits(waiter.who()) && !is_left_out {
            let process = known_threads.process(waiter.koid.0).filter(|_| !is_kernel);
            found.entry((is_kernel, process, address)).or_default().push((thread, growing));
        }
    }
    let mut rows: Vec<LockRow> = Vec::with_capacity(found.len());
    for ((is_kernel, process, address), of) in found {
        let (mut owners, mut waiters) = (FxHashMap::default(), FxHashMap::default());
        let (mut wakers, mut kernel) = (FxHashMap::default(), None);
        let mut waits = Vec::with_capacity(of.len());
        for (thread, growing) in of {
            waiters.insert(thread, growing.sum);
            for (owner, sum) in growing.owners {
                *owners.entry(owner).or_default() += sum;
            }
            for (waker, sum) in growing.wakers {
                *wakers.entry(waker).or_default() += sum;
            }
            kernel = growing.kernel;
            waits.push(growing.waits.freeze());
        }
        let rank =
            |thread: Option<Index>| thread.map_or(u64::MAX, |thread| known_threads.koid(thread));
        let held_by = longest_first(owners, |owner| (rank(owner), owner));
        let released_by = longest_first(wakers, |waker| (rank(waker), waker));
        let waiters = longest_first(waiters, |thread| (rank(Some(thread)), thread));
        let name = process.and_then(|process| known_threads.process_name(process));
        rows.push(LockRow {
            address,
            kernel,
            name: tracker.known_lock_name(address).filter(|_| is_kernel).map(Into::into),
            pid: process.map(|process| known_threads.tid(process)),
            process: name.unwrap_or_default().into(),
            waits: Distribution::merge(waits.iter()),
            held_by: thread_infos(held_by, known_threads),
            released_by: thread_infos(released_by, known_threads),
            waiters: waiters
                .into_iter()
                .map(|(thread, sum)| (thread_info(known_threads, thread), sum))
                .collect(),
        });
    }
    rows.sort_by_key(|row| {
        let has_owner =
            row.kernel.is_some() || row.held_by.iter().any(|(owner, _)| owner.is_some());
        (!has_owner, Reverse(row.waits.sum()), row.pid, row.address)
    });
    Ok(LockReport { rows, too_many: locks.too_many })
}

#[cfg(test)]
mod tests {
    use fxt_writer::Value;

    use super::*;
    use crate::scene::{Leaves, Scene};
    use crate::text::write_locks;
    use fxtrec_units::look::Look;

    /// The arguments of a switch when a thread goes to sleep on a futex.
    fn wait(
        address: u64,
        owner: Option<(&'static str, u64)>,
    ) -> Vec<(&'static str, Value<'static>)> {
        let owner = owner.map(|(name, koid)| (name, Value::Koid(fxt_writer::Koid(koid))));
        let wait = [("syscall", Value::Uint32(202)), ("futex", Value::Pointer(address))];
        wait.into_iter().chain(owner).collect()
    }

    /// Thread 101 waits for a lock of 102 for 10 us and for one of 103 for 20 us, 102 waits for a condition variable for 50 us, and 103 for
    /// the end of 101.
    fn scene() -> Scene {
        let mut scene = Scene::with_causes("waker,syscall,futex");
        scene.name(101, "audio").name(102, "ui").name(103, "logger");
        let owner = |koid| Some(("futex_owner", koid));
        scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 102);
        scene.switch_with((100, 0), 101, Leaves::S, 0, &wait(0x10, owner(102)));
        scene.wake_by(110, 0, 101, 102).switch(111, 0, 0, Leaves::R, 101);
        scene.switch_with((120, 0), 101, Leaves::S, 0, &wait(0x10, owner(103)));
        scene.wake_by(140, 0, 101, 103).switch(141, 0, 0, Leaves::R, 101);
        scene.switch_with((200, 1), 102, Leaves::S, 103, &wait(0x20, None));
        scene.wake_by(250, 1, 102, 101).switch(251, 0, 101, Leaves::R, 102);
        scene.switch_with((300, 1), 103, Leaves::S, 0, &wait(0x30, Some(("futex_end_of", 101))));
        scene.wake_by(400, 1, 103, 101).switch(401, 1, 0, Leaves::R, 103);
        // This wait does not end.
        scene.switch_with((500, 0), 102, Leaves::S, 0, &wait(0x10, owner(103))).end(600);
        scene
    }

    #[test]
    fn locks_of_the_recorder_are_left_out_unless_they_are_asked_for() {
        let mut scene = Scene::recorded_by(900, "waker,syscall,futex", None);
        scene.name(101, "audio").name(901, "fxtrec-drain");
        scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 901);
        for (thread, cpu) in [(101, 0), (901, 1)] {
            scene.switch_with((100, cpu), thread, Leaves::S, 0, &wait(0x10, None));
        }
        scene.wake_by(150, 0, 101, 0).wake_by(160, 1, 901, 0);
        scene.switch(151, 0, 0, Leaves::R, 101).switch(161, 1, 0, Leaves::R, 901).end(200);
        let waiters = |recorder: bool| {
            let selection = Selection { recorder, ..Selection::default() };
            let reader = Reader::from_slice(scene.bytes());
            let locks = measure(reader, &selection, &scene.report()).expect("a trace");
            let waiters = locks.rows.iter().flat_map(|row| &row.waiters);
            let mut names: Vec<String> = waiters.map(|(it, _)| it.comm.to_string()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(waiters(false), ["audio"]);
        assert_eq!(waiters(true), ["audio", "fxtrec-drain"]);
    }

    #[test]
    fn locks_of_the_kernel_are_one_for_all_processes_and_name_who_woke() {
        let mut scene = Scene::with_causes("waker,syscall,kernel_lock");
        scene.name(101, "audio").name(102, "ui").name(103, "logger");
        let wait = |kind| {
            let id = ("kernel_lock", Value::Pointer(0x10));
            [id, ("kernel_lock_kind", Value::Str(fxt_writer::Text::Inline(kind)))]
        };
        scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 103);
        scene.switch_with((100, 0), 101, Leaves::S, 102, &wait("rwsem_read"));
        scene.switch_with((110, 0), 102, Leaves::S, 0, &wait("rwsem_write"));
        scene.wake_by(130, 0, 101, 103).switch(131, 0, 0, Leaves::R, 101);
        scene.wake_by(140, 1, 102, 103).switch(141, 1, 103, Leaves::R, 102).end(200);
        let reader = Reader::from_slice(scene.bytes());
        let locks = measure(reader, &Selection::default(), &scene.report()).expect("a trace");
        let [lock] = locks.rows.as_slice() else { panic!("{:?}", locks.rows) };
        assert_eq!((lock.waits.count(), lock.waits.sum()), (2, Duration::from_micros(60)));
        assert_eq!((lock.pid, lock.kernel.is_some()), (None, true));
        let mut text = Vec::new();
        write_locks(&locks, None, Look::PLAIN, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("kernel rwsem 0x10"), "{text}");
        assert!(text.contains("released by logger[103] 0.060"), "{text}");
        assert!(text.contains("audio[101] 0.030, ui[102] 0.030"), "{text}");
    }

    #[test]
    fn waits_for_a_lock_are_summed_up_with_who_had_it() {
        let scene = scene();
        let reader = || Reader::from_slice(scene.bytes());
        let locks = measure(reader(), &Selection::default(), &scene.report()).expect("a trace");
        let rows: Vec<_> = locks.rows.iter().map(|row| (row.address, row.waits.count())).collect();
        assert_eq!(rows, [(0x10, 2), (0x20, 1)], "conditions come behind, and no end of a thread");
        let lock = &locks.rows[0];
        assert_eq!((lock.waits.sum(), lock.waits.censored()), (Duration::from_micros(30), 1));
        let owners: Vec<_> = lock
            .held_by
            .iter()
            .map(|(owner, sum)| (owner.as_ref().map(|it| &*it.comm), sum.as_micros()))
            .collect();
        assert_eq!(owners, [(Some("logger"), 20), (Some("ui"), 10)]);
        let mut text = Vec::new();
        write_locks(&locks, None, Look::PLAIN, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("futex 0x10"), "{text}");
        assert!(text.contains("logger[103] 0.020, ui[102] 0.010"), "{text}");
        assert!(text.contains("unknown 0.050"), "{text}");
    }
}
