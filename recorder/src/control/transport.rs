//! A Unix socket under Varlink: each side has a thread for each connection, which waits in read and write.
//!
//! zlink's functions are futures. On this socket all of them are ready when they return, so [`now`] is the whole
//! runtime that they need.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use zlink_core::connection::PassedCredentials;
use zlink_core::connection::socket::{ReadHalf, ReadResult, Socket, WriteHalf};

use crate::kernel::stream;

/// The longest message that is taken, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The byte that ends each message.
const END_OF_MESSAGE: u8 = 0;

/// A socket, in both directions.
#[derive(Debug)]
pub(super) struct Stream(Arc<UnixStream>);

impl From<UnixStream> for Stream {
    fn from(socket: UnixStream) -> Stream {
        Stream(Arc::new(socket))
    }
}

/// The direction in which messages come.
#[derive(Debug)]
pub(super) struct Incoming {
    socket: Arc<UnixStream>,
    /// Bytes since the last message ended.
    unfinished: usize,
}

/// The direction in which messages go.
#[derive(Debug)]
pub(super) struct Outgoing(Arc<UnixStream>);

impl Socket for Stream {
    type ReadHalf = Incoming;
    type WriteHalf = Outgoing;
    const CAN_TRANSFER_FDS: bool = true;

    fn split(self) -> (Incoming, Outgoing) {
        (Incoming { socket: self.0.clone(), unfinished: 0 }, Outgoing(self.0))
    }
}

impl ReadHalf for Incoming {
    async fn read(&mut self, buffer: &mut [u8]) -> zlink_core::Result<ReadResult> {
        let mut descriptors = Vec::new();
        let bytes = stream::receive(&self.socket, buffer, &mut descriptors)?;
        let read = &buffer[..bytes];
        self.unfinished = match read.iter().rposition(|byte| *byte == END_OF_MESSAGE) {
            Some(end) => bytes - end - 1,
            None => self.unfinished + bytes,
        };
        // zlink itself would take a hundred times as much.
        if self.unfinished > MAX_MESSAGE_BYTES {
            return Err(zlink_core::Error::BufferOverflow);
        }
        Ok(ReadResult::new(bytes).set_fds(descriptors))
    }
}

impl WriteHalf for Outgoing {
    async fn write(
        &mut self,
        bytes: &[u8],
        fds: &[impl AsFd],
        _credentials: Option<&PassedCredentials>,
    ) -> zlink_core::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        Ok(stream::send(&self.0, bytes, &descriptors)?)
    }
}

/// What a future on such a socket comes to.
///
/// # Errors
/// Its own; and one that cannot be, when it would have to be waited for.
pub(super) fn now<T>(future: impl Future<Output = zlink_core::Result<T>>) -> zlink_core::Result<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::Error::from(io::ErrorKind::WouldBlock).into()),
    }
}
