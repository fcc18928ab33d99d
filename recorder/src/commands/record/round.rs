//! A completed round of events of the capture thread, on which snapshots in circular mode and rotation operate.

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

/// The capture thread's progress, for display.
#[derive(Debug, Default)]
pub(super) struct Progress {
    events: AtomicU64,
    lost: AtomicU64,
}

impl Progress {
    /// The number of events recorded so far, of all kinds.
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

/// A finished round of events.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) encoder: &'a mut Encoder<BatchedLanes>,
    pub(super) source: &'a dyn Source,
    /// Applications that record their own events, if enabled.
    pub(super) providers: Option<&'a Providers>,
    /// The source of stacks, if they were requested.
    pub(super) stacks: Option<&'a mut Stacks>,
    /// The time of its oldest event, or an earlier time.
    pub(super) before: Nanos,
    /// None was younger.
    pub(super) ended: Nanos,
}

/// The description of the recording as if it ended now.
pub(super) fn ending(encoder: &Encoder<BatchedLanes>, source: &dyn Source, ended: Nanos) -> Ending {
    Ending { stats: *encoder.stats(), source: source.stats(), ended, causes: Vec::new() }
}

/// The description of the recording up to a file that is not its last.
pub(super) fn interim(
    encoder: &Encoder<BatchedLanes>,
    source: &dyn Source,
    ended: Nanos,
) -> Ending {
    let mut ending = ending(encoder, source, ended);
    // The counts include events that are still in the rings.
    ending.source.kernel_counts.clear();
    ending
}
