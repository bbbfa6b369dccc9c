//! Settle: the outcomes of many batches, fenced by claim ids (R1, R6, R7).

use std::collections::BTreeSet;

use serde::Serialize;
use sqlx::{Connection, Row, SqliteConnection};

use crate::outbox::sqlite::line::WAITS;
use crate::outbox::{Fate, Settled, Settlement};
use crate::store::sqlite::sql::{array, micros, now, text};

pub(crate) const SETTLE: &str = concat!(
    "
WITH mine AS MATERIALIZED (
    SELECT o.rowid AS number, j.value ->> 'status' AS status, j.value ->> 'delay' AS delay, j.value ->> 'spent' AS spent,
           j.value ->> 'unknown' AS unknown, j.value ->> 'skipped' AS skipped, j.value ->> 'error' AS error
    FROM json_each(?1) AS j CROSS JOIN outbox_messages AS o ON o.event_id = j.value ->> 'event_id'
    WHERE o.status = 'Processing' AND o.locked_by = j.value ->> 'claim_id'
)
UPDATE outbox_messages AS o
SET status = mine.status,
    published_at = CASE mine.status WHEN 'Published' THEN ",
    now!(),
    " END,
    next_attempt_at = CASE WHEN mine.status <> 'Pending' THEN o.next_attempt_at WHEN mine.delay < 0 THEN 9223372036854775807 ELSE ",
    now!(),
    " + mine.delay END,
    attempt_count = min(o.attempt_count + mine.spent, 2147483647),
    unknown_count = min(o.unknown_count + mine.unknown, 2147483647),
    skipped = max(o.skipped, mine.skipped),
    last_error = CASE WHEN mine.status = 'Published' THEN NULL ELSE coalesce(mine.error, o.last_error) END,
    locked_by = NULL,
    locked_until = NULL
FROM mine WHERE o.rowid = mine.number
RETURNING event_id, status, aggregate_type, aggregate_id, sequence, skipped"
);

/// Makes the first row of each of these lines due, if it waits.
pub(crate) const PULL: &str = concat!(
    "
UPDATE outbox_messages SET next_attempt_at = ",
    now!(),
    "
WHERE status = 'Pending' AND next_attempt_at = 9223372036854775807 AND rowid IN (
    SELECT (SELECT rowid FROM outbox_messages INDEXED BY outbox_messages_line
            WHERE aggregate_type = j.value ->> 0 AND aggregate_id = j.value ->> 1
              AND sequence IS NOT NULL AND status <> 'Published' AND NOT skipped ORDER BY sequence LIMIT 1)
    FROM json_each(?1) AS j)"
);

pub(crate) const DELETE: &str =
    "DELETE FROM outbox_messages WHERE status = 'Published' AND event_id IN (SELECT value FROM json_each(?1))";

/// A settlement as `json_each` hands it to the statement.
#[derive(Serialize)]
struct Outcome<'a> {
    event_id: &'a str,
    claim_id: &'a str,
    status: &'static str,
    /// Microseconds; below 0: until the row before it is published.
    delay: i64,
    spent: i32,
    unknown: i32,
    skipped: i32,
    error: Option<&'a str>,
}

fn outcome(settlement: &Settlement) -> Outcome<'_> {
    let row = Outcome {
        event_id: &settlement.event_id,
        claim_id: &settlement.claim_id,
        status: "Pending",
        delay: 0,
        spent: 0,
        unknown: 0,
        skipped: 0,
        error: None,
    };
    match &settlement.fate {
        Fate::Published => Outcome { status: "Published", ..row },
        Fate::Retry { after, spent, unknown, skipped, error } => Outcome {
            delay: micros(*after).max(1),
            spent: i32::from(*spent),
            unknown: i32::from(*unknown),
            skipped: i32::from(*skipped),
            error: Some(error),
            ..row
        },
        Fate::Failed { error, skipped } => {
            Outcome { status: "Failed", spent: 1, skipped: i32::from(*skipped), error: Some(error), ..row }
        }
        Fate::Blocked => Outcome { delay: -1, ..row },
        Fate::PutBack => row,
    }
}

pub(crate) async fn settle(
    connection: &mut SqliteConnection,
    settlements: &[Settlement],
    delete_published: bool,
) -> Result<Settled, sqlx::Error> {
    let outcomes: Vec<_> = settlements.iter().map(outcome).collect();
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let rows = sqlx::query(SETTLE).bind(array(&outcomes)?).fetch_all(&mut *tx).await?;
    let mut passed = BTreeSet::new();
    let mut published = Vec::new();
    for row in &rows {
        let is_published = text(row, "status")? == "Published";
        if is_published && delete_published {
            published.push(text(row, "event_id")?);
        }
        let in_line = row.try_get::<Option<i64>, _>("sequence")?.is_some();
        if in_line && (is_published || row.try_get("skipped")?) {
            passed.insert((text(row, "aggregate_type")?, text(row, "aggregate_id")?));
        }
    }
    let pulled = pull(&mut tx, &passed).await?;
    if !published.is_empty() {
        sqlx::query(DELETE).bind(array(&published)?).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(Settled { settled: rows.len() as u64, pulled })
}

/// The lines of these keys go on.
pub(crate) async fn pull(
    connection: &mut SqliteConnection,
    keys: &BTreeSet<(String, String)>,
) -> Result<u64, sqlx::Error> {
    if keys.is_empty() {
        return Ok(0);
    }
    let keys: Vec<_> = keys.iter().collect();
    Ok(sqlx::query(PULL).bind(array(&keys)?).execute(connection).await?.rows_affected())
}

const _: () = assert!(WAITS == 9_223_372_036_854_775_807, "the statements spell it out");
