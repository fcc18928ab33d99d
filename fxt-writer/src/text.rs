//! The requirements on strings in records.

use std::borrow::Cow;

use crate::error::EncodeError;
use crate::layout::limits;

/// Checks that a string's content meets the requirements of the format and its readers.
pub(crate) fn check(content: &str) -> Result<(), EncodeError> {
    if content.len() > limits::MAX_STRING_BYTES {
        return Err(EncodeError::StringTooLong { bytes: content.len() });
    }
    check_no_nul(content)
}

/// Checks that no reader will end the string early.
pub(crate) fn check_no_nul(content: &str) -> Result<(), EncodeError> {
    match content.bytes().position(|byte| byte == 0) {
        Some(at) => Err(EncodeError::NulInString { at }),
        None => Ok(()),
    }
}

/// Turns arbitrary bytes into a string that any record accepts: ends it before the first NUL, replaces invalid UTF-8 with U+FFFD, and
/// truncates it to 32 000 bytes at a character boundary. Borrows when nothing has to change.
///
/// ```
/// assert_eq!(fxt_writer::text::clean(b"kworker\0rest"), "kworker");
/// assert_eq!(fxt_writer::text::clean(b"a\xffb"), "a\u{fffd}b");
/// ```
#[must_use]
pub fn clean(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match String::from_utf8_lossy(&bytes[..end]) {
        Cow::Borrowed(content) => Cow::Borrowed(cut(content)),
        Cow::Owned(mut content) => {
            content.truncate(cut(&content).len());
            Cow::Owned(content)
        }
    }
}

/// The longest prefix of `content` that fits a string.
fn cut(content: &str) -> &str {
    let mut end = content.len().min(limits::MAX_STRING_BYTES);
    while !content.is_char_boundary(end) {
        end -= 1;
    }
    &content[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arg::Text;

    #[test]
    fn a_string_of_exactly_32000_bytes_is_accepted_and_one_more_is_not() {
        let longest = "x".repeat(32_000);
        assert_eq!(Text::Inline(&longest).inline_words(), Ok(4000));
        let too_long = "x".repeat(32_001);
        assert_eq!(
            Text::Inline(&too_long).inline_words(),
            Err(EncodeError::StringTooLong { bytes: 32_001 })
        );
    }

    #[test]
    fn a_nul_is_refused_with_its_place() {
        assert_eq!(Text::Inline("ab\0c").inline_words(), Err(EncodeError::NulInString { at: 2 }));
    }

    #[test]
    fn an_inline_empty_string_is_the_empty_ref() {
        assert_eq!(Text::Inline("").encoded(), 0);
        assert_eq!(Text::Inline("").inline_words(), Ok(0));
    }

    #[test]
    fn cleaning_cuts_long_strings_at_a_character() {
        let long = "é".repeat(20_000);
        let cleaned = clean(long.as_bytes());
        assert_eq!(cleaned.len(), 32_000);
        let odd = format!("x{long}");
        assert_eq!(clean(odd.as_bytes()).len(), 31_999);
        assert_eq!(Text::Inline(&clean(odd.as_bytes())).inline_words(), Ok(4000));
    }

    #[test]
    fn cleaning_leaves_good_strings_borrowed() {
        assert!(matches!(clean(b"good"), Cow::Borrowed("good")));
    }
}
