//! The item to the model.

use proc_macro2::TokenStream;
use syn::{Attribute, Data, DeriveInput, Fields, Meta};

use crate::common::errors::Errors;
use crate::common::keys::{Key, Keys};
use crate::event::HELPER;
use crate::event::model::{Envelope, Event, Field, Form, OnFailed, Shape, Unroutable, Variant};
use crate::event::serde::Serde;
use crate::settings::times;

const KEYS: &[Key] = &[
    Key { name: "name", expects: "a string or the path of a constant", example: r#"name = "order.created""# },
    Key { name: "version", expects: "a whole number", example: "version = 2" },
    Key { name: "exchange", expects: "a string or the path of a constant", example: r#"exchange = "orders.events""# },
    Key { name: "key", expects: "the name of a field, without quotes", example: "key = order_id" },
    Key { name: "aggregate", expects: "a string or the path of a constant", example: r#"aggregate = "order""# },
    Key { name: "envelope", expects: "a string", example: r#"envelope = "versioned""# },
    Key { name: "unroutable", expects: "a string", example: r#"unroutable = "discard""# },
    Key { name: "ordered", expects: "no value", example: "ordered" },
    Key { name: "on_failed", expects: "a string", example: r#"on_failed = "skip""# },
    Key { name: "max_attempts", expects: "a whole number", example: "max_attempts = 20" },
    Key { name: "max_age", expects: "a duration as a string", example: r#"max_age = "2h""# },
    Key { name: "backoff", expects: "a range of durations as a string", example: r#"backoff = "1s..60s""# },
    Key { name: "crate", expects: "a path", example: "crate = ::outbox" },
];

pub(super) fn parse<'a>(input: &'a DeriveInput, errors: &mut Errors) -> Event<'a> {
    let mut keys = Keys::parse("`#[event]`", KEYS.iter().collect(), settings(&input.attrs), errors);
    let (name_given, envelope_given) = (keys.given("name"), keys.given("envelope"));
    let (key_given, ordered_given) = (keys.given("key"), keys.given("ordered"));
    let envelope = keys.choice(
        "envelope",
        &[
            ("flat", Envelope::Flat),
            ("versioned", Envelope::Versioned),
            ("bare", Envelope::Bare),
            ("cloudevents", Envelope::CloudEvents),
        ],
    );
    Event {
        ident: &input.ident,
        generics: &input.generics,
        krate: keys.krate(),
        name_given,
        name: keys.text("name"),
        version: keys.number("version", 1..=u32::MAX),
        exchange: keys.text("exchange"),
        aggregate: keys.text("aggregate"),
        key: keys.ident("key"),
        key_given,
        envelope_unread: envelope_given && envelope.is_none(),
        envelope,
        unroutable: keys.choice(
            "unroutable",
            &[("hold", Unroutable::Hold), ("fail", Unroutable::Fail), ("discard", Unroutable::Discard)],
        ),
        ordered: keys.flag("ordered"),
        ordered_given,
        // A column of the table.
        max_attempts: keys.number("max_attempts", 1..=i32::MAX.unsigned_abs()),
        max_age: keys.string("max_age").and_then(|literal| times::one(&literal, keys.errors())),
        on_failed: keys.choice("on_failed", &[("block", OnFailed::Block), ("skip", OnFailed::Skip)]),
        backoff: keys.string("backoff").and_then(|literal| times::range(&literal, keys.errors())),
        serde: Serde::parse(&input.attrs),
        shape: shape(&input.data),
    }
}

/// What the helper attribute carries.
fn settings(attrs: &[Attribute]) -> TokenStream {
    let helper = attrs.iter().find(|attr| attr.path().is_ident(HELPER));
    match helper.map(|attr| &attr.meta) {
        Some(Meta::List(list)) => list.tokens.clone(),
        _ => TokenStream::new(),
    }
}

fn shape(data: &Data) -> Shape<'_> {
    match data {
        Data::Struct(data) => {
            let (form, fields) = fields(&data.fields);
            Shape::Struct(form, fields)
        }
        Data::Enum(data) => Shape::Enum(
            data.variants
                .iter()
                .map(|variant| {
                    let (form, fields) = fields(&variant.fields);
                    Variant { ident: &variant.ident, form, fields, serde: Serde::parse(&variant.attrs) }
                })
                .collect(),
        ),
        Data::Union(_) => Shape::Union,
    }
}

fn fields(fields: &Fields) -> (Form, Vec<Field<'_>>) {
    let form = match fields {
        Fields::Named(_) => Form::Named,
        Fields::Unnamed(_) => Form::Tuple,
        Fields::Unit => Form::Unit,
    };
    let fields =
        fields.iter().map(|field| Field { ident: field.ident.as_ref(), serde: Serde::parse(&field.attrs) }).collect();
    (form, fields)
}
