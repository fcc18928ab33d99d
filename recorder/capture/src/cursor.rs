//! Reads the bytes of a perf record one after the other.

/// The rest of a record. Every read advances, and returns `None` if the record is too short.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor(bytes)
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// The last `len` of the remaining bytes.
    pub fn take_back(&mut self, len: usize) -> Option<&'a [u8]> {
        let (rest, taken) = self.0.split_at_checked(self.0.len().checked_sub(len)?)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next four bytes as an integer of the machine's byte order.
    pub fn read_u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*taken))
    }

    /// The next eight bytes as an integer of the machine's byte order.
    pub fn read_u64(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*taken))
    }

    /// The last eight bytes as an integer of the machine's byte order.
    pub fn read_back_u64(&mut self) -> Option<u64> {
        let (rest, taken) = self.0.split_last_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*taken))
    }

    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_forward_and_back_and_stop_at_the_end() {
        let mut bytes = 7u32.to_ne_bytes().to_vec();
        bytes.extend(8u64.to_ne_bytes());
        bytes.extend(b"tail");
        bytes.extend(9u64.to_ne_bytes());
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.read_back_u64(), Some(9));
        assert_eq!((cursor.read_u32(), cursor.read_u64()), (Some(7), Some(8)));
        assert_eq!(cursor.rest(), b"tail");
        assert_eq!((cursor.read_u64(), cursor.read_back_u64(), cursor.take(5)), (None, None, None));
        assert_eq!((cursor.take_back(2), cursor.take(2)), (Some(&b"il"[..]), Some(&b"ta"[..])));
        assert_eq!(
            (cursor.take(0), cursor.take(1), cursor.take_back(1)),
            (Some(&b""[..]), None, None)
        );
    }
}
