//! The ways in which a provider can violate the protocol.

use std::io;

use fxt_writer::engine::RemoteError;
use fxt_writer::packet;
use fxt_writer::provider::wire::WireError;

/// A violation by a provider, or a failed operation on it. It ends the recording or the connection of that provider and does not affect
/// others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Fault {
    /// An invalid control message.
    #[error(transparent)]
    Message(#[from] WireError),
    /// An impossible request or buffer content.
    #[error(transparent)]
    Memory(#[from] RemoteError),
    /// Records that it had finished have changed.
    #[error("it repeatedly changed records in its buffer after it had completed them")]
    Changed,
    /// The first message was not REGISTER.
    #[error("it sent messages before it registered")]
    NotRegistered,
    /// Its name is reserved for fxtrec.
    #[error("it registered under the reserved name fxtrec")]
    ReservedName,
    #[error("it registered again")]
    RegisteredAgain,
    /// It did not register in time.
    #[error("it connected but did not register")]
    Silent,
    /// It registers too many categories.
    #[error("it sent more than {max} categories")]
    TooManyCategories { max: usize },
    /// A packet of another size.
    #[error("a packet on its FIFO has {bytes} bytes instead of {}", packet::PACKET_BYTES)]
    PacketSize {
        /// This many arrived, or more.
        bytes: usize,
    },
    /// A packet that a provider must not send, or not at this time.
    #[error("unexpected request {request} on its FIFO")]
    Request { request: u16 },
    /// A packet of another protocol version.
    #[error(
        "its FIFO protocol has version {found} instead of {}; build it and fxtrec from the same release",
        packet::PROTOCOL_VERSION
    )]
    FifoVersion { found: u32 },
    /// It leaves messages unread until no more can be sent.
    #[error("it does not read its messages")]
    Deaf,
    /// No buffer for it could be created, or a call on its sockets failed.
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

impl Fault {
    /// Adds the context of [`Fault::System`] to an error.
    pub(super) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> Fault {
        move |source| Fault::System { doing, source }
    }

    /// The reason why data could not be sent; `Ok` if the peer has disconnected, which is detected elsewhere.
    pub(super) fn of_send(sent: io::Result<()>) -> Result<(), Fault> {
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Fault::Deaf),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            sent => sent.map_err(Fault::while_doing("send to it")),
        }
    }
}
