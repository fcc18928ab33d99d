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
//! An output may have a size limit. The thread that passes on events ends it early enough. The records that explain its stacks are last,
//! and are the only part that may be left out: [`Explanation`].

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use fxt_writer::engine::Engine;
use fxt_writer::packet::Packet;

use super::memory::Refuse;
use super::{Sink, SinkError, Totals};
use fxtrec_kernel::notify::{self, Notice};
use fxtrec_kernel::priority;
use fxtrec_kernel::thread_times::{ThreadClock, ThreadTimes};

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
    /// everything that it handed over before is saved.
    Turn(Sender<()>),
    /// Write this at the end of the output.
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

/// The size of the data that is kept for the next output until it is open, in bytes. Beyond this, the engine must wait for its buffers.
const MOST_EARLY_BYTES: usize = 64 << 20;

/// Records for the next output that arrived before it was open.
#[derive(Debug, Default)]
struct Early {
    requests: Vec<EarlyRequest>,
    bytes: usize,
}

#[derive(Debug)]
enum EarlyRequest {
    /// A copy: the engine has its buffer again.
    Copied(Vec<u8>),
    /// There was no space for a copy.
    Waiting(Packet),
}

impl Early {
    /// Copies the data to save for one packet; returns false if the data must wait in the engine.
    fn copy(&mut self, engine: &Engine, packet: Packet) -> bool {
        let Ok(view) = engine.view(packet) else { return true };
        let bytes = view.bytes();
        let waits = |request: &EarlyRequest| matches!(request, EarlyRequest::Waiting(_));
        // In order: no data precedes data that waits.
        if self.bytes + bytes > MOST_EARLY_BYTES || self.requests.last().is_some_and(waits) {
            self.requests.push(EarlyRequest::Waiting(packet));
            return false;
        }
        let mut copied = Vec::with_capacity(bytes);
        view.slices().for_each(|slice| copied.extend_from_slice(slice));
        self.keep(copied);
        true
    }

    fn keep(&mut self, records: Vec<u8>) {
        self.bytes += records.len();
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

/// Bytes that the drain thread has written to the output, for the progress display, and how it spent its time.
#[derive(Debug, Default)]
pub struct Written {
    earlier: AtomicU64,
    piece: AtomicU64,
    /// Records in the current output whose compressed size is not known yet.
    held: AtomicU64,
    /// The size of the last explanation, in bytes of the output, and its estimate.
    explained: Mutex<Option<(u64, u64)>>,
    /// The data that is missing in all outputs.
    left_out: Mutex<LeftOut>,
    effort: Mutex<Effort>,
}

/// How the drain thread spent its time, up to the last buffer that it returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    pub times: ThreadTimes,
    /// How long it was writing the output, on a CPU or not.
    pub saving: Duration,
}

impl Written {
    /// Bytes so far, in all outputs.
    pub fn bytes(&self) -> u64 {
        self.earlier.load(Ordering::Relaxed) + self.piece_bytes()
    }

    /// Bytes so far in the current output.
    pub fn piece_bytes(&self) -> u64 {
        self.piece.load(Ordering::Relaxed)
    }

    /// The maximum size of the current output, including data that is still in a compressor.
    pub fn piece_bytes_at_most(&self) -> u64 {
        self.piece_bytes() + self.held.load(Ordering::Relaxed)
    }

    /// The size of the last explanation, in bytes of the output, and its estimate.
    pub fn explained(&self) -> Option<(u64, u64)> {
        *self.explained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data that is missing in all outputs because of their size limit.
    pub fn left_out(&self) -> LeftOut {
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, explained: (u64, u64), lacks: LeftOut) {
        *self.explained.lock().unwrap_or_else(PoisonError::into_inner) = Some(explained);
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.names += lacks.names;
        left_out.stacks += lacks.stacks;
    }

    /// How the drain thread spent its time.
    pub fn effort(&self) -> Effort {
        *self.effort.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_effort(&self, times: ThreadTimes, saving: Duration) {
        let mut effort = self.effort.lock().unwrap_or_else(PoisonError::into_inner);
        effort.times = times;
        effort.saving += saving;
    }

    fn update(&self, earlier: Totals, piece: &dyn Sink) {
        self.earlier.store(earlier.output_bytes, Ordering::Relaxed);
        // In this order, a concurrent reader may see a piece as larger than it is, but never as smaller.
        self.held.fetch_max(piece.held(), Ordering::Relaxed);
        self.piece.store(piece.totals().output_bytes, Ordering::Relaxed);
        self.held.store(piece.held(), Ordering::Relaxed);
    }
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
            early: None,
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
                    written.update(drain.earlier, &*drain.sink);
                    if is_done {
                        give_back(&engine, packet);
                    }
                }
                Ok(Request::Write(records)) => match &mut drain.early {
                    Some(early) => early.keep(records),
                    None => drain.write(&records),
                },
                Ok(Request::Turn(told)) => {
                    drain.early = Some(Early::default());
                    // The requester may have ended.
                    let _ = told.send(());
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
                    drain.write_early(&engine);
                    drain.explain();
                    break;
                }
            }
            drain.flush_when_due();
            written.update(drain.earlier, &*drain.sink);
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
    /// Data for the next output, while the current output is being ended.
    early: Option<Early>,
    /// The size that an output must not exceed.
    limit: Option<u64>,
    /// The records for the end of the output.
    explanation: Option<Explanation>,
    /// The data that is missing in the output.
    left_out: LeftOut,
    written: Arc<Written>,
}

impl<F: FnOnce()> Drain<F> {
    /// Whether the engine may have the buffer again.
    fn save(&mut self, engine: &Engine, packet: Packet) -> bool {
        if let Some(early) = &mut self.early {
            return early.copy(engine, packet);
        }
        let written = write_view(engine, packet, &mut *self.sink);
        self.note(written);
        self.unflushed = true;
        true
    }

    /// Writes the data that was kept for this output.
    fn write_early(&mut self, engine: &Engine) {
        for request in self.early.take().unwrap_or_default().requests {
            match request {
                EarlyRequest::Copied(records) => self.write(&records),
                EarlyRequest::Waiting(packet) => {
                    self.save(engine, packet);
                    give_back(engine, packet);
                }
            }
        }
    }

    fn write(&mut self, records: &[u8]) {
        let written = self.sink.write(records);
        self.note(written);
        self.unflushed = true;
    }

    /// Writes the records that explain stacks, while there is space.
    fn explain(&mut self) {
        let Some(Explanation { parts, estimate }) = self.explanation.take() else { return };
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
        let NextPiece { tail, open, head, done } = next;
        self.explain();
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
        // This happens before the capture thread asks how large this output is.
        self.written.update(self.earlier, &*self.sink);
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
mod tests {
    use fxt_writer::engine::{Config, Mode, OnFull};
    use fxt_writer::record::{Initialization, Record};

    use super::super::{BlackHole, Memory, Unsaved};
    use super::*;

    fn record(ticks_per_second: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Initialization { ticks_per_second }.write(&mut bytes).expect("memory");
        bytes
    }

    fn engine(sender: crossbeam_channel::Sender<Request>) -> Arc<Engine> {
        let config = Config {
            mode: Mode::Streaming,
            bytes: 4096,
            on_full: OnFull::Block,
            ..Config::default()
        };
        Engine::new(config, move |packet| {
            let _ = sender.send(Request::Save(packet));
        })
        .expect("enough memory")
    }

    /// Writes many times the size of the engine, and ends.
    fn fill(engine: &Engine, sender: &crossbeam_channel::Sender<Request>, records: u64) {
        for ticks_per_second in 1..=records {
            let record = Initialization { ticks_per_second };
            record.write(&mut engine.rolling()).expect("a blocking engine takes it");
        }
        for packet in engine.finish() {
            sender.send(Request::Save(packet)).expect("the drain runs");
        }
        sender.send(Request::End).expect("the drain runs");
    }

    #[test]
    fn everything_written_reaches_the_sink_in_order() {
        let (sender, requests) = crossbeam_channel::unbounded();
        let engine = engine(sender.clone());
        let written = Arc::new(Written::default());
        let memory = Memory::default();
        let sink = Box::new(memory.clone());
        let thread = spawn(engine.clone(), requests, (sink, None), written.clone(), || {
            panic!("memory does not fail")
        })
        .expect("a thread");
        fill(&engine, &sender, 10_000);
        let drained = thread.join().expect("the drain ends");
        assert!(drained.result.is_ok());
        let bytes = memory.bytes();
        let seen: Vec<u64> = bytes
            .chunks(16)
            .map(|record| u64::from_ne_bytes(record[8..].try_into().expect("eight bytes")))
            .collect();
        assert_eq!(seen, (1..=10_000).collect::<Vec<u64>>());
        assert_eq!(written.bytes(), 160_000);
    }

    #[derive(Debug)]
    struct Broken(BlackHole);

    impl Sink for Broken {
        fn write(&mut self, _: &[u8]) -> Result<(), SinkError> {
            Err(SinkError::AlreadyFailed)
        }
        fn flush_point(&mut self) -> Result<(), SinkError> {
            Ok(())
        }
        fn totals(&self) -> Totals {
            self.0.totals()
        }
        fn finish(&mut self) -> Result<Totals, SinkError> {
            Err(SinkError::AlreadyFailed)
        }
    }

    #[test]
    fn a_sink_that_fails_is_reported_once_and_nothing_waits() {
        let (sender, requests) = crossbeam_channel::unbounded();
        let engine = engine(sender.clone());
        let (told, tellings) = crossbeam_channel::unbounded();
        let sink = Box::new(Broken(BlackHole::default()));
        let thread = spawn(engine.clone(), requests, (sink, None), Arc::default(), move || {
            told.send(()).expect("the test listens");
        })
        .expect("a thread");
        fill(&engine, &sender, 10_000);
        assert!(thread.join().expect("the drain ends").result.is_err());
        assert_eq!(tellings.len(), 1);
    }

    #[test]
    fn an_output_ends_with_its_tail_and_the_next_begins_with_its_head() {
        let (sender, requests) = crossbeam_channel::unbounded();
        let engine = engine(sender.clone());
        let (first, second) = (Memory::default(), Memory::default());
        let sink = Box::new(first.clone());
        let written = Arc::new(Written::default());
        let thread = spawn(engine, requests, (sink, None), written.clone(), || panic!("memory"))
            .expect("a thread");
        sender.send(Request::Write(vec![1; 8])).expect("the drain runs");
        let (done, turned) = crossbeam_channel::bounded(1);
        let (next, complete) = (second.clone(), crossbeam_channel::unbounded());
        let told = complete.0;
        let piece = NextPiece {
            tail: Box::new(|bytes, _| vec![bytes as u8; 16]),
            open: Box::new(move |totals| {
                told.send(totals.record_bytes).expect("the test listens");
                Ok(Box::new(next))
            }),
            head: vec![3; 8],
            done,
        };
        sender.send(Request::NextPiece(Box::new(piece))).expect("the drain runs");
        turned.recv().expect("it is done");
        sender.send(Request::Write(vec![4; 8])).expect("the drain runs");
        sender.send(Request::End).expect("the drain runs");
        let drained = thread.join().expect("the drain ends");
        assert!(drained.result.is_ok());
        assert_eq!(first.bytes(), [vec![1; 8], vec![8; 16]].concat());
        assert_eq!(second.bytes(), [vec![3; 8], vec![4; 8]].concat());
        assert_eq!((complete.1.recv(), drained.earlier.record_bytes), (Ok(24), 24));
        assert_eq!((written.piece_bytes(), written.bytes()), (16, 40));
    }

    /// The numbers in records of [`fill`]'s kind.
    fn numbers(bytes: &[u8]) -> Vec<u64> {
        let number = |record: &[u8]| u64::from_ne_bytes(record[8..].try_into().expect("8 bytes"));
        bytes.chunks(16).map(number).collect()
    }

    #[test]
    fn the_engine_goes_on_while_an_output_waits_for_its_end_and_the_next_has_all_of_it() {
        let (sender, requests) = crossbeam_channel::unbounded();
        let engine = engine(sender.clone());
        let (first, second) = (Memory::default(), Memory::default());
        let sink = Box::new(first.clone());
        spawn(engine.clone(), requests, (sink, None), Arc::default(), || panic!("memory"))
            .expect("one");
        let write = |numbers: std::ops::Range<u64>| {
            for ticks_per_second in numbers {
                let record = Initialization { ticks_per_second };
                record.write(&mut engine.rolling()).expect("a blocking engine takes it");
            }
        };
        write(1..1000);
        for packet in engine.finish() {
            sender.send(Request::Save(packet)).expect("the drain runs");
        }
        let (reached, is_reached) = crossbeam_channel::bounded(1);
        sender.send(Request::Turn(reached)).expect("the drain runs");
        is_reached.recv().expect("all before is saved");
        engine.start(fxt_writer::engine::BufferDisposition::Retain).expect("both buffers are free");
        // Many times the size of the engine: if buffers were not released, this would wait forever.
        write(1000..5000);
        let (written, _kept) = crossbeam_channel::bounded(1);
        let piece = Request::Piece { records: record(77), written };
        sender.send(piece).expect("the drain runs");
        let (done, turned) = crossbeam_channel::bounded(1);
        let next = second.clone();
        let next = NextPiece {
            tail: Box::new(|_, _| record(88)),
            open: Box::new(move |_| Ok(Box::new(next))),
            head: record(99),
            done,
        };
        sender.send(Request::NextPiece(Box::new(next))).expect("the drain runs");
        turned.recv().expect("it is done");
        write(5000..6000);
        for packet in engine.finish() {
            sender.send(Request::Save(packet)).expect("the drain runs");
        }
        let (reached, is_reached) = crossbeam_channel::bounded(1);
        sender.send(Request::Turn(reached)).expect("the drain runs");
        is_reached.recv().expect("all before is saved");
        let of_first: Vec<u64> = (1..1000).chain([77, 88]).collect();
        assert_eq!(numbers(&first.bytes()), of_first);
        let of_second: Vec<u64> = std::iter::once(99).chain(1000..6000).collect();
        assert_eq!(numbers(&second.bytes()), of_second);
    }

    #[test]
    fn what_explains_an_output_is_left_out_where_it_does_not_fit() {
        const LIMIT: u64 = 4096;
        let (sender, requests) = crossbeam_channel::unbounded();
        let engine = engine(sender.clone());
        let (first, second) = (Memory::default(), Memory::default());
        let written = Arc::new(Written::default());
        let sink = (Box::new(first.clone()) as Box<dyn Sink>, Some(LIMIT));
        let thread =
            spawn(engine, requests, sink, written.clone(), || panic!("memory")).expect("a thread");
        let part = |bytes: usize, names, stacks| Part { records: vec![7; bytes], names, stacks };
        let explain = || {
            let parts = vec![part(1024, 3, 0), part(4096, 0, 5), part(512, 0, 2)];
            sender.send(Request::Explain(Explanation { parts, estimate: 9 })).expect("it runs");
        };
        sender.send(Request::Write(vec![1; 2048])).expect("the drain runs");
        explain();
        let (done, turned) = crossbeam_channel::bounded(1);
        let (told, lacks) = crossbeam_channel::unbounded();
        let next = second.clone();
        let piece = NextPiece {
            tail: Box::new(move |_, left_out| {
                told.send(left_out).expect("the test listens");
                vec![2; 8]
            }),
            open: Box::new(move |_| Ok(Box::new(next))),
            head: vec![3; 8],
            done,
        };
        sender.send(Request::NextPiece(Box::new(piece))).expect("the drain runs");
        turned.recv().expect("it is done");
        assert_eq!(lacks.recv(), Ok(LeftOut { names: 0, stacks: 5 }));
        assert_eq!(first.bytes().len(), 2048 + 1024 + 512 + 8);
        assert_eq!(written.explained(), Some((1536, 9)));
        // The last output has the same size.
        sender.send(Request::Write(vec![1; 3800])).expect("the drain runs");
        explain();
        sender.send(Request::End).expect("the drain runs");
        let drained = thread.join().expect("the drain ends");
        assert_eq!(drained.left_out, LeftOut { names: 3, stacks: 7 });
        assert_eq!(second.bytes().len(), 8 + 3800);
        assert_eq!(written.left_out(), LeftOut { names: 3, stacks: 12 });
    }

    #[test]
    fn what_is_too_much_to_be_kept_waits_in_the_engine_and_keeps_its_order() {
        let engine = engine(crossbeam_channel::unbounded().0);
        let mut early = Early { bytes: MOST_EARLY_BYTES, ..Early::default() };
        Initialization { ticks_per_second: 1 }.write(&mut engine.rolling()).expect("room");
        let packets = engine.finish();
        assert_eq!(packets.len(), 1);
        assert!(!early.copy(&engine, packets[0]), "the buffer stays with the drain");
        early.bytes = 0;
        assert!(!early.copy(&engine, packets[0]), "and what comes after it as well");
        let memory = Memory::default();
        let mut drain = Drain {
            sink: Box::new(memory.clone()),
            earlier: Totals::default(),
            result: Ok(()),
            failed: Some(|| panic!("memory does not fail")),
            flushed: Instant::now(),
            unflushed: false,
            early: Some(Early { requests: vec![early.requests.remove(0)], bytes: 0 }),
            limit: None,
            explanation: None,
            left_out: LeftOut::default(),
            written: Arc::default(),
        };
        drain.write_early(&engine);
        assert_eq!(numbers(&memory.bytes()), [1]);
        assert!(engine.saved(packets[0].buffer_saved()).is_err(), "it was given back");
    }

    #[test]
    fn an_output_that_cannot_be_opened_ends_the_writing_and_nobody_waits() {
        let (sender, requests) = crossbeam_channel::unbounded();
        let engine = engine(sender.clone());
        let (told, tellings) = crossbeam_channel::unbounded();
        let thread = spawn(
            engine,
            requests,
            (Box::new(Memory::default()), None),
            Arc::default(),
            move || {
                told.send(()).expect("the test listens");
            },
        )
        .expect("a thread");
        let (done, turned) = crossbeam_channel::bounded(1);
        let piece = NextPiece {
            tail: Box::new(|_, _| Vec::new()),
            open: Box::new(|_| Err(SinkError::NoReader { name: "next".to_owned() })),
            head: record(1),
            done,
        };
        sender.send(Request::NextPiece(Box::new(piece))).expect("the drain runs");
        turned.recv().expect("it is done");
        sender.send(Request::Write([record(2), record(3)].concat())).expect("the drain runs");
        sender.send(Request::End).expect("the drain runs");
        let drained = thread.join().expect("the drain ends");
        assert_eq!(drained.result, Err(SinkError::NoReader { name: "next".to_owned() }));
        assert_eq!(drained.sink.unsaved(), Unsaved { records: 3, bytes: 48 });
        assert_eq!(tellings.len(), 1);
    }
}
