//! The kernel's rings of samples, which are emptied in time even while files are read.
//!
//! ```text
//!   fxtrec-stacks    take ... take ... a large file is read ......................... take
//!   fxtrec-rings          (nothing to do)          empty       empty       empty
//!   the rings        ###--                    ###--   ###--       ###--       ###--
//!   kept here                                 |       ||||        |||||||     ||||||||||-----
//! ```
//!
//! The amount of kept data is limited: beyond that, samples stay in the rings; samples that do not fit into the rings are lost, and counted
//! there.
//!
//! Resolving samples takes milliseconds of CPU time that other threads may wait for. So `fxtrec-stacks` runs at low priority until it is
//! late: see [`Order`]. If it has used a tenth of a CPU within a second, it runs as an ordinary thread when it would otherwise have high
//! priority ([`Share`]), because the programs determine the amount of work, without a limit.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use fxtrec_kernel::bpf::stacks::{Missing, Python, Sample, SampleKind, UserStack};
use fxtrec_kernel::clock;
use fxtrec_kernel::priority::{self, ThreadId};
use fxtrec_kernel::ring::RawRecord;
use fxtrec_kernel::stack_source::StackSource;
use fxtrec_kernel::thread_times;
use fxtrec_units::{Nanos, Pid, Tid};

/// How long the rings may stay unread before the other thread reads them. They have room for some tenths of a second.
const LATE: Duration = Duration::from_millis(50);

/// How many bytes are kept, here and by the thread that processes them. Beyond that they stay in the rings; the contents of one more ring
/// may be added.
pub(super) const MOST_BYTES: usize = 8 << 20;

/// How many bytes of code records are kept. Anything beyond that is lost and counted.
pub(super) const MOST_CODE: usize = 8 << 20;

/// How late the thread that processes the data may be, or how many bytes of samples may wait, before it gets high priority.
const OVERDUE: Duration = Duration::from_millis(300);
const MANY_BYTES: usize = 3 << 20;

/// The CPU time that it may use within [`WINDOW`] and still get high priority.
const SMALL: Duration = Duration::from_millis(100);
const WINDOW: Duration = Duration::from_secs(1);

/// How much of a CPU a thread has used recently.
#[derive(Clone, Copy, Debug)]
struct Share {
    since: Instant,
    /// Its CPU time at `since`.
    before: Duration,
}

impl Share {
    /// Whether the share is large, for a thread that has run for `run` by `now`.
    fn is_large(&mut self, now: Instant, run: Duration) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Share { since: now, before: run };
        }
        run.saturating_sub(self.before) >= SMALL
    }
}

/// The thread that processes the data, and whether it has high or low priority.
///
/// There is no lock: a thread whose priority is lowered while it holds a lock would delay the others.
#[derive(Debug)]
struct Order {
    /// `None` if it is not permitted to change its priority.
    thread: OnceLock<ThreadId>,
    is_before: AtomicBool,
    /// Whether it keeps its high priority.
    is_fixed: AtomicBool,
    /// Whether it has used too much for high priority: then it gets ordinary priority instead.
    is_large: AtomicBool,
}

impl Order {
    /// Raises the priority; returns whether it was already high.
    fn raise(&self) -> bool {
        let Some(thread) = self.thread.get() else { return true };
        let was_before = self.is_before.swap(true, Ordering::SeqCst);
        if !was_before {
            self.put_before(*thread);
        }
        was_before
    }

    fn put_before(&self, thread: ThreadId) {
        match self.is_large.load(Ordering::SeqCst) {
            true => thread.be_ordinary(),
            false => drop(thread.raise()),
        }
    }

    /// Called by the thread itself, each time it may have used much.
    fn weigh(&self, is_large: bool) {
        if let Some(thread) = self.thread.get()
            && self.is_large.swap(is_large, Ordering::SeqCst) != is_large
            && self.is_before.load(Ordering::SeqCst)
        {
            self.put_before(*thread);
        }
    }

    /// Called by the thread itself.
    fn lower(&self) {
        if let Some(thread) = self.thread.get()
            && !self.is_fixed.load(Ordering::SeqCst)
            && self.is_before.swap(false, Ordering::SeqCst)
        {
            thread.be_background();
            // Another thread may have raised it in between.
            let is_raised = self.is_before.load(Ordering::SeqCst);
            if is_raised || self.is_fixed.load(Ordering::SeqCst) {
                self.put_before(*thread);
            }
        }
    }
}

/// A record of the code of a process: see [`RawRecord`].
#[derive(Debug)]
struct CodeRecord {
    kind: u32,
    misc: u16,
    body: Box<[u8]>,
}

/// The data read from the rings.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) samples: Vec<Sample>,
    /// Records that looked like samples but were malformed.
    pub(super) garbled: u64,
    /// The time just before the code records were read: all that were written until then are included.
    pub(super) until: Nanos,
    /// Whether to process this before the thread lowers its priority.
    pub(super) is_late: bool,
    code: Vec<CodeRecord>,
    /// Records of code for which there was no space.
    pub(super) lost_code: u64,
    /// Whether samples stay in the rings because there is no room for them.
    pub(super) is_full: bool,
}

impl Read {
    fn nothing(until: Nanos) -> Read {
        let (samples, code) = Default::default();
        Read { samples, garbled: 0, until, is_late: false, code, lost_code: 0, is_full: false }
    }
}

impl Read {
    /// Whether the rings were empty.
    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.code.is_empty() && self.garbled == 0
    }

    pub(super) fn code(&self) -> impl Iterator<Item = RawRecord<'_>> {
        self.code.iter().map(|it| RawRecord { kind: it.kind, misc: it.misc, body: &it.body })
    }
}

#[derive(Debug)]
struct State {
    source: StackSource,
    kept: Read,
    /// For samples that are kept here, and for those that were fetched but not processed yet.
    bytes: usize,
    /// For records of code that are kept.
    code_bytes: usize,
    /// When the rings were last read.
    read: Instant,
    /// When the data was last fetched.
    taken: Instant,
    order: Arc<Order>,
}

impl State {
    fn read(&mut self) {
        let State { source, kept, bytes, code_bytes, .. } = self;
        kept.is_full = *bytes >= MOST_BYTES;
        if !kept.is_full {
            source.read(|sample| match sample {
                Some(sample) => {
                    *bytes += bytes_of(&sample);
                    kept.samples.push(sample);
                }
                None => kept.garbled += 1,
            });
        }
        // After the samples, because a function is mapped before it is called.
        kept.until = clock::now();
        source.read_code(|RawRecord { kind, misc, body }| {
            let length = size_of::<CodeRecord>() + body.len();
            if *code_bytes + length > MOST_CODE {
                kept.lost_code += 1;
                return;
            }
            *code_bytes += length;
            kept.code.push(CodeRecord { kind, misc, body: body.into() });
        });
        self.read = Instant::now();
        if *bytes >= MANY_BYTES || self.taken.elapsed() >= OVERDUE {
            self.order.raise();
        }
    }
}

/// The size of a sample, in bytes.
pub(super) fn bytes_of(sample: &Sample) -> usize {
    let of_program = match &sample.user {
        UserStack::Walked(walked) => {
            walked.top.len() + size_of_val(&walked.frames[..]) + size_of_val(&walked.python[..])
        }
        _ => 0,
    };
    size_of::<Sample>() + of_program + sample.kernel.as_ref().map_or(0, |it| size_of_val(&it[..]))
}

/// Reads samples and records of code.
#[derive(Debug)]
pub(super) struct Rings {
    state: Arc<Mutex<State>>,
    order: Arc<Order>,
    share: Share,
    /// For waits, wakeups and clocks: see [`StackSource::is_own_stack`].
    own_stacks: [bool; 3],
    walks_python: bool,
    /// Dropping this ends the other thread.
    _other: Sender<()>,
}

/// Makes the other thread read the data soon.
#[derive(Clone, Debug)]
pub(super) struct DrainBoost(Arc<Order>);

impl DrainBoost {
    /// Raises the priority of the thread that processes it until it has caught up.
    pub(super) fn up(&self) {
        self.0.raise();
    }

    /// Raises its priority permanently.
    pub(super) fn raise_permanently(&self) {
        self.0.is_fixed.store(true, Ordering::SeqCst);
        self.0.raise();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A thread that panicked left out one sample at most.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rings {
    /// Starts the thread that empties the rings when no other thread does.
    ///
    /// # Errors
    /// Returns an error when the thread cannot be started.
    pub(super) fn new(source: StackSource) -> io::Result<Rings> {
        let kept = Read::nothing(Nanos(0));
        let kinds = [SampleKind::OffCpu, SampleKind::Wake(Tid(0)), SampleKind::Cpu];
        let own_stacks = kinds.map(|kind| source.is_own_stack(kind));
        let walks_python = source.walks_python();
        let now = Instant::now();
        let order = Arc::new(Order {
            thread: OnceLock::new(),
            is_before: AtomicBool::new(true),
            is_fixed: AtomicBool::new(false),
            is_large: AtomicBool::new(false),
        });
        let (read, taken) = (now, now);
        let state =
            State { source, kept, bytes: 0, code_bytes: 0, read, taken, order: order.clone() };
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
        let share = Share { since: now, before: Duration::ZERO };
        Ok(Rings { state, order, share, own_stacks, walks_python, _other: other })
    }

    pub(super) fn boost(&self) -> DrainBoost {
        DrainBoost(self.order.clone())
    }

    /// Makes the calling thread the one that processes the data; it has low priority while it is not late. If it is not permitted to raise
    /// its priority again, its priority is not lowered.
    pub(super) fn adopt_this_thread(&self) {
        let this = ThreadId::current();
        if this.raise() && self.order.thread.set(this).is_ok() {
            self.order.lower();
        }
    }

    /// Lowers the priority of the calling thread again.
    pub(super) fn yield_to_others(&self) {
        self.order.lower();
    }

    /// Fetches everything that is available, as far as there is room for it in addition to `waiting` bytes of samples that were fetched
    /// before.
    pub(super) fn take(&mut self, waiting: usize) -> Read {
        self.order.weigh(self.share.is_large(Instant::now(), thread_times::running()));
        // Raises the priority first: other threads may wait for the lock, and processes may end soon.
        let is_late = self.order.raise();
        let mut state = lock(&self.state);
        let kept: usize = state.kept.samples.iter().map(bytes_of).sum();
        state.bytes = waiting + kept;
        state.read();
        state.taken = state.read;
        state.code_bytes = 0;
        let nothing = Read::nothing(state.kept.until);
        Read { is_late, ..std::mem::replace(&mut state.kept, nothing) }
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
        let [off_cpu, wake, cpu] = self.own_stacks;
        match kind {
            SampleKind::OffCpu => off_cpu,
            SampleKind::Wake(_) => wake,
            SampleKind::Cpu => cpu,
        }
    }

    /// See [`StackSource::walks_python`].
    pub(super) fn walks_python(&self) -> bool {
        self.walks_python
    }

    /// See [`StackSource::set_python`].
    pub(super) fn set_python(&self, pid: Pid, python: Option<&Python>) -> io::Result<()> {
        lock(&self.state).source.set_python(pid, python)
    }

    pub(super) fn missing(&self) -> Missing {
        lock(&self.state).source.missing()
    }

    /// See [`StackSource::detach`].
    pub(super) fn detach(&self) {
        lock(&self.state).source.detach();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_used_much_within_a_second_does_not_go_before_others() {
        let begun = Instant::now();
        let ms = Duration::from_millis;
        let mut share = Share { since: begun, before: ms(5000) };
        let mut is_large = |at, run| share.is_large(begun + ms(at), ms(run));
        assert!(!is_large(500, 5099) && is_large(501, 5100) && is_large(999, 5400));
        // The next second.
        assert!(!is_large(1000, 5400) && !is_large(1900, 5499) && is_large(1999, 5500));
    }
}
