//! Routing: claim, fan-out and settle in one transaction (S4, R1, R6). The bodies never leave the database.

use std::collections::{BTreeSet, HashMap};

use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use crate::broker::topic::matches;
use crate::event::draft::MAX_BODY_BYTES;
use crate::outbox::sqlite::{DUE, budget, defer, line, pull};
use crate::queue::{RouteClaim, Routed, RoutedRow};
use crate::store::sqlite::sql::{age, array, micros, now, text, time};

/// Nothing that a producer in plain SQL may have written fails the statement or its decoding: one row would stop the relay for ever.
pub(crate) const READ: &str = concat!(
    "
SELECT o.rowid AS number, o.event_id, o.aggregate_type, o.aggregate_id, CASE WHEN NOT o.skipped THEN o.sequence END AS sequence, o.event_type,
       o.exchange, o.routing_key, o.unroutable, o.attempt_count, o.max_attempts, o.max_age, o.on_failed, o.backoff_first, o.backoff_longest,
       o.unknown_count, o.occurred_at, o.enqueued_at, CASE WHEN json_valid(o.headers) THEN json_type(o.headers) END AS headers_type, octet_length(o.payload) AS bytes, ",
    now!(),
    " AS now
FROM json_each(?1) AS j CROSS JOIN outbox_messages AS o ON o.rowid = j.value
ORDER BY j.key"
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

pub(crate) const DELETE: &str = "DELETE FROM outbox_messages WHERE rowid IN (SELECT value FROM json_each(?1))";

/// What no queue wants, or cannot be sent, waits to be settled.
pub(crate) const HOLD: &str = concat!(
    "UPDATE outbox_messages SET status = 'Processing', locked_by = ?2, locked_until = ",
    now!(),
    " + ?3 WHERE rowid IN (SELECT value FROM json_each(?1))"
);

/// A due row, by its number in the table and, if it has to keep its place, by its key.
struct Due {
    number: i64,
    key: Option<line::Key>,
    row: RoutedRow,
}

/// By exchange: queue and binding key.
type Bindings = HashMap<String, Vec<(String, String)>>;

pub(crate) async fn route_due(connection: &mut SqliteConnection, claim: &RouteClaim) -> Result<Routed, sqlx::Error> {
    if !sqlx::query_scalar(DUE).fetch_one(&mut *connection).await? {
        return Ok(Routed::default());
    }
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let plan = line::take(&mut tx, claim.limits.rows, claim.limits.bytes).await?;
    let mut waiting = plan.wait;
    let rows = sqlx::query(READ).bind(array(&plan.go)?).fetch_all(&mut *tx).await?;
    let mut due = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    let bindings = bindings(&mut tx, &claim.prefix, &due).await?;

    let (mut puts, mut published, mut held) = (Vec::new(), Vec::new(), Vec::new());
    // Keys whose line goes on, and those where a row stands still: the rows after it wait.
    let (mut passed, mut blocked) = (BTreeSet::new(), BTreeSet::new());
    due.retain_mut(|Due { number, key, row }| {
        if key.as_ref().is_some_and(|key| blocked.contains(key)) {
            waiting.push(*number);
            return false;
        }
        let queues = queues(&bindings, &claim.prefix, row);
        row.published = !queues.is_empty();
        if row.published { &mut published } else { &mut held }.push(*number);
        puts.extend(queues.into_iter().map(|queue| (*number, queue)));
        if let Some(key) = key {
            if row.published { &mut passed } else { &mut blocked }.insert(key.clone());
        }
        true
    });
    if !published.is_empty() {
        sqlx::query(PUT).bind(array(&puts)?).bind(&claim.prefix).execute(&mut *tx).await?;
        let end = if claim.delete_published { DELETE } else { PUBLISHED };
        sqlx::query(end).bind(array(&published)?).execute(&mut *tx).await?;
    }
    if !held.is_empty() {
        sqlx::query(HOLD)
            .bind(array(&held)?)
            .bind(&claim.claim_id)
            .bind(micros(claim.limits.lease))
            .execute(&mut *tx)
            .await?;
    }
    let deferred = defer(&mut tx, &waiting, &plan.look_again).await?;
    pull(&mut tx, &passed).await?;
    tx.commit().await?;
    Ok(Routed { rows: due.into_iter().map(|due| due.row).collect(), deferred, met: None })
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
    let bytes: i64 = row.try_get("bytes")?;
    let outside = |column: &str| Ok::<_, sqlx::Error>(time(row.try_get(column)?).is_none());
    let defect = if headers.as_deref() != Some("object") {
        Some("its headers are not a JSON object".to_owned())
    } else if bytes > MAX_BODY_BYTES as i64 {
        Some(format!("its body has {bytes} bytes, the limit is {MAX_BODY_BYTES}"))
    } else if outside("occurred_at")? {
        Some("its `occurred_at` is outside the years 1 to 9999".to_owned())
    } else if outside("enqueued_at")? {
        Some("its `enqueued_at` is outside the years 1 to 9999".to_owned())
    } else {
        None
    };
    let key = match row.try_get::<Option<i64>, _>("sequence")? {
        Some(_) => Some((text(row, "aggregate_type")?, text(row, "aggregate_id")?)),
        None => None,
    };
    Ok(Due {
        number: row.try_get("number")?,
        key,
        row: RoutedRow {
            event_id: text(row, "event_id")?,
            event_type: text(row, "event_type")?,
            exchange: text(row, "exchange")?,
            routing_key: text(row, "routing_key")?,
            published: false,
            age: age(row.try_get("now")?, enqueued),
            budget: budget(row)?,
            defect,
        },
    })
}
