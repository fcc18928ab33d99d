//! From tokens to a gate, by recursive descent: one function for each rule of the grammar.

use std::ops::Range;

use fxtrec_units::glob::{self, Pattern};

use super::lexer::{Kind, Token, tokens};
use super::problem::{ParseError, Problem};
use super::trigger::{Lasting, Trigger, What};
use super::{
    Amount, Comparison, Condition, Dimension, Gate, Measure, Metric, Quantity, SpanMetric,
    SpanPart, Stat, Total,
};
use fxtrec_units::nearest::nearest;

/// The deepest nesting of conditions. The limit protects the stack; no sensible condition reaches it.
const MAX_DEPTH: usize = 32;

const TIME_UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
];

const FIELDS: [&str; 6] = ["comm", "cgroup", "pid", "tid", "cpu", "stack"];

/// The condition without an operator: true for threads that COMMAND started.
const COMMAND: &str = "command";

pub(super) fn gate(source: &str) -> Result<Gate, ParseError> {
    let mut parser = Parser::new(source)?;
    let quantity = parser.quantity()?;
    let comparison = parser.comparison()?;
    let limit = parser.limit(&quantity.to_string(), quantity.dimension())?;
    let condition = parser.condition_of(&quantity)?;
    Ok(Gate { text: source.trim().to_owned(), quantity, comparison, limit, condition })
}

pub(super) fn measure(source: &str) -> Result<Measure, ParseError> {
    let mut parser = Parser::new(source)?;
    let quantity = parser.quantity()?;
    let condition = parser.condition_of(&quantity)?;
    Ok(Measure { text: source.trim().to_owned(), quantity, condition })
}

pub(super) fn trigger(source: &str) -> Result<Trigger, ParseError> {
    let mut parser = Parser::new(source)?;
    let what = parser.what()?;
    let nobodys = match what {
        What::Lost { .. } => Some(Total::Lost.name()),
        What::Alert(_) => Some("an alert"),
        _ => None,
    };
    let begin = parser.peek().span.start;
    let condition = parser.rest(nobodys)?;
    if condition.as_ref().is_some_and(Condition::names_stack) {
        return parser.fail(begin..source.len(), Problem::StackOfTrigger);
    }
    if condition.as_ref().is_some_and(Condition::names_command) {
        return parser.fail(begin..source.len(), Problem::CommandOfTrigger);
    }
    let is_span = matches!(what, What::Lasts { what: Lasting::Span(_), .. });
    if is_span && condition.as_ref().is_some_and(|condition| !condition.cpus().is_empty()) {
        return parser.fail(begin..source.len(), Problem::CpuOfSpan);
    }
    Ok(Trigger { text: source.trim().to_owned(), what, condition })
}

/// The name of a quantity that takes no condition, because it belongs to no thread.
fn without_condition(quantity: &Quantity) -> Option<&'static str> {
    match quantity {
        Quantity::Total(total) if !total.takes_condition() => Some(total.name()),
        _ => None,
    }
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Result<Parser<'a>, ParseError> {
        Ok(Parser { source, tokens: tokens(source)?, at: 0, depth: 0 })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    /// The text of the next token; empty at the end.
    fn word(&self) -> &'a str {
        &self.source[self.peek().span.clone()]
    }

    /// Takes the next token; at the end, it stays at the end.
    fn take(&mut self) -> (&'a str, Range<usize>) {
        let taken = (self.word(), self.peek().span.clone());
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        taken
    }

    /// Takes the next token if it is this word and not in quotes.
    fn take_if(&mut self, word: &str) -> bool {
        let is = !matches!(self.peek().kind, Kind::Text(_)) && self.word() == word;
        if is {
            self.take();
        }
        is
    }

    fn fail<T>(&self, span: Range<usize>, problem: Problem) -> Result<T, ParseError> {
        Err(ParseError::new(self.source, span, problem))
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, ParseError> {
        let found = match self.peek().kind {
            Kind::End => "the end".to_owned(),
            _ => self.word().to_owned(),
        };
        self.fail(self.peek().span.clone(), Problem::Expected { expected, found })
    }

    /// `METRIC [ "." STAT ]`
    fn quantity(&mut self) -> Result<Quantity, ParseError> {
        if self.peek().kind != Kind::Name {
            return self.unexpected("a metric, such as wakeup.p99");
        }
        let (word, span) = self.take();
        if word == "span" {
            return self.span(span);
        }
        let (name, stat) = match word.split_once('.') {
            Some((name, stat)) => (name, Some(stat)),
            None => (word, None),
        };
        let name_span = span.start..span.start + name.len();
        let stat_span = (name_span.end + 1).min(span.end)..span.end;
        if let Some(total) = Total::ALL.into_iter().find(|total| total.name() == name) {
            return match stat {
                Some(_) => self.fail(stat_span, Problem::NeedlessStat(total.name())),
                None => Ok(Quantity::Total(total)),
            };
        }
        let Some(metric) = Metric::every().find(|metric| metric.name() == name) else {
            let known = Metric::every().map(Metric::name);
            let totals = Total::ALL.map(Total::name);
            let nearest = nearest(name, known.chain(totals).chain(["span"]), 1).pop();
            return self.fail(name_span, Problem::Metric { name: name.to_owned(), nearest });
        };
        let Some(stat) = stat else { return self.fail(span, Problem::NoStat(metric.name())) };
        Ok(Quantity::Statistic(metric, self.stat(metric.name(), stat, stat_span)?))
    }

    fn stat(
        &self,
        metric: &'static str,
        name: &str,
        span: Range<usize>,
    ) -> Result<Stat, ParseError> {
        let known = Stat::ALL.into_iter().find(|known| known.name() == name);
        known.map_or_else(
            || {
                let nearest = nearest(name, Stat::ALL.map(Stat::name), 1).pop();
                self.fail(span, Problem::Stat { metric, name: name.to_owned(), nearest })
            },
            Ok,
        )
    }

    /// `"(" TEXT ")" [ "." PART ] "." STAT`, after the word at `span`, which is already consumed.
    fn span(&mut self, word: Range<usize>) -> Result<Quantity, ParseError> {
        let name = "`(` and a span name, as in span(\"app:request\").p99";
        let name = self.in_parentheses(name)?.into_boxed_str();
        let whole = word.start..self.peek().span.start.max(word.end);
        if !self.take_if(".") {
            return self.fail(whole, Problem::NoStat("span"));
        }
        if self.peek().kind != Kind::Name {
            return self.unexpected("a statistic such as p99, or a part and its statistic");
        }
        let (words, span) = self.take();
        let is_stat = |word: &str| Stat::ALL.iter().any(|stat| stat.name() == word);
        let (part, stat, at) = match words.split_once('.') {
            Some((part, stat)) if !is_stat(words) => {
                let known = SpanPart::PARTS.iter().find(|known| known.name() == part);
                let Some(known) = known else {
                    let parts = SpanPart::PARTS.iter().map(|part| part.name());
                    let nearest = nearest(part, parts, 1).pop();
                    let problem = Problem::SpanPart { name: part.to_owned(), nearest };
                    return self.fail(span.start..span.start + part.len(), problem);
                };
                (*known, stat, span.start + part.len() + 1..span.end)
            }
            _ if SpanPart::PARTS.iter().any(|known| known.name() == words) => {
                return self.fail(word.start..span.end, Problem::NoStat("span"));
            }
            _ => (SpanPart::Wall, words, span),
        };
        let stat = self.stat("span", stat, at)?;
        Ok(Quantity::Span(SpanMetric { name, part }, stat))
    }

    /// The condition on a quantity, up to the end of the line.
    fn condition_of(&mut self, quantity: &Quantity) -> Result<Option<Condition>, ParseError> {
        let begin = self.peek().span.start;
        let condition = self.rest(without_condition(quantity))?;
        let names_stack = condition.as_ref().is_some_and(Condition::names_stack);
        let names_cpus = condition.as_ref().is_some_and(|condition| !condition.cpus().is_empty());
        match quantity {
            Quantity::Span(..) if names_cpus => {
                self.fail(begin..self.source.len(), Problem::CpuOfSpan)
            }
            Quantity::Statistic(Metric::Blocked | Metric::BlockedUninterruptible, _)
                if names_stack && names_cpus =>
            {
                self.fail(begin..self.source.len(), Problem::CpuOfStack)
            }
            Quantity::Statistic(Metric::Blocked | Metric::BlockedUninterruptible, _) => {
                Ok(condition)
            }
            _ if names_stack => self.fail(begin..self.source.len(), Problem::NoStack),
            _ => Ok(condition),
        }
    }

    /// `"(" TEXT ")"`
    fn in_parentheses(&mut self, expected: &'static str) -> Result<String, ParseError> {
        if !self.take_if("(") {
            return self.unexpected(expected);
        }
        let text = self.text()?.0;
        if !self.take_if(")") {
            return self.unexpected("`)`");
        }
        Ok(text)
    }

    /// The rest of a trigger on the length of something.
    fn lasts(&mut self, name: &str, what: Lasting) -> Result<What, ParseError> {
        let comparison = self.comparison()?;
        let limit = self.limit(name, Dimension::Time)?;
        Ok(What::Lasts { what, comparison, limit })
    }

    /// `METRIC OP VALUE | lasting OP VALUE | "lost" OP NUMBER | "probe" NAME | "alert" NAME`
    fn what(&mut self) -> Result<What, ParseError> {
        if self.peek().kind != Kind::Name {
            return self.unexpected("a trigger, such as wakeup > 5ms");
        }
        let (word, span) = self.take();
        let (name, stat) = match word.split_once('.') {
            Some((name, _)) => (name, true),
            None => (word, false),
        };
        if let Some(metric) = Metric::every().find(|metric| metric.name() == name) {
            if stat {
                let after = span.start + name.len() + 1..span.end;
                return self.fail(after, Problem::EachValue(metric.name()));
            }
            let comparison = self.comparison()?;
            let limit = self.limit(name, Dimension::Time)?;
            return Ok(What::Length { metric, comparison, limit });
        }
        match word {
            "lost" => {
                let comparison = self.comparison()?;
                let limit = self.limit(word, Dimension::Count)?;
                Ok(What::Lost { comparison, limit })
            }
            "turn" => self.lasts(word, Lasting::Turn),
            "span" => {
                let name = self.in_parentheses("`(`, as in span(\"app:request\") > 20ms")?;
                self.lasts(word, Lasting::Span(name))
            }
            "probe" if self.word() == "(" => {
                let name = self.in_parentheses("`(`")?;
                self.lasts(word, Lasting::Call(name))
            }
            "probe" => self
                .name(
                    "the name of a probe, in quotes if it contains anything but letters, digits and dots",
                )
                .map(What::Probe),
            "alert" => self
                .name(
                    "the name of an alert, in quotes if it contains anything but letters, digits and dots",
                )
                .map(What::Alert),
            _ => {
                if let Some(total) = Total::ALL.into_iter().find(|total| total.name() == name) {
                    return self.fail(span, Problem::NoMoment(total.name()));
                }
                let known = Metric::every().map(Metric::name);
                let others = ["turn", "span", "lost", "probe", "alert"];
                let nearest = nearest(name, known.chain(others), 1).pop();
                self.fail(span, Problem::NoTrigger { name: name.to_owned(), nearest })
            }
        }
    }

    /// A name, in quotes if it has characters other than letters, digits and dots.
    fn name(&mut self, expected: &'static str) -> Result<String, ParseError> {
        match &self.peek().kind {
            Kind::Name => Ok(self.take().0.to_owned()),
            Kind::Text(_) => Ok(self.text()?.0),
            _ => self.unexpected(expected),
        }
    }

    fn comparison(&mut self) -> Result<Comparison, ParseError> {
        let comparison = match self.word() {
            ">" => Comparison::Above,
            ">=" => Comparison::AtLeast,
            "<" => Comparison::Below,
            "<=" => Comparison::AtMost,
            "=" | "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            _ => return self.unexpected("a comparison (>, >=, <, <=, = or !=)"),
        };
        self.take();
        Ok(comparison)
    }

    /// `NUMBER [ UNIT ]`
    fn limit(&mut self, quantity: &str, dimension: Dimension) -> Result<Amount, ParseError> {
        if self.peek().kind != Kind::Number {
            let time = dimension == Dimension::Time;
            return self.unexpected(if time { "a limit, such as 2ms" } else { "a number" });
        }
        let (digits, span) = self.take();
        let Ok(number) = digits.parse::<f64>() else { return self.fail(span, Problem::Number) };
        let has_unit = self.peek().kind == Kind::Name && self.word() != "if";
        let scale = match (dimension, has_unit) {
            (Dimension::Time, false) => {
                return self.fail(span, Problem::NoUnit(quantity.to_owned()));
            }
            (Dimension::Time, true) => {
                TIME_UNITS.into_iter().find(|(unit, _)| *unit == self.word()).map(|unit| unit.1)
            }
            (_, true) => None,
            (_, false) => return Ok(Amount { number, dimension }),
        };
        let (unit, span) = self.take();
        let (quantity, unit) = (quantity.to_owned(), unit.to_owned());
        match scale {
            Some(scale) => Ok(Amount { number: number * scale, dimension }),
            None => self.fail(span, Problem::Unit { quantity, dimension, unit }),
        }
    }

    /// `[ "if" condition ]` and the end. `without` is the name of a quantity that takes no condition.
    fn rest(&mut self, without: Option<&'static str>) -> Result<Option<Condition>, ParseError> {
        if self.peek().kind == Kind::End {
            return Ok(None);
        }
        let span = self.peek().span.clone();
        if !self.take_if("if") {
            return self.unexpected("`if` and a condition, or the end");
        }
        if let Some(name) = without {
            return self.fail(span, Problem::NoCondition(name));
        }
        let condition = self.any()?;
        match self.peek().kind {
            Kind::End => Ok(Some(condition)),
            _ => self.unexpected("`and`, `or` or the end"),
        }
    }

    /// `all { "or" all }`
    fn any(&mut self) -> Result<Condition, ParseError> {
        let first = self.all()?;
        let mut parts = vec![first];
        while self.take_if("or") {
            parts.push(self.all()?);
        }
        Ok(together(parts, Condition::Any))
    }

    /// `one { "and" one }`
    fn all(&mut self) -> Result<Condition, ParseError> {
        let first = self.one()?;
        let mut parts = vec![first];
        while self.take_if("and") {
            parts.push(self.one()?);
        }
        Ok(together(parts, Condition::All))
    }

    /// `"not" one | "(" condition ")" | test`
    fn one(&mut self) -> Result<Condition, ParseError> {
        let span = self.peek().span.clone();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(span, Problem::Deep(MAX_DEPTH));
        }
        let condition = if self.take_if("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.take_if("(") {
            let inner = self.any()?;
            if !self.take_if(")") {
                return self.unexpected("`)`");
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Condition, ParseError> {
        if self.peek().kind != Kind::Name {
            return self.unexpected("a condition on comm, cgroup, pid, tid, cpu, stack or command");
        }
        let (word, span) = self.take();
        if word == COMMAND {
            return Ok(Condition::Command);
        }
        let Some(field) = FIELDS.into_iter().find(|field| *field == word) else {
            let nearest = nearest(word, FIELDS.into_iter().chain([COMMAND]), 1).pop();
            return self.fail(span, Problem::Field { name: word.to_owned(), nearest });
        };
        if self.peek().kind != Kind::Sign || matches!(self.word(), "(" | ")") {
            return self.unexpected("a comparison, such as =");
        }
        let (sign, span) = self.take();
        let (condition, negated) = match (field, sign) {
            ("comm", "~" | "!~") => (Condition::CommLike(self.pattern()?), sign == "!~"),
            ("comm", "=" | "==" | "!=") => {
                let (text, _) = self.text()?;
                (Condition::Comm(text), sign == "!=")
            }
            ("cgroup", "~" | "!~") => (Condition::CgroupLike(self.pattern()?), sign == "!~"),
            ("cgroup", "=" | "==" | "!=") => {
                let (text, _) = self.text()?;
                (Condition::Cgroup(text), sign == "!=")
            }
            ("stack", "~" | "!~") => (Condition::StackLike(self.part_of_name()?), sign == "!~"),
            (_, "=" | "==" | "!=") if !matches!(field, "comm" | "cgroup" | "stack") => {
                let id = self.id()?;
                let condition = match field {
                    "pid" => Condition::Pid(id),
                    "tid" => Condition::Tid(id),
                    _ => Condition::Cpu(id),
                };
                (condition, sign == "!=")
            }
            _ => {
                let sign = sign.to_owned();
                return self.fail(span, Problem::Comparison { field, sign });
            }
        };
        Ok(if negated { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn text(&mut self) -> Result<(String, Range<usize>), ParseError> {
        let Kind::Text(text) = &self.peek().kind else {
            return self.unexpected("a string in quotes, such as \"app\"");
        };
        let text = text.clone();
        let (_, span) = self.take();
        Ok((text, span))
    }

    fn pattern(&mut self) -> Result<Pattern, ParseError> {
        let (text, span) = self.text()?;
        Pattern::new(&text)
            .map_err(|error| ParseError::new(self.source, span, Problem::Pattern(error.msg)))
    }

    /// A pattern for a part of a function's name, with `*` and `?`.
    fn part_of_name(&mut self) -> Result<Pattern, ParseError> {
        let (text, _) = self.text()?;
        Ok(glob::of_name(&format!("*{text}*")))
    }

    fn id(&mut self) -> Result<u64, ParseError> {
        if self.peek().kind != Kind::Number {
            return self.unexpected("a number");
        }
        let (digits, span) = self.take();
        digits.parse().or_else(|_| self.fail(span, Problem::Id))
    }
}

/// Joins the parts; a single part is returned unchanged.
fn together(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            join(parts)
        }
    }
}
