//! A round of events that the capture thread is done with: what comes after one, in circular mode or when the output is
//! divided, works on this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fxt_writer::engine::Engine;

use super::describe::Ending;
use super::providers::Providers;
use crate::capture::event_pump::BatchedLanes;
use crate::capture::source::Source;
use crate::capture::stacks::Stacks;
use crate::encode::encoder::Encoder;
use crate::encode::stats::Stats;
use crate::units::Nanos;

/// What the capture thread has done so far, for whoever shows progress.
#[derive(Debug, Default)]
pub(super) struct Progress {
    events: AtomicU64,
    lost: AtomicU64,
}

impl Progress {
    /// Switches, wake-ups and whatever else is recorded, so far.
    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// After a round.
    pub(super) fn update(&self, stats: &Stats) {
        let events = stats.switches + stats.wakeups + stats.probes.total();
        self.events.store(events, Ordering::Relaxed);
        self.lost.store(stats.lost, Ordering::Relaxed);
    }
}

/// A round of events that is behind the capture thread.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) encoder: &'a mut Encoder<BatchedLanes>,
    pub(super) source: &'a dyn Source,
    /// Applications that record themselves, if they may.
    pub(super) providers: Option<&'a Providers>,
    /// Where threads block, if somebody asked.
    pub(super) stacks: Option<&'a mut Stacks>,
    /// None of its events was older.
    pub(super) before: Nanos,
    /// None was younger.
    pub(super) ended: Nanos,
}

/// The recording, if it ended now.
pub(super) fn ending(encoder: &Encoder<BatchedLanes>, source: &dyn Source, ended: Nanos) -> Ending {
    Ending { stats: *encoder.stats(), source: source.stats(), ended, causes: Vec::new() }
}

/// The recording up to a file that is not its last.
pub(super) fn interim(
    encoder: &Encoder<BatchedLanes>,
    source: &dyn Source,
    ended: Nanos,
) -> Ending {
    let mut ending = ending(encoder, source, ended);
    // They count what is in the rings still.
    ending.source.kernel_counts.clear();
    ending
}
