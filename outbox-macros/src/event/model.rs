//! An event as it was written.

use std::time::Duration;

use syn::{Generics, Ident};

use crate::common::krate::Krate;
use crate::common::spanned::Sp;
use crate::common::text::Text;
use crate::event::serde::Serde;

/// A type with `#[event]`.
pub(super) struct Event<'a> {
    pub(super) ident: &'a Ident,
    pub(super) generics: &'a Generics,
    pub(super) krate: Krate,
    /// `None` is an error by now.
    pub(super) name: Option<Sp<Text>>,
    pub(super) name_given: bool,
    pub(super) version: Option<Sp<u32>>,
    pub(super) exchange: Option<Sp<Text>>,
    pub(super) aggregate: Option<Sp<Text>>,
    pub(super) key: Option<Sp<Ident>>,
    pub(super) key_given: bool,
    pub(super) envelope: Option<Sp<Envelope>>,
    /// `envelope` was given a value that is none: no rule of a form applies.
    pub(super) envelope_unread: bool,
    pub(super) unroutable: Option<Sp<Unroutable>>,
    pub(super) ordered: Option<Sp<()>>,
    pub(super) ordered_given: bool,
    pub(super) max_attempts: Option<Sp<u32>>,
    pub(super) max_age: Option<Sp<Duration>>,
    pub(super) on_failed: Option<Sp<OnFailed>>,
    /// The first pause and the longest.
    pub(super) backoff: Option<Sp<(Duration, Duration)>>,
    pub(super) serde: Serde,
    pub(super) shape: Shape<'a>,
}

/// The form of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Envelope {
    Flat,
    Versioned,
    Bare,
    CloudEvents,
}

/// What happens while no queue wants it.
#[derive(Clone, Copy)]
pub(super) enum Unroutable {
    Hold,
    Fail,
    Discard,
}

/// What it means for the later events of its key that it cannot be sent.
#[derive(Clone, Copy)]
pub(super) enum OnFailed {
    Block,
    Skip,
}

/// What stands between the braces.
pub(super) enum Shape<'a> {
    Struct(Form, Vec<Field<'a>>),
    Enum(Vec<Variant<'a>>),
    Union,
}

/// How fields are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Named,
    Tuple,
    Unit,
}

/// A variant of an enum.
pub(super) struct Variant<'a> {
    pub(super) ident: &'a Ident,
    pub(super) form: Form,
    pub(super) fields: Vec<Field<'a>>,
    pub(super) serde: Serde,
}

/// A field.
pub(super) struct Field<'a> {
    pub(super) ident: Option<&'a Ident>,
    pub(super) serde: Serde,
}
