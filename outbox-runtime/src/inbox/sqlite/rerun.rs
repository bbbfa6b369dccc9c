//! Re-running parked messages (C2, C3).

use sqlx::{Row, SqliteConnection};

use crate::inbox::sqlite::dedup::stamp;
use crate::inbox::{ParkedClaim, ParkedRow, Reparked, Stamp};
use crate::store::sqlite::run;
use crate::store::sqlite::sql::{Together, micros, now, optional_text, text};

/// The messages of one consumer that are due and that nobody has.
macro_rules! due {
    () => {
        concat!(
            "consumer = ?1 AND status = 'Retrying' AND next_attempt_at <= ",
            now!(),
            " AND (locked_until IS NULL OR locked_until < ",
            now!(),
            ")"
        )
    };
}

/// A claim counts as an attempt before anything runs: a message that takes the process with it comes to an end. One whose last run came to
/// no end runs alone from then on, as one that the broker gave up on: it may be the one that kills, or stand beside it.
macro_rules! claim {
    ($alone:literal, $which:literal) => {
        concat!(
            "
UPDATE parked_messages
SET attempts = min(attempts + 1, 2147483647), isolated = ",
            $alone,
            ", locked_by = ?3, locked_until = ",
            now!(),
            " + ?4
WHERE parked_id IN (SELECT parked_id FROM parked_messages WHERE ",
            due!(),
            " AND ",
            $which,
            " ORDER BY next_attempt_at, parked_id LIMIT ?2)
RETURNING parked_id, event_id, body, properties, attempts, isolated"
        )
    };
}

pub(crate) const CLAIM: &str = claim!("0", "NOT (isolated OR locked_by IS NOT NULL)");
pub(crate) const CLAIM_ALONE: &str = claim!("1", "(isolated OR locked_by IS NOT NULL)");

/// Asked before anything is written, as [`ALONE_DUE`]: what finds nothing takes no lock.
pub(crate) const DUE: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM parked_messages WHERE ",
    due!(),
    " AND NOT (isolated OR locked_by IS NOT NULL))"
);

pub(crate) const ALONE_DUE: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM parked_messages INDEXED BY parked_messages_alone WHERE ",
    due!(),
    " AND (isolated OR locked_by IS NOT NULL))"
);

const TAKE: &str = "
DELETE FROM parked_messages WHERE parked_id = ?1 AND locked_by = ?2 AND status = 'Retrying' RETURNING consumer, event_id";

pub(crate) const BEGIN: &str = concat!(
    "UPDATE inbox_messages SET state = 'Processed', run = ?3, decided_at = ",
    now!(),
    " WHERE consumer = ?1 AND event_id = ?2 AND state = 'Retrying' RETURNING rowid"
);

const AGAIN: &str = concat!(
    "
UPDATE parked_messages
SET next_attempt_at = ",
    now!(),
    " + ?3, error = ?4, reason = 'handler failed', locked_by = NULL, locked_until = NULL
WHERE parked_id = ?1 AND locked_by = ?2 AND status = 'Retrying'"
);

const DEAD: &str = "
UPDATE parked_messages SET status = 'Dead', reason = ?3, error = ?4, locked_by = NULL, locked_until = NULL
WHERE parked_id = ?1 AND locked_by = ?2 AND status = 'Retrying' RETURNING consumer, event_id";

const DEAD_RECORD: &str = concat!(
    "UPDATE inbox_messages SET state = 'Dead', decided_at = ",
    now!(),
    " WHERE consumer = ?1 AND event_id = ?2 AND state = 'Retrying'"
);

const PUT_BACK: &str = concat!(
    "
UPDATE parked_messages SET attempts = max(attempts - 1, 0), locked_by = NULL, locked_until = NULL,
    next_attempt_at = max(next_attempt_at, ",
    now!(),
    " + ?3)
WHERE parked_id = ?1 AND locked_by = ?2 AND status = 'Retrying'"
);

pub(crate) async fn claim_parked(
    connection: &mut SqliteConnection,
    claim: &ParkedClaim,
) -> Result<Vec<ParkedRow>, sqlx::Error> {
    let (look, take) = if claim.alone { (ALONE_DUE, CLAIM_ALONE) } else { (DUE, CLAIM) };
    if !sqlx::query_scalar(look).bind(&claim.consumer).fetch_one(&mut *connection).await? {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(take)
        .bind(&claim.consumer)
        .bind(claim.limit)
        .bind(&claim.claim_id)
        .bind(micros(claim.lease))
        .fetch_all(connection)
        .await?;
    let mut parked = rows
        .iter()
        .map(|row| {
            Ok(ParkedRow {
                parked_id: row.try_get("parked_id")?,
                event_id: optional_text(row, "event_id")?,
                body: row.try_get("body")?,
                properties: text(row, "properties")?,
                attempts: row.try_get("attempts")?,
                isolated: row.try_get("isolated")?,
            })
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    parked.sort_by_key(|row| row.parked_id);
    Ok(parked)
}

pub(crate) async fn alone_due(connection: &mut SqliteConnection, consumer: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(ALONE_DUE).bind(consumer).fetch_one(connection).await
}

/// Takes the row and turns the dedup record to Processed.
pub(crate) async fn begin_rerun(
    connection: &mut SqliteConnection,
    parked_id: i64,
    claim_id: &str,
) -> Result<Option<Stamp>, sqlx::Error> {
    let taken = sqlx::query(TAKE).bind(parked_id).bind(claim_id).fetch_optional(&mut *connection).await?;
    let Some(taken) = taken else { return Ok(None) };
    let number = run::number();
    let begun: Option<i64> = sqlx::query_scalar(BEGIN)
        .bind(text(&taken, "consumer")?)
        .bind(optional_text(&taken, "event_id")?)
        .bind(number)
        .fetch_optional(&mut *connection)
        .await?;
    stamp(connection, begun, number).await
}

pub(crate) async fn repark(
    connection: &mut SqliteConnection,
    parked_id: i64,
    claim_id: &str,
    reparked: &Reparked,
) -> Result<bool, sqlx::Error> {
    let query = match reparked {
        Reparked::Again { after, error } => {
            sqlx::query(AGAIN).bind(parked_id).bind(claim_id).bind(micros(*after)).bind(error)
        }
        Reparked::PutBack { after } => sqlx::query(PUT_BACK).bind(parked_id).bind(claim_id).bind(micros(*after)),
        Reparked::Dead { reason, error } => {
            return dead(connection, parked_id, claim_id, reason.as_str(), error).await;
        }
    };
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

async fn dead(
    connection: &mut SqliteConnection,
    parked_id: i64,
    claim_id: &str,
    reason: &str,
    error: &str,
) -> Result<bool, sqlx::Error> {
    let mut together = Together::begin(connection).await?;
    let ended = sqlx::query(DEAD)
        .bind(parked_id)
        .bind(claim_id)
        .bind(reason)
        .bind(error)
        .fetch_optional(&mut *together)
        .await?;
    let Some(ended) = ended else {
        together.rollback().await?;
        return Ok(false);
    };
    sqlx::query(DEAD_RECORD)
        .bind(text(&ended, "consumer")?)
        .bind(optional_text(&ended, "event_id")?)
        .execute(&mut *together)
        .await?;
    together.commit().await?;
    Ok(true)
}
