//! Waits for all event sources of the manager's thread.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::provider::Provider;
use fxtrec_kernel::bell::Bell;
use fxtrec_kernel::seqpacket::Listener;

/// The event sources that are ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) rung: bool,
    pub(super) connections: bool,
    /// Each provider's descriptors, in the providers' order.
    pub(super) providers: Vec<Signs>,
}

/// Which descriptors of a provider have something to be read, or are closed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    pub(super) connection: bool,
    pub(super) fifo: bool,
}

/// Waits until a source is ready or `timeout` has passed.
pub(super) fn wait(
    bell: &Bell,
    listener: Option<&Listener>,
    providers: &[Provider],
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let waited = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut polled: Vec<PollFd<'_>> = vec![waited(bell.as_fd())];
    polled.extend(listener.map(|listener| waited(listener.as_fd())));
    for provider in providers {
        polled.push(waited(provider.connection()));
        polled.extend(provider.fifo().map(waited));
    }
    match poll(&mut polled, milliseconds(timeout)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut seen = polled.iter().map(|fd| fd.any().unwrap_or(true));
    let mut next = |is_there: bool| is_there && seen.next().unwrap_or(false);
    let rung = next(true);
    let connections = next(listener.is_some());
    let signs = |provider: &Provider| {
        let connection = next(true);
        Signs { connection, fifo: next(provider.fifo().is_some()) }
    };
    Ok(Ready { rung, connections, providers: providers.iter().map(signs).collect() })
}

/// The timeout for poll, in milliseconds. It is rounded up, since otherwise the last millisecond before a deadline would be spent in a busy
/// loop.
fn milliseconds(timeout: Option<Duration>) -> PollTimeout {
    let Some(timeout) = timeout else { return PollTimeout::NONE };
    PollTimeout::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
}
