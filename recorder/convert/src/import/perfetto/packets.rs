//! The packets of a trace, one by one, including those in compressed packets.
//!
//! ```text
//!   file --> 0a length packet | 0a length packet | ...
//!                       \--> compressed_packets: the same again, deflated or with zstd
//! ```

use std::io::{self, BufRead, BufReader, Read};

use super::wire::{Damaged, Fields, Value};
use crate::ConvertError;

/// Larger packets are rejected. Recorders write at most a few hundred kilobytes.
const MOST_BYTES: u64 = 64 << 20;

/// The maximum window of zstd: 16 MiB.
const MOST_WINDOW_LOG: u32 = 24;

/// The field number of packets in a trace.
const PACKET: u64 = 1;

// Packet fields that contain packets.
const COMPRESSED: u32 = 50;
const COMPRESSED_ZSTD: u32 = 133;

/// The first field of a packet has a number below this.
const MOST_FIELD: u32 = 200;

/// The number of packets at the beginning of a file that are checked.
const SNIFFED: usize = 16;

/// Whether a file with this beginning is a Perfetto trace: all its complete parts are packets.
pub(crate) fn is_trace(first: &[u8]) -> bool {
    let mut rest = Fields(first);
    for number in 0..SNIFFED {
        if rest.0.is_empty() {
            return number > 0;
        }
        if rest.varint() != Ok(PACKET << 3 | 2) {
            return false;
        }
        let Ok(length @ 1..=MOST_BYTES) = rest.varint() else { return false };
        let whole = usize::try_from(length).ok().and_then(|length| rest.0.split_at_checked(length));
        let (mut packet, after) = match whole {
            Some((packet, after)) => (Fields(packet), Some(after)),
            None => (Fields(rest.0), None),
        };
        let mut seen = false;
        loop {
            let at = packet;
            match packet.next() {
                Ok(Some((field, value))) if is_likely(field, value) => seen = true,
                Ok(Some(_)) => return false,
                Ok(None) => break,
                // The rest of the packet is beyond the available bytes.
                Err(Damaged) => return after.is_none() && number > 0 && begins_a_field(at),
            }
        }
        match after {
            Some(after) => rest = Fields(after),
            None => return seen || number > 0,
        }
    }
    true
}

/// Whether a packet may have this field. Nearly all fields are messages; few are numbers.
fn is_likely(field: u32, value: Value<'_>) -> bool {
    const NUMBERS: [u32; 10] = [3, 8, 10, 13, 41, 42, 58, 79, 87, 98];
    match value {
        Value::Number(_) => NUMBERS.contains(&field),
        Value::Bytes(_) => field <= MOST_FIELD && !NUMBERS.contains(&field),
        _ => false,
    }
}

fn begins_a_field(mut fields: Fields<'_>) -> bool {
    fields.varint().is_ok_and(|key| matches!(key & 7, 0 | 2) && key >> 3 <= MOST_FIELD.into())
}

/// Problems with packets, and where reading ended.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The number of malformed packets.
    pub(super) damaged: u64,
    /// The number of compressed packets within compressed packets, and of those that cannot be decompressed.
    pub(super) not_unpacked: u64,
    /// Whether the file, or what was compressed in it, ends within a packet.
    pub(super) cut: bool,
    /// The position at which no valid packet follows.
    pub(super) lost_at: Option<u64>,
}

/// Passes each packet of `input` to `take`; the packets inside a compressed packet are passed in its place.
pub(super) fn each(
    input: impl BufRead,
    findings: &mut Findings,
    take: &mut impl FnMut(&[u8]) -> Result<Result<(), Damaged>, ConvertError>,
) -> Result<(), ConvertError> {
    walk(input, findings, &mut |packet, findings| {
        let mut fields = Fields(packet);
        let packed = loop {
            match fields.next() {
                Ok(Some((COMPRESSED, Value::Bytes(bytes)))) => break Some((false, bytes)),
                Ok(Some((COMPRESSED_ZSTD, Value::Bytes(bytes)))) => break Some((true, bytes)),
                Ok(Some(_)) => {}
                Ok(None) | Err(Damaged) => break None,
            }
        };
        let Some((zstd, bytes)) = packed else {
            findings.damaged += u64::from(take(packet)?.is_err());
            return Ok(());
        };
        let unpacked: Box<dyn Read> = match zstd {
            true => {
                let decoder = zstd::stream::read::Decoder::with_buffer(bytes);
                let mut decoder = decoder.map_err(ConvertError::Read)?;
                decoder.window_log_max(MOST_WINDOW_LOG).map_err(ConvertError::Read)?;
                Box::new(decoder)
            }
            false => Box::new(flate2::bufread::ZlibDecoder::new(bytes)),
        };
        let mut inner = Findings::default();
        let done = walk(BufReader::new(Guarded(unpacked)), &mut inner, &mut |packet, inner| {
            if holds_packets(packet) {
                inner.not_unpacked += 1;
                return Ok(());
            }
            inner.damaged += u64::from(take(packet)?.is_err());
            Ok(())
        });
        findings.damaged += inner.damaged;
        findings.not_unpacked +=
            inner.not_unpacked + u64::from(inner.cut) + u64::from(inner.lost_at.is_some());
        done
    })
}

fn holds_packets(packet: &[u8]) -> bool {
    let mut fields = Fields(packet);
    while let Ok(Some((field, _))) = fields.next() {
        if matches!(field, COMPRESSED | COMPRESSED_ZSTD) {
            return true;
        }
    }
    false
}

/// Decompressed data up to the first damage, which ends it like a truncated file.
struct Guarded<R>(R);

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Ok(count) => Ok(count),
            Err(_) => Ok(0),
        }
    }
}

fn walk(
    mut input: impl BufRead,
    findings: &mut Findings,
    take: &mut impl FnMut(&[u8], &mut Findings) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let mut packet = Vec::new();
    let mut at = 0;
    while let Some(key) = varint(&mut input, &mut at).map_err(ConvertError::Read)? {
        let begun = at;
        let length = match (key, varint(&mut input, &mut at).map_err(ConvertError::Read)?) {
            (Number::Whole(key), Some(Number::Whole(length @ ..=MOST_BYTES)))
                if key == PACKET << 3 | 2 =>
            {
                length
            }
            (Number::Cut, _) | (_, Some(Number::Cut) | None) => {
                findings.cut = true;
                return Ok(());
            }
            _ => {
                findings.lost_at = Some(begun);
                return Ok(());
            }
        };
        packet.clear();
        // Memory is only allocated for bytes that are present.
        let read = (&mut input).take(length).read_to_end(&mut packet);
        let read = read.map_err(ConvertError::Read)? as u64;
        at += read;
        if read < length {
            findings.cut = true;
            return Ok(());
        }
        take(&packet, findings)?;
    }
    Ok(())
}

enum Number {
    Whole(u64),
    /// The file ends within the number.
    Cut,
    /// The number has too many bytes.
    Endless,
}

/// A varint of the file; `None` at the end.
fn varint(input: &mut impl BufRead, at: &mut u64) -> io::Result<Option<Number>> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some(&byte) = input.fill_buf()?.first() else {
            return Ok((shift > 0).then_some(Number::Cut));
        };
        input.consume(1);
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(Some(Number::Whole(value)));
        }
    }
    Ok(Some(Number::Endless))
}
