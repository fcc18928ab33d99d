//! What the drain thread tells other threads: how large the outputs are, and how it spends its time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fxtrec_kernel::thread_times::ThreadTimes;

use super::{Early, LeftOut};
use crate::{Sink, Totals};

/// Bytes that the drain thread has written to the output, for the progress display, and how it spent its time.
#[derive(Debug, Default)]
pub struct Written {
    sizes: Mutex<Sizes>,
    /// The size of the last explanation, in bytes of the output, and its estimate.
    explained: Mutex<Option<(u64, u64)>>,
    /// The data that is missing in all outputs.
    left_out: Mutex<LeftOut>,
    effort: Mutex<Effort>,
}

/// The sizes of outputs, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    /// All outputs that are complete.
    earlier: u64,
    /// The open output.
    piece: u64,
    /// Records in the open output whose compressed size is not known yet.
    held: u64,
    /// How many times [`Request::Turn`](super::Request::Turn) has been handled.
    turns: u64,
    /// Records for outputs that are not open yet: of the last of these, and of all.
    early: Option<(u64, u64)>,
}

/// How the drain thread spent its time, up to the last buffer that it returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    pub times: ThreadTimes,
    /// How long it was writing the output, on a CPU or not.
    pub saving: Duration,
}

impl Written {
    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes so far, in all outputs.
    pub fn bytes(&self) -> u64 {
        let Sizes { earlier, piece, .. } = *self.sizes();
        earlier + piece
    }

    /// The maximum size of the output that began with this [`Request::Turn`](super::Request::Turn), counted from 1, or of the first output: includes data that is
    /// in a compressor or, uncompressed, waits until the output is open, as do its `head` bytes of [`NextPiece::head`](super::NextPiece::head). `None` if the drain
    /// thread has not reached that request.
    pub fn piece_bytes_at_most(&self, turn: u64, head: u64) -> Option<u64> {
        let Sizes { piece, held, turns, early, .. } = *self.sizes();
        (turns == turn).then(|| early.map_or(piece + held, |(last, _)| head + last))
    }

    /// Bytes that wait until their outputs are open.
    pub fn early_bytes(&self) -> u64 {
        self.sizes().early.map_or(0, |(_, all)| all)
    }

    /// The size of the last explanation, in bytes of the output, and its estimate.
    pub fn explained(&self) -> Option<(u64, u64)> {
        *self.explained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data that is missing in all outputs because of their size limit.
    pub fn left_out(&self) -> LeftOut {
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn explain(&self, explained: (u64, u64), lacks: LeftOut) {
        *self.explained.lock().unwrap_or_else(PoisonError::into_inner) = Some(explained);
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.names += lacks.names;
        left_out.stacks += lacks.stacks;
    }

    /// How the drain thread spent its time.
    pub fn effort(&self) -> Effort {
        *self.effort.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_effort(&self, times: ThreadTimes, saving: Duration) {
        let mut effort = self.effort.lock().unwrap_or_else(PoisonError::into_inner);
        effort.times = times;
        effort.saving += saving;
    }

    pub(super) fn update(&self, earlier: Totals, piece: &dyn Sink, early: &Early) {
        let mut sizes = self.sizes();
        sizes.earlier = earlier.output_bytes;
        sizes.piece = piece.totals().output_bytes;
        sizes.held = piece.held();
        sizes.early = early.outputs.back().map(|last| (last.bytes, early.bytes));
    }

    pub(super) fn turn(&self) {
        let mut sizes = self.sizes();
        sizes.turns += 1;
        let all = sizes.early.map_or(0, |(_, all)| all);
        sizes.early = Some((0, all));
    }
}
