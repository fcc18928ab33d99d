//! The appearance of text for people: the few colours that fxtrec uses, and the maximum width of lines.
//!
//! A [`Look`] is determined once for standard output or standard error, and passed to everything that writes there. No other code writes
//! colours: [`Escaping`](crate::escape::Escaping) lets only these pass.

/// Bold, for headings.
const HEADING: &str = "\x1b[1m";

/// Red and bold, for failures and losses.
const BAD: &str = "\x1b[1;31m";

/// Yellow and bold, for doubtful results.
const DOUBTFUL: &str = "\x1b[1;33m";

/// Dim, for remarks about the content.
const NOTE: &str = "\x1b[2m";

const END: &str = "\x1b[0m";

/// All escape sequences that fxtrec itself sends to a terminal.
pub(crate) const PALETTE: [&str; 5] = [HEADING, BAD, DOUBTFUL, NOTE, END];

/// The appearance of text at its destination. By default the style of a file: no colours and no limit on the length of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether there are colours.
    pub colour: bool,
    /// Columns of the terminal; `None` if it is not a terminal, where lines may have any length.
    pub columns: Option<usize>,
}

impl Look {
    /// The style of a file.
    pub const PLAIN: Look = Look { colour: false, columns: None };

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.paint(HEADING, text)
    }

    /// A failure, or a loss.
    pub fn bad(self, text: &str) -> String {
        self.paint(BAD, text)
    }

    /// A doubtful result.
    pub fn doubtful(self, text: &str) -> String {
        self.paint(DOUBTFUL, text)
    }

    /// A remark about the content.
    pub fn note(self, text: &str) -> String {
        self.paint(NOTE, text)
    }

    fn paint(self, colour: &str, text: &str) -> String {
        match self.colour && !text.is_empty() {
            true => format!("{colour}{text}{END}"),
            false => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_text_stays_as_it_is() {
        let painted = |look: Look| {
            [look.heading("a"), look.bad("b"), look.doubtful("c"), look.note("d")].join(" ")
        };
        assert_eq!(painted(Look::PLAIN), "a b c d");
        let colour = Look { colour: true, ..Look::PLAIN };
        let expected = "\x1b[1ma\x1b[0m \x1b[1;31mb\x1b[0m \x1b[1;33mc\x1b[0m \x1b[2md\x1b[0m";
        assert_eq!(painted(colour), expected);
        assert_eq!(colour.bad(""), "", "nothing to colour");
    }
}
