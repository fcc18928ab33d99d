//! The reason why a string is not a valid probe, and the location of the error.

use std::fmt;

/// The reason why a string is not a valid probe.
///
/// Its display has a message, the text, and a caret below the character at which
/// the text becomes invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    pub(super) text: String,
    pub(super) column: usize,
    pub(super) message: String,
}

impl SpecError {
    pub(super) fn new(text: &str, offset: usize, message: impl Into<String>) -> SpecError {
        let column = text.char_indices().take_while(|(index, _)| *index < offset).count();
        SpecError { text: text.to_owned(), column, message: message.into() }
    }

    /// The number of characters before the error; at most the length of the text.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The error, and the correct form.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every character takes one column, so that the caret is at the right location.
        let text: String =
            self.text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        writeln!(f, "{}\n  {text}", self.message)?;
        write!(f, "  {:column$}^", "", column = self.column)
    }
}

impl std::error::Error for SpecError {}
