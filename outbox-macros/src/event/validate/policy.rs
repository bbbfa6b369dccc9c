//! Order, budget and backoff: what contradicts itself.

use std::time::Duration;

use crate::common::errors::Errors;
use crate::event::model::Event;
use crate::event::rules;

/// More is a mistake, and the column counts milliseconds in 32 bits.
const LONGEST_PAUSE: Duration = Duration::from_secs(168 * 3600);

pub(super) fn validate(event: &Event<'_>, errors: &mut Errors) {
    if let Some(ordered) = &event.ordered
        && !event.key_given
    {
        errors.push(rules::ordered_unkeyed(ordered.source()));
    }
    if let Some(on_failed) = &event.on_failed
        && !event.ordered_given
    {
        errors.push(rules::on_failed_unordered(on_failed.source()));
    }
    if let Some(backoff) = &event.backoff
        && backoff.1 > LONGEST_PAUSE
    {
        let hours = format!("{}h", backoff.1.as_secs() / 3600);
        errors.push(rules::backoff_long(backoff.source(), &hours));
    }
}
