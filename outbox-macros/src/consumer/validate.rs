//! The checks of `consumer!`.

use proc_macro2::Span;

use crate::common::errors::Errors;
use crate::common::names;
use crate::common::spanned::at;
use crate::consumer::model::Consumer;
use crate::consumer::rules;
use crate::settings;

pub(super) fn validate(consumer: &Consumer, errors: &mut Errors) {
    if !consumer.name_given {
        errors.push(rules::name_missing(&at(Span::call_site())));
    }
    names::consumer(consumer.name.as_ref(), errors);
    settings::validate::validate(&consumer.settings, errors);
}
