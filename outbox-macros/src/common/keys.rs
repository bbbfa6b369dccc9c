//! Settings by key: what is known, what was given, and each value read as what it must be.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{LitInt, LitStr, Path};

use crate::common::args::{self, Value};
use crate::common::errors::Errors;
use crate::common::krate::Krate;
use crate::common::spanned::Sp;
use crate::common::text::Text;
use crate::common::{rules, suggest};

/// A setting that a macro knows.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// "expects .."
    pub(crate) expects: &'static str,
    /// How it is written.
    pub(crate) example: &'static str,
}

/// The settings that were given.
pub(crate) struct Keys<'a> {
    known: Vec<&'a Key>,
    given: HashMap<String, (Ident, Value)>,
    /// What misspelled keys were meant to be.
    meant: Vec<&'static str>,
    errors: &'a mut Errors,
}

impl<'a> Keys<'a> {
    /// Reads the settings of `owner`.
    pub(crate) fn parse(owner: &str, known: Vec<&'a Key>, tokens: TokenStream, errors: &'a mut Errors) -> Self {
        let mut given = HashMap::new();
        let mut meant = Vec::new();
        for arg in args::parse(tokens, errors) {
            let name = arg.key.to_string();
            if !known.iter().any(|key| key.name == name) {
                let names = || known.iter().map(|key| key.name);
                let (hint, list) = (suggest::hint(&name, names()), suggest::list(names()));
                meant.extend(suggest::nearest(&name, names()));
                errors.push(rules::setting_unknown(&arg.key, &owner, &name, &hint, &list));
                continue;
            }
            match given.entry(name) {
                Entry::Occupied(first) => errors.push(rules::setting_twice(&arg.key, first.key())),
                Entry::Vacant(place) => {
                    place.insert((arg.key, arg.value));
                }
            }
        }
        Self { known, given, meant, errors }
    }

    pub(crate) fn errors(&mut self) -> &mut Errors {
        self.errors
    }

    /// Whether it was given, right, wrong or misspelled.
    pub(crate) fn given(&self, name: &str) -> bool {
        self.given.contains_key(name) || self.meant.contains(&name)
    }

    /// A string literal or the path of a constant.
    pub(crate) fn text(&mut self, name: &str) -> Option<Sp<Text>> {
        self.read(name, Text::parse)
    }

    /// A string literal.
    pub(crate) fn string(&mut self, name: &str) -> Option<Sp<LitStr>> {
        self.read(name, |tokens| syn::parse2(tokens).ok())
    }

    /// The name of a field.
    pub(crate) fn ident(&mut self, name: &str) -> Option<Sp<Ident>> {
        self.read(name, |tokens| syn::parse::Parser::parse2(Ident::parse_any, tokens).ok())
    }

    /// A whole number within `range`.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Option<Sp<u32>> {
        let (low, high) = (*range.start(), *range.end());
        let literal = self.read(name, |tokens| {
            let digits: TokenStream = tokens.clone().into_iter().skip_while(|token| token.to_string() == "-").collect();
            Some((syn::parse2::<LitInt>(digits).ok()?, tokens.to_string().starts_with('-')))
        })?;
        let (digits, negative) = &*literal;
        let value = digits.base10_parse::<u32>().ok().filter(|value| !negative && range.contains(value));
        if value.is_none() {
            self.errors.push(rules::number_range(literal.source(), &name, &low, &high));
        }
        value.map(|value| Sp::new(value, literal.source()))
    }

    /// One of `choices`, as a string.
    pub(crate) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<Sp<T>> {
        let literal = self.string(name)?;
        let text = literal.value();
        if let Some((_, value)) = choices.iter().find(|(choice, _)| *choice == text) {
            return Some(Sp::new(*value, literal.source()));
        }
        let names = || choices.iter().map(|(choice, _)| *choice);
        let (hint, list) = (suggest::hint(&text, names()), suggest::list(names()));
        self.errors.push(rules::choice_unknown(literal.source(), &name, &text, &hint, &list));
        None
    }

    /// A key that stands alone; its tokens are the key.
    pub(crate) fn flag(&mut self, name: &str) -> Option<Sp<()>> {
        let (key, value) = self.given.remove(name)?;
        match value {
            Value::Nothing => Some(Sp::new((), &key)),
            Value::Equals(tokens) => self.expected(name, &tokens),
            Value::List(group) => self.expected(name, &group),
            Value::Other => self.expected(name, &key),
        }
    }

    /// The tokens between parentheses.
    pub(crate) fn list(&mut self, name: &str) -> Option<TokenStream> {
        let (key, value) = self.given.remove(name)?;
        match value {
            Value::List(group) => Some(group.stream()),
            Value::Equals(tokens) => self.expected(name, &tokens),
            Value::Nothing | Value::Other => self.expected(name, &key),
        }
    }

    /// The path that stands for `::outbox`.
    pub(crate) fn krate(&mut self) -> Krate {
        let Some(path) = self.read("crate", |tokens| syn::parse2::<Path>(tokens).ok()) else { return Krate::default() };
        Krate::new((*path).clone()).unwrap_or_else(|| {
            self.errors.push(rules::crate_relative(path.source()));
            Krate::default()
        })
    }

    fn read<T>(&mut self, name: &str, read: impl FnOnce(TokenStream) -> Option<T>) -> Option<Sp<T>> {
        let (key, value) = self.given.remove(name)?;
        match value {
            Value::Equals(tokens) => match read(tokens.clone()) {
                Some(value) => Some(Sp::new(value, &tokens)),
                None => self.expected(name, &tokens),
            },
            Value::List(group) => self.expected(name, &group),
            Value::Nothing | Value::Other => self.expected(name, &key),
        }
    }

    fn expected<T>(&mut self, name: &str, at: &dyn ToTokens) -> Option<T> {
        if let Some(key) = self.known.iter().find(|key| key.name == name) {
            self.errors.push(rules::value_expected(at, &name, &key.expects, &key.example));
        }
        None
    }
}
