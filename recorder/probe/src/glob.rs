//! Globs over names: `*` for any characters, `?` for one.
//!
//! There are no `[...]` classes, since brackets are part of C++ and Rust names.

/// Whether `pattern` can stand for anything but itself.
pub(super) fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Whether `pattern` stands for `text`.
///
/// A `*` that took too little is the only thing ever reconsidered, and only the last one, so the
/// time is bounded by the product of the lengths.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` is, and how much of the text it has to take.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                t += 1;
                while text.get(t).is_some_and(|byte| is_inside_character(*byte)) {
                    t += 1;
                }
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether a byte of UTF-8 is not a character's first.
fn is_inside_character(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_anything_and_a_question_mark_is_one_character() {
        for (pattern, text) in [
            ("*", ""),
            ("parse_*", "parse_line"),
            ("*_*", "parse_line"),
            ("a*b*c", "a1b2b3c"),
            ("?b", "äb"),
            ("render::*::draw", "render::frame::tile::draw"),
            ("", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("parse_*", "reparse_"), ("a?", "a"), ("?", ""), ("a*b", "ac"), ("", "a"), ("?b", "b")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_the_product_of_the_lengths() {
        assert!(!matches(&"*a".repeat(200), &"a".repeat(100)));
        assert!(!matches(&format!("{}b", "*a".repeat(50)), &"a".repeat(10_000)));
    }

    proptest::proptest! {
        #[test]
        fn it_agrees_with_the_definition(pattern in "[ab*?]{0,7}", text in "[abc]{0,8}") {
            fn slow(pattern: &[u8], text: &[u8]) -> bool {
                match pattern.split_first() {
                    None => text.is_empty(),
                    Some((b'*', rest)) => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
                    Some((first, rest)) => text
                        .split_first()
                        .is_some_and(|(c, text)| (*first == b'?' || first == c) && slow(rest, text)),
                }
            }
            assert_eq!(matches(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
