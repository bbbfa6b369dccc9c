//! What all macros share: the grammar of settings, values with their place, errors, suggestions.

pub(crate) mod args;
pub(crate) mod errors;
pub(crate) mod item;
pub(crate) mod keys;
pub(crate) mod krate;
pub(crate) mod names;
#[macro_use]
pub(crate) mod rules;
pub(crate) mod spanned;
pub(crate) mod suggest;
pub(crate) mod text;
