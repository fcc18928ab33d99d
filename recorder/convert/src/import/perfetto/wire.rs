//! Reads the encoding of Protocol Buffers field by field from borrowed bytes.
//!
//! A trace has a message of about 20 bytes for each event, and the reader knows which fields it needs. So fields are returned one by one,
//! without intermediate structures that own their strings.

/// The maximum size of the packed numbers of a field. Recorders write at most a few hundred kilobytes.
const MOST_PACKED: usize = 4 << 20;

/// A malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; 0 for other values.
    pub(super) fn number(self) -> u64 {
        match self {
            Value::Number(number) | Value::Fixed64(number) => number,
            Value::Fixed32(number) => number.into(),
            Value::Bytes(_) => 0,
        }
    }

    /// A thread id or another 32-bit number, whatever its sign.
    pub(super) fn u32(self) -> u32 {
        self.number() as u32
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    pub(super) fn double(self) -> f64 {
        match self {
            Value::Fixed64(bits) => f64::from_bits(bits),
            _ => 0.0,
        }
    }

    /// Each number of a field, which may occur several times or be packed.
    pub(super) fn each(self, mut take: impl FnMut(u64)) -> Result<(), Damaged> {
        match self {
            // In memory, each number may take eight times as much space.
            Value::Bytes(packed) if packed.len() > MOST_PACKED => Err(Damaged),
            Value::Bytes(packed) => {
                let mut fields = Fields(packed);
                while !fields.0.is_empty() {
                    take(fields.varint()?);
                }
                Ok(())
            }
            one => {
                take(one.number());
                Ok(())
            }
        }
    }

    /// Each number of a field of fixed 64-bit numbers.
    pub(super) fn each_fixed(self, mut take: impl FnMut(u64)) {
        match self {
            Value::Bytes(packed) => {
                let (numbers, _) = packed.as_chunks();
                numbers.iter().for_each(|number| take(u64::from_le_bytes(*number)));
            }
            one => take(one.number()),
        }
    }
}

/// The remaining fields of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field: its number and value. Groups do not occur in traces and count as damage.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Damaged> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                let (number, rest) = self.0.split_first_chunk().ok_or(Damaged)?;
                self.0 = rest;
                Value::Fixed64(u64::from_le_bytes(*number))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Damaged)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => {
                let (number, rest) = self.0.split_first_chunk().ok_or(Damaged)?;
                self.0 = rest;
                Value::Fixed32(u32::from_le_bytes(*number))
            }
            _ => return Err(Damaged),
        };
        match u32::try_from(key >> 3) {
            Ok(field @ 1..) => Ok(Some((field, value))),
            _ => Err(Damaged),
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Damaged> {
        let (&first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Damaged)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fxtrec_units::protobuf::Message;

    #[test]
    fn fields_of_every_form_are_read() {
        let mut message = Message::default();
        message.number(1, 300);
        message.bytes(2, b"text");
        message.double(3, 1.5);
        message.numbers(4, [1, 200, u64::MAX]);
        message.0.extend([5 << 3 | 5, 7, 0, 0, 0]);
        let mut fields = Fields(&message.0);
        assert_eq!(fields.next(), Ok(Some((1, Value::Number(300)))));
        assert_eq!(fields.next(), Ok(Some((2, Value::Bytes(b"text")))));
        let (_, double) = fields.next().expect("sound").expect("a field");
        assert_eq!(double.double(), 1.5);
        let (_, packed) = fields.next().expect("sound").expect("a field");
        let mut numbers = Vec::new();
        packed.each(|number| numbers.push(number)).expect("sound");
        assert_eq!(numbers, [1, 200, u64::MAX]);
        assert_eq!(fields.next(), Ok(Some((5, Value::Fixed32(7)))));
        assert_eq!(fields.next(), Ok(None));
    }

    #[test]
    fn damage_is_reported() {
        for damaged in [
            &[8][..],
            &[0xff; 11],
            &[10, 5, 1],
            &[13, 0, 0],
            &[9, 0, 0, 0],
            &[11, 0],
            &[0, 1],
            &[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(Fields(damaged).next(), Err(Damaged), "{damaged:?}");
        }
    }
}
