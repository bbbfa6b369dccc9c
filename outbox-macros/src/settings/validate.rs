//! Settings that contradict each other.

use crate::common::errors::Errors;
use crate::common::names;
use crate::settings::model::Settings;
use crate::settings::rules;

pub(crate) fn validate(settings: &Settings, errors: &mut Errors) {
    names::queue(settings.queue.as_ref(), errors);
    if let (Some(prefetch), Some(concurrency)) = (&settings.prefetch, &settings.concurrency)
        && **prefetch < **concurrency
    {
        errors.push(rules::prefetch_low(prefetch.source(), &**prefetch, &**concurrency));
    }
    if let (Some(immediate), Some(max)) = (&settings.retry.immediate, &settings.retry.max_attempts)
        && **immediate >= **max
    {
        errors.push(rules::immediate_high(immediate.source(), &**immediate, &**max));
    }
}
