//! The drain thread: writes the engine's buffers to the sink.
//!
//! ```text
//!   engine --SAVE_BUFFER--> channel --> drain: durable part, rolling part --> sink
//!      ^                                  |
//!      +---------BUFFER_SAVED-------------+
//! ```
//!
//! When the sink fails, buffers are still accepted and released, so that no thread waits forever; their contents are not saved.
//!
//! An output that ends may need more than the engine's records, such as the records that applications have in their buffers at that time.
//! The engine does not wait for that: buffers that it hands over in the meantime belong to the next output, and are kept here until that
//! output is open.
//!
//! ```text
//!   requests    Save a | Turn | Piece p | Save b | Piece q | NextPiece | Save c
//!   one output       a              p                  q   tail |
//!   kept here                               b ................. |
//!   the next                                                    head b   c
//! ```
//!
//! If the next output is full before it is open, it ends in the same way: a second `Turn` comes before the first `NextPiece`, and the data
//! of each output is kept separately.
//!
//! An output may have a size limit. The thread that passes on events ends it early enough. The records that explain its stacks are last,
//! and are the only part that may be left out: [`Explanation`].

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use fxt_writer::engine::Engine;
use fxt_writer::packet::Packet;

use super::memory::Refuse;
use super::{Sink, SinkError, Totals};
use fxtrec_kernel::notify::{self, Notice};
use fxtrec_kernel::priority;
use fxtrec_kernel::thread_times::ThreadClock;

mod written;

pub use written::{Effort, Written};

/// How often a compressor ends a block, so that its data can be read. See the sum in `commands::record::pace`.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(150);

/// A request to the drain thread.
#[derive(Debug)]
pub enum Request {
    /// Save the buffer that this packet names.
    Save(Packet),
    Write(Vec<u8>),
    /// Write these records, and report when their memory is free again.
    Piece {
        records: Vec<u8>,
        /// Signalled when they are written, or dropped.
        written: Sender<()>,
    },
    /// Buffers that the engine hands over from now on belong to the next output, which [`Request::NextPiece`] will open. Signalled when
    /// everything that it handed over before is saved or copied.
    Turn(Sender<()>),
    /// Write this at the end of the last output.
    Explain(Explanation),
    /// End the output, and continue in another.
    NextPiece(Box<NextPiece>),
    /// There are no more requests.
    End,
}

/// The records that explain the stacks of an output. If the output has a size limit, records beyond it are left out.
#[derive(Debug, Default)]
pub struct Explanation {
    /// The most important part first.
    pub parts: Vec<Part>,
    /// An estimate of its size, in any unit, from which the size of the next output is estimated.
    pub estimate: u64,
}

/// A part of an [`Explanation`]: whole records.
#[derive(Debug, Default)]
pub struct Part {
    pub records: Vec<u8>,
    /// How many names it has, or modules and mappings.
    pub names: u64,
    /// How many stacks it has for Perfetto.
    pub stacks: u64,
}

/// The records that were left out of an output because there was no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub names: u64,
    pub stacks: u64,
}

/// Creates the last records of an output, given the size of the records before them and the losses so far.
pub type Tail = Box<dyn FnOnce(u64, LeftOut) -> Vec<u8> + Send>;

/// The space that is reserved for the last records of an output of limited size, in bytes; less in a small output.
pub const TAIL_BYTES: u64 = 64 * 1024;

/// The part of a limit that [`TAIL_BYTES`] may take.
const TAIL_PART: u64 = 16;

/// The space for the last records of an output of this size.
pub fn tail_room(limit: u64) -> u64 {
    TAIL_BYTES.min(limit / TAIL_PART)
}

/// Near the end of an output of limited size, a compressor ends a block after this many bytes, so that the size is known.
const KNOWN_SIZE_BYTES: u64 = 1 << 20;

/// Opens the next output, when the current one has reached this size.
pub type OpenNext = Box<dyn FnOnce(Totals) -> Result<Box<dyn Sink>, SinkError> + Send>;

/// The end of one output and the beginning of the next.
pub struct NextPiece {
    /// The records at the end of the old output that explain its stacks.
    pub explanation: Option<Explanation>,
    /// The last records of the old output.
    pub tail: Tail,
    pub open: OpenNext,
    /// The first records of the new output.
    pub head: Vec<u8>,
    /// Signalled when this is done, or has failed.
    pub done: Sender<()>,
}

impl fmt::Debug for NextPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextPiece").finish_non_exhaustive()
    }
}

/// The size of the data that is kept for outputs that are not open yet, in bytes. Beyond this, the engine must wait for its buffers.
pub const MOST_EARLY_BYTES: u64 = 64 << 20;

/// Records for the next outputs, which arrived before these were open.
#[derive(Debug, Default)]
struct Early {
    /// The output that opens next is first.
    outputs: VecDeque<EarlyOutput>,
    /// Bytes of copies.
    bytes: u64,
}

/// Records for one output that is not open yet.
#[derive(Debug, Default)]
struct EarlyOutput {
    requests: Vec<EarlyRequest>,
    bytes: u64,
}

#[derive(Debug)]
enum EarlyRequest {
    /// A copy: the engine has its buffer again.
    Copied(Vec<u8>),
    /// There was no room for a copy.
    Waiting(Packet),
}

impl Early {
    /// Whether a packet has to wait, so that no later data may be copied before it.
    fn has_waiting(&self) -> bool {
        let waits = |request: &EarlyRequest| matches!(request, EarlyRequest::Waiting(_));
        self.outputs.iter().rev().find_map(|output| output.requests.last()).is_some_and(waits)
    }
}

impl EarlyOutput {
    fn keep(&mut self, records: Vec<u8>) {
        self.bytes += records.len() as u64;
        self.requests.push(EarlyRequest::Copied(records));
    }
}

/// Writes the data to save for one packet. A sink that fails counts the rest of it.
fn write_view(engine: &Engine, packet: Packet, sink: &mut dyn Sink) -> Result<(), SinkError> {
    let Ok(view) = engine.view(packet) else { return Ok(()) };
    let mut result = Ok(());
    for slice in view.slices().filter(|slice| !slice.is_empty()) {
        let written = sink.write(slice);
        result = result.and(written);
    }
    result
}

/// Gives the buffer back to the engine.
fn give_back(engine: &Engine, packet: Packet) {
    // Only requests of the engine may be answered; this is one.
    let answered = engine.saved(packet.buffer_saved());
    debug_assert!(answered.is_ok(), "{answered:?}");
}

/// The state when the drain thread has ended.
#[derive(Debug)]
pub struct Drained {
    /// The sink, to which an end may be added.
    pub sink: Box<dyn Sink>,
    /// The totals of earlier outputs.
    pub earlier: Totals,
    /// The data that the output lacks.
    pub left_out: LeftOut,
    /// The first error, if any.
    pub result: Result<(), SinkError>,
}

/// Starts the drain thread, for outputs of at most `limit` bytes each, if there is a limit. `failed` is called once, when the sink fails.
///
/// # Errors
/// Returns an error when no thread can be started.
pub fn spawn(
    engine: Arc<Engine>,
    requests: Receiver<Request>,
    (sink, limit): (Box<dyn Sink>, Option<u64>),
    written: Arc<Written>,
    failed: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<Drained>> {
    std::thread::Builder::new().name("fxtrec-drain".to_owned()).spawn(move || {
        // If this thread were late, the capture thread would wait for it, and the rings would fill up.
        priority::raise();
        let clock = ThreadClock::of_this_thread();
        let mut drain = Drain {
            sink,
            earlier: Totals::default(),
            result: Ok(()),
            failed: Some(failed),
            flushed: Instant::now(),
            unflushed: false,
            early: Early::default(),
            limit,
            explanation: None,
            left_out: LeftOut::default(),
            written: written.clone(),
        };
        let mut pulse = Pulse { every: notify::watchdog(), last: None };
        loop {
            pulse.beat();
            let wait = drain.until_flush().into_iter().chain(pulse.until_due()).min();
            let request = match wait {
                Some(wait) => requests.recv_timeout(wait),
                None => requests.recv().map_err(Into::into),
            };
            match request {
                Ok(Request::Save(packet)) => {
                    let begun = Instant::now();
                    let is_done = drain.save(&engine, packet);
                    // This happens before the thread that waits for the buffer may continue and ask.
                    written.add_effort(clock.read(), begun.elapsed());
                    written.update(drain.earlier, &*drain.sink, &drain.early);
                    if is_done {
                        give_back(&engine, packet);
                    }
                }
                Ok(Request::Write(records)) => drain.write_or_keep(records),
                Ok(Request::Turn(reached)) => {
                    drain.early.outputs.push_back(EarlyOutput::default());
                    written.turn();
                    // The requester may have ended.
                    let _ = reached.send(());
                }
                Ok(Request::Piece { records, written }) => {
                    drain.write(&records);
                    // The requester may have ended.
                    drop(records);
                    let _ = written.send(());
                }
                Ok(Request::Explain(explanation)) => drain.explanation = Some(explanation),
                Ok(Request::NextPiece(next)) => drain = drain.turn(&engine, *next),
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
                Ok(Request::End) | Err(crossbeam_channel::RecvTimeoutError::Disconnected) => {
                    // There is no next output.
                    while drain.write_early(&engine) {}
                    let explanation = drain.explanation.take();
                    drain.explain(explanation);
                    break;
                }
            }
            drain.flush_when_due();
            written.update(drain.earlier, &*drain.sink, &drain.early);
        }
        let Drain { sink, earlier, left_out, result, .. } = drain;
        Drained { sink, earlier, left_out, result }
    })
}

/// The watchdog message that systemd's `WatchdogSec=` requires. It stops when the output accepts no more data.
struct Pulse {
    every: Option<Duration>,
    last: Option<Instant>,
}

impl Pulse {
    fn until_due(&self) -> Option<Duration> {
        let last = self.last.map_or(Duration::MAX, |last| last.elapsed());
        self.every.map(|every| every.saturating_sub(last))
    }

    fn beat(&mut self) {
        if self.until_due() == Some(Duration::ZERO) {
            self.last = Some(Instant::now());
            // Otherwise, the service manager restarts the service.
            let _ = notify::tell(&Notice::Alive);
        }
    }
}

struct Drain<F> {
    sink: Box<dyn Sink>,
    /// The totals of earlier outputs.
    earlier: Totals,
    result: Result<(), SinkError>,
    failed: Option<F>,
    flushed: Instant,
    unflushed: bool,
    /// While the output is being ended: data for the next ones.
    early: Early,
    /// The size that an output must not exceed.
    limit: Option<u64>,
    /// The records for the end of the last output.
    explanation: Option<Explanation>,
    /// The data that is missing in the output.
    left_out: LeftOut,
    written: Arc<Written>,
}

impl<F: FnOnce()> Drain<F> {
    /// Whether the engine may have the buffer again.
    fn save(&mut self, engine: &Engine, packet: Packet) -> bool {
        if self.early.outputs.is_empty() {
            self.write_packet(engine, packet);
            return true;
        }
        let Ok(view) = engine.view(packet) else { return true };
        let bytes = view.bytes() as u64;
        // In order: no data precedes data that waits.
        let waits = self.early.bytes + bytes > MOST_EARLY_BYTES || self.early.has_waiting();
        let Some(output) = self.early.outputs.back_mut() else { return true };
        if waits {
            output.requests.push(EarlyRequest::Waiting(packet));
            output.bytes += bytes;
            return false;
        }
        let mut copied = Vec::with_capacity(view.bytes());
        view.slices().for_each(|slice| copied.extend_from_slice(slice));
        output.keep(copied);
        self.early.bytes += bytes;
        true
    }

    fn write_packet(&mut self, engine: &Engine, packet: Packet) {
        let written = write_view(engine, packet, &mut *self.sink);
        self.note(written);
        self.unflushed = true;
    }

    fn write_or_keep(&mut self, records: Vec<u8>) {
        match self.early.outputs.back_mut() {
            Some(output) => {
                self.early.bytes += records.len() as u64;
                output.keep(records);
            }
            None => self.write(&records),
        }
    }

    /// Writes the data that was kept for this output; returns false if there was no such output.
    fn write_early(&mut self, engine: &Engine) -> bool {
        let Some(output) = self.early.outputs.pop_front() else { return false };
        for request in output.requests {
            match request {
                EarlyRequest::Copied(records) => {
                    self.early.bytes -= records.len() as u64;
                    self.write(&records);
                }
                EarlyRequest::Waiting(packet) => {
                    self.write_packet(engine, packet);
                    give_back(engine, packet);
                }
            }
        }
        true
    }

    fn write(&mut self, records: &[u8]) {
        let written = self.sink.write(records);
        self.note(written);
        self.unflushed = true;
    }

    /// Writes the records that explain stacks, while there is space.
    fn explain(&mut self, explanation: Option<Explanation>) {
        let Some(Explanation { parts, estimate }) = explanation else { return };
        self.flush();
        let before = self.sink.totals().output_bytes;
        for Part { records, names, stacks } in parts {
            let has_room = self.limit.is_none_or(|limit| {
                let bytes = records.len() as u64 + tail_room(limit);
                let fits =
                    |sink: &dyn Sink| sink.totals().output_bytes + sink.held() + bytes <= limit;
                if !fits(&*self.sink) {
                    self.flush();
                }
                fits(&*self.sink)
            });
            match has_room {
                true => self.write(&records),
                false => {
                    self.left_out.names += names;
                    self.left_out.stacks += stacks;
                }
            }
        }
        self.flush();
        let taken = self.sink.totals().output_bytes.saturating_sub(before);
        self.written.explain((taken, estimate), self.left_out);
    }

    /// Ends the output and begins the next. If either fails, no more data is written to any of them.
    fn turn(mut self, engine: &Engine, next: NextPiece) -> Drain<F> {
        let NextPiece { explanation, tail, open, head, done } = next;
        self.explain(explanation);
        let left_out = std::mem::take(&mut self.left_out);
        self.write(&tail(self.sink.totals().record_bytes, left_out));
        let before = self.sink.totals();
        let finished = self.sink.finish();
        let totals = *finished.as_ref().unwrap_or(&before);
        let unsaved = self.sink.unsaved();
        self.earlier.record_bytes += totals.record_bytes;
        self.earlier.output_bytes += totals.output_bytes;
        let opened = finished.and_then(open);
        match opened {
            Ok(sink) => {
                self.sink = sink;
                self.write(&head);
            }
            Err(error) => {
                self.note(Err(error));
                self.sink = Box::new(Refuse(unsaved));
                self.write(&head);
            }
        }
        (self.flushed, self.unflushed) = (Instant::now(), true);
        self.write_early(engine);
        // This precedes the moment at which the capture thread asks how large this output is.
        self.written.update(self.earlier, &*self.sink, &self.early);
        // The requester may have ended.
        let _ = done.send(());
        self
    }

    /// How long the compressor may keep its data.
    fn until_flush(&self) -> Option<Duration> {
        self.unflushed.then(|| FLUSH_INTERVAL.saturating_sub(self.flushed.elapsed()))
    }

    fn flush_when_due(&mut self) {
        let is_late = self.flushed.elapsed() >= FLUSH_INTERVAL;
        let is_unknown = self.limit.is_some() && self.sink.held() >= KNOWN_SIZE_BYTES;
        if self.unflushed && (is_late || is_unknown) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.unflushed = false;
        self.flushed = Instant::now();
        let flushed = self.sink.flush_point();
        self.note(flushed);
    }

    fn note(&mut self, result: Result<(), SinkError>) {
        if let Err(error) = result
            && self.result.is_ok()
        {
            self.result = Err(error);
            if let Some(failed) = self.failed.take() {
                failed();
            }
        }
    }
}

#[cfg(test)]
mod tests;
