//! The kernel's part of a session: a separate recorder process, which runs this same program.
//!
//! ```text
//!   fxtrec daemon                              fxtrec record -a -o - ...
//!   reader thread <------- trace --------------- standard output
//!   lines         <------- what went wrong ----- standard error
//!   notices       <------- READY=1 -------------- when events flow (sd_notify)
//!                 <------- X_FXTREC_SNAPSHOT= --- a snapshot is written, or X_FXTREC_NO_SNAPSHOT=, why not
//!                 <------- X_FXTREC_FIRED= ------ a snapshot of a trigger is written
//!                 -------- SIGUSR2 -------------> write a snapshot
//!                 -------- SIGTERM -------------> stop, write what is left, end
//! ```
//!
//! Its messages on standard error are for people: they are passed on, never interpreted.
//!
//! So a recording that fails, or exhausts its limits, does so in a separate process, and the service continues. In circular mode the
//! recorder writes to a directory that only the daemon sees, since a pipe could not carry snapshots.

mod error;
mod lines;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::categories::KernelPlan;
use super::records::Splitter;
use super::wire::{BufferingMode, KernelStats};
pub(super) use error::KernelError;
use fxtrec_kernel::helper::Launcher;
use fxtrec_kernel::notify::{MOST_BYTES, NOTIFY_VARIABLE, Notice};
use fxtrec_kernel::stop_token::StopToken;
use lines::Lines;

/// How long a recorder may take until it records.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How long it may take to write the remaining records.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a snapshot may take.
const SNAPSHOT: Duration = Duration::from_secs(20);

/// How often to check while waiting for it.
const LOOK: Duration = Duration::from_millis(20);

/// The maximum number of snapshots of triggers that wait to be fetched; beyond it, the oldest are removed.
const MOST_FIRED: usize = 4;

/// How long to record after a trigger.
const AFTER: &str = "500ms";

pub(super) const NOTHING_FIRED: &str = "no trigger has fired";

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// Accepts pieces of whole records.
pub(super) type Deliver = Arc<dyn Fn(Vec<u8>) + Send + Sync>;

/// The state that can be observed from outside, without waiting.
#[derive(Debug, Default)]
pub(super) struct Progress {
    running: AtomicBool,
    bytes: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl Progress {
    pub(super) fn stats(&self) -> KernelStats {
        KernelStats {
            running: self.running.load(Ordering::Relaxed),
            fired: 0,
            bytes: self.bytes.load(Ordering::Relaxed),
            problem: self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn blame(&self, problem: String) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }
}

/// The data to record, and the way to record it.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    pub(super) plan: &'a KernelPlan,
    /// The only user whose processes are recorded.
    pub(super) only_user: Option<u32>,
    /// The processes to record, or the globs of their cgroups; all, if both are empty.
    pub(super) processes: &'a [u32],
    pub(super) cgroups: &'a [String],
    /// Which stacks to record.
    pub(super) stacks: &'a [String],
    /// The triggers for snapshots.
    pub(super) triggers: &'a [String],
    /// What happens when its buffer is full.
    pub(super) mode: BufferingMode,
    pub(super) buffer_bytes: u64,
    /// Where its private directory is created.
    pub(super) folder: &'a Path,
}

#[derive(Debug)]
pub(super) struct KernelRecorder {
    child: Child,
    reader: Option<JoinHandle<()>>,
    lines: Lines,
    /// The socket for its messages.
    notices: UnixDatagram,
    /// Snapshots of triggers, the oldest first.
    fired: VecDeque<PathBuf>,
    /// Whether it has ended normally.
    asked: Arc<AtomicBool>,
    progress: Arc<Progress>,
    /// In circular mode: the file that it writes at the end.
    file: Option<PathBuf>,
    scheduling: bool,
    deliver: Delivery,
    _folder: TempDir,
}

/// [`Deliver`] with an implementation of `Debug`.
struct Delivery(Deliver);

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}

impl KernelRecorder {
    /// Starts a recorder, and waits until it records, or `cancel` is stopped.
    ///
    /// # Errors
    /// Returns [`KernelError`]; nothing is left behind in that case.
    pub(super) fn start(
        settings: &Settings<'_>,
        launcher: &Launcher,
        cancel: &StopToken,
        progress: Arc<Progress>,
        deliver: Deliver,
    ) -> Result<KernelRecorder, KernelError> {
        let folder = tempfile::Builder::new().prefix("session-").tempdir_in(settings.folder);
        let folder =
            folder.map_err(KernelError::while_doing("create a directory for the recorder"))?;
        let address = folder.path().join("notices");
        let notices = UnixDatagram::bind(&address)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(KernelError::while_doing("listen for the recorder"))?;
        let circular = settings.mode == BufferingMode::Circular;
        let file = circular.then(|| folder.path().join("kernel.fxt"));
        let mut command = command(settings, file.as_deref());
        command.env(NOTIFY_VARIABLE, &address);
        let mut child = launcher
            .spawn(command)
            .map_err(KernelError::while_doing("start the kernel's recorder"))?;
        let lines = Lines::of(child.stderr.take());
        let asked = Arc::new(AtomicBool::new(false));
        let scheduling = settings.plan.has_scheduling();
        let mut recorder = KernelRecorder {
            child,
            reader: None,
            lines,
            notices,
            fired: VecDeque::new(),
            asked,
            progress,
            file,
            scheduling,
            deliver: Delivery(deliver),
            _folder: folder,
        };
        let started = recorder.read().and_then(|()| recorder.await_ready(cancel));
        match started {
            Ok(()) => {
                recorder.progress.running.store(true, Ordering::Relaxed);
                Ok(recorder)
            }
            Err(error) => {
                recorder.end();
                Err(error)
            }
        }
    }

    /// Starts the thread that reads its output.
    fn read(&mut self) -> Result<(), KernelError> {
        let Some(mut stdout) = self.child.stdout.take() else { return Ok(()) };
        let mut splitter = Splitter::new(self.scheduling);
        let (deliver, progress) = (self.deliver.0.clone(), self.progress.clone());
        let (asked, lines) = (self.asked.clone(), self.lines.clone());
        let thread = std::thread::Builder::new().name("fxtrec-kernel".to_owned());
        let reader = thread
            .spawn(move || {
                let read = copy(&mut stdout, &mut splitter, |records| {
                    progress.bytes.fetch_add(records.len() as u64, Ordering::Relaxed);
                    deliver(records);
                });
                if let Err(problem) = read {
                    progress.blame(problem);
                } else if !asked.load(Ordering::Relaxed) {
                    progress.blame(lines.last());
                }
                progress.running.store(false, Ordering::Relaxed);
            })
            .map_err(KernelError::while_doing("read from the kernel's recorder"))?;
        self.reader = Some(reader);
        Ok(())
    }

    fn await_ready(&mut self, cancel: &StopToken) -> Result<(), KernelError> {
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            if self.notice() == Some(Notice::Ready) {
                return Ok(());
            }
            if cancel.is_stopped() {
                return Err(KernelError::Cancelled);
            }
            let ended = self.child.try_wait();
            if !matches!(ended, Ok(None)) {
                return Err(KernelError::Refused(self.lines.last()));
            }
            cancel
                .wait(std::iter::once(self.notices.as_fd()), LOOK)
                .map_err(KernelError::while_doing("wait for the kernel's recorder"))?;
        }
        Err(KernelError::Silent)
    }

    /// Notes triggers that have fired. A snapshot that arrived too late for its request is discarded.
    fn catch_up(&mut self) {
        while let Some(notice) = self.notice() {
            match notice {
                Notice::Fired(path) => self.fired.push_back(path),
                other => Self::remove(&other),
            }
        }
        // The recorder keeps only a few.
        self.fired.retain(|path| path.exists());
    }

    /// How many snapshots of triggers there are.
    pub(super) fn fired(&mut self) -> u64 {
        self.catch_up();
        self.fired.len() as u64
    }

    /// The oldest of them.
    ///
    /// # Errors
    /// Returns [`KernelError::NoSnapshot`].
    pub(super) fn take_fired(&mut self) -> Result<Vec<u8>, KernelError> {
        self.catch_up();
        let path = self.fired.pop_front();
        let path = path.ok_or_else(|| KernelError::NoSnapshot(NOTHING_FIRED.to_owned()))?;
        let records = self.records_of(&path);
        Self::remove(&Notice::Snapshot(path));
        records
    }

    /// Its unread messages, if they can be parsed.
    fn notice(&self) -> Option<Notice> {
        let mut message = [0; MOST_BYTES];
        let bytes = self.notices.recv(&mut message).ok()?;
        Notice::from_bytes(&message[..bytes])
    }

    /// Tells it to write the remaining records and exit. Everything is delivered when this returns.
    pub(super) fn stop(mut self) {
        self.end();
        let Some(file) = self.file.take() else { return };
        match self.records_of(&file) {
            Ok(records) => self.hand_over(records),
            Err(error) => self.progress.blame(error.to_string()),
        }
    }

    fn hand_over(&self, records: Vec<u8>) {
        self.progress.bytes.fetch_add(records.len() as u64, Ordering::Relaxed);
        (self.deliver.0)(records);
    }

    /// Tells it to end, and waits until it has ended.
    fn end(&mut self) {
        self.asked.store(true, Ordering::Relaxed);
        self.signal(Signal::SIGTERM);
        let until = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                self.progress.blame("it did not exit, and was killed".to_owned());
                self.signal(Signal::SIGKILL);
                // Ends it immediately, and reaps it.
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(LOOK / 4);
        }
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has delivered as much as it could.
            let _ = reader.join();
        }
        self.progress.running.store(false, Ordering::Relaxed);
    }

    fn signal(&mut self, signal: Signal) {
        // Once it has been reaped, its id may belong to another process.
        if matches!(self.child.try_wait(), Ok(None))
            && let Ok(pid) = i32::try_from(self.child.id())
        {
            // The recorder may just be ending.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Its current content in circular mode, without consuming any data, as long as that is `wanted`.
    ///
    /// # Errors
    /// [`KernelError::NoSnapshot`] and [`KernelError::Ended`].
    pub(super) fn snapshot(&mut self, wanted: &AtomicBool) -> Result<Vec<u8>, KernelError> {
        if self.file.is_none() {
            return Err(KernelError::NoSnapshot("it is not in circular mode".to_owned()));
        }
        self.catch_up();
        self.signal(Signal::SIGUSR2);
        let until = Instant::now() + SNAPSHOT;
        let path = loop {
            match self.notice() {
                Some(Notice::Snapshot(path)) => break path,
                Some(Notice::NoSnapshot(why)) => return Err(KernelError::NoSnapshot(why)),
                Some(Notice::Fired(path)) => self.fired.push_back(path),
                Some(Notice::Ready | Notice::Alive) | None => {}
            }
            if !wanted.load(Ordering::Relaxed) {
                return Err(KernelError::Ended);
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Err(KernelError::NoSnapshot(self.lines.last()));
            }
            if Instant::now() > until {
                return Err(KernelError::NoSnapshot("it did not answer".to_owned()));
            }
            std::thread::sleep(LOOK / 4);
        };
        let records = self.records_of(&path)?;
        Self::remove(&Notice::Snapshot(path));
        Ok(records)
    }

    fn remove(notice: &Notice) {
        if let Notice::Snapshot(path) = notice {
            // If it cannot be removed now, it is removed with the directory.
            let _ = std::fs::remove_file(path);
        }
    }

    fn records_of(&self, path: &Path) -> Result<Vec<u8>, KernelError> {
        let failed = |problem| KernelError::NoSnapshot(problem);
        let mut file = File::open(path).map_err(KernelError::while_doing("open its output"))?;
        let mut all = Vec::new();
        let mut splitter = Splitter::new(self.scheduling);
        copy(&mut file, &mut splitter, |records| all.extend(records)).map_err(failed)?;
        Ok(all)
    }
}

impl Drop for KernelRecorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// The command line of the recorder.
fn command(settings: &Settings<'_>, file: Option<&Path>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let mode = match settings.mode {
        BufferingMode::Oneshot => "oneshot",
        BufferingMode::Circular => "circular",
        BufferingMode::Streaming => "streaming",
    };
    command
        .args(["record", "--no-config", "--no-summary", "--progress", "never", "--mode", mode])
        .args(["--buffer-size", &settings.buffer_bytes.to_string()])
        .args(["--command-line", &whose(settings)])
        .args(scope_args(settings))
        .args(settings.plan.recorder_args())
        .arg("-o");
    match file {
        Some(file) => command.arg(file).stdout(Stdio::null()),
        None => command.arg("-").stdout(Stdio::piped()),
    };
    command.arg("-q");
    // The user who called sudo to start the daemon is irrelevant here.
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The trace's record of how it was made: the command line of the recorder is useless here.
fn whose(settings: &Settings<'_>) -> String {
    match settings.only_user {
        Some(uid) => format!("fxtrec daemon, for processes of user {uid}"),
        None => "fxtrec daemon".to_owned(),
    }
}

/// The options for the processes, and for the data about them.
fn scope_args(settings: &Settings<'_>) -> Vec<String> {
    let Settings { only_user, processes, cgroups, .. } = settings;
    let mut args = Vec::new();
    match only_user {
        // Only this source checks the owner of a thread in the kernel.
        Some(uid) => args.extend([format!("--only-user={uid}"), "--source=bpf".to_owned()]),
        None if processes.is_empty() && cgroups.is_empty() => args.push("-a".to_owned()),
        None => {}
    }
    args.extend(processes.iter().map(|pid| format!("--pid={pid}")));
    args.extend(cgroups.iter().map(|glob| format!("--cgroup={glob}")));
    match settings.stacks {
        [] if processes.is_empty() => {}
        [] => args.push("--stacks=none".to_owned()),
        kinds => args.push(format!("--stacks={}", kinds.join(","))),
    }
    if !settings.triggers.is_empty() {
        args.extend([format!("--after={AFTER}"), format!("--keep={MOST_FIRED}")]);
        args.extend(settings.triggers.iter().map(|text| format!("--trigger={text}")));
    }
    args
}

/// Reads to the end, and passes on whole records.
fn copy(
    from: &mut impl Read,
    splitter: &mut Splitter,
    mut pass: impl FnMut(Vec<u8>),
) -> Result<(), String> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                let records = splitter.take(&chunk[..bytes]).map_err(|error| error.to_string())?;
                if !records.is_empty() {
                    pass(records);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot read from it: {error}")),
        }
    }
}
