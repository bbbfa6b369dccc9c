//! The outer form of settings, `key = value, key(..)`, read token by token: one broken setting hides no other.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::common::errors::Errors;
use crate::common::rules;

/// One setting.
pub(crate) struct Arg {
    pub(crate) key: Ident,
    pub(crate) value: Value,
}

/// What follows a key.
pub(crate) enum Value {
    /// Nothing: the key stands alone.
    Nothing,
    /// `= tokens`
    Equals(TokenStream),
    /// `(tokens)`
    List(Group),
    /// Something else.
    Other,
}

/// Splits the tokens of an attribute or of a `retry(..)`.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Vec<Arg> {
    let mut args = Vec::new();
    for piece in split(tokens) {
        for setting in split_at_forgotten_commas(piece, errors) {
            match setting.split_first() {
                Some((TokenTree::Ident(key), rest)) => args.push(Arg { key: key.clone(), value: value(rest) }),
                _ => errors.push(rules::setting_expected(&setting.into_iter().collect::<TokenStream>())),
            }
        }
    }
    args
}

/// The pieces between top-level commas. A last comma is allowed.
pub(crate) fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    for token in unwrapped(tokens) {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                // `a, , b`: the comma itself is the piece, so that an error has a place.
                if piece.is_empty() {
                    piece.push(token);
                }
                pieces.push(std::mem::take(&mut piece));
            }
            _ => piece.push(token),
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// What a `macro_rules!` passes on stands in groups without delimiters: `$name` is as good as what it stands for.
fn unwrapped(tokens: TokenStream) -> Vec<TokenTree> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => unwrapped(group.stream()),
            other => vec![other],
        })
        .collect()
}

/// `name = "x" version = 2` is two settings and one error.
fn split_at_forgotten_commas(piece: Vec<TokenTree>, errors: &mut Errors) -> Vec<Vec<TokenTree>> {
    let mut settings = vec![Vec::new()];
    let mut tokens = piece.into_iter().peekable();
    while let Some(token) = tokens.next() {
        // After `=` a word is a value, whatever follows it.
        let begins = settings.last().and_then(|setting| setting.last()).is_some_and(|before| !is_equals(before));
        if let (true, TokenTree::Ident(key), Some(next)) = (begins, &token, tokens.peek())
            && is_equals(next)
        {
            errors.push(rules::comma_expected(key, key));
            settings.push(Vec::new());
        }
        if let Some(setting) = settings.last_mut() {
            setting.push(token);
        }
    }
    settings
}

fn is_equals(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '=')
}

fn value(rest: &[TokenTree]) -> Value {
    match rest {
        [] => Value::Nothing,
        [equals, value @ ..] if is_equals(equals) && !value.is_empty() => {
            Value::Equals(value.iter().cloned().collect())
        }
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => Value::List(group.clone()),
        _ => Value::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    fn keys(settings: &str) -> (Vec<String>, usize) {
        let mut errors = Errors::default();
        let args = parse(TokenStream::from_str(settings).unwrap_or_default(), &mut errors);
        let errors = errors.into_tokens().map_or(0, |tokens| tokens.to_string().matches("compile_error").count());
        (args.iter().map(|arg| arg.key.to_string()).collect(), errors)
    }

    #[test]
    fn one_broken_setting_hides_no_other() {
        let table: [(&str, &[&str], usize); 10] = [
            ("", &[], 0),
            ("a = 1", &["a"], 0),
            ("a = 1, b(c = 2), d = x::Y,", &["a", "b", "d"], 0),
            ("crate = ::x, type = 1", &["crate", "type"], 0),
            ("a = 1,, b = 2", &["a", "b"], 1),
            (", a = 1", &["a"], 1),
            ("a = 1 b = 2", &["a", "b"], 1),
            ("a(x) b = 2 c = 3", &["a", "b", "c"], 2),
            ("a = b = 2", &["a"], 0),
            ("1, \"x\", a = 1", &["a"], 2),
        ];
        for (settings, want, errors) in table {
            assert_eq!(keys(settings), (want.iter().map(|key| (*key).to_owned()).collect(), errors), "{settings}");
        }
    }
}
