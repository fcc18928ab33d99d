//! Closes sockets whose other end is not trusted.
//!
//! An unwanted descriptor in a message is closed by the process that reads the message, or that closes the socket with the message unread.
//! If it is a TCP socket with `SO_LINGER`, close(2) waits until its data is sent: for as long as its creator chose. A signal ends that
//! wait. So a timer of the thread sends a signal while the thread makes such a call:
//!
//! ```text
//!   recv(2), close(2)  [....10 ms....] SIGURG, and again every 10 ms; at the first the kernel gives up waiting
//! ```
//!
//! From Linux 6.16 on, [`refuse_descriptors`] prevents such messages from being sent.

use std::cell::RefCell;
use std::ffi::c_int;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::gettid;

/// It is ignored by default, so a program that gets it by mistake is not harmed.
const SIGNAL: Signal = Signal::SIGURG;

/// How long a call may wait.
const MOST: Duration = Duration::from_millis(10);

/// An option of setsockopt(2), since Linux 6.16: whether descriptors may be sent to this socket.
const SO_PASSRIGHTS: c_int = 83;

thread_local! {
    static TIMER: RefCell<Option<Timer>> = RefCell::new(timer().ok());
}

extern "C" fn ignore(_: c_int) {}

fn timer() -> io::Result<Timer> {
    static HANDLER: OnceLock<nix::Result<()>> = OnceLock::new();
    // An ignored signal interrupts nothing, and with SA_RESTART the call would wait again.
    let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    let handle = || unsafe { nix::sys::signal::sigaction(SIGNAL, &action) }.map(drop);
    (*HANDLER.get_or_init(handle))?;
    let mut only = SigSet::empty();
    only.add(SIGNAL);
    only.thread_unblock()?;
    let to =
        SigevNotify::SigevThreadId { signal: SIGNAL, thread_id: gettid().as_raw(), si_value: 0 };
    Ok(Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(to))?)
}

/// Makes calls that may close descriptors that other processes sent. A call that waits is interrupted after a short time, provided that the
/// kernel gave this thread a timer.
pub fn interrupted<T>(act: impl FnOnce() -> T) -> T {
    set(MOST);
    let done = act();
    set(Duration::ZERO);
    done
}

/// Sets this thread's timer, or stops it. The timer is already gone while the thread's last values are dropped.
fn set(interval: Duration) {
    let _ = TIMER.try_with(|timer| {
        let interval = TimeSpec::from_duration(interval);
        let when = Expiration::IntervalDelayed(interval, interval);
        let none = TimerSetTimeFlags::empty();
        timer.borrow_mut().as_mut().map(|timer| timer.set(when, none))
    });
}

/// Tells the kernel to refuse descriptors sent to this socket, and to sockets accepted from it. Older kernels do not support this.
pub fn refuse_descriptors(socket: BorrowedFd<'_>) {
    let off: c_int = 0;
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the option has a value of this size, which lives during the call.
    let _ = unsafe {
        let value = (&raw const off).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, value, size)
    };
}

/// A socket that closes within a short time, even if it has unread data.
#[derive(Debug)]
pub struct BriefClose(ManuallyDrop<OwnedFd>);

impl<T: Into<OwnedFd>> From<T> for BriefClose {
    fn from(socket: T) -> BriefClose {
        BriefClose(ManuallyDrop::new(socket.into()))
    }
}

impl AsFd for BriefClose {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for BriefClose {
    fn drop(&mut self) {
        // SAFETY: the descriptor is not used after this.
        interrupted(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use nix::sys::socket::{setsockopt, sockopt};

    use super::*;
    use crate::stream;

    /// A connection that takes an hour to close, and its other end, which reads nothing.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("one")).expect("there");
        let far = listener.accept().expect("it has come").0;
        let linger = libc::linger { l_onoff: 1, l_linger: 3600 };
        setsockopt(&near, sockopt::Linger, &linger).expect("a socket may");
        near.set_nonblocking(true).expect("its own");
        while near.write(&[0; 1 << 16]).is_ok() {}
        near.set_nonblocking(false).expect("its own");
        (near, far)
    }

    #[test]
    fn what_came_over_a_socket_is_closed_in_a_moment_though_it_lingers() {
        let (ours, theirs) = UnixStream::pair().expect("two ends");
        let send = || {
            let (near, far) = lingering();
            stream::send(&theirs, &[1], &[near.as_fd()]).expect("there is room");
            far
        };
        let _far = send();
        let read = interrupted(|| stream::receive_without_descriptors(&ours, &mut [0; 8]));
        assert_eq!(read.expect("something came"), 1);
        let _far = send();
        // Another test may have forked a child that still has the descriptor, so this can only check that the call returns.
        drop(BriefClose::from(ours));
    }

    #[test]
    fn nobody_sends_descriptors_to_a_socket_that_refuses_them_where_the_kernel_can() {
        let (ours, theirs) = UnixStream::pair().expect("two ends");
        refuse_descriptors(ours.as_fd());
        let sent = stream::send(&theirs, &[1], &[theirs.as_fd()]);
        let kernel = nix::sys::utsname::uname().expect("a name");
        let release = kernel.release().to_string_lossy().into_owned();
        let number = |nth| release.split(['.', '-']).nth(nth)?.parse::<u32>().ok();
        let can = (number(0), number(1)) >= (Some(6), Some(16));
        assert_eq!(sent.is_err(), can, "{release}");
        stream::send(&theirs, &[1], &[]).expect("bytes may come");
    }
}
