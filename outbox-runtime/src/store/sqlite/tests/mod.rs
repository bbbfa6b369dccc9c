//! The store on real files.

mod admin;
mod inbox;
mod lines;
mod outbox;
mod plans;
mod queue;
mod run;
mod schema;

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};

use crate::broker::topology::Binding;
use crate::event::draft::{Content, Due};
use crate::event::{EventDescriptor, EventId, HeaderMap};
use crate::inbox::{InboxEntry, NewParked, ParkedStatus, Reason};
use crate::outbox::ClaimLimits;
use crate::queue::{QueueClaim, QueueRow, RouteClaim};
use crate::store::Store;

const EVENT: EventDescriptor = EventDescriptor::new("order.created", "OrderCreated", "tests", "tests.rs", 1);
const LEASE: Duration = Duration::from_secs(60);

/// A migrated database in a directory of its own, removed with it.
struct File {
    directory: tempfile::TempDir,
    pool: SqlitePool,
}

impl File {
    async fn new() -> Self {
        let file = Self::empty().await;
        Sqlite::migrate(&mut *file.connection().await).await.unwrap();
        file
    }

    async fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pool = SqlitePoolOptions::new().max_connections(3).connect_with(options(&directory)).await.unwrap();
        Self { directory, pool }
    }

    async fn connection(&self) -> PoolConnection<Sqlite> {
        self.pool.acquire().await.unwrap()
    }

    /// A statement of somebody else, on a connection of its own.
    async fn sql(&self, sql: &str) -> u64 {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap().rows_affected()
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    async fn text(&self, sql: &str) -> String {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    /// A row of a producer in plain SQL, due at `next_attempt_at`.
    async fn row(&self, event_id: &str, key: &str, next_attempt_at: i64, more: &[(&str, &str)]) {
        let (mut columns, mut values) = (String::new(), String::new());
        for (column, value) in more {
            columns += &format!(", {column}");
            values += &format!(", {value}");
        }
        self.sql(&format!(
            "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes,
             next_attempt_at{columns})
             VALUES ('{event_id}', 'order', 'a', '{key}', 'e', '{key}', '{{}}', 10, {next_attempt_at}{values})"
        ))
        .await;
    }
}

fn options(directory: &tempfile::TempDir) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(directory.path().join("test.db"))
        .create_if_missing(true)
        .busy_timeout(Duration::from_millis(200))
}

fn content(event_id: &str, payload: &str) -> Content {
    Content {
        event_id: EventId::parse(event_id).unwrap(),
        descriptor: EVENT,
        aggregate_id: "key \"1\" \u{1f980}".to_owned(),
        occurred_at: at(1_700_000_000_123_456),
        payload: payload.to_owned(),
        headers: HeaderMap::from([("tenant".to_owned(), "a\\b\"".into())]),
        correlation_id: Some("c".to_owned()),
        causation_id: None,
        trace: None,
        due: Due::Now,
    }
}

fn at(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap()
}

fn limits(rows: usize, bytes: usize) -> ClaimLimits {
    ClaimLimits { rows, bytes, lease: LEASE, since: None }
}

fn route(rows: usize, bytes: usize) -> RouteClaim {
    RouteClaim {
        claim_id: "relay".to_owned(),
        prefix: "n.".to_owned(),
        limits: limits(rows, bytes),
        delete_published: false,
    }
}

fn binding(queue: &str, key: &str) -> Binding {
    Binding { exchange: "n.e".to_owned(), queue: queue.to_owned(), key: key.to_owned() }
}

async fn take(connection: &mut SqliteConnection, queue: &str, claim_id: &str, lease: Duration) -> Vec<QueueRow> {
    let claim = QueueClaim { queue: queue.to_owned(), claim_id: claim_id.to_owned(), limit: 10, lease };
    Sqlite::claim_queue(connection, &claim).await.unwrap()
}

fn entry(event_id: &str) -> InboxEntry {
    InboxEntry {
        consumer: "c".to_owned(),
        event_id: event_id.to_owned(),
        enqueued_at: Some(at(1_700_000_000_000_000)),
        version: 1,
        fingerprint: [7; 16],
    }
}

fn parked(event_id: &str, status: ParkedStatus) -> NewParked {
    NewParked {
        consumer: "c".to_owned(),
        inbox: Some(entry(event_id)),
        ended: None,
        event_id: Some(event_id.to_owned()),
        event_type: None,
        body: vec![0, 255, 1],
        properties: "{}".to_owned(),
        status,
        reason: Reason::HandlerFailed,
        error: Some("no".to_owned()),
        attempts: 1,
        isolated: false,
        enqueued_at: entry(event_id).enqueued_at,
    }
}

const AGAIN: ParkedStatus = ParkedStatus::Retrying { after: Duration::ZERO };
