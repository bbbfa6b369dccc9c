//! Settle: the outcomes of many batches in one statement, fenced by claim ids (R1, R7).

use serde::Serialize;
use sqlx::SqliteConnection;

use crate::outbox::{Fate, Settlement};
use crate::store::sqlite::sql::{array, micros, now};

pub(crate) const SETTLE: &str = concat!(
    "
WITH mine AS MATERIALIZED (
    SELECT o.rowid AS number, j.value ->> 'status' AS status, j.value ->> 'delay' AS delay, j.value ->> 'spent' AS spent,
           j.value ->> 'error' AS error
    FROM json_each(?1) AS j CROSS JOIN outbox_messages AS o ON o.event_id = j.value ->> 'event_id'
    WHERE o.status = 'Processing' AND o.locked_by = j.value ->> 'claim_id'
)
UPDATE outbox_messages AS o
SET status = mine.status,
    published_at = CASE mine.status WHEN 'Published' THEN ",
    now!(),
    " END,
    next_attempt_at = CASE WHEN mine.delay > 0 THEN ",
    now!(),
    " + mine.delay ELSE o.next_attempt_at END,
    attempt_count = min(o.attempt_count + mine.spent, 2147483647),
    last_error = CASE WHEN mine.status = 'Published' THEN NULL ELSE coalesce(mine.error, o.last_error) END,
    locked_by = NULL,
    locked_until = NULL
FROM mine WHERE o.rowid = mine.number"
);

/// A settlement as `json_each` hands it to the statement.
#[derive(Serialize)]
struct Outcome<'a> {
    event_id: &'a str,
    claim_id: &'a str,
    status: &'static str,
    delay: i64,
    spent: i32,
    error: Option<&'a str>,
}

fn outcome(settlement: &Settlement) -> Outcome<'_> {
    let (status, delay, spent, error) = match &settlement.fate {
        Fate::Published => ("Published", 0, 0, None),
        Fate::Retry { after, spent, error } => {
            ("Pending", micros(*after).max(1), i32::from(*spent), Some(error.as_str()))
        }
        Fate::Failed { error } => ("Failed", 0, 1, Some(error.as_str())),
        Fate::PutBack => ("Pending", 0, 0, None),
    };
    Outcome { event_id: &settlement.event_id, claim_id: &settlement.claim_id, status, delay, spent, error }
}

pub(crate) async fn settle(connection: &mut SqliteConnection, settlements: &[Settlement]) -> Result<u64, sqlx::Error> {
    let outcomes: Vec<_> = settlements.iter().map(outcome).collect();
    Ok(sqlx::query(SETTLE).bind(array(&outcomes)?).execute(connection).await?.rows_affected())
}
