//! The head with which every control message begins.

use super::{HEAD_BYTES, MAX_MESSAGE_BYTES, PROTOCOL_VERSION, WireError};

/// A parsed message: its head, checked, and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u16,
    pub(super) data: u64,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes the message in `bytes`. The version is checked first, since with
    /// another version nothing else is meaningful.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let truncated = WireError::Truncated { bytes: bytes.len() };
        let (head, payload) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(truncated)?;
        let &[k0, k1, v0, v1, p0, p1, p2, p3, ..] = head;
        let &[.., d0, d1, d2, d3, d4, d5, d6, d7] = head;
        let version = u16::from_ne_bytes([v0, v1]);
        if version != PROTOCOL_VERSION {
            return Err(WireError::Version { found: version });
        }
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(WireError::TooLong { bytes: bytes.len() });
        }
        let announced = u32::from_ne_bytes([p0, p1, p2, p3]);
        if u64::from(announced) != payload.len() as u64 {
            return Err(WireError::PayloadSize { announced, found: payload.len() });
        }
        Ok(Self {
            kind: u16::from_ne_bytes([k0, k1]),
            data: u64::from_ne_bytes([d0, d1, d2, d3, d4, d5, d6, d7]),
            payload,
        })
    }

    pub(super) fn encode(self) -> Result<Vec<u8>, WireError> {
        let bytes = HEAD_BYTES + self.payload.len();
        let Ok(payload_bytes) = u32::try_from(self.payload.len()) else {
            return Err(WireError::TooLong { bytes });
        };
        if bytes > MAX_MESSAGE_BYTES {
            return Err(WireError::TooLong { bytes });
        }
        let mut message = Vec::with_capacity(bytes);
        message.extend_from_slice(&self.kind.to_ne_bytes());
        message.extend_from_slice(&PROTOCOL_VERSION.to_ne_bytes());
        message.extend_from_slice(&payload_bytes.to_ne_bytes());
        message.extend_from_slice(&self.data.to_ne_bytes());
        message.extend_from_slice(self.payload);
        Ok(message)
    }

    /// Checks that the message carries no number, as its kind requires.
    pub(super) fn expect_no_data(&self) -> Result<(), WireError> {
        match self.data {
            0 => Ok(()),
            value => Err(WireError::NotZero { value }),
        }
    }

    /// Checks that the message carries no payload, as its kind requires.
    pub(super) fn expect_no_payload(&self) -> Result<(), WireError> {
        match self.payload.len() {
            0 => Ok(()),
            found => Err(WireError::PayloadSize { announced: 0, found }),
        }
    }
}
