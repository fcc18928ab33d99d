//! Why a text names no probe, and where in it that shows.

use std::fmt;

/// Why a text names no probe.
///
/// Printed, it is a message, the text, and a caret below the character where
/// the text stops making sense.
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

    /// How many characters there are before the one where it shows; at most as many as there are.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong, and what to write instead.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every character takes one column, or the caret would be somewhere else.
        let text: String =
            self.text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        writeln!(f, "{}\n  {text}", self.message)?;
        write!(f, "  {:column$}^", "", column = self.column)
    }
}

impl std::error::Error for SpecError {}
