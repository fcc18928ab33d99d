//! The expressions in the `print fmt` line of a tracepoint's `format` file.
//!
//! The kernel describes there, in C, how it would print each field. For
//! `sched_switch` this is the only place that shows what the bits of
//! `prev_state` mean on this kernel, so the line is parsed as the C it is:
//! the arguments after the format string become [`Expr`] trees that can be
//! evaluated for a given field value. Only what integer expressions need is
//! understood; anything else is an error, never a guess.

use thiserror::Error;

/// The reason why a `print fmt` line could not be understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExprError {
    /// The text ends where an operand, a bracket or a quote is still due.
    #[error("truncated expression")]
    Ended,
    /// There is a token where it has no meaning.
    #[error("cannot parse `{0}`")]
    Unexpected(String),
    /// Brackets are nested so deeply that the text cannot be a kernel's.
    #[error("expressions are nested too deeply")]
    Deep,
    /// The expression has no integer value: it is text, divides by zero, or shifts too far.
    #[error("the expression has no integer value")]
    NotAnInteger,
}

/// Expressions that are nested more deeply are rejected. Expressions of real kernels have a depth of about 15.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    Integer(i64),
    /// A string constant, or several adjacent ones joined.
    Text(String),
    /// `REC->name`.
    Field(String),
    /// `op operand`.
    Unary(char, Box<Expr>),
    /// `left op right`.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `condition ? then : otherwise`.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `name(arguments)`, the form of `__print_flags` and similar functions.
    Call(String, Vec<Expr>),
    /// `{ elements }`, one row of such a call's table.
    Row(Vec<Expr>),
}

impl Expr {
    /// The value when every field of the record is `field`.
    ///
    /// # Errors
    /// Returns [`ExprError::NotAnInteger`] for text, calls and undefined arithmetic.
    pub fn eval(&self, field: i64) -> Result<i64, ExprError> {
        match self {
            Expr::Integer(value) => Ok(*value),
            Expr::Field(_) => Ok(field),
            Expr::Unary(op, operand) => {
                let value = operand.eval(field)?;
                Ok(match op {
                    '-' => value.wrapping_neg(),
                    '~' => !value,
                    '!' => i64::from(value == 0),
                    _ => value,
                })
            }
            Expr::Binary(op, left, right) => {
                binary(op, left.eval(field)?, right.eval(field)?).ok_or(ExprError::NotAnInteger)
            }
            Expr::Choice(condition, then, otherwise) => {
                if condition.eval(field)? != 0 {
                    then.eval(field)
                } else {
                    otherwise.eval(field)
                }
            }
            Expr::Text(_) | Expr::Call(..) | Expr::Row(_) => Err(ExprError::NotAnInteger),
        }
    }

    /// Whether the field `name` occurs anywhere in the expression.
    pub fn mentions(&self, name: &str) -> bool {
        match self {
            Expr::Field(field) => field == name,
            Expr::Integer(_) | Expr::Text(_) => false,
            Expr::Unary(_, operand) => operand.mentions(name),
            Expr::Binary(_, left, right) => left.mentions(name) || right.mentions(name),
            Expr::Choice(a, b, c) => a.mentions(name) || b.mentions(name) || c.mentions(name),
            Expr::Call(_, parts) | Expr::Row(parts) => parts.iter().any(|part| part.mentions(name)),
        }
    }
}

fn binary(op: &str, left: i64, right: i64) -> Option<i64> {
    let shift = u32::try_from(right).ok();
    match op {
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "<<" => left.checked_shl(shift?),
        ">>" => left.checked_shr(shift?),
        "+" => Some(left.wrapping_add(right)),
        "-" => Some(left.wrapping_sub(right)),
        "*" => Some(left.wrapping_mul(right)),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        "||" => Some(i64::from(left != 0 || right != 0)),
        "&&" => Some(i64::from(left != 0 && right != 0)),
        "==" => Some(i64::from(left == right)),
        "!=" => Some(i64::from(left != right)),
        "<" => Some(i64::from(left < right)),
        ">" => Some(i64::from(left > right)),
        "<=" => Some(i64::from(left <= right)),
        ">=" => Some(i64::from(left >= right)),
        _ => None,
    }
}

/// Binary operators by how tightly they bind, loosest first, as in C.
const OPERATORS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Words that make a parenthesis a cast, which has no effect in 64-bit arithmetic on flags.
const TYPE_WORDS: [&str; 15] = [
    "unsigned", "signed", "char", "short", "int", "long", "u8", "u16", "u32", "u64", "s32", "s64",
    "__u32", "__u64", "void",
];

/// Parses a whole `print fmt` value: the format string, then its arguments.
///
/// The first element of the answer is the format string.
///
/// # Errors
/// Returns [`ExprError`] when the text is not C that this module understands.
pub fn parse_print_fmt(text: &str) -> Result<Vec<Expr>, ExprError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let mut arguments = vec![parser.choice()?];
    while parser.take(",") {
        arguments.push(parser.choice()?);
    }
    match parser.peek() {
        None => Ok(arguments),
        Some(token) => Err(ExprError::Unexpected(token.shown())),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Integer(i64),
    Text(String),
    Word(String),
    Symbol(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Integer(value) => value.to_string(),
            Token::Text(text) => format!("\"{text}\""),
            Token::Word(word) => word.clone(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
        }
    }
}

/// Longer symbols first, so that `<<` is not read as two `<`.
const SYMBOLS: [&str; 30] = [
    "<<", ">>", "->", "||", "&&", "==", "!=", "<=", ">=", "(", ")", "{", "}", "[", "]", ",", "?",
    ":", "|", "^", "&", "+", "-", "*", "/", "%", "~", "!", "<", ">",
];

fn tokens(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = if first == '"' {
            string(rest)?
        } else if first.is_ascii_digit() {
            integer(rest)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let (word, after) = split_word(rest);
            (Token::Word(word.to_owned()), after)
        } else {
            SYMBOLS
                .iter()
                .find_map(|symbol| Some((Token::Symbol(symbol), rest.strip_prefix(symbol)?)))
                .ok_or_else(|| ExprError::Unexpected(first.to_string()))?
        };
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

fn string(text: &str) -> Result<(Token, &str), ExprError> {
    let mut content = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Text(content), &text[at + 1..])),
            '\\' => content.push(chars.next().ok_or(ExprError::Ended)?.1),
            c => content.push(c),
        }
    }
    Err(ExprError::Ended)
}

fn integer(text: &str) -> Result<(Token, &str), ExprError> {
    let (word, after) = split_word(text);
    let bad = || ExprError::Unexpected(word.to_owned());
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    // Flags may use the top bit; only the bit pattern matters.
    Ok((Token::Integer(value.map_err(|_| bad())?.cast_signed()), after))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Result<Token, ExprError> {
        let token = self.peek().cloned().ok_or(ExprError::Ended)?;
        self.at += 1;
        Ok(token)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let there = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExprError> {
        if self.take(symbol) { Ok(()) } else { Err(ExprError::Unexpected(self.next()?.shown())) }
    }

    /// The whole grammar: a conditional expression, or anything that binds more tightly.
    fn choice(&mut self) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExprError::Deep);
        }
        let condition = self.binary(0)?;
        let parsed = if self.take("?") {
            let then = self.choice()?;
            self.expect(":")?;
            Expr::Choice(Box::new(condition), Box::new(then), Box::new(self.choice()?))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn binary(&mut self, level: usize) -> Result<Expr, ExprError> {
        let Some(operators) = OPERATORS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(op) = operators.iter().find(|op| self.take(op)) {
            left = Expr::Binary(op, Box::new(left), Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExprError::Deep);
        }
        let op = ["-", "~", "!", "+", "*", "&"].into_iter().find(|op| self.take(op));
        let parsed = match op {
            Some(op) => Expr::Unary(op.chars().next().unwrap_or('+'), Box::new(self.unary()?)),
            None if self.cast() => self.unary()?,
            None => self.primary()?,
        };
        self.depth -= 1;
        Ok(parsed)
    }

    /// Skips `(unsigned long)` and similar casts.
    fn cast(&mut self) -> bool {
        let rest = &self.tokens[self.at..];
        let [Token::Symbol("("), Token::Word(word), ..] = rest else {
            return false;
        };
        if !TYPE_WORDS.contains(&word.as_str()) {
            return false;
        }
        let Some(end) = rest.iter().position(|token| *token == Token::Symbol(")")) else {
            return false;
        };
        self.at += end + 1;
        true
    }

    fn primary(&mut self) -> Result<Expr, ExprError> {
        match self.next()? {
            Token::Integer(value) => Ok(Expr::Integer(value)),
            Token::Text(mut text) => {
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(Expr::Text(text))
            }
            Token::Symbol("(") => {
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("{") => Ok(Expr::Row(self.list("}")?)),
            Token::Word(word) if word == "REC" => {
                self.expect("->")?;
                match self.next()? {
                    Token::Word(name) => Ok(Expr::Field(name)),
                    other => Err(ExprError::Unexpected(other.shown())),
                }
            }
            Token::Word(word) if self.take("(") => Ok(Expr::Call(word, self.list(")")?)),
            other => Err(ExprError::Unexpected(other.shown())),
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expr>, ExprError> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.choice()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, field: i64) -> Result<i64, ExprError> {
        parse_print_fmt(text)?.pop().ok_or(ExprError::Ended)?.eval(field)
    }

    #[test]
    fn operators_bind_as_in_c() {
        assert_eq!(value("\"\", 1 | 2 ^ 3 & 1 + 1 << 1", 0), Ok(3));
        assert_eq!(value("\"\", 10 - 3 - 2 * 2", 0), Ok(3));
        assert_eq!(value("\"\", REC->a & 4 ? 7 : 0x10UL", 4), Ok(7));
        assert_eq!(value("\"\", REC->a & 4 ? 7 : 0x10UL", 3), Ok(16));
        assert_eq!(value("\"\", !(unsigned long)REC->a || ~0 == -1", 5), Ok(1));
        assert_eq!(value("\"\", 017", 0), Ok(15));
    }

    #[test]
    fn neighbouring_strings_are_one_and_quotes_may_be_escaped() {
        let parsed = parse_print_fmt(r#""a\"b" "c", REC->x"#);
        assert_eq!(parsed, Ok(vec![Expr::Text("a\"bc".to_owned()), Expr::Field("x".to_owned())]));
    }

    #[test]
    fn what_is_no_integer_is_refused_and_not_guessed() {
        assert_eq!(value("\"\", 1 / 0", 0), Err(ExprError::NotAnInteger));
        assert_eq!(value("\"\", 1 << 64", 0), Err(ExprError::NotAnInteger));
        assert_eq!(value("\"\", \"S\"", 0), Err(ExprError::NotAnInteger));
        assert_eq!(value("\"\", __get_str(x)", 0), Err(ExprError::Unexpected("x".to_owned())));
    }

    #[test]
    fn every_cut_of_a_line_is_an_error_or_a_shorter_line_and_never_a_panic() {
        let line =
            r#""%s%d", REC->a & (1 + (2 << 3)) ? __print_flags(REC->a, "|", { 1, "S" }) : "R""#;
        for end in 0..line.len() {
            let _ = parse_print_fmt(&line[..end]);
        }
        assert_eq!(parse_print_fmt(&line[..3]), Err(ExprError::Ended));
        assert!(parse_print_fmt(line).is_ok());
    }

    #[test]
    fn deep_nesting_ends_in_an_error_and_not_in_a_full_stack() {
        for opening in ["(", "-", "{", "f(", "1?"] {
            let line = opening.repeat(100_000);
            assert_eq!(parse_print_fmt(&line), Err(ExprError::Deep), "{opening}");
        }
    }
}
