//! The two threads of a recording, from their start to the finished output.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use fxt_writer::ThreadName;
use fxt_writer::engine::{Config, Engine, Mode, OnFull};

use super::capture::{Capture, Captured, Progress};
use super::describe::{self, Beginning};
use super::error::RecordError;
use super::extras::Extras;
use super::flight::{Flight, Outcome, Window};
use super::lanes::EngineLanes;
use super::providers::{Invitation, Providers};
use crate::capture::source::Source;
use crate::cli;
use crate::commands::plan::{Filter, Plan};
use crate::encode::encoder::Encoder;
use crate::encode::threads::Threads;
use crate::kernel::waker::Waker;
use crate::sink::drain::{self, Drained, Request, Written};
use crate::sink::{Sink, SinkError, Target, Totals};

/// A recording that runs.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) progress: Arc<Progress>,
    pub(super) written: Arc<Written>,
    recorder: ThreadName,
    begun: Instant,
    capture: JoinHandle<Captured>,
    drain: JoinHandle<Drained>,
    stop: Waker,
    snapshots: Sender<Box<dyn Sink>>,
    results: Receiver<Outcome>,
}

/// What is recorded.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) source: Box<dyn Source>,
    pub(super) extras: Extras,
    /// The threads that are known when it begins.
    pub(super) threads: Threads,
    /// Applications that record themselves, if they may.
    pub(super) invitation: Option<Invitation>,
}

/// What a recording came to.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) captured: Captured,
    pub(super) totals: Totals,
    pub(super) result: Result<(), SinkError>,
    pub(super) duration: std::time::Duration,
}

/// The engine's word for what happens when a buffer is full.
pub(super) fn mode(mode: cli::Mode) -> Mode {
    match mode {
        cli::Mode::Streaming => Mode::Streaming,
        cli::Mode::Oneshot => Mode::Oneshot,
        cli::Mode::Circular => Mode::Circular,
    }
}

impl Pipeline {
    /// Starts both threads. `attention` is stopped when one of them needs the main thread: the output failed, or there
    /// is nothing more to record.
    pub(super) fn start(
        plan: &Plan,
        inputs: Inputs,
        mut sink: Box<dyn Sink>,
        beginning: &Beginning<'_>,
        attention: &Waker,
    ) -> Result<Pipeline, RecordError> {
        let Inputs { source, extras, threads, invitation } = inputs;
        let (to_drain, requests) = crossbeam_channel::unbounded();
        let config = Config {
            mode: mode(plan.mode),
            bytes: plan.buffer_bytes,
            on_full: OnFull::Block,
            ..Config::default()
        };
        let from_engine = to_drain.clone();
        let engine = Engine::new(config, move |packet| {
            // The drain ends only after the engine has.
            let _ = from_engine.send(Request::Save(packet));
        })?;
        // The head holds no name of fxtrec's making that could be refused.
        let head = describe::head(beginning).unwrap_or_default();
        let circular = plan.mode == cli::Mode::Circular;
        let (snapshots, wanted) = crossbeam_channel::unbounded();
        let (outcomes, results) = crossbeam_channel::unbounded();
        let (first, flight) = match circular {
            // Nothing is written before the end, and then names come second.
            true => {
                let (recorder, window) = (beginning.recorder, Window::default());
                (Ok(()), Some(Flight { head, recorder, wanted, outcomes, window }))
            }
            false => (sink.write(&head), None),
        };
        let stop = Waker::new().map_err(RecordError::while_doing("make an eventfd"))?;
        let progress = Arc::new(Progress::default());
        let written = Arc::new(Written::default());
        let narrow = plan.scope != Filter::Machine;
        let lanes = EngineLanes::new(engine.clone(), !circular);
        let mut encoder = Encoder::new(lanes, threads, narrow, beginning.recorder);
        if circular {
            encoder.keep_departed();
        }
        encoder.expect(extras.catalog);
        let failed = attention.clone();
        let drain =
            drain::spawn(engine.clone(), requests, sink, written.clone(), move || failed.stop())
                .map_err(RecordError::while_doing("start the drain thread"))?;
        if first.is_err() {
            // The sink says so again at its end.
            attention.stop();
        }
        let providers = invitation
            .map(|invitation| Providers::start(invitation, to_drain.clone()))
            .transpose()
            .map_err(RecordError::while_doing("start the manager of providers"))?;
        let capture = Capture {
            source,
            encoder,
            engine,
            drain: to_drain,
            waker: stop.clone(),
            progress: progress.clone(),
            flight,
            definitions: extras.definitions,
            providers,
        };
        let ended = attention.clone();
        let begun = Instant::now();
        let capture = capture
            .spawn(move || ended.stop())
            .map_err(RecordError::while_doing("start the capture thread"))?;
        let recorder = beginning.recorder;
        Ok(Pipeline {
            progress,
            written,
            recorder,
            begun,
            capture,
            drain,
            stop,
            snapshots,
            results,
        })
    }

    /// Lets the capture thread stop the events, hand on what is left, and end.
    pub(super) fn stop(&self) {
        self.stop.stop();
    }

    /// Lets the capture thread write what the engine holds, and waits until it has. In circular mode only.
    pub(super) fn snapshot(&self, sink: Box<dyn Sink>) -> Outcome {
        self.snapshots.send(sink).map_err(|_| SinkError::AlreadyFailed)?;
        self.results.recv().unwrap_or(Err(SinkError::AlreadyFailed))
    }

    /// Whether both threads have ended, so that [`Pipeline::finish`] will not wait.
    pub(super) fn is_done(&self) -> bool {
        self.capture.is_finished() && self.drain.is_finished()
    }

    /// Waits for both threads, adds the counts to the trace and closes it.
    pub(super) fn finish(self) -> Result<Finished, RecordError> {
        let gone = |_| RecordError::System {
            doing: "finish the trace",
            source: std::io::Error::other("a thread of fxtrec panicked"),
        };
        let captured = self.capture.join().map_err(gone)?;
        let duration = self.begun.elapsed();
        let Drained { mut sink, mut result } = self.drain.join().map_err(gone)?;
        let tail = describe::tail(&captured.ending, self.recorder, sink.totals().record_bytes)
            .unwrap_or_default();
        let before = sink.totals();
        let ended = sink.write(&tail).and_then(|()| sink.finish());
        let totals = match ended {
            Ok(totals) => totals,
            Err(error) => {
                result = result.and(Err(error));
                before
            }
        };
        Ok(Finished { captured, totals, result, duration })
    }
}

/// Takes an output back that nothing was recorded into, and puts the earlier file in its place again.
pub(super) fn discard(target: &Target, kept_old: Option<&Path>) {
    let Target::Path(path) = target else { return };
    let restored = match kept_old {
        Some(old) => std::fs::rename(old, path),
        None if path.is_file() => std::fs::remove_file(path),
        None => Ok(()),
    };
    // What cannot be taken back stays: a trace of nothing is no reason for a second error.
    drop::<std::io::Result<()>>(restored);
}
