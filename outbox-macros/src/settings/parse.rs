//! Settings to the model.

use std::time::Duration;

use syn::LitStr;

use crate::common::errors::Errors;
use crate::common::keys::{Key, Keys};
use crate::common::spanned::Sp;
use crate::settings::duration::{self, Problem};
use crate::settings::model::{Retry, Settings};
use crate::settings::rules;

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
        timeout: keys.string("timeout").and_then(|literal| timeout(&literal, keys.errors())),
        retry: keys.list("retry").map(|tokens| retry(tokens, keys.errors())).unwrap_or_default(),
    }
}

fn retry(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Retry {
    let mut keys = Keys::parse("`retry`", RETRY.iter().collect(), tokens, errors);
    Retry {
        immediate: keys.number("immediate", 0..=COUNT),
        delays: keys.string("delays").and_then(|literal| delays(&literal, keys.errors())),
        max_attempts: keys.number("max_attempts", 1..=COUNT),
    }
}

fn timeout(literal: &Sp<LitStr>, errors: &mut Errors) -> Option<Sp<Duration>> {
    let duration = one(&literal.value(), literal, errors)?;
    Some(Sp::new(duration, literal.source()))
}

fn delays(literal: &Sp<LitStr>, errors: &mut Errors) -> Option<Sp<(Duration, Duration)>> {
    let text = literal.value();
    let Some((low, high)) = text.split_once("..") else {
        errors.push(rules::delays_form(literal.source(), &text));
        return None;
    };
    // Both ends before either is given up: two errors are told together.
    let range = (one(low, literal, errors), one(high, literal, errors));
    let range = (range.0?, range.1?);
    if range.0 > range.1 {
        errors.push(rules::delays_order(literal.source(), &low, &high));
    }
    Some(Sp::new(range, literal.source()))
}

fn one(text: &str, literal: &Sp<LitStr>, errors: &mut Errors) -> Option<Duration> {
    let problem = match duration::parse(text) {
        Ok(duration) => return Some(duration),
        Err(problem) => problem,
    };
    let rule = match problem {
        Problem::Form => rules::duration_form,
        Problem::Zero => rules::duration_zero,
        Problem::Long => rules::duration_long,
    };
    errors.push(rule(literal.source(), &text));
    None
}
