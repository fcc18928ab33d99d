//! Merges on a separate thread while the machine is busy, so that reading and merging take one CPU, and encoding another.
//!
//! A source reads its rings, merges their events in order of time, and hands them to the encoder. On a machine with few CPUs, or few events,
//! the capture thread does all of it. If that takes half of its time, the first two steps move to a second thread for as long as it does:
//!
//! ```text
//!   fxtrec-merge     | read | merge, run by run ......... |
//!   fxtrec-capture          | decode, encode ............... |  hotplug, stacks, flush, wait  |
//!                           runs of merged records, in order
//! ```
//!
//! The merge thread works only within a round, which ends when it has handed out everything up to the watermark. So between rounds, the
//! rings have one owner, as without the thread, and no other part of a source depends on which thread merged. The result is the same as
//! without the thread because the merger is the same, and each decision that needs the order of all CPUs is made on the capture thread,
//! which gets the records in that order through one channel. Decoding depends only on earlier records of the same ring, so it can be done
//! after the merge.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::event::Event;
use super::order::{Handed, Receive};
use fxtrec_kernel::clock;
use fxtrec_kernel::priority::ThreadId;
use fxtrec_kernel::thread_times::{ThreadClock, ThreadTimes};
use fxtrec_units::{Cpu, Nanos};

/// One more thread is worthwhile for each group of this many CPUs.
const CPUS_PER_THREAD: usize = 8;

/// Records in a run: a few tens of KiB, which stay in a cache until they are encoded.
const RUN: usize = 1024;

/// Bytes of the samples in a run, within one sample.
const RUN_BYTES: usize = 256 * 1024;

/// Runs that wait to be encoded; more would leave the cache.
const WAITING: usize = 16;

/// Represents an event of a queue, in place of the number of a backlog.
const OF_QUEUE: u32 = u32::MAX;

/// The rings of a source, and their merger.
pub(crate) trait Intake: Debug + Send + 'static {
    /// The events that wait in the rings' backlogs.
    type Item: Copy + Debug + Send + 'static;

    /// Reads the rings, and passes on the events that no older event can precede, as long as `to` accepts more. Returns whether it accepted
    /// everything.
    fn round(&mut self, to: &mut impl Receive<Self::Item>) -> bool;

    /// The time that was handed out last.
    fn emitted(&self) -> Nanos;

    /// The time of an item, unless the item describes a later one.
    fn time(item: &Self::Item) -> Option<Nanos>;
}

/// Merged events and items.
#[derive(Debug)]
struct Run<Item> {
    /// Their sources, in order: the backlog's number or [`OF_QUEUE`], the CPU, and the number of events.
    parts: Vec<(u32, Cpu, usize)>,
    items: Vec<Item>,
    /// Events of queues, each with the number of bytes that it carries.
    events: Vec<(Nanos, Event, usize)>,
    bytes: Vec<u8>,
    end: Option<End>,
}

/// The result at the end of the last run of a round.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Whether everything was accepted.
    all: bool,
    /// The thread, and how it has spent its time so far.
    thread: ThreadId,
    times: ThreadTimes,
}

impl<Item> Run<Item> {
    fn new() -> Run<Item> {
        let (parts, items, events, bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Run { parts, items, events, bytes, end: None }
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.items.clear();
        self.events.clear();
        self.bytes.clear();
        self.end = None;
    }

    #[inline]
    fn add(&mut self, of: u32, cpu: Cpu) {
        match self.parts.last_mut() {
            Some((last, of_cpu, count)) if (*last, *of_cpu) == (of, cpu) => *count += 1,
            _ => self.parts.push((of, cpu, 1)),
        }
    }

    /// Passes all items on; returns false if `to` did not accept all of them.
    fn hand_out(&self, handed: &mut Handed, to: &mut impl Receive<Item>) -> bool {
        let (mut items, mut events) = (self.items.iter(), self.events.iter());
        let mut bytes = self.bytes.as_slice();
        for &(of, cpu, count) in &self.parts {
            if of == OF_QUEUE {
                for (time, event, length) in events.by_ref().take(count) {
                    let (own, rest) = bytes.split_at(*length);
                    bytes = rest;
                    if !to.event(handed.at(*time), cpu, event, own) {
                        return false;
                    }
                }
            } else {
                for item in items.by_ref().take(count) {
                    if !to.item(handed, of as usize, cpu, item) {
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// The merge thread's end of the channels, and the run that it fills.
#[derive(Debug)]
struct Runs<'a, I: Intake> {
    run: Run<I::Item>,
    shared: &'a Shared<I>,
}

#[derive(Debug)]
struct Shared<I: Intake> {
    intake: Arc<Mutex<I>>,
    runs: Sender<Run<I::Item>>,
    /// Runs that were encoded and can be reused.
    spare: Receiver<Run<I::Item>>,
    /// Whether the capture thread has stopped taking runs.
    refused: Arc<AtomicBool>,
}

impl<I: Intake> Runs<'_, I> {
    /// Sends the run if it is full; false if the capture thread accepts no more.
    #[inline]
    fn send_if_full(&mut self) -> bool {
        let Run { items, events, bytes, .. } = &self.run;
        let full = items.len() + events.len() >= RUN || bytes.len() >= RUN_BYTES;
        // Relaxed: this only saves work.
        !full || self.send() && !self.shared.refused.load(Ordering::Relaxed)
    }

    /// Sends the run; false if the capture thread has ended.
    #[cold]
    fn send(&mut self) -> bool {
        let next = self.shared.spare.try_recv().unwrap_or_else(|_| Run::new());
        let run = std::mem::replace(&mut self.run, next);
        self.shared.runs.send(run).is_ok()
    }
}

impl<I: Intake> Receive<I::Item> for Runs<'_, I> {
    fn event(&mut self, time: Nanos, cpu: Cpu, event: &Event, bytes: &[u8]) -> bool {
        self.run.add(OF_QUEUE, cpu);
        self.run.events.push((time, *event, bytes.len()));
        self.run.bytes.extend_from_slice(bytes);
        self.send_if_full()
    }

    fn item(&mut self, handed: &mut Handed, backlog: usize, cpu: Cpu, item: &I::Item) -> bool {
        if let Some(time) = I::time(item) {
            handed.at(time);
        }
        // There are as many backlogs as CPUs, or twice as many.
        self.run.add(backlog as u32, cpu);
        self.run.items.push(*item);
        self.send_if_full()
    }
}

impl<I: Intake> Shared<I> {
    fn work(self, rounds: &Receiver<()>) {
        let thread = ThreadId::current();
        thread.raise();
        let clock = ThreadClock::of_this_thread();
        for () in rounds {
            let mut runs = Runs { run: Run::new(), shared: &self };
            let all = lock(&self.intake).round(&mut runs);
            runs.run.end = Some(End { all, thread, times: clock.read() });
            if !runs.send() {
                return;
            }
        }
    }
}

/// The thread, as the capture thread sees it.
#[derive(Debug)]
struct MergeThread<Item> {
    /// Dropped first; that ends the thread.
    rounds: Sender<()>,
    runs: Receiver<Run<Item>>,
    spare: Sender<Run<Item>>,
    refused: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl<Item: Send + 'static> MergeThread<Item> {
    fn start<I: Intake<Item = Item>>(intake: &Arc<Mutex<I>>) -> io::Result<MergeThread<Item>> {
        let (rounds, wanted) = bounded(1);
        let (filled, runs) = bounded(WAITING);
        let (spare, empty) = bounded(WAITING);
        let refused = Arc::new(AtomicBool::new(false));
        let (intake, flag) = (Arc::clone(intake), Arc::clone(&refused));
        let shared = Shared { intake, runs: filled, spare: empty, refused: flag };
        let name = "fxtrec-merge".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || shared.work(&wanted))?;
        Ok(MergeThread { rounds, runs, spare, refused, thread })
    }

    /// A round of the thread. `None` if it panicked.
    fn round(&mut self, handed: &mut Handed, to: &mut impl Receive<Item>) -> Option<End> {
        self.rounds.send(()).ok()?;
        let mut go_on = true;
        loop {
            let mut run = self.runs.recv().ok()?;
            go_on = go_on && run.hand_out(handed, to);
            if !go_on {
                self.refused.store(true, Ordering::Relaxed);
            }
            if let Some(end) = run.end {
                return Some(End { all: end.all && go_on, ..end });
            }
            run.clear();
            // The buffer is dropped if enough spare ones are queued.
            let _ = self.spare.try_send(run);
        }
    }
}

/// The rings of a source, and the threads that read and merge them.
#[derive(Debug)]
pub(crate) struct Merging<I: Intake> {
    intake: Arc<Mutex<I>>,
    thread: Option<MergeThread<I::Item>>,
    /// The id of the merge thread and how it spent its time; `None` before its first merge.
    load: Option<(ThreadId, ThreadTimes)>,
    wanted: Wanted,
    failed: Option<io::Error>,
}

/// When the merge thread is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Never,
    /// Only while rounds take at least half of the time.
    Busy {
        now: bool,
        ended: Nanos,
    },
    Always,
}

fn lock<I>(intake: &Mutex<I>) -> MutexGuard<'_, I> {
    // If the merge thread panicked, the round is incomplete, which is reported.
    intake.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads may capture `cpus` CPUs, if this process may use `own` CPUs.
pub(crate) fn threads_for(cpus: usize, own: usize) -> usize {
    (cpus / CPUS_PER_THREAD).min(own).max(1)
}

impl<I: Intake> Merging<I> {
    /// Merges on the capture thread, unless it is busy with the rings of many CPUs.
    pub(crate) fn new(intake: I, cpus: usize) -> Merging<I> {
        let own = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = match threads_for(cpus, own) {
            1 => Wanted::Never,
            _ => Wanted::Busy { now: false, ended: Nanos(0) },
        };
        let intake = Arc::new(Mutex::new(intake));
        Merging { intake, thread: None, load: None, wanted, failed: None }
    }

    /// Merges always on the merge thread, or never.
    pub(crate) fn force(&mut self, on_its_thread: bool) {
        self.wanted = if on_its_thread { Wanted::Always } else { Wanted::Never };
    }

    /// The rings, between rounds.
    pub(crate) fn intake(&self) -> MutexGuard<'_, I> {
        lock(&self.intake)
    }

    /// The id of the merge thread and how it spent its time; `None` before its first merge.
    pub(crate) fn load(&self) -> Option<(ThreadId, ThreadTimes)> {
        self.load
    }

    /// The reason why records are missing; returned only once.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// The same as [`Intake::round`].
    pub(crate) fn round(&mut self, to: &mut impl Receive<I::Item>) -> bool {
        let began = clock::now();
        let shares = match self.wanted {
            Wanted::Never => false,
            Wanted::Busy { now, .. } => now,
            Wanted::Always => true,
        };
        if shares && self.thread.is_none() {
            // If the thread cannot be started, this thread does its work; the next round tries again.
            self.thread = MergeThread::start(&self.intake).ok();
        }
        let all = match self.thread.as_mut().filter(|_| shares) {
            None => lock(&self.intake).round(to),
            Some(thread) => {
                let mut handed = Handed::since(lock(&self.intake).emitted());
                match thread.round(&mut handed, to) {
                    Some(End { all, thread, times }) => {
                        self.load = Some((thread, times));
                        all
                    }
                    None => {
                        const WHY: &str = "the merge thread panicked; the events in it are lost";
                        self.failed.get_or_insert_with(|| io::Error::other(WHY));
                        self.wanted = Wanted::Never;
                        true
                    }
                }
            }
        };
        if let Wanted::Busy { now, ended } = &mut self.wanted {
            let end = clock::now();
            let took = end.0.saturating_sub(began.0);
            let between = began.0.saturating_sub(ended.0);
            // With two threads, the same work takes less time.
            let share = if *now { 2 } else { 1 };
            (*now, *ended) = (took.saturating_mul(share) >= between, end);
        }
        all
    }
}

impl<I: Intake> Drop for Merging<I> {
    fn drop(&mut self) {
        if let Some(MergeThread { rounds, runs, spare, thread, .. }) = self.thread.take() {
            drop((rounds, runs, spare));
            // A thread that panicked has already reported that.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
