//! Varlink's messages over a Unix socket: JSON objects, each followed by a zero byte.
//!
//! Each side has a thread per connection, which blocks in read and write. zlink was used before: its futures had to be polled by hand, and
//! its socket replaced to receive descriptors. Only the zero byte would have been used from zlink, for nine more crates to build.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use fxtrec_kernel::stream;

/// The longest message that the daemon accepts, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The longest answer that a client takes, in bytes: applications have 4 MiB of names of categories, and JSON may write a byte as six.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// The byte that ends each message.
const END_OF_MESSAGE: u8 = 0;

/// The size of one read from the socket, in bytes.
const READ_BYTES: usize = 4096;

/// Receives at most this number of bytes, and keeps the descriptors that come with them.
pub(super) type OnDescriptors = Box<dyn FnMut(&UnixStream, usize) -> io::Result<Vec<u8>> + Send>;

/// The reason why a message did not arrive or is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// A system call on the socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other side closed the connection, at the end of a message or within one.
    #[error("the connection was closed")]
    Closed,
    /// No end of the message within 1 MiB.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// Not JSON, or not the kind of object that is expected here.
    #[error("malformed message: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A reply without parameters; the replies of all methods of the interface have some.
    #[error("the reply has no parameters")]
    NoParameters,
    /// An error that every Varlink service may answer.
    #[error(transparent)]
    Service(ServiceError),
    /// An error that is defined neither in the interface nor for all services.
    #[error("unknown error {0}")]
    UnknownError(String),
}

/// The errors of the interface `org.varlink.service` that are used here.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "error", content = "parameters")]
#[non_exhaustive]
pub enum ServiceError {
    /// The service does not have this interface.
    #[error("unknown interface {interface}")]
    #[serde(rename = "org.varlink.service.InterfaceNotFound")]
    InterfaceNotFound { interface: String },
    /// The interface does not have this method.
    #[error("unknown method {method}")]
    #[serde(rename = "org.varlink.service.MethodNotFound")]
    MethodNotFound { method: String },
    /// A parameter has the wrong type, or a value that is not allowed.
    #[error("invalid parameter {parameter}")]
    #[serde(rename = "org.varlink.service.InvalidParameter")]
    InvalidParameter { parameter: String },
}

/// A socket, with data read ahead.
pub(super) struct Connection {
    socket: UnixStream,
    on_descriptors: OnDescriptors,
    /// Bytes that were received and are not processed yet.
    received: Vec<u8>,
    /// How many of these are known not to contain the end of a message.
    searched: usize,
    /// The maximum length of a message.
    most: usize,
}

impl Connection {
    /// A connection that receives descriptors.
    pub(super) fn new(socket: UnixStream, on_descriptors: OnDescriptors) -> Connection {
        let most = MAX_MESSAGE_BYTES;
        Connection { socket, on_descriptors, received: Vec::new(), searched: 0, most }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// `Malformed`, after which the next message can be received; `Io`, `Closed` and `TooLong`, after which none can.
    pub(super) fn receive<M: DeserializeOwned>(&mut self) -> Result<M, MessageError> {
        let end = self.receive_to_end()?;
        let message = serde_json::from_slice(&self.received[..end]);
        self.received.drain(..=end);
        Ok(message?)
    }

    /// The end of the first message in the received data. Waits until it does.
    fn receive_to_end(&mut self) -> Result<usize, MessageError> {
        loop {
            let unsearched = &self.received[self.searched..];
            if let Some(at) = unsearched.iter().position(|byte| *byte == END_OF_MESSAGE) {
                let end = self.searched + at;
                self.searched = 0;
                return Ok(end);
            }
            self.searched = self.received.len();
            if self.searched > self.most {
                return Err(MessageError::TooLong(self.most));
            }
            let before = self.received.len();
            self.receive_some()?;
            if self.received.len() == before {
                return Err(MessageError::Closed);
            }
        }
    }

    /// Waits for bytes. The descriptors are not installed in this process: even closing a descriptor might block forever.
    fn receive_some(&mut self) -> io::Result<()> {
        let before = self.received.len();
        self.received.resize(before + READ_BYTES, 0);
        let buffer = &mut self.received[before..];
        let received = match stream::peek(&self.socket, buffer) {
            Ok((there, true)) => (self.on_descriptors)(&self.socket, there).and_then(|bytes| {
                let room = buffer.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
                room.copy_from_slice(&bytes);
                Ok(bytes.len())
            }),
            Ok((there, false)) => {
                stream::receive_without_descriptors(&self.socket, &mut buffer[..there])
            }
            Err(error) => Err(error),
        };
        self.received.truncate(before + received.as_ref().map_or(0, |bytes| *bytes));
        received.map(drop)
    }

    /// Sends a message, and descriptors with its first byte. Waits while the socket has no space.
    ///
    /// # Errors
    /// `Io`; `Malformed` when the message cannot be JSON.
    pub(super) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[OwnedFd],
    ) -> Result<(), MessageError> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(END_OF_MESSAGE);
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        Ok(stream::send(&self.socket, &bytes, &descriptors)?)
    }
}

/// A client's connection, on which no descriptors are expected: any that arrive are closed.
impl From<UnixStream> for Connection {
    fn from(socket: UnixStream) -> Connection {
        let discard = |socket: &UnixStream, most| {
            let mut bytes = vec![0; most];
            let count = stream::receive_without_descriptors(socket, &mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        Connection { most: MAX_ANSWER_BYTES, ..Connection::new(socket, Box::new(discard)) }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("socket", &self.socket).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::{Value, json};

    use super::*;

    fn pair() -> (UnixStream, Connection) {
        let (other, socket) = UnixStream::pair().expect("a pair of sockets can be made");
        (other, Connection::from(socket))
    }

    #[test]
    fn messages_that_come_together_or_in_parts_are_taken_one_by_one() {
        let (mut other, mut connection) = pair();
        other.write_all(b"{\"a\":1}\0{\"b\":2}\0{\"c\"").expect("there is room");
        assert_eq!(connection.receive::<Value>().expect("one is there"), json!({"a": 1}));
        assert_eq!(connection.receive::<Value>().expect("one is there"), json!({"b": 2}));
        other.write_all(b":3}\0").expect("there is room");
        assert_eq!(connection.receive::<Value>().expect("the rest has come"), json!({"c": 3}));
    }

    #[test]
    fn a_malformed_message_is_reported_and_the_next_one_is_read() {
        let (mut other, mut connection) = pair();
        other.write_all(b"{]\0{}\0").expect("there is room");
        let error = connection.receive::<Value>().expect_err("it is not JSON");
        assert!(matches!(error, MessageError::Malformed(_)), "{error}");
        assert_eq!(connection.receive::<Value>().expect("one is there"), json!({}));
    }

    #[test]
    fn an_end_within_a_message_is_the_end_of_the_connection() {
        let (mut other, mut connection) = pair();
        other.write_all(b"{\"a\"").expect("there is room");
        drop(other);
        let error = connection.receive::<Value>().expect_err("nothing more comes");
        assert!(matches!(error, MessageError::Closed), "{error}");
    }

    #[test]
    fn a_message_without_an_end_is_given_up_after_the_longest_one_which_is_longer_for_a_client() {
        for (is_daemon, most) in [(true, MAX_MESSAGE_BYTES), (false, MAX_ANSWER_BYTES)] {
            let (mut other, mut connection) = pair();
            connection.most = if is_daemon { MAX_MESSAGE_BYTES } else { connection.most };
            let writer = std::thread::spawn(move || {
                let blanks = [b' '; 4096];
                let mut sent = 0;
                while other.write_all(&blanks).is_ok() {
                    sent += blanks.len();
                }
                sent
            });
            let error = connection.receive::<Value>().expect_err("it has no end");
            assert!(matches!(error, MessageError::TooLong(at) if at == most), "{error}");
            drop(connection);
            assert!(writer.join().expect("the writer ends") > most);
        }
    }
}
