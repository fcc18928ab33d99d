//! From bytes to nodes: names and types.

use super::{DEEPEST, Id, Node, Piece, Qualifiers, Signature};

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) nodes: Vec<Node<'a>>,
    /// The parts that a later part can repeat.
    known: Vec<Id>,
    /// The arguments of the innermost function template.
    arguments: Vec<Id>,
    /// Whether a parameter may refer to an argument that follows later: in the name of a conversion.
    looks_forward: bool,
    /// The depth of nested lists of a lambda's parameters: a parameter without an argument is its own.
    lambdas: usize,
    pub(super) left: usize,
    depth: usize,
}

/// The known facts about a name when its end is reached.
#[derive(Clone, Debug, Default)]
struct Ending {
    is_template: bool,
    /// A constructor, destructor or conversion: its return type is not in the name.
    is_special: bool,
    signature: Signature,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, steps: usize) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            nodes: Vec::new(),
            known: Vec::new(),
            arguments: Vec::new(),
            looks_forward: false,
            lambdas: 0,
            left: steps,
            depth: 0,
        }
    }

    /// A whole name, with the suffixes that compilers add.
    pub(super) fn whole(&mut self) -> Option<Id> {
        let name = self.encoding()?;
        let suffix = self.text.get(self.at..)?;
        match suffix.as_bytes() {
            [] => Some(name),
            [b'.', ..] => {
                let pieces = [" [clone ", suffix, "]"].map(Piece::Text);
                Some(self.pieces([Piece::Node(name)].into_iter().chain(pieces)))
            }
            _ => None,
        }
    }

    /// Parses one level deeper.
    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.step()?;
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    pub(super) fn step(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    pub(super) fn add(&mut self, node: Node<'a>) -> Id {
        self.nodes.push(node);
        Id(self.nodes.len() - 1)
    }

    pub(super) fn text(&mut self, text: &'a str) -> Id {
        self.add(Node::Text(text))
    }

    pub(super) fn pieces(&mut self, pieces: impl IntoIterator<Item = Piece<'a>>) -> Id {
        self.add(Node::Pieces(pieces.into_iter().collect()))
    }

    /// The parts that later parts can repeat.
    fn remember(&mut self, id: Id) -> Id {
        self.known.push(id);
        id
    }

    /// The byte `ahead` bytes after this position; 0 beyond the end.
    pub(super) fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(super) fn take(&mut self, what: &str) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let is_next = rest.starts_with(what.as_bytes());
        self.at += if is_next { what.len() } else { 0 };
        is_next
    }

    pub(super) fn expect(&mut self, what: &str) -> Option<()> {
        self.take(what).then_some(())
    }

    fn digits(&mut self) -> &'a str {
        let begin = self.at;
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    fn number(&mut self) -> Option<usize> {
        self.digits().parse().ok()
    }

    /// Digits and upper-case letters up to `_`: 0 for none.
    fn sequence(&mut self) -> Option<usize> {
        if self.take("_") {
            return Some(0);
        }
        let mut number = 0_usize;
        while !self.take("_") {
            let digit = match self.peek(0) {
                byte @ b'0'..=b'9' => byte - b'0',
                byte @ b'A'..=b'Z' => byte - b'A' + 10,
                _ => return None,
            };
            number = number.checked_mul(36)?.checked_add(usize::from(digit))?;
            self.at += 1;
        }
        number.checked_add(1)
    }

    /// Decimal digits up to `_`: 0 for none.
    pub(super) fn decimal_sequence(&mut self) -> Option<usize> {
        if self.take("_") {
            return Some(0);
        }
        let number = self.number()?;
        self.expect("_")?;
        number.checked_add(1)
    }

    /// Everything up to `end`, parsed by `one`.
    pub(super) fn list(
        &mut self,
        end: &str,
        mut one: impl FnMut(&mut Self) -> Option<Id>,
    ) -> Option<Vec<Id>> {
        let mut all = Vec::new();
        while !self.take(end) {
            all.push(one(self)?);
        }
        Some(all)
    }

    /// A function or variable, or an entity that compilers generate for them.
    pub(super) fn encoding(&mut self) -> Option<Id> {
        self.deeper(|own| {
            // Its parameters belong to its own template.
            let arguments = std::mem::take(&mut own.arguments);
            let looks_forward = std::mem::take(&mut own.looks_forward);
            let lambdas = std::mem::take(&mut own.lambdas);
            let found = match own.peek(0) {
                b'T' | b'G' => own.special(),
                _ => own.function(),
            };
            own.arguments = arguments;
            own.looks_forward = looks_forward;
            own.lambdas = lambdas;
            found
        })
    }

    fn function(&mut self) -> Option<Id> {
        let first = self.nodes.len();
        let mut ending = Ending::default();
        let name = self.name(Some(&mut ending))?;
        for at in first..self.nodes.len() {
            if let Node::Forward(number) = self.nodes[at] {
                let argument = *self.arguments.get(number)?;
                self.nodes[at] = Node::Alias(argument);
            }
        }
        if matches!(self.peek(0), 0 | b'E' | b'.') {
            return Some(name);
        }
        if ending.is_template && !ending.is_special {
            // Its return type is not shown.
            self.kind()?;
        }
        let mut signature = ending.signature;
        if !self.take("v") {
            while !matches!(self.peek(0), 0 | b'E' | b'.') {
                signature.parameters.push(self.kind()?);
            }
        }
        Some(self.add(Node::Encoding(name, signature)))
    }

    /// Names that compilers generate for entities other than functions.
    fn special(&mut self) -> Option<Id> {
        let of_type = [
            ("TV", "vtable for "),
            ("TT", "VTT for "),
            ("TI", "typeinfo for "),
            ("TS", "typeinfo name for "),
        ];
        let of_name = [
            ("TW", "TLS wrapper function for "),
            ("TH", "TLS init function for "),
            ("GV", "guard variable for "),
        ];
        for (code, text) in of_type {
            if self.take(code) {
                let kind = self.kind()?;
                return Some(self.pieces([Piece::Text(text), Piece::Node(kind)]));
            }
        }
        for (code, text) in of_name {
            if self.take(code) {
                let name = self.name(None)?;
                return Some(self.pieces([Piece::Text(text), Piece::Node(name)]));
            }
        }
        if self.take("GR") {
            let name = self.name(None)?;
            self.sequence()?;
            return Some(self.pieces([Piece::Text("reference temporary for "), Piece::Node(name)]));
        }
        if self.take("TC") {
            let (derived, _) = (self.kind()?, self.number()?);
            self.expect("_")?;
            let base = self.kind()?;
            let pieces = [Piece::Text("construction vtable for "), Piece::Node(base)];
            let rest = [Piece::Text("-in-"), Piece::Node(derived)];
            return Some(self.pieces(pieces.into_iter().chain(rest)));
        }
        let text = if self.take("Tc") {
            self.call_offset()?;
            self.call_offset()?;
            "covariant return thunk to "
        } else if self.take("GTt") || self.take("GTn") {
            "transaction clone for "
        } else if self.take("T") {
            let is_virtual = self.peek(0) == b'v';
            self.call_offset()?;
            if is_virtual { "virtual thunk to " } else { "non-virtual thunk to " }
        } else {
            return None;
        };
        let of = self.encoding()?;
        Some(self.pieces([Piece::Text(text), Piece::Node(of)]))
    }

    fn call_offset(&mut self) -> Option<()> {
        let count = if self.take("h") { 1 } else { self.expect("v").map(|()| 2)? };
        for _ in 0..count {
            self.take("n");
            self.number()?;
            self.expect("_")?;
        }
        Some(())
    }

    /// A name. `ending` belongs to a function, whose template arguments its parameters may name.
    fn name(&mut self, ending: Option<&mut Ending>) -> Option<Id> {
        self.deeper(|own| match own.peek(0) {
            b'N' => own.nested(ending),
            b'Z' => own.local(ending),
            _ => own.unscoped(ending),
        })
    }

    fn unscoped(&mut self, mut ending: Option<&mut Ending>) -> Option<Id> {
        let name = match (self.peek(0), self.peek(1)) {
            (b'S', next) if next != b't' => {
                let name = self.substitution()?;
                // On its own, this is not a name.
                (self.peek(0) == b'I').then_some(name)?
            }
            _ => {
                let mut outer = None;
                if self.take("St") {
                    outer = Some(self.text("std"));
                }
                let name = self.unqualified(outer, ending.as_deref_mut())?;
                let name = match outer {
                    Some(outer) => self.add(Node::Nested(outer, name)),
                    None => name,
                };
                if self.peek(0) != b'I' {
                    return Some(name);
                }
                self.remember(name)
            }
        };
        let arguments = self.template_arguments(ending.is_some())?;
        if let Some(ending) = ending {
            ending.is_template = true;
        }
        Some(self.add(Node::Template(name, arguments)))
    }

    fn nested(&mut self, mut ending: Option<&mut Ending>) -> Option<Id> {
        self.expect("N")?;
        let qualifiers = self.qualifiers();
        let reference = self.reference();
        if let Some(ending) = ending.as_deref_mut() {
            ending.signature = Signature { qualifiers, reference, ..Signature::default() };
        }
        let mut found: Option<Id> = None;
        let mut is_repeated = true;
        while !self.take("E") {
            self.step()?;
            let mut is_template = false;
            let next = match (self.peek(0), self.peek(1)) {
                (b'T', _) => {
                    found.is_none().then_some(())?;
                    self.template_parameter()?
                }
                (b'I', _) => {
                    is_template = true;
                    let arguments = self.template_arguments(ending.is_some())?;
                    self.add(Node::Template(found?, arguments))
                }
                (b'D', b't' | b'T') => {
                    found.is_none().then_some(())?;
                    self.decltype()?
                }
                (b'S', b't') => {
                    found.is_none().then_some(())?;
                    self.at += 2;
                    found = Some(self.text("std"));
                    is_repeated = true;
                    continue;
                }
                (b'S', _) => {
                    found.is_none().then_some(())?;
                    found = Some(self.substitution()?);
                    is_repeated = true;
                    continue;
                }
                // `M` precedes a lambda in a variable's initializer.
                (b'M', _) => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    let name = self.unqualified(found, ending.as_deref_mut())?;
                    match found {
                        Some(outer) => self.add(Node::Nested(outer, name)),
                        None => name,
                    }
                }
            };
            if let Some(ending) = ending.as_deref_mut() {
                ending.is_template = is_template;
            }
            found = Some(self.remember(next));
            is_repeated = false;
        }
        // The caller that needs the whole remembers it as a type.
        if !is_repeated {
            self.known.pop();
        }
        found
    }

    fn local(&mut self, ending: Option<&mut Ending>) -> Option<Id> {
        self.expect("Z")?;
        let function = self.encoding()?;
        self.expect("E")?;
        if self.take("s") {
            self.discriminator();
            let literal = self.text("string literal");
            return Some(self.add(Node::Nested(function, literal)));
        }
        let mut outer = function;
        if self.take("d") {
            self.decimal_sequence()?;
            let argument = self.text("{default arg}");
            outer = self.add(Node::Nested(function, argument));
        }
        let entity = self.name(ending)?;
        self.discriminator();
        Some(self.add(Node::Nested(outer, entity)))
    }

    /// Its index among several entities with the same name.
    fn discriminator(&mut self) {
        if self.peek(0) == b'_' && self.peek(1).is_ascii_digit() {
            self.at += 2;
        } else if self.peek(0) == b'_' && self.peek(1) == b'_' && self.peek(2).is_ascii_digit() {
            self.at += 2;
            self.digits();
            self.take("_");
        }
    }

    /// A name on its own, in `outer`.
    fn unqualified(&mut self, outer: Option<Id>, ending: Option<&mut Ending>) -> Option<Id> {
        self.step()?;
        // Internal linkage.
        self.take("L");
        let mut is_special = false;
        let mut name = match (self.peek(0), self.peek(1)) {
            (b'0'..=b'9', _) => self.source_name()?,
            (b'C', b'1'..=b'5' | b'I') => {
                is_special = true;
                let inherits = {
                    self.at += 1;
                    self.take("I")
                };
                self.at += 1;
                if inherits {
                    self.kind()?;
                }
                self.add(Node::Constructor(outer?))
            }
            (b'D', b'0'..=b'5') => {
                is_special = true;
                self.at += 2;
                self.add(Node::Destructor(outer?))
            }
            (b'D', b'C') => {
                self.at += 2;
                let names = self.list("E", Self::source_name)?;
                self.pieces([Piece::Text("["), Piece::List(names), Piece::Text("]")])
            }
            (b'U', b'l') => {
                self.at += 2;
                self.lambda()?
            }
            (b'U', b't') => {
                self.at += 2;
                self.numbered("{unnamed type#", None)?
            }
            (b'c', b'v') => {
                is_special = true;
                self.at += 2;
                let looks_forward = std::mem::replace(&mut self.looks_forward, ending.is_some());
                let kind = self.kind();
                self.looks_forward = looks_forward;
                self.add(Node::Conversion(kind?))
            }
            (b'a'..=b'z', _) => self.operator_name()?,
            _ => return None,
        };
        while self.take("B") {
            let tag = self.source_text()?;
            name = self.add(Node::Tagged(name, tag));
        }
        if let Some(ending) = ending {
            ending.is_special = is_special;
        }
        Some(name)
    }

    fn lambda(&mut self) -> Option<Id> {
        self.lambdas += 1;
        let parameters = match self.take("v") {
            true => self.expect("E").map(|()| Vec::new()),
            false => self.list("E", Self::kind),
        };
        self.lambdas -= 1;
        self.numbered("{lambda(", Some(parameters?))
    }

    /// An entity without a name, by its number.
    fn numbered(&mut self, what: &'static str, parameters: Option<Vec<Id>>) -> Option<Id> {
        let begin = self.at;
        let number = self.decimal_sequence()?.checked_add(1)?;
        let number = match number {
            1 => "1",
            // The name refers to the name two before it.
            _ => self.incremented(begin, number)?,
        };
        let mut pieces = vec![Piece::Text(what)];
        if let Some(parameters) = parameters {
            pieces.extend([Piece::List(parameters), Piece::Text(")#")]);
        }
        pieces.extend([Piece::Text(number), Piece::Text("}")]);
        Some(self.pieces(pieces))
    }

    /// A number that does not occur in the text. Only small numbers exist.
    fn incremented(&self, begin: usize, number: usize) -> Option<&'a str> {
        const SMALL: &str =
            "1011121314151617181920212223242526272829303132333435363738394041424344454647484950";
        match number {
            2..=9 => SMALL_DIGITS.get(number..=number),
            10..=50 => SMALL.get(2 * (number - 10)..2 * (number - 9)),
            // Otherwise the number of the name, which distinguishes them just as well.
            _ => self.text.get(begin..self.at - 1),
        }
    }

    fn source_text(&mut self) -> Option<&'a str> {
        self.step()?;
        let length = self.number()?;
        let text = self.text.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        (length > 0).then_some(text)
    }

    pub(super) fn source_name(&mut self) -> Option<Id> {
        let text = self.source_text()?;
        let is_anonymous = text.starts_with("_GLOBAL_")
            && text[8..].starts_with(['_', '.', '$'])
            && text[9..].starts_with('N');
        Some(self.text(if is_anonymous { "(anonymous namespace)" } else { text }))
    }

    /// A substitution: an entity that occurred before, or one of the predefined ones.
    fn substitution(&mut self) -> Option<Id> {
        self.step()?;
        self.expect("S")?;
        let text = match self.peek(0) {
            b'a' => "std::allocator",
            b'b' => "std::basic_string",
            b's' => "std::string",
            b'i' => "std::istream",
            b'o' => "std::ostream",
            b'd' => "std::iostream",
            _ => {
                let number = self.sequence()?;
                return self.known.get(number).copied();
            }
        };
        self.at += 1;
        let mut name = self.text(text);
        while self.take("B") {
            let tag = self.source_text()?;
            name = self.add(Node::Tagged(name, tag));
            self.remember(name);
        }
        Some(name)
    }

    pub(super) fn template_parameter(&mut self) -> Option<Id> {
        self.step()?;
        self.expect("T")?;
        let number = self.decimal_sequence()?;
        if self.lambdas > 0 && self.arguments.get(number).is_none() {
            return Some(match number {
                0 => self.text("auto:1"),
                1 => self.text("auto:2"),
                2 => self.text("auto:3"),
                _ => self.text("auto"),
            });
        }
        if self.looks_forward {
            return Some(self.add(Node::Forward(number)));
        }
        self.arguments.get(number).copied()
    }

    /// Template arguments, and, with `its`, those that the parameters of a function refer to.
    pub(super) fn template_arguments(&mut self, its: bool) -> Option<Vec<Id>> {
        self.expect("I")?;
        if its {
            self.arguments.clear();
        }
        let looks_forward = std::mem::take(&mut self.looks_forward);
        let mut all = Vec::new();
        let found = loop {
            if self.take("E") {
                break Some(all);
            }
            let Some(argument) = self.template_argument() else { break None };
            all.push(argument);
            if its {
                self.arguments.push(argument);
            }
        };
        self.looks_forward = looks_forward;
        found
    }

    fn template_argument(&mut self) -> Option<Id> {
        self.deeper(|own| match own.peek(0) {
            b'X' => {
                own.at += 1;
                let expression = own.expression()?;
                own.expect("E")?;
                Some(expression)
            }
            b'L' => own.literal(),
            b'J' => {
                own.at += 1;
                let all = own.list("E", Self::template_argument)?;
                Some(own.add(Node::Pack(all)))
            }
            _ => own.kind(),
        })
    }

    fn qualifiers(&mut self) -> Qualifiers {
        let mut bits = 0;
        for (code, bit) in
            [("r", Qualifiers::RESTRICT), ("V", Qualifiers::VOLATILE), ("K", Qualifiers::CONST)]
        {
            bits |= if self.take(code) { bit } else { 0 };
        }
        Qualifiers(bits)
    }

    fn reference(&mut self) -> &'static str {
        if self.take("R") {
            " &"
        } else if self.take("O") {
            " &&"
        } else {
            ""
        }
    }

    fn decltype(&mut self) -> Option<Id> {
        self.at += 2;
        let expression = self.expression()?;
        self.expect("E")?;
        let pieces = [Piece::Text("decltype ("), Piece::Node(expression), Piece::Text(")")];
        Some(self.pieces(pieces))
    }

    /// A type.
    pub(super) fn kind(&mut self) -> Option<Id> {
        self.deeper(Self::any_kind)
    }

    fn any_kind(&mut self) -> Option<Id> {
        if let Some(text) = self.builtin() {
            return Some(self.text(text));
        }
        let kind = match (self.peek(0), self.peek(1)) {
            (b'r' | b'V' | b'K', _) => {
                let qualifiers = self.qualifiers();
                let inner = self.kind()?;
                self.add(Node::Qualified(inner, qualifiers))
            }
            (b'P', _) => self.pointer("*")?,
            (b'R', _) => self.pointer("&")?,
            (b'O', _) => self.pointer("&&")?,
            (b'C', _) => self.suffixed(" _Complex")?,
            (b'G', _) => self.suffixed(" _Imaginary")?,
            (b'F', _) => self.function_type()?,
            (b'D', b'o' | b'O' | b'w' | b'x') => self.function_type()?,
            (b'A', _) => self.array()?,
            (b'M', _) => {
                self.at += 1;
                let (class, member) = (self.kind()?, self.kind()?);
                self.add(Node::MemberPointer { class, member })
            }
            (b'T', b's' | b'u' | b'e') => {
                self.at += 2;
                self.name(None)?
            }
            (b'T', _) => {
                let parameter = self.template_parameter()?;
                self.with_arguments(parameter)?
            }
            (b'S', next) if next != b't' => {
                let found = self.substitution()?;
                if self.peek(0) != b'I' {
                    return Some(found);
                }
                let arguments = self.template_arguments(false)?;
                self.add(Node::Template(found, arguments))
            }
            (b'D', b't' | b'T') => self.decltype()?,
            (b'D', b'p') => {
                self.at += 2;
                let pattern = self.kind()?;
                self.add(Node::Expansion(pattern))
            }
            (b'D', b'v') => self.vector()?,
            (b'D', b'F') => {
                self.at += 2;
                let bits = self.digits();
                self.take("x");
                let text = if self.take("b") { "std::bfloat" } else { "_Float" };
                self.expect("_").or_else(|| text.ends_with("bfloat").then_some(()))?;
                self.pieces([Piece::Text(text), Piece::Text(bits)])
            }
            (b'D', b'B' | b'U') => {
                let text = if self.peek(1) == b'B' { "_BitInt(" } else { "unsigned _BitInt(" };
                self.at += 2;
                let bits = self.digits();
                self.expect("_")?;
                self.pieces([text, bits, ")"].map(Piece::Text))
            }
            (b'u', _) => {
                self.at += 1;
                let name = self.source_name()?;
                if self.take("I") {
                    let of = self.list("E", Self::template_argument)?;
                    self.pieces([
                        Piece::Node(name),
                        Piece::Text("("),
                        Piece::List(of),
                        Piece::Text(")"),
                    ])
                } else {
                    name
                }
            }
            (b'U', next) if next.is_ascii_digit() => {
                self.at += 1;
                let qualifier = self.source_name()?;
                let arguments = match self.peek(0) {
                    b'I' => Some(self.template_arguments(false)?),
                    _ => None,
                };
                let inner = self.kind()?;
                let qualifier = match arguments {
                    Some(arguments) => self.add(Node::Template(qualifier, arguments)),
                    None => qualifier,
                };
                self.pieces([Piece::Node(inner), Piece::Text(" "), Piece::Node(qualifier)])
            }
            _ => self.name(None)?,
        };
        Some(self.remember(kind))
    }

    /// A template parameter that is a template itself, with its arguments.
    fn with_arguments(&mut self, parameter: Id) -> Option<Id> {
        // In the name of a conversion, they belong to the conversion.
        if self.peek(0) != b'I' || self.looks_forward {
            return Some(parameter);
        }
        self.remember(parameter);
        let arguments = self.template_arguments(false)?;
        Some(self.add(Node::Template(parameter, arguments)))
    }

    fn builtin(&mut self) -> Option<&'static str> {
        let (text, length) = match (self.peek(0), self.peek(1)) {
            (b'v', _) => ("void", 1),
            (b'w', _) => ("wchar_t", 1),
            (b'b', _) => ("bool", 1),
            (b'c', _) => ("char", 1),
            (b'a', _) => ("signed char", 1),
            (b'h', _) => ("unsigned char", 1),
            (b's', _) => ("short", 1),
            (b't', _) => ("unsigned short", 1),
            (b'i', _) => ("int", 1),
            (b'j', _) => ("unsigned int", 1),
            (b'l', _) => ("long", 1),
            (b'm', _) => ("unsigned long", 1),
            (b'x', _) => ("long long", 1),
            (b'y', _) => ("unsigned long long", 1),
            (b'n', _) => ("__int128", 1),
            (b'o', _) => ("unsigned __int128", 1),
            (b'f', _) => ("float", 1),
            (b'd', _) => ("double", 1),
            (b'e', _) => ("long double", 1),
            (b'g', _) => ("__float128", 1),
            (b'z', _) => ("...", 1),
            (b'D', b'd') => ("decimal64", 2),
            (b'D', b'e') => ("decimal128", 2),
            (b'D', b'f') => ("decimal32", 2),
            (b'D', b'h') => ("half", 2),
            (b'D', b'i') => ("char32_t", 2),
            (b'D', b's') => ("char16_t", 2),
            (b'D', b'u') => ("char8_t", 2),
            (b'D', b'a') => ("auto", 2),
            (b'D', b'c') => ("decltype(auto)", 2),
            (b'D', b'n') => ("decltype(nullptr)", 2),
            _ => return None,
        };
        self.at += length;
        Some(text)
    }

    fn pointer(&mut self, sign: &'static str) -> Option<Id> {
        self.at += 1;
        let inner = self.kind()?;
        Some(self.add(Node::Pointer(inner, sign)))
    }

    fn suffixed(&mut self, suffix: &'static str) -> Option<Id> {
        self.at += 1;
        let inner = self.kind()?;
        Some(self.pieces([Piece::Node(inner), Piece::Text(suffix)]))
    }

    fn function_type(&mut self) -> Option<Id> {
        if self.take("DO") {
            self.expression()?;
            self.expect("E")?;
        } else if self.take("Dw") {
            self.list("E", Self::kind)?;
        } else if !self.take("Do") {
            self.take("Dx");
        }
        self.expect("F")?;
        // C linkage.
        self.take("Y");
        let returns = self.kind()?;
        let mut signature = Signature::default();
        loop {
            if self.take("E") {
                break;
            }
            if self.take("v") {
                continue;
            }
            if matches!((self.peek(0), self.peek(1)), (b'R' | b'O', b'E')) {
                signature.reference = self.reference();
                continue;
            }
            signature.parameters.push(self.kind()?);
        }
        Some(self.add(Node::Function(returns, signature)))
    }

    fn array(&mut self) -> Option<Id> {
        self.at += 1;
        let dimension = match self.peek(0) {
            b'0'..=b'9' => {
                let digits = self.digits();
                Some(self.text(digits))
            }
            b'_' => None,
            _ => Some(self.expression()?),
        };
        self.expect("_")?;
        let inner = self.kind()?;
        Some(self.add(Node::Array(inner, dimension)))
    }

    fn vector(&mut self) -> Option<Id> {
        self.at += 2;
        let dimension = match self.peek(0) {
            b'0'..=b'9' => {
                let digits = self.digits();
                self.text(digits)
            }
            _ => {
                self.take("_");
                self.expression()?
            }
        };
        self.expect("_")?;
        let inner = self.kind()?;
        let pieces = [Piece::Node(inner), Piece::Text(" __vector("), Piece::Node(dimension)];
        Some(self.pieces(pieces.into_iter().chain([Piece::Text(")")])))
    }
}

const SMALL_DIGITS: &str = "0123456789";
