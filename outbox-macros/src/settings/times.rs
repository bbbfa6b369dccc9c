//! Durations in an attribute: read, or told at their literal.

use std::time::Duration;

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::LitStr;

use crate::common::errors::Errors;
use crate::common::spanned::Sp;
use crate::settings::duration::{self, Problem};
use crate::settings::rules;

/// `"30s"`
pub(crate) fn one(literal: &Sp<LitStr>, errors: &mut Errors) -> Option<Sp<Duration>> {
    let duration = read(&literal.value(), literal, errors)?;
    Some(Sp::new(duration, literal.source()))
}

/// `"1s..60s"`: the first delay and the longest.
pub(crate) fn range(literal: &Sp<LitStr>, errors: &mut Errors) -> Option<Sp<(Duration, Duration)>> {
    let text = literal.value();
    let Some((low, high)) = text.split_once("..") else {
        errors.push(rules::delays_form(literal.source(), &text));
        return None;
    };
    // Both ends before either is given up: two errors are told together.
    let range = (read(low, literal, errors), read(high, literal, errors));
    let range = (range.0?, range.1?);
    if range.0 > range.1 {
        errors.push(rules::delays_order(literal.source(), &low, &high));
    }
    Some(Sp::new(range, literal.source()))
}

fn read(text: &str, literal: &Sp<LitStr>, errors: &mut Errors) -> Option<Duration> {
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

/// The duration in generated code.
pub(crate) fn expand(duration: Duration) -> TokenStream {
    // At most a year: see `duration.rs`.
    let millis = Literal::u64_unsuffixed(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    quote!(::core::time::Duration::from_millis(#millis))
}
