//! The main thread's part of a recording: start, wait, stop.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::error::RecordError;
use super::live::{Live, REDRAW};
use super::pipeline::{Finished, Pipeline};
use super::summary::{Summary, losses};
use crate::cli::Mode;
use crate::commands::plan::Plan;
use crate::commands::report::recorded::{Missing, Source};
use crate::kernel::child::Child;
use crate::kernel::notify;
use crate::kernel::signals::Signals;
use crate::kernel::stop_token::StopToken;
use crate::kernel::terminal::Terminal;
use crate::report::Report;
use crate::report::text::write_brief;
use crate::sink::Target;
use crate::units::escape;

/// COMMAND's last switch comes a little after its end is known: recording goes on for this long.
const AFTERMATH: Duration = Duration::from_millis(5);

/// What no descriptor tells is looked at this often.
const LOOK: Duration = Duration::from_millis(50);

/// Says something that is neither trace nor summary.
pub(super) fn say(err: &mut dyn Write, text: impl Display) {
    // When standard error is gone there is nobody to tell.
    let _ = writeln!(err, "fxtrec: {text}");
}

/// What a recording came to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The status to exit with: COMMAND's.
    pub(super) code: u8,
    /// What it says about latency, when somebody wanted that and it could be had.
    pub(super) report: Option<Report>,
    /// Why the trace is not whole, when its output failed.
    pub(super) failure: Option<RecordError>,
}

/// A recording that runs, as the main thread sees it.
pub(super) struct Session<'a> {
    plan: &'a Plan,
    signals: Signals,
    /// Stopped by the other threads when they need the main thread.
    attention: StopToken,
    child: Option<Child>,
    /// The processes of `-p`, as descriptors that become readable when they end, where there are such.
    watched: Vec<std::os::fd::OwnedFd>,
    /// Whether there are such descriptors.
    watches: bool,
    code: Option<u8>,
    live: Option<Live>,
    deadline: Option<Instant>,
    /// How often a user asked for the end, by Ctrl-C or SIGTERM. A hang-up often comes twice, from the shell and from
    /// the kernel, and means the same both times.
    requests: u32,
    /// Whether it was not with Ctrl-C, which is first of all an affair of COMMAND.
    told_to_end: bool,
    snapshot_wanted: bool,
    err: &'a mut dyn Write,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        signals: Signals,
        attention: StopToken,
        child: Option<Child>,
        watched: Vec<std::os::fd::OwnedFd>,
        err: &'a mut dyn Write,
    ) -> Session<'a> {
        Session {
            plan,
            signals,
            attention,
            child,
            watches: !watched.is_empty(),
            watched,
            code: None,
            live: Live::new(plan.display.progress, plan.launch.is_some()),
            deadline: plan.duration.map(|duration| Instant::now() + duration),
            requests: 0,
            told_to_end: false,
            snapshot_wanted: false,
            err,
        }
    }

    /// Waits until the recording is to end, ends it, says what it came to, and waits for COMMAND.
    pub(super) fn run(
        mut self,
        pipeline: Pipeline,
        figures: Source,
        (cpus, lacking): (usize, &[&str]),
    ) -> Result<Outcome, RecordError> {
        while !self.is_over()? {
            self.wait(Some(&pipeline), self.timeout())?;
            if std::mem::take(&mut self.snapshot_wanted) {
                self.ask_snapshot(&pipeline);
            }
        }
        if self.code.is_some() {
            std::thread::sleep(AFTERMATH);
        }
        pipeline.stop();
        // The first request may be the one that ended COMMAND, and be read only now.
        let asked = self.requests.max(1);
        while !pipeline.is_done() {
            self.wait(Some(&pipeline), LOOK)?;
            if self.requests > asked {
                self.clear_line();
                say(
                    self.err,
                    "stopped before the trace was complete: the written part is readable",
                );
                // The threads wait for an output that takes nothing; they end with the process.
                let code = self.wait_for_command()?;
                return Ok(Outcome { code, report: None, failure: None });
            }
        }
        self.clear_line();
        self.tell_news(&pipeline);
        let finished = pipeline.finish()?;
        self.conclude(&finished, (cpus, lacking));
        let report = self.figures(figures, &finished);
        let code = self.wait_for_command()?;
        let unsaved = finished.unsaved;
        let failure = finished.result.err().map(|source| RecordError::Output { source, unsaved });
        Ok(Outcome { code, report, failure })
    }

    /// Whether the recording has nothing more to wait for.
    fn is_over(&mut self) -> Result<bool, RecordError> {
        if let Some(child) = &mut self.child
            && self.code.is_none()
        {
            let ended = child.try_wait().map_err(RecordError::while_doing("wait for COMMAND"))?;
            self.code = ended.map(crate::kernel::child::Ended::exit_code);
        }
        // With a COMMAND, Ctrl-C is first of all its own affair.
        let patience = if self.child.is_some() { 2 } else { 1 };
        let watched_ended = self.watches && self.child.is_none() && self.watched.is_empty();
        Ok(self.code.is_some()
            || self.attention.is_stopped()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.told_to_end
            || self.requests >= patience
            || watched_ended)
    }

    fn timeout(&self) -> Duration {
        let until_deadline =
            self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let until_redraw = self.live.is_some().then_some(REDRAW);
        // Without a pidfd SIGCHLD tells, and everything else has a descriptor.
        let most = Duration::from_secs(3600);
        until_deadline.into_iter().chain(until_redraw).fold(most, Duration::min)
    }

    /// Waits for something to happen, and deals with signals.
    fn wait(&mut self, pipeline: Option<&Pipeline>, timeout: Duration) -> Result<(), RecordError> {
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(self.watched.iter().map(AsFd::as_fd));
        fds.extend(pipeline.and_then(Pipeline::bell).map(AsFd::as_fd));
        let waited = match self.attention.is_stopped() {
            // It stays readable, and would end every wait at once.
            true => {
                StopToken::new().and_then(|quiet| quiet.wait(fds.into_iter(), timeout.min(LOOK)))
            }
            false => self.attention.wait(fds.into_iter(), timeout),
        };
        waited.map_err(RecordError::while_doing("wait for signals"))?;
        self.watched.retain(|process| !crate::kernel::child::has_ended(process));
        while let Some(caught) =
            self.signals.read().map_err(RecordError::while_doing("read a signal"))?
        {
            self.take(caught.signal, caught.from_user);
        }
        if let Some(pipeline) = pipeline {
            self.tell_news(pipeline);
        }
        if let (Some(live), Some(pipeline)) = (&mut self.live, pipeline) {
            // A terminal that is gone takes the line with it.
            let _ = live.draw(&pipeline.progress, &pipeline.written);
        }
        Ok(())
    }

    fn take(&mut self, signal: Signal, from_user: bool) {
        match signal {
            Signal::SIGINT | Signal::SIGQUIT => {
                self.requests += 1;
                // From the terminal COMMAND has it already.
                if from_user {
                    self.pass_on(signal);
                }
            }
            Signal::SIGTERM | Signal::SIGHUP => {
                self.requests += u32::from(signal == Signal::SIGTERM);
                self.told_to_end = true;
                if from_user || signal == Signal::SIGTERM {
                    self.pass_on(signal);
                }
            }
            Signal::SIGUSR2 => self.snapshot_wanted = true,
            _ => {}
        }
    }

    /// Lets what circular mode holds be written into a file of its own.
    fn ask_snapshot(&mut self, pipeline: &Pipeline) {
        let Target::Path(_) = &self.plan.output.target else {
            return say(
                self.err,
                "SIGUSR2: cannot write a snapshot: the output is not a file (-o)",
            );
        };
        if self.plan.mode != Mode::Circular {
            return say(self.err, "SIGUSR2: cannot write a snapshot without --mode circular");
        }
        pipeline.ask_snapshot();
    }

    /// Says what became of snapshots.
    fn tell_news(&mut self, pipeline: &Pipeline) {
        for news in pipeline.news() {
            self.clear_drawing();
            if !(self.plan.display.quiet && news.is_good()) {
                say(self.err, &news);
            }
            // As with READY, a COMMAND may have something of its own to say there.
            if self.child.is_none()
                && let Some(notice) = news.notice()
                && let Err(error) = notify::tell(&notice)
            {
                say(self.err, format_args!("cannot report a snapshot: {error}"));
            }
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if let Some(child) = &self.child
            && let Err(error) = child.signal(signal)
        {
            say(self.err, format_args!("cannot pass {signal} on to COMMAND: {error}"));
        }
    }

    fn clear_drawing(&mut self) {
        if let Some(live) = &mut self.live {
            // A terminal that is gone has nothing to be cleared.
            let _ = live.clear();
        }
    }

    fn clear_line(&mut self) {
        self.clear_drawing();
        self.live = None;
    }

    fn conclude(&mut self, finished: &Finished, (cpus, lacking): (usize, &[&str])) {
        let series = finished.series.as_ref();
        let warnings = series.into_iter().flat_map(|series| &series.warnings);
        for warning in finished.captured.warnings.iter().chain(warnings) {
            say(self.err, escape::line(warning));
        }
        if finished.captured.cut_short && finished.result.is_ok() {
            say(
                self.err,
                "the trace buffer is full, so the recording ended: use a larger --buffer-size, or --mode streaming",
            );
        }
        if self.plan.display.summary {
            let summary = Summary {
                finished,
                cpus,
                lacking,
                target: &self.plan.output.target,
                colour: Terminal::of_stderr().colour,
                asked_for: &self.plan.trace_points.kinds(),
                partial: self.plan.mode == Mode::Circular,
                armed: !self.plan.flight.triggers.is_empty(),
                asked_for_stacks: self.plan.stacks.is_some_and(|wanted| !wanted.chosen),
            };
            let _ = write!(self.err, "{summary}");
        } else {
            for loss in losses(finished) {
                say(self.err, loss);
            }
        }
    }

    /// Analyses the recording, and says in a few lines how long threads waited.
    fn figures(&mut self, source: Source, finished: &Finished) -> Option<Report> {
        match source.report(finished.totals.record_bytes) {
            Ok(report) => {
                if self.plan.display.summary {
                    // When standard error is gone there is nobody to tell.
                    let _ = write_brief(&report, self.err);
                }
                Some(report)
            }
            Err(Missing::Nothing) => None,
            // Of an output that failed something is said where it is due.
            Err(Missing::Incomplete) if finished.result.is_err() => None,
            Err(missing) => {
                say(self.err, missing);
                None
            }
        }
    }

    /// Waits for COMMAND to end, if it has not, and passes signals on to it meanwhile.
    fn wait_for_command(&mut self) -> Result<u8, RecordError> {
        let asked = self.requests;
        loop {
            let Some(child) = &mut self.child else { return Ok(0) };
            let ended = child.try_wait().map_err(RecordError::while_doing("wait for COMMAND"))?;
            if let Some(ended) = ended {
                return Ok(ended.exit_code());
            }
            if self.requests > asked + 1 {
                say(self.err, "COMMAND is still running; not waiting for it any longer");
                return Ok(128 + Signal::SIGINT as u8);
            }
            self.wait(None, Duration::from_secs(3600))?;
        }
    }
}
