//! The attribute `#[traced]`, which `fxt_writer::provider::traced` documents.
//!
//! It reads only the parts of a function that it needs: the end of the options, the function's name, whether it is async, and its body. So
//! it needs no Rust parser, and the compiler's messages point at the function itself.

#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Each call of the function is a span; see `fxt_writer::provider::traced`.
#[proc_macro_attribute]
pub fn traced(options: TokenStream, function: TokenStream) -> TokenStream {
    match expand(options, function.clone()) {
        Ok(expanded) => expanded,
        Err(fault) => {
            // Keep the function unchanged, so that code that uses it causes no further errors.
            let mut tokens = fault.into_tokens();
            tokens.extend(function);
            tokens
        }
    }
}

/// An error in a use of the attribute, and its position.
struct Fault {
    at: Span,
    text: &'static str,
}

impl Fault {
    /// `::core::compile_error! { "text" }`
    fn into_tokens(self) -> TokenStream {
        let text = TokenStream::from(TokenTree::from(Literal::string(self.text)));
        let path = ["core", "compile_error"];
        let mut tokens = path_of(&path, self.at);
        tokens.push(Punct::new('!', Spacing::Alone).into());
        tokens.push(Group::new(Delimiter::Brace, text).into());
        let spanned = tokens.into_iter().map(|mut token| {
            token.set_span(self.at);
            token
        });
        spanned.collect()
    }
}

/// `::a::b`
fn path_of(names: &[&str], at: Span) -> Vec<TokenTree> {
    let mut tokens = Vec::new();
    for name in names {
        tokens.push(Punct::new(':', Spacing::Joint).into());
        tokens.push(Punct::new(':', Spacing::Alone).into());
        tokens.push(Ident::new(name, at).into());
    }
    tokens
}

fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream, Fault> {
    let mut function: Vec<TokenTree> = function.into_iter().collect();
    let head = Head::of(&function)?;
    let body = match function.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => {
            let text = "#[traced] needs a function with a body";
            return Err(Fault { at: head.name.span(), text });
        }
    };
    let mut traced: TokenStream = guard(&head, options)?;
    traced.extend(body.stream());
    let mut group = Group::new(Delimiter::Brace, traced);
    // The source location to which the compiler's errors about the body's type refer.
    group.set_span(body.span());
    function.push(group.into());
    Ok(function.into_iter().collect())
}

/// The parts of a function before its body.
struct Head {
    name: Ident,
    is_async: bool,
}

impl Head {
    fn of(function: &[TokenTree]) -> Result<Head, Fault> {
        let word = |token: &TokenTree, word| matches!(token, TokenTree::Ident(it) if it.to_string() == word);
        let none = Fault { at: Span::call_site(), text: "#[traced] goes before a function" };
        let Some(at) = function.iter().position(|token| word(token, "fn")) else {
            return Err(none);
        };
        let before = &function[..at];
        if let Some(token) = before.iter().find(|token| word(token, "const")) {
            let text =
                "#[traced] cannot record a const fn, which may run while the program is compiled";
            return Err(Fault { at: token.span(), text });
        }
        match function.get(at + 1) {
            Some(TokenTree::Ident(name)) => Ok(Head {
                name: name.clone(),
                is_async: before.iter().any(|token| word(token, "async")),
            }),
            _ => Err(none),
        }
    }
}

/// `let span = ::fxt_writer::provider::duration!(category, name, options);`
fn guard(head: &Head, options: TokenStream) -> Result<TokenStream, Fault> {
    let Options { category, name, arguments } = Options::of(options)?;
    let here = Span::mixed_site();
    let comma = || TokenTree::from(Punct::new(',', Spacing::Alone));
    let mut inside = TokenStream::new();
    match category {
        Some(category) => inside.extend(category),
        None => {
            inside.extend(path_of(&["core", "module_path"], here));
            inside.extend([
                TokenTree::from(Punct::new('!', Spacing::Alone)),
                Group::new(Delimiter::Parenthesis, TokenStream::new()).into(),
            ]);
        }
    }
    inside.extend([comma()]);
    match name {
        Some(name) => inside.extend(name),
        None => {
            let name = head.name.to_string();
            let name = name.strip_prefix("r#").unwrap_or(&name);
            inside.extend([TokenTree::from(Literal::string(name))]);
        }
    }
    for argument in arguments {
        inside.extend([comma()]);
        inside.extend(argument);
    }

    let kind = if head.is_async { "async_span" } else { "duration" };
    let mut statement: Vec<TokenTree> =
        vec![Ident::new("let", here).into(), Ident::new("_span", here).into()];
    statement.push(Punct::new('=', Spacing::Alone).into());
    statement.extend(path_of(&["fxt_writer", "provider", kind], here));
    statement.push(Punct::new('!', Spacing::Alone).into());
    statement.push(Group::new(Delimiter::Parenthesis, inside).into());
    statement.push(Punct::new(';', Spacing::Alone).into());
    Ok(statement.into_iter().collect())
}

/// `CATEGORY, NAME, key = value, ...`; each is optional.
struct Options {
    category: Option<TokenStream>,
    name: Option<TokenStream>,
    arguments: Vec<TokenStream>,
}

impl Options {
    fn of(options: TokenStream) -> Result<Options, Fault> {
        let mut parts: Vec<Vec<TokenTree>> = Vec::new();
        let mut part = Vec::new();
        for token in options {
            match &token {
                TokenTree::Punct(mark) if mark.as_char() == ',' => {
                    if part.is_empty() {
                        let text = "expected a category, a name, or key = value before this comma";
                        return Err(Fault { at: token.span(), text });
                    }
                    parts.push(std::mem::take(&mut part));
                }
                _ => part.push(token),
            }
        }
        if !part.is_empty() {
            parts.push(part);
        }
        let named = parts.iter().position(|part| is_argument(part)).unwrap_or(parts.len());
        if let Some(third) = parts[..named].get(2) {
            let at = third.first().map_or_else(Span::call_site, TokenTree::span);
            return Err(Fault { at, text: "expected key = value after category and name" });
        }
        let mut parts = parts.into_iter().map(|part| part.into_iter().collect());
        let mut texts: Vec<TokenStream> = parts.by_ref().take(named).collect();
        let name = if texts.len() > 1 { texts.pop() } else { None };
        Ok(Options { category: texts.pop(), name, arguments: parts.collect() })
    }
}

/// Whether it begins with `key =`. A value that contains a comma within angle brackets is split there, as a macro would
/// split it, too.
fn is_argument(part: &[TokenTree]) -> bool {
    matches!(
        part,
        [TokenTree::Ident(_) | TokenTree::Literal(_), TokenTree::Punct(mark), ..]
            if mark.as_char() == '=' && mark.spacing() == Spacing::Alone
    )
}
