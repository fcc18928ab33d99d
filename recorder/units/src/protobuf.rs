//! Protocol Buffers messages, written and read field by field: the few that profiles and metrics need.

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; 0 is left out, because it is the default of an absent field.
    pub fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.explicit_number(field, value);
        }
    }

    /// A number, also if it is 0, for fields whose presence has a meaning.
    pub fn explicit_number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    pub fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Several numbers in one packed field.
    pub fn numbers(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Message::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.bytes(field, &packed.0);
    }

    /// A whole message preceded by its length, as in a stream of messages.
    pub fn delimited(&mut self, message: &Message) {
        self.varint(message.0.len() as u64);
        self.0.extend_from_slice(&message.0);
    }

    pub fn field(&mut self, field: &Field<'_>) {
        match field.value {
            FieldValue::Number(value) => self.number(field.number, value),
            FieldValue::Bytes(bytes) => self.bytes(field.number, bytes),
        }
    }
}

/// A signed number in an encoding that keeps small values short.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub number: u64,
    pub value: FieldValue<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message; `None` if it is damaged, or has fixed-length fields.
pub fn fields(mut message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => FieldValue::Number(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let bytes;
                (bytes, message) = message.split_at_checked(length)?;
                FieldValue::Bytes(bytes)
            }
            _ => return None,
        };
        fields.push(Field { number: key >> 3, value });
    }
    Some(fields)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        message.bytes(135, b"bytes");
        message.number(3, u64::MAX);
        assert_eq!(message.0[..3], [8, 0xac, 2]);
        let read = fields(&message.0).expect("sound");
        let expected = [
            (1, FieldValue::Number(300)),
            (135, FieldValue::Bytes(b"bytes")),
            (3, FieldValue::Number(u64::MAX)),
        ];
        assert_eq!(read, expected.map(|(number, value)| Field { number, value }));
        let mut again = Message::default();
        read.iter().for_each(|field| again.field(field));
        assert_eq!(again.0, message.0);
    }

    #[test]
    fn numbers_are_as_the_description_of_the_encoding_has_them() {
        let mut message = Message::default();
        message.explicit_number(1, 150);
        message.bytes(2, b"testing");
        assert_eq!(message.0, [b"\x08\x96\x01\x12\x07".as_slice(), b"testing"].concat());
        assert_eq!([0, -1, 1, -2, i64::MAX].map(zigzag), [0, 1, 2, 3, u64::MAX - 1]);
    }

    #[test]
    fn damaged_messages_are_none() {
        for damaged in [
            &[8][..],
            &[0xff; 11],
            &[10, 5, 1],
            &[13, 0, 0, 0, 0],
            &[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(fields(damaged), None, "{damaged:?}");
        }
    }
}
