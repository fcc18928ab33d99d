//! Expressions in the arguments of templates and in types.

use super::parse::Parser;
use super::{Id, Node, Piece};

/// Operators by their code: their names, and the number of operands in an expression (0: they are not parsed here).
const OPERATORS: &[(&str, &str, u8)] = &[
    ("aN", "&=", 2),
    ("aS", "=", 2),
    ("aa", "&&", 2),
    ("ad", "&", 1),
    ("an", "&", 2),
    ("aw", "co_await ", 1),
    ("cl", "()", 0),
    ("cm", ",", 2),
    ("co", "~", 1),
    ("dV", "/=", 2),
    ("da", "delete[] ", 1),
    ("de", "*", 1),
    ("dl", "delete ", 1),
    ("ds", ".*", 2),
    ("dv", "/", 2),
    ("eO", "^=", 2),
    ("eo", "^", 2),
    ("eq", "==", 2),
    ("ge", ">=", 2),
    ("gt", ">", 2),
    ("ix", "[]", 0),
    ("lS", "<<=", 2),
    ("le", "<=", 2),
    ("ls", "<<", 2),
    ("lt", "<", 2),
    ("mI", "-=", 2),
    ("mL", "*=", 2),
    ("mi", "-", 2),
    ("ml", "*", 2),
    ("mm", "--", 0),
    ("na", "new[]", 0),
    ("ne", "!=", 2),
    ("ng", "-", 1),
    ("nt", "!", 1),
    ("nw", "new", 0),
    ("oR", "|=", 2),
    ("oo", "||", 2),
    ("or", "|", 2),
    ("pL", "+=", 2),
    ("pl", "+", 2),
    ("pm", "->*", 2),
    ("pp", "++", 0),
    ("ps", "+", 1),
    ("pt", "->", 0),
    ("qu", "?", 0),
    ("rM", "%=", 2),
    ("rS", ">>=", 2),
    ("rm", "%", 2),
    ("rs", ">>", 2),
    ("ss", "<=>", 2),
];

impl<'a> Parser<'a> {
    fn operator(&self) -> Option<(&'static str, u8)> {
        let code = self.text.get(self.at..self.at + 2)?;
        let at = OPERATORS.binary_search_by_key(&code, |(code, ..)| code).ok()?;
        let (_, text, operands) = OPERATORS[at];
        Some((text, operands))
    }

    /// `operator+` as the name of a function.
    pub(super) fn operator_name(&mut self) -> Option<Id> {
        if self.take("li") {
            let name = self.source_name()?;
            return Some(self.pieces([Piece::Text("operator\"\" "), Piece::Node(name)]));
        }
        let (text, _) = self.operator()?;
        self.at += 2;
        let begins_a_word = text.starts_with(|first: char| first.is_ascii_alphabetic());
        let space = if begins_a_word { "operator " } else { "operator" };
        Some(self.pieces([space, text.trim_end()].map(Piece::Text)))
    }

    pub(super) fn expression(&mut self) -> Option<Id> {
        self.deeper(Self::any_expression)
    }

    fn in_parentheses(&mut self, before: &'a str, operand: Id, behind: &'a str) -> Id {
        self.pieces([Piece::Text(before), Piece::Node(operand), Piece::Text(behind)])
    }

    fn any_expression(&mut self) -> Option<Id> {
        let is_global = self.take("gs");
        let code = (self.peek(0), self.peek(1));
        match code {
            (b'L', _) => return self.literal(),
            (b'T', _) => return self.template_parameter(),
            (b'f', b'p' | b'L') => return self.parameter(),
            (b'0'..=b'9', _) | (b'o', b'n') | (b'd', b'n') | (b's', b'r') => {
                return self.unresolved_name();
            }
            _ => {}
        }
        let two = |own: &mut Self, text: &'static str| {
            own.at += 2;
            let operand = own.any_operand(text)?;
            Some(operand)
        };
        match code {
            (b's', b't') => two(self, "sizeof (t"),
            (b's', b'z') => two(self, "sizeof ("),
            (b'a', b't') => two(self, "alignof (t"),
            (b'a', b'z') => two(self, "alignof ("),
            (b't', b'i') => two(self, "typeid (t"),
            (b't', b'e') => two(self, "typeid ("),
            (b'n', b'x') => two(self, "noexcept ("),
            (b's', b'Z') => {
                self.at += 2;
                let pack = match self.peek(0) {
                    b'T' => self.template_parameter()?,
                    _ => self.parameter()?,
                };
                Some(self.in_parentheses("sizeof...(", pack, ")"))
            }
            (b's', b'P') => {
                self.at += 2;
                let all = self.list("E", Self::expression)?;
                Some(self.listed("sizeof...(", all, ")"))
            }
            (b's', b'p') => {
                self.at += 2;
                let pattern = self.expression()?;
                Some(self.add(Node::Expansion(pattern)))
            }
            (b't', b'r') => {
                self.at += 2;
                Some(self.text("throw"))
            }
            (b't', b'w') => {
                self.at += 2;
                let operand = self.expression()?;
                Some(self.in_parentheses("throw ", operand, ""))
            }
            (b'c', b'l') => {
                self.at += 2;
                let function = self.expression()?;
                let arguments = self.list("E", Self::expression)?;
                self.called(function, arguments)
            }
            (b'c', b'v') => self.conversion(),
            (b't', b'l') => {
                self.at += 2;
                let kind = self.kind()?;
                let all = self.list("E", Self::braced)?;
                let rest = [Piece::Text("{"), Piece::List(all), Piece::Text("}")];
                Some(self.pieces([Piece::Node(kind)].into_iter().chain(rest)))
            }
            (b'i', b'l') => {
                self.at += 2;
                let all = self.list("E", Self::braced)?;
                Some(self.listed("{", all, "}"))
            }
            (b'd', b'c') => self.cast("dynamic_cast<"),
            (b's', b'c') => self.cast("static_cast<"),
            (b'c', b'c') => self.cast("const_cast<"),
            (b'r', b'c') => self.cast("reinterpret_cast<"),
            (b'n', b'w' | b'a') => self.new_expression(is_global),
            (b'd', b't') => self.binary(".", Self::unresolved_or_expression),
            (b'p', b't') => self.binary("->", Self::unresolved_or_expression),
            (b'i', b'x') => {
                self.at += 2;
                let (array, index) = (self.expression()?, self.expression()?);
                let rest = [Piece::Text(")["), Piece::Node(index), Piece::Text("]")];
                let pieces = [Piece::Text("("), Piece::Node(array)];
                Some(self.pieces(pieces.into_iter().chain(rest)))
            }
            (b'q', b'u') => {
                self.at += 2;
                let all = [self.expression()?, self.expression()?, self.expression()?];
                let texts = [Piece::Text("("), Piece::Text(")?("), Piece::Text(") : (")];
                let pieces = texts.into_iter().zip(all.map(Piece::Node));
                let pieces = pieces.flat_map(|(text, node)| [text, node]);
                Some(self.pieces(pieces.chain([Piece::Text(")")])))
            }
            (b'p', b'p') | (b'm', b'm') => {
                self.at += 2;
                let is_prefix = self.take("_");
                let operand = self.expression()?;
                let sign = if code.0 == b'p' { "++" } else { "--" };
                let texts = if is_prefix { [sign, "(", ")", ""] } else { ["", "(", ")", sign] };
                let [one, two, three, four] = texts.map(Piece::Text);
                Some(self.pieces([one, two, Piece::Node(operand), three, four]))
            }
            (b'f', b'l' | b'r' | b'L' | b'R') => self.fold(),
            (b'u', _) => {
                self.at += 1;
                let name = self.source_name()?;
                let all = self.list("E", Self::template_argument_of_expression)?;
                self.called(name, all)
            }
            _ => {
                let (text, operands) = self.operator()?;
                match operands {
                    1 => {
                        self.at += 2;
                        let operand = self.expression()?;
                        let pieces = [Piece::Text(text), Piece::Text("("), Piece::Node(operand)];
                        Some(self.pieces(pieces.into_iter().chain([Piece::Text(")")])))
                    }
                    2 => self.binary(text, Self::expression),
                    _ => None,
                }
            }
        }
    }

    fn template_argument_of_expression(&mut self) -> Option<Id> {
        match self.peek(0) {
            b'X' => {
                self.at += 1;
                let expression = self.expression()?;
                self.expect("E")?;
                Some(expression)
            }
            b'L' => self.literal(),
            _ => self.kind(),
        }
    }

    /// The operand of `sizeof` and similar operators: a type if `text` ends with a `t`.
    fn any_operand(&mut self, text: &'static str) -> Option<Id> {
        let (text, operand) = match text.strip_suffix('t') {
            Some(text) => (text, self.kind()?),
            None => (text, self.expression()?),
        };
        Some(self.in_parentheses(text, operand, ")"))
    }

    fn binary(
        &mut self,
        text: &'static str,
        right: impl FnOnce(&mut Self) -> Option<Id>,
    ) -> Option<Id> {
        self.at += 2;
        let (left, right) = (self.expression()?, right(self)?);
        let pieces = [Piece::Text("("), Piece::Node(left), Piece::Text(")"), Piece::Text(text)];
        let rest = [Piece::Text("("), Piece::Node(right), Piece::Text(")")];
        Some(self.pieces(pieces.into_iter().chain(rest)))
    }

    fn unresolved_or_expression(&mut self) -> Option<Id> {
        match (self.peek(0), self.peek(1)) {
            (b'L' | b'T', _) | (b'f', b'p' | b'L') => self.expression(),
            _ => self.unresolved_name(),
        }
    }

    fn listed(&mut self, before: &'static str, all: Vec<Id>, behind: &'static str) -> Id {
        self.pieces([Piece::Text(before), Piece::List(all), Piece::Text(behind)])
    }

    fn called(&mut self, function: Id, arguments: Vec<Id>) -> Option<Id> {
        let rest = [Piece::Text("("), Piece::List(arguments), Piece::Text(")")];
        Some(self.pieces([Piece::Node(function)].into_iter().chain(rest)))
    }

    fn conversion(&mut self) -> Option<Id> {
        self.at += 2;
        let kind = self.kind()?;
        let all = match self.take("_") {
            true => self.list("E", Self::expression)?,
            false => vec![self.expression()?],
        };
        let pieces = [Piece::Text("("), Piece::Node(kind), Piece::Text(")(")];
        Some(self.pieces(pieces.into_iter().chain([Piece::List(all), Piece::Text(")")])))
    }

    fn cast(&mut self, text: &'static str) -> Option<Id> {
        self.at += 2;
        let (kind, operand) = (self.kind()?, self.expression()?);
        let pieces = [Piece::Text(text), Piece::Node(kind), Piece::Text(">(")];
        Some(self.pieces(pieces.into_iter().chain([Piece::Node(operand), Piece::Text(")")])))
    }

    fn new_expression(&mut self, is_global: bool) -> Option<Id> {
        let text = if self.peek(1) == b'a' { "new[]" } else { "new" };
        self.at += 2;
        let placement = self.list("_", Self::expression)?;
        let kind = self.kind()?;
        let mut pieces = vec![Piece::Text(if is_global { "::" } else { "" }), Piece::Text(text)];
        if !placement.is_empty() {
            pieces.extend([Piece::Text("("), Piece::List(placement), Piece::Text(")")]);
        }
        pieces.extend([Piece::Text(" "), Piece::Node(kind)]);
        if self.take("pi") {
            let all = self.list("E", Self::expression)?;
            pieces.extend([Piece::Text("("), Piece::List(all), Piece::Text(")")]);
        } else if self.peek(0) == b'i' && self.peek(1) == b'l' {
            pieces.push(Piece::Node(self.expression()?));
        } else {
            self.expect("E")?;
        }
        Some(self.pieces(pieces))
    }

    fn fold(&mut self) -> Option<Id> {
        let which = self.peek(1);
        self.at += 2;
        let (text, _) = self.operator()?;
        self.at += 2;
        let first = self.expression()?;
        let op = Piece::Text(text);
        let pieces = match which {
            b'l' => vec![Piece::Text("(..."), op, Piece::Node(first), Piece::Text(")")],
            b'r' => vec![Piece::Text("("), Piece::Node(first), op, Piece::Text("...)")],
            _ => {
                let second = self.expression()?;
                let middle = [Piece::Node(first), op.clone(), Piece::Text("..."), op];
                let mut all = vec![Piece::Text("(")];
                all.extend(middle);
                all.extend([Piece::Node(second), Piece::Text(")")]);
                all
            }
        };
        Some(self.pieces(pieces))
    }

    /// The designator of an element of an object, in braces.
    fn braced(&mut self) -> Option<Id> {
        let field = |own: &mut Self, name: Id| {
            let value = own.deeper(Self::braced)?;
            let pieces = [Piece::Text("."), Piece::Node(name), Piece::Text("=")];
            Some(own.pieces(pieces.into_iter().chain([Piece::Node(value)])))
        };
        if self.take("di") {
            let name = self.source_name()?;
            return field(self, name);
        }
        if self.take("dx") {
            let index = self.expression()?;
            let value = self.deeper(Self::braced)?;
            let pieces = [Piece::Text("["), Piece::Node(index), Piece::Text("]=")];
            return Some(self.pieces(pieces.into_iter().chain([Piece::Node(value)])));
        }
        self.expression()
    }

    /// A parameter of the function in whose type it occurs.
    fn parameter(&mut self) -> Option<Id> {
        if self.take("fpT") {
            return Some(self.text("this"));
        }
        if self.take("fL") {
            self.decimal_digits();
            self.expect("p")?;
        } else {
            self.expect("fp")?;
        }
        while matches!(self.peek(0), b'r' | b'V' | b'K') {
            self.at += 1;
        }
        let begin = self.at;
        let number = self.decimal_sequence()?;
        let text = match number {
            0 => "1",
            _ => self.text.get(begin..self.at - 1)?,
        };
        let pieces = match number {
            0 => [Piece::Text("{parm#"), Piece::Text(text), Piece::Text("}")],
            // The second is 0.
            _ => {
                let digits = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];
                let text = digits.get(number - 1).copied().unwrap_or(text);
                [Piece::Text("{parm#"), Piece::Text(text), Piece::Text("}")]
            }
        };
        Some(self.pieces(pieces))
    }

    fn decimal_digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// A name that could not be determined, since it depends on an argument.
    fn unresolved_name(&mut self) -> Option<Id> {
        self.deeper(|own| {
            own.take("gs");
            if !own.take("sr") {
                return own.base_name();
            }
            let mut outer = if own.take("N") {
                let kind = own.unresolved_type()?;
                let mut outer = own.with_template_arguments(kind)?;
                while !own.take("E") {
                    let level = own.simple_name()?;
                    outer = own.add(Node::Nested(outer, level));
                }
                outer
            } else if own.peek(0).is_ascii_digit() {
                // Either levels up to `E`, or a type that is only a name.
                let mut outer = own.simple_name()?;
                let mut count = 0;
                while own.peek(0).is_ascii_digit() {
                    let level = own.simple_name()?;
                    outer = own.add(Node::Nested(outer, level));
                    count += 1;
                }
                if !own.take("E") && count > 0 {
                    return Some(outer);
                }
                outer
            } else {
                let kind = own.unresolved_type()?;
                own.with_template_arguments(kind)?
            };
            let base = own.base_name()?;
            outer = own.add(Node::Nested(outer, base));
            Some(outer)
        })
    }

    fn unresolved_type(&mut self) -> Option<Id> {
        self.kind()
    }

    fn with_template_arguments(&mut self, name: Id) -> Option<Id> {
        if self.peek(0) != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments(false)?;
        Some(self.add(Node::Template(name, arguments)))
    }

    fn simple_name(&mut self) -> Option<Id> {
        let name = self.source_name()?;
        self.with_template_arguments(name)
    }

    fn base_name(&mut self) -> Option<Id> {
        let name = if self.take("on") {
            if self.take("cv") {
                let kind = self.kind()?;
                self.add(Node::Conversion(kind))
            } else {
                self.operator_name()?
            }
        } else if self.take("dn") {
            let of = match self.peek(0) {
                b'0'..=b'9' => self.simple_name()?,
                _ => self.kind()?,
            };
            self.pieces([Piece::Text("~"), Piece::Node(of)])
        } else if self.peek(0).is_ascii_digit() {
            self.source_name()?
        } else {
            self.operator_name()?
        };
        self.with_template_arguments(name)
    }

    pub(super) fn literal(&mut self) -> Option<Id> {
        self.expect("L")?;
        if self.peek(0) == b'_' && self.peek(1) == b'Z' {
            self.at += 2;
            let function = self.encoding()?;
            self.expect("E")?;
            return Some(function);
        }
        let code = self.peek(0);
        if code == b'b' && self.peek(2) == b'E' && matches!(self.peek(1), b'0' | b'1') {
            let text = if self.peek(1) == b'1' { "true" } else { "false" };
            self.at += 3;
            return Some(self.text(text));
        }
        let suffix = match code {
            b'i' => Some(""),
            b'j' => Some("u"),
            b'l' => Some("l"),
            b'm' => Some("ul"),
            b'x' => Some("ll"),
            b'y' => Some("ull"),
            _ => None,
        };
        let kind = self.kind()?;
        let sign = if self.take("n") { "-" } else { "" };
        let begin = self.at;
        while self.peek(0).is_ascii_alphanumeric() && self.peek(0) != b'E' {
            self.at += 1;
        }
        let value = self.text.get(begin..self.at)?;
        self.expect("E")?;
        let value = [sign, value].map(Piece::Text);
        Some(match suffix {
            Some(suffix) => self.pieces(value.into_iter().chain([Piece::Text(suffix)])),
            None => {
                let pieces = [Piece::Text("("), Piece::Node(kind), Piece::Text(")")];
                self.pieces(pieces.into_iter().chain(value))
            }
        })
    }
}
