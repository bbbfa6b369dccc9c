//! Settings to the model.

use crate::common::errors::Errors;
use crate::common::keys::{Key, Keys};
use crate::settings::model::{Retry, Settings};
use crate::settings::times;

/// The keys, for the macros that have them.
pub(crate) const KEYS: &[Key] = &[
    Key { name: "queue", expects: "a string or the path of a constant", example: r#"queue = "inventory.orders""# },
    Key { name: "concurrency", expects: "a whole number", example: "concurrency = 8" },
    Key { name: "prefetch", expects: "a whole number", example: "prefetch = 32" },
    Key { name: "timeout", expects: "a duration as a string", example: r#"timeout = "30s""# },
    Key { name: "retry", expects: "a list", example: r#"retry(immediate = 2, delays = "1s..10m", max_attempts = 8)"# },
];

const RETRY: &[Key] = &[
    Key { name: "immediate", expects: "a whole number", example: "immediate = 2" },
    Key { name: "delays", expects: "a range of durations as a string", example: r#"delays = "1s..10m""# },
    Key { name: "max_attempts", expects: "a whole number", example: "max_attempts = 8" },
];

const COUNT: u32 = u16::MAX as u32;

/// Takes the settings out of an attribute's keys.
pub(crate) fn parse(keys: &mut Keys<'_>) -> Settings {
    Settings {
        queue: keys.text("queue"),
        concurrency: keys.number("concurrency", 1..=COUNT),
        prefetch: keys.number("prefetch", 1..=COUNT),
        timeout: keys.string("timeout").and_then(|literal| times::one(&literal, keys.errors())),
        retry: keys.list("retry").map(|tokens| retry(tokens, keys.errors())).unwrap_or_default(),
    }
}

fn retry(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Retry {
    let mut keys = Keys::parse("`retry`", RETRY.iter().collect(), tokens, errors);
    Retry {
        immediate: keys.number("immediate", 0..=COUNT),
        delays: keys.string("delays").and_then(|literal| times::range(&literal, keys.errors())),
        max_attempts: keys.number("max_attempts", 1..=COUNT),
    }
}
