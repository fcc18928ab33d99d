//! The main thread's part of a recording: start, wait, stop.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::error::RecordError;
use super::live::{Live, REDRAW};
use super::pipeline::{Finished, Pipeline};
use super::summary::{Expected, Summary, losses, missing};
use crate::cli::{EXIT_FAILURE, Mode, Progress};
use crate::commands::plan::{Filter, Plan};
use crate::commands::report::recorded::{Missing, Source};
use crate::kernel::child::Child;
use crate::kernel::machine;
use crate::kernel::notify;
use crate::kernel::signals::{Guard, Signals};
use crate::kernel::stop_token::StopToken;
use crate::kernel::sys::Linux;
use crate::kernel::terminal::{Terminal, stderr_takes_text};
use crate::report::Report;
use crate::report::text::write_brief;
use crate::sink::Target;
use crate::units::escape;
use crate::units::text::short;

/// How long recording continues after COMMAND's exit, since COMMAND's last switch occurs a little later.
const AFTERMATH: Duration = Duration::from_millis(5);

/// How often to check conditions that no descriptor reports.
const LOOK: Duration = Duration::from_millis(50);

/// The time at the end after which a line shows the progress of naming functions.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints a message that is neither trace nor summary.
pub(super) fn say(err: &mut dyn Write, text: impl Display) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(err, "fxtrec: {text}");
}

/// The result of a recording.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The status to exit with: COMMAND's.
    pub(super) code: u8,
    /// The latency report, if it was requested and possible.
    pub(super) report: Option<Report>,
    /// The reason why the trace is incomplete, if its output failed.
    pub(super) failure: Option<RecordError>,
    /// Files that were recorded but are no longer in place.
    pub(super) missing: Option<RecordError>,
    /// Whether a user ended it before the trace was complete.
    pub(super) cut_short: bool,
}

impl Outcome {
    /// It ended before the trace was complete.
    fn cut_short(code: u8) -> Outcome {
        Outcome { code, report: None, failure: None, missing: None, cut_short: true }
    }
}

/// A running recording, from the main thread's point of view.
pub(super) struct Session<'a> {
    plan: &'a Plan,
    signals: Signals,
    /// The other threads stop this token when they need the main thread.
    attention: StopToken,
    child: Option<Child>,
    /// Pidfds of the processes of `-p`, which become readable when they exit, if the kernel supports pidfds.
    watched: Vec<std::os::fd::OwnedFd>,
    /// Whether there were pidfds at the start.
    watches: bool,
    code: Option<u8>,
    live: Option<Live>,
    deadline: Option<Instant>,
    /// How often a user requested the end, by Ctrl-C or SIGTERM. SIGHUP is often sent twice, by the shell and by the kernel, and counts
    /// once.
    requests: u32,
    /// How many of these requests a process sent. COMMAND gets the others from the terminal too, and may handle them itself.
    sent: u32,
    /// Whether the end was requested by anything but Ctrl-C, which is primarily meant for COMMAND.
    asked_to_end: bool,
    snapshot_wanted: bool,
    /// How many snapshots of triggers were written or failed.
    snapshots: u32,
    /// The signal by which the terminal stops this job.
    stop_asked: Option<Signal>,
    /// The machine's count of context switches at the start.
    switched: Option<u64>,
    /// Ends the process while this thread does not read signals; once the trace is complete, with COMMAND's status.
    guard: Option<&'a Guard>,
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
            sent: 0,
            asked_to_end: false,
            snapshot_wanted: false,
            snapshots: 0,
            stop_asked: None,
            switched: machine::switches(&Linux),
            guard: None,
            err,
        }
    }

    /// Sets the status with which `guard` ends the process when the trace is complete and only the summary is missing.
    pub(super) fn lead(&mut self, guard: &'a Guard) {
        self.guard = Some(guard);
    }

    /// Waits for the end of the recording, ends it, prints its result, and waits for COMMAND.
    pub(super) fn run(
        mut self,
        pipeline: Pipeline,
        figures: Source,
        (cpus, lacking): (usize, &[&str]),
    ) -> Result<Outcome, RecordError> {
        self.say_begun();
        while !self.is_over()? {
            self.wait(Some(&pipeline), self.timeout())?;
            if std::mem::take(&mut self.snapshot_wanted) {
                self.ask_snapshot(&pipeline);
            }
        }
        if self.code.is_some() {
            std::thread::sleep(AFTERMATH);
        }
        // A snapshot may have been requested before COMMAND ended, even if COMMAND's end was noticed first.
        self.wait(Some(&pipeline), Duration::ZERO)?;
        if std::mem::take(&mut self.snapshot_wanted) {
            self.ask_snapshot(&pipeline);
        }
        pipeline.stop();
        let switched = self.switched.zip(machine::switches(&Linux));
        let switched = switched.map_or(0, |(before, now)| now.saturating_sub(before));
        // The first request may be the one that ended COMMAND, even if it is read only now.
        self.wait(Some(&pipeline), Duration::ZERO)?;
        let (before, asked) = (self.requests, self.requests.max(1));
        let (ended, mut naming) = (Instant::now(), None);
        while !pipeline.is_done() {
            self.wait(Some(&pipeline), LOOK)?;
            // COMMAND no longer writes to the terminal.
            if let Some(named) = pipeline.named.as_ref().filter(|_| ended.elapsed() >= PATIENCE) {
                self.clear_line();
                let when = self.plan.display.progress;
                let line = naming.get_or_insert_with(|| Live::new(when, self.code.is_none()));
                // If the terminal is gone, the line is gone too.
                let _ = line.as_mut().map(|line| line.draw_naming(named));
            }
            if let Some(named) = pipeline.named.as_ref().filter(|_| self.requests > before) {
                named.cut();
            }
            if self.requests > asked {
                self.say_cut_short();
                return self.wait_for_command().map(Outcome::cut_short);
            }
        }
        // If the terminal is gone, there is nothing to clear.
        let _ = naming.flatten().map(|mut line| line.clear());
        self.clear_line();
        self.tell_news(&pipeline);
        let Some(finished) = self.in_thread(asked, move || pipeline.finish())? else {
            self.say_cut_short();
            return self.wait_for_command().map(Outcome::cut_short);
        };
        let finished = finished?;
        let expected = Expected { scope: &self.plan.scope, switched };
        let missing = missing(&finished, &self.plan.output.target, expected);
        if let (Some(guard), Some(code)) = (self.guard, self.code)
            && finished.result.is_ok()
            && missing.is_none()
        {
            guard.end_with(code);
        }
        self.conclude(&finished, (cpus, lacking));
        let bytes = finished.totals.record_bytes;
        let report = match self.in_thread(asked, move || figures.report(bytes))? {
            Some(report) => self.figures(report, &finished),
            None => {
                say(self.err, "stopped before the summary was complete: the trace is complete");
                None
            }
        };
        let code = self.wait_for_command()?;
        let missing = missing.map(RecordError::Missing);
        let unsaved = finished.unsaved;
        let failure = finished.result.err().map(|source| RecordError::Output { source, unsaved });
        Ok(Outcome { code, report, failure, missing, cut_short: false })
    }

    /// Prints that the recording has begun, if no status line shows it. With a COMMAND, the recording begins when COMMAND starts.
    fn say_begun(&mut self) {
        let Plan { display, scope, output, duration, .. } = self.plan;
        let is_reported =
            self.live.is_some() || display.quiet || display.progress == Progress::Never;
        if self.child.is_some() || is_reported {
            return;
        }
        let what = match scope {
            Filter::Machine => "the whole machine",
            Filter::Processes { .. } => "these processes",
            Filter::Cgroups(_) => "these cgroups",
            Filter::Owned => "one user's processes",
        };
        let to = match &output.target {
            Target::Stdout => "standard output".to_owned(),
            Target::Path(path) => escape::line(&path.to_string_lossy()).into_owned(),
        };
        let time = duration.map(|time| format!(" for {}", short(time))).unwrap_or_default();
        say(self.err, format_args!("recording {what} to {to}{time}; stop with Ctrl-C or SIGTERM"));
    }

    fn say_cut_short(&mut self) {
        self.clear_line();
        // The other threads may be blocked on the file that messages are written to. They end with the process.
        if stderr_takes_text() {
            say(self.err, "stopped before the trace was complete: the written part is readable");
        }
    }

    /// Runs work that may take a long time or block forever in another thread: ending a blocked output, or the report of a long trace.
    /// Returns `None` if a user requested the end more often than the limit in that time; the thread then ends with the process.
    fn in_thread<T: Send + 'static>(
        &mut self,
        asked: u32,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, RecordError> {
        let failed = RecordError::while_doing("create an eventfd");
        self.attention = StopToken::new().map_err(failed)?;
        let ended = self.attention.clone();
        let thread = std::thread::Builder::new().name("fxtrec-conclude".to_owned());
        let thread = thread.spawn(move || {
            let result = work();
            ended.stop();
            result
        });
        let thread = thread.map_err(RecordError::while_doing("start the last thread"))?;
        loop {
            if self.attention.is_stopped() {
                let gone = |_| RecordError::System {
                    doing: "finish the trace",
                    source: std::io::Error::other("a thread of fxtrec panicked"),
                };
                return thread.join().map(Some).map_err(gone);
            }
            if thread.is_finished() {
                // It panicked.
                self.attention.stop();
                continue;
            }
            if self.requests > asked {
                return Ok(None);
            }
            self.wait(None, LOOK)?;
        }
    }

    /// Whether the recording should end.
    fn is_over(&mut self) -> Result<bool, RecordError> {
        if let Some(child) = &mut self.child
            && self.code.is_none()
        {
            let ended = child.try_wait().map_err(RecordError::while_doing("wait for COMMAND"))?;
            self.code = ended.map(crate::kernel::child::Ended::exit_code);
        }
        // With a COMMAND, Ctrl-C is primarily meant for COMMAND, unless COMMAND ignores it.
        let ignored = self.signals.inherited().interrupt_ignored;
        let patience = if self.child.is_some() && !ignored { 2 } else { 1 };
        let watched_ended = self.watches && self.child.is_none() && self.watched.is_empty();
        Ok(self.code.is_some()
            || self.attention.is_stopped()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.plan.flight.stop_after.is_some_and(|most| self.snapshots >= most)
            || self.asked_to_end
            || self.requests >= patience
            || watched_ended)
    }

    fn timeout(&self) -> Duration {
        let until_deadline =
            self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let until_redraw = self.live.is_some().then_some(REDRAW);
        // Without a pidfd, SIGCHLD reports the end; everything else has a descriptor.
        let most = Duration::from_secs(3600);
        until_deadline.into_iter().chain(until_redraw).fold(most, Duration::min)
    }

    /// Waits for an event and handles signals.
    fn wait(&mut self, pipeline: Option<&Pipeline>, timeout: Duration) -> Result<(), RecordError> {
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(self.watched.iter().map(AsFd::as_fd));
        fds.extend(pipeline.and_then(Pipeline::bell).map(AsFd::as_fd));
        let waited = match self.attention.is_stopped() {
            // The descriptor stays readable, and would end every later wait immediately.
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
        self.stop_with_command()?;
        if let Some(pipeline) = pipeline {
            self.tell_news(pipeline);
        }
        if let (Some(live), Some(pipeline)) = (&mut self.live, pipeline) {
            // If the terminal is gone, the line is gone too.
            let _ = live.draw(&pipeline.progress, &pipeline.written);
        }
        Ok(())
    }

    fn take(&mut self, signal: Signal, from_user: bool) {
        if matches!(signal, Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM) {
            self.requests += 1;
            self.sent += u32::from(from_user);
        }
        match signal {
            // The terminal has already sent COMMAND the signal.
            Signal::SIGINT | Signal::SIGQUIT if from_user => self.pass_on(signal),
            Signal::SIGTERM | Signal::SIGHUP => {
                self.asked_to_end = true;
                if from_user || signal == Signal::SIGTERM {
                    self.pass_on(signal);
                }
            }
            Signal::SIGUSR2 => self.snapshot_wanted = true,
            Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU => {
                self.stop_asked = Some(signal);
                if from_user {
                    self.pass_on(signal);
                }
            }
            _ => {}
        }
    }

    /// Stops this process when the terminal stops the job and COMMAND has stopped; COMMAND may do something before it stops, or not stop at
    /// all. Both continue together.
    fn stop_with_command(&mut self) -> Result<(), RecordError> {
        let Some(signal) = self.stop_asked else { return Ok(()) };
        if let Some(child) = &mut self.child {
            child.try_wait().map_err(RecordError::while_doing("wait for COMMAND"))?;
            if !child.is_stopped() {
                return Ok(());
            }
        }
        self.stop_asked = None;
        self.clear_drawing();
        self.signals.stop_here(signal).map_err(RecordError::while_doing("stop with COMMAND"))?;
        // The signal that continued this process may have been sent only to it.
        self.pass_on(Signal::SIGCONT);
        Ok(())
    }

    /// Requests a snapshot of the current content of circular mode.
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

    /// Prints the results of snapshots.
    fn tell_news(&mut self, pipeline: &Pipeline) {
        for news in pipeline.news() {
            self.clear_drawing();
            self.snapshots += u32::from(news.is_of_trigger());
            if !(self.plan.display.quiet && news.is_good()) {
                say(self.err, &news);
            }
            // As with READY, COMMAND may use it itself.
            if (self.child.is_none() || notify::is_for_fxtrec())
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
            // If the terminal is gone, there is nothing to clear.
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
        let warnings = warnings.chain(&finished.handed_over.failed);
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

    /// Prints in a few lines how long threads waited.
    fn figures(&mut self, report: Result<Report, Missing>, finished: &Finished) -> Option<Report> {
        match report {
            Ok(report) => {
                if self.plan.display.summary {
                    // If standard error is closed, the message is lost.
                    let _ = write_brief(&report, self.err);
                }
                Some(report)
            }
            Err(Missing::Nothing) => None,
            // A failed output is reported elsewhere.
            Err(Missing::Incomplete) if finished.result.is_err() => None,
            Err(missing) => {
                say(self.err, missing);
                None
            }
        }
    }

    /// Waits for COMMAND to end, and meanwhile passes signals on to it. COMMAND may never end, even by SIGKILL: after the second signal, it
    /// gets only a short time.
    fn wait_for_command(&mut self) -> Result<u8, RecordError> {
        let (asked, mut last) = (self.requests, None);
        loop {
            let Some(child) = &mut self.child else { return Ok(0) };
            let ended = child.try_wait().map_err(RecordError::while_doing("wait for COMMAND"))?;
            if let Some(ended) = ended {
                return Ok(ended.exit_code());
            }
            if self.sent >= 2 || self.requests >= 3 {
                last.get_or_insert_with(Instant::now);
            }
            let is_over = last.is_some_and(|last| last.elapsed() >= super::PATIENCE);
            if is_over || self.requests > asked + 1 {
                say(self.err, "COMMAND is still running; not waiting for it any longer");
                return Ok(EXIT_FAILURE);
            }
            self.wait(None, if last.is_some() { LOOK } else { Duration::from_secs(3600) })?;
        }
    }
}
