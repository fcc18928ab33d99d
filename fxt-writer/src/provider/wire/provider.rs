//! What a provider sends to the manager.

use super::head::Frame;
use super::{MAX_ALERT_BYTES, Session, WireError, kind, list};

/// A message from a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromProvider {
    /// REGISTER, the first message of a connection.
    Register {
        /// The provider's name; 1 to 255 bytes.
        name: String,
        /// Its categories known so far; each 1 to 255 bytes.
        categories: Vec<String>,
    },
    /// CATEGORIES: categories that became known since the previous message.
    Categories(
        /// The new categories, without those that were already sent.
        Vec<String>,
    ),
    /// STOPPED: the buffer of this session is final, and in streaming mode saved.
    Stopped(
        /// The session of the STOP that this answers.
        Session,
    ),
    /// ALERT: an event on which a trigger may fire.
    Alert(
        /// The alert's name, 1 to 14 bytes.
        String,
    ),
}

impl FromProvider {
    /// Decodes `bytes`, one whole datagram.
    ///
    /// # Errors
    ///
    /// Returns an error when the bytes are not a valid message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let frame = Frame::decode(bytes)?;
        match frame.kind {
            kind::REGISTER => {
                frame.expect_no_data()?;
                let mut items = list::decode(frame.payload)?;
                if items.is_empty() {
                    return Err(WireError::NoName);
                }
                let name = items.remove(0);
                Ok(Self::Register { name, categories: items })
            }
            kind::CATEGORIES => {
                frame.expect_no_data()?;
                Ok(Self::Categories(list::decode(frame.payload)?))
            }
            kind::STOPPED => {
                frame.expect_no_payload()?;
                Ok(Self::Stopped(Session::decode(frame.data)?))
            }
            kind::ALERT => {
                frame.expect_no_data()?;
                Ok(Self::Alert(alert_name(list::text(frame.payload)?)?.to_owned()))
            }
            kind => Err(WireError::Kind { kind }),
        }
    }

    /// The message as one datagram.
    ///
    /// # Errors
    ///
    /// Returns an error when a string cannot be expressed, or the message grows too long.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut payload = Vec::new();
        let (kind, data) = match self {
            Self::Register { name, categories } => {
                let items = std::iter::once(name).chain(categories);
                list::encode(items.map(String::as_str), &mut payload)?;
                (kind::REGISTER, 0)
            }
            Self::Categories(categories) => {
                list::encode(categories.iter().map(String::as_str), &mut payload)?;
                (kind::CATEGORIES, 0)
            }
            Self::Stopped(session) => (kind::STOPPED, session.number()),
            Self::Alert(name) => {
                payload.extend_from_slice(alert_name(name)?.as_bytes());
                (kind::ALERT, 0)
            }
        };
        Frame { kind, data, payload: &payload }.encode()
    }
}

fn alert_name(name: &str) -> Result<&str, WireError> {
    let fits = (1..=MAX_ALERT_BYTES).contains(&name.len());
    if fits && !name.contains('\0') {
        Ok(name)
    } else {
        Err(WireError::AlertName { bytes: name.len() })
    }
}
