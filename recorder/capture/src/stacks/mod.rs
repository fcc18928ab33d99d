//! Where threads were in their code: from the kernel's samples to records.
//!
//! ```text
//!   thread fxtrec-stacks    samples --> the code they are in --> Told --+       at the end: names of functions
//!                                       (/proc, ELF files)              |
//!   capture thread          events ... events ... events ...     records, once the events are as late as the sample
//! ```
//!
//! The thread that looks processes up may wait for the file system, so it is a thread of its own. The capture thread only
//! takes what is ready, once in a round.

mod collector;
mod images;
mod lives;
mod unwind;
mod write;

use std::io;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use fxt_writer::lanes::Lanes;

use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use collector::{Collector, Told};
use fxtrec_kernel::bpf::stacks::{BlockedStacks, Wanted};
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_units::Nanos;
use write::Records;

/// How much may wait for the capture thread. What comes then is counted as lost.
const WAITING: usize = 16 * 1024;

/// What became of the stacks, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Backtraces that were written.
    pub written: u64,
    pub kernel_unreadable: u64,
    pub kernel_too_deep: u64,
    pub user_unreadable: u64,
    pub user_too_deep: u64,
    pub user_no_room: u64,
    pub user_cut: u64,
    pub user_unproved: u64,
    /// Samples that were lost, since a buffer was full.
    pub lost: u64,
    /// Switches that the kernel's program did not see.
    pub unseen: u64,
    /// Waits that are not known, since two threads had the same place in the kernel's table.
    pub given_up: u64,
    /// Samples of threads that nobody knows any more.
    pub unknown_threads: u64,
    /// Processes that could not be looked into, most often because they had ended.
    pub unknown_processes: u64,
    /// Records of code as it was loaded, or of processes, that were lost.
    pub lost_mappings: u64,
    /// Functions that were given a name.
    pub symbols: u64,
}

/// The stacks of a recording.
#[derive(Debug)]
pub struct Stacks {
    told: Receiver<Told>,
    /// What was taken from there and is too early.
    next: Option<Told>,
    stop: StopToken,
    thread: Option<JoinHandle<Counts>>,
    records: Records,
}

impl Stacks {
    /// Starts the thread that reads `source`, whose program runs.
    ///
    /// # Errors
    /// When a thread or an eventfd cannot be had.
    pub fn start(source: BlockedStacks, wanted: Wanted) -> io::Result<Stacks> {
        let stop = StopToken::new()?;
        let (to, told) = bounded(WAITING);
        let collector = Collector::new(source, to);
        let token = stop.clone();
        let thread = std::thread::Builder::new()
            .name("fxtrec-stacks".to_owned())
            .spawn(move || collector.run(&token))?;
        Ok(Stacks { told, next: None, stop, thread: Some(thread), records: Records::new(wanted) })
    }

    /// Writes what is known by now of waits that ended until `ended`.
    ///
    /// # Errors
    /// [`Closed`] when the trace takes no more records.
    pub fn round<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
    ) -> Result<(), Closed> {
        loop {
            let told = match self.next.take() {
                Some(told) => told,
                None => match self.told.try_recv() {
                    Ok(told) => told,
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
                },
            };
            if told.until() > ended {
                self.next = Some(told);
                return Ok(());
            }
            self.records.write(encoder, &told)?;
        }
    }

    /// How long threads that have ended must be remembered, for stacks that are told later: see
    /// [`Encoder::forget_departed`].
    pub const MEMORY: Nanos = Nanos(2_000_000_000);

    /// Ends the thread, and writes all that is left, and what became of it all.
    ///
    /// # Errors
    /// [`Closed`] when the trace takes no more records.
    pub fn finish<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
    ) -> Result<Counts, Closed> {
        self.stop.stop();
        let first = self.next.take();
        for told in first.into_iter().chain(self.told.iter()) {
            self.records.write(encoder, &told)?;
        }
        let counts = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let counts = self.records.counted(counts);
        self.records.write_counts(encoder, ended, &counts)?;
        Ok(counts)
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
