//! The trace engine: many threads write records into one span of memory, and full parts of it are handed to a saver.
//!
//! ```text
//!  +--------+-----------------+------------------------+------------------------+
//!  | header |  durable part   |    rolling buffer 0    |    rolling buffer 1    |
//!  +--------+-----------------+------------------------+------------------------+
//!            names, strings,    everything else; one of the two is written,
//!            threads: a ring    the other is free or waits to be saved
//! ```
//!
//! A writer reserves space for a whole record by one compare-and-swap on the position word (number of buffer switches, offset in the
//! buffer), writes the record, and commits it by one addition to the buffer's count. No lock is taken until a buffer is full. Then, under
//! the lock, the position word moves to the other buffer and the full one is sealed. The commit that completes the buffer sends the request
//! to save it, so no buffer is handed over while a record in it is still being written.
//!
//! In the output, the durable data always comes before the rolling data of its
//! buffer, and a durable record that was written before a rolling record that
//! needs it is always saved before it. `docs/engine.md` in this crate describes
//! the design.
//!
//! ```
//! use std::sync::mpsc;
//! use fxt_writer::engine::{Config, Engine};
//! use fxt_writer::record::{Initialization, Record};
//!
//! let (packets, inbox) = mpsc::channel();
//! let engine = Engine::new(Config::default(), move |packet| {
//!     let _ = packets.send(packet);
//! })?;
//! Initialization { ticks_per_second: 1_000_000_000 }.write(&mut engine.durable())?;
//!
//! // The saving thread takes packets from the inbox; here only the last one comes.
//! let mut output: Vec<u8> = Vec::new();
//! for packet in inbox.try_iter().chain(engine.finish()) {
//!     let view = engine.view(packet)?;
//!     view.slices().for_each(|bytes| output.extend_from_slice(bytes));
//!     drop(view);
//!     engine.saved(packet.buffer_saved())?;
//! }
//! assert_eq!(output.len(), 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod barrier;
mod commits;
mod config;
mod durable;
mod guard;
mod handover;
mod header;
mod held;
mod lease;
mod lifecycle;
mod memory;
mod position;
mod recover;
mod remote;
mod reserve;
mod state;
mod stragglers;
mod sync;
mod view;
mod walk;

use std::fmt;
#[cfg(not(loom))]
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

pub use config::{Config, ConfigError, Full, HEADER_WORDS, MAX_BYTES, MIN_BYTES, Mode, OnFull};
pub use durable::{Durable, DurableSlot};
pub use handover::SaveError;
pub use header::{Header, MAGIC, VERSION};
pub use lease::Lease;
pub use lifecycle::{BufferDisposition, StartError};
pub use memory::{Batch, BatchSlot, RollingSlot};
pub use recover::{RecoverError, Recovered, recover};
pub use remote::{Cursor, Piece, Remote, RemoteError, SharedWords, Tally};
pub use reserve::Rolling;
pub use view::{View, ViewError};

use commits::Commits;
use config::Division;
use header::HeaderWords;
use memory::Memory;
use position::Position;
use state::{Phase, State};
use sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};

use crate::layout::limits::WORD_BYTES;
use crate::packet::Packet;

/// The number of counts: two in use, and one for each buffer that may be abandoned with a writer still in it.
const COUNTERS: usize = if cfg!(loom) { 4 } else { 64 };

/// Words that writers read and write on every record, on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Hot {
    /// The [`Position`] of the next record.
    position: AtomicU64,
    /// End of the room in each rolling buffer, in words within it.
    limit: [AtomicUsize; 2],
    /// Which count each rolling buffer's lap uses.
    counter: [AtomicUsize; 2],
    /// The position at which there is no room until a buffer is given back;
    /// [`Position::NOWHERE`] if there may be room.
    full_at: AtomicU64,
    /// Whether threads may hold leases.
    lends: AtomicBool,
}

/// The trace engine; see the [module](self).
pub struct Engine {
    memory: Memory,
    division: Division,
    config: Config,
    hot: Hot,
    commits: Box<[Commits]>,
    state: Mutex<State>,
    /// Nanoseconds that all writers together have waited for room.
    waited: AtomicU64,
    /// Woken when a buffer becomes free or complete, durable room comes back, a
    /// packet has been sent, or the engine stops.
    changed: Condvar,
    notify: Box<dyn Fn(Packet) + Send + Sync>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("memory", &self.memory)
            .field("division", &self.division)
            .field("config", &self.config)
            .field("hot", &self.hot)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine that allocates its memory and accepts records at once.
    ///
    /// In streaming mode `notify` is called with each request to save a buffer, by the thread whose commit completed the buffer, with no
    /// lock held. It should pass the packet on and return; it must not call [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// Returns an error when the size is out of range.
    pub fn new(
        config: Config,
        notify: impl Fn(Packet) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, ConfigError> {
        let division = Division::new(&config)?;
        let memory = Memory::allocate(division.total);
        Ok(Self::build(config, division, memory, Box::new(notify)))
    }

    /// An engine in the caller's memory, for instance a mapping shared with
    /// another process; `config.bytes` is its length. The memory must be zero.
    /// `keep` is dropped when the engine no longer needs the memory.
    ///
    /// # Safety
    ///
    /// The memory must be valid for reads and writes of `config.bytes` bytes
    /// until `keep` is dropped, and nothing else in this process may access it
    /// until then. Other processes may read it, but should not write to it.
    ///
    /// # Errors
    ///
    /// Returns an error when the size is out of range or the memory is not aligned to 8 bytes.
    #[cfg(not(loom))]
    pub unsafe fn with_memory(
        config: Config,
        memory: NonNull<u8>,
        keep: impl Send + Sync + 'static,
        notify: impl Fn(Packet) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, ConfigError> {
        let division = Division::new(&config)?;
        let base = memory.cast::<u64>();
        if !base.is_aligned() {
            return Err(ConfigError::Misaligned);
        }
        // SAFETY: aligned as just checked; valid for `config.bytes` bytes, of which
        // the division uses whole words only, guaranteed by the caller.
        let memory = unsafe { Memory::external(base, division.total, Box::new(keep)) };
        Ok(Self::build(config, division, memory, Box::new(notify)))
    }

    fn build(
        config: Config,
        division: Division,
        memory: Memory,
        notify: Box<dyn Fn(Packet) + Send + Sync>,
    ) -> Arc<Self> {
        let mut state = State::new(COUNTERS);
        state.parts[0].phase = Phase::Open;
        let words = division.rolling;
        HeaderWords(&memory).describe(config.mode, division.total, division.durable, words);
        Arc::new(Self {
            memory,
            division,
            config,
            hot: Hot {
                position: AtomicU64::new(Position::new(0, 0).0),
                limit: [AtomicUsize::new(words), AtomicUsize::new(words)],
                counter: [AtomicUsize::new(0), AtomicUsize::new(1)],
                full_at: AtomicU64::new(Position::NOWHERE.0),
                lends: AtomicBool::new(false),
            },
            commits: (0..COUNTERS).map(|_| Commits::new()).collect(),
            state: Mutex::new(state),
            waited: AtomicU64::new(0),
            changed: Condvar::new(),
            notify,
        })
    }

    /// The lane for records that may be dropped; usable from many threads.
    #[must_use]
    pub fn rolling(&self) -> Rolling<'_> {
        Rolling::new(self)
    }

    /// The lane for records that others refer to: strings, threads, names. A
    /// record written here comes before every rolling record that is written
    /// afterwards in the output. In oneshot mode both lanes share one buffer.
    #[must_use]
    pub fn durable(&self) -> Durable<'_> {
        Durable::new(self)
    }

    /// What happens when a buffer is full.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.config.mode
    }

    /// Records dropped so far, by any writer and for any reason; saturating.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.header_words().dropped()
    }

    /// The total time that writers have waited for room so far. A wait is counted once it has ended.
    #[must_use]
    pub fn waited(&self) -> Duration {
        // Relaxed: a counter, which orders nothing.
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Counts records as dropped that their writers discarded without asking for space.
    pub fn count_dropped(&self, records: u64) {
        self.header_words().drop_records(records);
    }

    /// The header in the engine's memory.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        self.header_words().snapshot()
    }

    /// Largest record that fits a rolling buffer, in words.
    #[must_use]
    pub fn max_record_words(&self) -> usize {
        self.division.rolling.min(crate::layout::limits::MAX_RECORD_WORDS)
    }

    fn header_words(&self) -> HeaderWords<'_> {
        HeaderWords(&self.memory)
    }

    #[inline]
    fn position(&self) -> Position {
        // Acquire: sees what was published with the position.
        Position(self.hot.position.load(Ordering::Acquire))
    }
}

const _: () = assert!(HEADER_WORDS * WORD_BYTES == 128);

/// Prepares this process for engines that [lend](Engine::lend) room. That takes milliseconds in a
/// process of several threads, since the kernel waits for all CPUs, and almost no time in a
/// single-threaded one.
#[cfg(all(feature = "provider", target_os = "linux", not(loom)))]
pub(crate) fn prepare_process() {
    // Without kernel support, engines do not lend room.
    let _ = barrier::ready();
}
