//! The options about applications that record their own spans.

use std::str::FromStr;

use clap::Args;

use super::values::ByteSize;

const PROVIDERS: &str = "Applications' own events";

/// The longest name of a category that the protocol carries, in bytes.
const MAX_BYTES: usize = 255;

/// Whether COMMAND and its children may record their own spans into the trace, and which.
#[derive(Args, Clone, Debug, Default)]
pub struct ProviderArgs {
    /// Do not take events that COMMAND and its children record themselves
    ///
    /// Otherwise they find fxtrec by the variable FXTREC_PROVIDER_SOCKET, and what they record by fxt-writer's
    /// `provider` module, or by another client of the protocol in docs/providers.md, is in the trace.
    #[arg(long, conflicts_with_all = ["provider_buffer", "categories"], help_heading = PROVIDERS)]
    pub no_providers: bool,

    /// Buffer of each application that records its own events, for example 16M [default: 4M, 16M with --trigger]
    ///
    /// An application that fills half of it before fxtrec has saved the other half drops events, and counts them.
    #[arg(long, value_name = "SIZE", help_heading = PROVIDERS)]
    pub provider_buffer: Option<ByteSize>,

    /// The categories of events that applications are to record, for example net,app* [default: all]
    ///
    /// `*` at the end of a name stands for whatever follows.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', help_heading = PROVIDERS)]
    pub categories: Vec<CategoryPattern>,
}

/// A category's name, or the beginning of names with a `*` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryPattern(String);

impl CategoryPattern {
    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a category was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CategoryError {
    /// There is no name.
    #[error("expected a category, such as net or app*")]
    Empty,
    /// The name is longer than any category's.
    #[error("a category has at most {MAX_BYTES} bytes")]
    TooLong,
    /// A star that is not at the end.
    #[error("'*' stands at the end, for whatever follows: app*")]
    Star,
    /// A character that no category has.
    #[error("a category has no control characters")]
    Control,
}

impl FromStr for CategoryPattern {
    type Err = CategoryError;

    fn from_str(text: &str) -> Result<CategoryPattern, CategoryError> {
        let name = text.strip_suffix('*').unwrap_or(text);
        match text {
            "" => Err(CategoryError::Empty),
            _ if text.len() > MAX_BYTES => Err(CategoryError::TooLong),
            _ if name.contains('*') => Err(CategoryError::Star),
            _ if text.contains(char::is_control) => Err(CategoryError::Control),
            _ => Ok(CategoryPattern(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_at_the_end_or_nowhere() {
        for good in ["net", "app*", "*", "a b", "é"] {
            assert_eq!(good.parse::<CategoryPattern>().map(|it| it.0), Ok(good.to_owned()));
        }
        let refused = |text: &str| text.parse::<CategoryPattern>().expect_err("refused");
        assert_eq!(refused("*net"), CategoryError::Star);
        assert_eq!(refused("a**"), CategoryError::Star);
        assert_eq!(refused(""), CategoryError::Empty);
        assert_eq!(refused("a\nb"), CategoryError::Control);
        assert_eq!(refused(&"x".repeat(256)), CategoryError::TooLong);
    }
}
