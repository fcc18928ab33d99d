//! Decisions taken from a string of bytes, so that a fuzzer that varies the bytes
//! varies the decisions.

/// The bytes that are not used yet; zeros follow them.
#[derive(Debug)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_used_up(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    /// A number below `limit`, which is at most 256.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | (u32::from(self.u16()) << 16)
    }

    /// A number of any size, with small ones more likely.
    pub fn u64(&mut self) -> u64 {
        match self.below(4) {
            0 => self.byte().into(),
            1 => self.u32().into(),
            2 => u64::MAX - u64::from(self.byte()),
            _ => u64::from(self.u32()) | (u64::from(self.u32()) << 32),
        }
    }

    /// A string that is mostly short, now and then of more than a byte per
    /// character, and rarely too long for the format.
    pub fn text(&mut self) -> String {
        let unit = ["a", "name", "é", "\u{1f980}", "incoming_weight"][self.below(5)];
        let count = match self.byte() {
            255 => usize::from(self.u16()) % 33_000,
            254 => usize::from(self.byte()),
            other => usize::from(other % 12),
        };
        let mut text = unit.repeat(count);
        text.push_str(["", "x", "yy"][self.below(3)]);
        text
    }

    pub fn payload(&mut self) -> Vec<u8> {
        let length = match self.byte() {
            255 => usize::from(self.u16()),
            other => usize::from(other % 20),
        };
        let first = self.byte();
        (0..length).map(|at| first.wrapping_add(at as u8)).collect()
    }
}
