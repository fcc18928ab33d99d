//! Reads the rings of all CPUs: only on the capture thread, or with helper threads on a large machine.
//!
//! All sources read their rings in this way. First, the contents of the rings are read: perf's and ftrace's rings are decoded into queues,
//! the lanes of `bpf` are copied and decoded later. Then everything is merged and encoded. The first step is divided by CPU; the second is
//! a single sequence. So the capture thread does the second step, and on machines with many CPUs it shares the first one:
//!
//! ```text
//!   capture thread   now | hand out | rings 0..31   | take back | watermark, merge, encode
//!   reader 1             |          | rings 32..63  |
//!   reader 2             |          | rings 64..95  |
//! ```
//!
//! Rings and queues are handed over as a whole, so nothing is shared and nothing is locked. If the last round brought few events, the
//! capture thread reads alone: waking others would cost more than it saves, and a quiet machine stays quiet.
//!
//! The order in which rings are read, and by which threads, does not matter. Which events may be passed on follows from three facts about
//! each ring ([`super::order`]): its youngest event, whether it was read to its end, and whether anything was being written during the
//! read. Each fact concerns one ring, and a read that happened after `now`, the time up to which the other two facts hold: the capture
//! thread reads the clock before it passes rings on, and the channel orders that before a helper's read. A ring that is read last may hold
//! events younger than another ring's youngest one. These wait in its queue, because the watermark is the minimum over all rings, computed
//! when every ring is back.

use std::io;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::order::{Lane, Merger, Queue};
use fxtrec_kernel::priority;

/// How many CPUs one thread reads.
pub const CPUS_PER_READER: usize = 32;

/// Maximum number of helper threads: with more, the capture thread's own work would exceed the work that they do for it.
pub const MOST_READERS: usize = 7;

/// [`ReadRing::WORTH_SHARING`] of rings that are decoded as they are read.
pub const WORTH_DECODING: usize = 16 * 1024;

/// [`ReadRing::WORTH_SHARING`] of lanes whose records are only copied, which is cheaper than decoding: this many are 1.5 MiB.
pub const WORTH_COPYING: usize = 64 * 1024;

/// The result of reading one or several rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// How many events, or raw records, were read.
    pub brought: usize,
    /// Whether the ring is empty; otherwise there was no space for more events.
    pub drained: bool,
}

impl Look {
    /// The result if no ring was read.
    const NONE: Look = Look { brought: 0, drained: true };

    fn and(self, other: Look) -> Look {
        let brought = self.brought + other.brought;
        Look { brought, drained: self.drained && other.drained }
    }
}

/// A CPU's ring, which only one thread reads at a time.
pub trait ReadRing: Send + 'static {
    /// If a round brought fewer events than these, waking another thread is not worthwhile.
    const WORTH_SHARING: usize;

    fn lane(&self) -> Lane;

    /// Moves events from the ring to the place where they wait for the merge, until the ring is empty or there is no more space. They wait
    /// in `queue`, which also stores whether the ring is empty, or in the ring itself if it is a [`super::order::Backlog`].
    fn read(&mut self, queue: &mut Queue) -> Look;
}

/// Rings with their queues, and the result of reading them.
#[derive(Debug)]
struct Batch<R> {
    rings: Vec<(R, Queue)>,
    look: Look,
}

#[derive(Debug)]
struct Reader<R> {
    /// Dropped first; that ends the thread.
    jobs: Sender<Batch<R>>,
    done: Receiver<Batch<R>>,
    thread: JoinHandle<()>,
}

/// The helper threads. They are started when they are first needed.
#[derive(Debug)]
pub struct Readers<R> {
    readers: Vec<Reader<R>>,
    /// How many events the last round brought.
    brought: usize,
    /// Number of events from which on other threads are woken.
    worth: usize,
    cpus_per_reader: usize,
    /// The most helper threads.
    most: usize,
    failed: Option<io::Error>,
}

/// How many threads help to read the rings of `cpus` CPUs, if each reads `share` of them.
pub(super) fn readers_for(cpus: usize, share: usize) -> usize {
    cpus.div_ceil(share).saturating_sub(1).min(MOST_READERS)
}

/// Starts without threads. It never starts any on a machine of up to [`CPUS_PER_READER`] CPUs, nor if this process may use only one CPU,
/// because the capture thread would then only wait for its turn.
impl<R: ReadRing> Default for Readers<R> {
    fn default() -> Readers<R> {
        let own_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut readers = Readers::sharing(CPUS_PER_READER, R::WORTH_SHARING);
        readers.most = own_cpus - 1;
        readers
    }
}

impl<R: ReadRing> Readers<R> {
    /// Each thread reads `cpus_per_reader` CPUs, after a round that brought `worth` events or more.
    pub(super) fn sharing(cpus_per_reader: usize, worth: usize) -> Readers<R> {
        let (readers, most) = (Vec::new(), MOST_READERS);
        Readers { readers, brought: 0, worth, cpus_per_reader, most, failed: None }
    }

    /// Makes `threads` threads, including the calling one, read the rings of `cpus` CPUs in each round.
    pub(super) fn exactly(threads: usize, cpus: usize) -> Readers<R> {
        let most = threads.saturating_sub(1).min(MOST_READERS);
        let mut readers = Readers::sharing(cpus.div_ceil(most + 1).max(1), 0);
        readers.most = most;
        readers
    }

    /// Reads every ring. The order of the rings stays the same.
    ///
    /// If a thread panics, its rings are lost: see [`Readers::take_failure`]. All other rings are read.
    pub fn read(&mut self, rings: &mut Vec<R>, merger: &mut Merger) -> Look {
        let wanted = match self.brought >= self.worth {
            true => readers_for(rings.len(), self.cpus_per_reader).min(self.most),
            false => 0,
        };
        while self.readers.len() < wanted {
            match Reader::start(self.readers.len() + 1) {
                Ok(reader) => self.readers.push(reader),
                // If the thread cannot be started, the others do its work; the next round tries again.
                Err(_) => break,
            }
        }
        let look = match wanted == 0 || self.readers.is_empty() {
            true => alone(rings, merger),
            false => self.share(rings, merger),
        };
        self.brought = look.brought;
        look
    }

    /// The reason why rings are lost; returned only once.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    fn share(&mut self, rings: &mut Vec<R>, merger: &mut Merger) -> Look {
        let each = rings.len().div_ceil(self.readers.len() + 1).max(1);
        let mut all = rings.drain(..);
        let mut own: Vec<R> = all.by_ref().take(each).collect();
        let mut busy = Vec::new();
        for reader in &self.readers {
            let lent = all.by_ref().take(each).map(|ring| {
                let queue = merger.lend(ring.lane());
                (ring, queue)
            });
            let batch = Batch { rings: lent.collect(), look: Look::NONE };
            if !batch.rings.is_empty() {
                // The thread waits for nothing but requests. If it has ended, the missing result shows that.
                let _ = reader.jobs.send(batch);
                busy.push(reader);
            }
        }
        drop(all);
        let mut look = alone(&mut own, merger);
        rings.append(&mut own);
        let mut all_came_back = true;
        for reader in busy {
            let Ok(batch) = reader.done.recv() else {
                all_came_back = false;
                continue;
            };
            look = look.and(batch.look);
            for (ring, queue) in batch.rings {
                merger.take_back(ring.lane(), queue);
                rings.push(ring);
            }
        }
        if !all_came_back {
            const WHY: &str = "a thread that reads rings panicked; the events in them are lost";
            self.failed.get_or_insert_with(|| io::Error::other(WHY));
            // From now on, this thread reads the remaining rings.
            self.worth = usize::MAX;
        }
        look
    }
}

/// Reads the rings one after the other.
fn alone<R: ReadRing>(rings: &mut [R], merger: &mut Merger) -> Look {
    rings.iter_mut().fold(Look::NONE, |look, ring| look.and(ring.read(merger.queue(ring.lane()))))
}

impl<R: ReadRing> Reader<R> {
    fn start(number: usize) -> io::Result<Reader<R>> {
        let (jobs, mine) = bounded::<Batch<R>>(1);
        let (results, done) = bounded(1);
        let name = format!("fxtrec-read-{number}");
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            priority::raise();
            for mut batch in mine {
                for (ring, queue) in &mut batch.rings {
                    batch.look = batch.look.and(ring.read(queue));
                }
                if results.send(batch).is_err() {
                    return;
                }
            }
        })?;
        Ok(Reader { jobs, done, thread })
    }
}

impl<R> Drop for Readers<R> {
    fn drop(&mut self) {
        for Reader { jobs, done, thread } in self.readers.drain(..) {
            drop((jobs, done));
            // A thread that panicked has already reported that.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Event, Kind, Loss};
    use super::*;
    use fxtrec_units::{Cpu, Nanos};

    /// A ring that the test fills.
    #[derive(Debug)]
    struct Synthetic {
        lane: Lane,
        times: std::ops::Range<u64>,
        step: u64,
        panics: bool,
        /// Whether a thread other than the test's thread read it last.
        elsewhere: bool,
    }

    impl ReadRing for Synthetic {
        const WORTH_SHARING: usize = 0;

        fn lane(&self) -> Lane {
            self.lane
        }

        fn read(&mut self, queue: &mut Queue) -> Look {
            assert!(!self.panics, "as the test wants it");
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.elsewhere = name.starts_with("fxtrec-read");
            let mut brought = 0;
            while !queue.is_full()
                && let Some(time) = self.times.next()
            {
                let kind = Kind::Lost(Loss::exactly(1));
                queue.push(Event { time: Nanos(time * self.step), kind });
                brought += 1;
            }
            let drained = self.times.is_empty();
            queue.set_drained(drained);
            Look { brought, drained }
        }
    }

    fn machine(cpus: u32, events: u64) -> (Merger, Vec<Synthetic>) {
        let mut merger = Merger::new();
        let ring = |cpu| {
            let lane = merger.lane(Cpu(cpu));
            let (times, step) = (0..events, u64::from(cpu) + 1);
            Synthetic { lane, times, step, panics: false, elsewhere: false }
        };
        let rings = (0..cpus).map(ring).collect();
        (merger, rings)
    }

    fn emitted(merger: &mut Merger) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        merger.emit(Nanos(u64::MAX), |time, cpu, _, _| {
            found.push((time.0, cpu.0));
            true
        });
        found
    }

    #[test]
    fn helpers_grow_with_the_machine_and_a_small_one_needs_none() {
        let of = [1, 2, 32, 33, 64, 65, 256, 4096].map(|cpus| readers_for(cpus, CPUS_PER_READER));
        assert_eq!(of, [0, 0, 0, 1, 1, 2, 7, 7]);
    }

    #[test]
    fn any_number_of_readers_brings_the_same_events_in_the_same_order() {
        let (mut merger, mut rings) = machine(70, 300);
        let mut alone = Readers::sharing(70, 0);
        let look = alone.read(&mut rings, &mut merger);
        assert_eq!(look, Look { brought: 70 * 300, drained: true });
        let expected = emitted(&mut merger);
        assert_eq!(expected.len(), 70 * 300);
        for (share, threads) in [(69, 1), (20, 3), (1, MOST_READERS)] {
            let (mut merger, mut rings) = machine(70, 300);
            let mut readers = Readers::sharing(share, 0);
            assert_eq!(readers.read(&mut rings, &mut merger), look);
            assert_eq!(readers.readers.len(), threads);
            assert_eq!(rings.len(), 70, "every ring came back");
            assert!(rings.iter().map(|ring| ring.lane).is_sorted_by_key(|lane| lane.place()));
            assert_eq!(emitted(&mut merger), expected, "{threads} threads");
            assert_eq!(readers.read(&mut rings, &mut merger), Look::NONE);
            assert!(emitted(&mut merger).is_empty());
        }
    }

    #[test]
    fn a_ring_that_does_not_fit_its_queue_is_read_on_after_room_was_made() {
        let more = super::super::order::QUEUE_EVENTS as u64 + 10;
        let (mut merger, mut rings) = machine(3, more);
        let mut readers = Readers::sharing(1, 0);
        assert!(!readers.read(&mut rings, &mut merger).drained);
        let first = emitted(&mut merger).len();
        assert!(readers.read(&mut rings, &mut merger).drained);
        assert_eq!(first + emitted(&mut merger).len(), 3 * more as usize);
    }

    #[test]
    fn others_are_woken_only_after_a_look_that_brought_much() {
        let (mut merger, mut rings) = machine(4, 10);
        let mut readers = Readers::sharing(1, 30);
        readers.read(&mut rings, &mut merger);
        assert!(readers.readers.is_empty(), "nothing was known of the load yet");
        readers.read(&mut rings, &mut merger);
        assert_eq!(readers.readers.len(), 3, "40 events are more than 30");
        let threads = |rings: &[Synthetic]| rings.iter().filter(|ring| ring.elsewhere).count();
        assert_eq!(threads(&rings), 3);
        readers.read(&mut rings, &mut merger);
        assert_eq!(threads(&rings), 0, "the rings were empty, so one thread did it");
    }

    #[test]
    fn a_reader_that_panics_is_an_error_and_not_silence() {
        let (mut merger, mut rings) = machine(6, 10);
        rings[3].panics = true;
        let mut readers = Readers::sharing(2, 0);
        readers.read(&mut rings, &mut merger);
        let error = readers.take_failure().expect("its rings are gone");
        assert!(error.to_string().contains("panicked"), "{error}");
        let left: Vec<usize> = rings.iter().map(|ring| ring.lane.place()).collect();
        assert_eq!(left, [0, 1, 4, 5], "those of the others came back");
        assert_eq!(emitted(&mut merger).len(), 4 * 10, "and were read");
        rings.iter_mut().for_each(|ring| ring.times = 10..20);
        let look = readers.read(&mut rings, &mut merger);
        assert_eq!(look, Look { brought: 4 * 10, drained: true }, "by this thread alone");
        assert!(readers.take_failure().is_none());
    }
}
