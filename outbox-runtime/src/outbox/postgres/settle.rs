//! Settle: the outcomes of many batches in one statement, fenced by claim ids (R1, R7).

use sqlx::PgConnection;

use crate::outbox::postgres::claim::millis;
use crate::outbox::{Fate, Settlement};

/// Rows are locked in the order of their ids: two relays never wait for each other in a circle.
const SETTLE: &str = "
WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
outcome AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[], $6::text[])
      AS t (event_id, claim_id, status, delay, spent, error)
),
mine AS MATERIALIZED (
    SELECT o.event_id, t.status, t.delay, t.spent, t.error FROM outbox_messages o JOIN outcome t USING (event_id)
    WHERE o.status = 'Processing' AND o.locked_by = t.claim_id ORDER BY o.event_id FOR UPDATE OF o
)
UPDATE outbox_messages AS o
SET status = mine.status,
    published_at = CASE mine.status WHEN 'Published' THEN clock_timestamp() END,
    next_attempt_at = CASE WHEN mine.delay > 0 THEN clock_timestamp() + mine.delay * interval '1 millisecond' ELSE o.next_attempt_at END,
    attempt_count = LEAST(o.attempt_count::bigint + mine.spent, 2147483647)::integer,
    last_error = CASE WHEN mine.status = 'Published' THEN NULL ELSE COALESCE(mine.error, o.last_error) END,
    locked_by = NULL,
    locked_until = NULL
FROM mine, unflushed WHERE o.event_id = mine.event_id";

pub(crate) async fn settle(connection: &mut PgConnection, settlements: &[Settlement]) -> Result<u64, sqlx::Error> {
    let mut ids = Vec::with_capacity(settlements.len());
    let mut claims = Vec::with_capacity(settlements.len());
    let mut statuses = Vec::with_capacity(settlements.len());
    let mut delays = Vec::with_capacity(settlements.len());
    let mut spents = Vec::with_capacity(settlements.len());
    let mut errors = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let (status, delay, spent, error) = match &settlement.fate {
            Fate::Published => ("Published", 0, 0, None),
            Fate::Retry { after, spent, error } => {
                ("Pending", millis(*after).max(1), i32::from(*spent), Some(error.as_str()))
            }
            Fate::Failed { error } => ("Failed", 0, 1, Some(error.as_str())),
            Fate::PutBack => ("Pending", 0, 0, None),
        };
        ids.push(settlement.event_id.as_str());
        claims.push(settlement.claim_id.as_str());
        statuses.push(status);
        delays.push(delay);
        spents.push(spent);
        errors.push(error);
    }
    let done = sqlx::query(SETTLE)
        .bind(ids)
        .bind(claims)
        .bind(statuses)
        .bind(delays)
        .bind(spents)
        .bind(errors)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}
