//! The four forms of a body, there and back (design section 8).
//!
//! | form | body |
//! | --- | --- |
//! | `flat` | `{"eventId":..,"eventType":..,"occurredAt":..,"eventVersion":..,` the struct's own fields `}` |
//! | `versioned` | `{"v":1,"data":{..}}` |
//! | `bare` | the struct's own JSON |
//! | `cloudevents` | `{"specversion":"1.0","id":..,"source":..,"type":..,"time":..,"datacontenttype":"application/json","data":{..}}` |
//!
//! A flat body of version 1 leaves `eventVersion` out, as the reference message does; a missing one means 1.

mod decode;
mod encode;
mod fingerprint;
mod inspect;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

use crate::error::Problem;

pub use self::decode::decode;
pub use self::encode::encode;
pub use self::fingerprint::{Fingerprint, fingerprint};
pub use self::inspect::{Inspected, inspect};

/// The fields of a flat body that are not the struct's own.
pub const FLAT_FIELDS: [&str; 4] = ["eventId", "eventType", "occurredAt", "eventVersion"];

/// RFC 3339 in UTC with as many digits as the time has: `2026-07-15T10:00:00Z`.
pub(crate) fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// A time that the database and RFC 3339 can hold: the years 1 to 9999. `what` it is, for the error.
pub(crate) fn to_utc(what: &str, time: SystemTime) -> Result<DateTime<Utc>, Problem> {
    let signed = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).ok(),
        Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|micros| -micros),
    };
    signed
        .and_then(DateTime::from_timestamp_micros)
        .filter(|time| (1..=9999).contains(&chrono::Datelike::year(time)))
        .ok_or_else(|| Problem::time(what))
}

/// The opposite; times before 1970 are kept.
pub(crate) fn to_system(time: DateTime<Utc>) -> SystemTime {
    let micros = time.timestamp_micros();
    let span = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
}
