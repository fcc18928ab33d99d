//! The threads of a recording, from their start to the finished output.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use fxt_writer::ThreadName;
use fxt_writer::engine::{Config, Engine, OnFull};

use super::alerts::Alerts;
use super::capture::{Capture, Captured};
use super::describe::{self, Beginning};
use super::error::RecordError;
use super::extras::Extras;
use super::flight::Flight;
use super::flight::snapshots::{News, SnapshotCounts, Snapshots};
use super::pieces::{Pieces, Series, SeriesOutcome, Sizes, Stage};
use super::providers::{Invitation, Providers};
use super::retained::{HandedOver, Retained};
use super::round::Progress;
use crate::capture::event_pump::BatchedLanes;
use crate::capture::source::Source;
use crate::capture::stacks::{Kept, Named, Stacks};
use crate::cli;
use crate::commands::plan::{Filter, Plan};
use crate::encode::encoder::Encoder;
use crate::encode::threads::Threads;
use crate::flight::watch::Watch;
use crate::kernel::bell::Bell;
use crate::kernel::stack_source::StackSource;
use crate::kernel::stop_token::StopToken;
use crate::kernel::symbols::KernelSymbols;
use crate::kernel::trace_memory::TraceMemory;
use crate::sink::drain::{self, Drained, Request, Written};
use crate::sink::outfile::{Given, Hold, NameState, OutputLocation};
use crate::sink::{Sink, SinkError, Totals, Unsaved};

#[derive(Debug)]
pub(super) struct Pipeline {
    /// The progress of naming functions.
    pub(super) named: Option<Named>,
    pub(super) progress: Arc<Progress>,
    pub(super) written: Arc<Written>,
    recorder: ThreadName,
    begun: Instant,
    capture: JoinHandle<Captured>,
    drain: JoinHandle<Drained>,
    stop: StopToken,
    snapshots: Option<SnapshotThread>,
    series: Option<Arc<Series>>,
    retained: Arc<Retained>,
    hold: Option<Arc<Hold>>,
}

/// The thread that writes snapshots, and the channels to and from it.
#[derive(Debug)]
struct SnapshotThread {
    asked: Sender<()>,
    news: Receiver<News>,
    bell: Bell,
    thread: JoinHandle<SnapshotCounts>,
}

#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) source: Box<dyn Source>,
    pub(super) extras: Extras,
    /// The program that reports where threads block, if requested.
    pub(super) stacks: Option<StackSource>,
    /// The threads that exist when the recording begins.
    pub(super) threads: Threads,
    /// The kernel's symbols, if the source or stacks need them.
    pub(super) symbols: Arc<KernelSymbols>,
    /// Applications that record their own events, if enabled.
    pub(super) invitation: Option<Invitation>,
    /// The output's directory and name, if it has one: other files are written next to it.
    pub(super) place: Option<OutputLocation>,
    /// When those are given to their owner.
    pub(super) given: Given,
    /// Those other files, including those of earlier runs.
    pub(super) retained: Arc<Retained>,
    /// The first file, protected from other recorders.
    pub(super) hold: Option<Arc<Hold>>,
    /// The file for the trace in circular mode.
    pub(super) memory: Option<TraceMemory>,
}

/// The result of a recording.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) captured: Captured,
    pub(super) totals: Totals,
    pub(super) result: Result<(), SinkError>,
    /// The data that the output did not accept.
    pub(super) unsaved: Unsaved,
    pub(super) duration: std::time::Duration,
    /// The results of snapshots, if snapshots are possible.
    pub(super) snapshots: Option<SnapshotCounts>,
    /// The fate of the files of a recording that was divided.
    pub(super) series: Option<SeriesOutcome>,
    /// The state of the file's name, or of the last file's name if there are several.
    pub(super) output: NameState,
    /// Whether complete files of a recording of several files could be given to their owner.
    pub(super) handed_over: HandedOver,
}

impl Pipeline {
    /// Starts the threads. `attention` is stopped when a thread needs the main thread: the output failed, or there is nothing more to
    /// record.
    pub(super) fn start(
        plan: &Plan,
        inputs: Inputs,
        mut sink: Box<dyn Sink>,
        beginning: Beginning,
        attention: &StopToken,
    ) -> Result<Pipeline, RecordError> {
        let Inputs {
            source,
            extras,
            stacks,
            threads,
            symbols,
            invitation,
            place,
            given,
            retained,
            hold,
            memory,
        } = inputs;
        let (to_drain, requests) = crossbeam_channel::unbounded();
        let config = Config {
            mode: plan.engine_mode(),
            bytes: plan.buffer_bytes,
            on_full: OnFull::Block,
            ..Config::default()
        };
        let from_engine = to_drain.clone();
        let notify = move |packet| {
            // The drain ends only after the engine has.
            let _ = from_engine.send(Request::Save(packet));
        };
        let circular = plan.mode == cli::Mode::Circular;
        let engine = match memory {
            Some(memory) => memory.engine(config, notify)?,
            None => Engine::new(config, notify)?,
        };
        let beginning = Arc::new(beginning);
        let (flight, snapshots) = match circular {
            true => {
                let (flight, thread) = arm(plan, (place.clone(), given, &retained), &beginning)?;
                (Some(flight), thread)
            }
            false => (None, None),
        };
        let first = match circular {
            // Nothing is written before the end, and names are written second.
            true => Ok(()),
            false => sink.write(&beginning.head_at(beginning.time)),
        };
        let stop = StopToken::new().map_err(RecordError::while_doing("create an eventfd"))?;
        let progress = Arc::new(Progress::default());
        let written = Arc::new(Written::default());
        let narrow = plan.scope != Filter::Machine;
        let lanes = BatchedLanes::new(engine.clone(), !circular);
        let mut encoder = Encoder::new(lanes, threads, narrow, beginning.recorder);
        if source.narrows() {
            encoder.expect_kernel_filter();
        }
        if plan.only_user.is_some() {
            encoder.take_names_from_switches_only();
        }
        if beginning.brief_weights {
            encoder.leave_out_usual_weights();
        }
        if circular || plan.stacks.is_some() {
            encoder.keep_departed();
        }
        encoder.name_kernel(symbols.clone());
        let pieces = plan.flight.rotate.zip(place).map(|(rotate, place)| {
            let named = (place, plan.output.compression, given);
            let series = Arc::new(Series::new(named, rotate, retained.clone(), hold.clone()));
            let (beginning, written) = (beginning.clone(), written.clone());
            let begun = Instant::now();
            let (stage, sizes) = (Stage::Inside, Sizes::default());
            let (turns, head) = (0, 0);
            Pieces { beginning, rotate, series, written, begun, stage, sizes, turns, head }
        });
        let series = pieces.as_ref().map(|pieces| pieces.series.clone());
        // Only this shows which threads wait for a CPU at the beginning of a file.
        let ledger = pieces.as_ref().map(|_| Watch::only_ledger());
        if let Some(watch) = extras.watch.or(ledger) {
            encoder.watch_with(watch);
        }
        encoder.expect(extras.catalog);
        let failed = attention.clone();
        let limit = pieces.as_ref().and_then(|pieces| pieces.series.size());
        let drain =
            drain::spawn(engine.clone(), requests, (sink, limit), written.clone(), move || {
                failed.stop();
            })
            .map_err(RecordError::while_doing("start the drain thread"))?;
        if first.is_err() {
            // The sink reports that again at its end.
            attention.stop();
        }
        let providers = invitation
            .map(|invitation| Providers::start(invitation, to_drain.clone()))
            .transpose()
            .map_err(RecordError::while_doing("start the manager of providers"))?;
        let enabled = beginning.time;
        let kept = match (circular, &pieces) {
            (true, _) => Kept::Newest,
            (false, Some(_)) => Kept::InPieces,
            (false, None) => Kept::Whole,
        };
        let stacks = stacks
            .zip(plan.stacks)
            .map(|(source, wanted)| {
                Stacks::start(source, wanted, plan.symbols, symbols, (kept, enabled))
            })
            .transpose()
            .map_err(RecordError::while_doing("start the thread for stacks"))?;
        let (recorder, named) = (beginning.recorder, stacks.as_ref().map(Stacks::named));
        let capture = Capture {
            enabled,
            watches: beginning.watches.clone(),
            source,
            encoder,
            engine,
            drain: to_drain,
            stop: stop.clone(),
            progress: progress.clone(),
            written: written.clone(),
            flight,
            pieces,
            placed: extras.placed,
            stacks,
            providers,
            alerts: Alerts::default(),
        };
        let ended = attention.clone();
        let begun = Instant::now();
        let capture = capture
            .spawn(move || ended.stop())
            .map_err(RecordError::while_doing("start the capture thread"))?;
        Ok(Pipeline {
            named,
            progress,
            written,
            recorder,
            begun,
            capture,
            drain,
            stop,
            snapshots,
            series,
            retained,
            hold,
        })
    }

    /// Removes the files that earlier runs have left beyond this series' limits, once this run records.
    pub(super) fn trim(&self) {
        if let Some(series) = &self.series {
            series.trim();
        }
    }

    /// Makes the capture thread stop the events, pass on the rest, and end.
    pub(super) fn stop(&self) {
        self.stop.stop();
    }

    /// Requests a snapshot; [`Pipeline::news`] will return the result. Only in circular mode with an output file.
    pub(super) fn ask_snapshot(&self) {
        if let Some(snapshots) = &self.snapshots {
            // A capture thread that has ended writes no more snapshots.
            let _ = snapshots.asked.send(());
        }
    }

    /// The descriptor that becomes readable when there is news.
    pub(super) fn bell(&self) -> Option<&Bell> {
        self.snapshots.as_ref().map(|snapshots| &snapshots.bell)
    }

    /// The news since the last call.
    pub(super) fn news(&self) -> impl Iterator<Item = News> {
        let snapshots = self.snapshots.as_ref();
        snapshots.into_iter().flat_map(|snapshots| {
            snapshots.bell.answer();
            snapshots.news.try_iter()
        })
    }

    /// Whether all threads have ended, so that [`Pipeline::finish`] will not wait.
    pub(super) fn is_done(&self) -> bool {
        let snapshots = self.snapshots.as_ref();
        self.capture.is_finished()
            && self.drain.is_finished()
            && snapshots.is_none_or(|snapshots| snapshots.thread.is_finished())
    }

    /// Waits for all threads, adds the counts to the trace and closes it.
    pub(super) fn finish(self) -> Result<Finished, RecordError> {
        let gone = |_| RecordError::System {
            doing: "finish the trace",
            source: std::io::Error::other("a thread of fxtrec panicked"),
        };
        let mut captured = self.capture.join().map_err(gone)?;
        let duration = self.begun.elapsed();
        let Drained { mut sink, earlier, left_out, mut result } =
            self.drain.join().map_err(gone)?;
        let snapshots =
            self.snapshots.map(|snapshots| snapshots.thread.join()).transpose().map_err(gone)?;
        if let Some(stacks) = &mut captured.stacks {
            let left_out = self.written.left_out();
            stacks.unnamed += left_out.names;
            stacks.not_in_perfetto += left_out.stacks;
        }
        let (ending, growth) = (&captured.ending, &captured.growth);
        let of_last = (sink.totals().record_bytes, left_out);
        let tail = describe::tail(ending, growth, self.recorder, of_last).unwrap_or_default();
        // The sink's result also gives the reason if the trace cannot be written.
        let _ = sink.write(&tail);
        let last = match sink.finish() {
            Ok(totals) => totals,
            Err(error) => {
                // The drain thread may know only that an earlier step failed; the first error explains it.
                if matches!(result, Ok(()) | Err(SinkError::AlreadyFailed)) {
                    result = Err(error);
                }
                sink.totals()
            }
        };
        let unsaved = sink.unsaved();
        let totals = Totals {
            record_bytes: earlier.record_bytes + last.record_bytes,
            output_bytes: earlier.output_bytes + last.output_bytes,
        };
        let series = self.series.map(|series| series.outcome(last));
        // They are not read again.
        let handed_over = self.retained.hand_over();
        let output = match &series {
            Some(series) => series.whereabouts.clone(),
            None => self.hold.map_or(NameState::InPlace, |hold| hold.whereabouts()),
        };
        Ok(Finished {
            captured,
            totals,
            result,
            unsaved,
            duration,
            snapshots,
            series,
            output,
            handed_over,
        })
    }
}

/// The data that the capture thread needs in circular mode, and the thread that writes snapshots, if they can be written.
fn arm(
    plan: &Plan,
    (place, given, retained): (Option<OutputLocation>, Given, &Arc<Retained>),
    beginning: &Arc<Beginning>,
) -> Result<(Flight, Option<SnapshotThread>), RecordError> {
    let (asked, asks) = crossbeam_channel::unbounded();
    // One snapshot waits while another is written.
    let (to_snapshots, shots) = crossbeam_channel::bounded(1);
    let (tell, news) = crossbeam_channel::unbounded();
    let window = plan.flight.window;
    let flight = Flight::new(beginning.clone(), window, asks, to_snapshots);
    let Some(place) = place else { return Ok((flight, None)) };
    let bell = Bell::new().map_err(RecordError::while_doing("create an eventfd"))?;
    let snapshots = Snapshots {
        beginning: beginning.clone(),
        window,
        place,
        given,
        compression: plan.output.compression,
        retained: retained.clone(),
        shots,
        news: tell,
        bell: bell.clone(),
        on_trigger: plan.flight.on_trigger.clone(),
    };
    let thread =
        snapshots.spawn().map_err(RecordError::while_doing("start the snapshot thread"))?;
    Ok((flight, Some(SnapshotThread { asked, news, bell, thread })))
}
