//! FIFO packets: the messages between a trace provider and the saver of its
//! buffers ("FIFO packets").
//!
//! ```text
//!  engine                                    saver
//!    | STARTED(protocol version)               |
//!    |---------------------------------------->|
//!    | SAVE_BUFFER(wrapped count, durable end) |
//!    |---------------------------------------->|  saves new durable data up to
//!    |                                         |  the end, then rolling buffer
//!    | BUFFER_SAVED(the same two values)       |  (wrapped count & 1)
//!    |<----------------------------------------|
//! ```

/// Bytes in a packet.
pub const PACKET_BYTES: usize = 16;
/// Version of the protocol, sent with [`STARTED`].
pub const PROTOCOL_VERSION: u32 = 1;

/// Request: the provider has started; `data32` is the protocol version.
pub const STARTED: u16 = 1;
/// Request: a rolling buffer is full and must be saved; `data32` is the wrapped
/// count, `data64` the end of the durable data in bytes.
pub const SAVE_BUFFER: u16 = 2;
/// Answer: the buffer has been saved; the data is that of the request.
pub const BUFFER_SAVED: u16 = 3;

/// One packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The type: [`STARTED`], [`SAVE_BUFFER`] or [`BUFFER_SAVED`].
    pub request: u16,
    /// Zero.
    pub reserved: u16,
    /// Depends on the request.
    pub data32: u32,
    /// Depends on the request.
    pub data64: u64,
}

impl Packet {
    /// The packet that reports the provider's start and its protocol version.
    #[must_use]
    pub const fn started() -> Self {
        Self { request: STARTED, reserved: 0, data32: PROTOCOL_VERSION, data64: 0 }
    }

    /// Asks to save the rolling buffer `wrapped_count & 1`, after durable data up
    /// to `durable_end`, in bytes since the engine was started.
    #[must_use]
    pub const fn save_buffer(wrapped_count: u32, durable_end: u64) -> Self {
        Self { request: SAVE_BUFFER, reserved: 0, data32: wrapped_count, data64: durable_end }
    }

    /// The answer to this request to save a buffer.
    #[must_use]
    pub const fn buffer_saved(self) -> Self {
        Self { request: BUFFER_SAVED, reserved: 0, ..self }
    }

    /// The packet in its transmitted form, with numbers in machine order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[0..2].copy_from_slice(&self.request.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.reserved.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.data32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.data64.to_ne_bytes());
        bytes
    }

    /// A packet as it was received.
    #[must_use]
    pub fn from_bytes(bytes: [u8; PACKET_BYTES]) -> Self {
        let [r0, r1, z0, z1, a0, a1, a2, a3, b0, b1, b2, b3, b4, b5, b6, b7] = bytes;
        Self {
            request: u16::from_ne_bytes([r0, r1]),
            reserved: u16::from_ne_bytes([z0, z1]),
            data32: u32::from_ne_bytes([a0, a1, a2, a3]),
            data64: u64::from_ne_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_packet_is_laid_out_as_in_the_protocol() {
        let packet = Packet::save_buffer(0x0403_0201, 0x1817_1615_1413_1211);
        let bytes = [2, 0, 0, 0, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(packet.to_bytes(), bytes);
        assert_eq!(Packet::from_bytes(bytes), packet);
    }

    #[test]
    fn the_answer_carries_the_data_of_the_request() {
        let answer = Packet::save_buffer(7, 96).buffer_saved();
        assert_eq!(answer, Packet { request: BUFFER_SAVED, reserved: 0, data32: 7, data64: 96 });
    }
}
