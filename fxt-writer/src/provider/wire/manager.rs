//! What the manager sends to a provider.

use super::head::Frame;
use super::{Session, Start, WireError, kind};

/// A message from the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromManager {
    /// START: record into the buffer whose descriptor comes with this message.
    Start {
        /// The number of the new session.
        session: Session,
        /// How to record.
        start: Start,
    },
    /// STOP: finish the buffer, hand over the rest, answer STOPPED.
    Stop(
        /// The session to stop.
        Session,
    ),
    /// TERMINATE: release the buffer. Before any START: no session runs now.
    Terminate(
        /// The session that has ended or, before any START, any number.
        Session,
    ),
}

impl FromManager {
    /// Decodes `bytes`, one whole datagram.
    ///
    /// # Errors
    ///
    /// Returns an error when the bytes are not a valid message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let frame = Frame::decode(bytes)?;
        match frame.kind {
            kind::START => {
                let session = Session::decode(frame.data)?;
                Ok(Self::Start { session, start: Start::decode(frame.payload)? })
            }
            kind::STOP => {
                frame.expect_no_payload()?;
                Ok(Self::Stop(Session::decode(frame.data)?))
            }
            kind::TERMINATE => {
                frame.expect_no_payload()?;
                Ok(Self::Terminate(Session::decode(frame.data)?))
            }
            kind => Err(WireError::Kind { kind }),
        }
    }

    /// The message as one datagram.
    ///
    /// # Errors
    ///
    /// Returns an error when a category cannot be expressed, or the message grows too long.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let (kind, session, payload) = match self {
            Self::Start { session, start } => (kind::START, session, start.encode()?),
            Self::Stop(session) => (kind::STOP, session, Vec::new()),
            Self::Terminate(session) => (kind::TERMINATE, session, Vec::new()),
        };
        Frame { kind, data: session.number(), payload: &payload }.encode()
    }
}
