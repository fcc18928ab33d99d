//! Writes to a client's descriptor without ever touching it in the daemon.
//!
//! A descriptor may belong to a file system that a user's process serves (FUSE), or to a server that no longer responds (NFS). A query,
//! write or close of such a file may block forever, and the calling thread cannot be killed in that time. So the daemon never receives a
//! client's descriptor: a separate process receives it, as the client's user and without privileges.
//!
//! ```text
//!   client --message, descriptors--> connection
//!                                        |
//!   fxtrec daemon <--message, what it is-- fxtrec-output (a process for each message with descriptors)
//!                 ---- records ---------->      |
//!                 <--- so many are written -----+--> what the client passed
//! ```
//!
//! Everything that the process does has a time limit, after which it is killed. A process that cannot even be killed is abandoned: it holds
//! no resources of the daemon, but counts against the few processes that its user may have.

pub(super) mod process;
mod talk;

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

use self::talk::{Inbox, News};
use super::server::seats::Seat;
use fxtrec_kernel::helper::Launcher;
use fxtrec_kernel::peer::Credentials;

/// How long the process may take to report the type of a descriptor.
const ANSWER: Duration = Duration::from_secs(10);

/// The time that the process may take to end after it was killed, before it is abandoned.
const DEATH: Duration = Duration::from_millis(500);

/// How often to check it in that time.
const LOOK: Duration = Duration::from_millis(5);

/// Processes that were killed and have not ended.
static LEFT: Mutex<Vec<(Child, Option<Seat>)>> = Mutex::new(Vec::new());

/// Reaps processes that have ended, and frees their places.
pub(super) fn reap() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain_mut(|(child, _)| matches!(child.try_wait(), Ok(None)));
}

/// The process and the state of its work.
#[derive(Debug)]
pub(super) struct Writer {
    channel: UnixStream,
    /// `None` in tests, where it is a thread.
    process: Option<Child>,
    seat: Option<Seat>,
    inbox: Inbox,
    /// The number of bytes passed to it.
    given: u64,
    /// The number of these bytes that it has written.
    written: u64,
    /// It has closed the output without an error.
    done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// Whether written data is visible to other processes at once.
    pub(super) is_file: bool,
    /// The path of a regular file when it was passed.
    pub(super) path: Option<PathBuf>,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// This many bytes were accepted.
    Bytes(usize),
    /// No bytes were accepted: the reader is not ready.
    Nothing,
}

impl Writer {
    /// Starts a process that receives the next message of the connection, with its descriptors, of at most `most` bytes. Returns the
    /// message.
    ///
    /// # Errors
    /// Returns an error when the process cannot be started, or does not return the message.
    pub(super) fn receive(
        connection: &UnixStream,
        who: &Credentials,
        most: usize,
        seat: Seat,
        launcher: &Launcher,
    ) -> io::Result<(Writer, Vec<u8>)> {
        let (channel, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(process::NAME)
            .args([who.uid, who.gid, std::process::id()].map(|number| number.to_string()))
            .arg(most.to_string())
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(connection.try_clone()?)))
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stderr(Stdio::null());
        let child = launcher.spawn(command)?;
        let mut writer = Writer::new(channel, Some(child), Some(seat));
        match writer.await_news(ANSWER)? {
            News::Received(message) => Ok((writer, message)),
            other => Err(io::Error::other(format!("{other:?} before the message"))),
        }
    }

    fn new(channel: UnixStream, process: Option<Child>, seat: Option<Seat>) -> Writer {
        let inbox = Inbox::default();
        Writer { channel, process, seat, inbox, given: 0, written: 0, done: false }
    }

    /// A writer to this descriptor that runs as a thread.
    #[cfg(test)]
    pub(super) fn to(output: impl Into<std::os::fd::OwnedFd>) -> Writer {
        let (channel, theirs) = UnixStream::pair().expect("a pair");
        let output = output.into();
        std::thread::spawn(move || process::serve(&theirs, vec![output]));
        Writer::new(channel, None, None)
    }

    /// Selects one of the descriptors, and determines its type of file.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn choose(&mut self, index: usize) -> Result<Destination, String> {
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::TimedOut => {
                format!("it has not answered for {} s: its file system hangs", ANSWER.as_secs())
            }
            _ => format!("cannot examine it: {error}"),
        };
        send(self.channel.as_raw_fd(), &[index], MsgFlags::MSG_NOSIGNAL)
            .map_err(|errno| failed(errno.into()))?;
        match self.await_news(ANSWER).map_err(failed)? {
            News::Output(destination) => Ok(destination),
            News::Unfit(why) => Err(why),
            other => Err(format!("cannot examine it: {other:?}")),
        }
    }

    fn await_news(&mut self, timeout: Duration) -> io::Result<News> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(news) = self.next_news()? {
                return Ok(news);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.wait(PollFlags::POLLIN, left)?;
        }
    }

    /// The next message of the process, if any.
    fn next_news(&mut self) -> io::Result<Option<News>> {
        loop {
            if let Some(news) = self.inbox.next()? {
                return Ok(Some(news));
            }
            let mut bytes = [0; 4096];
            match recv(self.channel.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.inbox.add(&bytes[..count]),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Records how much was written.
    ///
    /// # Errors
    /// Returns the reason why no more data can be written.
    fn hear(&mut self) -> Result<(), String> {
        loop {
            match self.next_news() {
                Ok(None) => return Ok(()),
                Ok(Some(News::Written(bytes))) => self.written = bytes.min(self.given),
                Ok(Some(News::Done)) => self.done = true,
                Ok(Some(News::Failed(why))) => return Err(why),
                Ok(Some(other)) => return Err(format!("cannot write the output: {other:?}")),
                Err(_) if self.done => return Ok(()),
                Err(_) => return Err("the process that writes the output has exited".to_owned()),
            }
        }
    }

    /// Writes as much as possible without waiting.
    ///
    /// # Errors
    /// Returns the reason why no more data can be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Wrote, String> {
        self.hear()?;
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match send(self.channel.as_raw_fd(), bytes, flags) {
            Ok(count) => {
                self.given += count as u64;
                Ok(Wrote::Bytes(count))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Wrote::Nothing),
            Err(errno) => {
                // It has already reported the reason.
                self.hear()?;
                Err(format!("cannot write the output: {}", io::Error::from(errno)))
            }
        }
    }

    /// How many of the bytes passed to it are not written yet.
    ///
    /// # Errors
    /// Returns the reason why no more data can be written.
    pub(super) fn unwritten(&mut self) -> Result<u64, String> {
        self.hear()?;
        Ok(self.given - self.written)
    }

    /// There is no more data. Returns true when everything was written and the output is closed.
    ///
    /// # Errors
    /// Why closing failed.
    pub(super) fn finish(&mut self) -> Result<bool, String> {
        // Harmless if this was already done.
        let _ = self.channel.shutdown(Shutdown::Write);
        self.hear()?;
        Ok(self.done)
    }

    /// Waits until there is a message or, with `room`, until it accepts data.
    ///
    /// # Errors
    /// Errors of poll(2).
    pub(super) fn attend(&self, room: bool, timeout: Duration) -> io::Result<()> {
        let room = if room { PollFlags::POLLOUT } else { PollFlags::empty() };
        self.wait(PollFlags::POLLIN | room, timeout)
    }

    fn wait(&self, what: PollFlags, timeout: Duration) -> io::Result<()> {
        let mut polled = [PollFd::new(self.channel.as_fd(), what)];
        // Rounded up, so that the last millisecond is not spent in a tight loop.
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        match poll(&mut polled, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Kills the process.
impl Drop for Writer {
    fn drop(&mut self) {
        // In tests, where the writer is a thread, the thread notices the end.
        let _ = self.channel.shutdown(Shutdown::Both);
        let Some(mut child) = self.process.take() else { return };
        // It may have ended already, which has the same effect.
        let _ = child.kill();
        let until = Instant::now() + DEATH;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
                left.push((child, self.seat.take()));
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    /// Writes all data, and closes the descriptor.
    fn write_all(writer: &mut Writer, mut rest: &[u8]) -> Result<(), String> {
        while !rest.is_empty() {
            match writer.write(rest)? {
                Wrote::Bytes(count) => rest = &rest[count..],
                Wrote::Nothing => writer.attend(true, LOOK).expect("poll"),
            }
        }
        while !writer.finish()? {
            writer.attend(false, LOOK).expect("poll");
        }
        Ok(())
    }

    #[test]
    fn a_file_has_all_of_it_when_it_is_reported_as_done() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut writer = Writer::to(file.reopen().expect("it is there"));
        let destination = writer.choose(0).expect("a file is fine");
        assert_eq!(destination, Destination { is_file: true, path: Some(file.path().to_owned()) });
        let content = vec![7; 1_000_000];
        write_all(&mut writer, &content).expect("room");
        assert_eq!(writer.unwritten(), Ok(0));
        assert!(std::fs::read(file.path()).expect("it is there") == content);
    }

    #[test]
    fn a_full_disk_is_a_failure_with_its_reason() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
        // Simulates a file on a full disk, which only root could create.
        let (channel, theirs) = UnixStream::pair().expect("a pair");
        std::thread::spawn(move || process::copy(&theirs, &full.into(), true));
        let mut writer = Writer::new(channel, None, None);
        let failed = write_all(&mut writer, &[1; 10_000]).expect_err("full");
        assert!(failed.contains("No space left on device"), "{failed}");
    }

    #[test]
    fn a_pipe_that_nothing_reads_any_more_is_reported() {
        let (mut reader, output) = pipe().expect("a pipe");
        let mut writer = Writer::to(output);
        assert!(!writer.choose(0).expect("a pipe is fine").is_file);
        assert_eq!(writer.write(b"text"), Ok(Wrote::Bytes(4)));
        let mut text = [0; 4];
        reader.read_exact(&mut text).expect("it comes");
        drop(reader);
        let failed = write_all(&mut writer, &[0; 100]).expect_err("gone");
        assert_eq!(failed, "the reader of the output closed it");
    }

    #[test]
    fn what_a_pipe_has_not_taken_is_not_written() {
        let (_reader, output) = pipe().expect("a pipe");
        let mut writer = Writer::to(output);
        writer.choose(0).expect("a pipe is fine");
        let mut given = 0;
        while let Ok(Wrote::Bytes(count)) = writer.write(&[0; 100_000]) {
            given += count as u64;
        }
        // A pipe holds 64 KiB.
        let unwritten = writer.unwritten().expect("it goes on");
        assert!(given > 200_000 && unwritten > given - 100_000, "{unwritten} of {given}");
        assert_eq!(writer.finish(), Ok(false));
    }

    #[test]
    fn there_is_no_descriptor_beyond_the_last() {
        let (_reader, output) = pipe().expect("a pipe");
        let mut writer = Writer::to(output);
        assert!(writer.choose(1).expect_err("refused").contains("no descriptor"));
    }
}
