//! A Unix socket under Varlink: each side has a thread for each connection, which waits in read and write.
//!
//! zlink's functions are futures. On this socket all of them are ready when they return, so [`now`] is the whole
//! runtime that they need.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use zlink_core::connection::PassedCredentials;
use zlink_core::connection::socket::{ReadHalf, ReadResult, Socket, WriteHalf};

use fxtrec_kernel::stream;

/// The longest message that is taken, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The byte that ends each message.
const END_OF_MESSAGE: u8 = 0;

/// Receives the next bytes, at most so many, where descriptors come with them. What becomes of these is its own affair.
pub(super) type OnDescriptors = Box<dyn FnMut(&UnixStream, usize) -> io::Result<Vec<u8>> + Send>;

/// A socket, in both directions.
pub(super) struct Stream {
    socket: Arc<UnixStream>,
    on_descriptors: OnDescriptors,
}

impl Stream {
    /// One over which descriptors come.
    pub(super) fn new(socket: UnixStream, on_descriptors: OnDescriptors) -> Stream {
        Stream { socket: Arc::new(socket), on_descriptors }
    }
}

/// One over which no descriptors come: those that do are let go of.
impl From<UnixStream> for Stream {
    fn from(socket: UnixStream) -> Stream {
        let discard = |socket: &UnixStream, most| {
            let mut bytes = vec![0; most];
            let count = stream::receive_without_descriptors(socket, &mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        Stream::new(socket, Box::new(discard))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The direction in which messages come.
pub(super) struct Incoming {
    socket: Arc<UnixStream>,
    on_descriptors: OnDescriptors,
    /// Bytes since the last message ended.
    unfinished: usize,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Incoming {
    /// Waits for bytes. No descriptor becomes one of this process: even closing it might take for ever.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (there, with_descriptors) = stream::peek(&self.socket, buffer)?;
        if !with_descriptors {
            return stream::receive_without_descriptors(&self.socket, &mut buffer[..there]);
        }
        let bytes = (self.on_descriptors)(&self.socket, there)?;
        let room = buffer.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
        room.copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// The direction in which messages go.
#[derive(Debug)]
pub(super) struct Outgoing(Arc<UnixStream>);

impl Socket for Stream {
    type ReadHalf = Incoming;
    type WriteHalf = Outgoing;
    const CAN_TRANSFER_FDS: bool = true;

    fn split(self) -> (Incoming, Outgoing) {
        let Stream { socket, on_descriptors } = self;
        (Incoming { socket: socket.clone(), on_descriptors, unfinished: 0 }, Outgoing(socket))
    }
}

impl ReadHalf for Incoming {
    async fn read(&mut self, buffer: &mut [u8]) -> zlink_core::Result<ReadResult> {
        let bytes = self.receive(buffer)?;
        let read = &buffer[..bytes];
        self.unfinished = match read.iter().rposition(|byte| *byte == END_OF_MESSAGE) {
            Some(end) => bytes - end - 1,
            None => self.unfinished + bytes,
        };
        // zlink itself would take a hundred times as much.
        if self.unfinished > MAX_MESSAGE_BYTES {
            return Err(zlink_core::Error::BufferOverflow);
        }
        Ok(ReadResult::new(bytes))
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
