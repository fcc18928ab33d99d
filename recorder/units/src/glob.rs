//! Globs: `*` for any characters, `?` for one character, `[...]` for one of a set.
//!
//! Globs for names of functions and probes have no `[...]`, since brackets are part of C++ and Rust names.

pub use ::glob::{Pattern, PatternError};

/// Whether a pattern for names of functions has wildcards.
#[must_use]
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// A glob with only `*` and `?` as wildcards; every other character matches itself.
#[must_use]
pub fn of_name(pattern: &str) -> Pattern {
    let mut quoted = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        match character {
            // Several stars in a row mean the same as one, but `Pattern` treats `**` specially.
            '*' if quoted.ends_with('*') => {}
            '[' => quoted.push_str("[[]"),
            other => quoted.push(other),
        }
    }
    // A pattern without classes and repeated stars is always valid.
    Pattern::new(&quoted).unwrap_or_default()
}

/// Whether one of the globs matches the path of this cgroup or of one of its ancestors.
#[must_use]
pub fn chooses_cgroup<'a>(globs: impl IntoIterator<Item = &'a Pattern>, path: &str) -> bool {
    let above = |path: &str| {
        let up = path.rsplit_once('/').map(|(up, _)| if up.is_empty() { "/" } else { up });
        up.filter(|up| *up != path).map(str::to_owned)
    };
    let matches = |glob: &Pattern| {
        std::iter::successors(Some(path.to_owned()), |path| above(path))
            .any(|path| glob.matches(&path))
    };
    globs.into_iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_chosen_with_those_in_it() {
        let chosen =
            |glob: &str, path: &str| chooses_cgroup([&Pattern::new(glob).expect("a glob")], path);
        for (glob, path) in [
            ("/a", "/a"),
            ("/a", "/a/b"),
            ("/a", "/a/b/c"),
            ("/", "/a/b"),
            ("/", "/"),
            ("/?", "/a/b"),
        ] {
            assert!(chosen(glob, path), "{glob} {path}");
        }
        for (glob, path) in [("/a", "/ab"), ("/a/b", "/a"), ("/a", "/"), ("a", "/a/b"), ("/a", "")]
        {
            assert!(!chosen(glob, path), "{glob} {path}");
        }
    }

    fn matches(pattern: &str, text: &str) -> bool {
        of_name(pattern).matches(text)
    }

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
            ("operator[]", "operator[]"),
            ("map<[u8; 4]>::**get*", "map<[u8; 4]>::try_get"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("parse_*", "reparse_"),
            ("a?", "a"),
            ("?", ""),
            ("a*b", "ac"),
            ("", "a"),
            ("?b", "b"),
            ("[ab]", "a"),
        ] {
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
        fn it_agrees_with_the_definition(pattern in r"[ab\[\]*?]{0,7}", text in r"[abc\[\]]{0,8}") {
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
