//! Processes for work that may never end, and that can be abandoned.
//!
//! A file system in user space (FUSE) that does not respond blocks its caller in the kernel, and not even SIGKILL ends that. So a separate
//! process makes the request. It is the same program under another name, and communicates through a socket:
//!
//! ```text
//!   fxtrec      length, question, descriptor -->  worker
//!               <-- length, answer, descriptor
//!               no answer in time: SIGKILL; it is not waited for, and the next question goes to a new one
//! ```
//!
//! fxtrec itself holds such a file by `O_PATH` only: closing a file that is open for reading may block, too.
//!
//! A worker that hangs outlives its recorder. So its memory is freed when it is abandoned, and no recorder of the machine starts another
//! while many of them hang: any user may have a file system that never responds, and start recordings through the daemon.

use std::ffi::CStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::geteuid;

use super::child::open_pidfd;
use super::perf::page_size;
use super::{priority, stream};

/// How often to check whether a worker makes progress, while waiting for its answer.
const LOOK: Duration = Duration::from_millis(20);

/// How long to wait for the end of a worker that has answered, in milliseconds.
const LAST_WAIT: u16 = 100;

/// The maximum size of a request or an answer, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// The highest value of oom_score_adj.
const FIRST_TO_GO: &str = "1000";

/// How many processes of one recorder may hang at a time, and the maximum number that it starts.
const MOST_HANGING: usize = 4;
const MOST_STARTED: u32 = 64;

/// How many processes of all recorders of this user on the machine may hang at a time.
const MOST_LEFT: usize = 16;

/// The name of worker processes, by which other recorders recognize them.
const NAME: &CStr = c"fxtrec-files";

/// How often to try to free the memory of a process that was killed, and how long to wait between two attempts.
const RELEASES: usize = 5;
const BETWEEN_RELEASES: Duration = Duration::from_millis(2);

/// The environment variable with the bytes that a worker must leave of its memory, since abandoned ones hold them.
const MEMORY_IN_USE: &str = "FXTREC_MEMORY_IN_USE";

/// With less memory, a worker would read next to nothing.
const LEAST_MEMORY: u64 = 48 << 20;

/// Signals that end the recorder, which needs its workers until then. Workers end when it closes their sockets.
const UNHEARD: [Signal; 5] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR2];

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerTimeout {
    /// While the worker makes no progress, because a file system does not respond.
    pub idle: Duration,
    /// In total.
    pub most: Duration,
}

/// A request or an answer: bytes, and a descriptor if there is one.
pub type Message = (Vec<u8>, Option<OwnedFd>);

/// A process that answers requests.
#[derive(Debug)]
pub struct Worker {
    socket: UnixStream,
    /// `None` for a thread of this process, in tests.
    process: Option<Child>,
}

impl Worker {
    /// Starts this program as `name`, which selects its role: see [`serve_as`]. It inherits no files from this process, and leaves `in_use`
    /// bytes of its memory to others.
    ///
    /// # Errors
    /// Errors of socketpair(2), fork(2) or execve(2).
    pub fn start(name: &str, in_use: u64) -> io::Result<Worker> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(name).current_dir("/").env_clear();
        Worker::run(command, in_use)
    }

    /// Starts a worker with a `word` that selects its task. It keeps the environment and the working directory of this process, for paths
    /// that a user has named.
    ///
    /// # Errors
    /// The same as for [`Worker::start`].
    pub fn start_for(name: &str, word: &str, in_use: u64) -> io::Result<Worker> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(name).arg(word);
        Worker::run(command, in_use)
    }

    fn run(mut command: Command, in_use: u64) -> io::Result<Worker> {
        let (socket, theirs) = UnixStream::pair()?;
        command
            .env(MEMORY_IN_USE, in_use.to_string())
            // It must not get the terminal's signals.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Worker { socket, process: Some(command.spawn()?) })
    }

    /// The worker at the other end of this socket.
    pub fn at(socket: UnixStream) -> Worker {
        Worker { socket, process: None }
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// `TimedOut` if there is no answer in time, `UnexpectedEof` or `BrokenPipe` if the worker has ended. After an error it must not be
    /// used again.
    pub fn ask(
        &self,
        question: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
        patience: AnswerTimeout,
    ) -> io::Result<Message> {
        // It reads a request as soon as it has answered the previous one.
        self.socket.set_write_timeout(Some(patience.idle))?;
        self.socket.set_read_timeout(Some(LOOK.min(patience.idle)))?;
        send(&self.socket, question, descriptor).map_err(timed_out)?;
        let begun = Instant::now();
        let (mut done, mut moved) = (self.work_done(), begun);
        self.lend_priority();
        let wait = || {
            self.lend_priority();
            let (now, work) = (Instant::now(), self.work_done());
            if work != done {
                (done, moved) = (work, now);
            }
            match now - moved >= patience.idle || now - begun >= patience.most {
                true => Err(ErrorKind::TimedOut.into()),
                false => Ok(()),
            }
        };
        receive(&self.socket, wait)?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    /// Gives it the priority of the waiting thread, which other threads may raise at the same time.
    fn lend_priority(&self) {
        if let Some(process) = &self.process {
            priority::lend_priority_to(process.id());
        }
    }

    /// A value that changes while it makes progress or waits for a CPU: how long it has run, and how long it was runnable.
    fn work_done(&self) -> Option<String> {
        let pid = self.process.as_ref()?.id();
        std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()
    }

    /// Kills it and frees its memory; it ends as soon as its file system lets it.
    pub fn abandon(mut self) -> Abandoned {
        if let Some(process) = &mut self.process {
            // A process that has ended needs no signal.
            let _ = process.kill();
            release(process);
        }
        Abandoned(self.process.take())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It is waiting for a request, so it ends at once: no process may remain a zombie if its parent does not reap it.
        let Some(mut process) = self.process.take() else { return };
        let _ = process.kill();
        if let Ok(end) = open_pidfd(process.id().cast_signed()) {
            let mut polled = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut polled, PollTimeout::from(LAST_WAIT));
        }
        if matches!(process.try_wait(), Ok(None)) {
            release(&process);
        }
    }
}

/// Frees the memory of a process that was killed and may hang in the kernel. Before Linux 5.15, it keeps its memory until it ends.
fn release(process: &Child) {
    let Ok(pidfd) = open_pidfd(process.id().cast_signed()) else { return };
    for _ in 0..RELEASES {
        // SAFETY: the call takes two numbers; the process that it affects was killed and runs no more code of its own.
        let result = unsafe { libc::syscall(libc::SYS_process_mrelease, pidfd.as_raw_fd(), 0) };
        if result == 0 || io::Error::last_os_error().kind() != ErrorKind::WouldBlock {
            return;
        }
        std::thread::sleep(BETWEEN_RELEASES);
    }
}

/// A worker that fxtrec no longer waits for.
#[derive(Debug)]
pub struct Abandoned(Option<Child>);

impl Abandoned {
    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)))
    }

    /// Its resident memory in bytes.
    fn memory(&self) -> u64 {
        self.0.as_ref().map_or(0, |process| resident(process.id()))
    }
}

/// The resident memory of a process in bytes.
fn resident(pid: u32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm"));
    let pages = pages.ok().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * page_size() as u64
}

/// Workers of all recorders of this user that were killed and hang.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    processes: usize,
    /// Their resident memory.
    bytes: u64,
}

impl Left {
    /// Looks for processes of this name.
    fn named(name: &CStr) -> Left {
        let mut left = Left::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            // Any process can have this name, and thousands may exist.
            if comm.trim_ascii_end() != name.to_bytes() {
                continue;
            }
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            if hangs(&status, geteuid().as_raw()) {
                left.processes += 1;
                left.bytes += resident(pid);
            }
        }
        left
    }
}

/// Whether a process of this user was killed and has not noticed it, by its `/proc/PID/status`.
fn hangs(status: &str, user: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let effective = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    let waits = field("State:").is_some_and(|state| state.trim_start().starts_with('D'));
    let killed = 1_u64 << (Signal::SIGKILL as u32 - 1);
    let is_killed = ["SigPnd:", "ShdPnd:"].into_iter().any(|name| {
        let pending = field(name).and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        pending.is_some_and(|pending| pending & killed != 0)
    });
    effective == Some(user) && waits && is_killed
}

/// Starts a worker that leaves this many bytes of its memory to others.
pub type Start = fn(u64) -> io::Result<Worker>;

/// Workers that get one request at a time. A worker that does not answer is abandoned, and the next request is sent to a new one.
#[derive(Debug)]
pub struct Workers {
    start: Start,
    patience: AnswerTimeout,
    /// Maximum total time to wait without success; after that, no more requests are made.
    most_lost: Duration,
    worker: Option<Worker>,
    abandoned: Vec<Abandoned>,
    started: u32,
    lost: Duration,
    /// How many processes of all recorders hang, if none was started for that reason.
    left: usize,
}

impl Workers {
    /// No workers yet: the first request starts one.
    pub fn new(start: Start, patience: AnswerTimeout, most_lost: Duration) -> Workers {
        let (worker, abandoned, started, left) = (None, Vec::new(), 0, 0);
        let lost = Duration::ZERO;
        Workers { start, patience, most_lost, worker, abandoned, started, lost, left }
    }

    /// How many processes of all recorders of this user hang, if there is no answer for that reason; otherwise 0.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The answer; `None` if there is no answer in time, or no worker.
    pub fn ask(&mut self, question: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Option<Message> {
        self.ask_for(question, descriptor, Duration::MAX)
    }

    /// The answer, for which it waits at most `most`.
    pub fn ask_for(
        &mut self,
        question: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
        most: Duration,
    ) -> Option<Message> {
        let left = self.most_lost.checked_sub(self.lost)?.min(most);
        if left.is_zero() {
            return None;
        }
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.next_worker()?,
        };
        let AnswerTimeout { idle, most } = self.patience;
        let patience = AnswerTimeout { idle: idle.min(left), most: most.min(left) };
        let begun = Instant::now();
        match worker.ask(question, descriptor, patience) {
            Ok(answer) => {
                self.worker = Some(worker);
                Some(answer)
            }
            Err(_) => {
                self.lost += begun.elapsed();
                self.abandoned.push(worker.abandon());
                None
            }
        }
    }

    fn next_worker(&mut self) -> Option<Worker> {
        self.abandoned.retain_mut(|worker| !worker.has_ended());
        if self.abandoned.len() >= MOST_HANGING || self.started >= MOST_STARTED {
            return None;
        }
        let left = Left::named(NAME);
        if left.processes >= MOST_LEFT {
            self.left = left.processes;
            return None;
        }
        self.left = 0;
        self.started += 1;
        let own: u64 = self.abandoned.iter().map(Abandoned::memory).sum();
        (self.start)(own.max(left.bytes)).ok()
    }
}

fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// Makes this process a worker, which answers until the recorder closes its socket. It ends if it and the abandoned workers before
/// it need more than `memory` bytes, and when the thread that started it ends. It is the first process that the kernel kills if memory is
/// short.
///
/// # Errors
/// Returns an error when the recorder has ended, or this is not a worker.
pub fn serve_as(
    memory: u64,
    answer: impl FnMut(&[u8], Option<OwnedFd>) -> Message,
) -> io::Result<()> {
    nix::sys::prctl::set_name(NAME)?;
    // The worker ends with its parent: a request may take a long time, and its answer would be useless.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    for unheard in UNHEARD {
        // SAFETY: ignoring a signal installs no handler, so no code of ours runs at a signal.
        unsafe { signal(unheard, SigHandler::SigIgn)? };
    }
    let in_use = std::env::var(MEMORY_IN_USE).ok().and_then(|bytes| bytes.parse().ok());
    let memory = memory.saturating_sub(in_use.unwrap_or(0));
    if memory < LEAST_MEMORY {
        return Err(ErrorKind::OutOfMemory.into());
    }
    let (_, most) = getrlimit(Resource::RLIMIT_AS)?;
    setrlimit(Resource::RLIMIT_AS, most.min(memory), most)?;
    // If memory is short, losing names is better than losing a recording or a program.
    std::fs::write("/proc/self/oom_score_adj", FIRST_TO_GO)?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    serve(&socket, answer)
}

/// Answers the requests of a recorder until it closes the socket.
///
/// # Errors
/// Returns an error when the recorder has ended.
pub fn serve(
    socket: &UnixStream,
    mut answer: impl FnMut(&[u8], Option<OwnedFd>) -> Message,
) -> io::Result<()> {
    while let Some((question, descriptor)) = receive(socket, || Ok(()))? {
        let (answer, descriptor) = answer(&question, descriptor);
        send(socket, &answer, descriptor.as_ref().map(AsFd::as_fd))?;
    }
    Ok(())
}

fn send(socket: &UnixStream, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let length = (message.len() as u64).to_ne_bytes();
    stream::send(socket, &length, descriptor.as_slice())?;
    stream::send(socket, message, &[])
}

/// The next message; `None` at the end. If no data arrives within the socket's timeout, `wait` decides whether to continue.
fn receive(
    socket: &UnixStream,
    mut wait: impl FnMut() -> io::Result<()>,
) -> io::Result<Option<Message>> {
    let (mut length, mut descriptors) = ([0; 8], Vec::new());
    let mut fill = |buffer: &mut [u8]| -> io::Result<usize> {
        let mut at = 0;
        while at < buffer.len() {
            match stream::receive(socket, &mut buffer[at..], &mut descriptors) {
                Ok(0) => break,
                Ok(bytes) => at += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait()?,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
        }
        Ok(at)
    };
    match fill(&mut length)? {
        0 => return Ok(None),
        8 => {}
        _ => return Err(ErrorKind::UnexpectedEof.into()),
    }
    let length = u64::from_ne_bytes(length);
    if length > MOST_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length as usize];
    if fill(&mut message)? < message.len() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((message, descriptors.pop())))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    const SHORT: AnswerTimeout =
        AnswerTimeout { idle: Duration::from_millis(10), most: Duration::from_secs(60) };

    #[test]
    fn a_question_is_answered_with_its_descriptor_whatever_its_length() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || {
            serve(&theirs, |question, file| {
                let mut text = question.to_vec();
                if let Some(file) = &file {
                    let file = file.try_clone().expect("a descriptor");
                    File::from(file).read_to_end(&mut text).expect("it is open");
                }
                (text, file)
            })
        });
        let worker = Worker::at(ours);
        let most = Duration::from_secs(60);
        let patience = AnswerTimeout { idle: most, most };
        let mut file = tempfile::tempfile().expect("room");
        io::Write::write_all(&mut file, b" and more").expect("room");
        io::Seek::rewind(&mut file).expect("a file");
        let (answer, same) = worker.ask(b"this", Some(file.as_fd()), patience).expect("an answer");
        assert_eq!((&answer[..], same.is_some()), (&b"this and more"[..], true));
        for length in [0, 1, 1 << 20] {
            let question = vec![7; length];
            let (answer, none) = worker.ask(&question, None, patience).expect("an answer");
            assert!(answer == question && none.is_none(), "{length}");
        }
        drop(worker);
        thread.join().expect("it ends").expect("well");
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for_and_who_is_gone_is_noticed() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let worker = Worker::at(ours);
        let error = worker.ask(b"?", None, SHORT).expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        // A worker that does not read is abandoned, too.
        let error = worker.ask(&vec![0; 16 << 20], None, SHORT).expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(theirs);
        let error = worker.ask(b"?", None, SHORT).expect_err("nobody is there");
        // The other end was closed with unread data, which may be reported first.
        let gone = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        assert!(gone.contains(&error.kind()), "{error}");
        assert!(worker.abandon().has_ended());
    }

    /// A worker whose files never respond. It ends when it is abandoned.
    fn hanging(_: u64) -> io::Result<Worker> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::spawn(move || {
            let mut left = Vec::new();
            Read::read_to_end(&mut &theirs, &mut left)
        });
        Ok(Worker::at(ours))
    }

    /// A worker that ends at the first request, as if by a damaged file.
    fn ending(_: u64) -> io::Result<Worker> {
        Ok(Worker::at(UnixStream::pair()?.0))
    }

    /// A worker that answers with the request itself.
    fn echoing(_: u64) -> io::Result<Worker> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::spawn(move || serve(&theirs, |question, file| (question.to_vec(), file)));
        Ok(Worker::at(ours))
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn workers_that_never_answer_are_not_waited_for_again_and_again() {
        let mut workers = Workers::new(hanging, SHORT, MINUTE);
        for _ in 0..2 * MOST_STARTED {
            assert!(workers.ask(b"?", None).is_none());
        }
        assert_eq!(workers.started, MOST_STARTED);
    }

    #[test]
    fn what_is_lost_in_vain_is_bounded_whatever_is_asked() {
        let patience = AnswerTimeout { idle: MINUTE, most: MINUTE };
        let mut workers = Workers::new(echoing, patience, MINUTE);
        assert_eq!(workers.ask(b"?", None).expect("an answer").0, b"?");
        workers.lost = MINUTE;
        assert!(workers.ask(b"?", None).is_none());
        assert_eq!(workers.started, 1);
    }

    #[test]
    fn the_next_question_after_the_end_of_a_worker_goes_to_another() {
        let patience = AnswerTimeout { idle: MINUTE, most: MINUTE };
        let mut workers = Workers::new(ending, patience, MINUTE);
        assert!(workers.ask(b"?", None).is_none());
        workers.start = echoing;
        assert!(workers.ask(b"?", None).is_some() && workers.ask(b"?", None).is_some());
        assert_eq!(workers.started, 2);
    }

    /// A worker that answers with the memory that is in use.
    fn answering_with_memory_in_use(in_use: u64) -> io::Result<Worker> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::spawn(move || serve(&theirs, |_, _| (in_use.to_string().into_bytes(), None)));
        Ok(Worker::at(ours))
    }

    #[test]
    fn the_next_worker_leaves_room_for_the_memory_of_those_that_hang() {
        let patience = AnswerTimeout { idle: MINUTE, most: MINUTE };
        let mut workers = Workers::new(answering_with_memory_in_use, patience, MINUTE);
        let hanging = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it runs");
        workers.abandoned.push(Abandoned(Some(hanging)));
        let answer = workers.ask(b"?", None).expect("an answer").0;
        let in_use: u64 = String::from_utf8(answer).expect("text").parse().expect("a number");
        assert!((1..64 << 20).contains(&in_use), "{in_use}");
        let Some(Abandoned(Some(hanging))) = workers.abandoned.last_mut() else {
            panic!("it hangs")
        };
        hanging.kill().expect("it runs");
        hanging.wait().expect("it ends");
    }

    #[test]
    fn only_killed_processes_of_the_same_user_that_wait_in_the_kernel_hang() {
        let status = |state: &str, user: u32, own: &str, shared: &str| {
            format!(
                "Name:\tfxtrec-files\nState:\t{state}\nUid:\t7\t{user}\t7\t7\n\
                 SigPnd:\t{own}\nShdPnd:\t{shared}\n"
            )
        };
        let (none, killed) = ("0000000000000000", "0000000000000100");
        assert!(hangs(&status("D (disk sleep)", 5, killed, none), 5));
        assert!(hangs(&status("D (disk sleep)", 5, none, "0000000000004100"), 5));
        for other in [
            status("D (disk sleep)", 6, killed, none),
            status("D (disk sleep)", 5, none, none),
            status("D (disk sleep)", 5, "0000000000004000", none),
            status("R (running)", 5, killed, none),
            String::new(),
        ] {
            assert!(!hangs(&other, 5), "{other}");
        }
    }

    #[test]
    fn a_process_that_waits_does_no_work_and_ends_when_it_is_abandoned() {
        let (socket, theirs) = UnixStream::pair().expect("a pair");
        let mut command = Command::new("cat");
        let process = command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let worker = Worker { socket, process: Some(process.spawn().expect("it runs")) };
        let error = worker.ask(b"?", None, SHORT).expect_err("it only reads");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let mut abandoned = worker.abandon();
        while !abandoned.has_ended() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_worker_that_is_not_needed_any_more_ends() {
        let (socket, theirs) = UnixStream::pair().expect("a pair");
        let mut command = Command::new("cat");
        let process = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn().expect("it runs");
        let end = open_pidfd(process.id().cast_signed()).expect("it is there");
        drop(Worker { socket, process: Some(process) });
        let mut polled = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut polled, PollTimeout::NONE).expect("it can be polled"), 1);
    }
}
