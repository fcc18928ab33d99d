//! Where threads were in their code: from the kernel's samples to records.
//!
//! ```text
//!   thread fxtrec-stacks    samples --> the code they are in --> Told --+       at the end: names of functions
//!                                       (/proc, ELF files)              |
//!   capture thread          events ... events ... events ...     records, once the events are as late as the sample
//! ```
//!
//! In recordings that are kept in parts, functions are named as they are met, since a part may have to be written at any time.
//!
//! The thread that looks processes up may wait for the file system, so it is a thread of its own. The capture thread only
//! takes what is ready, once in a round.

mod collector;
mod images;
mod lives;
mod made;
pub mod perfetto;
mod rings;
mod unwind;
mod write;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use fxt_writer::lanes::Lanes;

use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use collector::{Collector, Told};
use fxtrec_kernel::bpf::stacks::Wanted;
use fxtrec_kernel::stack_source::StackSource;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_units::Nanos;
use rings::{Hurry, Rings};
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
    /// Samples that Perfetto is not told of: there was no room to keep them.
    pub not_in_perfetto: u64,
}

/// What becomes of a recording: how its stacks are explained depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is one file.
    Whole,
    /// It is divided into files, of which each explains its stacks.
    InPieces,
    /// The newest part of it is kept, and written when somebody asks.
    Newest,
}

/// The stacks of a recording.
#[derive(Debug)]
pub struct Stacks {
    told: Receiver<Told>,
    /// What was taken from there and is too early.
    early: VecDeque<Told>,
    /// Which waits the thread has told, by when they began.
    handled: Arc<AtomicU64>,
    ask: Sender<()>,
    hurry: Hurry,
    stop: StopToken,
    thread: Option<JoinHandle<Counts>>,
    /// Whether [`Stacks::look_ahead`] was asked, and is not answered.
    looks_ahead: bool,
    /// As they were told last.
    counts: Counts,
    records: Records,
}

impl Stacks {
    /// Starts the thread that reads `source`, whose program runs, for a recording that begins at `begin`, and names functions if `symbols` says so.
    ///
    /// # Errors
    /// When a thread or an eventfd cannot be had.
    pub fn start(
        source: StackSource,
        wanted: Wanted,
        symbols: bool,
        (kept, begin): (Kept, Nanos),
    ) -> io::Result<Stacks> {
        let stop = StopToken::new()?;
        let (to, told) = bounded(WAITING);
        let (ask, asked) = unbounded();
        let handled = Arc::new(AtomicU64::new(u64::MAX));
        let in_parts = (asked, kept != Kept::Whole);
        let rings = Rings::new(source)?;
        let hurry = rings.hurry();
        let collector = Collector::new(rings, (wanted, symbols), to, in_parts, handled.clone());
        let token = stop.clone();
        let thread = std::thread::Builder::new()
            .name("fxtrec-stacks".to_owned())
            .spawn(move || collector.run(&token))?;
        Ok(Stacks {
            told,
            early: VecDeque::new(),
            handled,
            ask,
            hurry,
            stop,
            thread: Some(thread),
            looks_ahead: false,
            counts: Counts::default(),
            records: Records::new(kept, begin),
        })
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
        // The answer does not wait for what is too early.
        while self.looks_ahead {
            match self.told.try_recv() {
                Ok(Told::Settled(_)) | Err(TryRecvError::Disconnected) => self.looks_ahead = false,
                Ok(told) => self.early.push_back(told),
                Err(TryRecvError::Empty) => break,
            }
        }
        loop {
            let told = match self.early.pop_front() {
                Some(told) => told,
                None => match self.told.try_recv() {
                    Ok(told) => told,
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
                },
            };
            if told.until() > ended {
                self.early.push_front(told);
                return Ok(());
            }
            self.records.write(encoder, &told)?;
        }
    }

    /// Writes all that is known of waits that ended until `ended`, and waits for that.
    fn settle<L: Lanes>(&mut self, encoder: &mut Encoder<L>, ended: Nanos) -> Result<(), Closed> {
        let mut early = std::mem::take(&mut self.early);
        // Without a thread, everything has been told.
        let asked = self.thread.is_some() && self.ask.send(()).is_ok();
        self.hurry.up();
        while let Some(told) = early.pop_front().or_else(|| asked.then(|| self.told.recv().ok())?) {
            match told {
                Told::Settled(counts) => {
                    self.counts = counts;
                    break;
                }
                told if told.until() > ended => self.early.push_back(told),
                // Whose it is stands before it, and is early itself.
                Told::Symbol { program, .. } if !self.records.knows(program) => {
                    self.early.push_back(told);
                }
                told => self.records.write(encoder, &told)?,
            }
        }
        self.early.extend(early);
        Ok(())
    }

    /// Asks for all that there is by now, for [`Stacks::round`] to write: to be called before [`Stacks::end_piece`], which waits for what is left.
    /// Functions of large files may take seconds to be named.
    pub fn look_ahead(&mut self) {
        self.looks_ahead = self.thread.is_some() && self.ask.send(()).is_ok();
        self.hurry.up();
    }

    /// Whether that is not all told.
    pub fn is_looking_ahead(&self) -> bool {
        self.looks_ahead
    }

    /// Ends a file of a recording that is divided: what comes later is for the next one.
    ///
    /// # Errors
    /// [`Closed`] when the trace takes no more records.
    pub fn end_piece<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
    ) -> Result<(), Closed> {
        self.settle(encoder, ended)?;
        let counts = self.records.counted(self.counts);
        self.records.end_file(encoder, ended, &counts)
    }

    /// Forgets what only explains stacks from before `since`, which may have been written somewhat later.
    pub fn forget_before(&mut self, since: Nanos) {
        self.records.forget_before(self.known_since(since));
    }

    /// What explains the stacks that are kept, to stand behind them: modules, names, what became of stacks, and all of it for Perfetto.
    ///
    /// # Errors
    /// [`Closed`] when the trace takes no more records.
    pub fn explain<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
    ) -> Result<Vec<u8>, Closed> {
        self.settle(encoder, ended)?;
        self.records.explained(encoder.recorder(), ended, &self.records.counted(self.counts))
    }

    /// Since when threads that have ended must be remembered, for stacks that are told later: see
    /// [`Encoder::forget_departed`].
    pub fn known_since(&self, ended: Nanos) -> Nanos {
        const MEMORY: u64 = 2_000_000_000;
        let handled = self.handled.load(Ordering::Relaxed);
        Nanos(ended.0.min(handled).saturating_sub(MEMORY))
    }

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
        self.hurry.up_for_good();
        let early = std::mem::take(&mut self.early);
        for told in early.into_iter().chain(self.told.iter()) {
            self.records.write(encoder, &told)?;
        }
        self.counts = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let counts = self.records.counted(self.counts);
        if !self.records.keeps_newest() {
            self.records.end_file(encoder, ended, &counts)?;
        }
        Ok(counts)
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
