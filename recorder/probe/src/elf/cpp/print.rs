//! From nodes to text.
//!
//! The text of a type may be on both sides of the text of its content, as for a pointer to a function: `void (*` and `)(int)`. So each node
//! has a left side and a right one.

use super::{DEEPEST, Id, Node, Piece, Qualifiers, Signature};

pub(super) struct Printer<'n, 'a> {
    nodes: &'n [Node<'a>],
    text: String,
    most: usize,
    pub(super) left: usize,
    depth: usize,
    /// Which argument of packs is printed, in an expansion.
    element: Option<usize>,
    /// How many arguments the packs of an expansion have.
    elements: Option<usize>,
}

impl<'n, 'a> Printer<'n, 'a> {
    pub(super) fn new(nodes: &'n [Node<'a>], steps: usize, most: usize) -> Printer<'n, 'a> {
        Printer {
            nodes,
            text: String::new(),
            most,
            left: steps,
            depth: 0,
            element: None,
            elements: None,
        }
    }

    /// A function with its parameters, or without.
    pub(super) fn whole(&mut self, id: Id, parameters: bool) -> Option<String> {
        match self.node(id) {
            Node::Encoding(name, _) if !parameters => self.print(*name)?,
            Node::Pieces(pieces) if !parameters => {
                for piece in pieces {
                    match piece {
                        Piece::Node(node) => match self.node(*node) {
                            Node::Encoding(name, _) => self.print(*name)?,
                            _ => self.print(*node)?,
                        },
                        piece => self.piece(piece)?,
                    }
                }
            }
            _ => self.print(id)?,
        }
        Some(std::mem::take(&mut self.text))
    }

    fn node(&self, id: Id) -> &'n Node<'a> {
        let Id(at) = id;
        &self.nodes[at]
    }

    fn out(&mut self, text: &str) -> Option<()> {
        (self.text.len() + text.len() <= self.most).then_some(())?;
        self.text.push_str(text);
        Some(())
    }

    fn print(&mut self, id: Id) -> Option<()> {
        self.side(id, true)?;
        self.side(id, false)
    }

    fn side(&mut self, id: Id, is_left: bool) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let done = if is_left { self.left(id) } else { self.right(id) };
        self.depth -= 1;
        done
    }

    /// The node that represents another node, in the part of a pack that is printed.
    fn seen(&mut self, mut id: Id) -> Option<&'n Node<'a>> {
        loop {
            self.left = self.left.checked_sub(1)?;
            match self.node(id) {
                Node::Alias(of) => id = *of,
                Node::Pack(all) => match self.element_of(all) {
                    Some(one) => id = one,
                    None => return Some(self.node(id)),
                },
                node => return Some(node),
            }
        }
    }

    /// The argument of a pack that is being printed, in an expansion.
    fn element_of(&mut self, all: &[Id]) -> Option<Id> {
        let at = self.element?;
        self.elements = Some(self.elements.map_or(all.len(), |it| it.max(all.len())));
        all.get(at).copied()
    }

    fn left(&mut self, id: Id) -> Option<()> {
        match self.node(id) {
            Node::Text(text) => self.out(text),
            Node::Pieces(pieces) => pieces.iter().try_for_each(|piece| self.piece(piece)),
            Node::Nested(outer, inner) => {
                self.print(*outer)?;
                self.out("::")?;
                self.print(*inner)
            }
            Node::Template(name, arguments) => {
                self.print(*name)?;
                if self.text.ends_with('<') {
                    self.out(" ")?;
                }
                self.out("<")?;
                self.list(arguments)?;
                self.out(if self.text.ends_with('>') { " >" } else { ">" })
            }
            Node::Tagged(name, tag) => {
                self.print(*name)?;
                self.out("[abi:")?;
                self.out(tag)?;
                self.out("]")
            }
            Node::Constructor(class) => self.own_name(*class),
            Node::Destructor(class) => {
                self.out("~")?;
                self.own_name(*class)
            }
            Node::Conversion(kind) => {
                self.out("operator ")?;
                self.print(*kind)
            }
            Node::Pack(all) if self.element.is_none() => self.list(all),
            Node::Pack(all) => self.element_of(all).map_or(Some(()), |one| self.side(one, true)),
            Node::Expansion(pattern) => self.expansion(*pattern),
            Node::Qualified(inner, qualifiers) => {
                self.side(*inner, true)?;
                match self.seen(*inner)? {
                    Node::Function(..) => Some(()),
                    _ => self.qualifiers(*qualifiers),
                }
            }
            Node::Pointer(..) => {
                let (inner, sign) = self.collapsed(id)?;
                self.side(inner, true)?;
                self.opens(inner)?;
                self.out(sign)
            }
            Node::MemberPointer { class, member } => {
                self.side(*member, true)?;
                if !self.opens(*member)? {
                    self.out(" ")?;
                }
                self.print(*class)?;
                self.out("::*")
            }
            Node::Array(inner, _) => self.side(*inner, true),
            Node::Function(returns, _) => {
                self.side(*returns, true)?;
                self.out(" ")
            }
            Node::Encoding(name, signature) => {
                self.print(*name)?;
                self.signature(signature)
            }
            Node::Alias(of) => self.side(*of, true),
            Node::Forward(_) => None,
        }
    }

    fn right(&mut self, id: Id) -> Option<()> {
        match self.node(id) {
            Node::Alias(of) => self.side(*of, false),
            Node::Pack(all) => self.element_of(all).map_or(Some(()), |one| self.side(one, false)),
            Node::Qualified(inner, qualifiers) => {
                self.side(*inner, false)?;
                match self.seen(*inner)? {
                    Node::Function(..) => self.qualifiers(*qualifiers),
                    _ => Some(()),
                }
            }
            Node::Pointer(..) => {
                let (inner, _) = self.collapsed(id)?;
                self.closes(inner)?;
                self.side(inner, false)
            }
            Node::MemberPointer { member, .. } => {
                self.closes(*member)?;
                self.side(*member, false)
            }
            Node::Array(inner, dimension) => {
                if !self.text.ends_with(']') {
                    self.out(" ")?;
                }
                self.out("[")?;
                if let Some(dimension) = dimension {
                    self.print(*dimension)?;
                }
                self.out("]")?;
                self.side(*inner, false)
            }
            Node::Function(returns, signature) => {
                self.signature(signature)?;
                self.side(*returns, false)
            }
            _ => Some(()),
        }
    }

    /// Whether a pointer to this needs parentheses, with the text that opens them.
    fn opens(&mut self, inner: Id) -> Option<bool> {
        let is_split = self.is_split(inner)?;
        if is_split {
            let is_array = !self.text.ends_with([' ', '(']);
            self.out(if is_array { " (" } else { "(" })?;
        }
        Some(is_split)
    }

    fn closes(&mut self, inner: Id) -> Option<()> {
        if self.is_split(inner)? { self.out(")") } else { Some(()) }
    }

    fn is_split(&mut self, mut id: Id) -> Option<bool> {
        loop {
            match self.seen(id)? {
                Node::Qualified(inner, _) => id = *inner,
                node => return Some(matches!(node, Node::Function(..) | Node::Array(..))),
            }
        }
    }

    /// The pointed-to type, with its sign: a reference to a reference is a reference.
    fn collapsed(&mut self, id: Id) -> Option<(Id, &'static str)> {
        let &Node::Pointer(mut inner, mut sign) = self.node(id) else { return None };
        if sign != "*" {
            while let &Node::Pointer(next, other) = self.seen(inner)?
                && other != "*"
            {
                inner = next;
                sign = if sign == "&" { "&" } else { other };
            }
        }
        Some((inner, sign))
    }

    fn piece(&mut self, piece: &'n Piece<'a>) -> Option<()> {
        match piece {
            Piece::Text(text) => self.out(text),
            Piece::Node(node) => self.print(*node),
            Piece::List(all) => self.list(all),
        }
    }

    /// With commas between those that are not empty.
    fn list(&mut self, all: &[Id]) -> Option<()> {
        let begin = self.text.len();
        for &one in all {
            let before = self.text.len();
            if before > begin {
                self.out(", ")?;
            }
            let empty = self.text.len();
            self.print(one)?;
            if self.text.len() == empty {
                self.text.truncate(before);
            }
        }
        Some(())
    }

    fn expansion(&mut self, pattern: Id) -> Option<()> {
        let (element, elements) = (self.element.take(), self.elements.take());
        let begin = self.text.len();
        self.element = Some(0);
        let mut done = self.print(pattern);
        match self.elements {
            None => {
                self.element = element;
                done = done.and_then(|()| self.out("..."));
            }
            Some(0) => self.text.truncate(begin),
            Some(count) => {
                for at in 1..count {
                    self.element = Some(at);
                    done = done.and_then(|()| self.out(", ")).and_then(|()| self.print(pattern));
                    done?;
                }
            }
        }
        (self.element, self.elements) = (element, elements);
        done
    }

    fn signature(&mut self, signature: &'n Signature) -> Option<()> {
        self.out("(")?;
        self.list(&signature.parameters)?;
        self.out(")")?;
        self.qualifiers(signature.qualifiers)?;
        self.out(signature.reference)
    }

    fn qualifiers(&mut self, Qualifiers(bits): Qualifiers) -> Option<()> {
        for (bit, text) in [
            (Qualifiers::CONST, " const"),
            (Qualifiers::VOLATILE, " volatile"),
            (Qualifiers::RESTRICT, " restrict"),
        ] {
            if bits & bit != 0 {
                self.out(text)?;
            }
        }
        Some(())
    }

    /// The last part of a class's name, without its arguments.
    fn own_name(&mut self, mut class: Id) -> Option<()> {
        loop {
            self.left = self.left.checked_sub(1)?;
            match self.node(class) {
                Node::Nested(_, inner) => class = *inner,
                Node::Template(name, _) | Node::Tagged(name, _) => class = *name,
                Node::Alias(of) => class = *of,
                Node::Text(text) => return self.out(text.strip_prefix("std::").unwrap_or(text)),
                _ => return self.print(class),
            }
        }
    }
}
