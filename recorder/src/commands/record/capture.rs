//! The capture thread: turns ring contents into events and events into records, and writes them to the engine.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use fxt_writer::engine::Engine;

use super::alerts::{Alerts, Notice};
use super::describe::{Ending, Growth, Watches, clock_change};
use super::extras::Placed;
use super::flight::Flight;
use super::pace::{Handover, Pace};
use super::pieces::{self, Pieces};
use super::providers::{self, Providers};
use super::round::{Progress, Round, ending};
use super::rt_priority::RtPriority;
use crate::capture::event_pump::{BatchedLanes, EventPump};
use crate::capture::losses::{LossWatch, Sample};
use crate::capture::source::Source;
use crate::capture::stacks::{self, Stacks};
use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use crate::flight::watch::Counts;
use crate::kernel::clock::{self, ClockWatch};
use crate::kernel::memory;
use crate::kernel::priority::{self, Denied};
use crate::kernel::stop_token::StopToken;
use crate::kernel::sys::Linux;
use crate::kernel::thread_times::{ThreadClock, ThreadTimes};
use crate::manager::{Alert, LongSpan, Stopped};
use crate::sink::drain::{Request, Written};
use crate::units::Nanos;

/// The result of a capture.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) ending: Ending,
    /// The time that the host and quotas took during the recording.
    pub(super) growth: Growth,
    /// Whether the engine stopped accepting records before the end.
    pub(super) cut_short: bool,
    /// The counts of trigger hits.
    pub(super) triggers: Counts,
    /// Problems that did not end the recording.
    pub(super) warnings: Vec<String>,
    /// The results of applications that recorded their own events.
    pub(super) providers: Stopped,
    /// The counts of stacks, if they were requested.
    pub(super) stacks: Option<stacks::Counts>,
}

/// The capture thread's state.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) source: Box<dyn Source>,
    pub(super) encoder: Encoder<BatchedLanes>,
    pub(super) engine: Arc<Engine>,
    pub(super) drain: Sender<Request>,
    pub(super) stop: StopToken,
    pub(super) progress: Arc<Progress>,
    /// When the events were enabled.
    pub(super) enabled: Nanos,
    pub(super) watches: Watches,
    /// How the drain thread has spent its time so far.
    pub(super) written: Arc<Written>,
    pub(super) flight: Option<Flight>,
    /// The rotation of the output, if there is one.
    pub(super) pieces: Option<Pieces>,
    /// The probes of the source's events.
    pub(super) placed: Placed,
    /// The source of stacks, if they were requested.
    pub(super) stacks: Option<Stacks>,
    /// Applications that record their own events, if enabled.
    pub(super) providers: Option<Providers>,
    /// Alerts and spans that are still held.
    pub(super) alerts: Alerts,
}

impl Capture {
    /// The figures that show how this thread and the drain thread spend their time.
    fn sample(&self, thread: &ThreadClock) -> Sample {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let effort = self.written.effort();
        let own = thread.read();
        let merging = self.source.merge_load().map(|(_, times)| times).unwrap_or_default();
        Sample {
            now: clock::now(),
            capture: ThreadTimes {
                running: own.running + merging.running,
                queued: own.queued + merging.queued,
                major_faults: own.major_faults + merging.major_faults,
            },
            drain: effort.times,
            saving: nanos(effort.saving),
            no_room: nanos(self.engine.waited()),
            events: self.progress.events(),
        }
    }

    /// Starts the thread; it calls `ended` when it ends, for any reason.
    pub(super) fn spawn(
        mut self,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<Captured>> {
        std::thread::Builder::new().name("fxtrec-capture".to_owned()).spawn(move || {
            let captured = self.run();
            ended();
            let Capture { source, placed, .. } = self;
            // The kernel keeps a definition as long as an event uses it.
            drop(source);
            drop(placed);
            captured
        })
    }

    fn run(&mut self) -> Captured {
        // On an overloaded machine, the rings must be emptied before they are full.
        priority::raise();
        let mut warnings = Vec::new();
        let mut handover = Handover::new(Instant::now());
        let mut pace = Pace::new(self.flight.is_some(), self.source.cpus().len());
        // Without the permission, the nice value and the ring size must suffice.
        let locked_memory = priority::lock_memory(&Linux).err();
        let thread = ThreadClock::of_this_thread();
        let mut precedence = RtPriority::new(Box::new(Linux));
        let mut events = 0;
        let losses = LossWatch::new(self.enabled, self.sample(&thread));
        // Events recorded since the start have not been handed out yet.
        let mut intake = EventPump::new(self.enabled, losses);
        let (mut waited, mut sleep) = (Duration::ZERO, Duration::ZERO);
        let mut clocks = ClockWatch::new();
        let mut has_stacks = false;
        if let Some(most) = self.pieces.as_ref().and_then(Pieces::events_of_a_round) {
            self.source.limit_rounds(most);
        }
        let mut stopped = None;
        while intake.open && (!self.stop.is_stopped() || self.source.has_more()) {
            // Events that one round leaves to the next may have happened before the stop.
            if self.stop.is_stopped() && intake.ended >= *stopped.get_or_insert_with(clock::now) {
                break;
            }
            let before = intake.ended;
            intake.round(&mut *self.source, &mut self.encoder);
            let ended = intake.ended;
            self.progress.update(self.encoder.stats());
            let sample = self.sample(&thread);
            intake.losses.look(sample, waited, sleep);
            let new = sample.events - std::mem::replace(&mut events, sample.events);
            let helper = self.source.merge_load().map(|(thread, _)| thread);
            precedence.after_look(sample.now, sample.capture.running, new, helper);
            if let Some(stacks) = &mut self.stacks {
                let room = self.pieces.as_ref().map_or(u64::MAX, Pieces::room_for_stacks);
                let written = stacks.round(&mut self.encoder, ended, room);
                intake.open = intake.open && written.is_ok();
                has_stacks = written == Ok(false);
                self.encoder.lanes().commit();
                // In circular mode threads are remembered for longer.
                if self.flight.is_none() {
                    self.encoder.forget_departed(stacks.known_since(ended));
                }
            }
            if let Some(change) = clocks.look() {
                let reported = clock_change(&mut self.encoder, ended, &change);
                intake.open = intake.open && reported.is_ok();
            }
            handover.after_round(Instant::now(), new, || self.engine.flush());
            intake.open = intake.open && self.hear_alerts(ended).is_ok();
            if let Some(flight) = &mut self.flight {
                let (engine, encoder, source) = (&self.engine, &mut self.encoder, &*self.source);
                let (providers, stacks) = (self.providers.as_ref(), self.stacks.as_mut());
                let round = Round { engine, encoder, source, providers, stacks, before, ended };
                flight.after_round(round);
            }
            if let Some(pieces) = &mut self.pieces {
                let (engine, encoder, source) = (&self.engine, &mut self.encoder, &*self.source);
                let (providers, stacks) = (self.providers.as_ref(), self.stacks.as_mut());
                let round = Round { engine, encoder, source, providers, stacks, before, ended };
                intake.open = intake.open && pieces.after_round(round, &self.drain).is_ok();
            }
            self.adapt(&mut warnings);
            sleep = pace.after(self.progress.events());
            if let Some(left) = self.pieces.as_ref().and_then(|it| it.until_due(has_stacks)) {
                sleep = sleep.min(left);
            }
            if self.source.has_more() {
                sleep = Duration::ZERO;
            }
            let before_wait = Instant::now();
            let result = self.source.wait(&self.stop, sleep);
            waited = before_wait.elapsed();
            if let Err(error) = result {
                warnings.push(format!("waiting for events failed: {error}; the recording ended"));
                break;
            }
        }
        // Events that are still in the rings are not counted: they are written to a file that has space.
        if let Some(pieces) = &mut self.pieces {
            let (engine, encoder, source) = (&self.engine, &mut self.encoder, &*self.source);
            let (providers, stacks) = (self.providers.as_ref(), self.stacks.as_mut());
            let (before, ended) = (intake.ended, intake.ended);
            let round = Round { engine, encoder, source, providers, stacks, before, ended };
            intake.open = intake.open && pieces.before_rest(round, &self.drain).is_ok();
        }
        let denied = Denied { real_time: precedence.refused(), locked_memory };
        drop(precedence);
        let growth = self.watches.growth();
        intake.rest(&mut *self.source, &mut self.encoder);
        if let Some(error) = self.source.take_failure() {
            warnings.push(format!("reading the last events failed: {error}"));
        }
        let EventPump { ended, mut open, mut losses, .. } = intake;
        losses.look(self.sample(&thread), waited, sleep);
        // COMMAND may have raised an alert just before it ended.
        if let Some(providers) = self.providers.as_ref().filter(|_| self.flight.is_some()) {
            providers.settle();
        }
        open = open && self.hear_alerts(ended).is_ok();
        while open && let Some(notice) = self.alerts.rest() {
            open = self.raise(notice).is_ok();
        }
        open = open && self.write_stacks_in_pieces(ended).is_ok();
        open = open && self.encoder.end_all_spans(ended).is_ok();
        let mut stacks = self.stacks.as_mut().map(|stacks| stacks.finish(&mut self.encoder, ended));
        open = open && stacks.as_ref().is_none_or(Result::is_ok);
        self.encoder.lanes().commit();
        self.progress.update(self.encoder.stats());
        if let Some(flight) = &mut self.flight {
            let (engine, encoder, source) = (&self.engine, &mut self.encoder, &*self.source);
            let (providers, before) = (self.providers.as_ref(), ended);
            let stacks = self.stacks.as_mut();
            flight.conclude(Round { engine, encoder, source, providers, stacks, before, ended });
        }
        if let Some(stacks) = self.stacks.as_mut().filter(|_| self.flight.is_some()) {
            // If the trace accepts no more records, neither does it accept what follows.
            let _ = stacks.write_all(&mut self.encoder, ended);
        }
        self.encoder.lanes().commit();
        let packets = self.engine.finish();
        if let Some(flight) = &self.flight {
            let beginning = flight.beginning(&self.engine, &packets, &mut self.encoder, ended);
            let _ = self.drain.send(Request::Write(beginning));
        }
        for packet in packets {
            // The drain thread ends only on the request below.
            let _ = self.drain.send(Request::Save(packet));
        }
        if let Some(mut stacks) = self.stacks.take().filter(|_| self.flight.is_some()) {
            let write = |piece| providers::write_and_wait(&self.drain, piece);
            let _ = stacks.explain(self.encoder.recorder(), ended, write);
            drop(stacks);
            // Applications' buffers are copied next.
            memory::trim();
        }
        if let Some(Ok((_, explanation))) = &mut stacks {
            let _ = self.drain.send(Request::Explain(std::mem::take(explanation)));
        }
        let providers = self.providers.take().map(Providers::finish).unwrap_or_default();
        warnings.extend(providers::warnings(&providers));
        let statistics = providers::statistics(&providers, self.encoder.recorder(), ended);
        let _ = self.drain.send(Request::Write(statistics));
        let _ = self.drain.send(Request::End);
        for glob in self.encoder.unseen_globs() {
            warnings.push(format!(
                "no process was in a cgroup that matches --cgroup '{glob}', so none was recorded for it; see /proc/PID/cgroup for the path of a process"
            ));
        }
        let mut ending = ending(&self.encoder, &*self.source, ended);
        ending.causes = losses.causes(denied);
        let triggers = self.encoder.watch().map(|watch| watch.counts()).unwrap_or_default();
        let stacks = stacks.and_then(Result::ok).map(|(counts, _)| counts);
        Captured { ending, growth, cut_short: !open, triggers, warnings, providers, stacks }
    }

    /// Writes the remaining stacks at the end, to as many files as needed if files have a size limit.
    fn write_stacks_in_pieces(&mut self, ended: Nanos) -> Result<(), Closed> {
        let (Some(pieces), Some(stacks)) = (&mut self.pieces, &mut self.stacks) else {
            return Ok(());
        };
        if !pieces.have_size() {
            return Ok(());
        }
        stacks.look_ahead();
        let (begun, mut is_cut_short) = (Instant::now(), false);
        loop {
            let is_all = stacks.round(&mut self.encoder, ended, pieces.room_for_stacks())?;
            self.encoder.lanes().commit();
            let spent = begun.elapsed();
            // The rest is written to the last file only if the output takes nothing.
            if is_all && !stacks.is_looking_ahead() || spent >= 2 * stacks::NAMING {
                return Ok(());
            }
            if spent >= stacks::NAMING && !is_cut_short {
                stacks.stop_looking_ahead();
                is_cut_short = true;
            }
            let (engine, encoder, source) = (&self.engine, &mut self.encoder, &*self.source);
            let (providers, stacks) = (self.providers.as_ref(), Some(&mut *stacks));
            let round = Round { engine, encoder, source, providers, stacks, before: ended, ended };
            pieces.after_round(round, &self.drain)?;
            self.engine.flush();
            std::thread::sleep(pieces::LOOK);
        }
    }

    /// Passes alerts and long spans of providers to the encoder, after the events up to `ended`.
    fn hear_alerts(&mut self, ended: Nanos) -> Result<(), Closed> {
        if self.flight.is_none() {
            return Ok(());
        }
        self.alerts.hear(self.providers.iter().flat_map(Providers::notices));
        while let Some(notice) = self.alerts.due(ended) {
            self.raise(notice)?;
        }
        Ok(())
    }

    fn raise(&mut self, notice: Notice) -> Result<(), Closed> {
        match notice {
            Notice::Alert(Alert { name, provider_name, pid, time, .. }) => {
                self.encoder.alert(time, &name, &format!("raised by {provider_name} ({pid})"))
            }
            Notice::Span(LongSpan { trigger, provider_name, pid, thread, since, time }) => {
                let from = format!("{provider_name} ({pid})");
                self.encoder.span(trigger, (since, time), thread, from)
            }
        }
    }

    /// Adapts to changes of the machine during the recording.
    fn adapt(&mut self, warnings: &mut Vec<String>) {
        let mut warn = |text: String| {
            // A failure repeats every second; report it once.
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        };
        for cpu in self.encoder.take_silent() {
            if let Err(error) = self.source.is_silent(cpu) {
                warn(format!(
                    "CPU {} has a silent task, and its switch records are not available: {error}",
                    cpu.0
                ));
            }
        }
        if let Err(error) = self.source.follow_hotplug() {
            warn(format!("a CPU that came online is not recorded: {error}"));
        }
    }
}
