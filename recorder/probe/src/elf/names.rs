//! Readable names of functions such as `_ZN3app6render5frameEv`.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::cpp;

/// A name longer than this is shown in the linker's form. Repeated parts can make the readable form of a name exponentially longer than the
/// mangled one, if the name is crafted for that.
const LONGEST: usize = 16 * 1024;

/// Work limit for a name, in steps: a number for each of its bytes, and a constant. A byte of text is a step.
const STEPS: usize = 64;
const STEPS_BESIDES: usize = 1024;

/// Work limit for a name that does not depend on their number. Most names from compilers take less, in all their forms.
const CHEAP: usize = 8;
const CHEAP_BESIDES: usize = 64;

/// The total budget for all names of a file beyond that: a second or two.
const STEPS_OF_ALL: usize = 1 << 27;

/// The remaining steps for the expensive names of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(STEPS_OF_ALL)
    }
}

/// A function's name in its forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// In the linker's form.
    pub raw: &'a str,
    /// Readable, with the types of C++ parameters, without a return type.
    pub full: Cow<'a, str>,
    /// Readable, without parameters, and without the hash that rustc adds.
    pub short: Cow<'a, str>,
}

impl<'a> Names<'a> {
    /// Makes the forms of a name.
    pub fn of(raw: &'a str) -> Names<'a> {
        Names::within(&mut Budget::default(), raw)
    }

    /// Makes the forms of a name, one of many. When the budget is used up, names that are more expensive than those of compilers are shown
    /// in mangled form.
    pub fn within(budget: &mut Budget, raw: &'a str) -> Names<'a> {
        let cheap = raw.len() * CHEAP + CHEAP_BESIDES;
        let mut steps = cheap.saturating_add(budget.0);
        let names = rust(raw, &mut steps).or_else(|| cpp_names(raw, &mut steps));
        budget.0 = budget.0.min(steps);
        names.unwrap_or(Names { raw, full: Cow::Borrowed(raw), short: Cow::Borrowed(raw) })
    }

    /// The short name without the generic arguments at its end: `max_of` of `max_of<int>`.
    pub fn family(&self) -> &str {
        without_generics(&self.short)
    }
}

fn rust<'a>(raw: &'a str, steps: &mut usize) -> Option<Names<'a>> {
    // The oldest scheme is C++'s with a hash at the end; try_demangle requires that hash.
    let demangled = rustc_demangle::try_demangle(raw).ok()?;
    let mut name = Bounded { text: String::new(), most: LONGEST.min(*steps) };
    let written = write!(name, "{demangled:#}");
    *steps -= name.text.len();
    written.ok()?;
    // `_ZNE`, a nested name without a name, is read without an error, here and below.
    if name.text.is_empty() {
        return None;
    }
    Some(Names { raw, full: Cow::Owned(name.text.clone()), short: Cow::Owned(name.text) })
}

fn cpp_names<'a>(raw: &'a str, steps: &mut usize) -> Option<Names<'a>> {
    let most = raw.len() * STEPS + STEPS_BESIDES;
    let (full, short) = cpp::readable(raw, LONGEST, most, steps)?;
    (!full.is_empty()).then_some(Names { raw, full: Cow::Owned(full), short: Cow::Owned(short) })
}

/// A string that cannot grow.
struct Bounded {
    text: String,
    most: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > self.most {
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
            // <T as Trait> has no prefix.
            return if family.is_empty() { name } else { family };
        }
    }
    name
}

/// A name without the spaces that only some demanglers and people write: `f<int,A<int>>` for
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
        // Each substitution repeats all previous ones: twice the length per step.
        let mut raw = String::from("_Z1fSt4pairIiiE");
        for step in 0..40_u8 {
            let id = char::from(if step < 10 { b'0' + step } else { b'A' + step - 10 });
            raw.push_str(&format!("St4pairIS{id}_S{id}_E"));
        }
        let names = Names::of(&raw);
        assert!(names.full.len() <= LONGEST.max(raw.len()));
    }

    #[test]
    fn a_name_that_is_too_expensive_is_shown_as_the_linker_has_it() {
        let expensive = format!("_Z1aDt{}", "nw".repeat(60));
        assert_eq!(names(&expensive), (expensive.clone(), expensive.clone(), expensive));
        // Each part of a name of Rust is the previous one, twice.
        let mut tuples = String::from("_RINvC1a1f");
        for _ in 0..60 {
            let last = tuples.len() - 2;
            tuples.push_str(&format!("TB{}_B{}_E", base_62(last), base_62(last)));
        }
        tuples.push('E');
        assert!(Names::of(&tuples).full.len() <= LONGEST.max(tuples.len()));
    }

    #[test]
    fn many_expensive_names_cost_no_more_than_all_are_worth_and_usual_ones_stay_readable() {
        // Each part is the previous one, twice.
        let mut repeated = String::from("_Z1fSt4pairIiiE");
        for step in 0..6 {
            repeated.push_str(&format!("S_IS{step}_S{step}_E"));
        }
        let mut budget = Budget::default();
        let is_readable = |budget: &mut Budget| Names::within(budget, &repeated).full != repeated;
        assert!(is_readable(&mut budget) && budget.0 < STEPS_OF_ALL);
        budget.0 = 100;
        assert!(!is_readable(&mut budget), "there is not enough left for it");
        for usual in [
            "_ZNSt8_Rb_treeISsSt4pairIKSsiESt10_Select1stIS2_ESt4lessISsESaIS2_EE8_M_eraseEPSt13_Rb_tree_nodeIS2_E",
            "_ZN3app6render5frame17h0123456789abcdefE",
            "_RINvNtCs1234_3app6render5framemE",
        ] {
            assert_eq!(Names::within(&mut budget, usual), Names::of(usual));
            assert_ne!(Names::of(usual).full, usual);
        }
    }

    /// A number in the encoding of Rust names, where an empty number is 0, `0` is 1, and so on.
    fn base_62(number: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let Some(mut left) = number.checked_sub(1) else { return String::new() };
        let mut digits = Vec::new();
        loop {
            digits.push(char::from(DIGITS[left % 62]));
            left /= 62;
            if left == 0 {
                break;
            }
        }
        digits.iter().rev().collect()
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
