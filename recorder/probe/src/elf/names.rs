//! What people call a function that the linker calls `_ZN3app6render5frameEv`.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// A name longer than this is shown as the linker has it. Repeated parts make the readable form of
/// a name exponentially longer than the mangled one, if somebody wants that.
const LONGEST: usize = 16 * 1024;

/// A function's name in its forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// As the linker has it.
    pub raw: &'a str,
    /// Readable, with the types of C++ parameters, without a return type.
    pub full: Cow<'a, str>,
    /// Readable, without parameters, and without the hash that rustc adds.
    pub short: Cow<'a, str>,
}

impl<'a> Names<'a> {
    /// Makes the forms of a name.
    pub fn of(raw: &'a str) -> Names<'a> {
        rust(raw).or_else(|| cpp(raw)).unwrap_or(Names {
            raw,
            full: Cow::Borrowed(raw),
            short: Cow::Borrowed(raw),
        })
    }

    /// The short name without the generic arguments at its end: `max_of` of `max_of<int>`.
    pub fn family(&self) -> &str {
        without_generics(&self.short)
    }
}

fn rust(raw: &str) -> Option<Names<'_>> {
    // The oldest scheme is C++'s with a hash at the end; try_demangle wants that hash.
    let demangled = rustc_demangle::try_demangle(raw).ok()?;
    let mut name = Bounded::default();
    write!(name, "{demangled:#}").ok()?;
    // `_ZNE`, a nested name without a name, is read without an error, here and below.
    if name.text.is_empty() {
        return None;
    }
    Some(Names { raw, full: Cow::Owned(name.text.clone()), short: Cow::Owned(name.text) })
}

fn cpp(raw: &str) -> Option<Names<'_>> {
    if !raw.starts_with("_Z") {
        return None;
    }
    let symbol = Symbol::new(raw.as_bytes()).ok()?;
    let readable = |options: DemangleOptions| {
        let mut name = Bounded::default();
        symbol.structured_demangle(&mut name, &options).ok()?;
        (!name.text.is_empty()).then_some(Cow::Owned(name.text))
    };
    let full = readable(DemangleOptions::new().no_return_type())?;
    let short = readable(DemangleOptions::new().no_return_type().no_params())?;
    Some(Names { raw, full, short })
}

/// A text that refuses to grow beyond [`LONGEST`].
#[derive(Default)]
struct Bounded {
    text: String,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

fn without_generics(name: &str) -> &str {
    if !name.ends_with('>') || name.ends_with("->") || name.ends_with("operator>") {
        return name;
    }
    let mut depth = 0_usize;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b'>' => depth += 1,
            b'<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let family = name[..at].trim_end_matches("::");
            // <T as Trait> has nothing in front.
            return if family.is_empty() { name } else { family };
        }
    }
    name
}

/// A name without the blanks that only some demanglers and people write: `f<int,A<int>>` for
/// `f<int, A<int> >`.
pub(super) fn squeeze(name: &str) -> Cow<'_, str> {
    if !name.contains(' ') {
        return Cow::Borrowed(name);
    }
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut squeezed = String::with_capacity(name.len());
    let mut characters = name.chars().peekable();
    while let Some(c) = characters.next() {
        let keeps = word(squeezed.chars().next_back()) && word(characters.peek().copied());
        if c != ' ' || keeps {
            squeezed.push(c);
        }
    }
    Cow::Owned(squeezed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: &str) -> (String, String, String) {
        let names = Names::of(raw);
        (names.full.to_string(), names.short.to_string(), names.family().to_owned())
    }

    #[test]
    fn a_name_of_c_is_what_it_is() {
        assert_eq!(names("main"), ("main".into(), "main".into(), "main".into()));
        assert_eq!(names("_Zork").0, "_Zork");
        assert_eq!(names("_ZNE").0, "_ZNE");
    }

    #[test]
    fn a_name_of_cpp_is_readable_with_and_without_parameters() {
        let full = "space::Shape::area(int, char const*) const";
        assert_eq!(
            names("_ZNK5space5Shape4areaEiPKc"),
            (full.into(), "space::Shape::area".into(), "space::Shape::area".into())
        );
        assert_eq!(
            names("_Z6max_ofIiET_S0_S0_"),
            ("max_of<int>(int, int)".into(), "max_of<int>".into(), "max_of".into())
        );
    }

    #[test]
    fn a_name_of_rust_loses_its_hash() {
        let name = "app::render::frame";
        assert_eq!(names("_ZN3app6render5frame17h0123456789abcdefE").1, name);
        assert_eq!(names("_RNvNtCs1234_3app6render5frame").1, name);
        assert_eq!(names("_RINvNtCs1234_3app6render5framemE").2, name);
    }

    #[test]
    fn generics_are_only_cut_off_at_the_end() {
        for (name, family) in [
            ("max_of<int>", "max_of"),
            ("A<int>::f", "A<int>::f"),
            ("f::<u32>", "f"),
            ("f<A<int> >", "f"),
            ("operator>", "operator>"),
            ("<A as B>", "<A as B>"),
            (">", ">"),
            ("a>>", "a>>"),
        ] {
            assert_eq!(without_generics(name), family);
        }
    }

    #[test]
    fn blanks_that_separate_no_words_are_no_difference() {
        assert_eq!(squeeze("f<int, A<int> >(unsigned long)"), "f<int,A<int>>(unsigned long)");
        assert_eq!(squeeze("plain"), "plain");
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays_as_it_is() {
        // Each substitution repeats all before it: twice the length per step.
        let mut raw = String::from("_Z1fSt4pairIiiE");
        for step in 0..40_u8 {
            let id = char::from(if step < 10 { b'0' + step } else { b'A' + step - 10 });
            raw.push_str(&format!("St4pairIS{id}_S{id}_E"));
        }
        let names = Names::of(&raw);
        assert!(names.full.len() <= LONGEST.max(raw.len()));
    }

    proptest::proptest! {
        #[test]
        fn no_name_panics(raw in "(_Z|_R|_ZN)[0-9A-Za-z_.$]{0,40}") {
            let names = Names::of(&raw);
            assert!(!names.full.is_empty() && !names.short.is_empty());
            squeeze(names.family());
        }
    }
}
