//! What serde's attributes say of a type's form. What serde itself will refuse is passed over: its own error is better.

use proc_macro2::TokenStream;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Ident, LitStr, Token};

use crate::common::spanned::Sp;
use crate::event::casing::Casing;

/// The attributes of a container, a variant or a field that matter here.
#[derive(Default)]
pub(super) struct Serde {
    /// The name when written; the name when read.
    pub(super) rename: (Option<Sp<String>>, Option<String>),
    pub(super) aliases: Vec<String>,
    pub(super) rename_all: Both<Casing>,
    pub(super) rename_all_fields: Both<Casing>,
    pub(super) tag: Option<Sp<String>>,
    pub(super) content: Option<Sp<String>>,
    pub(super) untagged: Option<Sp<()>>,
    pub(super) transparent: Option<Sp<()>>,
    pub(super) flatten: bool,
    pub(super) deny_unknown_fields: bool,
    /// Written as another type, whose form cannot be seen.
    pub(super) into: bool,
    /// Read as another type.
    pub(super) from: bool,
    pub(super) skip_serializing: bool,
    pub(super) skip_deserializing: bool,
}

impl Serde {
    pub(super) fn parse(attrs: &[Attribute]) -> Self {
        let mut serde = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
            let _ = attr.parse_nested_meta(|meta| serde.read(&meta));
        }
        serde
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        let word = || Some(Sp::new((), &meta.path));
        match key.as_str() {
            "rename" => {
                let (write, read) = both(meta)?;
                self.rename = (write, read.map(|read| (*read).clone()));
            }
            "alias" => self.aliases.push(text(meta)?.value()),
            "rename_all" => self.rename_all = casings(meta)?,
            "rename_all_fields" => self.rename_all_fields = casings(meta)?,
            "tag" => self.tag = Some(spanned(&text(meta)?)),
            "content" => self.content = Some(spanned(&text(meta)?)),
            "untagged" => self.untagged = word(),
            "transparent" => self.transparent = word(),
            "flatten" => self.flatten = true,
            "deny_unknown_fields" => self.deny_unknown_fields = true,
            "skip" => (self.skip_serializing, self.skip_deserializing) = (true, true),
            "skip_serializing" => self.skip_serializing = true,
            "skip_deserializing" => self.skip_deserializing = true,
            "into" => {
                self.into = true;
                pass_over(meta)?;
            }
            "from" | "try_from" => {
                self.from = true;
                pass_over(meta)?;
            }
            _ => pass_over(meta)?,
        }
        Ok(())
    }
}

/// What stands for writing, what stands for reading.
type Both<T> = (Option<T>, Option<T>);

fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    meta.value()?.parse()
}

fn spanned(literal: &LitStr) -> Sp<String> {
    Sp::new(literal.value(), literal)
}

/// `= "x"`, or `(serialize = "x", deserialize = "y")` with either alone.
fn both(meta: &ParseNestedMeta<'_>) -> syn::Result<Both<Sp<String>>> {
    if meta.input.peek(Token![=]) {
        let literal = spanned(&text(meta)?);
        return Ok((Some(literal.clone()), Some(literal)));
    }
    let (mut write, mut read) = (None, None);
    meta.parse_nested_meta(|meta| {
        let literal = Some(spanned(&text(&meta)?));
        if meta.path.is_ident("serialize") {
            write = literal;
        } else {
            read = literal;
        }
        Ok(())
    })?;
    Ok((write, read))
}

fn casings(meta: &ParseNestedMeta<'_>) -> syn::Result<Both<Casing>> {
    let casing = |name: Option<Sp<String>>| name.and_then(|name| Casing::from_name(&name));
    let (write, read) = both(meta)?;
    Ok((casing(write), casing(read)))
}

/// Consumes the value of a key that does not matter.
fn pass_over(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<TokenStream>()?;
    }
    Ok(())
}
