//! Tokens to the model.

use proc_macro2::TokenStream;

use crate::common::errors::Errors;
use crate::common::keys::{Key, Keys};
use crate::consumer::model::Consumer;
use crate::settings;

const NAME: Key = Key { name: "name", expects: "a string or the path of a constant", example: r#"name = "inventory""# };
const CRATE: Key = Key { name: "crate", expects: "a path", example: "crate = ::outbox" };

pub(super) fn parse(tokens: TokenStream, errors: &mut Errors) -> Consumer {
    let known = [&NAME].into_iter().chain(settings::parse::KEYS).chain([&CRATE]).collect();
    let mut keys = Keys::parse("`consumer!`", known, tokens, errors);
    Consumer {
        krate: keys.krate(),
        name_given: keys.given("name"),
        name: keys.text("name"),
        settings: settings::parse::parse(&mut keys),
    }
}
