//! The output of a session: an unbounded queue of records, and a thread that writes them.
//!
//! ```text
//!  manager's thread --+
//!                     +--> queue (memory, then a file) --> fxtrec-output --> process --> the client's descriptor
//!  kernel's recorder -+                                         |
//!                                                               +--> the session is aborted when that fails
//! ```
//!
//! Pieces are whole records, so when the queue is empty, the output ends at a record boundary. Appending never waits, neither for a slow
//! reader nor for one that has exited. A [process](super::writer) that can be killed writes to the client's descriptor, and a piece counts
//! as written once that process confirms it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use super::spool::Spool;
use super::writer::{Destination, Writer, Wrote};
use fxtrec_units::text::bytes;

/// After the session has ended, a reader that reads nothing for this time gets no more data.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often to check whether the session has ended while a reader reads nothing.
const LOOK: Duration = Duration::from_millis(200);

/// Called with the reason when no more data can be written.
pub(super) type OnFailure = Box<dyn FnOnce(String) + Send>;

/// The queue and its state.
struct State {
    spool: Spool,
    /// Whether new records wait until they are released.
    defers: bool,
    deferred: bool,
    /// There are no more records.
    closed: bool,
    /// The size of the piece that is being written.
    writing: Option<usize>,
    /// Everything was written, and the output is closed.
    finished: bool,
    /// The bytes appended so far.
    total: u64,
    failed: Option<String>,
    /// The callback for a failure, until it has been called.
    on_failure: Option<OnFailure>,
}

impl State {
    /// Whether there is still data to write, or the output to close.
    fn is_busy(&self) -> bool {
        let unwritten = self.writing.is_some() || self.spool.bytes() > 0;
        self.failed.is_none() && (unwritten || (self.closed && !self.finished))
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    is_file: bool,
    path: Option<PathBuf>,
}

/// The output to the client's descriptor. Clones share it.
#[derive(Clone)]
pub(super) struct Output(Arc<Shared>);

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

impl Output {
    /// Starts the thread. With `deferred`, nothing is written before [`Output::release`] or [`Output::close`].
    ///
    /// # Errors
    /// Returns an error when no thread can be started.
    pub(super) fn start(
        writer: Writer,
        destination: Destination,
        spool: Spool,
        deferred: bool,
        on_failure: OnFailure,
    ) -> io::Result<Output> {
        let state = State {
            spool,
            defers: deferred,
            deferred,
            closed: false,
            writing: None,
            finished: false,
            total: 0,
            failed: None,
            on_failure: Some(on_failure),
        };
        let Destination { is_file, path } = destination;
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), is_file, path });
        let output = Output(shared.clone());
        let thread = std::thread::Builder::new().name("fxtrec-output".to_owned());
        thread.spawn(move || Output(shared).run(writer))?;
        Ok(output)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in another thread leaves the queue valid.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of the output file at the time it was passed; `None` if it is not a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Appends whole records. After a failure, and after the end, they are dropped.
    pub(super) fn push(&self, records: Vec<u8>) {
        let mut state = self.lock();
        if records.is_empty() || state.closed || state.failed.is_some() {
            return;
        }
        state.total += records.len() as u64;
        if let Err(error) = state.spool.push(records) {
            return self.fail(state, format!("cannot store the data to be written: {error}"));
        }
        self.0.changed.notify_all();
    }

    /// Starts to write the queue's content. Once the queue is empty, later records wait for the next call.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        state.deferred = state.defers && state.writing.is_none() && state.spool.bytes() == 0;
        self.0.changed.notify_all();
    }

    /// Ends the output: the descriptor is closed when everything is written.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        (state.defers, state.deferred) = (false, false);
        // Its session has ended, so there is nothing to abort.
        state.on_failure = None;
        self.0.changed.notify_all();
    }

    /// The bytes that were appended so far.
    pub(super) fn total(&self) -> u64 {
        self.lock().total
    }

    /// The reason, if no more data can be written.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failed.clone()
    }

    /// For a regular file: waits until everything is written, at most for `timeout`, and returns which part is missing, if any. Does not
    /// wait for a pipe, whose reader may start only after the answer that this would delay.
    pub(super) fn settle(&self, timeout: Duration) -> Option<String> {
        let state = self.lock();
        if !self.0.is_file || state.deferred {
            return None;
        }
        let state = self.wait_until_empty(state, timeout);
        let left = state.spool.bytes() + state.writing.unwrap_or(0) as u64;
        state.is_busy().then(|| {
            format!(
                "{} are missing from the file: its file system did not accept them within {} s",
                bytes(left),
                timeout.as_secs()
            )
        })
    }

    fn wait_until_empty<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        timeout: Duration,
    ) -> MutexGuard<'a, State> {
        let until = Instant::now() + timeout;
        while state.is_busy() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    fn run(&self, mut writer: Writer) {
        while let Some(piece) = self.next() {
            let written = match piece {
                Ok(piece) => self.write(&mut writer, &piece),
                Err(error) => Err(format!("cannot read the stored data back: {error}")),
            };
            let mut state = self.lock();
            state.writing = None;
            state.deferred = state.defers && state.spool.bytes() == 0;
            if let Err(reason) = written {
                return self.fail(state, reason);
            }
            self.0.changed.notify_all();
        }
        if self.lock().failed.is_some() {
            return;
        }
        let finished = self.finish(&mut writer);
        let mut state = self.lock();
        state.finished = true;
        if let Err(reason) = finished {
            return self.fail(state, reason);
        }
        self.0.changed.notify_all();
    }

    /// The next piece; `None` at the end.
    fn next(&self) -> Option<io::Result<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if !state.deferred {
                if let Some(piece) = state.spool.pop().transpose() {
                    state.writing = Some(piece.as_ref().map_or(0, Vec::len));
                    return Some(piece);
                }
                if state.closed {
                    return None;
                }
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes a piece; returns when it has reached the client's descriptor.
    fn write(&self, writer: &mut Writer, mut rest: &[u8]) -> Result<(), String> {
        let mut least = u64::MAX;
        let mut idle_since = Instant::now();
        loop {
            let mut taken = false;
            if !rest.is_empty()
                && let Wrote::Bytes(count) = writer.write(rest)?
            {
                (rest, taken) = (&rest[count..], true);
            }
            let left = writer.unwritten()? + rest.len() as u64;
            if left == 0 {
                return Ok(());
            }
            if left < least {
                (least, idle_since) = (left, Instant::now());
            }
            if self.lock().closed && idle_since.elapsed() > PATIENCE {
                return Err("the reader stopped reading".to_owned());
            }
            if !taken {
                let waited = writer.attend(!rest.is_empty(), LOOK);
                waited.map_err(|error| format!("poll: {error}"))?;
            }
        }
    }

    fn finish(&self, writer: &mut Writer) -> Result<(), String> {
        let begun = Instant::now();
        while !writer.finish()? {
            if begun.elapsed() > PATIENCE {
                return Err("its file system does not complete the close".to_owned());
            }
            writer.attend(false, LOOK).map_err(|error| format!("poll: {error}"))?;
        }
        Ok(())
    }

    fn fail(&self, mut state: MutexGuard<'_, State>, reason: String) {
        state.failed = Some(reason.clone());
        state.spool.clear();
        let tell = state.on_failure.take();
        self.0.changed.notify_all();
        drop(state);
        if let Some(tell) = tell {
            // In a separate thread, because the callback may append, or wait for this thread.
            let thread = std::thread::Builder::new().name("fxtrec-abort".to_owned());
            // Without a thread, the session continues and reports the failure when it is stopped.
            drop(thread.spawn(move || tell(reason)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, pipe};

    use super::*;

    fn spool() -> Spool {
        Spool::new(std::env::temp_dir(), 1 << 20)
    }

    fn to(output: impl Into<std::os::fd::OwnedFd>) -> (Writer, Destination) {
        let mut writer = Writer::to(output);
        let destination = writer.choose(0).expect("it is fine");
        (writer, destination)
    }

    fn no_callback() -> OnFailure {
        Box::new(|_| {})
    }

    #[test]
    fn a_reader_that_takes_its_time_blocks_no_thread_and_gets_everything() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let (writer, destination) = to(writer);
        let output =
            Output::start(writer, destination, spool(), false, no_callback()).expect("a thread");
        // Far more than a pipe holds, appended before anything is read.
        for number in 0..10_u8 {
            output.push(vec![number; 100_000]);
        }
        output.settle(Duration::from_secs(3600));
        output.close();
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("bytes");
        assert_eq!(all.len(), 1_000_000);
        assert!(all.is_sorted());
        assert_eq!((output.total(), output.failure()), (1_000_000, None));
    }

    #[test]
    fn a_reader_that_goes_is_reported_once() {
        let (reader, writer) = pipe().expect("a pipe");
        let (writer, destination) = to(writer);
        drop(reader);
        let (tell, reported) = crossbeam_channel::bounded(2);
        let on_failure = Box::new(move |reason| tell.send(reason).expect("heard"));
        let output =
            Output::start(writer, destination, spool(), false, on_failure).expect("a thread");
        output.push(vec![1]);
        output.push(vec![2]);
        assert_eq!(reported.recv().expect("told"), "the reader of the output closed it");
        assert!(reported.recv().is_err(), "and not again");
        assert!(output.failure().is_some());
    }

    #[test]
    fn what_is_deferred_is_written_when_it_is_released_and_at_the_end() {
        let file = tempfile::tempfile().expect("a file");
        let mut look = file.try_clone().expect("a copy");
        let (writer, destination) = to(file);
        let output =
            Output::start(writer, destination, spool(), true, no_callback()).expect("a thread");
        let mut length = || look.seek(io::SeekFrom::End(0)).expect("a length");
        output.push(vec![0; 10]);
        output.settle(Duration::from_secs(3600));
        assert_eq!(length(), 0);
        output.release();
        output.settle(Duration::from_secs(3600));
        assert_eq!(length(), 10);
        output.push(vec![0; 5]);
        output.settle(Duration::from_secs(3600));
        assert_eq!(length(), 10);
        output.close();
        output.settle(Duration::from_secs(3600));
        assert_eq!(length(), 15);
    }

    #[test]
    fn what_finds_no_room_is_a_failure() {
        let (_reader, writer) = pipe().expect("a pipe");
        let (writer, destination) = to(writer);
        let output =
            Output::start(writer, destination, spool(), true, no_callback()).expect("a thread");
        output.push(vec![0; (1 << 20) + 1]);
        assert!(output.failure().expect("failed").contains("cannot store the data"));
    }
}
