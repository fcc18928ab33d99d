//! Readable names of C++ functions (the Itanium ABI's mangling), in time limited by the length of the name.
//!
//! Names are from untrusted files, so the parser must not backtrack: sixty times `nw` would double its work sixty times. This parser looks
//! ahead, reads no part of a name twice, and counts its steps:
//!
//! ```text
//!   _ZN1a1bIiE1cEv  --parse-->  Encoding( Nested( Template( Nested(a, b), [int] ), c ), [] )  --print-->  a::b<int>::c()
//!                    steps: 64 for each byte                                            steps: the same, 16 KiB of text
//! ```
//!
//! A name that takes too many steps, or is unknown, is shown mangled.

mod expressions;
mod parse;
mod print;

use parse::Parser;
use print::Printer;

/// How deep parts may be nested, since recursion uses the stack.
const DEEPEST: usize = 192;

/// The index of a node among all nodes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id(usize);

/// `const`, `volatile` and `restrict`, in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Qualifiers(u8);

impl Qualifiers {
    const CONST: u8 = 1;
    const VOLATILE: u8 = 2;
    const RESTRICT: u8 = 4;
}

/// Text that is printed unchanged.
#[derive(Clone, Debug)]
enum Piece<'a> {
    Text(&'a str),
    Node(Id),
    /// With commas between them.
    List(Vec<Id>),
}

#[derive(Clone, Debug)]
enum Node<'a> {
    Text(&'a str),
    Pieces(Vec<Piece<'a>>),
    /// `outer::inner`
    Nested(Id, Id),
    /// `name<arguments>`
    Template(Id, Vec<Id>),
    /// `name[abi:tag]`
    Tagged(Id, &'a str),
    /// The name of a class's constructor.
    Constructor(Id),
    Destructor(Id),
    /// `operator type`
    Conversion(Id),
    /// Arguments for one parameter.
    Pack(Vec<Id>),
    /// Each argument of the packs in a pattern, in its position.
    Expansion(Id),
    Qualified(Id, Qualifiers),
    /// A pointer or reference, with its sign.
    Pointer(Id, &'static str),
    MemberPointer {
        class: Id,
        member: Id,
    },
    Array(Id, Option<Id>),
    /// The type of a function.
    Function(Id, Signature),
    /// A function.
    Encoding(Id, Signature),
    /// A template parameter whose argument follows later, by its number.
    Forward(usize),
    /// Another name for a node.
    Alias(Id),
}

/// The parameters of a function, and the qualifiers after them.
#[derive(Clone, Debug, Default)]
struct Signature {
    parameters: Vec<Id>,
    qualifiers: Qualifiers,
    reference: &'static str,
}

/// A name's forms: with the types of parameters, and without. They have at most `longest` bytes each. Reading the name takes at most `most`
/// steps, and so does each form; their sum, with a step for each byte of text, is subtracted from `steps`.
pub(super) fn readable(
    raw: &str,
    longest: usize,
    most: usize,
    steps: &mut usize,
) -> Option<(String, String)> {
    let begin = most.min(*steps);
    let mut parser = Parser::new(raw.strip_prefix("_Z")?, begin);
    let whole = parser.whole();
    *steps -= begin - parser.left;
    let whole = whole?;
    let mut print = |parameters: bool| {
        let begin = most.min(*steps);
        let mut printer = Printer::new(&parser.nodes, begin, longest.min(*steps));
        let text = printer.whole(whole, parameters);
        *steps -= begin - printer.left;
        let text = text?;
        *steps = steps.saturating_sub(text.len());
        Some(text)
    };
    Some((print(true)?, print(false)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(raw: &str) -> Option<String> {
        readable(raw, 16 * 1024, raw.len() * 64 + 1024, &mut { usize::MAX }).map(|(full, _)| full)
    }

    #[test]
    fn names_of_all_kinds_are_readable() {
        for (raw, expected) in [
            ("_Z1fv", "f()"),
            ("_ZN1a1bIiE1cEv", "a::b<int>::c()"),
            ("_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_", "std::move<int&>(int&)"),
            ("_Z1fPFviE", "f(void (*)(int))"),
            ("_Z1fRA3_Ki", "f(int const (&) [3])"),
            ("_Z1fM1AKFvvE", "f(void (A::*)() const)"),
            ("_ZNSsC1Ev", "std::string::string()"),
            ("_ZN1AD2Ev", "A::~A()"),
            ("_ZN1AcviEv", "A::operator int()"),
            ("_ZN1AcvT_IiEEv", "A::operator int<int>()"),
            ("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const"),
            ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()"),
            ("_Z1fIJicEEvDpT_", "f<int, char>(int, char)"),
            ("_Z1fIJicEEvDpOT_", "f<int, char>(int&&, char&&)"),
            ("_Z1fIJRicEEvDpOT_", "f<int&, char>(int&, char&&)"),
            ("_Z1fILi3ELb1ELm4EEvv", "f<3, true, 4ul>()"),
            ("_Z1gIiEDTnw_T_EES0_", "g<int>(int)"),
            ("_Z1fIiEvDTplfp_Li1EE", "f<int>(decltype (({parm#1})+(1)))"),
            ("_ZTV1A", "vtable for A"),
            ("_ZThn8_N1A1fEv", "non-virtual thunk to A::f()"),
            ("_Z1fB5cxx11v", "f[abi:cxx11]()"),
            ("_ZN1A1fEv.cold", "A::f() [clone .cold]"),
            ("_ZN1A1fERKS_", "A::f(A const&)"),
            ("_ZlsRSoRK1A", "operator<<(std::ostream&, A const&)"),
        ] {
            assert_eq!(full(raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn no_name_costs_more_than_its_length_is_worth() {
        // Input that a parser with alternatives would read twice at each step, so that it would never finish.
        for (begin, part, end) in [
            ("_Z1aDt", "nw", ""),
            ("_Z1aDT", "na", "E"),
            ("_Z1fIiEDT", "cl", "EEv"),
            ("_Z1f", "St1aI", ""),
            ("_Z1f", "S_I", "E"),
            ("_Z1fI", "J", ""),
            ("_Z1f", "N1aI", "v"),
            ("_Z1fDt", "srN1aI", "E"),
            ("_Z1fX", "cvT_", "E"),
            ("_Z1fDt", "dtfp_", "E"),
        ] {
            for count in [10, 60, 1000, 5000] {
                let raw = format!("{begin}{}{end}", part.repeat(count));
                assert_eq!(full(&raw), None, "{raw}");
            }
        }
    }

    #[test]
    fn parts_that_are_repeated_without_a_letter_of_text_are_counted() {
        // Each argument is a pack of the previous one, twice; the first is empty.
        let mut raw = String::from("_Z1fIJE");
        for argument in 0..60 {
            let number = if argument == 0 { String::new() } else { (argument - 1).to_string() };
            raw.push_str(&format!("J{}E", format!("XT{number}_E").repeat(2)));
        }
        raw.push_str("Evv");
        assert_eq!(full(&raw), None);
    }
}
