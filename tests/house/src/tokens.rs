//! Reader of the tokens of macros that are no list of expressions.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::sources::{Call, Names};

/// Paths and calls among tokens.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) paths: Vec<Names>,
    pub(crate) calls: Vec<Call>,
}

/// Adds all names among tokens.
pub(crate) fn names(stream: TokenStream, found: &mut Vec<String>) {
    for token in stream {
        match token {
            TokenTree::Ident(name) => found.push(name.to_string()),
            TokenTree::Group(group) => names(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Adds paths, `self.method()`, `name.method()` and `Type::method`.
pub(crate) fn scan(stream: TokenStream, found: &mut Found) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let is = |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    let name = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(name)) => Some(name.to_string()),
        _ => None,
    };
    let is_call = |at: usize| {
        matches!(tokens.get(at), Some(TokenTree::Group(group))
            if group.delimiter() == Delimiter::Parenthesis)
    };
    let mut at = 0;
    while at < tokens.len() {
        if let TokenTree::Group(group) = &tokens[at] {
            scan(group.stream(), found);
            at += 1;
            continue;
        }
        let Some(first) = name(at) else {
            at += 1;
            continue;
        };
        let is_inner = at > 0 && (is(at - 1, '.') || is(at - 1, ':') && at > 1 && is(at - 2, ':'));
        let mut path = vec![first];
        at += 1;
        while is(at, ':')
            && is(at + 1, ':')
            && let Some(next) = name(at + 2)
        {
            path.push(next);
            at += 3;
        }
        // `::$name` is not known here.
        let is_cut = is(at, ':') && is(at + 1, ':') && is(at + 2, '$');
        let mut receiver = path.last().cloned().unwrap_or_default();
        while is(at, '.')
            && let Some(next) = name(at + 1)
        {
            if is_call(at + 2) {
                found.calls.push(Call::on(receiver, next));
                at += 2;
                break;
            }
            receiver = next;
            at += 2;
        }
        if is_inner || is_cut {
            continue;
        }
        match &path[..] {
            [of, method] if of == "Self" => found.calls.push(Call::Own(method.clone())),
            [_, _, ..] => found.calls.push(Call::Path(path.clone())),
            _ => {}
        }
        found.paths.push(path);
    }
}
