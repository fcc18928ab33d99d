//! How to record: the payload of START.
//!
//! ```text
//!  0      4             8              16             24         32
//!  +------+-------------+--------------+--------------+----------+-----------
//!  | mode | disposition | buffer bytes | process koid | reserved | categories
//!  +------+-------------+--------------+--------------+----------+-----------
//! ```

use super::{WireError, list};
use crate::Koid;
use crate::engine::{BufferDisposition, Mode};

/// Bytes of the payload before the enabled categories.
pub const START_BLOCK_BYTES: usize = 32;

/// What START requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// What happens when the buffer is full.
    pub mode: Mode,
    /// What happens to the content of an earlier session in the buffer.
    pub disposition: BufferDisposition,
    /// Bytes of the buffer whose descriptor comes with the message.
    pub buffer_bytes: u64,
    /// The provider's process id in the manager's PID namespace.
    pub process: Koid,
    /// The enabled categories: names, prefixes such as `app*`, or `*` for all; an
    /// empty list also means all.
    pub categories: Vec<String>,
}

impl Start {
    pub(super) fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let block = payload.split_first_chunk::<START_BLOCK_BYTES>();
        let (block, categories) = block.ok_or(WireError::Truncated { bytes: payload.len() })?;
        let reserved = u64_at(block, 24);
        if reserved != 0 {
            return Err(WireError::NotZero { value: reserved });
        }
        Ok(Self {
            mode: mode(u32_at(block, 0))?,
            disposition: disposition(u32_at(block, 4))?,
            buffer_bytes: u64_at(block, 8),
            process: Koid(u64_at(block, 16)),
            categories: list::decode(categories)?,
        })
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mode: u32 = match self.mode {
            Mode::Oneshot => 0,
            Mode::Circular => 1,
            Mode::Streaming => 2,
        };
        let disposition: u32 = match self.disposition {
            BufferDisposition::ClearEntire => 1,
            BufferDisposition::ClearNondurable => 2,
            BufferDisposition::Retain => 3,
        };
        let mut payload = Vec::with_capacity(START_BLOCK_BYTES);
        payload.extend_from_slice(&mode.to_ne_bytes());
        payload.extend_from_slice(&disposition.to_ne_bytes());
        payload.extend_from_slice(&self.buffer_bytes.to_ne_bytes());
        payload.extend_from_slice(&self.process.0.to_ne_bytes());
        payload.extend_from_slice(&0_u64.to_ne_bytes());
        list::encode(self.categories.iter().map(String::as_str), &mut payload)?;
        Ok(payload)
    }
}

fn mode(mode: u32) -> Result<Mode, WireError> {
    match mode {
        0 => Ok(Mode::Oneshot),
        1 => Ok(Mode::Circular),
        2 => Ok(Mode::Streaming),
        _ => Err(WireError::Mode { mode }),
    }
}

fn disposition(disposition: u32) -> Result<BufferDisposition, WireError> {
    match disposition {
        1 => Ok(BufferDisposition::ClearEntire),
        2 => Ok(BufferDisposition::ClearNondurable),
        3 => Ok(BufferDisposition::Retain),
        _ => Err(WireError::Disposition { disposition }),
    }
}

fn u32_at(block: &[u8; START_BLOCK_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|index| block[at + index]))
}

fn u64_at(block: &[u8; START_BLOCK_BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|index| block[at + index]))
}
