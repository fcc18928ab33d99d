//! The process that receives a client's descriptors: it runs as the client's user without privileges, reports the type of the descriptor,
//! and copies the daemon's data to it.
//!
//! Every system call here may block forever; then the daemon kills the process.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::sockopt::SockType as SocketType;
use nix::sys::socket::{SockType, getsockopt};
use nix::unistd::{Gid, Pid, Uid, getppid, setgroups, setresgid, setresuid};

use super::Destination;
use super::talk::News;
use fxtrec_kernel::caps;
use fxtrec_kernel::stream;

/// The process's name, by which the program recognizes its task.
pub const NAME: &str = "fxtrec-output";

/// The maximum size of one write to a file, in bytes.
const FILE_BYTES: usize = 256 * 1024;

/// The maximum size of a write to a pipe or socket, in bytes, so that progress of every reader is noticed.
const PIPE_BYTES: usize = 4096;

/// Runs the whole process; `args` are user, group, the daemon's process and the maximum size of a message in bytes.
///
/// # Errors
/// Returns an error when the daemon has ended or sends an invalid message.
pub fn run(args: impl Iterator<Item = String>) -> io::Result<()> {
    let numbers: Vec<u32> = args.filter_map(|word| word.parse().ok()).collect();
    let [uid, gid, daemon, most] = numbers[..] else { return Err(ErrorKind::InvalidInput.into()) };
    give_up_privileges(uid, gid)?;
    nix::sys::prctl::set_name(c"fxtrec-output")?;
    // Dropping the privileges has reset this setting.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if u32::try_from(getppid().as_raw()) != Ok(daemon)
        || getppid() == Pid::from_raw(1) && daemon != 1
    {
        return Ok(());
    }
    let connection = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let channel = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut message = vec![0; most as usize];
    let mut descriptors = Vec::new();
    let count = stream::receive(&connection, &mut message, &mut descriptors)?;
    message.truncate(count);
    // While this copy is open, the client cannot see that the daemon has closed the connection.
    drop(connection);
    let null = OpenOptions::new().read(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    say(&channel, &News::Received(message))?;
    serve(&channel, descriptors)
}

fn give_up_privileges(uid: u32, gid: u32) -> io::Result<()> {
    setgroups(&[])?;
    setresgid(Gid::from_raw(gid), Gid::from_raw(gid), Gid::from_raw(gid))?;
    setresuid(Uid::from_raw(uid), Uid::from_raw(uid), Uid::from_raw(uid))?;
    nix::sys::prctl::set_no_new_privs()?;
    nix::sys::prctl::set_dumpable(false)?;
    // If the client is root, some capabilities remain.
    caps::give_up_all()
}

fn say(mut channel: &UnixStream, news: &News) -> io::Result<()> {
    channel.write_all(&news.encode())
}

/// Receives the choice of descriptor, reports its type, and writes the following data to it.
pub(super) fn serve(mut channel: &UnixStream, descriptors: Vec<OwnedFd>) -> io::Result<()> {
    // Closing descriptors that are not outputs could take forever; they are closed when the process ends.
    let mut descriptors: Vec<_> = descriptors.into_iter().map(ManuallyDrop::new).collect();
    let mut index = [0];
    channel.read_exact(&mut index)?;
    let index = usize::from(index[0]);
    if index >= descriptors.len() {
        return say(channel, &News::Unfit(format!("no descriptor {index} came with the message")));
    }
    let output = ManuallyDrop::into_inner(descriptors.swap_remove(index));
    match examine(output) {
        Ok((output, destination)) => {
            say(channel, &News::Output(destination.clone()))?;
            copy(channel, &output, destination.is_file)
        }
        Err(unfit) => say(channel, &News::Unfit(unfit.to_string())),
    }
}

/// Copies to the output until the input ends.
pub(super) fn copy(mut channel: &UnixStream, output: &OwnedFd, is_file: bool) -> io::Result<()> {
    let output = output.try_clone().map(File::from)?;
    let mut buffer = vec![0; if is_file { FILE_BYTES } else { PIPE_BYTES }];
    let mut written = 0;
    loop {
        let count = match channel.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match (&output).write(rest) {
                Ok(0) => return fail(channel, &ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = &rest[count..];
                    written += count as u64;
                    say(channel, &News::Written(written))?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The client has made the open file non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
                    poll(&mut polled, PollTimeout::NONE)?;
                }
                Err(error) => return fail(channel, &error),
            }
        }
    }
    // Some file systems report only at this point that they were full.
    match nix::unistd::close(output.into_raw_fd()) {
        Ok(()) => say(channel, &News::Done),
        Err(errno) => fail(channel, &errno.into()),
    }
}

fn fail(channel: &UnixStream, error: &io::Error) -> io::Result<()> {
    let why = match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "the reader of the output closed it".to_owned()
        }
        _ => format!("cannot write the output: {error}"),
    };
    say(channel, &News::Failed(why))
}

/// The reason why a descriptor cannot be an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum Unfit {
    /// It cannot be written to.
    #[error("it is not open for writing")]
    ReadOnly,
    /// It may be of any kind.
    #[error("it is neither a regular file, nor a pipe, nor a stream socket")]
    Kind,
    /// A named pipe has no reader. For an unnamed pipe, the first write fails.
    #[error("it is a pipe without a reader")]
    NoReader,
    #[error("cannot examine it: {0}")]
    System(#[from] io::Error),
}

/// Whether a descriptor can be an output, and its type.
fn examine(passed: OwnedFd) -> Result<(OwnedFd, Destination), Unfit> {
    let flags = fcntl(&passed, FcntlArg::F_GETFL).map_err(io::Error::from)?;
    let access = OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE;
    if access != OFlag::O_WRONLY && access != OFlag::O_RDWR {
        return Err(Unfit::ReadOnly);
    }
    let file = File::from(passed);
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let destination = if kind.is_file() {
        // A deleted file has no path.
        let path = (metadata.nlink() > 0).then(|| std::fs::read_link(own).ok());
        Destination { is_file: true, path: path.flatten() }
    } else if kind.is_fifo() {
        let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(own);
        if opened.is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO)) {
            return Err(Unfit::NoReader);
        }
        Destination { is_file: false, path: None }
    } else if kind.is_socket() && getsockopt(&file, SocketType) == Ok(SockType::Stream) {
        Destination { is_file: false, path: None }
    } else {
        return Err(Unfit::Kind);
    };
    Ok((file.into(), destination))
}

#[cfg(test)]
mod tests {
    use std::io::pipe;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn unfit(descriptor: impl Into<OwnedFd>) -> String {
        examine(descriptor.into()).expect_err("unfit").to_string()
    }

    #[test]
    fn what_cannot_be_written_to_and_what_is_no_stream_is_refused() {
        let (reader, _writer) = pipe().expect("a pipe");
        assert!(unfit(reader).contains("not open for writing"));
        assert!(unfit(File::open("/proc/self/stat").expect("there")).contains("not open"));
        for path in ["/dev/null", "/dev/full"] {
            let device = OpenOptions::new().write(true).open(path).expect("there");
            assert!(unfit(device).contains("neither"), "{path}");
        }
        assert!(unfit(UnixDatagram::unbound().expect("a socket")).contains("neither"));
    }

    #[test]
    fn a_file_is_known_by_its_name_while_it_has_one() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let output = file.reopen().expect("it is there");
        let name = |output: &File| {
            let output = output.try_clone().expect("a copy");
            examine(output.into()).expect("a file is fine").1.path
        };
        assert_eq!(name(&output).as_deref(), Some(file.path()));
        drop(file);
        assert_eq!(name(&output), None);
    }

    #[test]
    fn a_stream_socket_and_a_pipe_are_no_files() {
        let (_reader, writer) = pipe().expect("a pipe");
        let (one, _other) = UnixStream::pair().expect("a pair");
        for output in [OwnedFd::from(writer), OwnedFd::from(one)] {
            let (_, destination) = examine(output).expect("fine");
            assert_eq!(destination, Destination { is_file: false, path: None });
        }
    }
}
