//! A handler as it was written.

use syn::{ItemFn, Type};

use crate::common::krate::Krate;
use crate::common::spanned::Sp;
use crate::common::text::Text;
use crate::settings::model::Settings;

/// A function with `#[handler]`.
pub(super) struct Handler<'a> {
    pub(super) function: &'a ItemFn,
    pub(super) krate: Krate,
    /// `None` is an error by now.
    pub(super) consumer: Option<Sp<Text>>,
    pub(super) consumer_given: bool,
    pub(super) settings: Settings,
    pub(super) arguments: Vec<Argument<'a>>,
    /// `None` if it returns nothing.
    pub(super) output: Option<&'a Type>,
}

/// An argument, `self` not counted.
pub(super) struct Argument<'a> {
    /// As it was written.
    pub(super) whole: &'a Type,
    /// Without `&` or `&mut`.
    pub(super) ty: &'a Type,
    pub(super) passing: Passing,
}

/// How an argument is passed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    Value,
    Shared,
    Mutable,
}
