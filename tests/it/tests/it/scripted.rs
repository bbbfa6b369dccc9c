//! A handler that does what a test tells it, run by run, and a note of every run. For the faults of the consuming half.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outbox::{
    BoxError, ConsumerOptions, Enqueue, HandlerDescriptor, HandlerError, IdempotencyKey, Message, Outcome,
    RuntimeBuilder, State, handler, handlers,
};
use outbox_it::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::world::{OrderCreated, World, builder, effect};

/// What one run does, after it has written its effect.
#[derive(Debug, Clone)]
pub enum Act {
    /// Returns `Done`.
    Done,
    /// Returns an error that another run may cure.
    Fail(&'static str),
    /// Returns an error that none will.
    FailDead(&'static str),
    /// Returns this outcome.
    Return(Outcome),
    /// Panics.
    Panic(&'static str),
    /// Waits, then goes on with the next one.
    Sleep(Duration, Box<Act>),
    /// Runs SQL; its error is the run's error.
    Sql(&'static str, Box<Act>),
    /// Runs SQL and forgets its error.
    Swallow(&'static str, Box<Act>),
}

impl Act {
    pub fn sleep(millis: u64) -> Self {
        Self::Sleep(Duration::from_millis(millis), Box::new(Self::Done))
    }

    pub fn sql(sql: &'static str) -> Self {
        Self::Sql(sql, Box::new(Self::Done))
    }

    pub fn swallow(sql: &'static str) -> Self {
        Self::Swallow(sql, Box::new(Self::Done))
    }
}

/// One run as the handler saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub order: String,
    pub event_id: String,
    /// What the metadata says.
    pub attempt: u32,
    pub key: String,
    pub at: Instant,
}

type Plan = dyn Fn(&str, u32) -> Act + Send + Sync;

/// The plan, and the runs so far.
#[derive(Clone)]
pub struct Script {
    plan: Arc<Plan>,
    runs: Arc<Mutex<Vec<Seen>>>,
    counts: Arc<Mutex<HashMap<String, u32>>>,
}

impl Script {
    /// `plan` gets the order's id and the number of its run in this process, from 1.
    pub fn new(plan: impl Fn(&str, u32) -> Act + Send + Sync + 'static) -> Self {
        Self { plan: Arc::new(plan), runs: Arc::default(), counts: Arc::default() }
    }

    /// Every run of every order succeeds.
    pub fn done() -> Self {
        Self::new(|_, _| Act::Done)
    }

    pub fn runs(&self) -> Vec<Seen> {
        self.runs.lock().unwrap().clone()
    }

    pub fn runs_of(&self, order: usize) -> Vec<Seen> {
        let id = OrderCreated::number(order).order_id;
        self.runs().into_iter().filter(|seen| seen.order == id).collect()
    }

    /// Notes a run and says what it does.
    pub fn begin(&self, message: &Message<OrderCreated>, key: &IdempotencyKey) -> Act {
        let seen = Seen {
            order: message.event.order_id.clone(),
            event_id: message.metadata.event_id().to_string(),
            attempt: message.metadata.attempt(),
            key: key.to_string(),
            at: Instant::now(),
        };
        let run = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(seen.order.clone()).or_default();
            *count += 1;
            *count
        };
        let order = seen.order.clone();
        self.runs.lock().unwrap().push(seen);
        (self.plan)(&order, run)
    }
}

#[handler(consumer = "scripted")]
pub async fn scripted(
    message: Message<OrderCreated>,
    key: IdempotencyKey,
    script: State<Script>,
    db: &mut PgConnection,
) -> Result<Outcome, BoxError> {
    let mut act = script.begin(&message, &key);
    effect(db, "scripted", &message.event.order_id).await?;
    loop {
        act = match act {
            Act::Sleep(time, next) => {
                tokio::time::sleep(time).await;
                *next
            }
            Act::Sql(sql, next) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *db).await?;
                *next
            }
            Act::Swallow(sql, next) => {
                let _ = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *db).await;
                *next
            }
            last => return finish(last),
        };
    }
}

/// The end of a run whose steps are done.
pub fn finish(act: Act) -> Result<Outcome, BoxError> {
    match act {
        Act::Done => Ok(Outcome::Done),
        Act::Fail(error) => Err(error.into()),
        Act::FailDead(error) => Err(HandlerError::dead(error).into()),
        Act::Return(outcome) => Ok(outcome),
        Act::Panic(message) => panic!("{message}"),
        Act::Sleep(..) | Act::Sql(..) | Act::Swallow(..) => unreachable!("a step, not an end"),
    }
}

/// The handler, for builders that are not made here.
pub fn registry() -> [&'static HandlerDescriptor; 1] {
    handlers![scripted]
}

/// One immediate run, then 100 to 200 ms between parked ones, four runs together; runs of at most 20 s.
pub fn quick() -> ConsumerOptions {
    ConsumerOptions::new()
        .concurrency(4)
        .retry(1, (Duration::from_millis(100), Duration::from_millis(200)), 4)
        .timeout(Duration::from_secs(20))
}

/// A builder of that world with the scripted handler and these options.
pub fn runtime(world: &World, script: &Script, options: ConsumerOptions) -> RuntimeBuilder {
    runtime_at(&world.db.url(), world.vhost.url(), script, options)
}

/// The same by other ways to the servers.
pub fn runtime_at(database: &str, broker: &str, script: &Script, options: ConsumerOptions) -> RuntimeBuilder {
    builder(database, broker, registry()).state(script.clone()).consumer("scripted", options)
}

/// Enqueues one order under an id of the test's choice.
pub async fn enqueue_as(db: &TestDatabase, order: usize, event_id: &str) {
    let mut tx = db.pool().begin().await.unwrap();
    OrderCreated::number(order).enqueue_with(&mut tx, Enqueue::new().event_id(event_id)).await.unwrap();
    tx.commit().await.unwrap();
}

/// A row of `parked_messages`.
#[derive(Debug, Clone)]
pub struct Parked {
    pub event_id: Option<String>,
    pub status: String,
    pub reason: String,
    pub error: String,
    pub attempts: i32,
    pub isolated: bool,
    pub body: Vec<u8>,
    pub locked_by: Option<String>,
}

/// All parked messages, in the order of their arrival.
pub async fn parked(db: &TestDatabase) -> Vec<Parked> {
    let rows = sqlx::query(
        "SELECT event_id, status, reason, COALESCE(error, '') AS error, attempts, isolated, body, locked_by FROM parked_messages ORDER BY parked_id",
    )
    .fetch_all(db.pool())
    .await
    .unwrap();
    rows.iter()
        .map(|row| Parked {
            event_id: row.get("event_id"),
            status: row.get("status"),
            reason: row.get("reason"),
            error: row.get("error"),
            attempts: row.get("attempts"),
            isolated: row.get("isolated"),
            body: row.get("body"),
            locked_by: row.get("locked_by"),
        })
        .collect()
}

/// Effects of one order.
pub async fn effects_of(db: &TestDatabase, order: usize) -> i64 {
    db.count("effects", &format!("order_id = '{}'", OrderCreated::number(order).order_id)).await
}

/// The state of an event in the inbox.
pub async fn inbox_state(db: &TestDatabase, event_id: &str) -> Option<String> {
    sqlx::query_scalar("SELECT state FROM inbox_messages WHERE event_id = $1")
        .bind(event_id)
        .fetch_optional(db.pool())
        .await
        .unwrap()
}
