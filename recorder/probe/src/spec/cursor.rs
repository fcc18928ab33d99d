//! A location in the text of a spec.

use super::SpecError;

/// The position of a parser.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, offset: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    /// The bytes before it; always on a character boundary, as is every move of the cursor.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Skips `prefix`, if that is next.
    pub(super) fn eat(&mut self, prefix: &str) -> bool {
        let there = self.rest().starts_with(prefix);
        if there {
            self.offset += prefix.len();
        }
        there
    }

    /// Skips characters as long as `wanted` accepts them.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.take(end)
    }

    /// Skips this many bytes, or to the end of the character in which they end.
    pub(super) fn take(&mut self, bytes: usize) -> &'a str {
        let rest = self.rest();
        let end = (bytes..rest.len()).find(|&end| rest.is_char_boundary(end)).unwrap_or(rest.len());
        self.offset += end;
        &rest[..end]
    }

    /// Skips a string in double quotes, and returns its content. `None` if no quote is next.
    pub(super) fn quoted(&mut self) -> Result<Option<&'a str>, SpecError> {
        let before = *self;
        if !self.eat("\"") {
            return Ok(None);
        }
        let inner = self.take_while(|c| c != '"');
        if self.eat("\"") { Ok(Some(inner)) } else { Err(before.error("unterminated quote")) }
    }

    /// An error at this position.
    pub(super) fn error(&self, message: impl Into<String>) -> SpecError {
        SpecError::new(self.text, self.offset, message)
    }
}
