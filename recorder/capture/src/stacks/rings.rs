//! The kernel's rings of samples, which are emptied in time also while files are read.
//!
//! ```text
//!   fxtrec-stacks    take ... take ... a large file is read ......................... take
//!   fxtrec-rings          (nothing to do)          empty       empty       empty
//!   the rings        ###--                    ###--   ###--       ###--       ###--
//!   kept here                                 |       ||||        |||||||     ||||||||||-----
//! ```
//!
//! What is kept is bounded: beyond that it stays in the rings, and what these have no room for is lost, and counted there.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use fxtrec_kernel::bpf::stacks::{Missing, Sample, SampleKind, UserStack};
use fxtrec_kernel::clock;
use fxtrec_kernel::priority;
use fxtrec_kernel::ring::RawRecord;
use fxtrec_kernel::stack_source::StackSource;
use fxtrec_units::Nanos;

/// How long nobody may have read the rings before the other thread does. They have room for some tenths of a second.
const LATE: Duration = Duration::from_millis(50);

/// How much is kept, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// A record of the code of a process: see [`RawRecord`].
#[derive(Debug)]
struct CodeRecord {
    kind: u32,
    misc: u16,
    body: Box<[u8]>,
}

/// What was in the rings.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) samples: Vec<Sample>,
    /// What looked like samples and was none.
    pub(super) garbled: u64,
    /// Before the code records were read: all that were written until then are among them.
    pub(super) until: Nanos,
    code: Vec<CodeRecord>,
}

impl Read {
    pub(super) fn code(&self) -> impl Iterator<Item = RawRecord<'_>> {
        self.code.iter().map(|it| RawRecord { kind: it.kind, misc: it.misc, body: &it.body })
    }
}

#[derive(Debug)]
struct State {
    source: StackSource,
    kept: Read,
    /// Of the samples that are kept.
    bytes: usize,
    /// When the rings were read last.
    read: Instant,
}

impl State {
    fn read(&mut self) {
        let State { source, kept, bytes, .. } = self;
        if *bytes < MOST_BYTES {
            source.read(|sample| match sample {
                Some(sample) => {
                    *bytes += bytes_of(&sample);
                    kept.samples.push(sample);
                }
                None => kept.garbled += 1,
            });
        }
        // After the samples: a function is mapped before it is called.
        kept.until = clock::now();
        source.read_code(|RawRecord { kind, misc, body }| {
            kept.code.push(CodeRecord { kind, misc, body: body.into() });
        });
        self.read = Instant::now();
    }
}

fn bytes_of(sample: &Sample) -> usize {
    let of_program = match &sample.user {
        UserStack::Walked(walked) => walked.top.len() + size_of_val(&walked.frames[..]),
        _ => 0,
    };
    size_of::<Sample>() + of_program + sample.kernel.as_ref().map_or(0, |it| size_of_val(&it[..]))
}

/// What is read of samples and of code.
#[derive(Debug)]
pub(super) struct Rings {
    state: Arc<Mutex<State>>,
    /// The other thread ends when this is dropped.
    _other: Sender<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Whoever panicked left at most a sample out.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rings {
    /// Starts the thread that empties the rings when nobody else does.
    ///
    /// # Errors
    /// When there cannot be a thread.
    pub(super) fn new(source: StackSource) -> io::Result<Rings> {
        let kept = Read { samples: Vec::new(), garbled: 0, until: Nanos(0), code: Vec::new() };
        let state = State { source, kept, bytes: 0, read: Instant::now() };
        let state = Arc::new(Mutex::new(state));
        let (other, ended) = bounded::<()>(0);
        let shared = state.clone();
        std::thread::Builder::new().name("fxtrec-rings".to_owned()).spawn(move || {
            priority::raise();
            while ended.recv_timeout(LATE) == Err(RecvTimeoutError::Timeout) {
                let mut state = lock(&shared);
                if state.read.elapsed() >= LATE {
                    state.read();
                }
            }
        })?;
        Ok(Rings { state, _other: other })
    }

    /// All that there is by now.
    pub(super) fn take(&self) -> Read {
        let mut state = lock(&self.state);
        state.read();
        state.bytes = 0;
        let until = state.kept.until;
        let empty = Read { samples: Vec::new(), garbled: 0, until, code: Vec::new() };
        std::mem::replace(&mut state.kept, empty)
    }

    /// See [`StackSource::user_stack`].
    pub(super) fn user_stack(&self, number: u32) -> Option<Vec<u64>> {
        lock(&self.state).source.user_stack(number)
    }

    /// See [`StackSource::has_own_stacks`].
    pub(super) fn has_own_stacks(&self) -> bool {
        lock(&self.state).source.has_own_stacks()
    }

    /// See [`StackSource::is_own_stack`].
    pub(super) fn is_own_stack(&self, kind: SampleKind) -> bool {
        lock(&self.state).source.is_own_stack(kind)
    }

    pub(super) fn missing(&self) -> Missing {
        lock(&self.state).source.missing()
    }

    /// See [`StackSource::detach`].
    pub(super) fn detach(&self) {
        lock(&self.state).source.detach();
    }
}
