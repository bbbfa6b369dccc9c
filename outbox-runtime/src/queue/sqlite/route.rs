//! Routing: claim, fan-out and settle in one transaction (S4, R1). The bodies never leave the database.

use std::collections::{BTreeSet, HashMap};

use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use crate::broker::topic::matches;
use crate::event::Unroutable;
use crate::outbox::sqlite::DUE;
use crate::queue::{RouteClaim, RoutedRow};
use crate::store::sqlite::sql::{age, array, bound, micros, now, text, time};

/// The byte budget always lets one row through. Nothing that a producer in plain SQL may have written fails the statement or its decoding:
/// one row would stop the relay for ever.
pub(crate) const TAKE: &str = concat!(
    "
WITH due AS MATERIALIZED (
    SELECT rowid AS number, event_id, next_attempt_at, payload_bytes FROM outbox_messages
    WHERE status = 'Pending' AND next_attempt_at <= ",
    now!(),
    " ORDER BY next_attempt_at, event_id LIMIT ?1
),
placed AS MATERIALIZED (
    SELECT number, row_number() OVER due_first AS place, sum(payload_bytes) OVER due_first AS total
    FROM due WINDOW due_first AS (ORDER BY next_attempt_at, event_id)
)
SELECT o.rowid AS number, o.event_id, o.event_type, o.exchange, o.routing_key, o.unroutable, o.attempt_count, o.max_attempts,
       o.occurred_at, o.enqueued_at, CASE WHEN json_valid(o.headers) THEN json_type(o.headers) END AS headers_type, ",
    now!(),
    " AS now
FROM placed CROSS JOIN outbox_messages AS o ON o.rowid = placed.number
WHERE placed.total <= ?2 OR placed.place = 1
ORDER BY placed.place"
);

pub(crate) const BINDINGS: &str =
    "SELECT exchange, queue, binding_key FROM queue_bindings WHERE exchange IN (SELECT value FROM json_each(?1))";

/// One queue row for each row number and queue, in their order.
pub(crate) const PUT: &str = "
INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                            occurred_at, enqueued_at)
SELECT j.value ->> 1, o.event_id, o.aggregate_id, o.event_type, o.event_version, ?2 || o.exchange, o.routing_key, o.envelope, o.payload,
       o.headers, o.occurred_at, o.enqueued_at
FROM json_each(?1) AS j CROSS JOIN outbox_messages AS o ON o.rowid = j.value ->> 0";

pub(crate) const PUBLISHED: &str = concat!(
    "UPDATE outbox_messages SET status = 'Published', last_error = NULL, published_at = ",
    now!(),
    " WHERE rowid IN (SELECT value FROM json_each(?1))"
);

/// What no queue wants, or cannot be sent, waits to be settled.
pub(crate) const HOLD: &str = concat!(
    "UPDATE outbox_messages SET status = 'Processing', locked_by = ?2, locked_until = ",
    now!(),
    " + ?3 WHERE rowid IN (SELECT value FROM json_each(?1))"
);

/// A due row, by its number in the table.
struct Due {
    number: i64,
    row: RoutedRow,
}

/// By exchange: queue and binding key.
type Bindings = HashMap<String, Vec<(String, String)>>;

pub(crate) async fn route_due(
    connection: &mut SqliteConnection,
    claim: &RouteClaim,
) -> Result<Vec<RoutedRow>, sqlx::Error> {
    if !sqlx::query_scalar(DUE).fetch_one(&mut *connection).await? {
        return Ok(Vec::new());
    }
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let rows =
        sqlx::query(TAKE).bind(bound(claim.limits.rows)).bind(bound(claim.limits.bytes)).fetch_all(&mut *tx).await?;
    let mut due = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    let bindings = bindings(&mut tx, &claim.prefix, &due).await?;

    let (mut puts, mut published, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for Due { number, row } in &mut due {
        let queues = queues(&bindings, &claim.prefix, row);
        row.queues = bound(queues.len());
        if queues.is_empty() { &mut held } else { &mut published }.push(*number);
        puts.extend(queues.into_iter().map(|queue| (*number, queue)));
    }
    if !published.is_empty() {
        sqlx::query(PUT).bind(array(&puts)?).bind(&claim.prefix).execute(&mut *tx).await?;
        sqlx::query(PUBLISHED).bind(array(&published)?).execute(&mut *tx).await?;
    }
    if !held.is_empty() {
        sqlx::query(HOLD)
            .bind(array(&held)?)
            .bind(&claim.claim_id)
            .bind(micros(claim.limits.lease))
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(due.into_iter().map(|due| due.row).collect())
}

async fn bindings(connection: &mut SqliteConnection, prefix: &str, due: &[Due]) -> Result<Bindings, sqlx::Error> {
    let exchanges: BTreeSet<String> = due.iter().map(|due| format!("{prefix}{}", due.row.exchange)).collect();
    let exchanges = array(&exchanges.into_iter().collect::<Vec<_>>())?;
    let mut bindings = Bindings::new();
    for row in sqlx::query(BINDINGS).bind(exchanges).fetch_all(connection).await? {
        let binding = (text(&row, "queue")?, text(&row, "binding_key")?);
        bindings.entry(text(&row, "exchange")?).or_default().push(binding);
    }
    Ok(bindings)
}

/// The queues that want a row, each once, whatever number of its bindings fit.
fn queues<'b>(bindings: &'b Bindings, prefix: &str, row: &RoutedRow) -> BTreeSet<&'b str> {
    if row.defect.is_some() {
        return BTreeSet::new();
    }
    let bound = bindings.get(&format!("{prefix}{}", row.exchange));
    bound
        .into_iter()
        .flatten()
        .filter(|(_, key)| matches(key, &row.routing_key))
        .map(|(queue, _)| queue.as_str())
        .collect()
}

fn decode(row: &SqliteRow) -> Result<Due, sqlx::Error> {
    let enqueued: i64 = row.try_get("enqueued_at")?;
    let headers: Option<String> = row.try_get("headers_type")?;
    let outside = |column: &str| Ok::<_, sqlx::Error>(time(row.try_get(column)?).is_none());
    let defect = if headers.as_deref() != Some("object") {
        Some("its headers are not a JSON object".to_owned())
    } else if outside("occurred_at")? {
        Some("its `occurred_at` is outside the years 1 to 9999".to_owned())
    } else if outside("enqueued_at")? {
        Some("its `enqueued_at` is outside the years 1 to 9999".to_owned())
    } else {
        None
    };
    Ok(Due {
        number: row.try_get("number")?,
        row: RoutedRow {
            event_id: text(row, "event_id")?,
            event_type: text(row, "event_type")?,
            exchange: text(row, "exchange")?,
            routing_key: text(row, "routing_key")?,
            queues: 0,
            age: age(row.try_get("now")?, enqueued),
            unroutable: Unroutable::from_name(&text(row, "unroutable")?).unwrap_or_default(),
            attempt_count: row.try_get("attempt_count")?,
            max_attempts: row.try_get("max_attempts")?,
            defect,
        },
    })
}
