//! An event's values in the order of the parameters, which is the same in every statement.

use std::time::Duration;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::types::Json;

use crate::event::draft::Content;
use crate::outbox::columns::{backoff, bytes, due, headers, max_attempts, version};

/// `$1` to `$19`.
pub(super) fn one<'q>(
    query: Query<'q, Postgres, PgArguments>,
    content: &'q Content,
) -> Query<'q, Postgres, PgArguments> {
    let event = &content.descriptor;
    let (first, longest) = backoff(event);
    let (at, delay) = due(content);
    query
        .bind(content.event_id.as_str())
        .bind(event.aggregate)
        .bind(&content.aggregate_id)
        .bind(event.name)
        .bind(version(event.version))
        .bind(event.exchange)
        .bind(event.envelope.as_str())
        .bind(&content.payload)
        .bind(bytes(&content.payload))
        .bind(Json(headers(content)))
        .bind(content.occurred_at)
        .bind(event.unroutable.as_str())
        .bind(max_attempts(event))
        .bind(event.max_age.map(millis))
        .bind(event.on_failed.as_str())
        .bind(first)
        .bind(longest)
        .bind(at)
        .bind(micros(delay))
}

/// `$1` to `$18`, each an array with a value for each event.
pub(super) fn many<'q>(
    query: Query<'q, Postgres, PgArguments>,
    contents: &'q [Content],
) -> Query<'q, Postgres, PgArguments> {
    fn column<'a, T: 'a>(contents: &'a [Content], value: impl Fn(&'a Content) -> T) -> Vec<T> {
        contents.iter().map(value).collect()
    }
    query
        .bind(column(contents, |c| c.event_id.as_str()))
        .bind(column(contents, |c| c.descriptor.aggregate))
        .bind(column(contents, |c| c.aggregate_id.as_str()))
        .bind(column(contents, |c| c.descriptor.name))
        .bind(column(contents, |c| version(c.descriptor.version)))
        .bind(column(contents, |c| c.descriptor.exchange))
        .bind(column(contents, |c| c.descriptor.envelope.as_str()))
        .bind(column(contents, |c| c.payload.as_str()))
        .bind(column(contents, |c| Json(headers(c))))
        .bind(column(contents, |c| c.occurred_at))
        .bind(column(contents, |c| c.descriptor.unroutable.as_str()))
        .bind(column(contents, |c| max_attempts(&c.descriptor)))
        .bind(column(contents, |c| c.descriptor.max_age.map(millis)))
        .bind(column(contents, |c| c.descriptor.on_failed.as_str()))
        .bind(column(contents, |c| backoff(&c.descriptor).0))
        .bind(column(contents, |c| backoff(&c.descriptor).1))
        .bind(column(contents, |c| due(c).0))
        .bind(column(contents, |c| micros(due(c).1)))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
