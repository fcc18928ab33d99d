//! Complete recordings: of a command, and of the machine until they are stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::binary;
use crate::event::Event;
use crate::folder::{Done, Folder};
use crate::machine::Turn;
use crate::process::Process;
use crate::skip::skip;
use crate::trace::Trace;
use crate::wait;

/// A finished recording that meets all guarantees and lost nothing.
#[derive(Debug)]
pub struct Recording {
    pub trace: Trace,
    pub printed: String,
    pub said: String,
}

/// Records COMMAND or, without one, whatever the options request.
///
/// # Panics
/// When fxtrec fails, COMMAND fails, or the recording lacks something.
#[track_caller]
pub fn record(options: &[&str], command: &[&str]) -> Recording {
    record_in(&Folder::new(), options, command)
}

/// The same with a directory in which fxtrec and COMMAND run; the trace is t.fxt in it.
///
/// # Panics
/// When fxtrec fails, COMMAND fails, or the recording lacks something.
#[track_caller]
pub fn record_in(folder: &Folder, options: &[&str], command: &[&str]) -> Recording {
    record_by(binary::command(), folder, options, command)
}

/// The same with a command that runs fxtrec.
///
/// # Panics
/// When fxtrec fails, COMMAND fails, or the recording lacks something.
#[track_caller]
pub fn record_by(
    fxtrec: Command,
    folder: &Folder,
    options: &[&str],
    command: &[&str],
) -> Recording {
    let Done { stdout, stderr, .. } = run(fxtrec, folder, options, command);
    Recording::read(&folder.path("t.fxt"), stdout, stderr)
}

/// The same while this test has the machine to itself; other tests can use it when the trace is read.
///
/// # Panics
/// When fxtrec fails, COMMAND fails, or the recording lacks something.
#[track_caller]
pub fn record_in_turn(
    turn: Turn,
    fxtrec: Command,
    folder: &Folder,
    options: &[&str],
    command: &[&str],
) -> Recording {
    record_beside(turn, || (), fxtrec, folder, options, command)
}

/// The same, next to a process that is started for it and ended on drop.
///
/// # Panics
/// When fxtrec fails, COMMAND fails, or the recording is incomplete.
#[track_caller]
pub fn record_beside<Other>(
    turn: Turn,
    start: impl FnOnce() -> Other,
    fxtrec: Command,
    folder: &Folder,
    options: &[&str],
    command: &[&str],
) -> Recording {
    let other = start();
    let Done { stdout, stderr, .. } = run(fxtrec, folder, options, command);
    drop(other);
    turn.give_back();
    Recording::read(&folder.path("t.fxt"), stdout, stderr)
}

#[track_caller]
fn run(mut fxtrec: Command, folder: &Folder, options: &[&str], command: &[&str]) -> Done {
    fxtrec.args(["-o", "t.fxt"]).args(options);
    if !command.is_empty() {
        fxtrec.arg("--").args(command);
    }
    folder.run(&mut fxtrec).expect(0)
}

impl Recording {
    /// Reads the trace, and checks everything that fxtrec guarantees for every recording.
    ///
    /// # Panics
    /// When something is missing or out of order.
    #[track_caller]
    pub fn read(trace: &Path, printed: String, said: String) -> Recording {
        let trace = Trace::read(trace);
        trace.assert_sound();
        trace.info();
        let stats = trace.stats();
        assert_eq!((stats.number("lost"), stats.number("undecoded")), (0, 0), "{said}");
        let inferred = trace.switches.iter().filter(|switch| switch.inferred).count() as u64;
        assert_eq!(stats.number("inferred_switches"), inferred, "{said}");
        let recording = Recording { trace, printed, said };
        recording.assert_durations_nest();
        recording
    }

    /// Each end must belong to the innermost duration of its thread, and nothing may be left open.
    #[track_caller]
    fn assert_durations_nest(&self) {
        let mut open: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for event in &self.trace.events {
            let stack = open.entry(event.thread).or_default();
            if event.begins() {
                stack.push(&event.name);
            } else if event.ends() {
                assert_eq!(stack.pop(), Some(event.name.as_str()), "{event:?}");
            }
        }
        open.retain(|_, stack| !stack.is_empty());
        assert_eq!(open, BTreeMap::new(), "all that begins ends");
    }

    /// The words of each line that COMMAND printed.
    pub fn lines(&self) -> Vec<Vec<&str>> {
        self.printed.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    /// The events of this name that are not fxtrec's own.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        self.trace.events.iter().filter(move |event| event.name == name)
    }

    pub fn count(&self, name: &str) -> usize {
        self.named(name).count()
    }

    /// The arguments `arg` of the events of this name that have one, in order.
    pub fn values<'a>(&'a self, name: &'a str, arg: &'a str) -> Vec<&'a str> {
        self.named(name).filter_map(|event| event.args.get(arg).map(String::as_str)).collect()
    }

    /// A count of `probe_stats`.
    ///
    /// # Panics
    /// When nothing was hit.
    pub fn probe_count(&self, name: &str) -> u64 {
        let stats = self.trace.own.iter().find(|event| event.name == "probe_stats");
        stats.expect("something was hit").number(name)
    }
}

/// Records the machine with each of these sources at the same time, in this turn, during an activity: returns the sources, the traces
/// SOURCE.fxt, and fxtrec's messages. A source that is refused here is left out and reported; in CI that is an error.
///
/// # Panics
/// When a recording does not end successfully.
pub fn record_by_each(
    turn: Turn,
    folder: &Folder,
    sources: &[&'static str],
    options: &[&str],
    during: impl FnOnce(&[(&'static str, Ongoing)]),
) -> Vec<(&'static str, PathBuf, String)> {
    let start = |source: &&'static str| {
        let trace = folder.path(format!("{source}.fxt"));
        let started = Ongoing::start(&trace, &[&["--source", source], options].concat());
        let refused = |said: String| skip(&format!("--source {source} is refused here: {said}"));
        Some((*source, started.map_err(refused).ok()?))
    };
    let ongoing: Vec<_> = sources.iter().filter_map(start).collect();
    during(&ongoing);
    let stop = |(source, ongoing): (&'static str, Ongoing)| {
        let (trace, said) = ongoing.stop();
        (source, trace, said)
    };
    let stopped = ongoing.into_iter().map(stop).collect();
    turn.give_back();
    stopped
}

/// fxtrec while it records the whole machine. Killed when dropped.
#[derive(Debug)]
pub struct Ongoing {
    process: Process,
    trace: PathBuf,
}

impl Ongoing {
    /// Starts it, and waits until it records.
    ///
    /// # Errors
    /// fxtrec's messages, if it ends instead.
    pub fn start(trace: &Path, options: &[&str]) -> Result<Ongoing, String> {
        let mut command = binary::command();
        command.args(["-a", "-o"]).arg(trace).args(options).stderr(Stdio::piped());
        let mut ongoing = Ongoing { process: Process::start(&mut command), trace: trace.into() };
        let mut is_over = false;
        wait::until("the first records", || {
            is_over = ongoing.process.is_over();
            is_over || trace.metadata().is_ok_and(|file| file.len() > 0)
        });
        if is_over { Err(ongoing.said()) } else { Ok(ongoing) }
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Ends the recording as Ctrl-C does. Returns the trace, and fxtrec's messages.
    ///
    /// # Panics
    /// When fxtrec fails.
    pub fn stop(mut self) -> (PathBuf, String) {
        self.signal(Signal::SIGINT);
        let said = self.said();
        assert!(self.process.finish().success(), "{said}");
        (self.trace.clone(), said)
    }

    /// Its whole output, until it ends.
    fn said(&mut self) -> String {
        std::io::read_to_string(self.process.stderr()).expect("it says text")
    }
}
