//! Reading the rings of all CPUs: by the capture thread alone, or with the help of others on a large machine.
//!
//! What is in a ring has to be decoded and queued; then the queues are merged, and
//! what comes out is encoded. The first part is divided by CPUs, the second is one
//! sequence. So the second stays with the capture thread, and on machines with many
//! CPUs the first is shared out:
//!
//! ```text
//!   capture thread   hand out | rings 0..31 -> queues   | take back | merge, encode
//!   reader 1                  | rings 32..63 -> queues  |
//!   reader 2                  | rings 64..95 -> queues  |
//! ```
//!
//! Rings and queues are handed over whole, so nothing is shared and nothing is
//! locked. When the last look brought little, the capture thread does it alone:
//! waking others would cost more than it saves, and a quiet machine stays quiet.

use std::io;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::order::{Lane, Merger, Queue};
use fxtrec_kernel::priority;

/// CPUs that one thread reads.
pub const CPUS_PER_READER: usize = 32;

/// No more threads than these help: what is left to the capture thread is then more than what they take off it.
pub const MOST_READERS: usize = 7;

/// A look that brought fewer events than these is not worth waking another thread for.
const WORTH_SHARING: usize = 16 * 1024;

/// A CPU's ring, which one thread at a time reads.
pub trait ReadRing: Send + 'static {
    fn lane(&self) -> Lane;

    /// Moves events from the ring to the queue, until the ring is empty or the queue is full, and says to the queue
    /// which of the two it was.
    fn read(&mut self, queue: &mut Queue);
}

type Batch<R> = Vec<(R, Queue)>;

#[derive(Debug)]
struct Reader<R> {
    /// Dropped first, which ends the thread.
    jobs: Sender<Batch<R>>,
    done: Receiver<Batch<R>>,
    thread: JoinHandle<()>,
}

/// The threads that help. They are started when they are first needed.
#[derive(Debug)]
pub struct Readers<R> {
    readers: Vec<Reader<R>>,
    /// How many events the last look brought.
    brought: usize,
    worth: usize,
    cpus_per_reader: usize,
}

/// How many threads help to read the rings of so many CPUs, when each takes `share` of them.
fn readers_for(cpus: usize, share: usize) -> usize {
    cpus.div_ceil(share).saturating_sub(1).min(MOST_READERS)
}

/// No threads yet, and on a machine of up to [`CPUS_PER_READER`] CPUs none ever.
impl<R: ReadRing> Default for Readers<R> {
    fn default() -> Readers<R> {
        Readers::sharing(CPUS_PER_READER, WORTH_SHARING)
    }
}

impl<R: ReadRing> Readers<R> {
    fn sharing(cpus_per_reader: usize, worth: usize) -> Readers<R> {
        Readers { readers: Vec::new(), brought: 0, worth, cpus_per_reader }
    }

    /// Reads every ring into its lane; true when one is not empty since its lane is full.
    ///
    /// # Errors
    /// When a thread panicked; the rings that it had are gone.
    pub fn read(&mut self, rings: &mut Vec<R>, merger: &mut Merger) -> io::Result<bool> {
        let before = merger.held();
        let wanted = match self.brought >= self.worth {
            true => readers_for(rings.len(), self.cpus_per_reader),
            false => 0,
        };
        while self.readers.len() < wanted {
            match Reader::start(self.readers.len() + 1) {
                Ok(reader) => self.readers.push(reader),
                // Without it there is more for the others to do; the next look tries again.
                Err(_) => break,
            }
        }
        if wanted == 0 || self.readers.is_empty() {
            for ring in rings.iter_mut() {
                ring.read(merger.queue(ring.lane()));
            }
        } else {
            self.share(rings, merger)?;
        }
        self.brought = merger.held().saturating_sub(before);
        Ok(rings.iter().any(|ring| !merger.queue(ring.lane()).is_drained()))
    }

    fn share(&mut self, rings: &mut Vec<R>, merger: &mut Merger) -> io::Result<()> {
        let each = rings.len().div_ceil(self.readers.len() + 1).max(1);
        let mut all = rings.drain(..);
        let mut own: Vec<R> = all.by_ref().take(each).collect();
        let mut busy = Vec::new();
        for reader in &self.readers {
            let batch: Batch<R> = all
                .by_ref()
                .take(each)
                .map(|ring| {
                    let queue = merger.lend(ring.lane());
                    (ring, queue)
                })
                .collect();
            if !batch.is_empty() {
                reader.jobs.send(batch).map_err(|_| gone())?;
                busy.push(reader);
            }
        }
        drop(all);
        for ring in &mut own {
            ring.read(merger.queue(ring.lane()));
        }
        rings.append(&mut own);
        for reader in busy {
            for (ring, queue) in reader.done.recv().map_err(|_| gone())? {
                merger.take_back(ring.lane(), queue);
                rings.push(ring);
            }
        }
        Ok(())
    }
}

impl<R: ReadRing> Reader<R> {
    fn start(number: usize) -> io::Result<Reader<R>> {
        let (jobs, mine) = bounded::<Batch<R>>(1);
        let (results, done) = bounded(1);
        let name = format!("fxtrec-read-{number}");
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            priority::raise();
            for mut batch in mine {
                for (ring, queue) in &mut batch {
                    ring.read(queue);
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
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread that reads rings panicked")
}

#[cfg(test)]
mod tests {
    use super::super::event::{Event, Kind, Loss};
    use super::*;
    use fxtrec_units::{Cpu, Nanos};

    /// A ring that holds what the test put into it.
    #[derive(Debug)]
    struct Synthetic {
        lane: Lane,
        times: std::ops::Range<u64>,
        step: u64,
        panics: bool,
        /// Whether another thread than the test's read it last.
        elsewhere: bool,
    }

    impl ReadRing for Synthetic {
        fn lane(&self) -> Lane {
            self.lane
        }

        fn read(&mut self, queue: &mut Queue) {
            assert!(!self.panics, "as the test wants it");
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.elsewhere = name.starts_with("fxtrec-read");
            while !queue.is_full() {
                let Some(time) = self.times.next() else { return queue.set_drained(true) };
                let kind = Kind::Lost(Loss::exactly(1));
                queue.push(Event { time: Nanos(time * self.step), kind });
            }
            queue.set_drained(false);
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
        assert!(!alone.read(&mut rings, &mut merger).expect("no thread panics"));
        let expected = emitted(&mut merger);
        assert_eq!(expected.len(), 70 * 300);
        for (share, threads) in [(69, 1), (20, 3), (1, MOST_READERS)] {
            let (mut merger, mut rings) = machine(70, 300);
            let mut readers = Readers::sharing(share, 0);
            assert!(!readers.read(&mut rings, &mut merger).expect("no thread panics"));
            assert_eq!(readers.readers.len(), threads);
            assert_eq!(rings.len(), 70, "every ring came back");
            assert!(rings.iter().map(|ring| ring.lane).is_sorted_by_key(|lane| lane.place()));
            assert_eq!(emitted(&mut merger), expected, "{threads} threads");
            assert!(!readers.read(&mut rings, &mut merger).expect("and once more"));
            assert!(emitted(&mut merger).is_empty());
        }
    }

    #[test]
    fn a_ring_that_does_not_fit_its_queue_is_read_on_after_room_was_made() {
        let more = super::super::order::QUEUE_EVENTS as u64 + 10;
        let (mut merger, mut rings) = machine(3, more);
        let mut readers = Readers::sharing(1, 0);
        assert!(readers.read(&mut rings, &mut merger).expect("no thread panics"));
        let first = emitted(&mut merger).len();
        assert!(!readers.read(&mut rings, &mut merger).expect("no thread panics"));
        assert_eq!(first + emitted(&mut merger).len(), 3 * more as usize);
    }

    #[test]
    fn others_are_woken_only_after_a_look_that_brought_much() {
        let (mut merger, mut rings) = machine(4, 10);
        let mut readers = Readers::sharing(1, 30);
        readers.read(&mut rings, &mut merger).expect("no thread panics");
        assert!(readers.readers.is_empty(), "nothing was known of the load yet");
        readers.read(&mut rings, &mut merger).expect("no thread panics");
        assert_eq!(readers.readers.len(), 3, "40 events are more than 30");
        let threads = |rings: &[Synthetic]| rings.iter().filter(|ring| ring.elsewhere).count();
        assert_eq!(threads(&rings), 3);
        readers.read(&mut rings, &mut merger).expect("no thread panics");
        assert_eq!(threads(&rings), 0, "the rings were empty, so one thread did it");
    }

    #[test]
    fn a_reader_that_panics_is_an_error_and_not_silence() {
        let (mut merger, mut rings) = machine(4, 10);
        rings[3].panics = true;
        let mut readers = Readers::sharing(2, 0);
        let error = readers.read(&mut rings, &mut merger).expect_err("its rings are gone");
        assert!(error.to_string().contains("panicked"), "{error}");
    }
}
