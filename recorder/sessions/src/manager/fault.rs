//! What a provider can do against the protocol.

use std::io;

use fxt_writer::engine::RemoteError;
use fxt_writer::packet;
use fxt_writer::provider::wire::WireError;

/// What a provider did, or could not be done with it. It costs that provider its recording or its connection, and
/// nobody else anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Fault {
    /// A control message is none.
    #[error(transparent)]
    Message(#[from] WireError),
    /// What it asks for or what its buffer says cannot be.
    #[error(transparent)]
    Memory(#[from] RemoteError),
    /// Records that it had finished are not what they were.
    #[error("it repeatedly changed records in its buffer after it had completed them")]
    Changed,
    /// Another message than REGISTER came first.
    #[error("it sent messages before it registered")]
    NotRegistered,
    /// What it says would be taken for what fxtrec says.
    #[error("it registered by the name of fxtrec itself")]
    ReservedName,
    #[error("it registered again")]
    RegisteredAgain,
    /// It did not register in time.
    #[error("it connected but did not register")]
    Silent,
    /// It tells more categories than anything has.
    #[error("it sent more than {max} categories")]
    TooManyCategories { max: usize },
    /// A packet of another size.
    #[error("a packet on its FIFO has {bytes} bytes instead of {}", packet::PACKET_BYTES)]
    PacketSize {
        /// As many came, or more.
        bytes: usize,
    },
    /// A packet that is not for a provider to send, or not at this time.
    #[error("unexpected request {request} on its FIFO")]
    Request { request: u16 },
    /// Another version of the protocol on the FIFO.
    #[error(
        "its FIFO protocol has version {found} instead of {}; build it and fxtrec from the same release",
        packet::PROTOCOL_VERSION
    )]
    FifoVersion { found: u32 },
    /// It leaves messages unread until no more can be sent.
    #[error("it does not read its messages")]
    Deaf,
    /// No buffer for it could be made, or a call on its sockets failed.
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

impl Fault {
    /// What [`Fault::System`] wants to know beside the error.
    pub(super) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> Fault {
        move |source| Fault::System { doing, source }
    }

    /// Why something could not be sent; `Ok` when nobody is there any more, which is found out otherwise.
    pub(super) fn of_send(sent: io::Result<()>) -> Result<(), Fault> {
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Fault::Deaf),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            sent => sent.map_err(Fault::while_doing("send to it")),
        }
    }
}
