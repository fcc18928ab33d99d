//! Formats text for a record, in memory that each thread reuses.

use std::cell::Cell;
use std::fmt::{self, Write};

use crate::layout::limits::MAX_STRING_BYTES;

/// The maximum memory kept for the next message.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: Cell<String> = const { Cell::new(String::new()) };
}

/// Takes text up to the longest string, then fails, so that formatting stops.
pub(super) struct Bounded<'a>(pub(super) &'a mut String);

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_STRING_BYTES - self.0.len().min(MAX_STRING_BYTES);
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push_str(&text[..end]);
        if end == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Passes the formatted text, cut to 32 000 bytes, to `take`.
pub fn with_formatted<R>(text: fmt::Arguments<'_>, take: impl FnOnce(&str) -> R) -> R {
    match text.as_str() {
        Some(text) => take(text),
        None => with_scratch(|scratch| {
            // Full, or Display failed: use the text so far.
            let _ = Bounded(scratch).write_fmt(text);
            take(scratch)
        }),
    }
}

/// Passes an empty string with reused memory to `fill`. A nested call, or a call in a thread that is about to end, allocates.
pub(super) fn with_scratch<R>(fill: impl FnOnce(&mut String) -> R) -> R {
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = fill(&mut scratch);
    if scratch.capacity() <= KEPT_BYTES {
        scratch.clear();
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character_to_what_a_record_can_carry() {
        let long = "é".repeat(20_000);
        let odd = with_formatted(format_args!("x{long}"), str::to_owned);
        assert_eq!(odd.len(), 31_999);
        assert!(format!("x{long}").starts_with(&odd));
        let even = with_formatted(format_args!("{long}{}", 1), str::len);
        assert_eq!(even, 32_000);
    }

    #[test]
    fn text_that_formats_text_does_not_mix_them() {
        struct Inner;
        impl fmt::Display for Inner {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                with_formatted(format_args!("{}", 2), |inner| f.write_str(inner))
            }
        }
        let number = 1;
        let text = with_formatted(format_args!("{number}{Inner}{}", 3), str::to_owned);
        assert_eq!(text, "123");
    }
}
