//! Where threads were in their code: from the kernel's samples to records.
//!
//! ```text
//!   thread fxtrec-stacks    samples --> the code they are in --> Told --+       at the end: names of functions
//!                                       (/proc, ELF files)              |
//!   capture thread          events ... events ... events ...     records, once the events are as late as the sample
//! ```
//!
//! In recordings with several files, functions are named when they first occur, because a file may have to be completed at any time.
//!
//! Looking up processes may block, so a separate thread does it. The capture thread only takes results that are ready, once per round.
//! Another process (`fxtrec-files`) reads files; it is abandoned if a file never answers: see [`files`].

mod collector;
mod files;
mod frames;
mod images;
mod jit_code;
mod mapping_history;
mod message;
mod naming;
pub mod perfetto;
mod places;
mod python;
mod reader;
mod rings;
mod unwind;
mod waited;
mod wire;
mod write;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use fxt_writer::ThreadName;
use fxt_writer::lanes::Lanes;

use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use collector::Collector;
use fxtrec_kernel::bpf::stacks::Wanted;
use fxtrec_kernel::memory;
use fxtrec_kernel::stack_source::StackSource;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::symbols::KernelSymbols;
use fxtrec_sched::backtrace::problem;
use fxtrec_sink::drain::Explanation;
use fxtrec_units::Nanos;
use message::Message;
pub use reader::{NAME as READER_PROCESS, run as run_reader_process};
use rings::{DrainBoost, Rings};
use write::Records;

/// Default time limit for naming functions when a file ends.
pub const NAMING: Duration = Duration::from_secs(5);

/// How much may wait for the capture thread. Anything beyond that is counted as lost.
const WAITING: usize = 4 * 1024;

/// Counts of stacks by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Backtraces written.
    pub written: u64,
    pub kernel_unreadable: u64,
    pub kernel_too_deep: u64,
    pub user_unreadable: u64,
    pub user_too_deep: u64,
    pub user_no_room: u64,
    pub user_cut: u64,
    pub user_unproved: u64,
    /// Stacks that lack Python functions, or have them misplaced.
    pub python: u64,
    /// Programs with a Python interpreter of an unknown version.
    pub unknown_pythons: u64,
    /// Samples that were lost because a buffer was full.
    pub lost: u64,
    /// Switches that the kernel's program did not see.
    pub unseen: u64,
    /// Waits that are unknown because two threads had the same slot in the kernel's table.
    pub given_up: u64,
    /// Samples of threads that are no longer known.
    pub unknown_threads: u64,
    /// Processes that could not be inspected, usually because they had exited.
    pub unknown_processes: u64,
    /// Lost records of loaded code or of processes.
    pub lost_mappings: u64,
    /// Files that were not read, because their file systems did not respond or reading took too much, and the addresses that lack a name
    /// for this reason.
    pub unanswered_files: u64,
    pub unanswered_addresses: u64,
    /// Processes of earlier recordings that wait for such files, if no file was read for that reason.
    pub left_readers: u64,
    /// Functions that were named.
    pub symbols: u64,
    /// Frames without a name, for lack of time or room.
    pub unnamed: u64,
    /// Frames without a name in code that programs generated: no perf map has them, or there was no room for their names.
    pub unnamed_generated: u64,
    /// Samples that are not written for Perfetto, for lack of room.
    pub not_in_perfetto: u64,
}

impl Counts {
    /// Counts the missing parts of a written stack.
    fn note(&mut self, problems: u32) {
        for (bit, count) in [
            (problem::KERNEL_UNREADABLE, &mut self.kernel_unreadable),
            (problem::KERNEL_TOO_DEEP, &mut self.kernel_too_deep),
            (problem::USER_UNREADABLE, &mut self.user_unreadable),
            (problem::USER_TOO_DEEP, &mut self.user_too_deep),
            (problem::USER_NO_ROOM, &mut self.user_no_room),
            (problem::USER_CUT, &mut self.user_cut),
            (problem::USER_UNPROVED, &mut self.user_unproved),
            (problem::PYTHON, &mut self.python),
        ] {
            *count += u64::from(problems & bit != 0);
        }
    }
}

/// The kind of output, which determines how stacks are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A single file.
    Whole,
    /// Several files, each of which explains its own stacks.
    InPieces,
    /// Only the newest part is kept, and it is written on request.
    Newest,
}

/// Progress of looking up the frames that the end of a file waits for.
#[derive(Clone, Debug, Default)]
pub struct Named(Arc<Naming>);

#[derive(Debug, Default)]
struct Naming {
    done: AtomicU64,
    all: AtomicU64,
    is_cut: AtomicBool,
    /// Like `is_cut`, but only until the next request.
    is_cut_short: AtomicBool,
}

impl Named {
    /// The number of frames done, and of all frames.
    pub fn done(&self) -> (u64, u64) {
        (self.0.done.load(Ordering::Relaxed), self.0.all.load(Ordering::Relaxed))
    }

    /// At the end, remaining stacks are lost, and functions get no more names: the user does not want to wait.
    pub fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        self.0.is_cut.load(Ordering::Relaxed)
    }

    fn cut_short(&self, is_cut_short: bool) {
        self.0.is_cut_short.store(is_cut_short, Ordering::Relaxed);
    }

    fn is_over(&self, until: Instant) -> bool {
        self.is_cut() || self.0.is_cut_short.load(Ordering::Relaxed) || Instant::now() >= until
    }

    fn begin(&self, all: usize) {
        self.0.done.store(0, Ordering::Relaxed);
        self.0.all.store(all as u64, Ordering::Relaxed);
    }

    fn add(&self, frames: usize) {
        self.0.done.fetch_add(frames as u64, Ordering::Relaxed);
    }
}

/// The stacks of a recording.
#[derive(Debug)]
pub struct Stacks {
    messages: Receiver<Message>,
    /// Messages from the thread that arrived too early to be written.
    early: VecDeque<Message>,
    /// The waits that the thread has sent, by when they began.
    handled: Arc<AtomicU64>,
    ask: Sender<()>,
    boost: DrainBoost,
    stop: StopToken,
    thread: Option<JoinHandle<Counts>>,
    /// Whether [`Stacks::look_ahead`] was requested and is not answered yet.
    looks_ahead: bool,
    named: Named,
    /// The counts that were sent last.
    counts: Counts,
    records: Records,
}

impl Stacks {
    /// Starts the thread that reads `source`, whose program runs, for a recording that begins at `begin`; the thread names functions when a
    /// file ends, within the time limit in `symbols`.
    ///
    /// # Errors
    /// Returns an error when a thread or an eventfd cannot be created.
    pub fn start(
        source: StackSource,
        wanted: Wanted,
        symbols: Option<Duration>,
        kernel: Arc<KernelSymbols>,
        (kept, begin): (Kept, Nanos),
    ) -> io::Result<Stacks> {
        let stop = StopToken::new()?;
        let (to, messages) = bounded(WAITING);
        let (ask, asked) = unbounded();
        let handled = Arc::new(AtomicU64::new(u64::MAX));
        let in_parts = (asked, kept != Kept::Whole);
        let rings = Rings::new(source)?;
        let boost = rings.boost();
        let of_program = (wanted, symbols);
        let collector = Collector::new(rings, of_program, kernel, to, in_parts, handled.clone());
        let named = collector.named();
        let token = stop.clone();
        let thread = std::thread::Builder::new()
            .name("fxtrec-stacks".to_owned())
            .spawn(move || collector.run(&token))?;
        Ok(Stacks {
            messages,
            early: VecDeque::new(),
            handled,
            ask,
            boost,
            stop,
            thread: Some(thread),
            looks_ahead: false,
            named,
            counts: Counts::default(),
            records: Records::new(kept, begin),
        })
    }

    /// The progress of naming, when a file ends.
    pub fn named(&self) -> Named {
        self.named.clone()
    }

    /// Writes the known data about waits that ended until `ended`, up to `room` bytes. Returns whether that was enough.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub fn round<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
        mut room: u64,
    ) -> Result<bool, Closed> {
        // The function does not wait for data that is too early to be written.
        while self.looks_ahead {
            match self.messages.try_recv() {
                Ok(Message::Settled(_)) | Err(TryRecvError::Disconnected) => {
                    self.looks_ahead = false;
                }
                Ok(message) => self.early.push_back(message),
                Err(TryRecvError::Empty) => break,
            }
        }
        loop {
            let message = match self.early.pop_front() {
                Some(message) => message,
                None => match self.messages.try_recv() {
                    Ok(message) => message,
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(true),
                },
            };
            let is_early = message.until() > ended;
            if is_early || !takes(&mut room, &message) {
                self.early.push_front(message);
                return Ok(is_early);
            }
            self.records.write(encoder, &message)?;
        }
    }

    /// Writes everything about waits that ended until `ended`, and waits for it. Data that does not fit into `room` is left out.
    fn settle<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
        mut room: u64,
    ) -> Result<(), Closed> {
        let mut early = std::mem::take(&mut self.early);
        // Without a thread, all data has been sent.
        let asked = self.ask();
        while let Some(message) =
            early.pop_front().or_else(|| asked.then(|| self.messages.recv().ok())?)
        {
            match message {
                Message::Settled(counts) => {
                    self.counts = counts;
                    break;
                }
                message if message.until() > ended || !takes(&mut room, &message) => {
                    self.early.push_back(message);
                }
                // The process precedes it, and is early itself.
                Message::Symbol { program, .. } if !self.records.knows(program) => {
                    self.early.push_back(message);
                }
                message => self.records.write(encoder, &message)?,
            }
        }
        self.early.extend(early);
        Ok(())
    }

    fn ask(&mut self) -> bool {
        self.named.cut_short(false);
        let asked = self.thread.is_some() && self.ask.send(()).is_ok();
        self.boost.up();
        asked
    }

    /// Requests everything that is available, for [`Stacks::round`] to write. Call this before [`Stacks::end_piece`], which waits for the
    /// rest. Naming the functions of large files may take seconds.
    pub fn look_ahead(&mut self) {
        self.looks_ahead = self.ask();
    }

    /// Makes [`Stacks::look_ahead`] return early: functions whose files have not been read get no names.
    pub fn stop_looking_ahead(&self) {
        self.named.cut_short(true);
    }

    /// Whether [`Stacks::look_ahead`] was called and is not answered yet.
    pub fn is_looking_ahead(&self) -> bool {
        self.looks_ahead
    }

    /// An estimate of what [`Stacks::end_piece`] will return, in the same form.
    pub fn estimate(&self) -> u64 {
        self.records.estimate()
    }

    /// Ends a file of a divided recording: later data is for the next file, and so is data that is not known yet if
    /// [`Stacks::is_looking_ahead`] or there is no `room` for it. Returns the records for the end of the file.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub fn end_piece<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
        room: u64,
    ) -> Result<Explanation, Closed> {
        if self.looks_ahead {
            self.round(encoder, ended, room)?;
        } else {
            self.settle(encoder, ended, room)?;
        }
        let counts = self.records.counted(self.counts);
        self.records.end_piece(encoder.recorder(), ended, &counts)
    }

    /// Drops data that only explains stacks from before `since`, which may have been written somewhat later.
    pub fn forget_before(&mut self, since: Nanos) {
        self.records.forget_before(self.known_since(since));
    }

    /// Writes everything about waits that ended until `ended`, for [`Stacks::explain`].
    ///
    /// # Errors
    /// [`Closed`] when the trace accepts no more records.
    pub fn write_all<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
    ) -> Result<(), Closed> {
        self.settle(encoder, ended, u64::MAX)
    }

    /// Passes on everything that explains the kept stacks, to be written after them: modules, names, counts of stacks, and all of it for
    /// Perfetto. It may have 40 MB, so `put` gets pieces of whole records.
    ///
    /// # Errors
    /// [`Closed`] if the format cannot express a record.
    pub fn explain(
        &mut self,
        recorder: ThreadName,
        ended: Nanos,
        put: impl FnMut(Vec<u8>),
    ) -> Result<(), Closed> {
        self.records.explained(recorder, ended, &self.records.counted(self.counts), put)
    }

    /// The time from which ended threads must be remembered, for stacks that are sent later: see [`Encoder::forget_departed`].
    pub fn known_since(&self, ended: Nanos) -> Nanos {
        const MEMORY: u64 = 2_000_000_000;
        let handled = self.handled.load(Ordering::Relaxed);
        Nanos(ended.0.min(handled).saturating_sub(MEMORY))
    }

    /// Ends the thread, and writes the remaining data and the counts. In a divided recording, returns the records for the end of its
    /// last file.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub fn finish<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
    ) -> Result<(Counts, Explanation), Closed> {
        // Nothing waits for the end of the last file.
        self.named.cut_short(false);
        self.stop.stop();
        self.boost.raise_permanently();
        let early = std::mem::take(&mut self.early);
        for message in early.into_iter().chain(self.messages.iter()) {
            self.records.write(encoder, &message)?;
        }
        self.counts = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        // Otherwise, released data is kept for later, together with the data that is generated for Perfetto now.
        memory::trim();
        let counts = self.records.counted(self.counts);
        let explanation = match self.records.kept() {
            Kept::Whole => {
                self.records.end_whole(encoder, ended, &counts)?;
                Explanation::default()
            }
            Kept::InPieces => self.records.end_piece(encoder.recorder(), ended, &counts)?,
            Kept::Newest => Explanation::default(),
        };
        Ok((counts, explanation))
    }
}

/// Subtracts a message from `room`; returns false if it is too large. In the trace, a stack takes its frames and a few words, and the same
/// again at the end of the file.
fn takes(room: &mut u64, message: &Message) -> bool {
    const WORDS: usize = 8;
    let words = match message {
        Message::Stack { frames, .. } => 2 * (frames.len() + WORDS),
        Message::Code { modules, mappings, .. } => 2 * WORDS * (modules.len() + mappings.len()),
        // An event with all arguments, of which the longest is a path of two names.
        Message::Waited { .. } => 6 * WORDS,
        Message::Symbol { .. } | Message::Over { .. } | Message::Settled(_) => 0,
    };
    let left = room.checked_sub((words * size_of::<u64>()) as u64);
    *room = left.unwrap_or(0);
    left.is_some()
}

impl Drop for Stacks {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

#[cfg(test)]
mod tests {
    use fxtrec_kernel::bpf::stacks::{KERNEL_FRAMES, USER_FRAMES};

    use super::*;

    const MIB: usize = 1 << 20;

    /// The size of hash tables for this many entries: they have one more byte per entry, are never completely full, and exist twice while
    /// they grow.
    fn hashed<T>(entries: usize) -> usize {
        (entries * 8 / 7).next_power_of_two() * (size_of::<T>() + 1) * 3 / 2
    }

    #[test]
    fn all_bounds_together_are_below_what_is_promised() {
        let frame = size_of::<(usize, u64, bool)>();
        let parts = [
            // They are mapped twice in a row, and resident twice.
            ("ring of samples", 2 * 16 * MIB),
            ("rings and queues of the scheduler's events, four CPUs", 4 * (7 * MIB - MIB / 2)),
            ("program, its stacks, buffer of the trace", 16 * MIB),
            ("samples that wait", rings::MOST_BYTES),
            ("stacks for the capture thread", WAITING * 8 * (KERNEL_FRAMES + USER_FRAMES + 8)),
            ("records of code that wait", rings::MOST_CODE),
            ("mappings", mapping_history::MOST * mapping_history::UNIT),
            ("mappings of programs with stacks", collector::MOST_FOUND),
            ("tables", images::MOST_TABLES),
            ("files", images::MOST_IMAGES * 512),
            ("frames", hashed::<((usize, u64), [u32; 2])>(frames::MOST_FRAMES)),
            // The lists of frames without names, and what is created when they get names.
            ("names that are looked for", frames::MOST_FRAMES * (16 + frame + 24) * 3 / 2),
            ("programs", collector::MOST_PROGRAMS * 1024),
            ("their mappings", collector::MOST_PLACED * 112),
            ("addresses in no file", hashed::<(usize, u64)>(collector::MOST_NOWHERE)),
            ("processes", hashed::<(u32, u16)>(collector::MOST_PROCESSES)),
            ("Python functions", python::MOST_BYTES),
            ("names of compiled functions", jit_code::MOST_MADE),
            ("facts for Perfetto", (write::MOST_FACTS + write::OVER_FACTS) * 96),
            ("samples for Perfetto", perfetto::MOST_SAMPLES * 48),
            ("stacks for Perfetto", perfetto::MOST_WORDS * 8),
            ("names of the kernel", 10 * MIB),
        ];
        let all: usize = parts.iter().map(|(_, bytes)| bytes).sum();
        let shown: Vec<String> =
            parts.iter().map(|(what, bytes)| format!("{what}: {} KiB", bytes / 1024)).collect();
        assert!(all <= 256 * MIB, "{} MiB: {shown:#?}", all / MIB);
    }
}
