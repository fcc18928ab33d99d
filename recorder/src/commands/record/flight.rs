//! Flight recording: the last events, in memory until somebody asks.
//!
//! In circular mode the engine overwrites its older half when the newer one is
//! full. Names must not go with it, so they do not go into the engine at all:
//! the encoder keeps those of the living, and of the dead for as long as the
//! engine can still hold an event of theirs. Whoever writes the buffer out writes
//! the head of a trace and these names first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use fxt_writer::ThreadName;
use fxt_writer::engine::{BufferDisposition, Engine};

use super::describe::{self, Ending};
use super::lanes::EngineLanes;
use crate::encode::encoder::Encoder;
use crate::sink::drain::{Request, Snapshot};
use crate::sink::{Sink, SinkError, Totals};
use crate::units::Nanos;

/// What came of a snapshot.
pub(super) type Outcome = Result<Totals, SinkError>;

/// What the capture thread needs in circular mode.
#[derive(Debug)]
pub(super) struct Flight {
    /// The head of every trace that is written.
    pub(super) head: Vec<u8>,
    pub(super) recorder: ThreadName,
    /// Outputs to write a snapshot into.
    pub(super) wanted: Receiver<Box<dyn Sink>>,
    pub(super) outcomes: Sender<Outcome>,
    pub(super) window: Window,
}

/// Since when the engine may hold events: not exactly, but not later than it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    wrapped: u32,
    older: Nanos,
    newer: Nanos,
}

impl Window {
    /// Takes note that the engine has switched buffers `wrapped` times, and that all that it was given since it was
    /// last asked happened at `before` or later.
    fn follow(&mut self, wrapped: u32, before: Nanos) {
        match wrapped.wrapping_sub(self.wrapped) {
            0 => return,
            1 => self.older = self.newer,
            _ => self.older = before,
        }
        self.newer = before;
        self.wrapped = wrapped;
    }
}

impl Flight {
    /// After a round of events, of which none was older than `before`: lets go of what is no longer needed, and writes
    /// a snapshot when one is wanted.
    pub(super) fn after_round(
        &mut self,
        engine: &Arc<Engine>,
        encoder: &mut Encoder<EngineLanes>,
        drain: &Sender<Request>,
        before: Nanos,
        ending: impl Fn(&Encoder<EngineLanes>) -> Ending,
    ) {
        if let Some(header) = engine.header() {
            self.window.follow(header.wrapped_count, before);
        }
        encoder.forget_departed(self.window.older);
        let Ok(sink) = self.wanted.try_recv() else { return };
        let outcome = self.snapshot(sink, engine, encoder, drain, &ending(encoder));
        // Whoever wanted it may have gone.
        let _ = self.outcomes.send(outcome);
    }

    fn snapshot(
        &mut self,
        sink: Box<dyn Sink>,
        engine: &Arc<Engine>,
        encoder: &mut Encoder<EngineLanes>,
        drain: &Sender<Request>,
        ending: &Ending,
    ) -> Outcome {
        let packets = engine.finish();
        let head = self.beginning(encoder);
        let buffers = packets.iter().filter_map(|packet| engine.view(*packet).ok());
        let bytes = head.len() + buffers.map(|view| view.bytes()).sum::<usize>();
        let tail = describe::tail(ending, self.recorder, bytes as u64).unwrap_or_default();
        let (done, outcome) = bounded(1);
        let snapshot = Snapshot { sink, head, packets, tail, done };
        let gone = SinkError::AlreadyFailed;
        drain.send(Request::Snapshot(Box::new(snapshot))).map_err(|_| gone.clone())?;
        let outcome = outcome.recv().unwrap_or(Err(gone));
        // All buffers have been given back, and this thread is the only one that writes.
        let started = engine.start(BufferDisposition::ClearNondurable);
        debug_assert!(started.is_ok(), "{started:?}");
        outcome
    }

    /// What stands before the buffers in a file.
    pub(super) fn beginning(&self, encoder: &mut Encoder<EngineLanes>) -> Vec<u8> {
        let mut beginning = self.head.clone();
        beginning.extend(encoder.names());
        beginning
    }
}

/// The file for snapshot `number` beside the output `path`: `app.1.fxt.zst` for `app.fxt.zst`.
pub(super) fn snapshot_path(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(".fxt").or(name.rfind('.')).unwrap_or(name.len());
    path.with_file_name(format!("{}.{number}{}", &name[..end], &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_numbered_before_the_ending() {
        let named = |path: &str| snapshot_path(Path::new(path), 2).display().to_string();
        assert_eq!(named("/tmp/app.fxt"), "/tmp/app.2.fxt");
        assert_eq!(named("app.v1.fxt.zst"), "app.v1.2.fxt.zst");
        assert_eq!(named("trace.gz"), "trace.2.gz");
        assert_eq!(named("trace"), "trace.2");
    }

    #[test]
    fn the_window_reaches_back_two_switches_and_never_too_short() {
        let mut window = Window::default();
        window.follow(0, Nanos(10));
        assert_eq!(window.older, Nanos(0));
        window.follow(1, Nanos(20));
        assert_eq!(window.older, Nanos(0), "the first half is still there");
        window.follow(2, Nanos(30));
        assert_eq!(window.older, Nanos(20));
        window.follow(5, Nanos(40));
        assert_eq!((window.older, window.newer), (Nanos(40), Nanos(40)));
    }
}
