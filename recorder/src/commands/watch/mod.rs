//! `fxtrec watch`: records until it is stopped, and explains each incident in a line.
//!
//! ```text
//!   fxtrec record --mode circular     |........|........|........|      in memory; COMMAND, if there is one, is its child
//!   SIGUSR2                                    x        x        x      every 10 s: a snapshot of the time since the last one, and
//!                                       |------|                        two seconds before it
//!                                             |--------|
//!   this process                        looks, prints, removes the snapshot or keeps it
//! ```
//!
//! The rules of `fxtrec why` determine what is unusual in each snapshot. An incident is printed once: for the first snapshot that contains
//! its end. The analysis takes at most [`MOST_SHARE`] of a CPU: if the machine is too busy for that, it runs less often, and reports how
//! much of the time it skipped.

mod incidents;
mod kept;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};

use super::live::history::History;
use super::scratch::Scratch;
use crate::cli::WatchArgs;
use crate::kernel::priority::ThreadId;
use crate::kernel::signals::Signals;
use crate::units::text::{counted, short};
use incidents::{Incident, Incidents};
use kept::Kept;

/// The analysis takes at most one part in this number of a CPU.
const MOST_SHARE: u32 = 100;

/// A snapshot overlaps the previous one by this much, because an incident may have begun there.
const BEFORE: Duration = Duration::from_secs(2);

/// The shortest time between two analyses.
const SHORTEST: Duration = Duration::from_secs(1);

/// The reason why the watch ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    #[error("cannot catch signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot use {} for recordings: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot start the recorder: {0}")]
    Recorder(#[source] io::Error),
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Watches until asked to end, the duration has passed or COMMAND has exited; returns the exit status of the recorder, which is that of
/// COMMAND. Must be called before the process starts a second thread.
///
/// # Errors
/// Returns [`WatchError`].
pub fn run(args: &WatchArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8, WatchError> {
    let mut signals = Signals::catch().map_err(WatchError::Signals)?;
    let every = args.every.duration().max(SHORTEST);
    let failed = |path: &Path, source| WatchError::Folder { path: path.to_owned(), source };
    // Recordings that are not kept are removed with this directory, which no other user can enter.
    let temporary = std::env::temp_dir();
    let private = Scratch::make(&temporary, "fxtrec-watch-");
    let private = private.map_err(|error| failed(&temporary, error))?;
    let folder = match args.keep {
        Some(_) => args.output.as_path(),
        None => private.path(),
    };
    if !folder.is_dir() {
        return Err(failed(folder, io::ErrorKind::NotADirectory.into()));
    }
    let output = folder.join("watch.fxt");
    let recorder = History::beside(&output, &options(args, every), &args.command);
    let recorder = recorder.map_err(WatchError::Recorder)?;
    // The recorder and COMMAND have already started with the usual priority.
    ThreadId::current().be_background();
    let mut watch = Watch {
        recorder,
        incidents: Incidents::new(args.min.duration()),
        kept: Kept::new(args.keep.unwrap_or(0)),
        json: args.json,
        alone: args.command.is_empty(),
        began: Instant::now(),
        printed: 0,
        out,
        err,
    };
    let status = match watch.until_the_end(&mut signals, every, &output) {
        // The reader has closed the output.
        Err(WatchError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
        ended => ended?,
    };
    watch.sum_up();
    Ok(status)
}

/// The options of the recorder.
fn options(args: &WatchArgs, every: Duration) -> Vec<OsString> {
    let mut options: Vec<OsString> = vec!["-q".into(), "--no-config".into()];
    let mut add = |name: &str, value: String| options.extend([name.into(), value.into()]);
    add("--before", format!("{}ms", (every + BEFORE).as_millis()));
    if let Some(duration) = args.duration {
        add("--duration", format!("{}ns", duration.duration().as_nanos()));
    }
    if let Some(user) = &args.user {
        add("--user", user.clone());
    }
    args.pids.iter().for_each(|pid| add("--pid", pid.to_string()));
    args.cgroups.iter().for_each(|glob| add("--cgroup", glob.clone()));
    if args.pids.is_empty() && args.cgroups.is_empty() && args.command.is_empty() {
        options.push("--all".into());
    }
    options
}

struct Watch<'a> {
    recorder: History,
    incidents: Incidents,
    kept: Kept,
    json: bool,
    /// Whether the recorder has no COMMAND, and gets no signals from the terminal.
    alone: bool,
    began: Instant,
    printed: u64,
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

/// The result of a wait.
enum Woken {
    Time,
    /// The recorder may have ended.
    Child,
    /// A signal requests the end. `from_user`: a process sent it, not the terminal, which sends it to the recorder as well.
    End {
        from_user: bool,
    },
}

impl Watch<'_> {
    fn until_the_end(
        &mut self,
        signals: &mut Signals,
        every: Duration,
        output: &Path,
    ) -> Result<u8, WatchError> {
        let mut due = Instant::now() + every;
        let mut ending = false;
        let status = loop {
            match wait(signals, due, ending)? {
                Woken::Child => {}
                Woken::End { from_user } => {
                    if from_user || ending || self.alone {
                        self.recorder.end();
                    }
                    ending = true;
                }
                Woken::Time => match self.recorder.dump() {
                    Ok(path) => {
                        let cost = self.look(&path)?;
                        due = (due + every).max(Instant::now() + cost * (MOST_SHARE - 1));
                    }
                    Err(error) if self.recorder.status().is_none() => {
                        self.tell(&format!("nothing to analyse: {error}"));
                        due = Instant::now() + every;
                    }
                    Err(_) => {}
                },
            }
            if let Some(status) = self.recorder.status() {
                break status;
            }
        };
        if output.exists() {
            self.look(output)?;
        }
        Ok(status)
    }

    /// Analyses a recording and prints its new incidents; the recording is kept or removed. Returns the CPU time that this took.
    fn look(&mut self, path: &Path) -> Result<Duration, WatchError> {
        let before = cpu_time();
        let new = match self.incidents.of(path) {
            Ok(new) => new,
            Err(error) => {
                self.tell(&format!("a recording cannot be explained: {error}"));
                Vec::new()
            }
        };
        let worst = new.iter().map(|it| it.excess_ns).max();
        let (kept, removed) = self.kept.consider(path, worst);
        for failure in removed {
            self.tell(&failure);
        }
        for incident in &new {
            self.printed += 1;
            self.print(incident, kept.then_some(path))?;
        }
        self.out.flush()?;
        Ok(cpu_time().saturating_sub(before))
    }

    fn print(&mut self, incident: &Incident, file: Option<&Path>) -> Result<(), WatchError> {
        match self.json {
            true => incident.write_json(file, self.out)?,
            false => incident.write_line(file, self.out)?,
        }
        Ok(())
    }

    fn tell(&mut self, what: &str) {
        // If standard error is closed, the message has no reader.
        let _ = writeln!(self.err, "fxtrec: {what}");
    }

    fn sum_up(&mut self) {
        let printed = counted(self.printed, "incident", "incidents");
        let mut text = format!("{printed} in {}", short(self.began.elapsed()));
        let missed = self.incidents.not_seen();
        if missed > Duration::ZERO {
            text += &format!(
                "; {} of it was skipped, to stay below 1 % of a CPU or because memory did not reach back that far",
                short(missed)
            );
        }
        self.tell(&text);
    }
}

/// Waits until a time, or for a signal. If the end was requested, waits only for signals.
fn wait(signals: &mut Signals, due: Instant, ending: bool) -> Result<Woken, WatchError> {
    loop {
        while let Some(caught) = signals.read().map_err(WatchError::Signals)? {
            match caught.signal {
                Signal::SIGCHLD => return Ok(Woken::Child),
                Signal::SIGUSR2 => {}
                _ => return Ok(Woken::End { from_user: caught.from_user }),
            }
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() && !ending {
            return Ok(Woken::Time);
        }
        let timeout = match ending {
            true => PollTimeout::NONE,
            false => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        };
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(WatchError::Signals(error.into())),
        }
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
