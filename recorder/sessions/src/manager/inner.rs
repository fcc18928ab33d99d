//! Providers in another PID namespace, as in a container: their thread ids differ from those in the scheduler's records.
//!
//! The kernel reports a peer by its id in this namespace (SO_PEERCRED), and `/proc` has a thread's ids in all namespaces (`NSpid`). So the
//! process's threads are read regularly while it records, and their koids replaced in the copy of its records. A thread that ended before
//! its ids were read gets a koid that no other thread has.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fxt_format::walk::record_words;
use fxt_format::{event, header, kernel_object, log, record_type, thread_ref};
use fxt_writer::ProviderId;
use fxt_writer::engine::Piece;
use fxtrec_kernel::procfs;
use fxtrec_units::convention::unseen_thread_koid;

/// How often threads are checked while a provider records.
const EVERY: Duration = Duration::from_millis(100);

/// Reading the threads takes at most one part in this number of the time.
const SHARE: u32 = 20;

/// Maximum number of ids kept for one provider, or the ids of its living threads if these are more.
const MOST_IDS: usize = 16_384;

/// The threads of one provider.
#[derive(Debug)]
pub(super) struct InnerThreads {
    id: ProviderId,
    pid: u32,
    /// The ids in this namespace, by the ids that the provider knows. The entries of threads that have ended are kept while there is space.
    ids: HashMap<u32, u32>,
    next: Instant,
}

impl InnerThreads {
    /// `None` if the process `pid` is in the same PID namespace as this one.
    pub(super) fn of(id: ProviderId, pid: u32) -> Option<InnerThreads> {
        procfs::has_inner_ids(pid).then(|| {
            let mut threads = InnerThreads { id, pid, ids: HashMap::new(), next: Instant::now() };
            threads.look();
            threads
        })
    }

    /// When to read them again.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Reads the current threads.
    pub(super) fn look(&mut self) {
        let begun = Instant::now();
        self.know(procfs::inner_thread_ids(self.pid).collect());
        self.next = begun + EVERY.max(begun.elapsed() * SHARE);
    }

    /// Stores the ids of the living threads.
    fn know(&mut self, living: HashMap<u32, u32>) {
        self.ids.extend(&living);
        if self.ids.len() > MOST_IDS {
            self.ids = living;
        }
    }

    /// Replaces the koids of threads in the provider's records with those in the scheduler's records.
    pub(super) fn translate(&self, piece: &mut Piece) {
        for words in [&mut piece.durable, &mut piece.rolling] {
            let mut rest = words.as_mut_slice();
            while let Some(length) = rest.first().and_then(|first| record_words(*first))
                && let Some((record, behind)) = rest.split_at_mut_checked(length)
            {
                if let Some(koid) = thread_of(record) {
                    *koid = self.koid(*koid);
                }
                rest = behind;
            }
        }
    }

    fn koid(&self, koid: u64) -> u64 {
        let Ok(inner) = u32::try_from(koid) else { return koid };
        let known = self.ids.get(&inner).map(|outer| u64::from(*outer));
        known.unwrap_or_else(|| unseen_thread_koid(self.id, inner).0)
    }
}

/// The position of a thread's koid in a record; `None` if it has none.
fn thread_of(record: &mut [u64]) -> Option<&mut u64> {
    let first = *record.first()?;
    let inline = |reference| reference == thread_ref::INLINE;
    let at = match header::TYPE.get(first) {
        record_type::THREAD => 2,
        // Time, process, thread.
        record_type::EVENT if inline(event::THREAD.get(first)) => 3,
        record_type::LOG if inline(log::THREAD.get(first)) => 3,
        record_type::KERNEL_OBJECT
            if kernel_object::OBJECT_TYPE.get(first) == kernel_object::ZX_OBJ_TYPE_THREAD =>
        {
            1
        }
        _ => return None,
    };
    record.get_mut(at)
}

#[cfg(test)]
mod tests {
    use fxt_reader::{Reader, Record as Read};
    use fxt_writer::record::{
        Event, EventKind, Initialization, KernelObject, Magic, ObjectType, Record, ThreadRecord,
    };
    use fxt_writer::{Koid, Text, ThreadName, ThreadRef, Ticks};

    use super::*;

    const PROCESS: Koid = Koid(400);

    fn threads(ids: &[(u32, u32)]) -> InnerThreads {
        let ids = ids.iter().copied().collect();
        InnerThreads { id: ProviderId(3), pid: 400, ids, next: Instant::now() }
    }

    fn put(out: &mut Vec<u64>, record: &impl Record) {
        record.write(out).expect("memory has room");
    }

    fn event(thread: ThreadName) -> Event<'static> {
        let (kind, time) = (EventKind::Instant, Ticks(5));
        let (category, name) = (Text::Inline("app"), Text::Inline("draw"));
        Event { kind, time, thread, category, name, args: &[] }
    }

    #[test]
    fn threads_get_the_ids_of_this_namespace_wherever_a_record_names_one() {
        let mut piece = Piece::default();
        put(&mut piece.durable, &Initialization { ticks_per_second: 1_000_000_000 });
        let index = ThreadRef::indexed(1).expect("in range");
        put(&mut piece.durable, &ThreadRecord { index, process: PROCESS, thread: Koid(1) });
        let (kind, koid, name) = (ObjectType::Thread, Koid(7), Text::Inline("worker"));
        put(&mut piece.durable, &KernelObject { object_type: kind, koid, name, args: &[] });
        let (kind, koid, name) = (ObjectType::Process, PROCESS, Text::Inline("app"));
        put(&mut piece.durable, &KernelObject { object_type: kind, koid, name, args: &[] });
        put(&mut piece.rolling, &event(ThreadName::Indexed(index)));
        for thread in [7, 8] {
            let thread = Koid(thread);
            put(&mut piece.rolling, &event(ThreadName::Inline { process: PROCESS, thread }));
        }
        let lengths = (piece.durable.len(), piece.rolling.len());
        threads(&[(1, 400), (7, 406)]).translate(&mut piece);
        assert_eq!((piece.durable.len(), piece.rolling.len()), lengths);
        let mut archive = Vec::new();
        Magic.write(&mut archive).expect("memory has room");
        for word in piece.durable.iter().chain(&piece.rolling) {
            archive.extend_from_slice(&word.to_ne_bytes());
        }
        let mut reader = Reader::from_slice(&archive);
        let mut named = Vec::new();
        while let Some(item) = reader.next().expect("a sound archive") {
            match item.record {
                Read::Event(event) => named.push((event.thread.process.0, event.thread.thread.0)),
                Read::KernelObject(object) => named.push((0, object.koid.0)),
                _ => {}
            }
        }
        let unseen = unseen_thread_koid(ProviderId(3), 8).0;
        assert_eq!(named, [(0, 406), (0, 400), (400, 400), (400, 406), (400, unseen)]);
    }

    #[test]
    fn ids_of_threads_that_have_ended_are_forgotten_when_they_are_too_many() {
        let mut known = threads(&[]);
        for id in 1..200_000 {
            known.know(HashMap::from([(id, id + 400)]));
            assert!(known.ids.len() <= MOST_IDS);
        }
        assert_eq!(known.koid(199_999), 200_399);
        let living: HashMap<u32, u32> = (1..30_000).map(|id| (id, id)).collect();
        known.know(living.clone());
        assert_eq!(known.ids, living, "all that live are known");
    }

    #[test]
    fn what_is_no_record_ends_the_walk_and_stays_as_it_is() {
        for words in [vec![], vec![0], vec![u64::MAX; 3], vec![3 | 3 << 4, 1]] {
            let mut piece = Piece { rolling: words.clone(), ..Piece::default() };
            threads(&[(1, 400)]).translate(&mut piece);
            assert_eq!(piece.rolling, words);
        }
    }

    #[test]
    fn this_process_knows_its_threads_by_the_ids_of_this_namespace() {
        assert!(InnerThreads::of(ProviderId(3), std::process::id()).is_none());
    }
}
